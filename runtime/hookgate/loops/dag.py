"""A plan of tool calls: a directed acyclic graph, run as far as its hooks let it.

Nodes run as soon as everything before them has succeeded, several at a time. A node that was blocked or
failed takes everything after it with it; the rest goes on. A node of another agent gets that agent's own
registry, on surface ``workflow``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from hookgate.engine import signatures
from hookgate.origin import is_programs
from hookgate.result import Outcome, describe_error
from hookgate.session.delegation import DelegationRefused
from hookgate.session.session import Session

Tool = Callable[[dict[str, Any]], Any]
Args = dict[str, Any] | Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Node:
    """One tool call of a plan.

    ``args`` are the arguments, or a function of the results so far ({node id: result}) that makes them.
    ``after`` names the nodes that must have succeeded before. ``agent`` is who makes the call; None is the
    session's own agent.
    """

    id: str
    tool: str
    args: Args
    after: tuple[str, ...] = ()
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """What a node came to. ``outcome`` is None when its call was never made; ``reason`` says why."""

    status: Literal["succeeded", "failed", "blocked", "skipped"]
    reason: str | None = None
    outcome: Outcome | None = None


async def run(
    session: Session,
    nodes: Sequence[Node],
    *,
    tools: Mapping[str, Tool],
    name: str = "plan",
    max_parallel: int = 8,
) -> dict[str, NodeEnd]:
    """Run a plan; how each node ended, by id.

    Calls are named ``NAME:NODE``, so that a restarted process with the same conversation and ``name`` takes
    up the requests that wait. Before anything has run it raises ValueError for a plan that can't be run, and
    TypeError for a tool that can't take its arguments as one dict.
    """
    return await _Plan(session, nodes, tools, name, max_parallel).run()


class _Plan:
    def __init__(
        self, session: Session, nodes: Sequence[Node], tools: Mapping[str, Tool], name: str, max_parallel: int
    ) -> None:
        self._session = session
        self._nodes = {node.id: node for node in nodes}
        self._tools = tools
        self._name = name
        self._room = asyncio.Semaphore(max_parallel)
        self._ends: dict[str, NodeEnd] = {}
        self._results: dict[str, Any] = {}
        self._stopped = False
        self._order = self._check(nodes)

    def _check(self, nodes: Sequence[Node]) -> TopologicalSorter[str]:
        if len(self._nodes) != len(nodes):
            raise ValueError("two nodes of the plan have the same id")
        for node in nodes:
            unknown = sorted(set(node.after) - set(self._nodes))
            if unknown:
                raise ValueError(f"node {node.id} comes after {unknown[0]}, which is not in the plan")
            if node.tool not in self._tools:
                raise ValueError(f"node {node.id} calls {node.tool}, which is not among the tools")
        signatures.check_all(self._tools)
        order = TopologicalSorter({node.id: node.after for node in nodes})
        try:
            order.prepare()
        except CycleError as error:
            raise ValueError(f"the plan has a cycle: {' → '.join(error.args[1])}") from None
        return order

    async def run(self) -> dict[str, NodeEnd]:
        """Start what is ready, whenever something has ended, until nothing is left."""
        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[str]] = set()
            while self._order.is_active():
                running |= {group.create_task(self._play(name)) for name in self._order.get_ready()}
                ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                self._order.done(*(task.result() for task in ended))
        return {name: self._ends[name] for name in self._nodes}

    async def _play(self, name: str) -> str:
        node = self._nodes[name]
        obstacle = self._obstacle(node)
        if obstacle is None:
            async with self._room:
                self._ends[name] = await self._call(node)
        else:
            self._ends[name] = NodeEnd("skipped", obstacle)
        return name

    def _obstacle(self, node: Node) -> str | None:
        if self._stopped:
            return "a hook asked to stop"
        return next(
            (f"{before} {self._ends[before].status}" for before in node.after if before not in self._results),
            None,
        )

    async def _call(self, node: Node) -> NodeEnd:
        if self._stopped:
            return NodeEnd("skipped", "a hook asked to stop")
        try:
            args = node.args(self._results) if callable(node.args) else node.args
        except BaseException as error:
            # The plan's own code: its failure is this node's.
            if is_programs(error):
                raise
            return NodeEnd("failed", describe_error(error))
        try:
            signatures.check(self._tools[node.tool], args)
        except TypeError as error:
            return NodeEnd("failed", str(error))
        try:
            outcome = await self._call_as(node, args)
        except DelegationRefused as error:
            return NodeEnd("blocked", str(error))
        self._stopped = self._stopped or outcome.stop
        if outcome.blocked:
            return NodeEnd("blocked", f"{outcome.blocked_by}: {outcome.reason}", outcome)
        if outcome.status != "succeeded" or outcome.withheld:
            return NodeEnd("failed", outcome.error or outcome.reason, outcome)
        self._results[node.id] = outcome.result
        return NodeEnd("succeeded", None, outcome)

    async def _call_as(self, node: Node, args: dict[str, Any]) -> Outcome:
        call_id = f"{self._name}:{node.id}"
        execute = self._tools[node.tool]
        if node.agent is None or node.agent == self._session.agent:
            return await self._session.call_tool(node.tool, args, execute=execute, tool_call_id=call_id)
        async with self._session.delegate(node.agent, name=call_id, surface="workflow") as child:
            return await child.call_tool(node.tool, args, execute=execute, tool_call_id=call_id)
