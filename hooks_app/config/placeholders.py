"""``${NAME}``: values that a config file takes from the environment.

``$${NAME}`` is the text ``${NAME}`` itself (each more ``$`` in front stands for one): every value can be written.
An empty variable counts as unset, and ``NAME_FILE`` may name a file instead, as everywhere in the portal.
"""

import re
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from portal import environment

_PLACEHOLDER = re.compile(r"\$(\$*)\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Unset(Exception):
    """A placeholder whose variable has no value. ``message`` names the variable, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def fill(value: Any) -> Any:
    """``value`` with every placeholder in it replaced, at any depth. Raises :class:`Unset`."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(_replace, value)
    if isinstance(value, list):
        return [fill(item) for item in value]
    if isinstance(value, dict):
        return {key: fill(item) for key, item in value.items()}
    return value


def escape(value: Any) -> Any:
    """The inverse of :func:`fill`: ``value`` so written that nothing in it is replaced."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: "$" + match.group(0), value)
    if isinstance(value, list):
        return [escape(item) for item in value]
    if isinstance(value, dict):
        return {key: escape(item) for key, item in value.items()}
    return value


def _replace(match: re.Match[str]) -> str:
    if match.group(1):
        return match.group(0)[1:]
    name = match.group(2)
    try:
        value = environment.secret(name)
    except ImproperlyConfigured as error:
        raise Unset(str(error)) from None
    if not value:
        raise Unset(f"the environment variable {name} is not set; set it")
    return value


class Names:
    """Names for the placeholders of an export: ``ORG_CHANNEL_FIELD``, each used once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def make(self, *parts: str) -> str:
        """A new variable name from ``parts``; a number tells apart what would be spelled the same."""
        stem = re.sub(r"[^A-Z0-9]", "_", "_".join(parts).upper())
        if stem[0].isdigit():
            stem = f"_{stem}"
        name, count = stem, 1
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name
