"""The catalogue as the portal uses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hookgate.catalogue import ATTACHED, CATALOGUE, ParamsInvalid
from hookgate.catalogue.limits import shorten
from hookgate.events import HookEvent

NAMES = {
    "approval_gate", "feishu_gate", "slack_gate", "wecom_gate", "readonly_guard", "audit_log", "result_truncate",
    "connector_rate_limit", "session_context", "notify",
}  # fmt: skip


def test_the_first_release_and_nothing_else() -> None:
    assert set(CATALOGUE) == NAMES
    assert {"approval_gate", "readonly_guard", "audit_log"} == ATTACHED
    spelled = {
        entry.name: entry.channel_type for entry in CATALOGUE.values() if entry.spelling_of == "approval_gate"
    }
    assert spelled == {"feishu_gate": "feishu", "slack_gate": "slack", "wecom_gate": "wecom"}
    for entry in CATALOGUE.values():
        gate = entry.name == "approval_gate" or entry.spelling_of is not None
        assert (entry.priority == 900) is gate
        assert entry.priority <= 900
    with pytest.raises(TypeError):
        CATALOGUE["x"] = CATALOGUE["notify"]  # type: ignore[index]


@pytest.mark.parametrize("name", sorted(NAMES - {"notify"}))
def test_a_bare_name_takes_every_default(name: str) -> None:
    entry = CATALOGUE[name]
    params = entry.validate_params({})
    assert entry.validate_params(params) == params
    json.dumps(params)


@pytest.mark.parametrize(
    ("name", "params", "errors"),
    [
        ("notify", {}, {"channel": "missing"}),
        ("notify", {"channel": "ops", "points": ["Never"]}, {"points[0]": "enum"}),
        ("approval_gate", {"chanel": "x"}, {"chanel": "extra_forbidden"}),
        ("approval_gate", {"triggers": []}, {"triggers": "extra_forbidden"}),
        ("feishu_gate", {"policy": 3}, {"policy": "string_type"}),
        ("connector_rate_limit", {"max_calls": 0, "window_seconds": 1e9}, {"max_calls": "greater_than_equal",
                                                                           "window_seconds": "int_type"}),
        ("connector_rate_limit", {"max_calls": "5"}, {"max_calls": "int_type"}),
        ("result_truncate", {"max_chars": 10_000_000}, {"max_chars": "less_than_equal"}),
        ("session_context", {"text": ""}, {"text": "string_too_short"}),
        ("readonly_guard", {"x": 1}, {"x": "extra_forbidden"}),
        ("audit_log", [], {"": "dict_type"}),
    ],
)  # fmt: skip
def test_parameters_that_a_hook_does_not_take(name: str, params: Any, errors: dict[str, str]) -> None:
    with pytest.raises(ParamsInvalid) as caught:
        CATALOGUE[name].validate_params(params)
    assert {error["path"]: error["code"] for error in caught.value.errors} == errors


def test_every_parameter_has_its_help() -> None:
    for entry in CATALOGUE.values():
        for name, field in entry.params_model().model_fields.items():
            assert field.description, f"{entry.name}.{name}"


def test_a_notice_goes_out_at_the_points_that_its_declaration_names() -> None:
    entry = CATALOGUE["notify"]
    assert entry.points == tuple(HookEvent)
    assert entry.select_points(entry.validate_params({"channel": "ops"})) == (HookEvent.POST_TOOL_USE,)
    params = entry.validate_params({"channel": "ops", "points": ["Stop", "SessionEnd", "Stop"]})
    assert entry.select_points(params) == (HookEvent.STOP, HookEvent.SESSION_END)
    assert CATALOGUE["readonly_guard"].select_points({}) == (HookEvent.PRE_TOOL_USE,)


@pytest.mark.parametrize("value", ["x" * 100, {"a": 1}, [1, 2], 5, None, "네" * 100])
def test_short_results_are_left_alone(value: Any) -> None:
    assert shorten(value, 100) is value


@pytest.mark.parametrize("text", ["x" * 1000, "네👍" * 500, "{not json" * 100])
def test_long_text_is_cut_and_says_how_much(text: str) -> None:
    cut = shorten(text, 100)
    assert 90 <= len(cut) <= 100
    kept, mark = cut.split("\n[truncated: ")
    assert text.startswith(kept)
    assert mark == f"{len(text) - len(kept)} of {len(text)} characters left out]"


@pytest.mark.parametrize("value", [{"rows": ['é\n"' * 10] * 100}, list(range(1000))])
def test_long_json_stays_json(value: Any) -> None:
    as_value = shorten(value, 300)
    assert len(json.dumps(as_value, ensure_ascii=False)) <= 300
    as_text = shorten(json.dumps(value, ensure_ascii=False), 300)
    assert json.loads(as_text) == as_value
    assert 250 <= len(as_text) <= 300
    assert as_value["left_out"] + len(as_value["start"]) == as_value["characters"]
