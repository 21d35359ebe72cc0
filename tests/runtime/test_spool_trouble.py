"""The call log's spool when processes are killed, disks are full and folders are not what they should be."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hookgate import Runtime
from hookgate.journal.spoolfolder import choose

from tests.runtime.caller import Orders
from tests.runtime.documents import manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, Tool, eventually, serve

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """The folder that runtimes of a test use, unless they are told otherwise."""
    return tmp_path / "spool"


def files(spool: Path) -> list[Path]:
    return sorted(spool.rglob("*.jsonl"))


class Process:
    """A caller in a process of its own."""

    def __init__(self, folder: Path, portal: FakePortal, **orders: Any) -> None:
        self.ledger, self.journal = folder / "ledger", folder / "journal"
        self.orders = Orders(
            url=portal.url, key=KEY, ledger=str(self.ledger), journal=str(self.journal), prefix="a", **orders
        )
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'runtime'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.caller", self.orders.write()], cwd=ROOT, env=environment
        )

    def started(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []

    def ended(self) -> list[dict[str, Any]]:
        text = self.journal.read_text() if self.journal.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait(60)


def play(work: Callable[[FakePortal], Any]) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            await work(portal)

    asyncio.run(run())


def test_kill_9_between_start_and_end_leaves_unknown(spool: Path, tmp_path: Path) -> None:
    async def work(portal: FakePortal) -> None:
        portal.standing["calls"] = "500"
        process = Process(tmp_path, portal, calls=3, at_once=3, tool_seconds=60.0)
        try:
            await eventually(lambda: len(process.started()) == 3, START_SECONDS)
            async with Runtime(portal.url, KEY, pacing=FAST) as other, other.session("procurement"):
                await asyncio.sleep(0.3)
                # Its process lives: nobody says a word about its calls.
                assert other.call_log.waiting("procurement") == 0
                process.end(signal.SIGKILL)
                portal.standing.clear()
                await eventually(lambda: len(portal.calls) == 3)
        finally:
            process.end(signal.SIGKILL)
        assert {entry["tool_call_id"] for entry in portal.calls.values()} == set(process.started())
        ends = {(entry["status"], entry["duration_ms"]) for entry in portal.calls.values()}
        assert ends == {("unknown", None)}

    play(work)
    assert files(spool) == []


def test_kill_9_while_people_are_asked_leaves_cancelled(spool: Path, tmp_path: Path) -> None:
    async def work(portal: FakePortal) -> None:
        process = Process(tmp_path, portal, calls=1, tool="oa__purchase_pay")
        try:
            await eventually(lambda: portal.confirmations, START_SECONDS)
        finally:
            process.end(signal.SIGKILL)
        async with Runtime(portal.url, KEY, pacing=FAST) as other, other.session("procurement"):
            await eventually(lambda: portal.calls)
        (entry,) = portal.calls.values()
        assert (entry["status"], entry["reason"]) == (
            "cancelled",
            "the process ended before the tool began",
        )
        assert process.started() == []

    play(work)


def test_a_full_disk_blocks_the_calls_and_says_what_to_do(spool: Path, tmp_path: Path) -> None:
    """Every file of the process is bounded: writes first come out short, then fail."""

    async def work(portal: FakePortal) -> None:
        portal.standing["calls"] = "500"
        process = Process(tmp_path, portal, calls=12, at_once=1, file_limit=8000)
        try:
            await eventually(lambda: len(process.ended()) == 12, START_SECONDS)
            portal.standing.clear()
            await eventually(lambda: len(portal.calls) == 12, START_SECONDS)
        finally:
            process.end(signal.SIGTERM)
        ran = [end for end in process.ended() if end["status"] == "succeeded"]
        blocked = [end for end in process.ended() if end["status"] == "blocked"]
        assert len(ran) == len(process.started()) > 0
        assert blocked
        assert len(ran) + len(blocked) == 12
        reason = (
            f"the call log's spool in {spool} can't be written (No space left on device); free space there or give "
            "this user the right to write, or name another folder (Runtime(spool=…) or HOOKGATE_SPOOL_DIR)"
        )
        assert {(end["by"], end["reason"]) for end in blocked} == {("audit_log", reason)}
        assert sorted(entry["status"] for entry in portal.calls.values()) == sorted(
            end["status"] for end in process.ended()
        )

    play(work)
    assert files(spool) == []


def blocked_by(spool: Path) -> str:
    """Why a call with this folder is blocked."""

    async def run() -> str:
        async with serve(manifest(), spool=spool) as (portal, runtime):
            tool = Tool()
            async with runtime.session("procurement") as session:
                outcome = await session.call_tool("oa__read", {}, execute=tool)
            assert (outcome.blocked, outcome.blocked_by, tool.runs) == (True, "audit_log", [])
            await eventually(lambda: len(portal.calls) == 1)
            return outcome.reason or ""

    return asyncio.run(run())


def test_a_folder_that_is_none_or_may_not_be_written_blocks_the_calls(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below", Path("/proc/none")):
        reason = blocked_by(path)
        assert reason.startswith(f"the call log's spool in {path} can't be written (")
        assert "HOOKGATE_SPOOL_DIR" in reason


@pytest.fixture
def nobody() -> Iterator[None]:
    """Without root's right to write anywhere, which a test may have."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_a_folder_without_the_right_to_write_blocks_the_calls(locked: Path, nobody: None) -> None:
    assert blocked_by(locked).startswith(
        f"the call log's spool in {locked} can't be written (Permission denied)"
    )


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder that may be read only."""
    with tempfile.TemporaryDirectory(prefix="hookgate-locked-") as name:
        Path(name).chmod(0o555)
        yield Path(name)
        Path(name).chmod(0o700)


def test_a_folder_that_is_open_to_others_is_refused(spool: Path) -> None:
    spool.mkdir()
    spool.chmod(0o777)
    assert blocked_by(spool) == f"everybody may write to {spool}; take that right away (chmod o-w {spool})"


@pytest.mark.parametrize("planted", ["link", "open"])
def test_a_folder_that_somebody_could_have_planted_is_refused(
    planted: str, spool: Path, tmp_path: Path
) -> None:
    async def work(portal: FakePortal) -> None:
        portal.standing["calls"] = "500"
        outcome = await call(portal)
        assert outcome.status == "succeeded"
        (inner,) = await asyncio.to_thread(lambda: list(spool.iterdir()))
        if planted == "link":
            inner.rename(tmp_path / "theirs")
            inner.symlink_to(tmp_path / "theirs")
        else:
            inner.chmod(0o770)
        held = files(tmp_path)
        outcome = await call(portal)
        assert outcome.blocked_by == "audit_log"
        assert outcome.reason.startswith(f"{inner} is a link, somebody else's, or open to others")
        assert files(tmp_path) == held

    play(work)


async def call(portal: FakePortal) -> Any:
    async with Runtime(portal.url, KEY, pacing=FAST) as runtime, runtime.session("procurement") as session:
        return await session.call_tool("oa__read", {}, execute=Tool())


def test_files_that_somebody_removes_are_made_anew(spool: Path) -> None:
    async def work(portal: FakePortal) -> None:
        portal.standing["calls"] = "500"
        async with (
            Runtime(portal.url, KEY, pacing=FAST) as runtime,
            runtime.session("procurement") as session,
        ):
            await session.call_tool("oa__read", {}, execute=Tool())
            for file in files(spool):
                file.unlink()
                file.parent.rmdir()
            assert not (await session.call_tool("oa__read", {}, execute=Tool())).blocked
            assert len(files(spool)) == 1
        portal.standing.clear()

    play(work)


def test_where_the_spool_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, home = tmp_path / "state", tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("HOME", str(home))
    assert choose(tmp_path / "given") == (tmp_path / "given", True)
    assert choose(None) == (tmp_path / "spool", True)
    monkeypatch.delenv("HOOKGATE_SPOOL_DIR")
    assert choose(None) == (state / "hookgate", True)
    monkeypatch.delenv("XDG_STATE_HOME")
    assert choose(None) == (home / ".local" / "state" / "hookgate", True)
    monkeypatch.setenv("HOME", "/proc/none")
    assert choose(None) == (tmp_path / f"hookgate-{os.geteuid()}", False)


def test_a_link_in_the_temporary_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOKGATE_SPOOL_DIR")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trap = tmp_path / "trap"
    trap.mkdir()
    (tmp_path / f"hookgate-{os.geteuid()}").symlink_to(trap)

    async def work(portal: FakePortal) -> None:
        outcome = await call(portal)
        assert outcome.blocked_by == "audit_log"
        assert "is a link, somebody else's, or open to others" in outcome.reason

    play(work)
    assert list(trap.iterdir()) == []
