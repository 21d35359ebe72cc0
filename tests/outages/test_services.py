"""Broker, wake-ups and database are lost and come back, under two web processes, a worker and a scheduler.

In `make test` each loss happens in one way; `make soak` has them all, with more requests.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

import httpx
import pytest
from hookgate.result import Outcome

from hooks_app.live.waiting import BLIND
from portal.celery import RECONNECT, app
from portal.wakeups.relays import ANSWER_SECONDS, HEALTH_SECONDS
from tests.outages import scene as scenes
from tests.outages.scene import Scene, until
from tests.outages.servers import REFUSALS, Postgres, Valkey
from tests.soak import counts

SOAK = counts.SOAK
ASKED = 30 if SOAK else 8
WAITERS = 200 if SOAK else 40
WAYS = ["refusing", "silent"]
SWEEP = app.conf.beat_schedule["deliver-what-is-due"]["schedule"]
# Seconds for a busy machine.
SLACK = 3.0


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Postgres:
    return Postgres()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey, postgres: Postgres) -> Iterator[Scene]:
    with scenes.production(tmp_path_factory.mktemp("outages"), postgres, valkey) as built:
        yield built


@pytest.mark.parametrize("way", WAYS if SOAK else WAYS[:1])
def test_requests_are_taken_without_a_broker(scene: Scene, valkey: Valkey, way: str) -> None:
    hook = next(
        row["id"]
        for row in scene.get("/agents/procurement/registry").json()["hooks"]
        if row["name"] == "connector_rate_limit"
    )
    ran = len(scene.runs)
    usual, _ = _ask(scene, 5)
    valkey.lose(way)
    try:
        slowest, ids = _ask(scene, ASKED)
        call = scene.run_tool()
        count = scene.call(
            "POST",
            "/limits/acquire",
            {"agent": "procurement", "hook": hook, "connector": "oa", "user": "u1", "call": ids[0]},
        )
        assert (count.status_code, count.json()["code"]) == (503, "limits_unavailable")
        assert httpx.get(f"{scene.portal.url}/login/", trust_env=False).status_code == 200
        assert not scene.checks()["broker"]["ok"]
        until(lambda: len(scene.pending()) > ASKED + 5, seconds=10, what="the runtime's request")
        assert len(scene.runs) == ran
    finally:
        valkey.return_from(way)
    # The broker's return is noticed first, then the next sweep comes.
    first = until(
        lambda: scene.cards(ids[0]) == 1, seconds=RECONNECT[1] + SWEEP + SLACK, what="the first card"
    )
    until(lambda: all(scene.cards(id) == 1 for id in ids), seconds=ASKED + 10, what="every card")
    scene.decide_all()
    assert call.result(30).result == "paid"
    counts.record(
        f"broker {way}",
        rounds=ASKED,
        faults={"delayed by a second": int(slowest - usual > 1)},
        database="postgresql",
        slowest_request_ms=round(slowest * 1000),
        usual_ms=round(usual * 1000),
        first_card_after_s=round(first, 1),
    )


@pytest.mark.parametrize("way", WAYS if SOAK else WAYS[:1])
def test_a_worker_that_loses_the_broker_in_the_middle_of_a_card_goes_on(
    scene: Scene, valkey: Valkey, way: str
) -> None:
    slow = _in_the_middle_of_a_send(scene)
    valkey.lose(way)
    try:
        until(lambda: not scene.checks()["broker"]["ok"], seconds=10, what="the loss")
        until(lambda: scene.delivery(slow)["status"] == "sent", seconds=15, what="the delivery's end")
    finally:
        valkey.return_from(way)
    following = str(scene.ask().json()["id"])
    waited = until(
        lambda: scene.cards(following) == 1, seconds=RECONNECT[1] + SWEEP + SLACK, what="the next card"
    )
    counts.record(
        f"broker {way} in the middle of a card",
        rounds=1,
        faults={"cards not once": int(scene.cards(slow) != 1)},
        database="postgresql",
        next_card_after_s=round(waited, 1),
    )
    scene.decide_all()


@pytest.mark.parametrize(("how", "seconds"), [(how, 9) for how in REFUSALS] if SOAK else [("a replica", 1)])
def test_a_broker_that_refuses_is_away_and_ends_nobody(
    scene: Scene, valkey: Valkey, how: str, seconds: float
) -> None:
    asked = str(scene.ask().json()["id"])
    wait = scene.wait(asked, seconds=30)
    until(lambda: scene.waiting() >= 1, seconds=20, what="the wait's subscription")
    valkey.refuse(how)
    refused = time.monotonic()
    try:
        until(lambda: not scene.checks()["broker"]["ok"], seconds=5, what="the refusal's showing")
        slowest, ids = _ask(scene, 3)
        assert scene.decide(asked).json()["status"] == "approved"
        decided = time.monotonic()
        status, told = wait.result(40)
        assert status == "approved"
        time.sleep(max(0.0, refused + seconds - time.monotonic()))
    finally:
        valkey.relent(how)
    first = until(
        lambda: scene.cards(ids[0]) == 1, seconds=RECONNECT[1] + SWEEP + SLACK, what="the first card"
    )
    until(lambda: all(scene.cards(id) == 1 for id in ids), seconds=SWEEP, what="every card")
    until(lambda: all(check["ok"] for check in scene.checks().values()), seconds=10, what="being ready")
    assert not [process.args for process in scene.portal.processes if process.poll() is not None]
    late = told - decided > HEALTH_SECONDS + ANSWER_SECONDS + BLIND + SLACK
    counts.record(
        f"broker {how}",
        rounds=3,
        faults={"delayed by a second": int(slowest > 1), "told late": int(late)},
        database="postgresql",
        first_card_after_s=round(first, 1),
        told_after_s=round(told - decided, 1),
    )
    scene.decide_all()


def test_a_database_that_takes_no_writes_is_away_and_ends_nobody(scene: Scene, postgres: Postgres) -> None:
    asked = str(scene.ask().json()["id"])
    until(lambda: scene.cards(asked) == 1, seconds=SWEEP + SLACK, what="the card")
    postgres.let_write(False)
    try:
        until(lambda: not scene.checks()["database"]["ok"], seconds=10, what="the refusal's showing")
        assert "may only be read" in scene.checks()["database"]["detail"]
        for refusal in (scene.ask(), scene.decide(asked)):
            assert (refusal.status_code, refusal.json()["code"]) == (503, "database_read_only")
            assert int(refusal.headers["Retry-After"]) > 0
        assert scene.get(f"/confirmations/{asked}").json()["status"] == "pending"
        assert scene.get("/agents/procurement/registry").status_code == 200
        time.sleep(1)  # the scheduler meets it, and the worker
    finally:
        postgres.let_write(True)
    until(lambda: all(check["ok"] for check in scene.checks().values()), seconds=10, what="being ready")
    until(lambda: scene.decide(asked).json().get("status") == "approved", seconds=10, what="a decision")
    following = str(scene.ask().json()["id"])
    until(lambda: scene.cards(following) == 1, seconds=SWEEP + SLACK, what="the next card")
    assert not [process.args for process in scene.portal.processes if process.poll() is not None]
    scene.decide_all()


@pytest.mark.parametrize("way", WAYS if SOAK else WAYS[:1])
def test_everybody_who_waits_gets_the_answer_though_redis_is_lost(
    scene: Scene, valkey: Valkey, way: str
) -> None:
    ids = [scene.ask().json()["id"] for _ in range(4)]
    waits = {id: [scene.wait(id) for _ in range(WAITERS // len(ids))] for id in ids}
    until(lambda: scene.waiting() >= WAITERS, seconds=20, what="the waits' subscriptions")
    valkey.lose(way)
    try:
        decided = time.monotonic()
        for id in ids[:2]:
            assert scene.decide(id).json()["status"] == "approved"
        # A broken connection is noticed at once, a frozen server when it owes an answer; then everybody looks.
        bound = BLIND + SLACK + (HEALTH_SECONDS + ANSWER_SECONDS if way == "silent" else 0)
        told = [future.result(30) for id in ids[:2] for future in waits[id]]
        during = max(at for _, at in told) - decided
        assert {status for status, _ in told} == {"approved"}
    finally:
        valkey.return_from(way)
    back = time.monotonic()
    for id in ids[2:]:
        assert scene.decide(id).json()["status"] == "approved"
    told = [future.result(30) for id in ids[2:] for future in waits[id]]
    after = max(at for _, at in told) - back
    assert {status for status, _ in told} == {"approved"}
    until(lambda: scene.checks()["wakeups"]["ok"], seconds=10, what="hearing again")
    counts.record(
        f"redis {way}",
        rounds=WAITERS,
        faults={"late during": int(during > bound), "late after": int(after > BLIND + SLACK)},
        database="postgresql",
        answered_during_s=round(during, 2),
        answered_after_s=round(after, 2),
    )


@pytest.mark.parametrize("seconds", [5, 30] if SOAK else [3])
def test_the_database_goes_and_comes_back(scene: Scene, postgres: Postgres, seconds: int) -> None:
    ids = [scene.ask().json()["id"] for _ in range(4)]
    waits = [scene.wait(id) for id in ids for _ in range(5)]
    until(lambda: all(scene.cards(id) for id in ids), seconds=20, what="the cards")
    at_once, at_last = threading.Event(), threading.Event()
    given_up, patient = scene.run_tool(impatient=True, when=at_once), scene.run_tool(when=at_last)
    until(lambda: scene.ready == 2, seconds=20, what="the sessions' opening")
    scene.ready = 0
    slow, ran = _in_the_middle_of_a_send(scene), len(scene.runs)
    postgres.stop()
    stopped = time.monotonic()
    try:
        _check_refusals(scene)
        at_once.set()
        _check_blocked(given_up.result(60))
        assert len(scene.runs) == ran
        time.sleep(max(0.0, stopped + seconds - 2 - time.monotonic()))
        at_last.set()
        time.sleep(1)  # the call meets a portal without its database
    finally:
        postgres.start()
    recovered = until(lambda: _all_answered(scene), seconds=10, what="twelve answers at once")
    assert not [future for future in waits if future.done()]
    assert {scene.decide(id).json()["status"] for id in ids} == {"approved"}
    assert {future.result(30)[0] for future in waits} == {"approved"}
    until(lambda: scene.delivery(slow)["status"] == "sent", seconds=15, what="the delivery's end")
    _let_run(scene, patient)
    assert len(scene.runs) == ran + 1
    counts.record(
        f"database away for {seconds} s",
        rounds=len(waits),
        faults={"cards not once": int(scene.cards(slow) != 1)},
        database="postgresql",
        recovered_after_s=round(recovered, 1),
        tries_of_the_send=scene.delivery(slow)["attempts"],
        log_lines=_count_log_lines(scene, seconds),
    )


def _all_answered(scene: Scene) -> bool:
    """Whether twelve requests at once all get their answer; who gets none is told to try again."""
    answers = scene.together(lambda: scene.get("/confirmations"), 12)
    assert {answer.status_code for answer in answers} <= {200, 503}
    return all(answer.status_code == 200 for answer in answers)


def _check_refusals(scene: Scene) -> None:
    """Without its database the portal says so, in the form that its client reads."""
    for refusal in scene.together(lambda: scene.get("/agents/procurement/registry"), 4):
        assert (refusal.status_code, refusal.json()["code"]) == (503, "database_unavailable")
        assert refusal.headers["Content-Type"] == "application/problem+json"
        assert int(refusal.headers["Retry-After"]) > 0
    page = httpx.get(
        f"{scene.portal.url}/login/", cookies={"sessionid": "x" * 32}, timeout=20, trust_env=False
    )
    assert "Traceback" not in page.text
    assert page.status_code in {200, 503}


def _check_blocked(outcome: Outcome) -> None:
    assert outcome.blocked
    assert "out of reach" in str(outcome.reason)


def _let_run(scene: Scene, patient: Future[Outcome]) -> None:
    """The call that waited for the database asks people, and runs when they approve."""
    until(lambda: len(scene.pending()) == 2, seconds=30, what="the runtime's request")
    scene.decide_all()
    wait_for([patient], 30)
    assert patient.result().result == "paid"


def _count_log_lines(scene: Scene, seconds: int) -> int:
    lines = scene.portal.log.read_text(errors="replace").count("database.failed")
    # Once a minute, per process: two web processes, and a worker with its two children.
    assert 0 < lines <= 6 * (1 + seconds // 60) * (3 if SOAK else 1)
    return lines


def _ask(scene: Scene, times: int) -> tuple[float, list[str]]:
    """That many requests, one after the other: how long the slowest took, and their ids."""
    slowest, ids = 0.0, []
    for _ in range(times):
        began = time.monotonic()
        answer = scene.ask()
        slowest = max(slowest, time.monotonic() - began)
        assert answer.status_code == 201, answer.text
        ids.append(answer.json()["id"])
    return slowest, ids


def _in_the_middle_of_a_send(scene: Scene) -> str:
    """The id of a request whose card the platform takes only after the database is gone."""
    scene.sandbox.control("failures", endpoint="send", late_ms=2000)
    id = str(scene.ask().json()["id"])
    until(lambda: scene.cards(id), seconds=10, what="the card")
    return id
