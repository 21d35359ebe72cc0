"""Many payments at once, each with a plan for the people who are asked, and the count of what became of them."""

import asyncio
import random
import re
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
from hookgate import Outcome, Runtime

from channels_app.sandbox.control import describe
from examples import demo
from tests.e2e.conftest import Stage

# How many payments are under way at once; the agent may have 20 that wait.
AT_ONCE = 12
FIRST = 100_000
# How often somebody taps until there is an answer, and what they see when there is none.
TAPS = 5
NO_ANSWER = 200341
# Where a card shows the amount that it asks about.
ARGUMENT = re.compile(r'"amount": (\d+)')

# What people do with a card, and how often. Only the first three are approvals.
PLANS = {"approve": 5, "approve_repeated": 2, "approve_shared": 2, "reject": 2, "stranger": 2, "silence": 1}
APPROVALS = ("approve", "approve_repeated", "approve_shared")
# The counts that are no fault.
SEEN = ("asked", "approved", "ran")


@dataclass(frozen=True)
class Payment:
    """One tool call, and what people will do."""

    amount: int
    plan: str

    @property
    def tool(self) -> str:
        """Nobody answers for a badge: its policy waits two seconds."""
        return "oa__badge_print" if self.plan == "silence" else "oa__purchase_pay"


def payments(count: int) -> list[Payment]:
    """``count`` payments; every plan is among the first ones, and the same ones come each time."""
    chance = random.Random(count)
    plans = [*PLANS, *chance.choices(list(PLANS), list(PLANS.values()), k=count)][:count]
    return [Payment(FIRST + index, plan) for index, plan in enumerate(plans)]


