"""Running hooks and tools: in order, for a bounded time, whatever foreign code does.

Pure of the portal: it may import what a hook is told and what it says, and what matches.
"""
