"""The database fails at every statement and every commit of the gate's path, one after the other. Nothing opens."""

import uuid
from typing import Any

import pytest
from django.db import DatabaseError

from channels_app.models import Delivery, Interaction
from hooks_app.models import Agent, ConfirmationRequest
from portal.models import Organization
from tests import make
from tests.defects import office as offices
from tests.defects.faults import MESSAGE, each_place
from tests.defects.office import Office, Seen, shown, tap

ENDED = {"approve": "approved", "reject": "rejected"}


@pytest.fixture
def office(transactional_db: None) -> Office:
    """With real commits, so that they can fail too."""
    built = offices.build()
    built.world.set_agent(max_pending=1000)
    return built


def test_asking_leaves_a_whole_request_or_none(
    office: Office, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    """Known failure 1 of earlier systems: a database error while asking let the tool run.

    And known failure 3: the failing INSERT logged the tool's arguments.
    """
    question: dict[str, Any] = office.question(tool_args={"payee": "Very-Private-Ltd", "amount": 1})

    def ask() -> Seen:
        return office.call("POST", "/confirmations", question)

    def check(seen: Seen) -> None:
        row = ConfirmationRequest.objects.filter(tool_call_id=question["tool_call_id"]).first()
        assert seen.status == 201 or seen.status >= 500, seen
        if row is None:
            assert seen.status >= 500
            return
        assert (row.status, row.stages.count(), row.decisions.count()) == ("pending", 1, 0)
        assert Delivery.objects.filter(topic=f"confirmation:{row.pk}").count() == 1
        # Asked again it is the same request, with the same card.
        assert ask().body["id"] == str(row.pk)
        assert Delivery.objects.filter(topic=f"confirmation:{row.pk}").count() == 1
        question["tool_call_id"] = uuid.uuid4().hex

    assert each_place(ask, check) > 10
    text = caplog.text + "".join(capfd.readouterr())
    assert MESSAGE in text
    assert "Very-Private-Ltd" not in text


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_counts_whole_or_not_at_all(office: Office, decision: str) -> None:
    """Known failure 1 of earlier systems: rejected, then one failed read, and the tool ran."""
    token = office.token(office.world.bob)
    request = office.ask()

    def respond() -> Seen:
        path = f"/confirmations/{request['id']}/respond"
        return office.call("POST", path, {"decision": decision}, bearer=token)

    def check(seen: Seen) -> None:
        nonlocal request
        state = office.state(request)
        assert seen.status == 200 or seen.status >= 500, seen
        if seen.status == 200:
            assert (seen.body["status"], state) == (ENDED[decision], (ENDED[decision], 1))
        if state != ("pending", 0):
            assert state == (ENDED[decision], 1)
            assert respond().status == 200
            request = office.ask()

    assert each_place(respond, check) > 10


def test_a_tap_counts_whole_or_not_at_all(office: Office) -> None:
    """Known failure 1 of earlier systems, by way of the chat: what could not be recorded is not said to be."""
    request = office.ask()
    card = shown(request)

    def press() -> Seen:
        return tap(card, "ou_bob", http=office.http)

    def check(seen: Seen) -> None:
        nonlocal request, card
        state = office.state(request)
        assert seen.status == 200 or seen.status >= 500, seen
        if seen.status == 200 and seen.body["toast"]["type"] == "success":
            assert state == ("approved", 1)
        assert Interaction.objects.filter(delivery=card).count() == state[1]
        if state != ("pending", 0):
            assert state == ("approved", 1)
            request = office.ask()
            card = shown(request)

    assert each_place(press, check) > 10
    assert ConfirmationRequest.objects.filter(status="approved").exists()


@pytest.mark.parametrize("decision", [None, "reject", "approve"])
def test_an_approval_is_used_once_or_not_at_all(office: Office, decision: str | None) -> None:
    """Known failure 1 of earlier systems: whatever fails while the runtime asks to run, only an approval lets it."""
    attempt = str(uuid.uuid4())

    def make_request() -> Any:
        made = office.ask()
        if decision is not None:
            office.respond(made, office.world.bob, decision)
        return made

    request = make_request()

    def consume() -> Seen:
        return office.consume(request, attempt)

    def check(seen: Seen) -> None:
        nonlocal request
        row = ConfirmationRequest.objects.get(pk=request["id"])
        if decision != "approve":
            assert (row.consumed_at, seen.status == 409 or seen.status >= 500) == (None, True)
            return
        assert row.consumed_at is not None if seen.status == 200 else seen.status >= 500
        if row.consumed_at is not None:
            assert consume().status == 200
            assert office.consume(request).status == 409
            request = make_request()

    assert each_place(consume, check) >= 2  # the key, and the request


def test_a_failed_read_never_says_approved(office: Office) -> None:
    """Known failure 1 of earlier systems: one failed poll during the wait ended the wait with a yes."""
    request = office.ask()
    office.respond(request, office.world.bob, "reject")
    said: list[Seen] = []
    path = f"/confirmations/{request['id']}?wait=0"
    assert each_place(lambda: office.call("GET", path), said.append) >= 3
    assert {seen.body["status"] if seen.status == 200 else "failed" for seen in said} == {
        "rejected",
        "failed",
    }
    assert all(seen.status == 200 or seen.status >= 500 for seen in said)


def test_a_registry_is_served_whole_or_not_at_all(office: Office) -> None:
    """Known failure 1 of earlier systems: an agent whose rules could not be loaded ran without them."""
    path = f"/agents/{office.world.agent.slug}/registry"
    whole = office.call("GET", path).body
    served: list[Seen] = []

    def check(seen: Seen) -> None:
        served.append(seen)
        # Out of date, so that the next one is built inside its request.
        Organization.objects.update(inputs_version=Organization.objects.get().inputs_version + 1)

    assert each_place(lambda: office.call("GET", path), check) > 5
    assert served[-1].status == 200
    for seen in served:
        assert seen.status == 200 or seen.status >= 500, seen
        if seen.status == 200:
            assert (seen.body["digest"], seen.body["hooks"]) == (whole["digest"], whole["hooks"])


def test_an_agent_that_belongs_to_nobody_is_gated_like_any_other(office: Office) -> None:
    """Known failure 3 of earlier systems: an agent without an organization of its own ran ungated.

    Here an agent can't be outside an organization, and one without an owner, a policy or a channel still asks.
    """
    with pytest.raises(DatabaseError):
        Agent.objects.create(slug="stray", name="Stray")
    bare = make.agent(office.world.organization, "bare", require_confirmation_for_all=True)
    key = make.key(office.world.organization, bare)
    manifest = office.call("GET", "/agents/bare/registry", bearer=key).body
    assert (manifest["require_confirmation_for_all"], manifest["hooks"][-1]["name"]) == (
        True,
        "approval_gate",
    )
    question = office.question(agent="bare", registry_digest=manifest["digest"], tool_name="anything")
    seen = office.call("POST", "/confirmations", question, bearer=key)
    assert (seen.status, seen.body["status"], seen.body["policy"]["slug"]) == (201, "pending", "default")
