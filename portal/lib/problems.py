"""Refusals that reach a client as ``application/problem+json`` (RFC 9457)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldError:
    """One field at fault. ``path`` is dotted with ``[n]`` for list items; ``message`` names the remedy."""

    path: str
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        """The entry of ``errors``."""
        return {"path": self.path, "code": self.code, "message": self.message}


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

    def to_json(self) -> dict[str, Any]:
        """The problem document."""
        body: dict[str, Any] = {
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
