"""What ends with a membership or an account, in words."""

from typing import Any

from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Any] = {
    "keys": _("runtime keys"),
    "tokens": _("personal tokens"),
    "invitations": _("invitations"),
    "links": _("links for passwords"),
    "agents": _("ownership of agents"),
    "identities": _("chat accounts"),
    "groups": _("places in groups"),
    "absences": _("absences"),
}


def tell(left: dict[str, list[str]]) -> str:
    """``{"keys": ["a", "b"]}`` as one line."""
    return "; ".join(f"{WORDS[kind]} ({', '.join(names)})" for kind, names in left.items())


def rows(left: dict[str, list[str]]) -> list[tuple[Any, list[str]]]:
    """The same as lines of a page: what it is, and its names."""
    return [(WORDS[kind], names) for kind, names in left.items()]
