"""What the rounds of one race came to."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from channels_app.models import Delivery
from hooks_app.models import ConfirmationRequest, Decision
from portal.models import AuditEvent
from tests.races.crowd import ROUNDS
from tests.soak import counts

TERMINAL = [f"confirmation.{status}" for status in ConfirmationRequest.Status.values if status != "pending"]
# A tap on such a request is told that it has ended, and no more.
UNNAMED = ("cancelled", "undeliverable")


class Tally:
    """Counts by kind: how rounds ended, and the faults, which must all be 0.

    ``double`` more than one transition; ``stuck`` no transition though somebody should have made one; ``trail`` status
    and audit trail differ; ``votes`` the row's count, the decisions, their audit events or the expected number differ;
    ``cards`` a card was changed more or less often than the request; ``told`` callers who were told another status.
    """

    def __init__(self, race: str) -> None:
        self.race = race
        self.played = 0
        self.won: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def rounds(self, divisor: int = 1) -> Iterator[None]:
        """Play the rounds; a race of very many threads plays one in ``divisor`` outside of `make soak`."""
        for _ in range(ROUNDS if counts.SOAK else max(1, ROUNDS // divisor)):
            self.played += 1
            yield

    def seen(self, kind: str, times: int = 1) -> None:
        """One more round ended like this; or so many of its parts."""
        self.won[kind] += times

    def fault(self, kind: str, wrong: bool | int) -> None:
        """So many more faults of this kind; 0 puts the kind on record."""
        self.faults[kind] += int(wrong)

    def end(self, row: ConfirmationRequest, *, told: Iterable[str], votes: int, pending: bool = False) -> str:
        """Judge a round that should have ended with ``votes`` decisions, and return the request's status.

        ``told`` is what the callers were told of it; ``pending`` says that it should still wait.
        """
        now = ConfirmationRequest.objects.get(pk=row.pk)
        events = Counter(AuditEvent.objects.filter(object_id=str(row.pk)).values_list("action", flat=True))
        made = [action for action in TERMINAL for _ in range(events[action])]
        decisions = Decision.objects.filter(request=row).count()
        # A vote shows on the card, and one that ends the request does so once; so does an end without a vote.
        version = 1 + votes + (now.status not in ("approved", "rejected", "pending"))
        cards = Delivery.objects.filter(topic=f"confirmation:{row.pk}").exclude(wanted_version=version)
        right = {now.status, "ended" if now.status in UNNAMED else now.status}
        self.seen(now.status)
        self.fault("double", len(made) > 1)
        self.fault("stuck", now.status == "pending" and not pending)
        self.fault("trail", set(made) != {f"confirmation.{now.status}"} - {"confirmation.pending"})
        self.fault("votes", {decisions, now.votes, events["decision.recorded"]} != {votes})
        self.fault("cards", cards.count())
        self.fault("told", sum(status not in right for status in told))
        return now.status

    def record(self) -> None:
        """Put the figures on record. Raises ``AssertionError`` for a fault, and when nothing was judged."""
        assert self.played
        assert self.faults
        seen: dict[str, Any] = dict(sorted(self.won.items()))
        counts.record(f"races/{self.race}", rounds=self.played, faults=dict(self.faults), **seen)
