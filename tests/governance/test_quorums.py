"""A policy that can't be fulfilled is refused where it is written; whoever lets people go hears what then waits."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from hooks_app.models import ApprovalPolicy
from portal.models import Group, GroupMember, Invitation, Membership, Organization, User
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import sign_in
from tests.config import documents
from tests.confirmations import world as worlds
from tests.confirmations.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    """See :class:`World`."""
    return worlds.build()


@pytest.fixture
def alice(world: World) -> Client:
    """Her browser: she is admin."""
    return sign_in(world.alice)


@pytest.fixture
def treasury(world: World) -> Group:
    """Bob, Carol and Dave."""
    group = Group.objects.create(organization=world.organization, slug="treasury")
    for user in (world.bob, world.carol, world.dave):
        GroupMember.objects.create(group=group, user=user)
    return group


def told(answer: Any) -> str:
    """The messages of an answer."""
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


def policy_page(world: World) -> str:
    return f"/admin/hooks_app/approvalpolicy/{world.policy.pk}/change/"


@pytest.mark.parametrize(
    ("values", "field", "able"),
    [
        ({"scope": "group", "quorum": "5"}, "quorum", 3),
        ({"scope": "group", "quorum": "4"}, "quorum", 3),
        ({"scope": "group", "reject_quorum": "4"}, "reject_quorum", 3),
        ({"scope": "approvers", "quorum": "4"}, "quorum", 3),
        ({"scope": "org_members", "quorum": "6"}, "quorum", 5),
        ({"scope": "initiator", "quorum": "2"}, "quorum", 1),
        ({"scope": "agent_owner", "quorum": "2"}, "quorum", 1),
        ({"stages": '[{"scope": "approvers", "quorum": 9}]'}, "stages", 3),
    ],
)
def test_a_quorum_that_nobody_can_reach_is_refused(
    world: World, alice: Client, treasury: Group, values: dict[str, str], field: str, able: int
) -> None:
    if values.get("scope") == "group":
        values = {**values, "group": str(treasury.pk)}
    before = list(ApprovalPolicy.objects.values())
    answer = save(alice, policy_page(world), **values)
    assert answer.status_code == 200
    assert f"must decide and {able} p" in str(answer.context["adminform"].form.errors[field])
    assert list(ApprovalPolicy.objects.values()) == before


@pytest.mark.parametrize(
    ("scope", "quorum"), [("group", 3), ("approvers", 3), ("org_members", 5), ("channel_members", 9)]
)
def test_a_quorum_that_can_be_reached_is_saved(
    world: World, alice: Client, treasury: Group, scope: str, quorum: int
) -> None:
    group = str(treasury.pk) if scope == "group" else ""
    answer = save(alice, policy_page(world), scope=scope, quorum=str(quorum), group=group)
    assert answer.status_code == 302, errors(answer)
    assert ApprovalPolicy.objects.get(pk=world.policy.pk).quorum == quorum


def test_who_is_switched_off_has_no_seat(world: World, alice: Client, treasury: Group) -> None:
    User.objects.filter(pk=world.dave.pk).update(is_active=False)
    answer = save(alice, policy_page(world), scope="group", quorum="3", group=str(treasury.pk))
    assert "3 must decide and 2 people can" in errors(answer)


def test_a_policy_may_come_before_its_people_and_says_so(world: World, alice: Client) -> None:
    empty = Group.objects.create(organization=world.organization, slug="empty")
    answer = save(alice, policy_page(world), scope="group", quorum="2", group=str(empty.pk))
    assert answer.status_code == 302, errors(answer)
    assert "2 must decide and 0 people can" in told(answer)


def remove(browser: Client, group: Group, user: User) -> Any:
    place = list(GroupMember.objects.filter(group=group).order_by("pk")).index(
        GroupMember.objects.get(group=group, user=user)
    )
    page = f"/admin/portal/group/{group.pk}/change/"
    return save(browser, page, **{f"memberships-{place}-DELETE": "on"})


def test_a_group_is_not_shrunk_below_what_a_policy_needs(
    world: World, alice: Client, treasury: Group
) -> None:
    world.set_policy(scope="group", group=treasury, quorum=2)
    assert remove(alice, treasury, world.dave).status_code == 302
    answer = remove(alice, treasury, world.carol)
    assert answer.status_code == 200
    formset = answer.context["inline_admin_formsets"][0].formset
    assert formset.non_form_errors() == [
        "Policy payments: 2 must decide and 1 person can: lower it, or add people who may."
    ]
    assert GroupMember.objects.filter(group=treasury).count() == 2


def test_a_group_is_shrunk_whatever_another_group_lacks(world: World, alice: Client, treasury: Group) -> None:
    desk = Group.objects.create(organization=world.organization, slug="desk")
    for user in (world.bob, world.carol):
        GroupMember.objects.create(group=desk, user=user)
    stage = {"name": "second", "scope": "group", "group": "desk", "quorum": 2}
    world.set_policy(scope="group", group=treasury, quorum=1)
    # Not the agent's: no release carries stages out yet.
    make.policy(world.organization, "staged", scope="group", group=treasury, stages=[stage])
    assert remove(alice, treasury, world.dave).status_code == 302
    assert remove(alice, treasury, world.carol).status_code == 302
    answer = remove(alice, desk, world.carol)
    assert answer.status_code == 200
    formset = answer.context["inline_admin_formsets"][0].formset
    assert "Policy staged: 2 must decide and 1 person can" in str(formset.non_form_errors())


def test_whoever_has_no_seat_may_be_taken_out(world: World, alice: Client, treasury: Group) -> None:
    world.set_policy(scope="group", group=treasury, quorum=3)
    User.objects.filter(pk=world.dave.pk).update(is_active=False)
    assert remove(alice, treasury, world.dave).status_code == 302


@pytest.mark.parametrize(
    "names",
    [
        {"stages": [{"name": "first", "scope": "group", "group": "treasury"}]},
        {"escalate_to": {"scope": "group", "group": "treasury"}},
    ],
)
def test_a_group_that_a_policy_names_is_not_deleted(
    world: World, alice: Client, treasury: Group, names: dict[str, Any]
) -> None:
    world.set_policy(**names)
    answer = alice.post(f"/admin/portal/group/{treasury.pk}/delete/", {"post": "yes"})
    assert "in use and stays: policy payments" in told(answer)
    assert Group.objects.filter(pk=treasury.pk).exists()


def test_switching_somebody_off_names_what_waits_for_nobody(
    world: World, alice: Client, treasury: Group
) -> None:
    world.set_policy(scope="group", group=treasury, quorum=3)
    row = world.ask()
    page = f"/admin/portal/user/{world.dave.pk}/change/"
    answer = alice.post(
        page, {"username": "dave", "email": "dave@acme.test", "first_name": "", "last_name": ""}
    )
    assert answer.status_code == 302, errors(answer)
    assert (
        f"1 pending request can’t be approved by those who are left: oa__purchase_pay ({str(row.pk)[:8]})."
        in told(answer)
    )
    assert not User.objects.get(pk=world.dave.pk).is_active
    page = sign_in(world.bob).get(f"/inbox/{row.pk}/").content.decode()
    told_there = "One more person would have to be there who may approve"
    assert page.index(told_there) < page.index('value="approve"')


def test_another_role_and_an_end_of_membership_name_it_too(world: World, alice: Client) -> None:
    world.set_policy(scope="approvers", quorum=3)
    row = world.ask()
    bobs = Membership.objects.get(user=world.bob)
    answer = save(alice, f"/admin/portal/membership/{bobs.pk}/change/", role="member")
    assert str(row.pk)[:8] in told(answer)
    carols = Membership.objects.get(user=world.carol)
    answer = alice.post(f"/admin/portal/membership/{carols.pk}/delete/", {"keys": "revoke", "confirm": "1"})
    assert str(row.pk)[:8] in told(answer)
    assert not Membership.objects.filter(user=world.carol).exists()


def file(**more: Any) -> dict[str, Any]:
    members = [{"user": name, "role": "approver"} for name in ("bob", "carol", "dave")]
    organization = {
        "members": [{"user": "alice", "role": "admin"}, *members],
        "groups": [{"slug": "treasury", "members": ["bob", "carol", "dave"]}],
        "approval_policies": [{"slug": "dual", "scope": "group", "group": "treasury", "quorum": 2}],
    }
    return documents.small(**{**organization, **more})


TOO_MANY = "organizations[0].approval_policies[0].{}: {} must decide and {} p"


@pytest.mark.parametrize(
    ("policy", "field", "able"),
    [
        ({"scope": "group", "group": "treasury", "quorum": 5}, "quorum", 3),
        ({"scope": "approvers", "reject_quorum": 5}, "reject_quorum", 4),
        ({"scope": "org_members", "quorum": 5}, "quorum", 4),
        ({"scope": "initiator", "quorum": 5}, "quorum", 1),
        (
            {"stages": [{"name": "one", "scope": "group", "group": "treasury", "quorum": 5}]},
            "stages[0].quorum",
            3,
        ),
    ],
)
def test_a_file_with_it_changes_nothing(
    tmp_path: Path, policy: dict[str, Any], field: str, able: int
) -> None:
    ended = documents.apply(tmp_path, file(approval_policies=[{"slug": "dual", **policy}]))
    assert ended.code == 1
    assert any(line.startswith(TOO_MANY.format(field, 5, able)) for line in ended.err), ended.err
    assert not Organization.objects.exists()


def test_a_file_may_not_shrink_a_group_but_may_let_a_person_go(tmp_path: Path) -> None:
    assert documents.apply(tmp_path, file()).code == 0
    small = [{"slug": "treasury", "members": ["bob"]}]
    refused = documents.apply(tmp_path, file(groups=small))
    assert refused.code == 1
    assert any(line.startswith(TOO_MANY.format("quorum", 2, 1)) for line in refused.err), refused.err
    gone = file(groups=small)
    gone["organizations"][0]["members"] = gone["organizations"][0]["members"][:2]
    assert documents.apply(tmp_path, gone).code == 1  # carol and dave are still there
    ended = documents.apply(tmp_path, gone, "--prune")
    assert ended.code == 0, ended.err
    assert any("warning: 2 must decide and 1 person can" in line for line in ended.err), ended.err
    # It is said for as long as it lasts, and stops nobody from applying the file again.
    again = documents.apply(tmp_path, gone)
    assert (again.code, again.last) == (0, "0 changes")
    assert any("warning: 2 must decide and 1 person can" in line for line in again.err)


def test_a_file_may_not_shrink_the_group_of_a_stage(tmp_path: Path) -> None:
    stage = {"name": "one", "scope": "group", "group": "treasury", "quorum": 2}
    staged = [{"slug": "dual", "scope": "approvers", "stages": [stage]}]
    assert documents.apply(tmp_path, file(approval_policies=staged)).code == 0
    small = [{"slug": "treasury", "members": ["bob"]}]
    refused = documents.apply(tmp_path, file(approval_policies=staged, groups=small))
    assert refused.code == 1
    assert any(line.startswith(TOO_MANY.format("stages[0].quorum", 2, 1)) for line in refused.err)


def test_those_who_were_invited_will_have_a_seat(tmp_path: Path) -> None:
    elsewhere = make.organization("elsewhere")
    user = make.user("dave", elsewhere, email="dave@elsewhere.test", password="dave-has-one-of-his-own")
    document = file(approval_policies=[{"slug": "all", "scope": "group", "group": "treasury", "quorum": 3}])
    document["organizations"][0]["members"][3]["existing"] = True
    ended = documents.apply(tmp_path, document)
    assert ended.code == 0, ended.err
    assert any("warning: 3 must decide and 2 people can" in line for line in ended.err), ended.err
    assert Invitation.objects.get().user == user
