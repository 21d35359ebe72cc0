"""Section 4.2 and the rows of the registry: the manifest, its digest, its ETag, its history."""

import json
import re
from typing import Any

import pytest

from tests.contract.conftest import World
from tests.contract.outside import Api, digest, refusal

SURFACES = ("chat", "api", "dag", "subagent", "workflow")
ALWAYS = ("approval_gate", "readonly_guard", "audit_log")
HOOK_FIELDS = {
    "id", "name", "points", "priority", "tool_filter", "matcher", "when", "on_error", "mode", "timeout_seconds",
    "params", "handler", "source",
}  # fmt: skip


def manifest(api: Api, agent: str = "procurement", **query: str) -> dict[str, Any]:
    answer = api.get(f"/agents/{agent}/registry", **query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def hooks_named(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [hook for hook in found["hooks"] if hook["name"] == name]


def test_the_shape(acme: Api) -> None:
    found = manifest(acme)
    assert found["schema"] == "hookgate.registry/1"
    assert {k: found["agent"][k] for k in ("slug", "organization")} == {
        "slug": "procurement",
        "organization": "acme",
    }
    assert found["surface"] == "chat"
    assert isinstance(found["revision"], int)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["digest"])
    assert found["bypass"] is False
    assert found["state"] == {"read_only": False, "halted": False, "reason": None, "until": None}
    assert found["freshness"] == {"revalidate_after_seconds": 1, "max_stale_seconds": 15}
    assert (found["unlisted_tools"], found["require_confirmation_for_all"]) == ("confirm", False)
    assert found["may_delegate_to"] == []
    assert manifest(acme, "lead")["may_delegate_to"] == ["helper"]
    assert manifest(acme, "strict")["require_confirmation_for_all"] is True
    for hook in found["hooks"]:
        assert set(hook) >= HOOK_FIELDS


def test_the_tools(acme: Api) -> None:
    tools = {tool["name"]: tool for tool in manifest(acme)["tools"]}
    assert tools["oa__pay"] == {
        "name": "oa__pay", "connector": "oa", "writes": True, "requires_confirmation": True,
        "redact": ["card_number", "payer.iban"],
    }  # fmt: skip
    assert (tools["oa__search"]["writes"], tools["oa__search"]["requires_confirmation"]) == (False, False)
    assert (tools["oa__write"]["writes"], tools["oa__write"]["requires_confirmation"]) == (True, False)
    assert (tools["mail__send"]["requires_confirmation"], tools["mail__*"]["requires_confirmation"]) == (
        False,
        True,
    )
    assert (tools["calculator"]["connector"], tools["calculator"]["writes"]) == (None, False)
    assert "calculator" not in {tool["name"] for tool in manifest(acme, "quiet")["tools"]}


def test_three_hooks_are_attached_to_every_agent(acme: Api) -> None:
    for agent in ("procurement", "quiet", "triggered", "strict"):
        found = manifest(acme, agent)
        for name in ALWAYS:
            attached = hooks_named(found, name)
            assert [hook["source"] for hook in attached] == ["auto"], (agent, name)
            assert attached[0]["mode"] == "enforce"
            assert attached[0]["on_error"] == "deny"
        gate = hooks_named(found, "approval_gate")[0]
        assert (gate["points"], gate["priority"]) == (["PreToolUse"], 900)
        assert found["hooks"][-1] == gate
        assert not [h for h in found["hooks"] if h["name"] in ("feishu_gate", "slack_gate", "wecom_gate")]


def test_a_bare_name_takes_every_default(acme: Api) -> None:
    limit = hooks_named(manifest(acme, "limited"), "connector_rate_limit")[0]
    assert limit["params"] == {"max_calls": 2, "window_seconds": 600}
    assert (limit["source"], limit["tool_filter"], limit["matcher"], limit["when"]) == (
        "class_hooks",
        "oa__*",
        None,
        None,
    )
    assert (limit["mode"], limit["handler"]) == ("enforce", None)
    assert 0 <= limit["priority"] <= 899
    context = hooks_named(manifest(acme), "session_context")[0]
    assert context["points"] == ["SessionStart"]


def test_the_digest_covers_everything_but_itself_revision_state_surface_and_ids(acme: Api) -> None:
    def without_ids(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without_ids(v) for k, v in value.items() if k != "id"}
        return [without_ids(v) for v in value] if isinstance(value, list) else value

    for agent in ("procurement", "triggered", "lead"):
        found = manifest(acme, agent)
        covered = {k: v for k, v in found.items() if k not in ("digest", "revision", "state", "surface")}
        assert digest(without_ids(covered)) == found["digest"]


def test_each_surface_has_the_same_digest_and_its_own_etag(acme: Api) -> None:
    answers = [acme.get("/agents/procurement/registry", surface=surface) for surface in SURFACES]
    assert [answer.json()["surface"] for answer in answers] == list(SURFACES)
    assert len({answer.json()["digest"] for answer in answers}) == 1
    assert len({answer.headers["etag"] for answer in answers}) == len(SURFACES)
    assert manifest(acme) == answers[0].json()
    assert refusal(acme.get("/agents/procurement/registry", surface="moon")) == (400, "invalid")


def test_the_etag_is_strong_and_304_has_no_body(acme: Api) -> None:
    first = acme.get("/agents/quiet/registry")
    etag = first.headers["etag"]
    assert re.fullmatch(r'"[^"]+"', etag)
    for sent in (etag, f'"other", {etag}', f"W/{etag}"):
        again = acme.get("/agents/quiet/registry", headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b""), sent
        assert again.headers["etag"] == etag
    other = acme.get("/agents/quiet/registry", headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_eval_bypasses_and_needs_its_scope(world: World) -> None:
    found = manifest(world["eval"], surface="eval")
    assert (found["bypass"], found["hooks"], found["surface"]) == (True, [], "eval")
    for key in ("acme", "registry only"):
        assert refusal(world[key].get("/agents/procurement/registry", surface="eval")) == (
            403,
            "scope_missing",
        )
    assert found["state"]["halted"] is False
    assert {tool["name"] for tool in found["tools"]} == {
        tool["name"] for tool in manifest(world["acme"])["tools"]
    }


def test_the_history(world: World) -> None:
    found = manifest(world["acme"])
    listed = world["acme"].get("/agents/procurement/registry/revisions").json()
    assert set(listed) == {"results", "next"}
    newest = listed["results"][0]
    assert newest["digest"] == found["digest"]
    number = newest.get("number", newest.get("revision"))
    assert number == found["revision"]
    one = world["acme"].get(f"/agents/procurement/registry/revisions/{number}").json()
    assert one["manifest"]["digest"] == one["digest"] == found["digest"]
    for words in (("number", "revision"), ("created_at", "time", "at"), ("author",), ("comment",)):
        assert any(word in one for word in words), (words, one.keys())
    assert world["acme"].get("/agents/procurement/registry/revisions/999999").status_code == 404
    assert world["acme"].get("/agents/procurement/registry/revisions/x").status_code == 404
    assert world["alice"].get("/agents/procurement/registry/revisions").status_code == 200


def gate_of(api: Api, agent: str) -> Any:
    return hooks_named(manifest(api, agent), "approval_gate")[0]["params"]


def test_declared_gate_entries_are_triggers_of_the_one_gate(acme: Api) -> None:
    text = str(gate_of(acme, "triggered"))
    for word in ("oa__write", "args.amount >= 50000", "by-group", "spare", "reasoned", "Case_*"):
        assert word in text, word


TEXT = """
apiVersion: hookgate/v1
organizations:
  - slug: twins
    name: Twin
    members: [{{user: alice, role: admin}}]
    connectors: [{{slug: oa, actions: [{{name: pay, requires_confirmation: true}}]}}]
    agents:
      - slug: twin
        name: Twin
        owner: alice
        hooks: {{class_hooks: [session_context, {{name: result_truncate, params: {{max_chars: {chars}}}}}]}}
"""


@pytest.fixture(scope="module")
def twin(world: World) -> Api:
    """An agent that only these tests change."""
    done = world.apply(TEXT.format(chars=100))
    assert done.returncode == 0, done.stderr
    key = world.command("issue_key", "--agent", "twins/twin").stdout.strip()
    return Api(world.portal.url, key)


def test_a_change_is_a_new_revision_and_going_back_an_old_digest(world: World, twin: Api) -> None:
    first = twin.get("/agents/twin/registry")
    assert world.apply(TEXT.format(chars=200)).returncode == 0
    changed = twin.get("/agents/twin/registry", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.json()["revision"] == first.json()["revision"] + 1
    assert changed.json()["digest"] != first.json()["digest"]
    assert world.apply(TEXT.format(chars=100)).returncode == 0
    back = twin.get("/agents/twin/registry")
    assert back.json()["revision"] == first.json()["revision"] + 2
    assert back.json()["digest"] == first.json()["digest"]
    assert back.headers["etag"] != first.headers["etag"]
    old = twin.get(f"/agents/twin/registry/revisions/{changed.json()['revision']}").json()
    assert old["manifest"]["digest"] == changed.json()["digest"]


def test_the_command_prints_the_manifest_that_is_served(world: World, twin: Api) -> None:
    printed = world.command("build_registry", "twins/twin", "--surface", "dag")
    assert printed.returncode == 0
    assert json.loads(printed.stdout)["digest"] == twin.get("/agents/twin/registry").json()["digest"]
    assert json.loads(printed.stdout)["surface"] == "dag"
