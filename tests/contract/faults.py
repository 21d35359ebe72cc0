"""Calls whose every request may fail, and what must hold all the same. The rules are those of docs/runtime.md."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hookgate import Outcome, Runtime
from hookgate.wire.portal import Unreachable

from tests.contract.breaking import BEFORE, Breaker, Plan, times
from tests.contract.conftest import World
from tests.contract.outside import STRANGER, Api
from tests.contract.playing import eventually
from tests.runtime.harness import FAST

TEXT = """
apiVersion: hookgate/v1
organizations:
  - slug: faults
    name: Faults
    freshness: {revalidate_after_seconds: 1, max_stale_seconds: 15}
    members: [{user: alice, role: admin}, {user: bob, role: approver}]
    channels:
      - slug: room
        type: feishu
        config: {app_id: cli_1, app_secret: "${WORLD_APP_SECRET}", chat_id: oc_2, encrypt_key: "${WORLD_ENCRYPT_KEY}",
                 verification_token: "${WORLD_TOKEN}", base_url: "${WORLD_PLATFORM}"}
    approval_policies:
      - {slug: patient, timeout_seconds: 60, start_by_seconds: 60}
      - {slug: short, timeout_seconds: 2}
      - {slug: brief, timeout_seconds: 1}
      - {slug: lapsing, timeout_seconds: 60, start_by_seconds: 1}
    connectors:
      - slug: oa
        actions:
          - {name: pay, requires_confirmation: true, policy: patient}
          - {name: short, requires_confirmation: true, policy: short}
          - {name: brief, requires_confirmation: true, policy: brief}
          - {name: lapse, requires_confirmation: true, policy: lapsing}
          - {name: write}
    agents:
      - &agent {slug: plain, name: Plain, owner: alice, confirmation_mode: inline_only, max_pending: 1000}
      - {<<: *agent, slug: careful, hooks: {class_hooks: [{name: connector_rate_limit, params: {max_calls: 10000}}]}}
      - {<<: *agent, slug: easy, hooks: {class_hooks: [
          {name: connector_rate_limit, on_error: allow, params: {max_calls: 10000}}]}}
      - {<<: *agent, slug: telling, hooks: {class_hooks: [
          {name: notify, params: {channel: room, text: "{tool}", points: [PreToolUse]}}]}}
      - {<<: *agent, slug: insisting, hooks: {class_hooks: [
          {name: notify, on_error: deny, params: {channel: room, text: "{tool}", points: [PreToolUse]}}]}}
