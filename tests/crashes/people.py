"""People who tap while processes die around them, and the count of what became of every call."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from channels_app.sandbox.messages import Message
from tests.e2e.conftest import Stage
from tests.soak.crowd import APPROVALS, Crowd, Payment

# Seconds in which a card must come and a tap be answered, whatever is killed meanwhile.
PATIENCE = 240.0
# Seconds that somebody who looks at a card thinks at most.
THOUGHT = 1.0
SEEN = ("approved", "ran", "cut_off", "unreported", "asked_again")
# What a model reads about a call that another process has used the approval of.
NOT_AGAIN = "it is not run again"


class PatientCrowd(Crowd):
    """The soak's people: they tap until they have an answer or see that the card is decided."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        super().__init__(stage)
        self._chance = chance

    async def meet_all(self, plans: list[Payment]) -> None:
        """Let every card meet its people as it comes."""
        expected = {payment.amount: payment for payment in plans if payment.plan != "silence"}
        async with asyncio.TaskGroup() as group:
            while expected:
                for amount in expected.keys() & self.cards().keys():
                    group.create_task(self._think(expected.pop(amount)))
                await asyncio.sleep(0.1)

    async def _think(self, payment: Payment) -> None:
        await asyncio.sleep(self._chance.uniform(0, THOUGHT))
        await self.meet(payment)

    async def tap(self, card: str, who: str, button: str, **more: Any) -> None:
        """Tap until there is an answer."""
        order = {"message_id": card, "open_id": who, "button": button, **more}
        async with asyncio.timeout(PATIENCE):
            while True:
                report = await asyncio.to_thread(lambda: self.stage.sandbox.control("press", **order))
                if report.get("status") == 200 or not report["sent"]:
                    return
                self.unanswered += 1
                await asyncio.sleep(0.2)

    def messages(self, amount: int) -> list[Message]:
        """The messages that ask about ``amount``."""
        self.look()
        chat = self.stage.sandbox.sandbox
        with chat.lock:
            return [chat.messages.by_id[message_id] for message_id in self._cards.get(amount, [])]


@dataclass(frozen=True)
class Found:
    """What is to be seen from outside: the tool's ledger, what the runtimes were told, the portal's rows, the chat."""

    ran: Counter[int]
    ended: dict[int, list[dict[str, Any]]]
    rows: dict[int, list[dict[str, Any]]]
    cards: dict[int, int]
    asked_again: int = 0
    runtimes_killed: int = 0
    expected_ends: dict[int, int] = field(default_factory=dict)


def count(plans: list[Payment], found: Found) -> dict[str, int]:
    """What became of ``plans``. Everything but ``SEEN`` is a fault and must be 0.

    ``cut_off`` calls were approved and used, and their runtime died before the tool began; nobody may run them again.
    ``unreported`` ones ran, and their runtime died before it could say so.
    """
    tally: Counter[str] = Counter(dict.fromkeys((*SEEN, *FAULTS), 0))
    tally["asked_again"] = found.asked_again
    for payment in plans:
        for word in _judge(payment, found):
            tally[word] += 1
    return dict(tally)


FAULTS = (
    "lost",
    "run_twice",
    "run_unapproved",
    "asked_twice",
    "cards_twice",
    "without_end",
    "undecided",
    "told_wrong",
    "reported_wrong",
)


def _judge(payment: Payment, found: Found) -> list[str]:
    rows = found.rows.get(payment.amount, [])
    row = rows[0] if rows else {}
    ran = found.ran[payment.amount]
    words = ["ran"] * ran
    words += ["run_twice"] if ran > 1 else []
    words += ["asked_twice"] if len(rows) > 1 else []
    words += ["cards_twice"] if found.cards.get(payment.amount, 0) > 1 else []
    words += ["undecided"] if not _is_as_decided(payment, row) else []
    words += ["approved"] if row.get("status") == "approved" else []
    if ran and not (payment.plan in APPROVALS and row.get("status") == "approved" and row["consumed_at"]):
        words.append("run_unapproved")
    if payment.plan in APPROVALS and not ran:
        cut_off = row.get("consumed_at") and row["outcome"] is None and found.runtimes_killed
        words.append("cut_off" if cut_off else "lost")
    if ran and row.get("outcome") is None:
        words.append("unreported" if found.runtimes_killed else "reported_wrong")
    elif (row.get("outcome") == "succeeded") != bool(ran):
        words.append("reported_wrong")
    return words + _judge_ends(payment, found, ran)


def _is_as_decided(payment: Payment, row: dict[str, Any]) -> bool:
    if payment.plan == "silence":
        return row.get("status") == "expired" and not row["decisions"]
    status, vote = ("approved", "approve") if payment.plan in APPROVALS else ("rejected", "reject")
    votes = [(decision["user"], decision["decision"]) for decision in row.get("decisions", [])]
    return row.get("status") == status and votes == [("bob", vote)]


def _judge_ends(payment: Payment, found: Found, ran: int) -> list[str]:
    ends = found.ended.get(payment.amount, [])
    words = ["without_end"] if len(ends) != found.expected_ends.get(payment.amount, 1) else []
    told_ran = sum(1 for end in ends if end["status"] == "succeeded")
    blocked = [end for end in ends if end["status"] != "succeeded"]
    wrong = told_ran > ran or any(end["status"] != "blocked" for end in blocked)
    if payment.plan in APPROVALS:
        wrong = wrong or any(NOT_AGAIN not in end["observation"] for end in blocked)
    return [*words, "told_wrong"] if wrong else words
