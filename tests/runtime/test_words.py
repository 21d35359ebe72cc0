"""What the model reads is a sentence about what it can do; what is at fault, by name, stands once in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hookgate import Outcome

from tests.runtime.documents import manifest
from tests.runtime.fake_portal import FakePortal, Problem
from tests.runtime.harness import Tool, serve

SECRETS = "approval_policies.payments.group: the group 'treasury-emea' has 3 members"


class Said(Problem):
    """A problem that tells what only administrators need."""

    def __init__(self, status: int, code: str, detail: str, errors: Any = ()) -> None:
        super().__init__(status, code, list(errors))
        self.body["detail"] = detail


async def ask(problem: Problem) -> tuple[Outcome, FakePortal]:
    async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
        portal.refuse_create = problem
        return await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool()), portal


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (409, "halted", "is halted"),
        (409, "read_only", "read-only"),
        (409, "agent_disabled", "switched off"),
        (409, "tool_call_conflict", "id of its own"),
        (422, "unknown_registry", "make the call again"),
        (422, "no_eligible_approver", "nobody is there who may approve"),
        (422, "initiator_unknown", "does not know the user"),
        (422, "registry_unbuildable", "rules can't be used"),
        (413, "too_large", "too large"),
        (403, "scope_missing", "key may not ask"),
        (404, "not_found", "no such agent"),
        (418, "something_new", "something_new"),
    ],
)
def test_each_refusal_of_a_request_has_its_own_words(
    status: int, code: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hookgate")
    errors = [{"path": "policy", "code": "x", "message": SECRETS}]
    outcome, portal = asyncio.run(ask(Said(status, code, f"No: policy: {SECRETS}", errors)))
    assert outcome.blocked_by == "approval_gate"
    assert words in outcome.observation
    assert "out of reach" not in outcome.observation
    assert "treasury" not in outcome.observation
    assert len(outcome.observation) < 260, outcome.observation
    assert len(portal.seen("create")) == 1
    told = [record.getMessage() for record in caplog.records if "treasury" in record.getMessage()]
    assert [message.count("treasury") for message in told] == [1], told


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("20 requests of this agent wait for people; its limit is 20.", "20 requests of this agent wait for"),
        ("1000 requests of this agent wait for people; its limit is 1000.", "1000 requests"),
        ("Too many.", "as many requests as may wait"),
    ],
)
def test_too_many_pending_is_no_outage_and_is_not_asked_again(detail: str, words: str) -> None:
    outcome, portal = asyncio.run(ask(Said(429, "too_many_pending", detail)))
    assert words in (outcome.reason or "")
    assert "for people already" in (outcome.reason or "")
    assert "out of reach" not in (outcome.reason or "")
    assert len(portal.seen("create")) == 1


def test_another_429_is_waited_for_and_asked_again() -> None:
    async def run() -> Outcome:
        async with serve(manifest()) as (portal, runtime), runtime.session("procurement") as session:
            portal.fail("create", "429")
            portal.on_create = lambda resource: resource.update(status="approved")
            return await session.call_tool("oa__purchase_pay", {"n": 1}, execute=Tool())

    assert asyncio.run(run()).status == "succeeded"


@pytest.mark.parametrize(
    ("problem", "model", "developer"),
    [
        (Said(401, "unauthenticated", "Send a valid key or token as 'Authorization: Bearer …'"), "key", "HOOKGATE_KEY"),
        (Said(404, "not_found", "There is no such thing."), "procurement", "'procurement' is mistyped"),
        (
            Said(422, "registry_unbuildable", f"2 faults. {SECRETS}", [{"path": "hooks", "message": SECRETS}]),
            "can't be used", "build_registry",
        ),
    ],
)  # fmt: skip
def test_a_refused_registry_tells_the_model_little_and_the_log_all(
    problem: Said, model: str, developer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> Outcome:
        async with serve(manifest()) as (portal, runtime):
            portal.refusals["procurement"] = problem
            async with runtime.session("procurement") as session:
                return await session.call_tool("oa__read", {}, execute=Tool())

    outcome = asyncio.run(run())
    assert (outcome.blocked_by, str(problem.status) in outcome.observation) == ("registry", True)
    assert model in outcome.observation
    for configured in ("treasury", "Authorization"):
        assert configured not in outcome.observation
    assert len(outcome.observation) < 260, outcome.observation
    [told] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert developer in told
    assert told.count(str(problem.body["detail"])) == 1


def test_the_same_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> str:
        async with serve() as (portal, runtime):
            await portal.stop()
            async with runtime.session("procurement") as session:
                for _ in range(3):
                    outcome = await session.call_tool("oa__read", {}, execute=Tool())
                return outcome.observation + portal.url

    said = asyncio.run(run())
    told = [message for message in caplog.messages if message.startswith("registry of")]
    assert len(told) == 1
    url = said[said.index("http://") :]
    assert url in told[0]
    assert said.count(url) == 1
