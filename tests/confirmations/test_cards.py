"""What people see: everything that will run, in words that nobody else can write."""

import json
from typing import Any

import pytest

from channels_app.cards import Card, Tone, fit
from channels_app.models import Delivery
from hooks_app import confirmations
from hooks_app.confirmations import Initiator, approval_cards
from hooks_app.models import ConfirmationRequest
from tests.confirmations.world import World
from tests.conftest import Clock


def card_of(row: ConfirmationRequest) -> Card:
    """The newest card of the request."""
    return Card.from_json(Delivery.objects.get(topic=f"confirmation:{row.pk}").card)


def fields(card: Card) -> dict[str, str]:
    """The labelled lines."""
    return {field.label: field.text for field in card.fields}


def test_a_pending_card_says_what_by_whom_until_when(world: World, time: Clock) -> None:
    time.moment = time.moment.replace(year=2026, month=12, day=1, hour=3, minute=0, second=0)
    row = world.ask(summary="Pay the invoice")
    card = card_of(row)
    assert (card.title, card.tone) == ("Approval needed", Tone.PENDING)
    assert card.summary == "Procurement wants to run oa__purchase_pay."
    assert fields(card) == {
        "Tool": "oa__purchase_pay",
        "Agent": "Procurement (procurement)",
        "Organization": "Acme",
        "Requested for": "Kim (kim@elsewhere.test, u42) · not known to the portal",
        "Conversation": "c7",
        "The agent says": "Pay the invoice",
        "Decide by": "2026-12-01 12:02:00 (Asia/Seoul)",
        "Policy": "payments: approvers and admins",
    }
    assert json.loads(card.body) == {"amount": 60000, "payee": "Initech", "card_number": "[redacted]"}
    assert [(b.key, b.style, b.needs_whole_body, b.with_reason) for b in card.buttons] == [
        ("approve", "primary", True, False),
        ("reject", "danger", False, True),
    ]
    assert card.reason is not None
    assert card.reason.required is False
    assert card.link_url == f"http://127.0.0.1:8000/inbox/{row.pk}/"


def test_arguments_that_do_not_fit_take_approve_away(world: World) -> None:
    card = fit(card_of(world.ask(tool_args={"padding": "x" * 5000, "payee": "hidden"})), body_bytes=800)
    assert [button.key for button in card.buttons] == ["reject"]
    assert card.body.endswith(card.cut_notice)
    assert "hidden" not in card.body


def test_untrusted_text_stays_on_its_line_and_shows_what_hides(world: World) -> None:
    row = world.ask(
        tool_name="oa__pay\nPolicy: nobody\u202e",
        conversation_id="c\u200b7",
        summary="fine\nDecide by: never",
        initiator=Initiator(id="u1", name="Kim\u2028Approved by: bob"),
        tool_args={"note": "a\u202eb", "k\u200bey": "line\nbreak"},
    )
    card = card_of(row)
    shown = fields(card)
    assert shown["Tool"] == "oa__pay\\nPolicy: nobody\\u202e"
    assert shown["Conversation"] == "c\\u200b7"
    assert shown["The agent says"] == "fine\\nDecide by: never"
    assert shown["Requested for"] == "Kim\\u2028Approved by: bob (u1) · not known to the portal"
    assert card.summary == "Procurement wants to run oa__pay\\nPolicy: nobody\\u202e."
    assert card.body == '{\n  "note": "a\\u202eb",\n  "k\\u200bey": "line\\nbreak"\n}'


def test_a_word_that_may_not_be_what_it_looks_like_is_explained(world: World) -> None:
    card = card_of(world.ask(tool_args={"payee": "\u0410cme"}))
    assert json.loads(card.body) == {"payee": "⚠\u0410cme"}
    assert "several scripts" in fields(card)["Caution"]
    assert "Caution" not in fields(card_of(world.ask(tool_args={"payee": "Acme 지급 付款"})))


