"""The example on each hook's page is applied, built, served to a runtime, and does what the page says."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hookgate import Outcome
from hookgate.catalogue import CATALOGUE
from hookgate.session.session import Session

from hooks_app.models import Agent
from hooks_app.registry import heads
from tests.config import documents
from tests.docs.tables import DOCS, pages
from tests.runtime.fake_portal import FakePortal
from tests.runtime.harness import USER, Tool, eventually, serve

ACTIONS = [
    {"name": "read", "writes": False},
    {"name": "purchase_pay", "writes": True},
]
CHANNEL = {"slug": "ops", "type": "feishu", "config": documents.FEISHU}


def example(name: str) -> dict[str, Any]:
    """The only YAML of a hook's page."""
    (found,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "hooks" / f"{name}.md").read_text("utf-8"), re.DOTALL)
    loaded: dict[str, Any] = yaml.safe_load(found)
    return loaded


def build(folder: Path, name: str) -> dict[str, Any]:
    """The manifest of an agent that declares what the page shows."""
    shown = example(name)
    agent = {
        "slug": "procurement",
        "owner": "alice",
        **{key: shown.pop(key) for key in ("hooks",) if key in shown},
    }
    document = documents.small(
        agents=[agent], channels=[CHANNEL], connectors=[{"slug": "oa", "actions": ACTIONS}], **shown
    )
    ended = documents.apply(folder, document)
    assert ended.code == 0, ended.err
    manifest: dict[str, Any] = json.loads(heads.serve(Agent.objects.get(), "chat").body)
    return manifest


async def read(session: Session, result: Any = "done", **args: Any) -> Outcome:
    return await session.call_tool("oa__read", args, execute=Tool(result))


async def approval_gate(session: Session, portal: FakePortal) -> None:
    portal.on_create = lambda resource: resource.update(status="rejected", reason="by bob: wrong supplier")
    outcome = await session.call_tool("oa__purchase_pay", {"amount": 60_000}, execute=Tool())
    assert outcome.observation == (
        "Tool call oa__purchase_pay was blocked by approval_gate: rejected: by bob: wrong supplier"
    )
    assert (await session.call_tool("oa__purchase_pay", {"amount": 100}, execute=Tool())).result == "done"
    # A condition that can't be evaluated matches.
    assert (await session.call_tool("oa__purchase_pay", {}, execute=Tool())).blocked_by == "approval_gate"


async def readonly_guard(session: Session, portal: FakePortal) -> None:
    outcome = await session.call_tool("oa__purchase_pay", {}, execute=Tool())
    assert outcome.observation == (
        "Tool call oa__purchase_pay was blocked by readonly_guard: "
        "the organization is in read-only mode and this tool writes"
    )
    assert (await read(session)).result == "done"


async def audit_log(session: Session, portal: FakePortal) -> None:
    await read(session, {"iban": 1, "note": "mine"}, note="private", password="p", amount=1)
    await eventually(lambda: portal.calls)
    (entry,) = portal.calls.values()
    assert entry["args"] == {"note": "[redacted]", "password": "[redacted]", "amount": 1}
    assert entry["result"] == {"iban": 1, "note": "[redacted]"}


async def result_truncate(session: Session, portal: FakePortal) -> None:
    outcome = await read(session, "x" * 12_000)
    assert len(outcome.observation) <= 200
    assert re.search(r"x\n\[truncated: 118\d\d of 12000 characters left out\]$", outcome.observation)
    shown = (await read(session, ["x" * 12_000])).result
    assert {*shown} == {"truncated", "characters", "left_out", "start"}


async def connector_rate_limit(session: Session, portal: FakePortal) -> None:
    portal.limit = 2
    outcomes = [await read(session) for _ in range(3)]
    assert [outcome.blocked for outcome in outcomes] == [False, False, True]
    assert re.fullmatch(
        r"Tool call oa__read was blocked by connector_rate_limit: at most 2 calls to oa for now; try again in \d+ s",
        outcomes[2].observation,
    )


async def session_context(session: Session, portal: FakePortal) -> None:
    assert session.context == "You work for acme. Never promise a delivery date."


async def notify(session: Session, portal: FakePortal) -> None:
    await read(session)
    assert portal.messages == []
    portal.on_create = lambda resource: resource.update(status="rejected", reason="no")
    await session.call_tool("crm__unlisted", {}, execute=Tool())
    assert portal.messages == []
    blocked = await session.call_tool("oa__unlisted", {}, execute=Tool())
    assert portal.messages == [
        ("ops", {"agent": "procurement", "text": "procurement: oa__unlisted was blocked: rejected: no"})
    ]
    assert blocked.side_effects == ["notify: notice to ops"]


CHECKS = {check.__name__: check for check in (
    approval_gate, readonly_guard, audit_log, result_truncate, connector_rate_limit, session_context, notify,
)}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("name", pages())
def test_the_example_does_what_the_page_says(tmp_path: Path, name: str) -> None:
    manifest = build(tmp_path, name)

    async def run() -> None:
        async with (
            serve(manifest) as (portal, runtime),
            runtime.session("procurement", user=USER) as session,
        ):
            await CHECKS[name](session, portal)

    asyncio.run(run())


@pytest.mark.parametrize("name", pages())
def test_each_page_says_the_same_things(name: str) -> None:
    text = (DOCS / "hooks" / f"{name}.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["When it fails", "What the model reads"]
    assert f"`on_error` is `{CATALOGUE[name].on_error}`" in text or name == "audit_log"
    assert len(text.splitlines()) <= 60
