"""Broken files: each names the place, exits 1 and leaves the database as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.config import documents

pytestmark = pytest.mark.django_db

Object = dict[str, Any]
ORG = "organizations[0]"
AGENT = f"{ORG}.agents[0]"
HOOKS = f"{AGENT}.hooks"


def _set(*steps: Any) -> Callable[[Object], None]:
    """Walk to all but the last two steps, then set the last but one to the last."""

    def change(document: Object) -> None:
        node: Any = document["organizations"][0]
        for step in steps[:-2]:
            node = node[step]
        node[steps[-2]] = steps[-1]

    return change


def _drop(*steps: Any) -> Callable[[Object], None]:
    def change(document: Object) -> None:
        node: Any = document["organizations"][0]
        for step in steps[:-1]:
            node = node[step]
        del node[steps[-1]]

    return change


def _again(key: str) -> Callable[[Object], None]:
    """Name the first entry of a list twice."""

    def change(document: Object) -> None:
        items = document["organizations"][0][key]
        items.append(dict(items[0]))

    return change


def _twice(document: Object) -> None:
    document["organizations"].append({"slug": "acme"})


def _version(document: Object) -> None:
    document["apiVersion"] = "hookgate/v2"


def _unknown_top(document: Object) -> None:
    document["organisations"] = []


_FIRST_HOOK = ("agents", 0, "hooks", "class_hooks", 1)
_EVENTS = ("agents", 0, "hooks", "events")
_POLICY = ("approval_policies", 0)
_PYTHON = {"type": "python", "target": "acme.hooks:redact"}

BROKEN: list[tuple[Callable[[Object], None], str, str]] = [
    (_version, "apiVersion", "must be one of 'hookgate/v1'"),
    (_unknown_top, "organisations", "did you mean organizations?"),
    (_twice, "organizations[1].slug", "declared twice"),
    (_set("slug", "Acme Corp"), f"{ORG}.slug", "lower-case"),
    (_set("slug", "acme\n"), f"{ORG}.slug", "lower-case"),
    (_drop("slug"), f"{ORG}.slug", "is required"),
    (_set("name", 12), f"{ORG}.name", "must be a text"),
    (_set("time_zone", "Asia/Soul"), f"{ORG}.time_zone", "IANA"),
    (_set("read_only", "yes"), f"{ORG}.read_only", "true or false"),
    (_set("retention_days", 0), f"{ORG}.retention_days", "at least 1"),
    (_set("approval_policy", "nobody"), f"{ORG}.approval_policy", "no policy 'nobody'"),
    (
        _set("freshness", "revalidate_after_seconds", 0),
        f"{ORG}.freshness.revalidate_after_seconds",
        "at least 1",
    ),
    (
        _set("freshness", "revalidate_after_seconds", 3601),
        f"{ORG}.freshness.revalidate_after_seconds",
        "at most 3600",
    ),
    (_set("freshness", "max_stale_seconds", 14), f"{ORG}.freshness.max_stale_seconds", "at least 15"),
    (_set("freshness", "max_stale_seconds", 86401), f"{ORG}.freshness.max_stale_seconds", "at most 86400"),
    (
        _set("freshness", "revalidate_after_seconds", 301),
        f"{ORG}.freshness.revalidate_after_seconds",
        "max_stale_seconds",
    ),
    (_set("members", 0, "role", "owner"), f"{ORG}.members[0].role", "must be one of"),
    (_set("members", 0, "email", "alice"), f"{ORG}.members[0].email", "e-mail"),
    (_set("members", 1, "email", "Alice@acme.test"), f"{ORG}.members[1].email", "alice"),
    (_set("members", 0, "user", "al ice"), f"{ORG}.members[0].user", "letters"),
    (_set("members", 0, "password", ""), f"{ORG}.members[0].password", "must not be empty"),
    (_again("members"), f"{ORG}.members[2].user", "declared twice"),
    (
        _set("members", 1, "identities", 0, "channel", "ops"),
        f"{ORG}.members[1].identities[0].channel",
        "no channel 'ops'",
    ),
    (
        _set("members", 1, "identities", 0, "external_id", "ou bob"),
        f"{ORG}.members[1].identities[0].external_id",
        "blanks",
    ),
    (_set("groups", 0, "members", ["carol"]), f"{ORG}.groups[0].members[0]", "no member 'carol'"),
    (_set("groups", 0, "members", ["bob", "bob"]), f"{ORG}.groups[0].members[1]", "twice"),
    (_set("absences", 0, "until", "2026-11-01"), f"{ORG}.absences[0].until", "before"),
    (_set("absences", 0, "from", "2026-02-30"), f"{ORG}.absences[0].from", "date"),
    (_set("absences", 0, "substitute", "bob"), f"{ORG}.absences[0].substitute", "somebody else"),
    (_set("absences", 0, "substitute", "carol"), f"{ORG}.absences[0].substitute", "no member 'carol'"),
    (_set("channels", 0, "type", "telegraph"), f"{ORG}.channels[0].type", "telegraph"),
    (_set("channels", 0, "language", "de"), f"{ORG}.channels[0].language", "must be one of"),
    (_set("channels", 0, "slug", "runtime"), f"{ORG}.channels[0].slug", "runtime"),
    (_set("channels", 0, "config", "app_key", "x"), f"{ORG}.channels[0].config.app_key", "unknown key"),
    (_drop("channels", 0, "config", "app_secret"), f"{ORG}.channels[0].config.app_secret", "required"),
    (
        _set("channels", 0, "config", "base_url", "http://10.0.0.1"),
        f"{ORG}.channels[0].config.base_url",
        "base_url",
    ),
    (
        _set("channels", 0, "config", "app_secret", "${NO_SUCH_THING}"),
        f"{ORG}.channels[0].config.app_secret",
        "NO_SUCH_THING",
    ),
    (_set("members", 0, "password", "${NO_SUCH_THING}"), f"{ORG}.members[0].password", "NO_SUCH_THING"),
    (_set(*_POLICY, "scope", "everybody"), f"{ORG}.approval_policies[0].scope", "must be one of"),
    (_set(*_POLICY, "scope", "group"), f"{ORG}.approval_policies[0].group", "scope: group"),
    (_set(*_POLICY, "group", "finance"), f"{ORG}.approval_policies[0].group", "scope: group only"),
    (_set(*_POLICY, "quorum", 0), f"{ORG}.approval_policies[0].quorum", "at least 1"),
    (_set(*_POLICY, "reject_quorum", 101), f"{ORG}.approval_policies[0].reject_quorum", "at most 100"),
    (
        _set(*_POLICY, "timeout_seconds", 259201),
        f"{ORG}.approval_policies[0].timeout_seconds",
        "at most 259200",
    ),
    (_set(*_POLICY, "timeout_seconds", 1.5), f"{ORG}.approval_policies[0].timeout_seconds", "whole number"),
    (_set(*_POLICY, "timeout_seconds", True), f"{ORG}.approval_policies[0].timeout_seconds", "whole number"),
    (_set(*_POLICY, "start_by_seconds", 0), f"{ORG}.approval_policies[0].start_by_seconds", "at least 1"),
    (_set(*_POLICY, "when", "args.amount >="), f"{ORG}.approval_policies[0].when", "does not compile"),
    (
        _set(*_POLICY, "escalate_to", {"group": "finance"}),
        f"{ORG}.approval_policies[0].escalate_after_seconds",
        "go together",
    ),
    (
        _set(*_POLICY, "stages", [{"name": "a", "scope": "group"}]),
        f"{ORG}.approval_policies[0].stages[0].group",
        "scope: group",
    ),
    (_set(*_POLICY, "grants", {"max_use": 1}), f"{ORG}.approval_policies[0].grants.max_use", "max_uses"),
    (
        _set("connectors", 0, "actions", 0, "schema", {"properties": {"amount": {"type": "money"}}}),
        f"{ORG}.connectors[0].actions[0].schema",
        "properties.amount.type",
    ),
    (
        _set("connectors", 0, "actions", 0, "schema", {"required": "x"}),
        f"{ORG}.connectors[0].actions[0].schema",
        "array",
    ),
    (_set("connectors", 0, "slug", "oa\n"), f"{ORG}.connectors[0].slug", ""),
    (_set("slug", "acme\n"), f"{ORG}.slug", "lower-case"),
    (_set("connectors", 0, "slug", "o__a"), f"{ORG}.connectors[0].slug", "__"),
    (
        _set("connectors", 0, "actions", 0, "policy", "nobody"),
        f"{ORG}.connectors[0].actions[0].policy",
        "no policy 'nobody'",
    ),
    (
        _set("connectors", 0, "actions", 0, "redact", "card_number"),
        f"{ORG}.connectors[0].actions[0].redact",
        "must be a list",
    ),
    (
        _set("connectors", 0, "actions", 0, "requires_confirmaton", True),
        f"{ORG}.connectors[0].actions[0].requires_confirmaton",
        "did you mean requires_confirmation?",
    ),
    (_set("agents", 0, "owner", "carol"), f"{AGENT}.owner", "no member 'carol'"),
    (_set("agents", 0, "approval_channels", ["ops"]), f"{AGENT}.approval_channels[0]", "no channel 'ops'"),
    (_set("agents", 0, "may_delegate_to", ["helper"]), f"{AGENT}.may_delegate_to[0]", "no agent 'helper'"),
    (_set("agents", 0, "confirmation_mode", "never"), f"{AGENT}.confirmation_mode", "must be one of"),
    (_set("agents", 0, "tools", 0, "name", "*"), f"{AGENT}.tools[0].name", "128"),
    (
        _set("agents", 0, "freshness", {"revalidate_after_seconds": 301}),
        f"{AGENT}.freshness.revalidate_after_seconds",
        "300",
    ),
    (_set("agents", 0, "model_config_json", {"hooks": {}}), f"{AGENT}.model_config_json", "in place of"),
    (_set(*_FIRST_HOOK, "parms", {}), f"{HOOKS}.class_hooks[1].parms", "did you mean params?"),
    (_set(*_FIRST_HOOK, "priority", 900), f"{HOOKS}.class_hooks[1].priority", "at most 899"),
    (_set(*_FIRST_HOOK, "priority", -1), f"{HOOKS}.class_hooks[1].priority", "at least 0"),
    (_set(*_FIRST_HOOK, "timeout_seconds", 0), f"{HOOKS}.class_hooks[1].timeout_seconds", "more than 0"),
    (_set(*_FIRST_HOOK, "on_error", "ignore"), f"{HOOKS}.class_hooks[1].on_error", "must be one of"),
    (_set(*_FIRST_HOOK, "mode", "off"), f"{HOOKS}.class_hooks[1].mode", "must be one of"),
    (_set(*_FIRST_HOOK, "params", []), f"{HOOKS}.class_hooks[1].params", "must be an object"),
    (
        _set("agents", 0, "hooks", "class_hooks", 0, 7),
        f"{HOOKS}.class_hooks[0]",
        "must be an object",
    ),
    (_set(*_EVENTS, "PreTool", []), f"{HOOKS}.events.PreTool", "did you mean PreToolUse?"),
    (
        _set(*_EVENTS, "Stop", [{"hooks": [{"target": "a:b"}]}]),
        f"{HOOKS}.events.Stop[0].hooks[0].type",
        "is required",
    ),
    (_set(*_EVENTS, "Stop", [{"hooks": []}]), f"{HOOKS}.events.Stop[0].hooks", "at least 1"),
    (
        _set(*_EVENTS, "Stop", [{"matchers": "x", "hooks": [_PYTHON]}]),
        f"{HOOKS}.events.Stop[0].matchers",
        "did you mean matcher?",
    ),
    (
        _set(*_EVENTS, "Stop", [{"hooks": [{"type": "python", "target": "redact"}]}]),
        f"{HOOKS}.events.Stop[0].hooks[0].target",
        "package.module:callable",
    ),
]


@pytest.mark.parametrize(
    ("change", "path", "words"), BROKEN, ids=[f"{path}-{words}" for _, path, words in BROKEN]
)
def test_the_place_is_named_and_nothing_changes(
    tmp_path: Path, change: Callable[[Object], None], path: str, words: str
) -> None:
    document = documents.example()
    change(document)
    before = documents.snapshot()
    ended = documents.apply(tmp_path, document)
    assert (ended.code, ended.out) == (1, [])
    found = [line for line in ended.err if line.startswith(f"{path}: ")]
    assert len(found) == 1, ended.err
    assert words in found[0]
    assert documents.snapshot() == before


def test_everything_at_fault_is_said_at_once(tmp_path: Path) -> None:
    document = documents.example()
    for change in (
        _set("time_zone", "nowhere"),
        _set("groups", 0, "members", ["carol"]),
        _set("channels", 0, "config", "app_key", "x"),
        _set("agents", 0, "owner", "dave"),
        _set(*_FIRST_HOOK, "parms", {}),
    ):
        change(document)
    ended = documents.apply(tmp_path, document)
    assert sorted(line.split(": ")[0] for line in ended.err) == [
        f"{HOOKS}.class_hooks[1].parms",
        f"{AGENT}.owner",
        f"{ORG}.channels[0].config.app_key",
        f"{ORG}.groups[0].members[0]",
        f"{ORG}.time_zone",
    ]


def test_an_error_that_only_a_writer_finds_rolls_everything_back(tmp_path: Path) -> None:
    """Two people can't have one account; who has it is known when the first of them is bound."""
    document = documents.example()
    other = {"user": "carol", "identities": [{"channel": "ops-feishu", "external_id": "ou_bob"}]}
    document["organizations"][0]["members"].append(other)
    before = documents.snapshot()
    ended = documents.apply(tmp_path, document)
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.err] == [f"{ORG}.members[2].identities[0].external_id"]
    assert documents.snapshot() == before


def test_an_error_in_a_known_organization_leaves_it_as_it_was(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.example())
    before = documents.snapshot()
    document = documents.example()
    document["organizations"][0]["name"] = "Another"
    document["organizations"].append(
        {"slug": "globex", "members": [{"user": "bob", "email": "other@acme.test"}]}
    )
    ended = documents.apply(tmp_path, document)
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[1].members[0].email"]
    assert documents.snapshot() == before
