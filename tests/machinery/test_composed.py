"""Queries that are composed once find what the same queryset finds, and writes of many rows write each as alone."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext

from channels_app.cards import Card, Tone
from channels_app.models import Delivery
from channels_app.outbox import deliveries
from hooks_app.models import Agent, RuntimeKey
from portal.lib import clock, statements
from portal.lib.composed import Composed, Parameter
from portal.models import Organization
from tests import make

KEYS = RuntimeKey.objects.select_related("organization", "agent", "created_by").order_by("label", "pk")


@pytest.fixture
def acme(db: None) -> Organization:
    return make.organization("acme")


def look(key: RuntimeKey) -> tuple[Any, ...]:
    """All that was read with a row; reading more of it would be a statement more."""
    agent, maker = key.agent, key.created_by
    return (
        {field.attname: getattr(key, field.attname) for field in RuntimeKey._meta.concrete_fields},
        key.organization.slug,
        key.organization.approval_policy,
        (agent.pk, agent.slug, agent.organization_id, agent.created_at) if agent else None,
        maker.username if maker else None,
    )


def test_rows_are_those_of_the_queryset(acme: Organization, django_assert_num_queries: Any) -> None:
    agent = make.agent(acme, "payer")
    make.key(acme)
    make.key(acme, agent=agent)
    make.key(make.organization("other"))
    composed = Composed(KEYS.filter(organization=Parameter("organization")))
    expected = [look(key) for key in KEYS.filter(organization=acme)]
    assert len(expected) == 2
    for _ in range(2):
        with django_assert_num_queries(1):
            assert [look(key) for key in composed.rows(organization=acme.pk)] == expected
    assert composed.first(organization=uuid.uuid4()) is None


def test_text_and_times_and_ids_are_values(acme: Organization) -> None:
    for name in ("a", "b'; --", "%s"):
        make.agent(acme, f"agent-{len(name)}", name=name)
    named = Composed(Agent.objects.filter(name=Parameter("name"), organization_id=Parameter("organization")))
    for name in ("a", "b'; --", "%s"):
        assert [row.name for row in named.rows(name=name, organization=acme.pk)] == [name]
    assert named.rows(name="a' OR 1=1 --", organization=acme.pk) == []
    soon = clock.now() + timedelta(hours=1)
    make.key(acme)
    RuntimeKey.objects.update(expires_at=soon)
    ending = Composed(RuntimeKey.objects.filter(expires_at__lte=Parameter("moment")))
    assert len(ending.rows(moment=soon)) == 1
    assert ending.rows(moment=soon - timedelta(microseconds=1)) == []


def test_a_value_that_is_missing_is_an_error(acme: Organization) -> None:
    composed = Composed(Agent.objects.filter(slug=Parameter("slug")))
    with pytest.raises(KeyError, match="slug"):
        composed.rows(name="payer")


def test_the_text_is_written_once(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    make.agent(acme, "payer")
    composed = Composed(Agent.objects.filter(slug=Parameter("slug")))
    assert composed.first(slug="payer") is not None
    monkeypatch.setattr(SQLCompiler, "pre_sql_setup", None)
    with pytest.raises(TypeError):
        Agent.objects.get(slug="payer")
    assert composed.first(slug="payer") is not None


def test_what_is_prefetched_comes_with_the_rows(acme: Organization, django_assert_num_queries: Any) -> None:
    agent = make.agent(acme, "payer")
    make.key(acme, agent=agent)
    composed = Composed(Agent.objects.prefetch_related("keys").filter(slug=Parameter("slug")))
    with django_assert_num_queries(2):
        (found,) = composed.rows(slug="payer")
        assert [key.agent_id for key in found.keys.all()] == [agent.pk]


@pytest.mark.django_db(transaction=True)
def test_every_thread_uses_its_own_connection() -> None:
    make.agent(make.organization("acme"), "payer")
    composed = Composed(Agent.objects.filter(slug=Parameter("slug")))
    composed.rows(slug="payer")

    def read(_: int) -> tuple[int, bool]:
        try:
            return len(composed.rows(slug="payer")), connection.in_atomic_block
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(40))) == {(1, False)}


def test_fields_of_many_objects_are_written_as_by_themselves(acme: Organization) -> None:
    """Every kind of field that a delivery has: text, null, times, UUIDs, JSON, encrypted JSON."""
    channel = make.channel(acme)
    card = Card(title="Approval needed", tone=Tone.PENDING, summary="pay")
    rows = [
        row
        for number in range(3)
        for row in deliveries.enqueue(channel=channel, topic=f"t:{number}", card=card)
    ]
    now, lease = clock.now(), uuid.uuid4()
    for number, row in enumerate(rows[:2]):
        row.handle = {"message_id": f"om_{number}", "quoted": "%s '\"\\"}
        row.message_id, row.last_error = f"om_{number}", None if number else "late: %d'"
        row.lease, row.lease_until, row.sent_at = lease, now, now
        row.card = {"title": "가나다", "n": number}
        row.recipient = "is not named below"
    with CaptureQueriesContext(connection) as captured:
        statements.write(
            rows[:2],
            ["handle", "message_id", "last_error", "lease", "lease_until", "sent_at", "card"],
        )
    assert len(captured) == 1
    for number, row in enumerate(rows[:2]):
        found = Delivery.objects.get(pk=row.pk)
        assert found.recipient == rows[2].recipient
        assert found.handle == {"message_id": f"om_{number}", "quoted": "%s '\"\\"}
        assert (found.message_id, found.last_error) == (f"om_{number}", None if number else "late: %d'")
        assert (found.lease, found.lease_until, found.sent_at) == (lease, now, now)
        assert found.card["n"] == number
    untouched = Delivery.objects.get(pk=rows[2].pk)
    assert (untouched.handle, untouched.message_id, untouched.lease) == (None, "", None)
    statements.write([], ["handle"])
    with pytest.raises(KeyError, match="no_such_field"):
        statements.write(rows, ["handle", "no_such_field"])
