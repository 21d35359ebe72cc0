"""Links with which people choose a password, and the admin's forms that used to give them one."""

import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client

from portal import audit, environment
from portal.models import AccountLink, AuditEvent, Invitation, Membership, User
from portal.observe import logs
from portal.people import accounts, links
from tests import make
from tests.admin.forms import fill
from tests.admin.tenant import sign_in
from tests.conftest import Clock
from tests.governance import mail

pytestmark = pytest.mark.django_db
OWN = "chosen-by-myself-8"
FORM = {"new_password1": OWN, "new_password2": OWN}


@pytest.fixture
def bob() -> User:
    return make.user("bob", make.organization("acme"), "member")


@pytest.fixture
def admin(bob: User) -> User:
    return make.user("alice", Membership.objects.get(user=bob).organization, "admin")


def made(user: User) -> str:
    """The path of a new link."""
    address = links.issue(User.objects.get(pk=user.pk), made_by=None, actor=audit.SHELL)[1]
    return address.removeprefix("http://127.0.0.1:8000")


def works(path: str) -> bool:
    status = Client().get(path).status_code
    assert status in (200, 410)
    return bool(status == 200)


def test_a_link_works_once(bob: User) -> None:
    path, browser = made(bob), Client()
    page = browser.get(path)
    assert page.status_code == 200
    assert (page["Referrer-Policy"], "no-store" in page["Cache-Control"]) == ("no-referrer", True)
    assert b"bob" in page.content
    short = browser.post(path, {"new_password1": "short", "new_password2": "short"})
    assert "too short" in short.content.decode()
    assert browser.post(path, FORM)["Location"] == "/login/"
    assert browser.post("/login/", {"username": "bob", "password": OWN})["Location"] == "/inbox/"
    assert Client().post(path, {"new_password1": f"x{OWN}", "new_password2": f"x{OWN}"}).status_code == 410
    bob.refresh_from_db()
    assert bob.check_password(OWN)
    assert bob.password_own_since is not None
    assert AuditEvent.objects.get(action="user.password_changed").data == {"by_link": True}


def test_looking_at_a_link_does_not_use_it_up(bob: User) -> None:
    path = made(bob)
    for _ in range(3):
        assert works(path)
        assert Client().head(path).status_code == 200


