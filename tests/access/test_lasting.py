"""The requests that last are answered before Django is asked: to the same callers, with the same statuses."""

from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings

from portal.wakeups import wakeups
from tests.access import asking, callers
from tests.access.callers import CALLERS, World
from tests.access.test_table import LINES
from tests.machinery.live import DEADLINE, Portal

LASTING = {
    "api/v1/agents/<str:agent>/events": "",
    "api/v1/confirmations/<str:id>": "?wait=1",
    "inbox/events": "",
}


@pytest.fixture
def world(transactional_db: None) -> World:
    return callers.build()


@pytest.fixture
def portal(world: World) -> Iterator[Portal]:
    wakeups.stop()
    running = Portal()
    running.start()
    yield running
    running.stop()


def test_who_may_read_may_wait_and_listen_and_nobody_else(portal: Portal, world: World) -> None:
    found, wanted = {}, {}
    with httpx.Client(base_url=portal.url, timeout=DEADLINE, trust_env=False) as client:
        for line in LINES:
            if line.method != "GET" or line.route not in LASTING:
                continue
            address = asking.address(world, "GET", line.route) + LASTING[line.route]
            for caller, code in zip(line.columns, line.codes, strict=True):
                cookie = world.cookies.get(caller)
                headers = dict(world.headers.get(caller, {}))
                if cookie:
                    headers["Cookie"] = f"{settings.SESSION_COOKIE_NAME}={cookie}"
                with client.stream("GET", address, headers=headers) as answer:
                    found[line.route, CALLERS[caller]] = answer.status_code
                # A stream is for programs: who isn't signed in is told so instead of being sent to the sign-in page.
                wanted[line.route, CALLERS[caller]] = {".": 200, ">": 401, "1": 401, "3": 403, "4": 404}[code]
    assert found == wanted
    assert len({route for route, _caller in found}) == len(LASTING)
