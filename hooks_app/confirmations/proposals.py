"""What a runtime asks for: the bounded, canonical content of ``POST /confirmations``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from uuid import UUID

from hookgate import addresses, call_ids, canonical, redaction

from portal import contract
from portal.lib.problems import FieldError, Problem, invalid

MAX_ARGS_BYTES = 256 * 1024
MAX_SUMMARY = 2000
# What the columns hold, by field; of a long id they hold the short form.
_LIMITS = {
    "conversation_id": call_ids.LONGEST,
    "tool_call_id": call_ids.LONGEST,
    "tool_name": 200,
    "hook": 100,
    "registry_digest": 80,
    "summary": MAX_SUMMARY,
    "initiator.id": 200,
    "initiator.name": 200,
    "initiator.email": 254,
    "channel": 64,
    "policy": 64,
}
_OPTIONAL = {"summary", "channel", "policy", "initiator.name", "initiator.email"}


@dataclass(frozen=True)
class Initiator:
    """The end user for whom the agent acts, as the runtime names it."""

    id: str
    name: str | None = None
    email: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """The resource's ``initiator``, its address in the normal form."""
        return {"id": self.id, "name": self.name, "email": addresses.find(self.email) or self.email}


@dataclass(frozen=True)
class NewRequest:
    """One suspended tool call as it arrives. ``parent`` is the request of the call that delegated."""

    conversation_id: str
    tool_call_id: str
    tool_name: str
    tool_args: dict[str, Any]
    registry_digest: str
    hook: str = "approval_gate"
    initiator: Initiator | None = None
    summary: str | None = None
    timeout_seconds: int | None = None
    channel: str | None = None
    policy: str | None = None
    parent: UUID | None = None
    # The version of the contract that the caller speaks, and what one of before paths would have sent as tool_call_id.
    contract: int = contract.VERSION
    older_id: str | None = None

    def initiator_json(self) -> dict[str, str | None] | None:
        """The initiator as it is stored and compared."""
        return self.initiator.to_json() if self.initiator else None


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, looked through once: as JSON, in canonical form, and the digest of that."""

    value: dict[str, Any]
    canonical: bytes
    digest: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> Self:
        """Raises ``canonical.NotCanonical``, its paths without a prefix."""
        form = canonical.canonicalize(value)
        return cls(value, form, canonical.digest_of(form))

    def redacted(self, paths: Sequence[str]) -> "Arguments":
        """What people see: the values at ``paths`` hidden; these very ones where there is nothing to hide."""
        shown = redaction.redact(self.value, paths) if paths else self.value
        return self if shown == self.value else Arguments.of(shown)


def normal(initiator: dict[str, str | None] | None) -> dict[str, str | None] | None:
    """A stored initiator as :meth:`Initiator.to_json` gives it; one that an older release stored is as it was sent."""
    return (
        {**initiator, "email": addresses.find(initiator["email"]) or initiator["email"]}
        if initiator
        else None
    )


def shortened(request: NewRequest) -> NewRequest:
    """A checked request with its ids as they are stored and compared."""
    return replace(
        request,
        conversation_id=call_ids.shorten(request.conversation_id),
        tool_call_id=call_ids.shorten(request.tool_call_id),
        older_id=call_ids.without_path(request.tool_call_id),
    )


def check(request: NewRequest) -> Arguments:
    """Refuse what is out of bounds; return the arguments.

    Raises 400 ``invalid`` with every field at fault, 400 ``args_not_canonical`` with the path, 413 ``too_large``.
    """
    errors = [error for path, value in _texts(request) if (error := _text_error(path, value))]
    errors += _identity_errors(request.initiator)
    timeout = request.timeout_seconds
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1):
        errors.append(FieldError("timeout_seconds", "invalid", "Send a whole number of seconds from 1."))
    if not isinstance(request.tool_args, dict):
        errors.append(FieldError("tool_args", "invalid", "Send an object: the arguments by name."))
    if errors:
        raise invalid(*errors)
    return _arguments(request.tool_args)


def _arguments(args: dict[str, Any]) -> Arguments:
    try:
        found = Arguments.of(args)
    except canonical.NotCanonical as error:
        path = f"tool_args{'' if not error.path or error.path.startswith('[') else '.'}{error.path}"
        raise Problem(
            400,
            "args_not_canonical",
            f"{path}: {error.message}",
            errors=[FieldError(path, "args_not_canonical", error.message)],
        ) from error
    size = len(found.canonical)
    if size > MAX_ARGS_BYTES:
        raise Problem(
            413,
            "too_large",
            f"tool_args: {size} bytes of canonical JSON; at most {MAX_ARGS_BYTES} are taken.",
        )
    return found


def _texts(request: NewRequest) -> list[tuple[str, Any]]:
    texts = [(path, getattr(request, path)) for path in _LIMITS if "." not in path]
    if request.initiator:
        texts += [(f"initiator.{key}", value) for key, value in request.initiator.to_json().items()]
    return texts


def _identity_errors(initiator: Initiator | None) -> list[FieldError]:
    """What could name a person to people and nobody, or somebody else, to the portal."""
    if initiator is None:
        return []
    errors = []
    fits = isinstance(initiator.email, str) and len(initiator.email) <= _LIMITS["initiator.email"]
    if fits and addresses.find(initiator.email) is None:
        errors.append(FieldError("initiator.email", "invalid", str(addresses.NotAnAddress())))
    if isinstance(initiator.id, str) and (
        initiator.id != initiator.id.strip() or addresses.is_unseen(initiator.id)
    ):
        message = "has blanks around it, or invisible characters; send the id alone"
        errors.append(FieldError("initiator.id", "invalid", message))
    return errors


def _text_error(path: str, value: Any) -> FieldError | None:
    if value is None and path in _OPTIONAL:
        return None
    if not isinstance(value, str):
        return FieldError(path, "invalid", "Send a string.")
    if not value and path not in _OPTIONAL:
        return FieldError(path, "required", "Send a text that is not empty.")
    if len(value) > _LIMITS[path]:
        return FieldError(path, "too_long", f"Send at most {_LIMITS[path]} characters.")
    try:
        canonical.check(value)
    except canonical.NotCanonical as error:
        return FieldError(path, "invalid", f"The text {error.message}.")
    return None
