"""Real signed callbacks against real requests: a tap decides only what its own card asks, and only who may decide."""

import json
from typing import Any

import pytest

from channels_app.models import Channel, Interaction
from channels_app.sandbox import crypto
from hooks_app.models import Decision
from portal.lib import clock
from portal.models import AuditEvent
from tests import make
from tests.conftest import Clock
from tests.defects.office import Office, Seen, app, post, shown, tap

OTHER_KEYS = {"app_id": "cli_9", "app_secret": "s9", "encrypt_key": "k9", "verification_token": "t9"}


def toast(seen: Seen) -> str:
    """The kind of the platform's toast."""
    assert seen.status == 200, seen
    kind: str = seen.body["toast"]["type"]
    return kind


def foreign(slug: str = "globex", **config: Any) -> Channel:
    """A channel in the same chat that somebody made in an organization of their own."""
    return make.channel(make.organization(slug), config=config)


def test_a_channel_of_another_organization_decides_nothing(office: Office) -> None:
    """Known failure 4 of earlier systems: a request could be decided at any organization's address, by its id alone.

    Here the stranger has an app of their own, or even the keys of ours, and knows reference, message and chat.
    """
    request = office.ask()
    card = shown(request)
    own_app, same_app = foreign("globex", **OTHER_KEYS), foreign("initech")
    assert toast(tap(card, "ou_bob", at=own_app, by=app(own_app))) == "warning"
    assert toast(tap(card, "ou_bob", at=same_app)) == "warning"
    assert tap(card, "ou_bob", by=app(own_app)).status == 401
    assert office.state(request) == ("pending", 0)
    assert toast(tap(card, "ou_bob")) == "success"
    assert office.state(request) == ("approved", 1)


@pytest.mark.parametrize("hole", ["unsigned", "token", "plain", "plain_unsigned", "signature"])
def test_no_unauthentic_call_decides(office: Office, hole: str) -> None:
    """Known failure 5 of earlier systems: without a key nothing was checked, and the token never was."""
    request = office.ask()
    assert tap(shown(request), "ou_bob", tamper=hole).status == 401
    assert (office.state(request), Interaction.objects.count()) == (("pending", 0), 0)


def test_a_weaker_channel_of_the_same_organization_is_no_way_round(office: Office) -> None:
    """Known failure 6 of earlier systems: a body that a protected channel refused was taken by a keyless one."""
    request = office.ask()
    card = shown(request)
    second = make.channel(office.world.organization, "second", config=OTHER_KEYS)
    plain = json.dumps({"schema": "2.0", "header": {"app_id": "cli_9"}, "event": {}}).encode()
    assert post(second, plain, {}).status == 401
    assert toast(tap(card, "ou_bob", at=second, by=app(second))) == "warning"
    # A stored configuration that lost its key opens nothing either.
    config = {name: value for name, value in second.config.items() if name != "encrypt_key"}
    Channel.objects.filter(pk=second.pk).update(config=config)
    assert post(second, plain, {}).status == 404
    assert office.state(request) == ("pending", 0)


def test_an_inline_request_has_no_card_to_tap(office: Office) -> None:
    """Known failure 7 of earlier systems: an inline request was decided by a callback, by nobody in particular."""
    decoy = shown(office.ask())
    office.world.set_agent(confirmation_mode="inline_only")
    request = office.ask()
    assert request["deliveries"] == []
    for guess in (request["id"], f"confirmation:{request['id']}", request["tool_call_id"], ""):
        assert toast(tap(decoy, "ou_bob", ref=guess, message_id="om_x")) == "warning"
    assert office.state(request) == ("pending", 0)
    assert office.respond(request, office.world.bob).status == 200
    (vote,) = office.call("GET", f"/confirmations/{request['id']}").body["decisions"]
    assert (vote["user"], vote["identity"]) == ("bob", None)


