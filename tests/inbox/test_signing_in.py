"""Signing in and out, the language, one's own password."""

from collections.abc import Callable

from django.test import Client

from portal.models import AuditEvent, User
from tests.confirmations.world import World

SignIn = Callable[[User], Client]
PASSWORD = "a long enough one"


def give_password(user: User) -> None:
    user.set_password(PASSWORD)
    user.save()


def test_a_wrong_password_says_so(world: World) -> None:
    give_password(world.bob)
    answer = Client().post("/login/", {"username": "bob", "password": "wrong"})
    assert answer.status_code == 200
    assert "Please enter a correct username and password" in answer.content.decode()


def test_too_many_wrong_passwords_lock_the_name_for_this_address(world: World) -> None:
    give_password(world.bob)
    give_password(world.carol)
    browser = Client()
    answers = [browser.post("/login/", {"username": "bob", "password": "wrong"}) for _ in range(10)]
    assert answers[0].status_code == 200
    locked = browser.post("/login/", {"username": "bob", "password": PASSWORD})
    assert locked.status_code == 429
    assert locked.headers["retry-after"] == "900"
    assert "for 15 minutes" in locked.content.decode()
    assert browser.post("/login/", {"username": "carol", "password": PASSWORD}).status_code == 302


def test_an_account_that_is_switched_off_does_not_get_in(world: World) -> None:
    give_password(world.bob)
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    assert Client().post("/login/", {"username": "bob", "password": PASSWORD}).status_code == 200


def test_a_session_ends_with_the_account(world: World, sign_in: SignIn) -> None:
    bob = sign_in(world.bob)
    assert bob.get("/inbox/").status_code == 200
    User.objects.filter(pk=world.bob.pk).update(is_active=False)
    assert bob.get("/inbox/").status_code == 302


def test_nobody_is_sent_elsewhere_after_signing_in(world: World) -> None:
    give_password(world.bob)
    data = {"username": "bob", "password": PASSWORD, "next": "https://evil.example/"}
    assert Client().post("/login/", data).headers["location"] == "/inbox/"


def test_signing_out_is_a_post(world: World) -> None:
    browser = Client()
    browser.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    assert browser.get("/logout/").status_code == 405
    assert browser.post("/logout/").headers["location"] == "/login/"
    assert browser.get("/inbox/").status_code == 302


def test_the_language_is_switched_before_signing_in(db: None) -> None:
    browser = Client()
    answer = browser.post("/language/", {"language": "ko", "next": "/login/"})
    assert answer.headers["location"] == "/login/"
    assert '<html lang="ko">' in browser.get("/login/").content.decode()


def test_one_changes_ones_own_password(world: World) -> None:
    give_password(world.bob)
    browser, other = Client(), Client()
    for client in (browser, other):
        assert client.post("/login/", {"username": "bob", "password": PASSWORD}).status_code == 302
    new = {
        "old_password": PASSWORD,
        "new_password1": "another long one 1",
        "new_password2": "another long one 1",
    }
    assert browser.post("/password/", {**new, "old_password": "wrong"}).status_code == 200
    assert browser.post("/password/", new).headers["location"] == "/inbox/"
    assert browser.get("/inbox/").status_code == 200
    assert other.get("/inbox/").status_code == 302
    assert AuditEvent.objects.filter(action="user.password_changed", actor_name="bob").count() == 1
