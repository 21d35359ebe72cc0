"""What a registry is made of, and every reason why it can't be made."""

from typing import Any

import pytest

from hooks_app.models import Agent
from hooks_app.registry import heads
from portal.lib.problems import Problem
from portal.models import Organization
from tests import make
from tests.registry.asking import refused, served

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Organization:
    return make.organization("acme")


@pytest.fixture
def agent(acme: Organization) -> Agent:
    return make.agent(acme, published=False)


def hooks(document: dict[str, Any]) -> list[str]:
    return [hook["name"] for hook in document["hooks"]]


def test_every_agent_has_the_three_attached_hooks(agent: Agent) -> None:
    document = served(agent)
    assert hooks(document) == ["readonly_guard", "audit_log", "approval_gate"]
    assert {hook["source"] for hook in document["hooks"]} == {"auto"}
    assert {hook["on_error"] for hook in document["hooks"]} == {"deny"}
    gate = document["hooks"][-1]
    assert gate | {"id": ""} == {
        "id": "",
        "name": "approval_gate",
        "points": ["PreToolUse"],
        "priority": 900,
        "tool_filter": None,
        "matcher": None,
        "when": None,
        "on_error": "deny",
        "mode": "enforce",
        "timeout_seconds": None,
        "params": {},
        "handler": None,
        "source": "auto",
    }


def test_the_manifest_has_the_contracts_members(acme: Organization, agent: Agent) -> None:
    make.agent(acme, "researcher")
    make.connector(
        acme,
        "oa",
        purchase_pay={"requires_confirmation": True, "redact": ["card_number"]},
        star={"writes": False},
    )
    make.tool(agent, "calculator", writes=False)
    agent.may_delegate_to = ["researcher"]
    agent.max_stale_seconds = 600
    agent.save()
    document = served(agent)
    assert document["schema"] == "hookgate.registry/1"
    assert document["agent"] == {"id": str(agent.pk), "slug": "procurement", "organization": "acme"}
    assert (document["surface"], document["revision"], document["bypass"]) == ("chat", 1, False)
    assert document["state"] == {"read_only": False, "halted": False, "reason": None, "until": None}
    assert document["freshness"] == {"revalidate_after_seconds": 15, "max_stale_seconds": 600}
    assert document["unlisted_tools"] == "confirm"
    assert document["require_confirmation_for_all"] is False
    assert document["may_delegate_to"] == ["researcher"]
    assert document["tools"] == [
        {
            "name": "calculator",
            "connector": None,
            "writes": False,
            "requires_confirmation": False,
            "redact": [],
        },
        {"name": "oa__*", "connector": "oa", "writes": False, "requires_confirmation": False, "redact": []},
        {
            "name": "oa__purchase_pay",
            "connector": "oa",
            "writes": True,
            "requires_confirmation": True,
            "redact": ["card_number"],
        },
    ]


def test_a_declaration_keeps_its_settings_and_takes_the_rest_from_the_catalogue(agent: Agent) -> None:
    row = make.class_hook(
        agent,
        "connector_rate_limit",
        tool_filter="oa__*",
        when="args.amount >= 50000",
        on_error="allow",
        timeout_seconds=2.5,
        mode="observe",
        params={"max_calls": 3},
    )
    limit = next(hook for hook in served(agent)["hooks"] if hook["name"] == "connector_rate_limit")
    assert limit == {
        "id": str(row.pk),
        "name": "connector_rate_limit",
        "points": ["PreToolUse"],
        "priority": 20,
        "tool_filter": "oa__*",
        "matcher": None,
        "when": "args.amount >= 50000",
        "on_error": "allow",
        "mode": "observe",
        "timeout_seconds": 2.5,
        "params": {"max_calls": 3, "window_seconds": 60},
        "handler": None,
        "source": "class_hooks",
    }


def test_hooks_stand_by_priority_then_as_declared_and_the_gate_is_last(agent: Agent) -> None:
    make.class_hook(agent, "result_truncate", priority=899)
    make.class_hook(agent, "session_context", priority=5)
    make.class_hook(agent, "connector_rate_limit", priority=5)
    make.class_hook(agent, "approval_gate", tool_filter="x")
    make.class_hook(agent, "notify", priority=500, params={"channel": "ops-feishu"})
    make.handler(agent, "PostToolUse", {"type": "python", "target": "acme.hooks:redact"})
    make.channel(agent.organization)
    assert hooks(served(agent)) == [
        "session_context",
        "connector_rate_limit",
        "readonly_guard",
        "notify",
        "PostToolUse[0].hooks[0]",
        "audit_log",
        "result_truncate",
        "approval_gate",
    ]


def test_a_switched_off_declaration_is_left_out(agent: Agent) -> None:
    make.class_hook(agent, "session_context", enabled=False)
    assert "session_context" not in hooks(served(agent))


