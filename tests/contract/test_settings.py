"""Section 3: what the settings of the file do, as seen in the registry and in requests."""

import json
import uuid
from typing import Any

import pytest
import yaml

from tests.contract.conftest import World
from tests.contract.outside import STRANGER, Api, codes, paths, refusal, until

SLUG = "shop"
APPROVERS = [{"user": "bob", "role": "approver"}, {"user": "erin", "role": "approver"}]
FEISHU = {
    "app_id": "cli_s",
    "app_secret": "s1",
    "chat_id": "oc_s1",
    "encrypt_key": "e1",
    "verification_token": "t1",
}


def organization(**fields: Any) -> dict[str, Any]:
    """A whole small organization, with fields replaced."""
    return {
        "slug": SLUG,
        "name": "Shop",
        "members": [{"user": "alice", "role": "admin"}, *APPROVERS],
        "connectors": [{"slug": "oa", "actions": [{"name": "pay", "requires_confirmation": True}]}],
        "agents": [{"slug": "clerk", "name": "Clerk", "owner": "alice"}],
        **fields,
    }  # fmt: skip


def agent(slug: str, **fields: Any) -> dict[str, Any]:
    return {"slug": slug, "name": slug.title(), "owner": "alice", **fields}


class Shop:
    """The organization, written anew by each test."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.write()
        self.api = Api(world.portal.url, world.command("issue_key", "--org", SLUG).stdout.strip())

    def write(self, **fields: Any) -> None:
        done = self.try_to_write(**fields)
        assert done.returncode == 0, done.stderr

    def try_to_write(self, **fields: Any) -> Any:
        # Some of its agents can't be built with what a test writes, and are told so.
        return self.world.apply(
            yaml.safe_dump({"apiVersion": "hookgate/v1", "organizations": [organization(**fields)]}),
            "--allow-unbuildable",
        )

    def hooks(self, slug: str) -> list[dict[str, Any]]:
        answer = self.api.get(f"/agents/{slug}/registry")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["hooks"]
        return found


@pytest.fixture(scope="module")
def shop(world: World) -> Shop:
    return Shop(world)


def test_json_is_yaml_too(shop: Shop) -> None:
    file = shop.world.portal.folder / "shop.json"
    file.write_text(json.dumps({"apiVersion": "hookgate/v1", "organizations": [organization()]}))
    done = shop.world.command("apply", str(file))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 changes"), done.stderr


def test_model_config_json_stands_in_place_of_hooks(shop: Shop) -> None:
    foreign = {"model": "x", "temperature": 0.1, "hooks": {"class_hooks": ["feishu_gate", "result_truncate"]}}
    shop.write(agents=[agent("imported", model_config_json=foreign)])
    named = [hook["name"] for hook in shop.hooks("imported")]
    assert "result_truncate" in named
    assert named[-1] == "approval_gate"
    assert shop.try_to_write(agents=[agent("imported", model_config_json=foreign, hooks={})]).returncode == 1


def test_event_handlers(shop: Shop) -> None:
    handler = {"type": "python", "target": "acme.hooks:redact", "timeout": 5}
    events = {
        "PostToolUse": [{"matcher": "oa__.*", "hooks": [handler, handler]}],
        "Stop": [{"hooks": [handler]}],
    }
    shop.write(agents=[agent("handled", hooks={"events": events})])
    found = {hook["name"]: hook for hook in shop.hooks("handled") if hook["source"] == "events"}
    assert set(found) == {"PostToolUse[0].hooks[0]", "PostToolUse[0].hooks[1]", "Stop[0].hooks[0]"}
    first = found["PostToolUse[0].hooks[0]"]
    assert (first["handler"], first["matcher"], first["priority"]) == (handler, "oa__.*", 500)
    assert (first["points"], first["on_error"]) == (["PostToolUse"], "allow")
    # Blocking points fail closed.
    assert found["Stop[0].hooks[0]"]["on_error"] == "deny"


def test_entries_of_class_hooks(shop: Shop) -> None:
    entry = {
        "name": "connector_rate_limit", "tool_filter": "oa__*", "when": "args.amount >= 50000", "priority": 20,
        "on_error": "allow", "timeout_seconds": 5, "mode": "observe", "params": {"max_calls": 3},
    }  # fmt: skip
    off = {"name": "session_context", "enabled": False}
    shop.write(agents=[agent("declared", hooks={"class_hooks": [entry, off]})])
    limit = next(hook for hook in shop.hooks("declared") if hook["name"] == "connector_rate_limit")
    for field in ("tool_filter", "when", "priority", "on_error", "timeout_seconds", "mode"):
        assert limit[field] == entry[field]
    assert limit["params"] == {"max_calls": 3, "window_seconds": 60}
    assert "session_context" not in [hook["name"] for hook in shop.hooks("declared")]


def test_freshness_of_an_agent(shop: Shop) -> None:
    own = {"revalidate_after_seconds": 3600, "max_stale_seconds": 86400}
    shop.write(agents=[agent("patient", freshness=own), agent("usual")])
    assert shop.api.get("/agents/patient/registry").json()["freshness"] == own
    usual = shop.api.get("/agents/usual/registry").json()["freshness"]
    assert usual == {"revalidate_after_seconds": 15, "max_stale_seconds": 300}


def test_what_a_later_release_does_is_an_error_never_an_option_that_does_nothing(shop: Shop) -> None:
    staged = {
        "slug": "staged",
        "stages": [{"name": "first", "scope": "approvers", "quorum": 1, "timeout_seconds": 60}],
    }
    conditional = {"slug": "conditional", "when": "args.amount > 1"}
    channels = [{"slug": "room", "type": "feishu", "config": FEISHU}]
    later = [
        agent("barred", barrier="run"),
        agent("falling", approval_channels=["room"], fallback_channels=["room"]),
        agent("staged", approval_policy="staged"),
        agent("conditional", approval_policy="conditional"),
    ]
    shop.write(approval_policies=[staged, conditional], channels=channels, agents=later)
    for slug in ("barred", "falling", "staged", "conditional"):
        answer = shop.api.get(f"/agents/{slug}/registry")
        assert refusal(answer) == (422, "registry_unbuildable"), slug
        assert paths(answer), slug
        assert codes(answer), slug
    for kind in ("slack", "wecom"):
        refused = shop.try_to_write(channels=[{"slug": "other", "type": kind, "config": {}}])
        assert refused.returncode == 1
        assert "organizations[0].channels[0]" in refused.stderr


def test_channels_of_one_app_agree_on_its_secrets(shop: Shop) -> None:
    first = {"slug": "room", "type": "feishu", "config": FEISHU}
    second = {"slug": "hall", "type": "feishu", "config": {**FEISHU, "chat_id": "oc_s2"}}
    shop.write(channels=[first, second])
    second["config"] = {**FEISHU, "chat_id": "oc_s2", "app_secret": "another"}
    refused = shop.try_to_write(channels=[first, second])
    assert refused.returncode == 1
    assert "organizations[0].channels" in refused.stderr


def test_one_account_of_an_app_is_one_person(shop: Shop) -> None:
    channels = [{"slug": "room", "type": "feishu", "config": FEISHU}]
    same = [{"channel": "room", "external_id": "ou_same"}]
    members = [
        {"user": "alice", "role": "admin", "identities": same},
        {"user": "bob", "role": "approver", "identities": same},
    ]
    refused = shop.try_to_write(channels=channels, members=members)
    assert refused.returncode == 1
    assert "organizations[0].members[1].identities" in refused.stderr


def test_the_policy_is_frozen_and_the_person_is_judged_at_the_vote(shop: Shop) -> None:
    world = shop.world
    policy = {"slug": "p", "scope": "approvers"}
    agents = [agent("frozen", approval_policy="p")]
    shop.write(approval_policies=[policy], agents=agents)
    first, second, third = (shop.api.asked("frozen", "oa__pay") for _ in range(3))
    shop.write(approval_policies=[{**policy, "scope": "agent_owner"}], agents=agents)
    assert world["bob"].respond(first, "approve").json()["status"] == "approved"
    demoted = [
        {"user": "alice", "role": "admin"},
        {"user": "bob", "role": "member"},
        {"user": "erin", "role": "approver"},
    ]
    shop.write(members=demoted, approval_policies=[policy], agents=agents)
    assert world["bob"].respond(second, "approve").status_code in (403, 404)
    assert shop.api.read(second)["status"] == "pending"
    shop.write(approval_policies=[policy], agents=agents)
    assert world["bob"].respond(third, "approve").json()["status"] == "approved"


def test_a_request_without_a_way_to_people(world: World) -> None:
    marker = uuid.uuid4().hex
    broken = {
        "endpoint": "send",
        "status": 400,
        # Other tests' cards may still be on their way.
        "count": 1000,
        "body": {"code": 230002, "msg": "Bot/User can NOT be out of the chat"},
    }
    world.sandbox.control("failures", **broken)
    try:
        tapped = world["acme"].asked("tapped", "oa__pay", {"marker": marker})
        open_otherwise = world["acme"].asked("procurement", "oa__pay", {"marker": marker})
        ended = world["acme"].get(f"/confirmations/{tapped['id']}", wait="30").json()
        assert ended["status"] == "undeliverable", ended["deliveries"]
        assert ended["ended_at"] is not None
        delivery = ended["deliveries"][0]
        assert delivery["status"] == "failed"
        assert delivery["attempts"] >= 1
        assert delivery["last_error"]
        assert world["acme"].consume(tapped).json()["code"] == "not_approved"
        assert world["bob"].respond(open_otherwise, "approve").json()["status"] == "approved"
    finally:
        world.sandbox.control("failures/clear")


def test_deliveries_are_told(world: World) -> None:
    marker = uuid.uuid4().hex
    created = world["acme"].asked("procurement", "oa__pay", {"marker": marker}, initiator=STRANGER)
    world.card(marker)
    delivery = until(
        lambda: next((d for d in world["acme"].read(created)["deliveries"] if d["status"] == "sent"), None)
    )
    assert (delivery["channel"], delivery["recipient"], delivery["attempts"]) == ("ops", "oc_1", 1)
    assert delivery["last_error"] is None
