"""Cards that a platform's rate holds back: they come when it is their turn, the oldest first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from channels_app.models import Channel, Delivery
from channels_app.outbox import deliveries, pokes
from channels_app.sandbox.server import SandboxServer
from portal.lib import clock
from tests.channels.conftest import again, messages, save, send
from tests.conftest import Clock

# What the sandbox's group takes in a second, from all of its bots.
RATE = 5


def burst(channel: Channel, number: int, time: Clock) -> list[Delivery]:
    """So many cards, one after the other."""
    rows = []
    for index in range(number):
        rows.append(send(channel, f"t:{index}"))
        time.advance(milliseconds=1)
    return rows


def sent(rows: list[Delivery]) -> list[bool]:
    return [again(row).status == "sent" for row in rows]


def waits(rows: list[Delivery]) -> list[float]:
    """Seconds until each row is due."""
    due = [again(row).due_at for row in rows]
    return [(moment - clock.now()).total_seconds() for moment in due if moment]


@contextmanager
def poked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, float]]]:
    """The pokes that were sent: which row, after how many seconds."""
    found: list[tuple[Any, float]] = []
    with monkeypatch.context() as patch:
        patch.setattr(pokes, "_poke", lambda ids, seconds: found.extend((pk, seconds) for pk in ids))
        yield found


def test_each_card_is_given_its_turn(channel: Channel, server: SandboxServer, time: Clock) -> None:
    rows = burst(channel, 13, time)
    assert deliveries.sweep() == RATE
    assert waits(rows[RATE:]) == pytest.approx([1, 1, 1, 1, 1, 2, 2, 2], abs=0.1)
    time.advance(seconds=1.1)
    assert deliveries.sweep() == RATE
    assert sent(rows) == [True] * 10 + [False] * 3
    time.advance(seconds=1.1)
    assert deliveries.sweep() == 3
    assert len(messages(server)) == 13
    assert all(again(row).attempts == 1 for row in rows)  # the platform had nothing to refuse


@pytest.mark.django_db(transaction=True)
def test_a_held_card_is_poked_at_its_turn(
    channel: Channel, server: SandboxServer, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = burst(channel, 12, time)
    with poked(monkeypatch) as found:
        deliveries.sweep()
    late = {pk: seconds for pk, seconds in found if seconds}
    assert [late.get(row.pk) for row in rows[RATE:]] == pytest.approx([1, 1, 1, 1, 1, 2, 2], abs=0.1)


@pytest.mark.django_db(transaction=True)
def test_a_turn_beyond_five_minutes_is_left_to_the_sweep(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with poked(monkeypatch) as found:
        pokes.poke_on_commit(channel.pk, seconds=299)
        pokes.poke_on_commit(channel.pk, seconds=301)
    assert found == []
    with poked(monkeypatch) as found:
        pokes.poke_on_commit(channel.pk, seconds=200)
    assert found == [(channel.pk, 200)]


def test_a_new_card_does_not_go_before_old_ones(channel: Channel, server: SandboxServer, time: Clock) -> None:
    old = burst(channel, 10, time)
    deliveries.sweep()
    time.advance(seconds=1.1)
    new = send(channel, "t:new")
    assert not deliveries.deliver([new.pk])  # five places are free, and five stand before it
    assert deliveries.sweep() == RATE
    assert sent([*old, new]) == [True] * 10 + [False]
    time.advance(seconds=1.1)
    assert deliveries.sweep() == 1


def test_old_cards_do_not_starve_behind_new_ones(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    """New cards come as fast as the platform takes them, each with its poke; pokes of old ones come in any order."""
    old = burst(channel, 15, time)
    deliveries.sweep()
    for step in range(24):
        deliveries.deliver([send(channel, f"n:{step}").pk])
        due = Delivery.objects.filter(due_at__lte=clock.now()).order_by("-created_at", "-pk")
        for pk in list(due.values_list("pk", flat=True)):
            deliveries.deliver([pk])
        time.advance(seconds=0.2)
    assert all(sent(old))
    # After 4.8 seconds 25 or so could be out; some turns are lost, and what is out are the first that were made.
    out = list(Delivery.objects.order_by("created_at", "pk").values_list("status", flat=True))
    assert out.count("sent") >= 18
    assert out.index("queued") >= out.count("sent") - RATE


def test_who_waits_after_an_error_keeps_nobody_behind_it(
    channel: Channel, server: SandboxServer, time: Clock
) -> None:
    rows = burst(channel, 6, time)
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(
        due_at=time.moment.replace(year=time.moment.year + 1), last_error="429: later"
    )
    new = send(channel, "t:new")
    assert deliveries.deliver([new.pk])


def test_other_recipients_are_not_held_back(channel: Channel, server: SandboxServer, time: Clock) -> None:
    server.sandbox.add_chat("oc_other", "Other", bots=[channel.app.key])
    other = save(channel.organization, server, "other", chat_id="oc_other")
    burst(channel, 8, time)
    deliveries.sweep()
    assert deliveries.deliver([send(other, "t:other").pk])
