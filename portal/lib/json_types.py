"""How values in answers are described in JSON Schema, beside their Python types."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import WithJsonSchema

Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Object = dict[str, Any]


def one_of(words: Iterable[str]) -> WithJsonSchema:
    """For ``Annotated[str, ...]``: a text that is one of these words."""
    return WithJsonSchema({"type": "string", "enum": list(words)})
