"""The portal's admin pages: who sees what (:mod:`.scoping`), and the screens of the base app."""

from portal.admin import groups, records, tokens

__all__ = ["groups", "records", "tokens"]