@pytest.mark.parametrize("scope", ["agent_owner", "approvers", "group"])
def test_the_scope_on_the_card_is_the_scope_at_the_tap(office: Office, scope: str) -> None:
    """Known failure 8 of earlier systems: the card named who may approve, and any tap won."""
    world = office.world
    group = world.organization.groups.create(slug="finance")
    group.members.add(world.carol)
    world.set_policy(scope=scope, group=group if scope == "group" else None)
    world.bind(world.carol, "ou_carol")
    may = {"agent_owner": {"ou_dave"}, "approvers": {"ou_bob", "ou_carol"}, "group": {"ou_carol"}}[scope]
    for who in ("ou_stranger", "ou_bob", "ou_carol", "ou_dave"):
        request = office.ask()
        wins = who in may
        assert toast(tap(shown(request), who)) == ("success" if wins else "warning"), who
        assert office.state(request) == (("approved", 1) if wins else ("pending", 0)), who


def test_channel_only_is_decided_nowhere_else(office: Office) -> None:
    """Known failure 9 of earlier systems: the initiator approved a card-only request over REST."""
    world = office.world
    world.set_agent(confirmation_mode="channel_only")
    kim = {"id": "b", "name": "Bob", "email": world.bob.email}
    request = office.ask(initiator=kim)
    card = shown(request)
    for person in (world.alice, world.bob, world.carol):
        for decision in ("approve", "reject"):
            refused = office.respond(request, person, decision)
            assert (refused.status, refused.body["code"]) == (403, "channel_only")
    assert toast(tap(card, "ou_bob")) == "warning"  # the initiator, in the chat
    assert office.state(request) == ("pending", 0)
    world.bind(world.carol, "ou_carol")
    assert toast(tap(card, "ou_carol")) == "success"
    assert [(vote.user, vote.decision) for vote in Decision.objects.all()] == [(world.carol, "approve")]


def test_a_recorded_tap_is_worth_nothing_later_or_after_the_channel_went_off(
    office: Office, time: Clock
) -> None:
    """Known failure 11 of earlier systems: a year-old signature passed, and a disabled channel went on taking taps."""
    request = office.ask()
    card = shown(request)
    year_ago = clock.now().timestamp() - 365 * 86400
    assert tap(card, "ou_bob", now=year_ago).status == 401
    Channel.objects.filter(pk=card.channel_id).update(enabled=False)
    assert tap(card, "ou_bob").status == 404
    assert office.state(request) == ("pending", 0)


def test_who_decided_is_who_tapped(office: Office) -> None:
    """Known failure 15 of earlier systems: a stranger's tap left the agent's owner on record as the approver."""
    request = office.ask()
    card = shown(request)
    tap(card, "ou_stranger")
    tap(card, "ou_bob")
    read = office.call("GET", f"/confirmations/{request['id']}").body
    assert [(v["user"], v["identity"]["external_id"]) for v in read["decisions"]] == [("bob", "ou_bob")]
    trail = AuditEvent.objects.filter(
        object_id=request["id"], action__in=["decision.recorded", "confirmation.approved"]
    )
    assert {event.actor_name for event in trail} == {"bob"}


def test_a_tap_that_says_recorded_is_what_is_recorded(office: Office, time: Clock) -> None:
    """Known failure 16 of earlier systems: a tap was told that it counts, and the row ended expired."""
    for late, expected in ((0, "approved"), (1, "expired")):
        request = office.ask()
        card = shown(request)
        time.advance(seconds=119 + late)
        told = toast(tap(card, "ou_bob"))
        read = office.call("GET", f"/confirmations/{request['id']}").body
        assert (told == "success", read["status"]) == (not late, expected)
        time.advance(seconds=2)
        again = office.call("GET", f"/confirmations/{request['id']}").body
        assert (again["status"], len(again["decisions"])) == (expected, 1 - late)


def test_an_encrypted_envelope_is_the_way_in_and_the_only_one(office: Office) -> None:
    """Known failure 10 of earlier systems: with a key set, neither the URL check nor a click was understood."""
    channel = office.world.channel
    check = json.dumps({"challenge": "c1", "token": "verification-token", "type": "url_verification"})
    sealed = crypto.envelope(crypto.encrypt(check, encrypt_key=channel.config["encrypt_key"]))
    assert post(channel, sealed, {}).body == {"challenge": "c1"}
    assert post(channel, check.encode(), {}).status == 401
    request = office.ask()
    assert toast(tap(shown(request), "ou_bob")) == "success"
