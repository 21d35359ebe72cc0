"""Entries of the call log (contract section 4.3)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final, Literal

from hookgate import canonical, redaction
from hookgate.catalogue.limits import shorten
from hookgate.journal.record import CallRecord
from hookgate.result_text import as_text

# What the portal takes; a longer text must not cost the whole entry.
_SHORT: Final = 200
_LONG: Final = 10_000
_MANY: Final = 1000
_MAX_ARGS: Final = 256 * 1024
# Made once: `json.dumps` makes one for every call.
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
# Characters of a result that is kept.
_MAX_RESULT: Final = 32_000
_DIED: Final = {
    "cancelled": "the process ended before the tool began",
    "unknown": "the process ended while the tool ran, or just before",
}


def write_mark(
    call: CallRecord, status: Literal["cancelled", "unknown"], *, redact: tuple[str, ...]
) -> dict[str, Any]:
    """The entry that a call gets when its process dies now."""
    entry = write(call, redact=redact)
    return {**entry, "status": status, "reason": _DIED[status], "duration_ms": None, "result_bytes": None}


def write(call: CallRecord, *, redact: tuple[str, ...], results: bool = False) -> dict[str, Any]:
    """The entry of a call as it is now. ``redact`` are paths beside the tool's own; ``results`` keeps the
    result as well, redacted and shortened."""
    by, manifest = call.by, call.manifest
    paths = (*(call.tool.redact if call.tool else ()), *redact)
    args, args_digest = _read_args(call, paths)
    entry = {
        "id": call.id,
        "agent": manifest.agent.slug if manifest else by.agent,
        "session_id": by.session_id,
        "conversation_id": by.conversation_id,
        "tool_call_id": call.key,
        "tool_name": canonical.clean(call.name, _SHORT) or "?",
        "user": by.initiator,
        "surface": by.surface,
        "status": call.status,
        "blocked_by": call.blocked_by and canonical.clean(call.blocked_by, 100),
        "reason": call.reason and canonical.clean(call.reason, _LONG),
        "error": call.error and canonical.clean(call.error, _LONG),
        "started_at": _write_time(call.started_at),
        "duration_ms": round(call.duration_ms, 3),
        "args": args,
        "args_digest": args_digest,
        "result_bytes": _measure(call.result),
        "confirmation_id": call.confirmation_id,
        "registry_digest": manifest.digest if manifest else None,
        "trace": [
            {**part, "hook": canonical.clean(part["hook"], 100), "ms": round(part["ms"], 3)}
            for part in call.merged.trace[:_MANY]
        ],
        "side_effects": [canonical.clean(text, _LONG) for text in call.merged.side_effects[:_MANY]],
    }
    if results and call.result is not None:
        # A hook that should have masked it has failed: then nobody is to read it.
        entry["result"] = {"omitted": "withheld"} if call.withheld else _write_result(call.result, paths)
    return entry


def dump(entry: dict[str, Any]) -> bytes:
    """An entry as one line of JSON."""
    return _encode(entry).encode("utf-8", "replace")


def _read_args(call: CallRecord, paths: tuple[str, ...]) -> tuple[Any, str]:
    """The redacted arguments and the digest of the whole ones; worked out once, a call has several entries."""
    known = call.logged_args
    if known is not None and known[0] is call.args and known[1] == paths:
        return known[2], known[3]
    written = canonical.canonicalize(call.args)
    redacted: Any = {"omitted": f"{len(written)} bytes"}
    if len(written) <= _MAX_ARGS:
        redacted = redaction.redact(call.args, paths, secret_keys=redaction.SECRET_KEYS)
    call.logged_args = (call.args, paths, redacted, canonical.digest_of(written))
    return call.logged_args[2:]


def _write_result(result: Any, paths: tuple[str, ...]) -> Any:
    """A result as others may read it. JSON in a text is redacted as what it says."""
    if isinstance(result, bytes):
        return {"omitted": f"{len(result)} bytes"}
    text = as_text(result)
    value: Any = text
    if not isinstance(result, str) or text.lstrip()[:1] in ("{", "["):
        try:
            value = canonical.loads(text)
        except canonical.NotCanonical:
            # What has a shape in which nothing can be found to hide is hidden as a whole.
            if not isinstance(result, str) or _is_json(text):
                return {"omitted": "not canonical JSON"}
        else:
            value = redaction.redact(value, paths, secret_keys=redaction.SECRET_KEYS)
    shortened = shorten(value, _MAX_RESULT)
    return canonical.clean(shortened, _MAX_RESULT) if isinstance(shortened, str) else shortened


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _measure(result: Any) -> int:
    """The size of a result's text in bytes; 0 for no result."""
    if result is None:
        return 0
    if isinstance(result, bytes):
        return len(result)
    return len(as_text(result).encode("utf-8", "surrogatepass"))


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