ENDS: dict[str, Any] = {
    "a newer link": made,
    "a password": lambda bob: accounts.give_password(bob, "another-one-9", actor=audit.SHELL),
    "a password behind our back": lambda bob: (bob.set_password("another-one-9"), bob.save()),
    "another address": lambda bob: User.objects.filter(pk=bob.pk).update(email="other@acme.test"),
    "switched off": lambda bob: User.objects.filter(pk=bob.pk).update(is_active=False),
    "switched off and on": lambda bob: [accounts.switch_off(bob), User.objects.update(is_active=True)],  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("what", ENDS)
def test_a_link_ends_with_the_state_it_was_made_for(bob: User, what: str) -> None:
    path = made(bob)
    assert works(path)
    ENDS[what](bob)
    assert not works(path)
    assert Client().post(path, FORM).status_code == 410
    assert not User.objects.get(pk=bob.pk).check_password(OWN)


def test_a_link_lives_three_days(bob: User, time: Clock) -> None:
    path = made(bob)
    time.advance(hours=71)
    assert works(path)
    time.advance(hours=1)
    assert not works(path)


def test_nothing_stored_or_logged_opens_the_account(bob: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = made(bob)
    token = path.split("/")[-2]
    Client().get(path)
    Client().post(path, {"new_password1": "x"})
    Client().get(path.replace(token, f"{token}x"))  # 410, which Django writes to the log with its path
    stored = str([list(model.objects.values()) for model in (AccountLink, AuditEvent, User)])
    assert token not in stored
    written = "".join(logs.formatter().format(record) for record in caplog.records)
    assert "/account/hgl_…" in written
    assert token not in written
    assert AccountLink.objects.get().digest not in written


@pytest.mark.parametrize("token", ["hgl_", "hgl_unknown", "x" * 5000, "hg_%00"])
def test_a_link_that_there_never_was_is_like_one_that_is_over(token: str) -> None:
    assert Client().get(f"/account/{token}/").status_code == 410


def test_the_operator_gives_a_link_from_a_shell(bob: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("issue_link", "--user", "bob")
    address = capsys.readouterr().out.strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:8000/account/hgl_[\w-]{32}/", address)
    assert works(address.removeprefix("http://127.0.0.1:8000"))


def press(person: User, user: User, **form: str) -> Any:
    return sign_in(person).post(f"/admin/portal/user/{user.pk}/link/", form)


def test_without_mail_an_admin_is_shown_the_link_of_their_own_people_once(bob: User, admin: User) -> None:
    page = press(admin, bob)
    found = re.search(r"http://127\.0\.0\.1:8000(/account/hgl_[\w-]+/)", page.content.decode())
    assert found
    assert works(found.group(1))
    assert "no-store" in page["Cache-Control"]
    assert AccountLink.objects.get().made_by == admin


def test_but_not_of_somebody_who_belongs_elsewhere_too(bob: User, admin: User) -> None:
    """It would be the same as a password that the admin knows."""
    Membership.objects.create(organization=make.organization("globex"), user=bob, role="admin")
    page = press(admin, bob)
    assert "belongs to other organizations" in page.content.decode()
    assert "hgl_" not in page.content.decode()
    password = {"password": OWN, "again": OWN}
    refused = sign_in(admin).post(f"/admin/portal/user/{bob.pk}/set_password/", password)
    assert refused.status_code == 403
    assert not AccountLink.objects.exists()
    assert "hgl_" in press(User.objects.create_superuser("root"), bob).content.decode()


def test_no_admin_gives_a_link_to_a_superuser_or_a_stranger(bob: User, admin: User) -> None:
    stranger = make.user("mallory", make.organization("globex"), "admin")
    assert press(stranger, bob).status_code in (302, 403)
    User.objects.filter(pk=bob.pk).update(is_superuser=True)
    assert press(admin, bob).status_code == 403
    assert not AccountLink.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_link_goes_to_the_persons_address(bob: User, admin: User, settings: Any) -> None:
    Membership.objects.create(organization=make.organization("globex"), user=bob)
    with mail.delivered(settings) as box:
        answer = press(admin, bob)
        assert answer.status_code == 302
        assert "hgl_" not in str(answer.headers) + answer.content.decode()
        (message,) = box.messages
        assert (message["To"], message["From"]) == ("bob@acme.test", "hookgate@portal.test")
        found = re.search(r"http://127\.0\.0\.1:8000(/account/hgl_[\w-]+/)", str(message.get_payload()))
        assert found
        assert works(found.group(1))
        box.refuses = True
        failed = press(admin, bob)
        assert "could not be sent" in failed.content.decode()
        assert "not today" not in failed.content.decode()
    assert not AccountLink.objects.filter(ended_at__isnull=True).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("theirs", ["bob@acme.test", "BOB@acme.test", "bob@evil.test", ""])
def test_who_loses_a_password_on_joining_gets_a_link_where_both_organizations_know_the_address(
    bob: User, settings: Any, theirs: str
) -> None:
    """Whoever made the account wrote its address, and would get the link."""
    globex = make.organization("globex")
    bob.set_password("given-by-acme-9")
    bob.save()
    row = Invitation.objects.create(organization=globex, name="bob", user=bob, role="admin", email=theirs)
    with mail.delivered(settings) as box:
        page = sign_in(bob).post(f"/inbox/invitations/{row.pk}/accept/", {"role": "admin"})
    agreed = theirs.lower() == "bob@acme.test"
    assert ("on its way" in page.content.decode(), len(box.messages)) == (agreed, int(agreed))
    assert AccountLink.objects.filter(ended_at__isnull=True).count() == int(agreed)


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "ssl"),
    [
        ("smtp+tls://u:p%40x@mail.test", "mail.test", 587, True, False),
        ("smtps://u:p@mail.test", "mail.test", 465, False, True),
        ("smtp://mail.test:2525", "mail.test", 2525, False, False),
    ],
)
def test_where_mail_is_sent(url: str, host: str, port: int, tls: bool, ssl: bool) -> None:
    found = environment.mail_server("X", url)
    shown = [found.get(f"EMAIL_{key}", False) for key in ("HOST", "PORT", "USE_TLS", "USE_SSL")]
    assert shown == [host, port, tls, ssl]
    if "%40" in url:
        assert found["EMAIL_HOST_PASSWORD"] == "p@x"


@pytest.mark.parametrize(
    "url", ["consolemail://", "dummymail://", "smtp://", "mail.test", "http://x", "smtp://u:secret@h:nine"]
)
def test_what_would_only_look_like_sending_is_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="HOOKGATE_EMAIL_URL: use smtp") as refused:
        environment.mail_server("HOOKGATE_EMAIL_URL", url)
    assert "secret" not in str(refused.value)


# The admin's forms tell nobody which names there are elsewhere.


def add(browser: Client, address: str, **values: str) -> Any:
    return browser.post(address, {**fill(browser.get(address)), **values})


def shape(answer: Any, name: str) -> tuple[Any, ...]:
    """Everything that an answer says, with the name and what is new each time left out."""
    text = re.sub(
        r"[0-9a-f]{8}-[0-9a-f-]{27}|csrf\S+ value=\S+", "", answer.content.decode().replace(name, "")
    )
    location = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "", answer.headers.get("Location", ""))
    told = [str(message).replace(name, "") for message in answer.wsgi_request._messages]
    return answer.status_code, location, text, re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "", str(told))


