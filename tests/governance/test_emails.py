"""Each member of an organization has an address of their own, in whatever way an address gets there."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from hooks_app.governance import members
from portal import audit
from portal.lib.problems import Problem
from portal.models import Membership, User
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import sign_in
from tests.config import documents

pytestmark = pytest.mark.django_db
ADMIN = {"user": "alice", "role": "admin"}


def apply(tmp_path: Path, *entries: dict[str, Any], options: tuple[str, ...] = ()) -> documents.Ended:
    return documents.apply(tmp_path, documents.small(members=[ADMIN, *entries]), *options)


def emails() -> dict[str, str]:
    return dict(User.objects.order_by("username").values_list("username", "email"))


@pytest.fixture
def browser() -> Client:
    """The admin's of acme, where kim has an address."""
    acme = make.organization()
    make.user("kim", acme, email="Kim@acme.test")
    return sign_in(make.user("alice", acme, "admin"))


def member(path: str, answer: Any, address: str) -> None:
    """The form says at its field whose the address is, and nothing is stored."""
    assert answer.status_code == 200, path
    assert "This is the address of kim; each member has one of their own." in errors(answer)
    assert list(User.objects.filter(email=address).values_list("username", flat=True)) == ["kim"]


@pytest.mark.parametrize(
    "spelling", ["kim@acme.test", " KIM@acme.test", "kim\uff20acme.test", "kim@acme\u3002test"]
)
def test_a_form_takes_no_address_of_another_member(browser: Client, spelling: str) -> None:
    path = "/admin/portal/user/add/"
    member(
        path,
        save(browser, path, username="lee", email=spelling, password="a long enough one"),
        "kim@acme.test",
    )
    other = make.user("lee", Membership.objects.get(user__username="kim").organization)
    path = f"/admin/portal/user/{other.pk}/change/"
    member(path, save(browser, path, email=spelling), "kim@acme.test")
    assert save(browser, path, email="Lee@B\u00fccher.test").status_code == 302
    assert emails()["lee"] == "lee@xn--bcher-kva.test"


def test_a_form_tells_nothing_of_accounts_elsewhere(browser: Client) -> None:
    make.user("eve", make.organization("globex"), email="eve@globex.test")
    answer = save(browser, "/admin/portal/user/add/", username="eve", email="eve@globex.test", role="member")
    assert answer.status_code == 302, errors(answer)
    assert (emails()["eve"], emails()["eve@acme"]) == ("eve@globex.test", "eve@globex.test")


@pytest.mark.parametrize("text", ["Kim <lee@acme.test>", "lee", "lee@acme.test\u200b", "lee@@acme.test"])
def test_a_form_refuses_what_is_no_address(browser: Client, text: str) -> None:
    answer = save(
        browser, "/admin/portal/user/add/", username="lee", email=text, password="a long enough one"
    )
    assert "Write one address, such as kim@example.com" in errors(answer)
    assert "lee@acme" not in emails()


def test_a_file_takes_no_address_of_a_member_of_whom_it_says_nothing(tmp_path: Path) -> None:
    assert apply(tmp_path, {"user": "kim", "email": "kim@acme.test"}).code == 0
    ended = apply(tmp_path, {"user": "lee", "email": " KIM@acme.test"})
    assert ended.code == 1
    assert ended.err == [
        "organizations[0].members[1].email: kim@acme.test is kim's; each member has one of their own"
    ]
    assert "lee" not in emails()
    # Pruned in the same run, kim keeps nobody from it.
    assert apply(tmp_path, {"user": "lee", "email": " KIM@acme.test"}, options=("--prune",)).code == 0
    assert emails()["lee"] == "kim@acme.test"


def test_a_file_may_swap_two_addresses(tmp_path: Path) -> None:
    assert (
        apply(tmp_path, {"user": "kim", "email": "k@acme.test"}, {"user": "lee", "email": "l@acme.test"}).code
        == 0
    )
    assert (
        apply(tmp_path, {"user": "kim", "email": "L@acme.test"}, {"user": "lee", "email": "k@acme.test"}).code
        == 0
    )
    assert (emails()["kim"], emails()["lee"]) == ("l@acme.test", "k@acme.test")
    again = apply(tmp_path, {"user": "kim", "email": " l@ACME.test"}, {"user": "lee", "email": "K@acme.test"})
    assert again.last == "0 changes"


def test_two_entries_of_a_file_are_one_address_however_it_is_written(tmp_path: Path) -> None:
    ended = apply(
        tmp_path,
        {"user": "kim", "email": "kim@b\u00fccher.test"},
        {"user": "lee", "email": "kim@xn--bcher-kva.test"},
    )
    assert (ended.code, ended.err) == (
        1,
        ["organizations[0].members[2].email: is kim's; each member has one of their own"],
    )


def test_nobody_joins_with_the_address_of_a_member() -> None:
    acme, globex = make.organization(), make.organization("globex")
    make.user("kim", acme, email="kim@acme.test")
    person = make.user("lee", globex, email="KIM@acme.test")
    row = members.invite(acme, "lee", "approver", made_by=None, actor=audit.SHELL)
    with pytest.raises(Problem, match="409 address_taken"):
        members.accept(person, row.pk, "approver")
    assert not Membership.objects.filter(user=person, organization=acme).exists()
    User.objects.filter(pk=person.pk).update(email="lee@acme.test")
    members.accept(person, row.pk, "approver")
    assert Membership.objects.filter(user=person, organization=acme).exists()
