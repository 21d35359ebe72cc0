"""Which policy holds, where the cards go, and that somebody is there to approve."""

from typing import Any

from channels_app import identities
from channels_app.models import Delivery
from hooks_app.confirmations import Initiator
from hooks_app.models import ConfirmationRequest
from hooks_app.registry import heads
from portal.models import Group, Organization
from tests import make
from tests.confirmations.conftest import refused
from tests.confirmations.world import KIM, World


def test_the_level_that_names_a_policy_first_decides(world: World) -> None:
    for slug in ("of-action", "of-trigger", "of-org"):
        make.policy(world.organization, slug)
    world.organization.approval_policy = "of-org"
    world.organization.save()
    connector = world.organization.connectors.get()
    connector.actions.filter(name="purchase_pay").update(policy="of-action")
    make.class_hook(
        world.agent, "approval_gate", when="args.amount >= 50000", params={"policy": "of-trigger"}
    )
    world.set_agent(approval_policy="payments")
    heads.inputs_changed(world.organization)
    assert world.ask().policy["slug"] == "of-action"
    assert world.ask(tool_name="oa__other").policy["slug"] == "of-trigger"
    assert world.ask(tool_name="oa__other", tool_args={"amount": 1}).policy["slug"] == "payments"
    world.set_agent(approval_policy=None)
    assert world.ask(tool_name="oa__other", tool_args={"amount": 1}).policy["slug"] == "of-org"
    Organization.objects.update(approval_policy="default")
    heads.inputs_changed(world.organization)
    row = world.ask(tool_name="oa__other", tool_args={"amount": 1})
    assert row.policy["slug"] == "default"
    assert row.policy["timeout_seconds"] == 120
    assert row.policy["forbid_self_approval"] is True


def test_the_portal_judges_the_triggers_itself(world: World) -> None:
    """A runtime can't choose the weaker of two policies: its word counts only where the portal can't know."""
    make.policy(world.organization, "strict", quorum=2)
    make.policy(world.organization, "on-api")
    make.class_hook(world.agent, "approval_gate", when="args.amount >= 50000", params={"policy": "strict"})
    make.class_hook(world.agent, "approval_gate", when="surface == 'api'", params={"policy": "on-api"})
    make.publish(world.agent)
    assert world.ask(policy="on-api").policy["slug"] == "strict"
    assert world.ask(policy="strict", tool_args={"amount": 1}).policy["slug"] == "payments"
    assert world.ask(policy="on-api", tool_args={"amount": 1}).policy["slug"] == "on-api"
    # A condition that can't be evaluated counts as a match.
    assert world.ask(tool_args={}).policy["slug"] == "strict"


def test_cards_go_where_they_are_named_and_nowhere_else(world: World) -> None:
    second = make.channel(world.organization, "finance", config={"chat_id": "oc_2"})
    make.channel(world.organization, "lunch", config={"chat_id": "oc_3"})
    make.approval_channel(world.agent, second)
    make.class_hook(world.agent, "feishu_gate", when="args.amount >= 90000", params={"channel": "finance"})
    make.publish(world.agent)
    assert _channels(world.ask()) == ["ops-feishu", "finance"]
    assert _channels(world.ask(tool_args={"amount": 90000})) == ["finance"]
    assert _channels(world.ask(channel="finance")) == ["finance"]
    world.channel.enabled = False
    world.channel.save()
    heads.inputs_changed(world.organization)
    assert _channels(world.ask()) == ["finance"]
    second.enabled = False
    second.save()
    heads.inputs_changed(world.organization)
    assert _channels(world.ask()) == []


def test_a_platforms_spelling_means_its_only_channel(world: World) -> None:
    world.agent.approval_channel_rows.all().delete()
    make.class_hook(world.agent, "feishu_gate")
    make.publish(world.agent)
    assert _channels(world.ask()) == ["ops-feishu"]


def test_inline_only_sends_no_card(world: World) -> None:
    world.set_agent(confirmation_mode="inline_only")
    assert _channels(world.ask()) == []


def test_nobody_to_approve_is_refused_at_once(world: World) -> None:
    world.set_policy(scope="group", group=make_group(world))
    with refused(422, "no_eligible_approver"):
        world.ask()
    assert Delivery.objects.count() == 0


def test_a_quorum_beyond_the_people_is_refused(world: World) -> None:
    world.set_policy(quorum=3)
    assert world.ask().status == "pending"
    with refused(422, "no_eligible_approver"):
        world.ask(initiator=Initiator(id="b", email="bob@acme.test"))
    world.set_policy(quorum=3, forbid_self_approval=False)
    assert world.ask(initiator=Initiator(id="b", email="bob@acme.test")).status == "pending"


def test_chat_members_need_a_card(world: World) -> None:
    world.set_policy(scope="channel_members")
    assert world.ask().status == "pending"
    world.set_agent(confirmation_mode="inline_only")
    with refused(422, "no_eligible_approver"):
        world.ask()


def test_the_initiator_is_matched_by_mail_and_then_by_the_runtimes_id(world: World) -> None:
    identities.bind(organization=world.organization, user=world.carol, channel=None, external_id="u42")
    assert world.ask(initiator=Initiator(id="u42", email="BOB@acme.test")).initiator_user == world.bob
    assert world.ask(initiator=KIM).initiator_user == world.carol
    assert world.ask(initiator=Initiator(id="u43")).initiator_user is None
    outsider = make.user("mallory", make.organization("evil"))
    assert world.ask(initiator=Initiator(id="x", email=outsider.email)).initiator_user is None


def test_scope_initiator_needs_a_known_one(world: World) -> None:
    world.set_policy(scope="initiator", forbid_self_approval=False)
    with refused(422, "initiator_unknown"):
        world.ask()
    with refused(422, "initiator_unknown"):
        world.ask(initiator=None)
    world.dave.is_active = False
    world.dave.save()
    with refused(422, "initiator_unknown"):
        world.ask(initiator=Initiator(id="d", email="dave@acme.test"))
    assert world.ask(initiator=Initiator(id="b", email="bob@acme.test")).status == "pending"


def make_group(world: World, *members: Any) -> Group:
    """A group of the organization."""
    group = Group.objects.create(organization=world.organization, slug="finance")
    group.members.add(*members)
    return group


def _channels(row: ConfirmationRequest) -> list[str]:
    return [
        delivery.channel.slug
        for delivery in Delivery.objects.filter(topic=f"confirmation:{row.pk}").order_by("created_at")
    ]
