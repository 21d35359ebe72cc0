"""Fixtures of the machinery's tests: a portal on a socket, an agent with a key, requests that wait."""

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from hooks_app.approvers import policies
from hooks_app.live import reading
from hooks_app.models import ConfirmationRequest, Stage
from hooks_app.models.policies import BUILT_IN
from hooks_app.registry import heads
from portal.lib import clock
from portal.wakeups import wakeups
from tests import make
from tests.machinery.live import Portal


@pytest.fixture
def world(transactional_db: None) -> Any:
    """acme with two agents, an approver and a key for each agent; beta with one agent and its key."""
    acme, beta = make.organization("acme"), make.organization("beta")
    agent, other = make.agent(acme), make.agent(acme, "reports")
    theirs = make.agent(beta)
    for row in (agent, other, theirs):
        heads.head(row)
    return SimpleNamespace(
        acme=acme,
        agent=agent,
        other=other,
        theirs=theirs,
        bob=make.user("bob", acme),
        key=make.key(acme, agent),
        other_key=make.key(acme, other),
        their_key=make.key(beta),
    )


@pytest.fixture
def portal(world: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Portal]:
    """A portal that serves ``world``."""
    wakeups.stop()
    running = Portal()
    ask = reading.ask

    async def counted(scope: Any, **longer: float) -> Any:
        answer = await ask(scope, **longer)
        running.asked += 1
        return answer

    monkeypatch.setattr(reading, "ask", counted)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def pending(world: Any) -> Callable[..., ConfirmationRequest]:
    """Makes pending requests of an agent, as rows."""
    numbers = itertools.count()

    def make_one(*, agent: Any = None, seconds: float = 120) -> ConfirmationRequest:
        agent = agent or world.agent
        now = clock.now()
        row = ConfirmationRequest.objects.create(
            organization=agent.organization,
            agent=agent,
            conversation_id="c7",
            tool_call_id=f"call_{next(numbers)}_{uuid4().hex[:6]}",
            tool_name="oa__purchase_pay",
            args={"amount": 60000},
            writes=True,
            requested_digest="sha256:0",
            args_digest="sha256:0",
            hook="approval_gate",
            registry_digest="sha256:0",
            mode="auto",
            policy=policies.freeze(agent.organization, BUILT_IN),
            created_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        Stage.objects.create(
            request=row, number=1, scope="approvers", quorum=1, reject_quorum=1, opened_at=now
        )
        return row

    return make_one
