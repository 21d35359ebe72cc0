"""The contract's own example: what an apply makes of it, and that doing it again changes nothing."""

import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest

from channels_app.models import Channel, Identity
from hooks_app.config import reading, schema
from hooks_app.models import Action, Agent, ApprovalPolicy, Declaration
from hooks_app.registry import heads
from portal.models import Absence, AuditEvent, Group, Membership, Organization, User
from tests.config import documents

pytestmark = pytest.mark.django_db
SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "config.schema.json"


def test_each_object_is_printed_and_counted(tmp_path: Path) -> None:
    ended = documents.apply_file(documents.EXAMPLE)
    assert ended.code == 0
    assert ended.out == [
        "created organization acme",
        "created member acme/alice",
        "created member acme/bob",
        "created group acme/finance",
        "created absence acme/bob/2026-12-01",
        "created channel acme/ops-feishu",
        "created identity acme/bob/ops-feishu/ou_bob",
        "created approval_policy acme/payments",
        "created connector acme/oa",
        "created action acme/oa/purchase_pay",
        "created agent acme/procurement",
        "11 changes",
    ]
    # The example's variables don't begin with ACME_.
    assert {line.split(": ")[1] for line in ended.err} == {"warning"}
    assert len(ended.err) == len(documents.SECRETS)


def test_a_second_apply_changes_nothing() -> None:
    documents.apply_file(documents.EXAMPLE)
    before = documents.snapshot()
    ended = documents.apply_file(documents.EXAMPLE)
    assert ended.last == "0 changes"
    assert all(line.startswith("unchanged ") for line in ended.out[:-1])
    assert documents.snapshot() == before


def test_what_the_example_says_is_what_is_stored() -> None:
    documents.apply_file(documents.EXAMPLE)
    acme = Organization.objects.get(slug="acme")
    assert (acme.name, acme.time_zone, acme.read_only, acme.halted) == ("Acme", "Asia/Seoul", False, False)
    assert (acme.revalidate_after_seconds, acme.max_stale_seconds, acme.retention_days) == (15, 300, None)
    roles = dict(Membership.objects.filter(organization=acme).values_list("user__username", "role"))
    assert roles == {"alice": "admin", "bob": "approver"}
    assert User.objects.get(username="alice").check_password(documents.SECRETS["ALICE_PASSWORD"])
    assert not User.objects.get(username="bob").has_usable_password()
    assert list(Group.objects.get(slug="finance").members.values_list("username", flat=True)) == ["bob"]
    absence = Absence.objects.get()
    assert (absence.first_day, absence.last_day) == (date(2026, 12, 1), date(2026, 12, 8))
    identity = Identity.objects.get()
    assert (identity.external_id, identity.user.username, identity.app) == (
        "ou_bob",
        "bob",
        Channel.objects.get().app,
    )


def test_the_examples_channel_policy_connector_and_agent_are_stored() -> None:
    documents.apply_file(documents.EXAMPLE)
    channel = Channel.objects.get(slug="ops-feishu")
    assert (channel.type, channel.enabled, channel.language) == ("feishu", True, "zh-hans")
    assert channel.config["app_secret"] == documents.SECRETS["FEISHU_APP_SECRET"]
    policy = ApprovalPolicy.objects.get(slug="payments")
    assert (policy.scope, policy.quorum, policy.timeout_seconds, policy.start_by_seconds) == (
        "approvers",
        1,
        120,
        300,
    )
    action = Action.objects.get(connector__slug="oa")
    assert (action.writes, action.requires_confirmation, action.policy, action.redact, action.schema) == (
        True,
        True,
        "payments",
        ["card_number"],
        {"type": "object"},
    )
    agent = Agent.objects.get(slug="procurement")
    assert agent.owner is not None
    assert agent.owner.username == "alice"
    assert list(agent.approval_channels.values_list("slug", flat=True)) == ["ops-feishu"]
    assert list(agent.tools.values_list("name", "writes")) == [("calculator", False)]
    hooks = list(agent.declarations.values_list("source", "name", "event", "priority", "timeout_seconds"))
    assert hooks == [
        ("class_hooks", "session_context", "", None, None),
        ("class_hooks", "connector_rate_limit", "", 20, 5.0),
        ("events", "", "PostToolUse", None, None),
    ]
    handler = Declaration.objects.get(source="events")
    assert (handler.matcher, handler.handler) == (
        "oa__.*",
        {"type": "python", "target": "acme.hooks:redact", "timeout": 5},
    )


def test_the_agent_is_published_at_once_and_its_registry_is_built() -> None:
    documents.apply_file(documents.EXAMPLE)
    served = heads.serve(Agent.objects.get(slug="procurement"), "chat")
    names = [hook["name"] for hook in json.loads(served.body)["hooks"]]
    assert names[-1] == "approval_gate"
    assert {"session_context", "connector_rate_limit"} <= set(names)


def test_every_change_is_audited_without_secrets() -> None:
    documents.apply_file(documents.EXAMPLE)
    events = AuditEvent.objects.all()
    assert {event.actor_kind for event in events} == {"shell"}
    recorded = {(event.object_kind, event.action) for event in events}
    for kind in (
        "organization",
        "member",
        "group",
        "absence",
        "channel",
        "approval_policy",
        "connector",
        "agent",
    ):
        assert (kind, f"{kind}.created") in recorded
    written = json.dumps([event.data for event in events])
    assert not [secret for secret in documents.SECRETS.values() if secret in written]


def test_the_example_fits_the_json_schema() -> None:
    published = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(published)
    validator.check_schema(published)
    document = reading.read_file(str(documents.EXAMPLE))
    assert list(validator.iter_errors(document)) == []
    document["organizations"][0]["agents"][0]["hooks"]["class_hooks"][1]["parms"] = {}
    assert list(validator.iter_errors(document)) != []


def test_the_shipped_schema_is_the_one_that_the_code_makes() -> None:
    assert json.loads(SCHEMA_FILE.read_text(encoding="utf-8")) == schema.json_schema(), (
        "run `python manage.py export --schema > docs/config.schema.json`"
    )


def test_json_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "acme.json"
    file.write_text(json.dumps(documents.example()), encoding="utf-8")
    assert documents.apply_file(file).last == "11 changes"
    assert documents.apply_file(documents.EXAMPLE).last == "0 changes"


def test_a_dry_run_prints_the_same_and_changes_nothing() -> None:
    before = documents.snapshot()
    tried = documents.apply_file(documents.EXAMPLE, "--dry-run")
    assert documents.snapshot() == before
    done = documents.apply_file(documents.EXAMPLE)
    assert (tried.code, tried.out) == (done.code, done.out)


def test_a_change_is_printed_and_its_event_says_from_what_to_what(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.example())
    document = documents.example()
    document["organizations"][0]["approval_policies"][0]["quorum"] = 2
    ended = documents.apply(tmp_path, document)
    assert [line for line in ended.out if not line.startswith("unchanged")] == [
        "changed approval_policy acme/payments",
        "1 changes",
    ]
    assert AuditEvent.objects.get(action="approval_policy.changed").data == {"quorum": [1, 2]}
