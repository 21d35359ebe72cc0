"""Whatever a client sends, the answer is one that the OpenAPI document declares, and never a 500."""

import copy
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import make
from tests.api.conftest import confirmation

SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.fixture
def bodies(world) -> dict[tuple[str, str], dict[str, Any]]:
    """A good body for every call that takes one."""
    make.channel(world.acme)
    make.class_hook(world.procurement, "connector_rate_limit")
    make.publish(world.procurement)
    made = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    path = f"/confirmations/{made['id']}"
    entry = {
        "id": str(uuid.uuid4()),
        "agent": "procurement",
        "tool_name": "oa__stock",
        "status": "succeeded",
        "started_at": "2026-11-02T09:30:00Z",
        "user": {"id": "u42"},
        "args": {"amount": 1},
        "duration_ms": 1.5,
        "trace": [{"hook": "approval_gate"}],
        "side_effects": [1],
    }
    return {
        ("POST", "/confirmations"): confirmation(world.procurement, timeout_seconds=60, summary="s"),
        ("POST", f"{path}/consume"): {"args_digest": made["args_digest"], "attempt": str(uuid.uuid4())},
        ("POST", f"{path}/outcome"): {"status": "failed", "detail": "d"},
        ("POST", f"{path}/cancel"): {},
        ("POST", f"{path}/respond"): {"decision": "reject", "reason": "r", "args": None},
        ("POST", "/calls"): {"calls": [entry]},
        ("POST", "/limits/acquire"): {
            "agent": "procurement",
            "hook": str(uuid.uuid4()),
            "connector": "oa",
            "user": "u42",
            "call": str(uuid.uuid4()),
        },
        ("POST", "/channels/ops-feishu/messages"): {"text": "t", "agent": "procurement"},
        ("PUT", "/agents/procurement/tools"): {"tools": [{"name": "oa__stock", "input_schema": {}}]},
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in ``value`` that could hold something else."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def put(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    """``body`` with ``value`` at ``place``."""
    if not place:
        return value
    changed = copy.deepcopy(body)
    target = changed
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return changed


@SETTINGS
@given(data=st.data(), value=VALUES)
def test_any_value_anywhere_in_a_body(world, bodies, data, value):
    method, path = data.draw(st.sampled_from(list(bodies)))
    body = bodies[method, path]
    changed = put(body, data.draw(st.sampled_from(places(body))), value)
    api = world.person("bob") if path.endswith("respond") else world.runtime
    answer = api.send(method, path, body=changed)
    assert answer.status in (200, 201, 202, 204, 400, 403, 404, 409, 413, 422), answer


@SETTINGS
@given(raw=st.binary(max_size=200))
def test_any_bytes_as_a_body(world, raw):
    answer = world.runtime.send("POST", "/confirmations", raw=raw)
    assert answer.status in (400, 404)


@SETTINGS
@given(
    path=st.sampled_from(["/confirmations", "/calls", "/agents/procurement/registry/revisions"]),
    name=st.sampled_from(["status", "agent", "cursor", "limit", "tool", "user", "hook", "from", "to"]),
    value=TEXT,
)
def test_any_text_as_a_filter(world, path, name, value):
    answer = world.person("alice", "read").get(path, **{name: value})
    assert answer.status in (200, 400, 404)


@SETTINGS
@given(value=TEXT.filter(lambda text: text not in (".", "..") and "/" not in text))
def test_any_text_in_a_path(world, value):
    quoted = "".join(f"%{byte:02X}" for byte in value.encode()) or "x"
    assert world.runtime.get(f"/agents/{quoted}/registry").status in (200, 404)
    assert world.runtime.get(f"/confirmations/{quoted}").status == 404
