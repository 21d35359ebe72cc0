"""The built-in hooks: names, hook points, defaults and typed parameters.

Pure data for the portal (it validates, draws forms and simulates with it), factories for the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from hookgate.catalogue import guards, limits, messages
from hookgate.catalogue.entry import CatalogueEntry, ParamsInvalid
from hookgate.catalogue.services import HookServices, LimitVerdict

__all__ = [
    "ATTACHED", "AUDIT_LOG", "CATALOGUE", "GATE", "CatalogueEntry", "HookServices", "LimitVerdict", "ParamsInvalid",
]  # fmt: skip

GATE: Final = "approval_gate"
AUDIT_LOG: Final = "audit_log"

_GATE_SUMMARY = "Suspends a call until people have approved it."


def _gate(name: str, channel_type: str | None) -> CatalogueEntry:
    return CatalogueEntry(
        name=name,
        points=guards.ApprovalGate.points,
        priority=900,
        on_error="deny",
        summary=_GATE_SUMMARY,
        attached=channel_type is None,
        spelling_of=GATE if channel_type else None,
        channel_type=channel_type,
        model_name="ApprovalGateParams",
        manifest_model_name="ManifestGateParams",
        make=guards.ApprovalGate,
    )


_ENTRIES: Final = (
    _gate(GATE, None),
    _gate("feishu_gate", "feishu"),
    _gate("slack_gate", "slack"),
    _gate("wecom_gate", "wecom"),
    CatalogueEntry(
        name="readonly_guard",
        points=guards.ReadOnlyGuard.points,
        priority=10,
        on_error="deny",
        summary="Blocks tools that write while the organization is in read-only mode.",
        attached=True,
        model_name="NoParams",
        make=guards.ReadOnlyGuard,
    ),
    CatalogueEntry(
        name=AUDIT_LOG,
        points=guards.AuditLog.points,
        priority=890,
        on_error="deny",
        summary="Records every connector call, whatever ended it.",
        attached=True,
        model_name="AuditLogParams",
        make=guards.AuditLog,
    ),
    CatalogueEntry(
        name="result_truncate",
        points=limits.ResultTruncate.points,
        priority=800,
        on_error="allow",
        summary="Shortens long tool results before the model reads them.",
        model_name="ResultTruncateParams",
        make=limits.ResultTruncate,
    ),
    CatalogueEntry(
        name="connector_rate_limit",
        points=limits.ConnectorRateLimit.points,
        priority=20,
        on_error="deny",
        summary="Caps how often one user may call one connector.",
        model_name="ConnectorRateLimitParams",
        make=limits.ConnectorRateLimit,
    ),
    CatalogueEntry(
        name="session_context",
        points=messages.SessionContext.points,
        priority=100,
        on_error="allow",
        summary="Adds a text to the first prompt.",
        model_name="SessionContextParams",
        make=messages.SessionContext,
    ),
    CatalogueEntry(
        name="notify",
        points=messages.Notify.points,
        priority=850,
        on_error="allow",
        summary="Sends a notice to a channel.",
        model_name="NotifyParams",
        make=messages.Notify,
    ),
)

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
ATTACHED: Final = frozenset(entry.name for entry in _ENTRIES if entry.attached)
