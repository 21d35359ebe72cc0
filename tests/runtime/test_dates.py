"""`{date}` of session_context is the organization's, and a manifest names a zone only where it isn't UTC."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
import time_machine

from tests.runtime.documents import hook, manifest
from tests.runtime.harness import serve

CONTEXT = hook("session_context", params={"text": "Today is {date}."})


@pytest.mark.parametrize(
    ("zone", "moment", "date"),
    [
        (None, "2026-12-01T23:59:59", "2026-12-01"),
        ("Asia/Seoul", "2026-12-01T14:59:59", "2026-12-01"),
        ("Asia/Seoul", "2026-12-01T15:00:00", "2026-12-02"),
        ("America/Los_Angeles", "2026-12-01T07:59:59", "2026-11-30"),
        ("Pacific/Kiritimati", "2026-12-31T10:00:00", "2027-01-01"),
        ("Mars/Olympus", "2026-12-01T23:59:59", "2026-12-01"),
        ("../../etc/passwd", "2026-12-01T23:59:59", "2026-12-01"),
    ],
)
def test_the_date_is_the_organizations(zone: str | None, moment: str, date: str) -> None:
    async def run() -> str:
        named = {} if zone is None else {"time_zone": zone}
        async with (
            serve(manifest(CONTEXT, **named)) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            return session.context

    with time_machine.travel(datetime.fromisoformat(moment).replace(tzinfo=UTC), tick=True):
        assert asyncio.run(run()) == f"Today is {date}."