"""
# What becomes of a call as far as people are concerned.
KINDS = ("approved", "rejected", "expired", "withdrawn", "ungated")
MAY_RUN = {"approved", "ungated"}
# Seconds. What is to be too slow must not keep a test; everything else may take its time on a machine at work.
TIMEOUTS = {"slow": 1.5}
TIMEOUT = 15.0
PACING = replace(
    FAST, retry_delays=(0.05, 0.1, 0.2, 0.2), poll_hold=1.0, grace=0.2, pause_last=0.2, log_delay=0.05
)
# How often a request may fail that is repeated, and is still answered in the end.
FEW = 2
# Seconds for one scene; some requests expire by the clock.
BOUND = 60.0


@dataclass
class Call:
    """One call, how often its tool ran, and what it came to; None for a call that was withdrawn."""

    kind: str
    tool: str
    conversation: str = field(default_factory=lambda: uuid.uuid4().hex)
    ran: int = 0
    outcome: Outcome | None = None

    async def execute(self, args: dict[str, Any]) -> str:
        self.ran += 1
        return "paid"


class Scene:
    """Calls of one runtime through one proxy, and the people who decide, who come by another way."""

    def __init__(
        self, bob: Api, breaker: Breaker, runtime: Runtime, *, user: dict[str, str] = STRANGER
    ) -> None:
        self.bob = bob
        self.user = user
        self.breaker = breaker
        self.runtime = runtime

    async def play(self, agent: str, call: Call) -> None:
        """One call to its end."""
        deciding: set[asyncio.Task[Any]] = set()

        def hear(event: dict[str, Any]) -> None:
            if event["type"] == "awaiting_confirmation" and call.kind != "expired":
                deciding.add(asyncio.ensure_future(self._decide(call, event, task)))

        async with self.runtime.session(
            agent, user=self.user, conversation_id=call.conversation, on_event=hear
        ) as session:
            task = asyncio.ensure_future(
                session.call_tool(call.tool, {"n": 1}, execute=call.execute, tool_call_id="t")
            )
            await asyncio.wait({task})
        await asyncio.gather(*deciding)
        call.outcome = None if task.cancelled() else task.result()

    async def _decide(self, call: Call, event: dict[str, Any], task: "asyncio.Future[Outcome]") -> None:
        if call.kind == "withdrawn":
            task.cancel()
            return
        decision = {"approved": "approve", "rejected": "reject"}[call.kind]
        # A short request may be over by now; then nothing was decided, and nothing runs.
        await asyncio.to_thread(self.bob.respond, event, decision)

    async def probe(self, agent: str) -> Call:
        """Calls that need nobody, until there is a registry: whatever comes before runs nothing."""
        while True:
            call = Call("ungated", "oa__write")
            await self.play(agent, call)
            assert call.outcome is not None
            if call.outcome.blocked_by != "registry":
                return call
            assert call.ran == 0


@dataclass(frozen=True)
class Case:
    """A fault at a purpose, and the kinds of calls that run under it. ``standing``: it goes on for good, after the
    first ``after`` requests."""

    purpose: str
    fault: str
    runs: frozenset[str] = frozenset(MAY_RUN)
    agent: str = "plain"
    standing: bool = False
    after: int = 0
    blocked_by: str = "approval_gate"
    kinds: tuple[str, ...] = KINDS

    def plan(self) -> Plan:
        return times(self.purpose, self.fault, 10_000 if self.standing else self.few(), after=self.after)

    def few(self) -> int:
        """How many faults this purpose stands: what is asked once and once more, or again and again. A runtime that is
        being left waits two seconds for its reports, within which one may be kept waiting."""
        waited = (self.purpose, self.fault) == ("outcome", "slow")
        return 1 if waited or self.purpose in ("registry", "limits") else FEW

    def calls(self) -> list[Call]:
        # Where no answer ever comes, a request's own time must be short for the call to end within the test.
        soon = {"wait": "oa__short", "consume": "oa__lapse"} if self.standing else {}
        tools = {"expired": "oa__brief", "ungated": "oa__write"}
        return [Call(kind, tools.get(kind) or soon.get(self.purpose, "oa__pay")) for kind in self.kinds]

    @property
    def name(self) -> str:
        many = "standing" if self.standing else "passing"
        return f"{many} {self.fault} at {self.purpose} of {self.agent}"


@dataclass
class Played:
    """A case, its calls, and the portal's rows by conversation."""

    case: Case
    calls: list[Call]
    scene: Scene
    waiting: int = 0

    async def play(self) -> None:
        """All calls at once, once there is a registry to run them on."""
        case, scene = self.case, self.scene
        if case.after or case.purpose == "events" or (case.purpose == "registry" and not case.standing):
            await scene.probe(case.agent)
        # Open meanwhile, so that its registry is kept fresh.
        async with scene.runtime.session(case.agent), asyncio.TaskGroup() as tasks:
            if case.after:
                await eventually(lambda: scene.breaker.met, what=case.name)
            if case.purpose == "tools":
                await announce(scene.runtime, case.agent)
            for call in self.calls:
                tasks.create_task(scene.play(case.agent, call))

    def check(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        """Hold what ran against the case, and what the portal knows against both."""
        case = self.case
        assert self.scene.breaker.met[case.purpose, case.fault], case.name
        for call in self.calls:
            told = (case.name, call, [row["status"] for row in rows.get(call.conversation, [])])
            assert call.ran == int(call.kind in case.runs), told
            assert len(rows.get(call.conversation, [])) <= 1, told
            if call.outcome is None:
                assert call.kind == "withdrawn", told
            elif not call.ran:
                assert (call.outcome.blocked, bool(call.outcome.reason)) == (True, True), told
                if call.kind in MAY_RUN:
                    assert call.outcome.blocked_by == case.blocked_by, told
            else:
                assert (call.outcome.blocked, call.outcome.result) == (False, "paid"), told
            for row in rows.get(call.conversation, []):
                self._check_row(call, row, told)

    def _check_row(self, call: Call, row: dict[str, Any], told: Any) -> None:
        """A tool that needs people ran after its use was recorded, and only then."""
        case = self.case
        if call.ran:
            reachable = not (case.standing and case.purpose == "outcome" and case.fault in BEFORE)
            assert row["consumed_at"] is not None, told
            assert row["outcome"] == ("succeeded" if reachable else None), told
        elif row["consumed_at"] is not None:
            # The answers were all lost: used up without having run, and the portal is told so.
            assert (case.purpose, case.standing, row["outcome"]) == ("consume", True, "unknown"), told
        if call.kind == "withdrawn" and not (case.standing and case.purpose in ("cancel", "create")):
            assert row["status"] in ("cancelled", "expired"), told


async def play_case(world: World, key: str, case: Case, folder: Path) -> Played:
    """Everything of one case, at once."""
    pacing = replace(PACING, stream_delay=0.0) if case.purpose == "events" else PACING
    timeout = TIMEOUTS.get(case.fault, TIMEOUT)
    async with Breaker(world.portal.url, case.plan()) as breaker:
        runtime = Runtime(breaker.url, key, timeout=timeout, pacing=pacing, spool=folder)
        played = Played(case, case.calls(), Scene(world["bob"], breaker, runtime))
        try:
            async with asyncio.timeout(BOUND), runtime:
                await played.play()
        except TimeoutError:
            told = [(call, call.outcome) for call in played.calls]
            raise AssertionError(f"{case.name} has no end: {told}, {breaker.asked}") from None
        played.waiting = runtime.call_log.waiting(case.agent)
    return played


async def announce(runtime: Runtime, agent: str) -> None:
    """Tell the portal of a tool; a portal that is away is the caller's to know of, and no more."""
    with suppress(Unreachable):
        await runtime.announce_tools(agent, [{"name": "oa__write", "description": "", "input_schema": {}}])


def pages(api: Any, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Every row of a list."""
    cursor: dict[str, Any] = {}
    while True:
        answer = api.get(path, **query, **cursor).json()
        yield from answer["results"]
        if not answer["next"]:
            return
        cursor = {"cursor": answer["next"]}


@contextmanager
def employed(world: World) -> Iterator[str]:
    """The organization of these tests, and its key."""
    done = world.apply(TEXT)
    assert done.returncode == 0, done.stderr
    done = world.command("issue_key", "--org", "faults")
    assert done.returncode == 0, done.stderr
    yield done.stdout.strip()
