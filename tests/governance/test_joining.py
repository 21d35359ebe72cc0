"""An account belongs to who made it: who joins at once, who is asked first, and what others lose by it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

from portal import audit
from portal.models import AuditEvent, GroupMember, Invitation, Membership, User
from portal.people import tokens
from tests import make
from tests.config import documents
from tests.config.documents import Ended

pytestmark = pytest.mark.django_db
PASSWORD = "chosen-by-somebody-7"
OWN = "chosen-by-myself-8"


def file(slug: str, *members: dict[str, Any], **more: Any) -> dict[str, Any]:
    admin = {"user": f"{slug}-admin", "role": "admin"}
    return documents.small(slug=slug, members=[admin, *members], **more)


def apply(
    tmp_path: Path, slug: str, *members: dict[str, Any], options: tuple[str, ...] = (), **more: Any
) -> Ended:
    return documents.apply(tmp_path, file(slug, *members, **more), *options)


def sign_in(name: str, password: str) -> Client | None:
    browser = Client()
    answer = browser.post("/login/", {"username": name, "password": password})
    return browser if answer.status_code == 302 else None


def signed_in(name: str, password: str) -> Client:
    browser = sign_in(name, password)
    assert browser is not None
    return browser


def answer(browser: Client, verb: str, **values: str) -> Any:
    """Press a button of the only open invitation."""
    page = browser.get("/inbox/invitations/")
    assert page.status_code == 200
    (row,) = page.context["items"]
    return browser.post(f"/inbox/invitations/{row.pk}/{verb}/", {"role": row.role, **values})


def role(name: str, slug: str) -> str | None:
    found = Membership.objects.filter(user__username=name, organization__slug=slug).first()
    return found.role if found else None


@pytest.fixture
def carol(tmp_path: Path) -> User:
    """A member of globex, whose admin gave her a password."""
    member = {"user": "carol", "email": "carol@acme.test", "role": "member", "password": PASSWORD}
    assert apply(tmp_path, "globex", member).code == 0
    return User.objects.get(username="carol")


CAROL = {"user": "carol", "email": "carol@acme.test", "role": "admin"}


def test_an_account_that_others_gave_a_password_is_not_adopted(tmp_path: Path, carol: User) -> None:
    before = documents.snapshot()
    ended = apply(tmp_path, "acme", CAROL)
    assert (ended.code, ended.out) == (1, [])
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].members[1].user"]
    assert "existing: true" in ended.err[0]
    assert documents.snapshot() == before


@pytest.mark.parametrize("given", ["link", "token", "session", "superuser", "password, taken away again"])
def test_nor_one_that_was_ever_given_another_way_in(tmp_path: Path, given: str) -> None:
    user = make.user("carol", make.organization("globex"))
    if given == "link":
        call_command("issue_link", "--user", "carol")
    elif given == "token":
        token, _ = tokens.issue(user=user, actor=audit.SHELL)
        token.delete()
    elif given == "session":
        Client().force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    elif given == "superuser":
        User.objects.update(is_superuser=True)
    else:
        user.set_password(PASSWORD)
        user.set_password(None)
        user.save()
    assert not User.objects.get(pk=user.pk).has_usable_password()
    ended = apply(tmp_path, "acme", {"user": "carol"})
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].members[1].user"]


def test_one_that_nobody_could_ever_use_is_adopted_without_a_word(tmp_path: Path) -> None:
    assert apply(tmp_path, "globex", {"user": "carol"}).code == 0
    ended = apply(tmp_path, "acme", {"user": "carol", "role": "approver"})
    assert (ended.code, ended.err) == (0, [])
    assert "created member acme/carol" in ended.out
    assert (role("carol", "acme"), role("carol", "globex")) == ("approver", "member")


def test_but_not_one_that_another_organization_gives_another_address(tmp_path: Path) -> None:
    """Whoever wrote the address gets the first link."""
    assert apply(tmp_path, "globex", {"user": "carol", "email": "carol@globex.test"}).code == 0
    assert apply(tmp_path, "acme", CAROL).code == 1
    assert User.objects.get(username="carol").email == "carol@globex.test"


def test_what_a_file_makes_itself_belongs_to_all_its_organizations(tmp_path: Path) -> None:
    document = file("acme", {"user": "carol", "role": "approver", "password": PASSWORD, "existing": True})
    document["organizations"] += file("globex", {"user": "carol", "role": "auditor"})["organizations"]
    assert documents.apply(tmp_path, document).code == 0
    assert (role("carol", "acme"), role("carol", "globex")) == ("approver", "auditor")
    assert sign_in("carol", PASSWORD) is not None
    assert documents.apply(tmp_path, document).last == "0 changes"


def test_who_is_invited_is_nobody_until_they_accept(tmp_path: Path, carol: User) -> None:
    more: dict[str, Any] = {
        "groups": [{"slug": "finance", "members": ["acme-admin", "carol"]}],
        "absences": [
            {"user": "acme-admin", "from": "2026-01-01", "until": "2036-01-01", "substitute": "carol"}
        ],
        "agents": [{"slug": "one", "owner": "carol"}],
    }
    invited = {**CAROL, "existing": True, "identities": [{"channel": "runtime", "external_id": "u1"}]}
    ended = apply(tmp_path, "acme", invited, **more)
    assert ended.code == 0
    assert "created member acme/carol (invited)" in ended.out
    assert [line.split(": ")[0] for line in ended.err] == [
        "organizations[0].members[1].identities", "organizations[0].groups[0].members[1]",
        "organizations[0].absences[0].substitute", "organizations[0].agents[0].owner",
    ]  # fmt: skip
    assert role("carol", "acme") is None
    assert list(GroupMember.objects.values_list("user__username", flat=True)) == ["acme-admin"]
    browser = signed_in("carol", PASSWORD)
    assert "/login/" in browser.get("/admin/")["Location"]  # as whoever has no role
    again = apply(tmp_path, "acme", invited, **more)
    assert "unchanged member acme/carol (invited)" in again.out
    assert again.last == "0 changes"
    exported = yaml.safe_load(documents.export("--org", "acme"))["organizations"][0]["members"]
    assert exported[1] == {**CAROL, "existing": True}
    assert documents.apply(tmp_path, documents.export(), "--prune").last == "0 changes"

    assert answer(browser, "accept").status_code == 200
    assert role("carol", "acme") == "admin"
    ended = apply(tmp_path, "acme", invited, **more)
    assert "unchanged member acme/carol" in ended.out
    assert "changed group acme/finance" in ended.out
    assert ended.err == []
    assert (
        yaml.safe_load(documents.export("--org", "acme"))["organizations"][0]["members"][1]["existing"]
        is True
    )


def test_who_gave_the_password_knows_it_no_more(tmp_path: Path, carol: User) -> None:
    """The admin of globex is signed in as carol, holds a token of hers, and even accepts in her name."""
    plain = tokens.issue(user=carol, scopes=["read", "decide"], actor=audit.SHELL)[1]
    apply(tmp_path, "acme", {**CAROL, "existing": True})
    other, browser = signed_in("carol", PASSWORD), signed_in("carol", PASSWORD)
    page = answer(browser, "accept")
    assert "work any more" in page.content.decode()
    assert role("carol", "acme") == "admin"
    assert sign_in("carol", PASSWORD) is None
    for session in (browser, other):
        assert session.get("/inbox/").status_code == 302
    assert tokens.authenticate(plain) is None
    actions = set(AuditEvent.objects.filter(actor_name="carol").values_list("action", flat=True))
    assert actions == {"member.created", "user.password_dropped", "token.revoked"}


def test_a_password_of_ones_own_stays_and_what_is_older_goes(tmp_path: Path, carol: User) -> None:
    old = tokens.issue(user=carol, actor=audit.SHELL)[1]
    browser = signed_in("carol", PASSWORD)
    change = {"old_password": PASSWORD, "new_password1": OWN, "new_password2": OWN}
    assert browser.post("/password/", change).status_code == 302
    own = tokens.issue(user=carol, actor=audit.SHELL)[1]
    apply(tmp_path, "acme", {**CAROL, "existing": True})
    assert answer(browser, "accept")["Location"] == "/inbox/"
    assert browser.get("/inbox/").status_code == 200
    assert sign_in("carol", OWN) is not None
    assert (tokens.authenticate(old), tokens.authenticate(own) is not None) == (None, True)


def test_a_declined_invitation_is_over_and_is_not_made_again(tmp_path: Path, carol: User) -> None:
    apply(tmp_path, "acme", {**CAROL, "existing": True})
    browser = signed_in("carol", PASSWORD)
    assert answer(browser, "decline").status_code == 302
    assert role("carol", "acme") is None
    assert "Nobody has invited you" in browser.get("/inbox/invitations/").content.decode()
    ended = apply(tmp_path, "acme", {**CAROL, "existing": True})
    assert ended.last == "0 changes"
    assert "declined" in ended.err[0]
    assert "pruned member acme/carol (invited)" in apply(tmp_path, "acme", options=("--prune",)).out
    assert sign_in("carol", PASSWORD) is not None


def test_an_answer_counts_once_and_only_for_what_was_read(tmp_path: Path, carol: User) -> None:
    apply(tmp_path, "acme", {**CAROL, "existing": True})
    browser, stranger = signed_in("carol", PASSWORD), Client()
    stranger.force_login(make.user("mallory"), backend="django.contrib.auth.backends.ModelBackend")
    address = f"/inbox/invitations/{Invitation.objects.get().pk}"
    assert browser.get(f"{address}/accept/").status_code == 405
    assert stranger.post(f"{address}/accept/", {"role": "admin"}).status_code == 404
    assert Client(enforce_csrf_checks=True, headers={}).post(f"{address}/accept/").status_code in (302, 403)
    assert browser.post(f"{address}/accept/", {"role": "member"}).status_code == 409
    assert apply(tmp_path, "acme", {**CAROL, "role": "auditor", "existing": True}).out.count(
        "changed member acme/carol (invited)"
    )
    assert browser.post(f"{address}/accept/", {"role": "admin"}).status_code == 409
    assert role("carol", "acme") is None
    User.objects.filter(pk=carol.pk).update(is_active=False)
    assert browser.post(f"{address}/accept/", {"role": "auditor"}).status_code == 302  # to sign in
    assert role("carol", "acme") is None
    User.objects.filter(pk=carol.pk).update(is_active=True)
    assert browser.post(f"{address}/accept/", {"role": "auditor"}).status_code == 200
    assert role("carol", "acme") == "auditor"
    assert Membership.objects.filter(user=carol).count() == 2


def test_an_address_that_other_organizations_rely_on_is_not_written(tmp_path: Path, carol: User) -> None:
    apply(tmp_path, "acme", {**CAROL, "existing": True})
    answer(signed_in("carol", PASSWORD), "accept")
    ended = apply(tmp_path, "acme", {**CAROL, "email": "mallory@acme.test"})
    assert [line.split(": ")[:2] for line in ended.err] == [["organizations[0].members[1].email", "warning"]]
    assert ended.last == "0 changes"
    carol.refresh_from_db()
    assert carol.email == "carol@acme.test"


def test_a_file_leaves_an_organization_its_last_admin(tmp_path: Path) -> None:
    apply(tmp_path, "acme", {"user": "bob", "role": "member"})
    document = documents.small(slug="acme", members=[{"user": "acme-admin", "role": "member"}])
    gone = documents.small(slug="acme", members=[{"user": "bob", "role": "member"}])
    for ended in (documents.apply(tmp_path, document), documents.apply(tmp_path, gone, "--prune")):
        assert ended.code == 1
        assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].members"]
    gone["organizations"][0]["members"][0]["role"] = "admin"
    assert documents.apply(tmp_path, gone, "--prune").code == 0
    assert (role("acme-admin", "acme"), role("bob", "acme")) == (None, "admin")
