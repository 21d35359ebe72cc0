"""The way to the portal: one client with typed errors and bounded time, event streams, waits for many requests.

It knows HTTP and the contract's words, and no hook.
"""
