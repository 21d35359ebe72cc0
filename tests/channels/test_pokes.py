"""What the broker is told when a transaction is committed."""

from typing import Any

import pytest
from django.db import transaction

from channels_app.models import Channel
from channels_app.outbox import pokes
from tests.channels.conftest import send

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], float]]:
    found: list[tuple[list[str], float]] = []
    monkeypatch.setattr(pokes, "_send", lambda ids, seconds: found.append((ids, seconds)))
    return found


def test_cards_of_one_transaction_go_in_few_messages(channel: Channel, told: Any) -> None:
    told.clear()
    with transaction.atomic():
        made = [str(send(channel, f"t:{number}").pk) for number in range(pokes.TOGETHER + 3)]
        assert told == []
    assert told == [(made[: pokes.TOGETHER], 0.0), (made[pokes.TOGETHER :], 0.0)]


def test_each_transaction_tells_of_its_own(channel: Channel, told: Any) -> None:
    told.clear()
    one, two = send(channel, "t:1"), send(channel, "t:2")
    assert told == [([str(one.pk)], 0.0), ([str(two.pk)], 0.0)]


def test_nothing_is_told_of_what_was_rolled_back(channel: Channel, told: Any) -> None:
    told.clear()
    with transaction.atomic():
        send(channel, "t:1")
        transaction.set_rollback(True)
    two = send(channel, "t:2")
    assert told == [([str(two.pk)], 0.0)]


def test_what_a_savepoint_takes_back_takes_no_other_poke_along(channel: Channel, told: Any) -> None:
    told.clear()
    gone: list[str] = []

    def undone(topic: str) -> None:
        with transaction.atomic():
            gone.append(str(send(channel, topic).pk))
            transaction.set_rollback(True)

    with transaction.atomic():
        undone("t:1")
        two = send(channel, "t:2")
        undone("t:3")
    # That one more row is looked for, which is not there, costs a statement.
    assert told == [([str(two.pk), gone[1]], 0.0)]
