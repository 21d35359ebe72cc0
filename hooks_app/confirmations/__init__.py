"""Confirmation requests: THE state machine, and the only writer of requests, stages and decisions.

Called qualified: ``confirmations.create(...)``, ``confirmations.decide(...)``, ``confirmations.consume(...)``. A status
changes by one conditional UPDATE (:mod:`.transitions`); whatever records it is in the same transaction. Locks are taken
in one order everywhere: agent, request, deliveries.
"""

from hooks_app.approvers.eligibility import Voter, tapped
from hooks_app.confirmations.appearance import status_now
from hooks_app.confirmations.consumption import consume, report_outcome
from hooks_app.confirmations.creation import create
from hooks_app.confirmations.decisions import decide
from hooks_app.confirmations.delivery import mark_undeliverable
from hooks_app.confirmations.ending import cancel, purge, settle, sweep
from hooks_app.confirmations.proposals import Initiator, NewRequest
from hooks_app.confirmations.resources import (
    listed,
    prefetched,
    represent,
    represent_all,
    represent_deliveries,
    represent_new,
)

__all__ = [
    "Initiator",
    "NewRequest",
    "Voter",
    "cancel",
    "consume",
    "create",
    "decide",
    "listed",
    "mark_undeliverable",
    "prefetched",
    "purge",
    "report_outcome",
    "represent",
    "represent_all",
    "represent_deliveries",
    "represent_new",
    "settle",
    "status_now",
    "sweep",
    "tapped",
]