@pytest.mark.parametrize(
    ("decision", "title", "tone", "sentence"),
    [
        ("approve", "Approved", Tone.APPROVED, "oa__purchase_pay was approved by Bob Builder at "),
        ("reject", "Rejected", Tone.REJECTED, "oa__purchase_pay was rejected by Bob Builder at "),
    ],
)
def test_a_decided_card_says_who_and_when(
    world: World, time: Clock, decision: str, title: str, tone: Tone, sentence: str
) -> None:
    time.moment = time.moment.replace(year=2026, month=12, day=1, hour=3, minute=0, second=0)
    world.bob.first_name, world.bob.last_name = "Bob", "Builder"
    world.bob.save()
    row = world.decide(world.ask(), world.bob, decision, reason="because\nof this")
    card = card_of(row) if decision == "approve" else approval_cards.build(row, language="en")
    assert (card.title, card.tone, card.buttons, card.reason) == (title, tone, (), None)
    assert card.summary.startswith(sentence + "2026-12-01 12:00:00 (Asia/Seoul).")
    label = "Approved by" if decision == "approve" else "Rejected by"
    assert fields(card)[label] == (
        "Bob Builder · 2026-12-01 12:00:00 (Asia/Seoul) · reason: because\\nof this"
    )
    assert "Decide by" not in fields(card)


@pytest.mark.parametrize(
    ("ending", "title"),
    [("expired", "Expired: nobody decided in time"), ("cancelled", "Cancelled by the agent")],
)
def test_a_card_that_was_sent_follows_the_end(world: World, time: Clock, ending: str, title: str) -> None:
    row = world.ask()
    Delivery.objects.update(
        status="sent", handle={"message_id": "om_1"}, message_id="om_1", shown_version=1, due_at=None
    )
    if ending == "expired":
        time.advance(seconds=120)
        confirmations.sweep()
    else:
        confirmations.cancel(request=row)
    card = card_of(row)
    assert (card.title, card.tone, card.buttons) == (title, Tone.ENDED, ())
    assert card.summary.startswith("oa__purchase_pay does not run. The request ended at ")
    delivery = Delivery.objects.get()
    assert (delivery.wanted_version, delivery.due_at) == (2, time.moment)


def test_a_card_that_was_never_sent_is_superseded(world: World) -> None:
    row = world.approve(world.ask(), world.bob)
    assert confirmations.represent(row)["deliveries"] == [
        {
            "channel": "ops-feishu",
            "recipient": "oc_1",
            "status": "superseded",
            "attempts": 0,
            "last_error": None,
        }
    ]


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("group", "payments: the group finance"),
        ("agent_owner", "payments: the agent's owner"),
        ("org_members", "payments: any member of the organization"),
        ("channel_members", "payments: anybody in this chat"),
    ],
)
def test_the_card_names_who_decides(world: World, scope: str, words: str) -> None:
    from portal.models import Group

    group = Group.objects.create(organization=world.organization, slug="finance")
    group.members.add(world.bob)
    world.set_policy(scope=scope, group=group if scope == "group" else None)
    assert fields(card_of(world.ask()))["Policy"] == words


@pytest.mark.parametrize(
    ("language", "title", "approve"), [("ko", "승인 필요", "승인"), ("zh-hans", "需要审批", "批准")]
)
def test_a_card_speaks_its_channels_language(world: World, language: str, title: str, approve: str) -> None:
    world.channel.language = language
    world.channel.save()
    card = card_of(world.ask())
    assert (card.title, card.buttons[0].label) == (title, approve)


@pytest.mark.parametrize("language", ["ko", "zh-hans"])
def test_nothing_on_a_card_is_left_untranslated(world: World, language: str) -> None:
    world.set_policy(quorum=2, require_reject_reason=True)
    row = world.approve(world.ask(summary="x", initiator=None), world.bob, reason="y")
    english, other = _words(row, "en"), _words(row, language)
    assert len(english) == len(other)
    assert [(a, b) for a, b in zip(english, other, strict=True) if a == b] == []
    row = world.reject(row, world.carol, reason="z")
    assert (
        approval_cards.build(row, language=language).summary
        != approval_cards.build(row, language="en").summary
    )


def _words(row: ConfirmationRequest, language: str) -> list[Any]:
    card = approval_cards.build(row, language=language)
    said = {"Policy", "Requested for", "Approved by"}
    named = zip(approval_cards.build(row, language="en").fields, card.fields, strict=True)
    return [
        card.title,
        card.summary,
        card.body_label,
        card.cut_notice,
        card.link_label,
        card.reason.label if card.reason else None,
        *(button.label for button in card.buttons),
        *(field.label for field in card.fields),
        *(field.text for english, field in named if english.label in said),
    ]
