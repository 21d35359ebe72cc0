"""A platform is away for ten minutes: refusing, broken, or silent. The clock is the tests' own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from channels_app import health
from channels_app.models import App, Channel, Delivery
from channels_app.outbox import circuits, deliveries
from channels_app.sandbox.server import SandboxServer
from portal.lib import http
from tests.channels.conftest import SECRET, TENANT, TOKEN, Owner, again, replace, save, send
from tests.conftest import Clock
from tests.outages.front import Front
from tests.soak import counts

MODES = ["refusing", "broken", "silent"]
STEP = 3 if counts.SOAK else 10  # seconds between sweeps
MINUTES = 10
CARDS = 6


@pytest.fixture
def front(server: SandboxServer) -> Iterator[Front]:
    """Stands before the platform of the channel ``away``."""
    with Front(server.feishu_url) as made:
        yield made


@pytest.fixture
def away(channel: Channel, server: SandboxServer, front: Front) -> Channel:
    """A channel of an app of its own, whose platform is behind ``front``."""
    server.sandbox.add_app("cli_two", SECRET, "encrypt-key", TOKEN, TENANT, None)
    server.sandbox.add_chat("oc_away", "Away", bots=["cli_two"])
    return save(channel.organization, server, "away", app_id="cli_two", chat_id="oc_away", base_url=front.url)


@contextmanager
def impatient(seconds: float = 0.2) -> Iterator[None]:
    """Silence is noticed after so many seconds. Only around calls that get no answer anyway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "TIMEOUT", httpx.Timeout(seconds))
        yield


def go(time: Clock, seconds: int) -> None:
    """Let time pass, with a sweep at every step."""
    for _ in range(0, seconds, STEP):
        time.advance(seconds=STEP)
        deliveries.sweep()


def app(channel: Channel) -> App:
    return App.objects.get(pk=channel.app_id)


@pytest.mark.parametrize("mode", MODES)
def test_cards_wait_out_ten_minutes_and_hold_up_nobody(
    channel: Channel, away: Channel, server: SandboxServer, front: Front, time: Clock, owner: Owner, mode: str
) -> None:
    front.turn(mode)
    rows = [send(away, f"t:{number}") for number in range(CARDS)]
    with impatient():
        deliveries.sweep()
        go(time, MINUTES * 30)
    replace("t:1")  # decided meanwhile, in the inbox
    other, asked = send(channel, "t:other"), front.asked
    deliveries.deliver([other.pk])
    assert again(other).status == "sent"
    held_up = front.asked - asked
    detail = health.check_oldest_due()
    assert detail.ok
    assert "platform is away: 1, since" in detail.detail
    with impatient():
        go(time, MINUTES * 30)
    assert {again(row).status for row in rows} <= {"queued", "unknown", "superseded"}
    assert owner.lost == []
    asked = front.asked if mode != "refusing" else sum(again(row).attempts for row in rows)
    front.turn("up")
    go(time, int(circuits.LONGEST) + STEP)
    shown = [m for m in server.look("messages", chat_id="oc_away")["messages"] if not m["recalled"]]
    live = {again(row).topic for row in rows if again(row).status == "sent"}
    assert (app(away).outage_since, app(away).rest_until) == (None, None)
    assert "away" not in health.check_oldest_due().detail
    counts.record(
        f"platform {mode} for {MINUTES} minutes",
        rounds=CARDS,
        faults={
            "cards lost": CARDS - 1 - len(live - {"t:1"}),
            "cards twice": len(shown) - len(live),
            # A silent platform may have taken the card: it gets it again, with the same key, and without buttons.
            "decided card sent": int("t:1" in live and mode != "silent"),
            "asked too often": int(asked > MINUTES * 60 / circuits.LONGEST + 12),
            "others held up": held_up,
        },
        tries=asked,
    )


def test_a_silent_platform_takes_one_worker(
    channel: Channel, away: Channel, front: Front, time: Clock
) -> None:
    front.turn("silent")
    rows = [send(away, f"t:{number}") for number in range(5)]
    with impatient():
        deliveries.deliver([rows[0].pk])
        assert [deliveries.deliver([row.pk]) for row in rows[1:]] == [False] * 4  # it rests
        time.advance(seconds=circuits.FIRST)
        before = front.asked
        assert [deliveries.deliver([row.pk]) for row in rows[1:]] == [True, False, False, False]
    assert front.asked == before + 1


def test_a_platform_is_left_alone_for_as_long_as_it_wishes(
    away: Channel, front: Front, time: Clock, server: SandboxServer
) -> None:
    front.turn("broken")
    front.retry_after = 120
    row = send(away)
    deliveries.sweep()
    later = send(away, "t:2")  # never tried yet: it is the app that is left alone
    front.turn("up")
    go(time, 110)
    assert {again(row).attempts, again(later).attempts} == {1, 0}
    go(time, 20)
    assert {again(row).status, again(later).status} == {"sent"}


def test_a_card_that_waits_for_a_day_is_undeliverable(
    away: Channel, front: Front, time: Clock, owner: Owner
) -> None:
    front.turn("refusing")
    row = send(away)
    deliveries.sweep()
    for _ in range(23):
        time.advance(hours=1)
        deliveries.sweep()
    assert again(row).attempts > 3  # whatever the number of tries: it is time that counts
    assert (again(row).status, owner.lost) == ("queued", [])
    time.advance(hours=2)
    deliveries.sweep()
    assert (again(row).status, owner.lost) == ("failed", ["t:1"])


def test_check_channel_says_that_the_platform_is_away(
    away: Channel, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    front.turn("broken")
    send(away)
    deliveries.sweep()
    with pytest.raises(CommandError):
        call_command("check_channel", "acme/away")
    told = capsys.readouterr().out
    assert "platform away since" in told
    assert "1 tries have failed" in told


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_a_token_in_vain_does_not_ask_again(away: Channel, front: Front) -> None:
    """Four workers with a card each: the token is asked for once, and all are free after one time-out."""
    front.turn("silent")
    rows = [send(away, f"t:{number}") for number in range(4)]

    def work(row: Delivery) -> None:
        deliveries.deliver([row.pk])
        connection.close()

    workers = [threading.Thread(target=work, args=(row,)) for row in rows]
    with impatient(3):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
    assert front.asked == 1
    assert {again(row).status for row in rows} == {"queued"}
