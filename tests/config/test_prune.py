"""``--prune``: what the file's organizations no longer name goes; what has history is switched off."""

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from channels_app.models import App, Channel, Delivery, Identity
from hooks_app.models import Agent, ConnectorCallLog
from portal.lib import ids
from portal.models import AuditEvent, Group, Membership, Organization, User
from tests import make
from tests.config import documents

pytestmark = pytest.mark.django_db


def _bare() -> dict[str, Any]:
    document = documents.small()
    document["organizations"][0] |= {"name": "Acme", "time_zone": "Asia/Seoul"}
    document["organizations"][0]["members"][0]["email"] = "alice@acme.test"
    return document


def _delivery(channel: Channel) -> None:
    Delivery.objects.create(
        organization=channel.organization,
        channel=channel,
        recipient="oc_1",
        topic=f"confirmation:{ids.new()}",
        card={},
        ref="ref",
        ref_digest=str(ids.new()),
        created_at=timezone.now(),
    )


def _call(agent: Agent) -> None:
    ConnectorCallLog.objects.create(
        id=ids.new(),
        organization=agent.organization,
        agent=agent,
        agent_slug=agent.slug,
        tool_name="oa__purchase_pay",
        status="succeeded",
        started_at=timezone.now(),
        received_at=timezone.now(),
    )


def test_what_is_not_named_goes(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    ended = documents.apply(tmp_path, _bare(), "--prune")
    assert ended.code == 0
    assert ended.out == [
        "unchanged organization acme",
        "unchanged member acme/alice",
        "pruned agent acme/procurement",
        "pruned connector acme/oa",
        "pruned approval_policy acme/payments",
        "pruned absence acme/bob/2026-12-01",
        "pruned group acme/finance",
        "pruned identity acme/bob/ops-feishu/ou_bob",
        "pruned member acme/bob",
        "pruned channel acme/ops-feishu",
        "8 changes",
    ]
    assert documents.apply(tmp_path, _bare(), "--prune").last == "0 changes"
    for model in (Agent, App, Channel, Group, Identity):
        assert not model.objects.exists(), model
    assert list(Membership.objects.values_list("user__username", flat=True)) == ["alice"]
    assert User.objects.filter(username="bob").exists()
    assert AuditEvent.objects.filter(action__endswith=".pruned").count() >= 6


def test_without_the_option_nothing_goes(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    assert documents.apply(tmp_path, _bare()).last == "0 changes"


def test_what_has_history_is_switched_off_once(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    channel, agent = Channel.objects.get(), Agent.objects.get()
    _delivery(channel)
    _call(agent)
    ended = documents.apply(tmp_path, _bare(), "--prune")
    assert {"pruned channel acme/ops-feishu", "pruned agent acme/procurement"} <= set(ended.out)
    assert not Channel.objects.get().enabled
    assert not Agent.objects.get().enabled
    again = documents.apply(tmp_path, _bare(), "--prune")
    assert {"unchanged channel acme/ops-feishu", "unchanged agent acme/procurement"} <= set(again.out)
    assert again.last == "0 changes"
    assert Delivery.objects.count() == ConnectorCallLog.objects.count() == 1


def test_a_channel_that_a_kept_agent_names_is_switched_off(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    _call(Agent.objects.get())
    assert documents.apply(tmp_path, _bare(), "--prune").code == 0
    assert not Channel.objects.get().enabled
    assert documents.apply(tmp_path, _bare(), "--prune").last == "0 changes"


def test_other_organizations_are_left_alone(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    globex = make.organization("globex")
    make.agent(globex, "other")
    make.user("carol", globex)
    make.channel(globex)
    documents.apply(tmp_path, _bare(), "--prune")
    assert list(Agent.objects.values_list("slug", flat=True)) == ["other"]
    assert App.objects.filter(organization=globex).count() == 1
    assert Organization.objects.count() == 2
    assert Membership.objects.filter(organization=globex).count() == 1


def test_accounts_that_a_pruning_file_does_not_name_go(tmp_path: Path) -> None:
    member = {"user": "bob", "identities": [{"channel": "runtime", "external_id": "u42"}]}
    documents.apply(tmp_path, documents.small(members=[member]))
    ended = documents.apply(tmp_path, documents.small(members=[{"user": "bob"}]), "--prune")
    assert "pruned identity acme/bob/runtime/u42" in ended.out
    assert not Identity.objects.exists()


def test_a_dry_prune_prints_the_same_and_changes_nothing(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    _delivery(Channel.objects.get())
    before = documents.snapshot()
    tried = documents.apply(tmp_path, _bare(), "--prune", "--dry-run")
    assert documents.snapshot() == before
    assert tried.out == documents.apply(tmp_path, _bare(), "--prune").out
