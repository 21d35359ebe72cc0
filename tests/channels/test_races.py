"""Workers, owners and taps at the same rows at once: everybody finishes, and the rows agree."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.db import connection, transaction

from channels_app.models import Channel, Delivery
from channels_app.outbox import deliveries
from channels_app.sandbox.server import SandboxServer
from portal.models import Organization
from tests.channels.conftest import Owner, card, fail, messages, press, replace, save, send, sent

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 6


def at_once(*jobs: Callable[[], object]) -> None:
    """Run the jobs together. Raises the first one's error; a deadlock shows as one."""
    barrier = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def work(job: Callable[[], object]) -> None:
        try:
            barrier.wait(10)
            job()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@dataclass
class LockingOwner(Owner):
    """Locks a row of its own first, like the owner of the approvals, and replaces all cards when one is lost."""

    def lock(self, topic: str) -> None:
        Organization.objects.select_for_update(no_key=True).get(slug="acme")

    def undelivered(self, *, delivery: Delivery) -> None:
        super().undelivered(delivery=delivery)
        replace(delivery.topic, ended="Undeliverable")

    def end(self, topic: str) -> None:
        """A decision that was made elsewhere."""
        with transaction.atomic():
            self.lock(topic)
            replace(topic, ended="Approved by Bob")


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> LockingOwner:
    from channels_app import topics

    made = LockingOwner()
    monkeypatch.setitem(topics._owners, "t", made)
    return made


def test_lost_cards_and_a_decision_do_not_wait_for_each_other(
    channel: Channel, server: SandboxServer, owner: LockingOwner, time: object
) -> None:
    others = [save(channel.organization, server, f"c{number}", chat_id=f"oc_{number}") for number in range(3)]
    for round_ in range(ROUNDS):
        topic = f"t:{round_}"
        fail(server, "send", status=400, body={"code": 230002, "msg": "bot not in chat"}, count=4)
        rows = [send(one, topic) for one in (channel, *others)]
        at_once(
            *(lambda pk=row.pk: deliveries.deliver([pk]) for row in rows),
            lambda topic=topic: owner.end(topic),  # type: ignore[misc]
        )
        server.control("failures/clear")
        for row in Delivery.objects.filter(topic=topic):
            assert row.status in {"failed", "superseded"}
            assert row.lease is None


def test_taps_and_updates_do_not_wait_for_each_other(
    world: Channel, server: SandboxServer, owner: LockingOwner
) -> None:
    for round_ in range(ROUNDS):
        row = sent(world, f"t:{round_}")
        if row.status != "sent":  # the chat's bucket was empty
            continue
        at_once(
            lambda row=row: press(server, row),  # type: ignore[misc]
            lambda row=row: press(server, row, open_id="ou_alice", version=0),  # type: ignore[misc]
            lambda topic=row.topic: owner.end(topic),  # type: ignore[misc]
            lambda: deliveries.sweep(),
        )
        deliveries.sweep()
    assert owner.taps


def test_many_cards_wanted_at_once_end_with_the_newest(
    channel: Channel, server: SandboxServer, owner: LockingOwner, time: object
) -> None:
    row = sent(channel)

    def want(number: int) -> None:
        with transaction.atomic():
            owner.lock("t:1")
            newest = card(f'{{"amount": {number}}}')
            deliveries.replace(topic="t:1", render=lambda channel: newest)

    at_once(
        *(lambda number=number: want(number) for number in range(5)),
        *(lambda: deliveries.deliver([row.pk]) for _ in range(3)),
    )
    while deliveries.sweep():
        pass
    stored = Delivery.objects.get(pk=row.pk)
    assert stored.shown_version == stored.wanted_version == 6
    assert stored.card["body"] in str(messages(server)[0]["content"]).replace('\\"', '"')
