"""The call log on disk: nothing that ended, and nothing that began, is lost with its process."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hookgate import Runtime, SyncRuntime

from tests.runtime.documents import attached, evaluation, manifest, seal, switched
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, USER, Tool, eventually, serve


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """The folder that runtimes of a test use, unless they are told otherwise."""
    return tmp_path / "spool"


def files(spool: Path) -> list[Path]:
    """The files with entries."""
    return sorted(spool.rglob("*.jsonl"))


def lines(spool: Path) -> list[tuple[str, dict[str, Any]]]:
    """Word and entry of every line but the first of each file."""
    found = [line for file in files(spool) for line in file.read_text().splitlines()[1:] if line.strip()]
    return [(word, json.loads(text)) for word, text in (line.split(None, 1) for line in found)]


async def leave_behind(portal: FakePortal, *names: str, key: str = KEY, agent: str = "procurement") -> None:
    """A runtime that makes calls which the portal doesn't take, and goes."""
    portal.standing["calls"] = "500"
    async with (
        Runtime(portal.url, key, pacing=FAST, timeout=1.0) as runtime,
        runtime.session(agent) as session,
    ):
        for name in names:
            await session.call_tool(name, {}, execute=Tool(), tool_call_id=name)
    del portal.standing["calls"]


def names(portal: FakePortal) -> list[str]:
    return sorted(entry["tool_name"] for entry in portal.calls.values())


def test_a_mark_is_on_disk_while_the_tool_runs_and_nothing_once_the_portal_has_the_entry(
    spool: Path,
) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def look(args: dict[str, Any]) -> str:
        seen.extend(lines(spool))
        return "done"

    async def run() -> dict[str, Any]:
        async with serve(manifest()) as (portal, runtime):
            async with runtime.session("procurement", user=USER) as session:
                await session.call_tool("oa__read", {"token": "t", "a": 1}, execute=look)
                await eventually(lambda: portal.calls and lines(spool) == [])
            (entry,) = portal.calls.values()
            return entry

    entry = asyncio.run(run())
    ((word, mark),) = seen
    assert (word, mark["status"], mark["duration_ms"]) == ("started", "unknown", None)
    assert mark["reason"] == "the process ended while the tool ran, or just before"
    same = ("id", "agent", "tool_call_id", "user", "args", "args_digest", "started_at", "registry_digest")
    assert {key: mark[key] for key in same} == {key: entry[key] for key in same}
    assert (entry["status"], entry["reason"], entry["args"]) == (
        "succeeded",
        None,
        {"token": "[redacted]", "a": 1},
    )
    assert list(spool.iterdir()) == []


ENDS = [
    ("succeeded", None), ("failed", None), ("timed_out", None), ("blocked", "arguments"),
    ("blocked", "unlisted_tools"), ("unknown", None), ("blocked", "approval_gate"),
    ("cancelled", "approval_gate"), ("blocked", "halted"), ("blocked", "registry"),
]  # fmt: skip


async def slow(args: dict[str, Any]) -> None:
    """A tool that is cancelled."""
    await asyncio.sleep(60)


def test_whatever_ends_a_call_there_is_one_entry(spool: Path) -> None:
    async def run() -> list[dict[str, Any]]:
        document = manifest(unlisted_tools="deny")
        async with serve(document) as (portal, runtime):
            async with runtime.session("procurement") as session:
                await session.call_tool("oa__read", {}, execute=Tool())
                await session.call_tool("oa__read", {}, execute=Tool(error=KeyError("x")))
                await session.call_tool("oa__read", {}, execute=Tool(error=TimeoutError()))
                await session.call_tool("oa__read", {"n": float("nan")}, execute=Tool())
                await session.call_tool("nobody", {}, execute=Tool())
                running = asyncio.create_task(session.call_tool("oa__read", {}, execute=slow))
                waiting = asyncio.create_task(session.call_tool("oa__purchase_pay", {}, execute=Tool()))
                (request,) = await portal.pending()
                await portal.settle(request["id"], "rejected")
                await waiting
                leaving = asyncio.create_task(session.call_tool("oa__purchase_pay", {"n": 2}, execute=Tool()))
                await portal.pending()
                running.cancel()
                await asyncio.wait([running])
                session.leave()
                await leaving
            portal.publish(switched(document, halted=True))
            async with runtime.session("procurement") as session:
                await session.source.refresh(force=True)
                await session.call_tool("oa__read", {}, execute=Tool())
            async with runtime.session("elsewhere") as session:
                await session.call_tool("oa__read", {}, execute=Tool())
        return list(portal.calls.values())

    entries = asyncio.run(run())
    ends = [(entry["status"], entry["blocked_by"]) for entry in entries]
    assert sorted(ends, key=str) == sorted(ENDS, key=str)
    assert len({entry["id"] for entry in entries}) == 10
    assert files(spool) == []


