"""The runtime for programs without asyncio: the same engine, on a loop in a thread of its own."""
