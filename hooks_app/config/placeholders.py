"""``${NAME}``: values that a config file takes from the environment.

Who writes a file need not be who runs the portal: which places are filled is :mod:`hooks_app.config.filling`'s to say,
and which variables :class:`Variables` hands out. ``$${`` is the text ``${`` itself (each more ``$`` in front stands for
one): every value can be written. An empty variable counts as unset, and ``NAME_FILE`` may name a file instead, as
everywhere in the portal.
"""

import re
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from hooks_app.config.errors import write_path
from portal import environment
from portal.lib.problems import FieldError

# Anchored before a run of $, so that a long run is looked at once and not from each of its signs.
_MARK = re.compile(r"(?<!\$)(\$+)\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What the portal itself is configured by: no file is ever given any of it.
_OWN = re.compile(r"(HOOKGATE_\w*|(DATABASE_URL|REDIS_URL)(_FILE)?)", re.IGNORECASE)

# Keys and indexes from the document to a value.
Location = tuple[int | str, ...]

_ESCAPE = "write $${ for the text itself"


class Refused(Exception):
    """A ``${`` that can't be replaced; ``code`` is ``unset``, ``placeholder`` or ``variable``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Placeholder(str):
    """A text that :func:`escape` leaves as it is."""

    __slots__ = ()


class Variables:
    """The environment variables that a file may name.

    With a ``prefix`` those whose names begin with it, without one any; the portal's own never.
    """

    def __init__(self, prefix: str | None = None) -> None:
        """Raises ``ValueError`` for a prefix that no name begins with."""
        if prefix is not None and not _NAME.fullmatch(prefix):
            raise ValueError("use the beginning of variable names, such as ACME_")
        self.prefix = prefix

    def fill(self, text: str) -> str:
        """``text`` with every placeholder replaced. Raises :class:`Refused`."""
        return _MARK.sub(lambda match: self._value(match), text)

    def check(self, text: str) -> None:
        """Raises :class:`Refused` as :meth:`fill` does, but for a variable that is only unset."""
        for match in _MARK.finditer(text):
            if len(match.group(1)) == 1:
                self._check(_name(match))

    def _check(self, name: str) -> None:
        if _OWN.fullmatch(name):
            raise Refused("variable", f"{name} is the portal's own and is given to no file; name another one")
        if self.prefix is not None and not name.startswith(self.prefix):
            raise Refused("variable", f"{name} does not begin with {self.prefix}; rename it, or {_ESCAPE}")

    def _value(self, match: re.Match[str]) -> str:
        if len(match.group(1)) > 1:
            return match.group(0)[1:]
        name = _name(match)
        self._check(name)
        try:
            value = environment.secret(name)
        except ImproperlyConfigured as error:
            raise Refused("unset", str(error)) from None
        if not value:
            raise Refused("unset", f"the environment variable {name} is not set; set it")
        return value


def _name(match: re.Match[str]) -> str:
    name: str | None = match.group(2)
    if name is None:
        raise Refused("placeholder", f"${{ begins a placeholder such as ${{ACME_TOKEN}}; {_ESCAPE}")
    return name


def names(text: str) -> list[str]:
    """The variables that ``text`` names, in its order."""
    return [match.group(2) for match in _MARK.finditer(text) if len(match.group(1)) == 1 and match.group(2)]


def read_literal(text: str) -> str:
    """What ``text`` says where nothing is replaced. Raises :class:`Refused` for a placeholder."""
    return _MARK.sub(_read_escaped, text)


def _read_escaped(match: re.Match[str]) -> str:
    if len(match.group(1)) > 1:
        return match.group(0)[1:]
    raise Refused(
        "placeholder",
        "${…} is replaced only in the secrets of a channel and in a member's password (with apply --env PREFIX in all"
        f" of a channel's config); {_ESCAPE}",
    )


def each(
    value: Any,
    read: Callable[[str], str],
    at: Location,
    faults: list[FieldError],
    skipped: Callable[[Location], bool] = lambda at: False,
) -> Any:
    """``value``, which stands at ``at``, with every text in it read by ``read``; keys say themselves.

    What ``read`` refuses is added to ``faults`` and stays as it is, and so does what ``skipped`` says, without a fault.
    """
    if skipped(at):
        return value
    if isinstance(value, str):
        return _read(value, read, at, faults)
    if isinstance(value, list):
        return [each(item, read, (*at, index), faults, skipped) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            _read(key, read_literal, (*at, key), faults): each(item, read, (*at, key), faults, skipped)
            for key, item in value.items()
        }
    return value


def _read(text: str, read: Callable[[str], str], at: Location, faults: list[FieldError]) -> str:
    try:
        return read(text)
    except Refused as refused:
        faults.append(FieldError(write_path(at), refused.code, refused.message))
        return text


def escape(value: Any) -> Any:
    """The inverse of :func:`read_literal`: ``value`` so written that only a :class:`Placeholder` is one."""
    if isinstance(value, Placeholder):
        return str(value)
    if isinstance(value, str):
        return _MARK.sub(lambda match: "$" + match.group(0), value)
    if isinstance(value, list):
        return [escape(item) for item in value]
    if isinstance(value, dict):
        return {escape(key): escape(item) for key, item in value.items()}
    return value


def prefix_of(slug: str) -> str:
    """How the variables of an organization begin: ``ACME_``."""
    return f"{_spell(slug)}_"


def _spell(*parts: str) -> str:
    stem = re.sub(r"[^A-Z0-9]", "_", "_".join(parts).upper())
    return f"_{stem}" if stem[:1].isdigit() else stem


class Names:
    """Names for the placeholders of an export: ``ORG_CHANNEL_FIELD``, each used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def make(self, *parts: str) -> Placeholder:
        """A new variable, named from ``parts``; a number tells apart what would be spelled the same."""
        stem = _spell(*parts)
        name, count = stem, 1
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return Placeholder(f"${{{name}}}")
