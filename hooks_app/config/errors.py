"""What can be wrong with a config file, and how it is said: ``PATH: MESSAGE`` for every place at fault."""

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from portal.lib import nearest
from portal.lib.problems import FieldError

# Pydantic's words name Python's types; a config file's author thinks in YAML's.
_WORDS = {
    "missing": "is required",
    "string_type": "must be a text; put it in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "string_too_long": "has at most {max_length} characters",
    "string_too_short": "must not be empty",
    "too_short": "needs at least {min_length} entry",
    "too_long": "has at most {max_length} entries",
    "finite_number": "must be a number",
}


class ConfigInvalid(Exception):
    """A config file that can't be applied. ``errors`` name every place at fault; nothing was changed."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("\n".join(f"{error.path}: {error.message}" for error in errors))
        self.errors = tuple(errors)


def write_path(location: Iterable[int | str]) -> str:
    """``("agents", 1, "slug")`` as ``agents[1].slug``; the document itself is ``(document)``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path or "(document)"


def in_order(found: Iterable[FieldError], document: Any) -> list[FieldError]:
    """The errors in the order of the file; a key that is missing stands with the object that lacks it."""
    places = {path: place for place, path in enumerate(_paths(document, ()))}
    return sorted(found, key=lambda error: _place(error.path, places))


def _paths(node: Any, location: tuple[int | str, ...]) -> Iterator[str]:
    yield write_path(location)
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _paths(value, (*location, key))


def _place(path: str, places: dict[str, int]) -> int:
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path, 0)


def from_validation(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """Every finding of pydantic in our words; ``model`` is the one that refused. Never repeats a value."""
    found = []
    for item in error.errors(include_url=False, include_input=False):
        # "[key]" is how pydantic marks that a mapping's key, not its value, is at fault.
        at_key = "[key]" in item["loc"]
        location = [part for part in item["loc"] if part != "[key]"]
        kind = "extra_forbidden" if at_key else item["type"]
        found.append(FieldError(write_path(location), kind, _say(kind, item, location, model)))
    return found


def _say(kind: str, item: Any, location: list[int | str], model: type[BaseModel]) -> str:
    if kind == "extra_forbidden":
        return _say_unknown(str(location[-1]), _known_keys(location[:-1], model))
    words = _WORDS.get(kind)
    message = str(item["msg"])
    return message if words is None else words.format(**item.get("ctx", {}))


def _say_unknown(key: str, known: list[str]) -> str:
    near = nearest.ask(nearest.find(key, known, count=1))
    if near:
        return f"unknown key; {near}"
    return f"unknown key; known here: {', '.join(known)}" if known else "unknown key; remove it"


def _known_keys(location: list[int | str], model: Any) -> list[str]:
    """The keys of the object at ``location``, found by walking the models' annotations."""
    for part in location:
        if isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            model = next(
                (
                    field.annotation
                    for name, field in model.model_fields.items()
                    if part == (field.alias or name)
                ),
                None,
            )
        else:
            model = get_args(model)[-1] if get_args(model) else None
        model = _without_none(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    keys = get_args(model)[:1] if get_origin(model) is dict else ()
    return [str(word) for word in get_args(keys[0])] if keys else []


def _without_none(model: Any) -> Any:
    if isinstance(model, types.UnionType):
        return next(part for part in get_args(model) if part is not type(None))
    return model
