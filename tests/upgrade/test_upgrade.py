"""A database, config file, spool and runtime of the release of before work with this one, whichever side goes first."""

import json
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.soak import counts
from tests.upgrade.releases import ROOT, Caller, Release, free_port, unpack

FILE = Path(__file__).with_name("before.yaml")
# Makes one call and prints what came of it, on the day's runtime of either release.
PAY = "oa__purchase_pay"
CALL = """
import asyncio, json, sys
from hookgate import Runtime
url, key, tool, call_id, delegate = sys.argv[1:]

async def main():
    async with Runtime(url, key, name="upgrade") as runtime:
        async with runtime.session("procurement", conversation_id="c7") as session:
            async def call(who):
                return await who.call_tool(tool, {"n": 1}, execute=lambda args: "ran", tool_call_id=call_id)
            if delegate:
                async with session.delegate("clerk") as child:
                    outcome = await call(child)
                    # What was left behind is looked for beside the calls.
                    await asyncio.sleep(1.0)
            else:
                outcome = await call(session)
            print(json.dumps([outcome.status, outcome.reason]), flush=True)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def before_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the release of before."""
    return unpack(tmp_path_factory.mktemp("before") / "code")


@pytest.fixture
def releases(tmp_path: Path, before_code: Path) -> tuple[Release, Release]:
    """Both releases on one database, which the earlier one has made and filled."""
    port = free_port()
    before, now = Release(before_code, tmp_path, port), Release(ROOT, tmp_path, port)
    before.manage("migrate", "--verbosity", "0")
    before.manage("apply", str(FILE))
    return before, now


def said(process: "subprocess.Popen[str]") -> Any:
    """What a program's call came to."""
    out, err = process.communicate(timeout=60)
    assert out, err
    return json.loads(out.splitlines()[-1])


def requests(person: Caller) -> list[Any]:
    """All requests, by id of their call."""
    return sorted(person.get("/confirmations")["results"], key=lambda item: str(item["tool_call_id"]))


def wait_for(person: Caller, count: int) -> list[Any]:
    """The requests, once there are so many."""
    deadline = time.monotonic() + 30
    while len(found := requests(person)) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def approve(person: Caller, one: Any) -> None:
    person.post(f"/confirmations/{one['id']}/respond", {"decision": "approve"})


@counts.LONG
def test_either_side_may_go_first(releases: tuple[Release, Release]) -> None:
    before, now = releases
    key = before.manage("issue_key", "--org", "acme").strip()
    token = before.manage("issue_token", "--user", "bob", "--scopes", "read,decide").strip()
    served = play_runtimes_first(before, now, key, token)
    # Portal first. The last call-log entries of what was killed lie in the spool.
    assert list((now.state / "spool").rglob("*.jsonl"))
    now.manage("migrate", "--verbosity", "0")
    assert now.manage("apply", str(FILE)).splitlines()[-1] == "0 changes"
    play_portal_first(before, now, key, token)
    # What a request says of the rules that it was asked under is still known.
    body = {
        "agent": "procurement", "conversation_id": "c8", "tool_call_id": uuid.uuid4().hex, "tool_name": PAY,
        "tool_args": {"n": 1}, "registry_digest": served["digest"],
    }  # fmt: skip
    with now.serving():
        assert Caller(now.url, key).post("/confirmations", body)["status"] == "pending"


def play_runtimes_first(before: Release, now: Release, key: str, token: str) -> Any:
    """Calls of the older release in every state, and a newer runtime at its portal; returns the manifest served."""
    pay = PAY
    with before.serving():
        bob = Caller(before.url, token)
        waiting = [before.run(CALL, key, pay, name, "") for name in ("a-pending", "b-approved", "c-consumed")]
        waiting.append(before.run(CALL, key, pay, "d-delegated", "yes"))
        found = wait_for(bob, 4)
        for process in (waiting[0], waiting[1], waiting[3]):
            process.kill()
        approve(bob, found[1])
        approve(bob, found[2])
        assert said(waiting[2]) == ["succeeded", None]
        served = Caller(before.url, key).get("/agents/procurement/registry")
        # Runtimes first: what needs nobody goes on, and nobody is asked.
        status, reason = said(now.run(CALL, key, pay, "z", ""))
        assert (status, "upgrade the portal" in reason) == ("blocked", True)
        assert said(now.run(CALL, key, "oa__read", "y", "")) == ["succeeded", None]
        assert len(requests(bob)) == 4
    return served


def play_portal_first(before: Release, now: Release, key: str, token: str) -> None:
    """Runtimes of both releases at the newer portal, which took over the older one's database."""
    pay = PAY
    with now.serving():
        bob = Caller(now.url, token)
        held = requests(bob)
        assert [item["status"] for item in held] == ["pending", "approved", "approved", "pending"]
        assert [bool(item["consumed_at"]) for item in held] == [False, False, True, False]
        # A runtime of before goes on at the portal of now: it takes up its request and makes new ones.
        old = before.run(CALL, key, pay, "a-pending", "")
        fresh = before.run(CALL, key, pay, "e-new", "")
        approve(bob, held[0])
        approve(bob, next(item for item in wait_for(bob, 5) if item["tool_call_id"] == "e-new"))
        assert (said(old), said(fresh)) == (["succeeded", None], ["succeeded", None])
        # Then the runtimes: what was approved is used, what has run is not run again, what waits is found.
        assert said(now.run(CALL, key, pay, "b-approved", "")) == ["succeeded", None]
        again, reason = said(now.run(CALL, key, pay, "c-consumed", ""))
        assert (again, "already ran" in reason) == ("blocked", True)
        delegated = now.run(CALL, key, pay, "d-delegated", "yes")
        approve(bob, held[3])
        assert said(delegated) == ["succeeded", None]
        assert len(requests(bob)) == 5
        assert said(now.run(CALL, key, "oa__read", "f", "")) == ["succeeded", None]
        assert not list((now.state / "spool").rglob("*.jsonl"))