class Crowd:
    """Agents, people and a tool that counts its runs by amount."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.runs: Counter[int] = Counter()
        self.outcomes: dict[int, list[Outcome]] = {}
        # Taps that the portal didn't answer within the platform's three seconds; not a fault, but told.
        self.unanswered = 0
        # How long the platform waited for the answer to each tap, in milliseconds.
        self.waits: list[int] = []
        self._cards: dict[int, list[str]] = {}
        self._seen: set[str] = set()
        self._places = asyncio.Semaphore(AT_ONCE)

    def pay(self, args: dict[str, Any]) -> str:
        """The tool."""
        self.runs[args["amount"]] += 1
        return f"paid {args['amount']}"

    async def play(self, plans: list[Payment]) -> None:
        """Let every payment meet its people. Returns when all have ended and everything is reported."""
        url, key = self.stage.portal.url, self.stage.key
        async with Runtime(url, key, name="soak-1") as one, Runtime(url, key, name="soak-2") as two:
            await asyncio.gather(*(self.one(payment, one, two) for payment in plans))

    async def one(self, payment: Payment, *runtimes: Runtime) -> None:
        """One payment, asked for by one of ``runtimes`` or by all, and its people."""
        async with self._places:
            chosen = runtimes[payment.amount % len(runtimes)]
            used = runtimes if payment.plan == "approve_shared" else (chosen,)
            conversation = uuid.uuid4().hex
            calls = [asyncio.create_task(self._call(payment, runtime, conversation)) for runtime in used]
            if payment.plan != "silence":
                await self.meet(payment)
            self.outcomes[payment.amount] = await asyncio.gather(*calls)

    async def _call(self, payment: Payment, runtime: Runtime, conversation: str) -> Outcome:
        async with runtime.session("procurement", user=demo.USER, conversation_id=conversation) as session:
            return await session.call_tool(
                payment.tool, {"amount": payment.amount}, execute=self.pay, tool_call_id="call_01"
            )

    async def meet(self, payment: Payment) -> None:
        """Let people do with the payment's card what the plan says, once it is in the chat."""
        card = await self._card(payment.amount)
        if payment.plan == "stranger":
            await self.tap(card, "ou_charlie", "Approve")
        if payment.plan in APPROVALS:
            repeat = 3 if payment.plan == "approve_repeated" else 1
            await self.tap(card, "ou_bob", "Approve", repeat=repeat, together=True)
        else:
            await self.tap(card, "ou_bob", "Reject", form={"reason": "soak"})

    async def tap(self, card: str, who: str, button: str, **more: Any) -> None:
        """Tap, and again when the portal didn't answer in the platform's time, as people do."""
        order = {"message_id": card, "open_id": who, "button": button, **more}
        for _ in range(TAPS):
            report = await asyncio.to_thread(lambda: self.stage.sandbox.control("press", **order))
            if report["sent"]:
                self.waits.append(report["elapsed_ms"])
            if report.get("status") == 200:
                return
            # Held back by the client: the card has lost its buttons meanwhile, so an earlier tap has counted.
            if not report["sent"] and self.unanswered:
                return
            assert report["sent"], report
            assert report["code"] == NO_ANSWER, report
            self.unanswered += 1
        raise AssertionError(f"no tap was answered: {report}")

    async def _card(self, amount: int) -> str:
        """The message that asks about ``amount``. Fails when none comes."""
        async with asyncio.timeout(demo.PATIENCE * 2):
            while amount not in self._cards:
                self.look()
                await asyncio.sleep(0.05)
        return self._cards[amount][0]

    def look(self) -> None:
        """Note the cards that are new in the chat."""
        chat = self.stage.sandbox.sandbox
        with chat.lock:
            new = [m for m in chat.messages.by_id.values() if m.message_id not in self._seen]
            shown = {message.message_id: str(describe(message)["view"]) for message in new}
        for message_id, text in shown.items():
            self._seen.add(message_id)
            if asked := ARGUMENT.search(text):
                self._cards.setdefault(int(asked[1]), []).append(message_id)

    def cards(self) -> dict[int, int]:
        """How many cards asked about each amount."""
        self.look()
        return {amount: len(found) for amount, found in self._cards.items()}

    def records(self) -> dict[int, dict[str, Any]]:
        """What the portal has on record about each amount."""
        return {amount_of(row): row for row in self.pages("confirmations", self.stage.key)}

    def logged(self) -> Counter[int]:
        """How many successful calls of each amount the call log has."""
        token = self.stage.portal.manage("issue_token", "--user", "alice").strip()
        return Counter(
            row["args"]["amount"] for row in self.pages("calls", token) if row["status"] == "succeeded"
        )

    def pages(self, path: str, bearer: str) -> list[dict[str, Any]]:
        """Every row of a list of the REST API."""
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        headers = {"Authorization": f"Bearer {bearer}"}
        with httpx.Client(base_url=self.stage.portal.url, headers=headers, trust_env=False) as client:
            while cursor is not None:
                answer = client.get(f"/api/v1/{path}", params={"cursor": cursor} if cursor else {})
                answer.raise_for_status()
                rows += answer.json()["results"]
                cursor = answer.json()["next"]
        return rows


def count(
    plans: list[Payment],
    *,
    runs: Counter[int],
    records: dict[int, dict[str, Any]],
    cards: dict[int, int],
    logged: Counter[int],
) -> dict[str, int]:
    """What became of ``plans``. Everything but ``SEEN`` is a fault and must be 0."""
    wanted = {payment.amount for payment in plans if payment.plan in APPROVALS}
    approved = {
        amount
        for amount, record in records.items()
        if record["status"] == "approved" and [vote["user"] for vote in record["decisions"]] == ["bob"]
    }
    return {
        "asked": len(plans),
        "approved": len(approved),
        "ran": sum(runs.values()),
        "lost": len(wanted - set(runs)),
        "twice": sum(1 for number in runs.values() if number > 1),
        "unapproved": len(set(runs) - (approved & wanted)),
        "wrongly approved": len(approved - wanted),
        "not on record": len({payment.amount for payment in plans} - set(records)),
        "cards twice": sum(1 for number in cards.values() if number > 1),
        "log differs": len(set((runs - logged) + (logged - runs))),
        "outcome missing": sum(1 for amount in runs if records.get(amount, {}).get("outcome") != "succeeded"),
    }


def amount_of(row: dict[str, Any]) -> int:
    """The amount that a listed request is about: lists have the beginning of the arguments alone."""
    (found,) = re.findall(r'"amount":(\d+)', row["excerpt"])
    return int(found)
