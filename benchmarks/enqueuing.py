"""One side of the delivery benchmark: puts a card for every chat into the outbox and sees when the workers are done.

``python -m benchmarks.enqueuing``, in the portal's environment. Each line of the input is a round: 400 cards, written
in one transaction; the answer is how many a second were delivered, from the first attempt to the last card that is out.
"""

import sys
import time

import django

django.setup()

from django.db import transaction  # noqa: E402
from django.db.models import Max, Min  # noqa: E402

from benchmarks.sending import CARD  # noqa: E402
from channels_app.models import Channel, Delivery  # noqa: E402
from channels_app.outbox import deliveries  # noqa: E402

LONGEST_ROUND = 240.0


def play(topic: str) -> float:
    """One round; cards a second. Raises ``TimeoutError`` when they don't all get out."""
    with transaction.atomic():
        for channel in Channel.objects.select_related("app").order_by("slug"):
            deliveries.enqueue(channel=channel, topic=topic, card=CARD)
    rows = Delivery.objects.filter(topic=topic)
    deadline = time.monotonic() + LONGEST_ROUND
    while rows.exclude(status="sent").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{rows.exclude(status='sent').count()} cards did not get out")
        time.sleep(0.25)
    times = rows.aggregate(Min("attempt_rows__at"), Max("sent_at"))
    seconds: float = (times["sent_at__max"] - times["attempt_rows__at__min"]).total_seconds()
    return rows.count() / seconds


if __name__ == "__main__":
    for number, _line in enumerate(sys.stdin):
        print(play(f"bench:{number}"), flush=True)
