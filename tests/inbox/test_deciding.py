"""Deciding on a request's page: by POST alone, every refusal in words, nothing lost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hooks_app.confirmations import Initiator
from hooks_app.models import ConfirmationRequest, Decision
from portal.models import AuditEvent, User
from tests import make
from tests.confirmations.world import World, state
from tests.conftest import Clock
from tests.inbox.pages import alert, buttons, token

SignIn = Callable[[User], Client]


def decide(browser: Client, row: ConfirmationRequest, decision: str, reason: str = "", **more: Any) -> Any:
    """Load the page and send its form."""
    address = f"/inbox/{row.pk}/"
    page = browser.get(address).content.decode()
    data = {"decision": decision, "reason": reason, "csrfmiddlewaretoken": token(page)}
    return browser.post(address, data, **more)


def test_approve(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    answer = decide(bob, row, "approve", follow=True)
    assert answer.redirect_chain == [(f"/inbox/{row.pk}/", 302)]
    assert "Approved. The agent may now run this call once." in answer.content.decode()
    assert state(row) == "approved"
    assert [(d.user, d.decision) for d in Decision.objects.all()] == [(world.bob, "approve")]
    assert AuditEvent.objects.filter(action="decision.recorded", actor_name="bob").count() == 1


def test_reject_with_a_reason(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    page = decide(sign_in(world.bob), row, "reject", "wrong supplier", follow=True).content.decode()
    assert "Rejected. The call does not run." in page
    assert "wrong supplier" in page
    row.refresh_from_db()
    assert (row.status, row.reason) == ("rejected", "wrong supplier")


def test_a_first_vote_of_two_says_what_is_missing(world: World, sign_in: SignIn) -> None:
    world.set_policy(quorum=2)
    row = world.ask()
    page = decide(sign_in(world.bob), row, "approve", follow=True).content.decode()
    assert "Your decision counts; 1 more like it is needed." in page
    assert buttons(page) == []
    assert state(row) == "pending"


def test_reading_changes_nothing(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    before = list(ConfirmationRequest.objects.values()), AuditEvent.objects.count()
    bob = sign_in(world.bob)
    for address in ("/inbox/", "/inbox/history/", f"/inbox/{row.pk}/", f"/inbox/{row.pk}/?decision=approve"):
        assert bob.get(address).status_code == 200
        assert bob.head(address).status_code == 200
    assert (list(ConfirmationRequest.objects.values()), AuditEvent.objects.count()) == before
    for method in (bob.put, bob.delete, bob.patch):
        assert method(f"/inbox/{row.pk}/").status_code in (403, 405)
    assert bob.post("/inbox/").status_code in (403, 405)


def test_a_decision_needs_the_forms_token(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    answer = sign_in(world.bob).post(f"/inbox/{row.pk}/", {"decision": "approve"})
    assert answer.status_code == 403
    assert "Nothing has been changed" in answer.content.decode()
    assert state(row) == "pending"


@pytest.mark.parametrize("decision", ["", "perhaps", "approve\x00"])
def test_another_word_is_refused(world: World, sign_in: SignIn, decision: str) -> None:
    row = world.ask()
    answer = decide(sign_in(world.bob), row, decision)
    assert answer.status_code == 400
    assert state(row) == "pending"


@pytest.mark.parametrize("reason", ["x" * 2001, "a\x00b"])
def test_an_impossible_reason_is_refused(world: World, sign_in: SignIn, reason: str) -> None:
    row = world.ask()
    answer = decide(sign_in(world.bob), row, "reject", reason)
    assert answer.status_code == 400
    assert state(row) == "pending"


def test_somebody_who_may_see_but_not_decide_is_told_why(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    erin = sign_in(world.erin)
    page = erin.get(f"/inbox/{row.pk}/").content.decode()
    assert buttons(page) == []
    assert "Only approvers and admins of the organization may decide this request." in page
    answer = decide(erin, row, "approve")
    assert answer.status_code == 403
    assert "Only approvers and admins" in alert(answer.content.decode())
    assert state(row) == "pending"


def test_the_initiator_may_reject_and_not_approve(world: World, sign_in: SignIn) -> None:
    row = world.ask(initiator=Initiator(id="b", name="Bob", email=world.bob.email))
    bob = sign_in(world.bob)
    page = bob.get(f"/inbox/{row.pk}/").content.decode()
    assert buttons(page) == ["reject"]
    assert "this policy lets nobody approve their own request" in page
    answer = decide(bob, row, "approve")
    assert answer.status_code == 403
    assert "nobody approve their own request" in alert(answer.content.decode())
    assert state(row) == "pending"
    assert decide(bob, row, "reject").status_code == 302
    assert state(row) == "rejected"


def test_what_only_a_tap_decides_names_the_chat(world: World, sign_in: SignIn) -> None:
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    bob = sign_in(world.bob)
    assert buttons(bob.get(f"/inbox/{row.pk}/").content.decode()) == []
    answer = decide(bob, row, "approve")
    assert answer.status_code == 403
    assert "tap its card in ops-feishu" in alert(answer.content.decode())
    assert state(row) == "pending"


def test_too_late(world: World, sign_in: SignIn, time: Clock) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    form = token(bob.get(f"/inbox/{row.pk}/").content.decode())
    time.advance(seconds=121)
    answer = bob.post(f"/inbox/{row.pk}/", {"decision": "approve", "csrfmiddlewaretoken": form})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "The deadline has passed" in alert(page)
    assert buttons(page) == []


def test_somebody_was_faster(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    form = token(bob.get(f"/inbox/{row.pk}/").content.decode())
    world.reject(row, world.carol)
    answer = bob.post(
        f"/inbox/{row.pk}/", {"decision": "approve", "reason": "mine", "csrfmiddlewaretoken": form}
    )
    assert answer.status_code == 409
    assert "Others were faster. Rejected by carol" in alert(answer.content.decode())
    assert state(row) == "rejected"


def test_a_changed_mind(world: World, sign_in: SignIn) -> None:
    world.set_policy(quorum=2)
    row = world.ask()
    world.approve(row, world.bob)
    answer = decide(sign_in(world.bob), row, "reject")
    assert answer.status_code == 409
    assert "a decision can&#x27;t be taken back" in alert(answer.content.decode())
    assert state(row) == "pending"


def test_a_wanted_reason_is_asked_for_and_what_was_typed_stays(world: World, sign_in: SignIn) -> None:
    world.set_policy(require_reject_reason=True)
    row = world.ask()
    bob = sign_in(world.bob)
    page = bob.get(f"/inbox/{row.pk}/").content.decode()
    assert "Reason, needed to reject" in page
    answer = decide(bob, row, "reject", "   ")
    assert answer.status_code == 400
    assert "Say why, in a few words." in alert(answer.content.decode())
    assert state(row) == "pending"


def test_a_refused_reason_stays_in_its_field(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    page = decide(sign_in(world.bob), row, "perhaps", "because <b>").content.decode()
    assert ">because &lt;b&gt;</textarea>" in page


def test_somebody_who_is_no_member_any_more_sees_nothing(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    bob = sign_in(world.bob)
    form = token(bob.get(f"/inbox/{row.pk}/").content.decode())
    world.bob.memberships.all().delete()
    data = {"decision": "approve", "csrfmiddlewaretoken": form}
    assert bob.post(f"/inbox/{row.pk}/", data).status_code == 404
    assert state(row) == "pending"


def test_arguments_are_data(world: World, sign_in: SignIn) -> None:
    evil = {
        "note": "</pre><script>alert(1)</script>",
        "who": "a\u202eb",
        "zero": "x\u200by",
        "card_number": "4111-1111",
    }
    row = world.ask(tool_args=evil)
    page = sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()
    assert "<script>alert" not in page
    assert "&lt;/pre&gt;&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "\u200b" not in page
    assert "\\u202e" in page
    assert "4111-1111" not in page


def test_pages_are_kept_by_nobody_and_framed_by_nobody(world: World, sign_in: SignIn) -> None:
    row = world.ask()
    answer = sign_in(world.bob).get(f"/inbox/{row.pk}/")
    assert "no-store" in answer.headers["cache-control"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_person_of_two_organizations_decides_in_both(world: World, sign_in: SignIn) -> None:
    other = make.organization("initech")
    make.user("boss", other, "admin")
    other.memberships.create(user=world.bob, role="member")
    row = world.ask()
    assert decide(sign_in(world.bob), row, "approve").status_code == 302
    assert state(row) == "approved"
