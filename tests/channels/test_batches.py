"""Many cards at once: side by side, each settled once, and none kept by what another's platform does."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from channels_app import channels
from channels_app.models import App, Channel, Delivery, DeliveryAttempt
from channels_app.outbox import claims, deliveries, dispatch
from channels_app.sandbox.server import SandboxServer
from portal.lib import clock
from tests.channels.conftest import Owner, again, card, fail, messages, refuse, replace, save, send
from tests.channels.test_adapters import SENT, pigeon
from tests.channels.test_adapters import _installed as _installed  # a fixture
from tests.conftest import Clock

# What the sandbox's group takes in a second.
RATE = 5


class Killed(BaseException):
    """The worker dies."""


@pytest.fixture
def chats(channel: Channel, server: SandboxServer) -> list[Channel]:
    """Twelve groups, three for each of four apps."""
    made = []
    for number in range(12):
        app = f"cli_app{number % 4}"
        server.sandbox.add_app(app, "app-secret", "encrypt-key", "verification-token", "tenant1", None)
        server.sandbox.add_chat(f"oc_chat{number}", f"Chat {number}", bots=[app])
        made.append(
            save(channel.organization, server, f"chat{number}", app_id=app, chat_id=f"oc_chat{number}")
        )
    return made


@pytest.fixture
def rows(chats: list[Channel], time: Clock) -> list[Delivery]:
    """A card for each of them, one after the other; the first three are of one app."""
    made = []
    for chat in sorted(chats, key=lambda chat: chat.app.key):
        made.append(send(chat, "t:1"))
        time.advance(milliseconds=1)
    return made


@pytest.fixture
def _tokens(chats: list[Channel]) -> None:
    """Every app has its token."""
    for chat in chats[:4]:
        channels.open_adapter(chat).chats()


@pytest.fixture
def act(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[claims.Job], None]], None]:
    """Have something done before each call."""
    real = dispatch._act

    def before(work: Callable[[claims.Job], None]) -> None:
        def acting(adapter: Any, job: claims.Job, card: Any) -> Any:
            work(job)
            return real(adapter, job, card)

        monkeypatch.setattr(dispatch, "_act", acting)

    return before


def deliver(rows: list[Delivery]) -> int:
    return deliveries.deliver([row.pk for row in rows])


def deliver_and_die(rows: list[Delivery], monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies when it has called the platform and not yet settled."""

    def die(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(claims, "settle_ok", die)
        with pytest.raises(Killed):
            deliver(rows)


def statuses(rows: list[Delivery]) -> list[str]:
    return [again(row).status for row in rows]


def calls(server: SandboxServer, endpoint: str) -> int:
    return len(server.look("calls", endpoint=endpoint)["calls"])


def test_a_batch_ends_as_its_cards_would_alone(rows: list[Delivery], server: SandboxServer) -> None:
    assert deliver(rows) == 12
    assert deliver(rows) == 0
    for row in map(again, rows):
        assert (row.status, row.attempts, row.due_at, row.lease, row.lease_until) == (
            "sent",
            1,
            None,
            None,
            None,
        )
        assert (row.shown_version, row.last_error, row.sent_at is None) == (1, None, False)
        attempt = row.attempt_rows.get()
        assert (attempt.result, attempt.kind, attempt.version) == ("ok", "send", 1)
        (shown,) = server.look("messages", chat_id=row.recipient)["messages"]
        assert row.handle == {
            "message_id": shown["message_id"],
            "chat_id": row.recipient,
            "body_hidden": False,
        }
    replace()
    assert deliver(rows) == 12
    assert {(again(row).shown_version, again(row).attempts) for row in rows} == {(2, 2)}
    assert DeliveryAttempt.objects.filter(kind="update", result="ok", version=2).count() == 12


@pytest.mark.usefixtures("_tokens")
def test_calls_are_under_way_at_the_same_time(rows: list[Delivery], act: Any) -> None:
    together = threading.Barrier(dispatch.THREADS)
    first = {row.pk for row in rows[: dispatch.THREADS]}
    act(lambda job: together.wait(10) if job.delivery.pk in first else None)
    assert deliver(rows) == 12
    assert set(statuses(rows)) == {"sent"}


@pytest.mark.usefixtures("_tokens")
def test_a_silent_platform_keeps_its_own_cards_only(
    rows: list[Delivery], act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of one app hang. The others are settled meanwhile, and what has not begun is given back."""
    monkeypatch.setattr(dispatch, "BEGIN", 0.3)
    monkeypatch.setattr(dispatch, "THREADS", 3)
    given_back, over = threading.Event(), threading.Event()
    hanging, seen = rows[0].channel.app_id, list[list[str]]()
    real = claims.give_back

    def give_back(jobs: Any) -> None:
        real(jobs)
        seen.append(statuses(rows))
        given_back.set()

    def hang(job: claims.Job) -> None:
        if job.delivery.channel.app_id == hanging:
            assert given_back.wait(10)
            over.set()

    monkeypatch.setattr(claims, "give_back", give_back)
    act(hang)
    mine, left = rows[:3], rows[3:]
    assert deliver(rows) == 3
    assert over.is_set()
    assert seen == [["sending"] * 3 + ["queued"] * 9]
    for row in map(again, left):
        assert (row.attempts, row.lease, row.lease_until) == (0, None, None)
        assert row.due_at is not None
        assert not row.attempt_rows.exists()
    assert set(statuses(mine)) == {"sent"}
    assert deliver(left) == len(left)
    assert set(statuses(rows)) == {"sent"}
    assert {row.attempts for row in map(again, rows)} == {1}


@pytest.mark.usefixtures("_tokens")
def test_who_looks_whether_a_platform_is_back_and_does_not_come_to_it_lets_others_look(
    rows: list[Delivery], time: Clock, act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "BEGIN", 0.1)
    monkeypatch.setattr(dispatch, "THREADS", 1)
    resting = App.objects.filter(pk=rows[3].channel.app_id)
    resting.update(outage_tries=1, outage_since=time.moment, rest_until=time.moment)
    given_back = threading.Event()
    real = claims.give_back

    def give_back(jobs: Any) -> None:
        real(jobs)
        given_back.set()

    monkeypatch.setattr(claims, "give_back", give_back)
    act(lambda job: given_back.wait(10) and None)
    assert deliver(rows) == 1
    assert resting.get().rest_until == time.moment  # at once, and not after the minute that a try may take
    act(lambda job: None)
    assert deliver([rows[3]]) == 1
    assert resting.get().rest_until is None


@pytest.mark.usefixtures("_tokens")
def test_what_ended_while_it_waited_for_its_call_is_not_sent(
    rows: list[Delivery], act: Any, monkeypatch: pytest.MonkeyPatch, server: SandboxServer
) -> None:
    monkeypatch.setattr(dispatch, "BEGIN", 0.1)
    monkeypatch.setattr(dispatch, "THREADS", 1)
    real, ended = claims.give_back, threading.Event()

    def give_back(jobs: Any) -> None:
        replace()
        real(jobs)
        ended.set()

    monkeypatch.setattr(claims, "give_back", give_back)
    act(lambda job: ended.wait(10) and None)
    deliver(rows)
    found = statuses(rows)
    assert (found.count("sent"), found.count("superseded")) == (1, 11)
    assert {row.due_at for row in map(again, rows) if row.status == "superseded"} == {None}
    assert calls(server, "send") == 1


@pytest.mark.usefixtures("_tokens")
def test_a_platform_that_is_away_is_asked_for_one_card(
    rows: list[Delivery], server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "THREADS", 1)
    fail(server, "send", status=502, body={}, count=1)
    assert deliver(rows) == 10
    assert statuses(rows) == ["unknown", "queued", "queued"] + ["sent"] * 9
    assert deliver(rows) == 0  # it rests
    for row in map(again, rows[1:3]):
        assert (row.attempts, row.lease, row.due_at is None) == (0, None, False)


class Hawk(BaseException):
    """What no adapter should raise."""


@pytest.mark.usefixtures("_tokens")
@pytest.mark.parametrize("kind", [RuntimeError, Hawk])
def test_an_adapter_that_breaks_loses_no_card(
    rows: list[Delivery], act: Any, kind: type[BaseException]
) -> None:
    def burst(job: claims.Job) -> None:
        if job.delivery.pk == rows[1].pk:
            raise kind

    act(burst)
    assert deliver(rows) == 12
    assert statuses(rows) == ["sent", "unknown", *["sent"] * 10]
    assert again(rows[1]).last_error == f"internal: {kind.__name__}"


def test_cards_stay_due_while_the_database_can_not_be_reached(
    rows: list[Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any) -> Any:
        raise OperationalError("disk I/O error")

    due = [row.due_at for row in rows]
    with monkeypatch.context() as patch:
        patch.setattr(claims, "claim", away)
        assert deliver(rows) == 0
        assert deliver(rows[:1]) == 0
    assert [again(row).due_at for row in rows] == due
    assert deliveries.sweep() == 12


def test_an_owner_that_breaks_leaves_the_others_settled(
    rows: list[Delivery], server: SandboxServer, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*, delivery: Delivery) -> None:
        raise RuntimeError("the owner is broken")

    monkeypatch.setattr(owner, "undelivered", burst)
    refuse(server, 230002, count=1)
    deliver(rows)
    found = statuses(rows)
    assert (found.count("sent"), found.count("sending")) == (11, 1)
    refused = rows[found.index("sending")]
    assert again(refused).lease is not None  # and due again when the lease ends


def test_a_worker_killed_before_it_settled_leaves_one_card_each(
    rows: list[Delivery], server: SandboxServer, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver_and_die(rows, monkeypatch)
    assert set(statuses(rows)) == {"sending"}
    assert deliveries.sweep() == 0  # the lease holds
    time.advance(seconds=claims.LEASE)
    assert deliveries.sweep() == 12
    for row in map(again, rows):
        assert (row.status, row.attempts) == ("sent", 2)
        assert len(server.look("messages", chat_id=row.recipient)["messages"]) == 1


@pytest.mark.usefixtures("_installed")
def test_without_keys_a_killed_worker_leaves_doubt_about_one_card_alone(
    channel: Channel, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loft = pigeon(channel.organization)
    made = []
    for number in range(3):
        made.append(deliveries.enqueue(channel=loft, topic=f"x:{number}", card=card())[0])
        time.advance(milliseconds=1)

    deliver_and_die(made, monkeypatch)
    assert statuses(made) == ["sending", "queued", "queued"]
    time.advance(seconds=claims.LEASE)
    deliveries.sweep()
    assert statuses(made) == ["unknown", "sent", "sent"]
    assert len(SENT) == 3


def test_one_recipients_cards_of_a_batch_go_in_order(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    made = []
    for number in range(RATE + 3):
        made.append(send(channel, f"t:{number}"))
        time.advance(milliseconds=1)
    assert deliver(list(reversed(made))) == RATE
    assert statuses(made) == ["sent"] * RATE + ["queued"] * 3
    assert len(messages(server)) == RATE


def test_who_has_lost_its_lease_writes_nothing(channel: Channel, time: Clock, act: Any) -> None:
    row = send(channel)
    began: list[claims.Job] = []

    def be_late(job: claims.Job) -> None:
        began.append(job)
        if len(began) == 1:
            time.advance(seconds=claims.LEASE)
            assert deliver([row]) == 1
            DeliveryAttempt.objects.filter(pk=began[1].attempt.pk).update(message="the second's")

    deliver([row])  # has the token
    replace()
    act(be_late)
    deliver([row])
    assert (again(row).attempts, again(row).shown_version) == (3, 2)
    results = dict(row.attempt_rows.values_list("pk", "result"))
    assert (results[began[0].attempt.pk], results[began[1].attempt.pk]) == ("unknown", "ok")


def test_a_card_that_changes_before_it_is_claimed_goes_as_it_is_then(
    rows: list[Delivery], server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer, real = card('{"amount": 1}', subtitle="1 of 2"), claims.claim

    def claim(wanted: Any) -> Any:
        monkeypatch.setattr(claims, "claim", real)
        deliveries.replace(topic="t:1", render=lambda channel: newer)
        return real(wanted)

    monkeypatch.setattr(claims, "claim", claim)
    assert deliver(rows) == 0
    assert {again(row).attempts for row in rows} == {0}
    assert deliver(rows) == 12
    assert {again(row).shown_version for row in rows} == {2}
    (shown,) = server.look("messages", chat_id=rows[0].recipient)["messages"]
    assert "1 of 2" in str(shown["content"])


@pytest.mark.usefixtures("_tokens")
def test_more_cards_cost_no_more_statements(rows: list[Delivery]) -> None:
    # All of them have carried a card before; a first one is noted at its channel, once.
    Channel.objects.update(worked_at=clock.now())
    # What is due, the lines, a claim of three statements, and a settling of three, in a transaction each.
    with CaptureQueriesContext(connection) as few:
        assert deliver(rows[:2]) == 2
    with CaptureQueriesContext(connection) as many:
        assert deliver(rows[2:]) == 10
    assert len(many) == len(few) <= 12
