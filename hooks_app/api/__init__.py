"""The REST API: views, the bodies that they take and the documents that they answer with.

A view finds its rows through :mod:`.lookups`, states what it needs of its caller in ``permits``, and describes itself
with :func:`.openapi.describe`. It may import everything of this app but the pages; what lasts is in ``live``.
"""
