"""SyncRuntime beside gevent and eventlet: what can't work says so, and what to use."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.documents import READ, manifest
from tests.runtime.fake_portal import KEY, FakePortal

PROGRAM = """
import sys
{patch}
from hookgate import SyncRuntime
try:
    with SyncRuntime(sys.argv[1], sys.argv[2]) as runtime, runtime.session("procurement") as session:
        print(session.call_tool("oa__read", {{}}, execute=lambda args: "ran").result)
except RuntimeError as error:
    print("refused:", error)
"""
EVENTLET = """
import types
for name in ("eventlet", "eventlet.patcher"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["eventlet.patcher"].is_monkey_patched = lambda name: name == {what!r}
"""


def play(patch: str, folder: Path) -> str:
    """What a program prints that begins with ``patch``."""

    async def run() -> str:
        async with FakePortal() as portal:
            portal.publish(manifest(tools=[READ]))
            code = PROGRAM.format(patch=patch)
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", code, portal.url, KEY],
                env={**os.environ, "HOOKGATE_SPOOL_DIR": str(folder)},
                capture_output=True,
                text=True,
                timeout=30,
            )
            return done.stdout.strip() or done.stderr

    return asyncio.run(run())


@pytest.mark.parametrize(
    "patch", ["patch_all()", "patch_all(thread=False)", "patch_queue()", "patch_socket()", "patch_thread()"]
)
def test_under_gevents_patches_it_says_what_to_use(patch: str, tmp_path: Path) -> None:
    said = play(f"from gevent import monkey; monkey.{patch}", tmp_path)
    assert said.startswith("refused: ")
    assert "gevent has replaced" in said
    assert "gthread" in said
    assert "event loop" not in said


@pytest.mark.parametrize("patch", ["import gevent.monkey", "from gevent import monkey; monkey.patch_time()"])
def test_beside_gevent_without_its_patches_it_works(patch: str, tmp_path: Path) -> None:
    assert play(patch, tmp_path) == "ran"


@pytest.mark.parametrize(("what", "words"), [("thread", "eventlet has replaced"), ("psycopg", "ran")])
def test_eventlet_is_told_by_what_it_says_of_itself(what: str, words: str, tmp_path: Path) -> None:
    """By its documented question alone: the package itself stands in no list of ours."""
    assert words in play(EVENTLET.format(what=what), tmp_path)
