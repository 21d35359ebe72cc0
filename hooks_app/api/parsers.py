"""The request body: strict JSON, and a typed model of it."""

from collections.abc import Mapping
from typing import IO, Any, TypeVar

from django.http import HttpRequest, QueryDict
from hookgate import canonical
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from rest_framework.parsers import BaseParser

from portal.api import bodies
from portal.lib.problems import FieldError, Problem, invalid

B = TypeVar("B", bound=BaseModel)

# What pydantic calls the error → what our clients read.
_CODES = {
    "missing": "required",
    "extra_forbidden": "unknown_field",
    "string_too_long": "too_long",
    "string_too_short": "too_short",
    "too_long": "too_long",
    "too_short": "too_short",
    "literal_error": "not_a_choice",
}
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a field here; take it out",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


class StrictJSONParser(BaseParser):
    """Says which media type the API takes, and reads it as :func:`loads` does."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The value of a stream of at most 1 MiB."""
        return loads(stream.read(bodies.BODY_LIMIT))


def loads(body: bytes, *, max_depth: int = canonical.MAX_DEPTH) -> Any:
    """Parse I-JSON: no NaN, huge integer, lone surrogate, NUL or duplicate key, bounded depth.

    Raises 400: ``args_not_canonical`` when the fault lies inside ``tool_args``, else ``invalid``; both with the path.
    """
    try:
        return canonical.loads(body, max_depth=max_depth)
    except canonical.NotCanonical as error:
        raise not_canonical(error) from None


def not_canonical(error: canonical.NotCanonical) -> Problem:
    """The problem for a value that has no canonical form."""
    path = error.path or "body"
    inside_args = path == "tool_args" or path.startswith(("tool_args.", "tool_args["))
    return Problem(
        400,
        "args_not_canonical" if inside_args else "invalid",
        f"{path}: {error.message}",
        errors=[FieldError(path, "not_canonical", error.message)],
    )


def read(
    request: HttpRequest,
    model: type[B],
    *,
    limit: int = bodies.BODY_LIMIT,
    max_depth: int = canonical.MAX_DEPTH,
) -> B:
    """The body as ``model``. Raises 413, 415, and 400 naming every field at fault."""
    body = bodies.read(request, limit=limit)
    return check(model, loads(body, max_depth=max_depth) if body else {})


def read_query(query: QueryDict, model: type[B]) -> B:
    """The query parameters as ``model``; naming one twice is an error. Raises 400 naming every field at fault."""
    repeated = [name for name, values in query.lists() if len(values) > 1]
    if repeated:
        raise invalid(*(FieldError(name, "repeated", "is given more than once") for name in repeated))
    return check(model, query.dict())


def check(model: type[B], value: Any) -> B:
    """``value`` as ``model``. Raises 400 ``invalid`` naming every field at fault."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid(*(_field_error(item) for item in error.errors(include_url=False)[:100])) from None


def _field_error(item: ErrorDetails) -> FieldError:
    kind = item["type"]
    code = _CODES.get(kind, "wrong_type" if kind.endswith("_type") else "invalid")
    message = _MESSAGES.get(kind) or item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return FieldError(_path(item["loc"]) or "body", code, message)


def _path(parts: tuple[int | str, ...]) -> str:
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            name = part.encode("utf-8", "backslashreplace").decode()[:200]
            path += f".{name}" if path else name
    return path
