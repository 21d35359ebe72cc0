"""Refusals that reach a client as ``application/problem+json`` (RFC 9457)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict


class ProblemField(TypedDict):
    """One field at fault."""

    path: str
    code: str
    message: str


@dataclass(frozen=True)
class FieldError:
    """One field at fault. ``path`` is dotted with ``[n]`` for list items; ``message`` names the remedy."""

    path: str
    code: str
    message: str

    def to_json(self) -> ProblemField:
        """The entry of ``errors``."""
        return {"path": self.path, "code": self.code, "message": self.message}


class ProblemDocument(TypedDict):
    """Why the request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: NotRequired[list[ProblemField]]


class Problem(Exception):
    """A request that is refused. ``code`` is the contract's word, ``detail`` is for people and holds no secret."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after

    def to_json(self) -> ProblemDocument:
        """The problem document."""
        body: ProblemDocument = {
            "type": f"urn:hookgate:problem:{self.code}",
            "title": self.code.replace("_", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.errors:
            body["errors"] = [error.to_json() for error in self.errors]
        return body


def invalid(*errors: FieldError) -> Problem:
    """400 ``invalid`` for the given fields."""
    return Problem(400, "invalid", "; ".join(f"{e.path}: {e.message}" for e in errors), errors=errors)


def not_found() -> Problem:
    """404, for what doesn't exist and for what is out of the caller's reach alike."""
    return Problem(404, "not_found", "There is no such thing here.")