def test_event_handlers_have_the_place_they_were_written_at(agent: Agent) -> None:
    python = {"type": "python", "target": "acme.hooks:redact"}
    make.handler(agent, "PostToolUse", python | {"timeout": 5}, group=3, matcher="oa__.*")
    make.handler(agent, "PostToolUse", python, group=3, matcher="oa__.*")
    make.handler(agent, "PostToolUse", python, group=7)
    make.handler(agent, "PreToolUse", python)
    found = {hook["name"]: hook for hook in served(agent)["hooks"] if hook["source"] == "events"}
    assert list(found) == [
        "PreToolUse[0].hooks[0]",
        "PostToolUse[0].hooks[0]",
        "PostToolUse[0].hooks[1]",
        "PostToolUse[1].hooks[0]",
    ]
    first = found["PostToolUse[0].hooks[0]"]
    assert first["handler"] == {"type": "python", "target": "acme.hooks:redact", "timeout": 5}
    assert (first["matcher"], first["priority"], first["on_error"]) == ("oa__.*", 500, "allow")
    assert found["PreToolUse[0].hooks[0]"]["on_error"] == "deny"


def test_declared_gate_entries_become_the_one_gates_triggers(acme: Organization, agent: Agent) -> None:
    make.policy(acme, "payments")
    make.channel(acme)
    make.class_hook(agent, "feishu_gate")
    make.class_hook(
        agent, "approval_gate", tool_filter="oa__*", when="args.amount > 1", params={"policy": "payments"}
    )
    document = served(agent)
    assert hooks(document).count("approval_gate") == 1
    assert document["hooks"][-1]["params"] == {
        "triggers": [
            {
                "name": "feishu_gate",
                "tool_filter": None,
                "when": None,
                "policy": None,
                "channel": "ops-feishu",
            },
            {
                "name": "approval_gate",
                "tool_filter": "oa__*",
                "when": "args.amount > 1",
                "policy": "payments",
                "channel": None,
            },
        ]
    }


def test_a_platforms_spelling_means_its_only_enabled_channel_unless_others_are_named(
    acme: Organization, agent: Agent
) -> None:
    make.class_hook(agent, "feishu_gate")
    trigger = lambda: served(agent)["hooks"][-1]["params"]["triggers"][0]["channel"]  # noqa: E731
    assert trigger() is None
    ops = make.channel(acme, "ops-feishu")
    make.channel(acme, "old-feishu", enabled=False)
    assert trigger() == "ops-feishu"
    second = make.channel(acme, "finance-feishu")
    assert refused(agent) == {"hooks.class_hooks[0].params.channel": "ambiguous_channel"}
    make.approval_channel(agent, second)
    assert trigger() is None
    agent.approval_channel_rows.all().delete()
    agent.declarations.update(params={"channel": ops.slug})
    assert trigger() == "ops-feishu"


@pytest.mark.parametrize("name", ["approval_gate", "feishu_gate", "readonly_guard", "audit_log"])
@pytest.mark.parametrize(
    ("key", "value"), [("enabled", False), ("on_error", "allow"), ("priority", 5), ("mode", "observe")]
)
def test_attached_hooks_are_protected(agent: Agent, name: str, key: str, value: Any) -> None:
    make.class_hook(agent, name, **{key: value})
    assert refused(agent) == {f"hooks.class_hooks[0].{key}": "protected_hook"}


@pytest.mark.parametrize("name", ["readonly_guard", "audit_log"])
@pytest.mark.parametrize(("key", "value"), [("tool_filter", "oa__*"), ("when", "true")])
def test_only_gate_entries_may_have_a_filter(agent: Agent, name: str, key: str, value: str) -> None:
    make.class_hook(agent, name, **{key: value})
    assert refused(agent) == {f"hooks.class_hooks[0].{key}": "protected_hook"}


