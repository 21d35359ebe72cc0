"""Entries that no runtime will ever send don't stay for ever, and nobody else may read those that wait."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest
from hookgate import Runtime
from hookgate.journal import spool
from hookgate.journal.segment import Segment
from hookgate.journal.spoolfolder import Owner, SpoolFailed, place, prepare

from tests.runtime.documents import READ, manifest
from tests.runtime.fake_portal import KEY, FakePortal
from tests.runtime.harness import FAST, Tool, eventually

DAY = 86_400


def leave(root: Path, portal: str, owner: Owner, *, days: float) -> tuple[Segment, Path]:
    """A file with an entry that was written so many days ago."""
    folder = place(root, portal, owner)
    prepare(root, folder, named=True)
    segment = Segment.create(folder, portal, owner)
    segment.append(b"ended   ", b'{"id": "x"}')
    moment = time.time() - days * DAY
    os.utime(segment.path, (moment, moment))
    return segment, segment.path


def test_what_a_mistyped_key_left_goes_after_a_month(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakePortal() as portal:
            portal.publish(manifest(tools=[READ]))
            mistyped = Owner.of_key("hg_mistpyed", "procurement")
            old, gone = leave(tmp_path, portal.url, mistyped, days=spool.KEPT_DAYS + 1)
            young, kept = leave(tmp_path, portal.url, mistyped, days=spool.KEPT_DAYS - 1)
            held, alive = leave(tmp_path, portal.url, Owner("acme", "other"), days=400)
            old.close()
            young.close()
            async with (
                Runtime(portal.url, KEY, pacing=FAST, spool=tmp_path) as runtime,
                runtime.session("procurement") as session,
            ):
                await session.call_tool("oa__read", {}, execute=Tool())
                await eventually(lambda: not gone.exists())
            assert (kept.exists(), alive.exists()) == (True, True)
            held.close()

    asyncio.run(run())


def test_what_waits_can_be_read_by_its_user_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        segment, path = leave(tmp_path / "spool", "http://x", Owner("acme", "a"), days=0)
    finally:
        os.umask(mask)
    segment.close()
    for part in (path, *list(path.parents)[:4]):
        assert stat.S_IMODE(part.stat().st_mode) & 0o077 == 0, part


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o704])
def test_a_folder_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    folder = place(tmp_path, "http://x", Owner("acme", "a"))
    prepare(tmp_path, folder, named=True)
    folder.chmod(mode)
    with pytest.raises(SpoolFailed, match=f"chmod 700 {folder}"):
        prepare(tmp_path, folder, named=True)
