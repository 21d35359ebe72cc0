"""Calls that were turned away because as many requests waited as may: counted, told once, shown to who can help."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from hooks_app.confirmations import turned_away
from hooks_app.models import TurnedAway
from portal.lib import clock
from portal.models import AuditEvent
from portal.models.organizations import Role
from portal.observe import metrics
from tests import make
from tests.api.conftest import confirmation


@pytest.fixture
def refused(world: Any) -> Any:
    """Asks once more than the agent's limit allows; call it for one more refusal."""
    world.procurement.max_pending = 1
    world.procurement.save()
    make.publish(world.procurement)
    assert world.runtime.post("/confirmations", confirmation(world.procurement)).status == 201
    calls = iter(range(1000))

    def refuse() -> Any:
        body = confirmation(world.procurement, tool_call_id=f"more_{next(calls)}")
        answer = world.runtime.post("/confirmations", body)
        assert (answer.status, answer.code) == (429, "too_many_pending")
        return answer

    return refuse


def audited() -> int:
    return AuditEvent.objects.filter(action="agent.calls_turned_away").count()


def pages(user: Any, agent: Any) -> tuple[str, str]:
    """The inbox and the agent's page, as ``user`` reads them."""
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    inbox = client.get("/inbox/").content.decode()
    page = client.get(f"/admin/hooks_app/agent/{agent.pk}/change/").content.decode()
    return inbox, page


def test_refusals_are_counted_and_told_once(world: Any, refused: Any) -> None:
    before = metrics.registry.get_sample_value("hookgate_calls_turned_away_total") or 0
    for _ in range(5):
        refused()
    row = TurnedAway.objects.get(agent=world.procurement)
    assert (row.count, audited()) == (5, 1)
    assert row.first_at <= row.last_at <= clock.now()
    assert metrics.registry.get_sample_value("hookgate_calls_turned_away_total") == before + 5


def test_who_can_help_reads_of_it_and_nobody_else(world: Any, refused: Any) -> None:
    admin = make.user("ada", world.acme, role=Role.ADMIN)
    assert "turned away" not in "".join(pages(admin, world.procurement))
    refused()
    inbox, page = pages(admin, world.procurement)
    assert "1 call was turned away" in inbox
    assert "1 call was turned away" in page
    assert "1 requests may wait" in page
    refused()
    assert all("2 calls were turned away" in text for text in pages(admin, world.procurement))
    assert (
        "2 calls were turned away"
        in pages(make.user("ben", world.acme, role=Role.APPROVER), world.procurement)[0]
    )
    for stranger in (
        make.user("eve", world.beta, role=Role.ADMIN),
        make.user("mem", world.acme, role=Role.MEMBER),
    ):
        assert "turned away" not in "".join(pages(stranger, world.procurement))


def test_after_a_quiet_day_it_is_no_news_and_then_news_again(world: Any, refused: Any) -> None:
    refused()
    TurnedAway.objects.update(last_at=clock.now() - turned_away.QUIET - timedelta(seconds=1))
    assert turned_away.of_agent(world.procurement) is None
    refused()
    found = turned_away.of_agent(world.procurement)
    assert found is not None
    assert (found.count, audited()) == (1, 2)
    assert found.first_at == found.last_at


def test_a_call_that_was_asked_before_is_not_turned_away(world: Any, refused: Any) -> None:
    assert world.runtime.post("/confirmations", confirmation(world.procurement)).status == 200
    assert not TurnedAway.objects.exists()
