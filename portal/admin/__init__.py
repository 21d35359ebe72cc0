"""The portal's admin pages: who sees what (:mod:`.scoping`), and the screens of the base app."""

from portal.admin import records, tokens

__all__ = ["records", "tokens"]
