"""One agent at work for one user: sessions, their calls, approvals and delegates, and what all sessions share.

It may import everything but the loops and the plain runtime.
"""
