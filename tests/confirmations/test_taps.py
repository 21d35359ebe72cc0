"""Taps on cards: the same rules as everywhere, and an answer in the language of the chat."""

import pytest

from channels_app.models import Delivery, Identity
from hooks_app import confirmations
from hooks_app.approvers.eligibility import tapped
from hooks_app.confirmations import Initiator, Voter
from hooks_app.confirmations.taps import ApprovalsTopic
from hooks_app.models import ConfirmationRequest, Decision
from portal.models import AuditEvent, Membership, User
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import World, state
from tests.conftest import Clock


@pytest.fixture
def bob(world: World) -> Identity:
    """Bob's account."""
    return world.bind(world.bob, "ou_bob")


def test_a_tap_approves(world: World, bob: Identity, time: Clock) -> None:
    row = world.ask()
    reply = world.tap(row, "ou_bob", "approve", name="Bob B.")
    assert (reply.ok, reply.text) == (True, "Approval recorded.")
    assert reply.card is not None
    assert (reply.card.title, reply.card.buttons) == ("Approved", ())
    shown = confirmations.represent(ConfirmationRequest.objects.get(pk=row.pk))
    assert (shown["status"], shown["decisions"]) == (
        "approved",
        [
            {
                "decision": "approve",
                "user": "bob",
                "identity": {"channel": "ops-feishu", "external_id": "ou_bob", "name": "Bob B."},
                "reason": None,
                "at": time.moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            }
        ],
    )
    event = AuditEvent.objects.get(action="confirmation.approved")
    assert (event.actor_kind, event.actor_name) == ("user", "bob")


def test_a_tap_rejects_with_the_cards_reason(world: World, bob: Identity) -> None:
    row = world.ask()
    reply = world.tap(row, "ou_bob", "reject", reason="wrong payee")
    assert (reply.ok, reply.text) == (True, "Rejection recorded.")
    assert ConfirmationRequest.objects.get(pk=row.pk).reason == "wrong payee"


def test_an_unbound_account_is_told_how_to_be_bound(world: World) -> None:
    row = world.ask()
    reply = world.tap(row, "ou_stranger", "approve", name="Mallory")
    assert (reply.ok, reply.card) == (False, None)
    assert reply.text == (
        "Your account is not linked to a portal user, so it can't decide. Ask an admin to link ou_stranger on the"
        " channel ops-feishu to you."
    )
    assert (state(row), Decision.objects.count()) == ("pending", 0)


def test_a_bound_account_of_somebody_who_may_not_decide(world: World) -> None:
    world.bind(world.dave, "ou_dave")
    row = world.ask()
    reply = world.tap(row, "ou_dave", "approve")
    assert (reply.ok, reply.text) == (False, "You are not among those who may decide this request.")
    assert state(row) == "pending"


def test_the_person_behind_the_account_is_judged_at_the_tap(world: World, bob: Identity) -> None:
    row = world.ask()
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    assert not world.tap(row, "ou_bob", "approve").ok
    User.objects.filter(pk=world.bob.pk).update(is_active=True)
    Membership.objects.filter(user=world.bob).update(role="member")
    assert not world.tap(row, "ou_bob", "approve").ok
    Membership.objects.filter(user=world.bob).update(role="approver")
    bob.delete()
    assert not world.tap(row, "ou_bob", "approve").ok
    assert state(row) == "pending"
    world.bind(world.bob, "ou_bob2")
    assert world.tap(row, "ou_bob2", "approve").ok


def test_the_initiator_does_not_tap_approve(world: World, bob: Identity) -> None:
    row = world.ask(initiator=Initiator(id="b", email="bob@acme.test"))
    reply = world.tap(row, "ou_bob", "approve")
    assert (reply.ok, reply.text) == (False, "You started this call, so you can't approve it.")
    assert world.tap(row, "ou_bob", "reject").ok


def test_a_reason_is_asked_for(world: World, bob: Identity) -> None:
    world.set_policy(require_reject_reason=True)
    row = world.ask()
    reply = world.tap(row, "ou_bob", "reject")
    assert (reply.ok, reply.text) == (
        False,
        "A rejection needs a reason: write it on the card, or open the full request.",
    )
    assert state(row) == "pending"
    assert world.tap(row, "ou_bob", "reject", reason="no").ok


def test_votes_are_counted_in_the_answer_and_on_the_card(world: World, bob: Identity) -> None:
    world.set_policy(quorum=2)
    world.bind(world.carol, "ou_carol")
    row = world.ask()
    reply = world.tap(row, "ou_bob", "approve")
    assert (reply.ok, reply.text) == (True, "Your approval counts: 1 of 2.")
    assert reply.card is not None
    assert [button.key for button in reply.card.buttons] == ["approve", "reject"]
    delivery = Delivery.objects.get()
    assert reply.ref == delivery.ref
    assert [f["text"] for f in delivery.card["fields"] if f["label"] == "Policy"] == [
        "payments: approvers and admins · 1 of 2 approvals"
    ]
    # The same again is no second vote.
    assert world.tap(row, "ou_bob", "approve").text == "Your approval counts: 1 of 2."
    assert world.tap(row, "ou_carol", "approve").text == "Approval recorded."
    assert state(row) == "approved"


def test_two_accounts_of_one_person_are_one_voter(world: World, bob: Identity) -> None:
    world.set_policy(quorum=2)
    world.bind(world.bob, "ou_bob_phone")
    row = world.ask()
    world.tap(row, "ou_bob", "approve")
    assert world.tap(row, "ou_bob_phone", "approve").text == "Your approval counts: 1 of 2."
    assert world.approve(row, world.bob).status == "pending"


