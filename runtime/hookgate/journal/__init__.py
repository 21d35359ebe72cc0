"""The call log on this side: entries on disk until the portal has them.

:mod:`.record` is what a call's entry is written from. It may import the registry and the way to the portal.
"""