@pytest.mark.parametrize("password", ["", "given-to-them-9"])
def test_the_form_for_a_new_user_tells_no_name_from_elsewhere(admin: User, password: str) -> None:
    make.user("carol", make.organization("globex"))
    make.user("dave@globex", None)
    browser = sign_in(admin)
    answers = {
        shape(add(browser, "/admin/portal/user/add/", username=name, password=password), name)
        for name in ("carol", "nobody", "dave@globex", "globex-admin")
    }
    assert len(answers) == 1
    assert next(iter(answers))[0] == 302
    mine = set(User.objects.filter(memberships__organization__slug="acme").values_list("username", flat=True))
    assert {"carol@acme", "nobody@acme", "dave@globex@acme"} <= mine
    assert User.objects.get(username="carol").memberships.get().organization.slug == "globex"
    again = add(browser, "/admin/portal/user/add/", username="carol")
    assert "already exists" in again.content.decode()


def test_nor_does_the_form_for_changing_one(admin: User, bob: User) -> None:
    make.user("carol", make.organization("globex"))
    browser, page = sign_in(admin), f"/admin/portal/user/{bob.pk}/change/"
    answers = set()
    for name in ("carol", "nobody", "bob"):
        browser.get(page)  # shows what was said before
        form = {"username": name, "email": "b@acme.test", "is_active": "on"}
        answers.add(shape(browser.post(page, form), "bob"))
    assert len(answers) == 1
    bob.refresh_from_db()
    assert (bob.username, bob.email) == ("bob", "b@acme.test")


def test_nor_does_an_invitation(admin: User, bob: User) -> None:
    carol = make.user("carol", make.organization("globex"))
    browser, page = sign_in(admin), "/admin/portal/invitation/add/"
    answers = {shape(add(browser, page, name=name, role="approver"), name) for name in ("carol", "nobody")}
    assert len(answers) == 1
    listed = browser.get("/admin/portal/invitation/").content.decode()
    assert ("carol" in listed, "nobody" in listed, "globex" in listed) == (True, True, False)
    for row in Invitation.objects.all():
        shown = browser.get(f"/admin/portal/invitation/{row.pk}/change/").content.decode()
        assert "globex" not in shown
    twice = [add(browser, page, name=name, role="admin").content.decode() for name in ("carol", "nobody")]
    assert ["already" in text for text in twice] == [True, True]
    assert "member already" in add(browser, page, name="bob").content.decode()
    row = Invitation.objects.get(name="carol")
    joined = sign_in(carol).post(f"/inbox/invitations/{row.pk}/accept/", {"role": "approver"})
    assert joined.status_code == 302
    assert carol.memberships.filter(organization__slug="acme", role="approver").exists()
    assert not Invitation.objects.filter(name="carol").exists()


def test_and_takes_the_same_time(admin: User) -> None:
    """The statements are the same, so that there is nothing to measure."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    make.user("carol", make.organization("globex"))
    browser, page = sign_in(admin), "/admin/portal/invitation/add/"
    form = fill(browser.get(page))
    kinds = []
    for name in ("carol", "nobody"):
        with CaptureQueriesContext(connection) as queries:
            browser.post(page, {**form, "name": name, "role": "member"})
        kinds.append([re.sub(r"'[^']*'|\d+", "?", query["sql"])[:60] for query in queries])
    assert kinds[0] == kinds[1]


def test_an_invitation_for_a_name_that_nobody_had_is_nobodys_later(admin: User) -> None:
    add(sign_in(admin), "/admin/portal/invitation/add/", name="nobody", role="admin")
    squatter = make.user("nobody", make.organization("globex"))
    page = sign_in(squatter).get("/inbox/invitations/")
    assert list(page.context["items"]) == []


@pytest.mark.django_db(transaction=True)
def test_a_password_that_an_admin_sets_while_the_person_joins_elsewhere_is_not_known(
    bob: User, admin: User
) -> None:
    """Either the admin is refused, or what was set is gone; several times, in both orders."""
    for round in range(4):
        slug = f"globex{round}"
        globex = make.organization(slug)
        row = Invitation.objects.create(organization=globex, name="bob", user=bob, role="admin")
        given = f"given-by-admin-{round}"
        bob.set_password(f"start-{round}-12345")
        bob.save()
        person, boss = sign_in(bob), sign_in(admin)
        barrier = threading.Barrier(2)

        def at_once(
            browser: Client, address: str, form: dict[str, str], gate: threading.Barrier = barrier
        ) -> int:
            gate.wait()
            return int(browser.post(address, form).status_code)

        with ThreadPoolExecutor(2) as threads:
            accepting = threads.submit(
                at_once, person, f"/inbox/invitations/{row.pk}/accept/", {"role": "admin"}
            )
            page = f"/admin/portal/user/{bob.pk}/set_password/"
            setting = threads.submit(at_once, boss, page, {"password": given, "again": given})
            codes = accepting.result(), setting.result()
        joined = Membership.objects.filter(organization=globex, user=bob).exists()
        knows = User.objects.get(pk=bob.pk).check_password(given)
        assert not (joined and knows), codes
        assert codes[0] in (200, 302)
        Membership.objects.filter(organization=globex).delete()
