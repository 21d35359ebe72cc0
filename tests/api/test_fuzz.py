"""Whatever a client sends, the answer is one that the OpenAPI document declares, and never a 500."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fields import put

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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in ``value`` that could hold something else."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


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
