"""Leaving an organization ends what one made there, by every path, and leaves it somebody who may change it."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from channels_app import identities
from channels_app.models import Identity
from hooks_app import keys
from hooks_app.models import Agent, RuntimeKey
from portal import audit
from portal.models import Absence, AccountLink, AuditEvent, Group, GroupMember, Invitation, Membership, User
from portal.people import links, tokens
from tests import make
from tests.admin.tenant import sign_in
from tests.config import documents

pytestmark = pytest.mark.django_db


class Office:
    """acme with two admins; ``leaver`` has made and owns one thing of each kind, and a key in globex too."""

    def __init__(self) -> None:
        self.acme, self.globex = make.organization("acme"), make.organization("globex")
        self.admin = make.user("alice", self.acme, "admin")
        self.leaver = make.user("lena", self.acme, "admin")
        self.agent = make.agent(self.acme, owner=self.leaver)
        self.key, self.plain = self.issue(self.acme, "lenas")
        group = Group.objects.create(organization=self.acme, slug="finance")
        GroupMember.objects.create(group=group, user=self.leaver)
        days = {"first_day": date(2031, 1, 1), "last_day": date(2031, 1, 2)}
        Absence.objects.create(organization=self.acme, user=self.leaver, substitute=self.admin, **days)
        Absence.objects.create(organization=self.acme, user=self.admin, substitute=self.leaver, **days)
        identities.bind(organization=self.acme, user=self.leaver, channel=None, external_id="u-lena")
        self.token = tokens.issue(user=self.leaver, actor=audit.SHELL)[1]
        newcomer = make.user("nora", self.acme, "member")
        self.link = links.issue(newcomer, made_by=self.leaver, actor=audit.SHELL)[1].split("/")[-2]
        Invitation.objects.create(organization=self.acme, name="ivan", made_by=self.leaver)

    def issue(self, organization: Any, label: str) -> tuple[RuntimeKey, str]:
        return keys.issue(
            organization=organization, label=label, created_by=self.leaver, actor=audit.person(self.leaver)
        )

    def works(self) -> dict[str, bool]:
        """What of the leaver's can still be used."""
        return {
            "key": keys.authenticate(self.plain) is not None,
            "token": tokens.authenticate(self.token) is not None,
            "link": links.find(self.link) is not None,
            "invitation": Invitation.objects.exists(),
            "owner": Agent.objects.filter(owner=self.leaver).exists(),
            "identity": Identity.objects.exists(),
            "group": GroupMember.objects.exists(),
            "absence": Absence.objects.exists(),
        }


@pytest.fixture
def office() -> Office:
    return Office()


def end(office: Office, **form: str) -> Any:
    page = f"/admin/portal/membership/{office.leaver.memberships.get(organization=office.acme).pk}/delete/"
    browser = sign_in(office.admin)
    shown = browser.get(page).content.decode()
    for name in ("lenas", "u-lena", "finance", "ivan", "procurement", "nora"):
        assert name in shown, name
    return browser.post(page, {"post": "yes", **form}, follow=True)


def test_the_admins_page_names_and_ends_everything(office: Office) -> None:
    assert set(office.works().values()) == {True}
    answer = end(office)
    assert "runtime keys (lenas)" in answer.content.decode()
    assert set(office.works().values()) == {False}
    assert not Membership.objects.filter(user=office.leaver).exists()
    event = AuditEvent.objects.get(action="member.deleted")
    assert event.data["keys"] == ["lenas"]
    assert AuditEvent.objects.filter(action="key.revoked", actor_name="alice").count() == 1


def test_keys_and_agents_can_be_taken_over_instead(office: Office) -> None:
    end(office, keys="take")
    office.key.refresh_from_db()
    assert office.key.created_by == office.admin
    office.agent.refresh_from_db()
    assert office.agent.owner == office.admin
    assert {name for name, works in office.works().items() if works} == {"key"}
    User.objects.filter(pk=office.leaver.pk).update(is_active=False)
    assert keys.authenticate(office.plain) is not None
    assert AuditEvent.objects.get(action="member.deleted").data["heir"] == "alice"


def test_what_was_made_elsewhere_stays(office: Office) -> None:
    Membership.objects.create(organization=office.globex, user=office.leaver, role="admin")
    _, elsewhere = office.issue(office.globex, "globexs")
    end(office)
    assert keys.authenticate(elsewhere) is not None
    assert office.works() == dict.fromkeys(office.works(), False) | {"token": True}


def test_apply_with_prune_names_and_ends_everything(office: Office, tmp_path: Path) -> None:
    members = [{"user": "alice", "role": "admin"}, {"user": "nora"}]
    document = documents.small(members=members, agents=[{"slug": "procurement"}])
    ended = documents.apply(tmp_path, document, "--prune")
    assert ended.code == 0, ended.err
    assert {
        "pruned member acme/lena", "pruned key acme/lenas", "pruned identity acme/lena/runtime/u-lena",
        "pruned token lena/token",
    } <= set(ended.out)  # fmt: skip
    assert set(office.works().values()) == {False}


def test_switching_an_account_off_ends_what_it_made_for_good(office: Office) -> None:
    browser = sign_in(office.admin)
    page = f"/admin/portal/user/{office.leaver.pk}/change/"
    answer = browser.post(page, {"username": "lena", "email": "lena@acme.test"}, follow=True)
    assert "runtime keys (lenas)" in answer.content.decode()
    User.objects.filter(pk=office.leaver.pk).update(is_active=True)
    gone = {"key", "token", "link", "invitation"}
    assert {name for name, works in office.works().items() if not works} == gone
    assert office.leaver.memberships.get().role == "admin"


def test_the_last_admin_can_not_be_switched_off(office: Office) -> None:
    Membership.objects.filter(user=office.leaver).update(role="member")
    page = f"/admin/portal/user/{office.admin.pk}/change/"
    answer = sign_in(office.admin).post(page, {"username": "alice", "email": "alice@acme.test"})
    assert "only active admin" in answer.content.decode()
    root = sign_in(User.objects.create_superuser("root"))
    assert "only active admin" in root.post(page, {"username": "alice"}).content.decode()
    office.admin.refresh_from_db()
    assert office.admin.is_active
    assert set(office.works().values()) == {True}


def test_a_key_is_made_by_members_alone(office: Office) -> None:
    """The last moment before a membership ends is as good as any to make a key."""
    request = sign_in(office.leaver)
    office.leaver.memberships.all().delete()
    with pytest.raises(Exception, match="no member any more"):
        office.issue(office.acme, "late")
    assert isinstance(request, Client)
    assert RuntimeKey.objects.count() == 1


def test_a_membership_is_written_in_one_place() -> None:
    """Whoever adds or ends one elsewhere forgets something of the above."""
    from tests.test_house import ROOT, sources

    found = [
        str(path.relative_to(ROOT))
        for path in sources()
        if not str(path.relative_to(ROOT)).startswith(("tests/", "hooks_app/governance/"))
        and any(
            f"{model}{call}" in path.read_text()
            for model in ("Membership", "Invitation", "memberships")
            for call in ("(organization=", ".objects.create", ".create(", ".objects.update")
        )
    ]
    assert found == []


def test_a_link_made_by_somebody_who_stays_goes_on(office: Office) -> None:
    bob = make.user("bob", office.acme, "member")
    mine = links.issue(bob, made_by=office.admin, actor=audit.SHELL)[1].split("/")[-2]
    end(office)
    assert links.find(mine) is not None
    assert AccountLink.objects.filter(ended_at__isnull=True).count() == 1
