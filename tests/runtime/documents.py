"""Manifests as the portal would serve them."""

from __future__ import annotations

import uuid
from typing import Any

from hookgate.catalogue import CATALOGUE
from hookgate.registry.manifest import manifest_digest

PAY = {
    "name": "oa__purchase_pay",
    "connector": "oa",
    "writes": True,
    "requires_confirmation": True,
    "redact": ["card_number"],
}
READ = {"name": "oa__read", "connector": "oa", "writes": False, "requires_confirmation": False, "redact": []}
WRITE = {"name": "oa__write", "connector": "oa", "writes": True, "requires_confirmation": False, "redact": []}


def hook(name: str, **changes: Any) -> dict[str, Any]:
    """One built-in hook's entry, with the catalogue's defaults."""
    entry = CATALOGUE[name]
    params = changes.pop("params", {})
    return {
        "id": str(uuid.uuid4()),
        "name": name,
        "points": [str(point) for point in entry.select_points(params)],
        "priority": entry.priority,
        "tool_filter": None,
        "matcher": None,
        "when": None,
        "on_error": entry.on_error,
        "mode": "enforce",
        "timeout_seconds": None,
        "params": params,
        "handler": None,
        "source": "auto" if entry.attached else "class_hooks",
        **changes,
    }


def handler(target: str, *, point: str = "PreToolUse", **changes: Any) -> dict[str, Any]:
    """One event handler's entry."""
    return {
        "id": str(uuid.uuid4()),
        "name": f"{point}[0].hooks[0]",
        "points": [point],
        "priority": 500,
        "tool_filter": None,
        "matcher": None,
        "when": None,
        "on_error": None,
        "mode": "enforce",
        "timeout_seconds": None,
        "params": {},
        "handler": {"type": "python", "target": target, "timeout": 5},
        "source": "events",
        **changes,
    }


def attached(
    *, gate: dict[str, Any] | None = None, audit: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The three hooks of every agent."""
    return [
        hook("readonly_guard"),
        hook("audit_log", params=audit or {}),
        hook("approval_gate", **(gate or {})),
    ]


def manifest(*extra: dict[str, Any], agent: str = "procurement", **changes: Any) -> dict[str, Any]:
    """A sealed manifest with the attached hooks and ``extra`` ones; ``changes`` replace top-level members."""
    document = {
        "schema": "hookgate.registry/1",
        "agent": {"id": str(uuid.uuid5(uuid.NAMESPACE_DNS, agent)), "slug": agent, "organization": "acme"},
        "surface": "chat",
        "revision": 1,
        "bypass": False,
        "state": {"read_only": False, "halted": False, "reason": None, "until": None},
        "freshness": {"revalidate_after_seconds": 15, "max_stale_seconds": 300},
        "unlisted_tools": "confirm",
        "require_confirmation_for_all": False,
        "may_delegate_to": [],
        "tools": [PAY, READ, WRITE],
        "hooks": [*extra, *attached()],
        **changes,
    }
    return seal(document)


def evaluation(**changes: Any) -> dict[str, Any]:
    """The manifest of surface ``eval``."""
    return manifest(surface="eval", bypass=True, hooks=[], **changes)


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its digest."""
    document["digest"] = manifest_digest(document)
    return document


def switched(document: dict[str, Any], **state: Any) -> dict[str, Any]:
    """The same registry under other switches."""
    return {**document, "state": {**document["state"], **state}}
