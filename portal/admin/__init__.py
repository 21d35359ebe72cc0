"""The portal's admin pages: who sees what (:mod:`.scoping`), and the screens of the base app."""

from portal.admin import groups, people, records, tokens

__all__ = ["groups", "people", "records", "tokens"]
