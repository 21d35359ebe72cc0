"""Section 4: `wait`, and the event stream."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.contract.conftest import World
from tests.contract.outside import Api, refusal, until


def test_waiting_ends_with_the_decision(world: World) -> None:
    acme = world["acme"]
    created = acme.asked("quiet", "oa__pay")
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(lambda: acme.get(f"/confirmations/{created['id']}", wait="30"))
        time.sleep(0.5)
        assert not waiting.done()
        assert world["bob"].respond(created, "approve").status_code == 200
        answer = waiting.result(15)
    assert answer.json()["status"] == "approved"
    assert time.monotonic() - started < 15


def test_waiting_ends_after_its_time(acme: Api) -> None:
    created = acme.asked("quiet", "oa__pay")
    started = time.monotonic()
    answer = acme.get(f"/confirmations/{created['id']}", wait="1")
    assert (answer.status_code, answer.json()["status"]) == (200, "pending")
    assert 0.9 <= time.monotonic() - started < 8


def test_waiting_ends_at_the_expiry(acme: Api) -> None:
    created = acme.asked("quiet", "oa__pay", timeout_seconds=1)
    started = time.monotonic()
    assert acme.get(f"/confirmations/{created['id']}", wait="60").json()["status"] == "expired"
    assert time.monotonic() - started < 10


def test_waiting_does_not_wait_for_what_has_ended(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    world["bob"].respond(created, "reject")
    started = time.monotonic()
    assert world["acme"].get(f"/confirmations/{created['id']}", wait="60").json()["status"] == "rejected"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("wait", ["61", "-1", "x", "1.5", ""])
def test_waiting_is_bounded(acme: Api, wait: str) -> None:
    created = acme.asked("quiet", "oa__pay")
    assert refusal(acme.get(f"/confirmations/{created['id']}", wait=wait)) == (400, "invalid")


def test_waiting_keeps_to_the_reach(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    path = f"/confirmations/{created['id']}"
    assert world["solo"].get(path, wait="5").status_code == 404
    assert world["procurement"].get(path, wait="5").status_code == 404
    assert Api(world.portal.url).get(path, wait="5").status_code == 401
    assert world["notify only"].get(path, wait="5").status_code == 403
    assert world["bob"].get(path, wait="0").status_code == 200


class Stream:
    """An open event stream; a thread keeps what comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.events: list[tuple[str, Any]] = []
        self.comments = 0
        self._response = response
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        name, data = "", ""
        try:
            for line in self._response.iter_lines():
                if line.startswith(":"):
                    self.comments += 1
                elif line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                elif not line and name:
                    self.events.append((name, json.loads(data)))
                    name, data = "", ""
        except (httpx.HTTPError, httpx.StreamClosed):
            pass  # the test has left

    def seen(self, name: str, **fields: Any) -> bool:
        """Whether such an event has come."""
        return any(kind == name and fields.items() <= data.items() for kind, data in self.events)


@contextmanager
def stream(world: World, key: str, agent: str) -> Iterator[Stream]:
    """The agent's events."""
    headers = {"Authorization": f"Bearer {world.issued[key]}", "Hookgate-Runtime": "listener"}
    url = f"{world.portal.url}/api/v1/agents/{agent}/events"
    with (
        httpx.Client(trust_env=False, timeout=httpx.Timeout(30)) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response)


def test_a_stream_begins_with_registry_and_state(world: World) -> None:
    manifest = world["acme"].get("/agents/quiet/registry").json()
    with stream(world, "acme", "quiet") as events:
        until(lambda: len(events.events) >= 2, what="the first events")
        first = dict(events.events[:2])
        assert first["registry"] == {"revision": manifest["revision"], "digest": manifest["digest"]}
        assert first["state"] == {"read_only": False, "halted": False, "reason": None, "until": None}


def test_a_stream_tells_of_the_keys_requests(world: World) -> None:
    with stream(world, "procurement", "procurement") as events:
        until(lambda: len(events.events) >= 2, what="the first events")
        created = world["procurement"].asked("procurement", "oa__pay")
        other = world["acme"].asked("quiet", "oa__pay")
        assert world["bob"].respond(created, "approve").status_code == 200
        world["bob"].respond(other, "approve")
        until(lambda: events.seen("confirmation", id=created["id"], status="approved"), what="the event")
        assert set(next(d for n, d in events.events if n == "confirmation")) == {"id", "status"}
        assert not events.seen("confirmation", id=other["id"])


def test_a_stream_tells_of_switches_and_new_revisions_and_stays_alive(world: World) -> None:
    with stream(world, "switches", "switched") as events:
        until(lambda: len(events.events) >= 2, what="the first events")
        revision = dict(events.events[:2])["registry"]["revision"]
        halted = world.command("halt", "switches/switched", "--reason", "stop")
        assert halted.returncode == 0, halted.stderr
        until(lambda: events.seen("state", halted=True, reason="stop"), what="the halt")
        assert world.command("resume", "switches/switched").returncode == 0
        until(
            lambda: (
                events.events[-1]
                == ("state", {"read_only": False, "halted": False, "reason": None, "until": None})
            )
        )
        changed = "\n".join(
            (
                "apiVersion: hookgate/v1",
                "organizations:",
                "  - slug: switches",
                "    name: Switches",
                "    freshness: {revalidate_after_seconds: 1, max_stale_seconds: 16}",
            )
        )
        done = world.apply(changed)
        assert done.returncode == 0, done.stderr
        until(lambda: events.seen("registry", revision=revision + 1), what="the new revision")
        until(lambda: events.comments, seconds=16, what="a comment line")
    back = world.apply(changed.replace("16}", "15}"))
    assert back.returncode == 0, back.stderr


def test_a_stream_keeps_to_the_reach(world: World) -> None:
    for key, status in (("solo", 404), ("notify only", 403)):
        assert world[key].http.get("/agents/quiet/events").status_code == status
