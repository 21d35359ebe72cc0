"""Runtimes on the stage, and what is to be seen of their calls from outside."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from examples import demo
from tests.crashes.agent import Call, Orders, read
from tests.crashes.killing import AgentProcess
from tests.crashes.people import Found, PatientCrowd
from tests.e2e.conftest import Stage
from tests.soak.crowd import Payment, amount_of

AT_ONCE = 8


def employ(stage: Stage, folder: Path, plans: list[Payment], *, name: str, **more: Any) -> AgentProcess:
    """A runtime that makes these payments; not started yet. ``more``: other fields of its orders."""
    calls = tuple(Call(f"talk-{p.amount}", f"call-{p.amount}", p.tool, p.amount) for p in plans)
    usual: dict[str, Any] = {"url": stage.portal.url, "at_once": AT_ONCE}
    orders = Orders(
        key=stage.key,
        name=name,
        user=demo.USER,
        ledger=str(folder / "ledger"),
        journal=str(folder / f"{name}.journal"),
        calls=calls,
        **(usual | more),
    )
    return AgentProcess(folder, orders)


def share(stage: Stage, folder: Path, plans: list[Payment]) -> list[AgentProcess]:
    """Two runtimes that share the payments; a shared one is asked for by both."""
    shares = [[p for p in plans if p.plan == "approve_shared" or p.amount % 2 == number] for number in (0, 1)]
    return [employ(stage, folder, mine, name=f"agent-{number}") for number, mine in enumerate(shares)]


def group(pairs: Iterable[tuple[int, dict[str, Any]]]) -> dict[int, list[dict[str, Any]]]:
    """Rows by amount."""
    grouped: dict[int, list[dict[str, Any]]] = {}
    for amount, row in pairs:
        grouped.setdefault(amount, []).append(row)
    return grouped


def heard(agents: list[AgentProcess], kind: str) -> list[dict[str, Any]]:
    """The lines of one kind in the runtimes' journals."""
    return [row for agent in agents for row in read(agent.orders.journal) if row["type"] == kind]


def look(crowd: PatientCrowd, agents: list[AgentProcess], *, runtimes_killed: int = 0) -> Found:
    """What is to be seen afterwards."""
    ends = heard(agents, "ended")
    rows = crowd.pages("confirmations", crowd.stage.key)
    return Found(
        ran=Counter(row["args"]["amount"] for row in read(agents[0].orders.ledger)),
        ended=group((int(row["tool_call_id"].removeprefix("call-")), row) for row in ends),
        rows=group((amount_of(row), row) for row in rows),
        cards=crowd.cards(),
        asked_again=len(heard(agents, "out of reach")),
        runtimes_killed=runtimes_killed,
        expected_ends=Counter(call.amount for agent in agents for call in agent.orders.calls),
    )