def test_declaring_an_attached_hook_sets_its_parameters(agent: Agent) -> None:
    make.class_hook(agent, "audit_log", params={"redact": ["iban"]}, on_error="deny")
    log = next(hook for hook in served(agent)["hooks"] if hook["name"] == "audit_log")
    assert (log["params"], log["source"], log["priority"]) == (
        {"max_queued": 10000, "redact": ["iban"], "results": False},
        "auto",
        890,
    )
    make.class_hook(agent, "audit_log")
    assert refused(agent) == {"hooks.class_hooks[1]": "duplicate_hook"}


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("nonsense", {}, {"hooks.class_hooks[0].name": "unknown_hook"}),
        ("session_context", {"priority": 900}, {"hooks.class_hooks[0].priority": "invalid"}),
        ("session_context", {"priority": -1}, {"hooks.class_hooks[0].priority": "invalid"}),
        ("session_context", {"timeout_seconds": 0}, {"hooks.class_hooks[0].timeout_seconds": "invalid"}),
        ("session_context", {"tool_filter": "oa__*"}, {"hooks.class_hooks[0].tool_filter": "not_applicable"}),
        (
            "connector_rate_limit",
            {"when": "args.amount >"},
            {"hooks.class_hooks[0].when": "does_not_compile"},
        ),
        ("connector_rate_limit", {"when": "amount > 5"}, {"hooks.class_hooks[0].when": "does_not_compile"}),
        ("approval_gate", {"timeout_seconds": 5}, {"hooks.class_hooks[0].timeout_seconds": "not_applicable"}),
        (
            "approval_gate",
            {"params": {"policy": "gone"}},
            {"hooks.class_hooks[0].params.policy": "unknown_policy"},
        ),
        (
            "slack_gate",
            {"params": {"channel": "gone"}},
            {"hooks.class_hooks[0].params.channel": "unknown_channel"},
        ),
        (
            "notify",
            {"params": {"channel": "gone"}},
            {"hooks.class_hooks[0].params.channel": "unknown_channel"},
        ),
        (
            "connector_rate_limit",
            {"params": {"max_calls": 0, "window_seconds": "a", "burst": 1}},
            {
                "hooks.class_hooks[0].params.max_calls": "greater_than_equal",
                "hooks.class_hooks[0].params.window_seconds": "int_type",
                "hooks.class_hooks[0].params.burst": "extra_forbidden",
            },
        ),
    ],
)
def test_a_declaration_that_can_not_hold_is_refused(
    agent: Agent, name: str, columns: dict[str, Any], expected: dict[str, str]
) -> None:
    make.class_hook(agent, name, **columns)
    assert refused(agent) == expected


@pytest.mark.parametrize(
    ("event", "handler", "matcher", "expected"),
    [
        ("PreToolUse", {"type": "command", "command": "x"}, "", {"[0].hooks[0].type": "handler_unsupported"}),
        (
            "PreToolUse",
            {"type": "http", "url": "https://x.test"},
            "",
            {"[0].hooks[0].type": "handler_unsupported"},
        ),
        ("PreToolUse", {"target": "a:b"}, "", {"[0].hooks[0].type": "invalid"}),
        ("PreToolUse", {"type": "python", "target": "no colon"}, "", {"[0].hooks[0].target": "invalid"}),
        (
            "PreToolUse",
            {"type": "python", "target": "a:b", "timeout": -1, "async": True},
            "(",
            {
                "[0].matcher": "does_not_compile",
                "[0].hooks[0].timeout": "invalid",
                "[0].hooks[0].async": "unknown_key",
            },
        ),
        ("OnTuesday", {"type": "python", "target": "a:b"}, "", {"": "unknown_event"}),
    ],
)
def test_a_handler_that_can_not_run_is_refused(
    agent: Agent, event: str, handler: dict[str, Any], matcher: str, expected: dict[str, str]
) -> None:
    make.handler(agent, event, handler, matcher=matcher)
    assert refused(agent) == {f"hooks.events.{event}{path}": code for path, code in expected.items()}


def test_every_reason_is_said_at_once(acme: Organization, agent: Agent) -> None:
    make.class_hook(agent, "nonsense")
    make.class_hook(agent, "audit_log", priority=1)
    make.class_hook(agent, "connector_rate_limit", params={"max_calls": 0})
    make.handler(agent, "Stop", {"type": "command"})
    make.tool(agent, "calculator", policy="gone")
    agent.approval_policy = "also-gone"
    agent.may_delegate_to = ["nobody"]
    agent.barrier = "run"
    agent.save()
    assert refused(agent) == {
        "hooks.class_hooks[0].name": "unknown_hook",
        "hooks.class_hooks[1].priority": "protected_hook",
        "hooks.class_hooks[2].params.max_calls": "greater_than_equal",
        "hooks.events.Stop[0].hooks[0].type": "handler_unsupported",
        "tools[0].policy": "unknown_policy",
        "approval_policy": "unknown_policy",
        "may_delegate_to[0]": "unknown_agent",
        "barrier": "not_available",
    }


def test_eval_runs_nothing_and_says_so(acme: Organization, agent: Agent) -> None:
    make.class_hook(agent, "session_context")
    chat, bypass = served(agent), served(agent, "eval")
    assert (bypass["bypass"], bypass["hooks"], bypass["surface"]) == (True, [], "eval")
    assert bypass["tools"] == chat["tools"]
    assert bypass["digest"] != chat["digest"]
    event = acme.audit_events.filter(action="registry.bypass_served").get()
    assert (event.object_name, event.actor_kind) == ("procurement", "system")


def test_an_unknown_surface_is_refused(agent: Agent) -> None:
    make.publish(agent)
    with pytest.raises(Problem) as caught:
        heads.serve(agent, "phone")
    assert caught.value.status == 400
    assert [error.path for error in caught.value.errors] == ["surface"]
