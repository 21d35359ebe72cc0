"""Canonical JSON: what may be digested, and the digest.

The accepted values are those of I-JSON (RFC 7493), the canonical form is RFC 8785, a digest is
``sha256:`` followed by lower-case hex. Both ends of the wire use this module, so that "the same
arguments" has one meaning.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Final, NoReturn

import rfc8785

from hookgate.copying import Copied

MAX_DEPTH: Final = 32
MAX_INTEGER: Final = 2**53 - 1
# Canonical JSON writes a float below this without an exponent, i.e. as an integer literal.
_EXPONENT_FROM: Final = 1e21
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


class NotCanonical(Copied, ValueError):
    """A value has no canonical form.

    ``path`` names the place (``tool_args.items[3].x``; empty for the whole), ``message`` the reason.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class _RepeatedKey(dict[str, Any]):
    """An object that named a key twice; kept until the walk knows its path."""

    key: str = ""


class _HugeInteger:
    """An integer literal too long to be worth converting."""


def loads(data: bytes | str, *, path: str = "", max_depth: int = MAX_DEPTH) -> Any:
    """Parse I-JSON strictly.

    ``path`` is put in front of the paths in errors. ``max_depth`` bounds the nesting of arrays and
    objects; raise it by the depth of the envelope when the arguments are a part of ``data``.
    Raises NotCanonical for everything else than one I-JSON value.
    """
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotCanonical(path, f"not UTF-8 (byte {error.start})") from None
    try:
        value = json.loads(data, object_pairs_hook=_read_object, parse_int=_read_integer)
    except RecursionError:
        raise NotCanonical(path, f"nested deeper than {max_depth} levels") from None
    except ValueError as error:
        raise NotCanonical(path, f"not JSON ({error})") from None
    check(value, path=path, max_depth=max_depth)
    return value


def check(value: Any, *, path: str = "", max_depth: int = MAX_DEPTH) -> None:
    """Raise NotCanonical unless ``value`` is I-JSON: no NaN or infinity, no number that reads as an
    integer beyond ±(2^53-1), no lone surrogate or NUL character, string keys, bounded depth."""
    if not _passes(value, max_depth):
        _check(value, path, max_depth)


def canonicalize(value: Any) -> bytes:
    """The RFC 8785 form of ``value``. Raises NotCanonical."""
    check(value)
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """``sha256:<hex>`` of the canonical form. Raises NotCanonical."""
    return digest_of(canonicalize(value))


def digest_of(canonical_form: bytes) -> str:
    """The digest of what `canonicalize` gave."""
    return "sha256:" + hashlib.sha256(canonical_form).hexdigest()


def clean(text: str, limit: int) -> str:
    """``text`` as every reader of I-JSON takes it, cut to ``limit`` characters: NUL characters and lone
    surrogates become U+FFFD."""
    return (
        text[:limit].replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def copy(value: Any) -> Any:
    """A deep copy of a value that `check` accepts; cheaper than ``copy.deepcopy``."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeated = _RepeatedKey(value)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _read_integer(text: str) -> Any:
    # int() refuses very long literals with an error that names no place; the walk names it.
    return int(text) if len(text) <= 17 else _HugeInteger()


def _passes(value: Any, depth_left: int) -> bool:
    """A quick yes for plain values, without paths, which cost more than the rest. No means: look closely."""
    kind = type(value)
    if kind is str:
        return _is_text(value)
    if kind is int or kind is float:
        return bool(-MAX_INTEGER <= value <= MAX_INTEGER)
    if value is None or kind is bool:
        return True
    if depth_left < 1 or (kind is not list and kind is not dict):
        return False
    for key in value if kind is dict else ():
        if type(key) is not str or not _is_text(key):
            return False
    for item in value.values() if kind is dict else value:  # noqa: SIM110  (a generator takes twice as long)
        if not _passes(item, depth_left - 1):
            return False
    return True


def _is_text(value: str) -> bool:
    if "\x00" in value:
        return False
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check(value: Any, path: str, depth_left: int) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            _refuse_integer(path)
    elif isinstance(value, float):
        _check_float(value, path)
    elif isinstance(value, dict):
        _check_object(value, path, depth_left)
    elif isinstance(value, list):
        if depth_left < 1:
            raise NotCanonical(path, "nested too deep")
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth_left - 1)
    elif isinstance(value, _HugeInteger):
        _refuse_integer(path)
    else:
        raise NotCanonical(path, f"{type(value).__name__} is not a JSON type")


def _check_object(value: dict[Any, Any], path: str, depth_left: int) -> None:
    if depth_left < 1:
        raise NotCanonical(path, "nested too deep")
    if isinstance(value, _RepeatedKey):
        raise NotCanonical(_join(path, value.key), "the key appears more than once in its object")
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotCanonical(path, f"the key {key!r} is not a string")
        where = _join(path, key)
        _check_text(key, where)
        _check(item, where, depth_left - 1)


def _check_text(value: str, path: str) -> None:
    if "\x00" in value:
        raise NotCanonical(_printable(path), "contains a NUL character")
    if not _is_text(value):
        raise NotCanonical(_printable(path), "contains a lone surrogate")


def _check_float(value: float, path: str) -> None:
    if not math.isfinite(value):
        raise NotCanonical(path, "NaN and infinity are not JSON")
    # 1e20 would be written as 100000000000000000000, which no reader may accept again.
    if MAX_INTEGER < abs(value) < _EXPONENT_FROM:
        _refuse_integer(path)


def _refuse_integer(path: str) -> NoReturn:
    raise NotCanonical(path, "the integer lies beyond ±(2^53-1); send it as a string")


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.match(key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def _printable(path: str) -> str:
    # A path that holds the very surrogate it complains about could not be logged or sent.
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
