"""Wake-ups: from whoever changed something to whoever waits for it, in any process.

:mod:`.wakeups` is the door, :mod:`.hub` the meeting place in this process, :mod:`.relays` the ways between processes.
It may import what observes, and the database's backends.
"""
