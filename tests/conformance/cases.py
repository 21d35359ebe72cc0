"""Hooks of schemathesis: generated requests meet rows that exist, and wait for a second at most.

Only what the document can't describe is put in the place of generated values, and only in requests that are meant to
be accepted: which agents there are, which digest was served, which hook is a limit, which request is a parent, which
cursor a list gave.
"""

import os
import re
import zlib
from typing import Any

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.generation import GenerationMode

LONGEST_WAIT = 1
CONFIRMATION = "/api/v1/confirmations/{id}"


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Lead the request to what exists, and bound its wait whatever it is meant to be."""
    query = case.query if isinstance(case.query, dict) else {}
    wait = str(query.get("wait", ""))
    if re.fullmatch("[0-9]{1,2}", wait) and LONGEST_WAIT < int(wait) <= 60:
        query["wait"] = LONGEST_WAIT
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    # A cursor is signed: only what a list answered is one.
    query.pop("cursor", None)
    _put(case.body, "hook", _row("HOOK") if case.operation.path.endswith("/limits/acquire") else None)
    if case.operation.path == "/api/v1/confirmations" and isinstance(case.body, dict):
        # What is named must be declared for the agent; the sample's gate declares no policy.
        known = {"parent": _row("CONFIRMATION"), "channel": _row("CHANNEL"), "policy": None}
        case.body |= {name: row for name, row in known.items() if case.body.get(name) is not None}
    for entry in _entries(case.body):
        _put(entry, "agent", _row("AGENT"))
    # A third of the requests keeps what was generated, and meets 404.
    if zlib.crc32(repr((case.path_parameters, case.body)).encode()) % 3:
        _lead(case, query)


def _lead(case: Case, query: dict[str, Any]) -> None:
    parameters = case.path_parameters
    _put(parameters, "agent", _row("AGENT"))
    _put(parameters, "slug", _row("CHANNEL"))
    _put(parameters, "number", 1)
    # What a link of an earlier answer named stays: it is a row, too.
    if (
        case.operation.path.startswith(CONFIRMATION)
        and case.meta
        and case.meta.phase.name.value != "stateful"
    ):
        _put(parameters, "id", _row("CONFIRMATION"))
    _put(query, "agent", _row("AGENT"))
    _put(case.body, "agent", _row("AGENT"))
    _put(case.body, "registry_digest", _row("DIGEST"))


def _row(name: str) -> str:
    return os.environ[f"HOOKGATE_TEST_{name}"]


def _put(place: Any, name: str, value: Any) -> None:
    if isinstance(place, dict) and name in place and value is not None:
        place[name] = value


def _entries(body: Any) -> list[Any]:
    """The entries of a batch: an unknown agent is 400 for its index, so each of them has one that is known."""
    calls = body.get("calls") if isinstance(body, dict) else None
    return calls if isinstance(calls, list) else []