def test_a_late_tap_is_told_what_happened_and_gets_the_card_as_it_is(
    world: World, bob: Identity, time: Clock
) -> None:
    world.bind(world.carol, "ou_carol")
    row = world.ask()
    world.tap(row, "ou_bob", "approve")
    reply = world.tap(row, "ou_carol", "reject")
    assert (reply.ok, reply.text) == (False, "Already approved by bob.")
    assert reply.card is not None
    assert reply.card.title == "Approved"
    assert world.tap(row, "ou_bob", "reject").text == "You have decided already, and a decision stands."
    late = world.ask()
    time.moment = time.moment.replace(year=2030, month=1, day=1, hour=0, minute=0, second=0)
    reply = world.tap(late, "ou_bob", "approve")
    assert reply.text.startswith("Too late: the deadline was ")
    assert reply.text.endswith("(Asia/Seoul).")
    assert reply.card is not None
    assert (reply.card.title, reply.card.buttons) == ("Expired: nobody decided in time", ())
    cancelled = world.ask()
    confirmations.cancel(request=cancelled)
    assert world.tap(cancelled, "ou_bob", "approve").text == "This request has ended; nothing runs."


def test_a_button_that_we_never_drew_does_nothing(world: World, bob: Identity) -> None:
    row = world.ask()
    reply = world.tap(row, "ou_bob", "approve_all")
    assert (reply.ok, reply.text) == (False, "This card can't be used any more.")
    assert state(row) == "pending"


def test_a_card_of_another_organization_reaches_nothing(world: World, bob: Identity) -> None:
    row = world.ask()
    other = make.organization("evil")
    Delivery.objects.update(organization=other)
    assert not world.tap(row, "ou_bob", "approve").ok
    assert state(row) == "pending"


def test_anybody_in_the_chat_decides_where_the_policy_says_so(world: World) -> None:
    world.set_policy(scope="channel_members", quorum=2)
    row = world.ask()
    with refused(403, "not_an_approver"):
        world.approve(row, world.alice)
    assert world.tap(row, "ou_x", "approve", name="Xu").text == "Your approval counts: 1 of 2."
    assert world.tap(row, "ou_x", "approve").text == "Your approval counts: 1 of 2."
    assert world.tap(row, "ou_y", "approve").ok
    assert state(row) == "approved"
    shown = confirmations.represent(ConfirmationRequest.objects.get(pk=row.pk))["decisions"]
    assert [(d["user"], d["identity"] and d["identity"]["external_id"]) for d in shown] == [
        (None, "ou_x"),
        (None, "ou_y"),
    ]
    event = AuditEvent.objects.get(action="confirmation.approved")
    assert (event.actor_kind, event.actor_id) == ("identity", "ou_y")


def test_an_account_that_is_bound_after_its_vote_does_not_vote_twice(world: World) -> None:
    world.set_policy(scope="channel_members", quorum=2)
    row = world.ask()
    world.tap(row, "ou_x", "approve")
    world.bind(world.bob, "ou_x")
    assert world.tap(row, "ou_x", "approve").text == "Your approval counts: 1 of 2."
    assert state(row) == "pending"


def test_a_deactivated_persons_account_is_no_member_of_the_chat(world: World, bob: Identity) -> None:
    world.set_policy(scope="channel_members")
    row = world.ask()
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    assert not world.tap(row, "ou_bob", "approve").ok
    assert state(row) == "pending"


def test_the_initiators_own_account_does_not_approve_in_the_chat(world: World, bob: Identity) -> None:
    world.set_policy(scope="channel_members")
    row = world.ask(initiator=Initiator(id="b", email="bob@acme.test"))
    assert not world.tap(row, "ou_bob", "approve").ok
    row = world.ask(initiator=Initiator(id="ou_kim"))
    assert not world.tap(row, "ou_kim", "approve").ok
    assert world.tap(row, "ou_y", "approve").ok


def test_an_inline_request_is_not_decided_by_a_tap(world: World, bob: Identity) -> None:
    world.set_agent(confirmation_mode="inline_only")
    row = world.ask()
    voter = tapped(world.channel, "ou_bob", "", bob)
    with refused(403, "not_an_approver"):
        confirmations.decide(request_id=row.pk, voter=voter, decision="approve")
    assert confirmations.decide(request_id=row.pk, voter=Voter(user=world.bob), decision="approve").ended_at


def test_another_organizations_channel_decides_nothing(world: World) -> None:
    other = make.organization("evil")
    channel = make.channel(other)
    world.set_policy(scope="channel_members")
    row = world.ask()
    with refused(403, "not_an_approver"):
        confirmations.decide(request_id=row.pk, voter=tapped(channel, "ou_x", "", None), decision="approve")


def test_channel_only_is_decided_by_a_tap(world: World, bob: Identity) -> None:
    world.set_agent(confirmation_mode="channel_only")
    row = world.ask()
    assert world.tap(row, "ou_bob", "approve").ok
    assert state(row) == "approved"


@pytest.mark.parametrize(
    ("language", "words"),
    [("ko", "승인이 기록되었습니다."), ("zh-hans", "已记录批准。"), ("en", "Approval recorded.")],
)
def test_the_answer_is_in_the_chats_language(world: World, bob: Identity, language: str, words: str) -> None:
    world.channel.language = language
    world.channel.save()
    assert world.tap(world.ask(), "ou_bob", "approve").text == words


def test_locking_a_topic_that_is_gone_is_harmless(world: World) -> None:
    ApprovalsTopic().lock("confirmation:00000000-0000-0000-0000-000000000000")
    ApprovalsTopic().lock("confirmation:rubbish")