def test_a_portal_that_is_down_at_the_end_leaves_the_entries_to_the_next_process(
    spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            await leave_behind(portal, "oa__read", "oa__write")
            assert [word for word, _ in lines(spool)] == ["started", "ended", "started", "ended"]
            assert portal.calls == {}
            # Nothing is sent before the portal has said that the key reaches the agent.
            async with Runtime(portal.url, KEY, pacing=FAST) as runtime:
                await asyncio.sleep(0.2)
                assert portal.calls == {}
                async with runtime.session("procurement"):
                    await eventually(lambda: len(portal.calls) == 2)
            assert names(portal) == ["oa__read", "oa__write"]
            assert {entry["status"] for entry in portal.calls.values()} == {"succeeded"}

    asyncio.run(run())
    assert f"2 call-log entries could not be sent; they stay in {spool} for the next process" in caplog.text
    assert files(spool) == []


def test_a_new_key_sends_what_the_old_one_left_and_never_another_organizations(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            document = manifest()
            portal.publish(document)
            await leave_behind(portal, "oa__read")
            portal.keys = {"hg_new"}
            asked = len(portal.seen("calls"))
            foreign = manifest()
            portal.publish(seal({**foreign, "agent": {**foreign["agent"], "organization": "globex"}}))
            async with (
                Runtime(portal.url, "hg_new", pacing=FAST) as runtime,
                runtime.session("procurement") as session,
            ):
                assert session.manifest is not None
                await asyncio.sleep(0.3)
            assert (len(portal.seen("calls")), len(files(spool))) == (asked, 1)
            portal.publish(document)
            async with (
                Runtime(portal.url, "hg_new", pacing=FAST) as runtime,
                runtime.session("procurement"),
            ):
                await eventually(lambda: names(portal) == ["oa__read"])

    asyncio.run(run())
    assert files(spool) == []


def test_what_a_key_without_a_registry_left_waits_for_that_key(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.keys = {KEY, "hg_other"}
            # Nobody knows the agent yet: its calls are blocked, and its organization is not known.
            await leave_behind(portal, "oa__read")
            portal.publish(manifest())
            async with Runtime(portal.url, "hg_other", pacing=FAST) as other, other.session("procurement"):
                await asyncio.sleep(0.3)
            assert (portal.calls, len(files(spool))) == ({}, 1)
            async with Runtime(portal.url, KEY, pacing=FAST) as same, same.session("procurement"):
                await eventually(lambda: len(portal.calls) == 1)
            (entry,) = portal.calls.values()
            assert (entry["status"], entry["blocked_by"]) == ("blocked", "registry")

    asyncio.run(run())
    assert files(spool) == []


def test_a_live_runtimes_file_is_its_own_until_it_is_gone(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            portal.standing["calls"] = "500"
            async with Runtime(portal.url, KEY, pacing=FAST) as second, second.session("procurement"):
                async with (
                    Runtime(portal.url, KEY, pacing=FAST) as first,
                    first.session("procurement") as session,
                ):
                    await session.call_tool("oa__read", {}, execute=Tool())
                    await asyncio.sleep(0.5)
                    assert second.call_log.waiting("procurement") == 0
                # Without a new session, too: it looks again from time to time.
                await eventually(lambda: second.call_log.waiting("procurement") == 1)
                portal.standing.clear()
                await eventually(lambda: names(portal) == ["oa__read"])
                await eventually(lambda: files(spool) == [])

    asyncio.run(run())


def test_of_many_that_come_at_once_one_takes_up_each_file(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest(unlisted_tools="allow"))
            left = [f"tool-{number}" for number in range(12)]
            for part in (left[:4], left[4:8], left[8:]):
                await leave_behind(portal, *part)
            asked = len(portal.seen("calls"))

            async def work() -> None:
                async with (
                    Runtime(portal.url, KEY, pacing=FAST) as runtime,
                    runtime.session("procurement"),
                    runtime.session("procurement"),
                ):
                    # A runtime that closes before it has read the answer sends again, which is right.
                    await eventually(lambda: len(portal.calls) == 12 and files(spool) == [])

            await asyncio.gather(*(work() for _ in range(4)))
            sent = [entry for body in portal.seen("calls")[asked:] if body for entry in body["calls"]]
            assert sorted(entry["tool_name"] for entry in sent) == sorted(left)

    asyncio.run(run())
    assert files(spool) == []


def test_one_that_is_never_idle_takes_up_what_others_leave(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest(unlisted_tools="allow"))
            async with (
                Runtime(portal.url, KEY, pacing=FAST) as busy,
                busy.session("procurement") as session,
            ):
                await session.call_tool("oa__read", {}, execute=Tool())
                await leave_behind(portal, "left")

                async def work() -> None:
                    while "left" not in names(portal):
                        await session.call_tool("oa__read", {}, execute=Tool())
                        await asyncio.sleep(0)

                await asyncio.wait_for(work(), 20)

    asyncio.run(run())
    assert files(spool) == []


def test_torn_and_foreign_lines_cost_only_themselves(spool: Path) -> None:
    async def run() -> int:
        async with FakePortal() as portal:
            portal.publish(manifest())
            await leave_behind(portal, "oa__read", "oa__write")
            (file,) = files(spool)
            whole = file.read_bytes().splitlines(keepends=True)
            # The end of the second call was being written when the process died; before it lies rubbish.
            file.write_bytes(b"".join([*whole[:-1], b"\xff\x00rubbish\n", whole[-1][:40]]))
            folder = file.parent
            (folder / "notes.txt").write_text("mine")
            stranger = folder / f"{'0' * 32}.jsonl"
            stranger.write_text("not of this kind\n")
            outside = spool.parent / "outside.jsonl"
            outside.write_bytes(file.read_bytes())
            (folder / f"{'1' * 32}.jsonl").symlink_to(outside)
            (folder / f"{'2' * 32}.jsonl").touch()
            async with (
                Runtime(portal.url, KEY, pacing=FAST) as runtime,
                runtime.session("procurement"),
            ):
                await eventually(lambda: len(portal.calls) == 2)
                counted = runtime.call_log.spool.unreadable
            ends = {entry["tool_name"]: entry["status"] for entry in portal.calls.values()}
            assert ends == {"oa__read": "succeeded", "oa__write": "unknown"}
            left = sorted(path.name for path in folder.iterdir())
            assert left == [f"{'0' * 32}.jsonl", f"{'1' * 32}.jsonl", "notes.txt"]
            assert (stranger.read_text(), outside.exists()) == ("not of this kind\n", True)
            return counted

    assert asyncio.run(run()) == 2


def test_what_the_portal_refuses_is_dropped_and_what_it_does_not_take_now_is_kept(spool: Path) -> None:
    async def run() -> None:
        async with serve(manifest(unlisted_tools="allow")) as (portal, runtime):
            async with runtime.session("procurement") as session:
                portal.fail("calls", "429", "503", "413", "413", "reset", "late-reset", "401", "garbage")
                for name in ("oa__read", "unloggable", "oa__write", "oa__read"):
                    await session.call_tool(name, {}, execute=Tool())
                await eventually(lambda: len(portal.calls) == 3)
                await eventually(lambda: lines(spool) == [])
            assert runtime.call_log.dropped == 1

    asyncio.run(run())


def test_the_bound_holds_over_restarts(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest(hooks=attached(audit={"max_queued": 100})))
            await leave_behind(portal, *["oa__read"] * 60)
            portal.standing["calls"] = "500"
            async with (
                Runtime(portal.url, KEY, pacing=FAST) as runtime,
                runtime.session("procurement") as session,
            ):
                await eventually(lambda: runtime.call_log.waiting("procurement") == 60)
                tool = Tool()
                ends = [await session.call_tool("oa__read", {}, execute=tool) for _ in range(41)]
                assert [end.blocked for end in ends] == [False] * 40 + [True]
                assert (ends[-1].blocked_by, len(tool.runs)) == ("audit_log", 40)
                assert ends[-1].reason == (
                    "the portal has not taken call-log entries for too long: 100 are waiting"
                )
                portal.standing.clear()
                await eventually(lambda: len(portal.calls) == 101)

    asyncio.run(run())


def test_files_and_folders_are_the_users_alone(spool: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest())
            await leave_behind(portal, "oa__read")

    before = os.umask(0)
    try:
        asyncio.run(run())
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in spool.rglob("*") if path.is_dir()}
    assert (modes, stat.S_IMODE(spool.stat().st_mode)) == ({0o700}, 0o700)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(spool)} == {0o600}


def test_the_sync_runtime_keeps_its_entries_too(spool: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    elsewhere = tmp_path / "elsewhere"

    async def serve_portal() -> FakePortal:
        portal = await FakePortal().__aenter__()
        portal.publish(manifest())
        return portal

    async def run() -> None:
        portal = await serve_portal()

        def work() -> None:
            with (
                SyncRuntime(portal.url, KEY, pacing=FAST, spool=elsewhere) as runtime,
                runtime.session("procurement") as session,
            ):
                session.call_tool(
                    "oa__read", {}, execute=lambda args: seen.extend(word for word, _ in lines(elsewhere))
                )

        await asyncio.to_thread(work)
        assert names(portal) == ["oa__read"]
        await portal.stop()

    asyncio.run(run())
    assert (seen, files(elsewhere), files(spool)) == (["started"], [], [])


def test_an_evaluation_writes_nothing(spool: Path) -> None:
    async def run() -> None:
        async with serve(evaluation()) as (portal, runtime):
            async with runtime.session("procurement", surface="eval") as session:
                await session.call_tool("oa__read", {}, execute=Tool())
            assert portal.seen("calls") == []

    asyncio.run(run())
    assert not spool.exists()
