"""The requests that last: waits, event streams, and the quick answer to a runtime's poll.

Pure ASGI on the event loop, which reads rows through the threads that answer every request. It may import whatever the
API may, and the API; nothing imports it but settings, by name.
"""
