"""Nobody known, nothing dear: passwords are hashed a few at a time, and an address fails so often and no more."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.hashers import Argon2PasswordHasher, PBKDF2PasswordHasher
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from limits.errors import StorageError

from hooks_app import tasks
from hooks_app.api import documents
from hooks_app.config import schema
from portal import sign_ins, windows
from portal.lib.problems import Problem
from portal.models import User
from portal.people import hashing
from portal.people.hashing import Queue
from tests import make
from tests.machinery.live import Portal, until
from tests.soak import counts

PASSWORD = "a long enough one"
ARGON2_BYTES = 100 * 1024 * 1024


@pytest.fixture
def bob(db: None) -> User:
    """Somebody who has a password."""
    return make.user("bob", make.organization(), password=PASSWORD)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Hashing that is cheap; the list has how many ran at once, each time that one began."""
    seen: list[int] = []
    running, lock = 0, threading.Lock()

    def hashed(hasher: Any, password: str, *args: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
            seen.append(running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return password == PASSWORD

    monkeypatch.setattr(Argon2PasswordHasher, "encode", lambda *args: str(hashed(*args)))
    monkeypatch.setattr(Argon2PasswordHasher, "verify", hashed)
    return seen


def sign_in(name: str, password: str = "wrong", **headers: Any) -> Any:
    return Client().post("/login/", {"username": name, "password": password}, **headers)


# The queue


def test_the_queue_has_an_end() -> None:
    queue, go = Queue(2, 3, 30), threading.Event()
    inside: list[int] = []

    def work() -> None:
        with queue.turn():
            inside.append(1)
            go.wait(10)

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(work) for _ in range(5)]
        until(lambda: len(inside) == 2 and queue._room._value == 0)
        with pytest.raises(Problem) as refused, queue.turn():
            pass
        assert (refused.value.status, refused.value.code) == (503, "overloaded")
        assert refused.value.retry_after is not None
        assert len(inside) == 2
        go.set()
        for one in running:
            one.result(10)
    with queue.turn():  # there is room again
        assert len(inside) == 5


def test_nobody_waits_longer_than_said() -> None:
    queue = Queue(1, 3, 0.05)
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with queue.turn():
            held.set()
            go.wait(10)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert held.wait(10)
        began = time.monotonic()
        with pytest.raises(Problem, match="503"), queue.turn():
            pass
        assert 0.04 < time.monotonic() - began < 5
        go.set()
        holding.result(10)


@pytest.mark.parametrize("hasher", [hashing.QueuedArgon2(), hashing.QueuedPBKDF2()])
def test_every_hash_of_a_password_is_in_the_queue(hasher: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    class Counting(Queue):
        def _slot(self) -> Any:
            turns.append(1)
            return super()._slot()

    queue = Counting(1, 0, 1)
    monkeypatch.setattr(hashing, "queue", lambda: queue)
    if isinstance(hasher, PBKDF2PasswordHasher):
        monkeypatch.setattr(hasher, "iterations", 1000)
    encoded = hasher.encode("one", "saltsaltsalt")
    assert hasher.verify("one", encoded)
    assert not hasher.verify("two", encoded)
    assert len(turns) == 3


def test_sixty_at_once_hold_nobody_up(portal: Portal, cheap: list[int]) -> None:
    """Each with a name of its own from an address of its own, as whoever has many of both."""
    page = portal.get("/login/")
    found = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found is not None
    form = {"csrfmiddlewaretoken": found[1], "password": "wrong"}
    cookies = {"csrftoken": page.cookies["csrftoken"]}

    def attempt(number: int) -> httpx.Response:
        headers = {"X-Forwarded-For": f"10.1.{number}.1", "Accept": "text/html"}
        data = {**form, "username": f"nobody-{number}"}
        return httpx.post(f"{portal.url}/login/", data=data, cookies=cookies, headers=headers, timeout=30)

    with ThreadPoolExecutor(60) as pool:
        attempts = [pool.submit(attempt, number) for number in range(60)]
        until(lambda: cheap, what="the first hash")
        waits = []
        for path in ("/healthz", "/login/", "/healthz", "/login/"):
            began = time.monotonic()
            assert portal.get(path).status_code == 200
            waits.append(time.monotonic() - began)
        answers = [one.result() for one in attempts]
    assert max(cheap) <= 2
    assert {answer.status_code for answer in answers} == {200, 503}
    refused = [answer for answer in answers if answer.status_code == 503]
    assert len(refused) >= 20
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert "Too many people sign in" in refused[0].text
    assert max(waits) < 4, waits


# An address


def test_an_address_fails_ten_times_a_minute_whatever_the_names(bob: User, cheap: list[int]) -> None:
    answers = [sign_in(f"name-{number}") for number in range(15)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 5
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert "from this address" in answers[-1].content.decode()
    assert len(cheap) == 10  # what is refused costs no hash
    assert sign_in("name-1", REMOTE_ADDR="10.0.0.9").status_code == 200
    document = Client(headers={"Accept": "application/json"}).post(
        "/login/", {"username": "a", "password": "b"}
    )
    assert document.json()["code"] == "too_many_failures"


def test_and_sixty_times_an_hour(db: None, cheap: list[int], settings: Any) -> None:
    settings.FAILED_SIGN_INS_PER_MINUTE, settings.FAILED_SIGN_INS_PER_HOUR = 1000, 3
    answers = [sign_in(f"name-{number}") for number in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429]
    assert 60 < int(answers[-1].headers["Retry-After"]) <= 3600


def test_what_succeeds_is_not_counted(bob: User, cheap: list[int]) -> None:
    assert [sign_in("bob", PASSWORD).status_code for _ in range(12)] == [302] * 12
    assert sign_in("bob").status_code == 200


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (sign_ins.network(one) == sign_ins.network(other)) is same


def test_a_header_of_the_clients_own_changes_nothing(db: None, cheap: list[int]) -> None:
    for number in range(10):
        sign_in(f"name-{number}", HTTP_X_FORWARDED_FOR=f"10.0.0.{number}", HTTP_X_REAL_IP=f"10.0.1.{number}")
    assert sign_in("one-more", HTTP_X_FORWARDED_FOR="10.0.0.200").status_code == 429
    assert set(AccessAttempt.objects.values_list("ip_address", flat=True)) == {"127.0.0.1"}


def test_whoever_waited_for_a_turn_is_judged_again(db: None, cheap: list[int], monkeypatch: Any) -> None:
    """Ten are under way when the address fails for the tenth time; the bound holds for those who wait as well."""
    looked = 0

    def check(request: Any) -> None:
        nonlocal looked
        looked += 1
        if looked == 2:  # 1 is before the queue
            raise Problem(429, "too_many_failures", "no", retry_after=7)

    monkeypatch.setattr(sign_ins, "check", check)
    monkeypatch.setattr(hashing, "_in_transaction", lambda: False)
    answer = sign_in("bob")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert cheap == []


def test_the_page_for_ones_own_password_is_no_way_around(bob: User, cheap: list[int]) -> None:
    browser = Client()
    browser.force_login(bob, "django.contrib.auth.backends.ModelBackend")
    form = {
        "old_password": "wrong",
        "new_password1": "another long one 1",
        "new_password2": "another long one 1",
    }
    codes = [browser.post("/password/", form).status_code for _ in range(11)]
    assert codes == [200] * 10 + [429]
    assert sign_in("bob").status_code == 429


def test_people_sign_in_while_redis_is_away(bob: User, cheap: list[int], monkeypatch: Any) -> None:
    class Away:
        def __getattr__(self, name: str) -> Any:
            def fail(*args: Any) -> Any:
                raise StorageError(OSError("gone"))

            return fail

    monkeypatch.setattr(windows, "limiter", Away)
    assert [sign_in(f"name-{number}").status_code for number in range(11)] == [200] * 10 + [429]
    assert sign_in("bob", PASSWORD, REMOTE_ADDR="10.0.0.9").status_code == 302


def test_public_documents_are_made_once(monkeypatch: Any) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("generated again")

    paths = ("/api/v1/schema/", "/api/v1/docs/", "/api/v1/config.schema.json")
    before = [Client().get(path).content for path in paths]
    monkeypatch.setattr(documents, "openapi", refuse)
    monkeypatch.setattr(schema, "json_schema", refuse)
    assert [Client().get(path).content for path in paths] == before
    assert all(len(content) > 10_000 for content in before)


# The tables


def test_the_table_of_failed_sign_ins_has_an_end(db: None, cheap: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(sign_ins, "MOST_ROWS", 5)
    monkeypatch.setattr(sign_ins, "SLACK", 1)
    for number in range(9):
        sign_in(f"name-{number}", REMOTE_ADDR=f"10.0.0.{number}")
    names = AccessAttempt.objects.order_by("pk").values_list("username", flat=True)
    assert list(names) == [f"name-{number}" for number in range(4, 9)]


def test_what_locks_nothing_any_more_is_forgotten(bob: User, cheap: list[int]) -> None:
    sign_in("old")
    sign_in("new")
    AccessAttempt.objects.filter(username="old").update(attempt_time=timezone.now() - timedelta(hours=1))
    AccessLog.objects.create(username="bob")
    Session.objects.create(session_key="over", expire_date=timezone.now() - timedelta(days=1))
    Session.objects.create(session_key="open", expire_date=timezone.now() + timedelta(days=1))
    tasks.purge()
    assert list(AccessAttempt.objects.values_list("username", flat=True)) == ["new"]
    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
    assert not AccessLog.objects.exists()


def test_signing_in_leaves_no_row_behind(bob: User) -> None:
    assert sign_in("bob", PASSWORD).status_code == 302
    assert not AccessLog.objects.exists()


@pytest.mark.skipif(not counts.SOAK, reason="takes the memory of real hashes")
def test_sixty_real_hashes_take_the_memory_of_two(db: None) -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    before, most, ends = resident(), 0, {"done": 0, "refused": 0}

    def work(number: int) -> None:
        try:
            hashing.QueuedArgon2().encode(f"password {number}", "saltsaltsalt")
            ends["done"] += 1
        except Problem:
            ends["refused"] += 1

    with ThreadPoolExecutor(60) as pool:
        running = [pool.submit(work, number) for number in range(60)]
        while not all(one.done() for one in running):
            most = max(most, resident())
            time.sleep(0.005)
    assert ends["done"] + ends["refused"] == 60
    assert ends["done"] >= 2
    counts.record(
        "sixty sign-ins at once",
        rounds=60,
        faults={"more than three hashes' memory": int(most - before > 3 * ARGON2_BYTES)},
        megabytes=(most - before) // 2**20,
        done=ends["done"],
        refused=ends["refused"],
    )
