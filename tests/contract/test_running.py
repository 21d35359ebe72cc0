"""Section 4, consume, outcome and cancel: what was approved runs, once."""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.conftest import World
from tests.contract.outside import Api, digest, refusal, until


def approved(world: World, tool: str = "oa__pay", args: Any = None) -> dict[str, Any]:
    """A request that Bob has approved."""
    created = world["acme"].asked("quiet", tool, args)
    answer = world["bob"].respond(created, "approve")
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def outcome(api: Api, request: dict[str, Any], status: str, **more: Any) -> Any:
    """Report an outcome; the answer."""
    return api.post(f"/confirmations/{request['id']}/outcome", {"status": status, **more})


def test_one_attempt_consumes(world: World) -> None:
    acme, request, attempt = world["acme"], approved(world), str(uuid.uuid4())
    first = acme.consume(request, attempt)
    assert first.status_code == 200
    assert acme.read(request)["consumed_at"] is not None
    assert acme.read(request)["status"] == "approved"
    assert acme.consume(request, attempt).status_code == 200
    assert refusal(acme.consume(request)) == (409, "already_consumed")
    # Not another digest under cover of the same attempt.
    assert acme.consume(request, attempt, digest({"amount": 1})).status_code == 409
    assert outcome(acme, request, "succeeded").status_code == 200
    assert refusal(acme.consume(request, attempt)) == (409, "already_consumed")


def test_many_attempts_at_once_and_one_consumes(world: World) -> None:
    acme, request = world["acme"], approved(world)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: acme.consume(request), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert {refusal(answer) for answer in answers if answer.status_code == 409} == {(409, "already_consumed")}


def test_consuming_says_why_not(world: World) -> None:
    acme = world["acme"]
    pending = acme.asked("quiet", "oa__pay")
    assert refusal(acme.consume(pending)) == (409, "not_approved")
    rejected = acme.asked("quiet", "oa__pay")
    world["bob"].respond(rejected, "reject")
    assert refusal(acme.consume(rejected)) == (409, "not_approved")
    request = approved(world)
    assert refusal(acme.consume(request, args_digest=digest({"amount": 60001}))) == (409, "args_mismatch")
    assert acme.read(request)["consumed_at"] is None
    assert acme.consume(request).status_code == 200


def test_consuming_takes_a_digest_and_a_uuid(world: World) -> None:
    acme, request = world["acme"], approved(world)
    for attempt, args_digest in (("one", request["args_digest"]), (str(uuid.uuid4()), "sha256:1")):
        assert acme.consume(request, attempt, args_digest).status_code == 400
    assert acme.post(f"/confirmations/{request['id']}/consume", {}).status_code == 400
    assert acme.read(request)["consumed_at"] is None


def test_an_approval_lapses(world: World) -> None:
    request = approved(world, "oa__lapsing")
    time.sleep(1.1)
    assert refusal(world["acme"].consume(request)) == (409, "approval_lapsed")
    read = world["acme"].read(request)
    assert (read["status"], read["consumed_at"]) == ("approved", None)


def test_outcomes(world: World) -> None:
    acme, request = world["acme"], approved(world)
    assert refusal(outcome(acme, request, "succeeded")) == (409, "not_consumed")
    assert acme.consume(request).status_code == 200
    assert outcome(acme, request, "finished").status_code == 400
    assert outcome(acme, request, "unknown", detail="the process died").status_code == 200
    assert acme.read(request)["outcome"] == "unknown"
    assert outcome(acme, request, "unknown").status_code == 200
    assert outcome(acme, request, "failed", detail="no money").status_code == 200
    assert outcome(acme, request, "failed").status_code == 200
    for other in ("succeeded", "unknown"):
        assert refusal(outcome(acme, request, other)) == (409, "outcome_conflict")
    assert acme.read(request)["outcome"] == "failed"


def test_cancelling(world: World) -> None:
    acme = world["acme"]
    request = acme.asked("quiet", "oa__pay")
    answer = acme.post(f"/confirmations/{request['id']}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    decided = approved(world)
    assert refusal(acme.post(f"/confirmations/{decided['id']}/cancel")) == (409, "already_decided")
    assert acme.read(decided)["status"] == "approved"


SWITCHES = """
apiVersion: hookgate/v1
organizations:
  - slug: switches
    name: Switches
    read_only: {read_only}
    halted: {halted}
    freshness: {{revalidate_after_seconds: 1, max_stale_seconds: 15}}
    agents:
      - {{slug: switched, name: Switched, owner: alice, enabled: {enabled}, max_pending: 1000, unlisted_tools: allow,
          tools: [{{name: calculator, writes: false}}]}}
"""


class Switches:
    """Turns the switches of one organization."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turned = False
        self.api = world["switches"]

    def set(self, **values: bool) -> None:
        named = {"read_only": False, "halted": False, "enabled": True, **values}
        text = SWITCHES.format(**{name: str(value).lower() for name, value in named.items()})
        done = self.world.apply(text)
        assert done.returncode == 0, done.stderr
        self.turned = bool(values)

    def approved(self, tool: str) -> dict[str, Any]:
        created = self.api.asked("switched", tool)
        answer = self.world["bob"].respond(created, "approve")
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.api.get("/agents/switched/registry").json()["state"]
        return state


@pytest.fixture
def switches(world: World) -> Iterator[Switches]:
    """Everything on, before and after."""
    found = Switches(world)
    yield found
    if found.turned:
        found.set()


def test_read_only_is_judged_when_the_call_is_about_to_run(switches: Switches) -> None:
    api, writes, reads = switches.api, switches.approved("oa__pay"), switches.approved("oa__read")
    digest_before = api.served("switched")
    switches.set(read_only=True)
    assert refusal(api.consume(writes)) == (409, "read_only")
    assert api.consume(reads).status_code == 200
    assert refusal(api.ask("switched", "oa__pay")) == (409, "read_only")
    assert api.ask("switched", "oa__read").status_code == 201
    assert switches.state()["read_only"] is True
    manifest = api.get("/agents/switched/registry").json()
    assert manifest["digest"] == digest_before
    switches.set()
    assert api.consume(writes).status_code == 200


def test_an_agent_that_is_switched_off_runs_nothing(switches: Switches) -> None:
    api, request = switches.api, switches.approved("oa__read")
    known = api.served("switched")
    switches.set(enabled=False)
    assert refusal(api.consume(request)) == (409, "agent_disabled")
    assert refusal(api.ask("switched", "oa__read", registry_digest=known)) == (409, "agent_disabled")
    assert refusal(api.get("/agents/switched/registry")) == (422, "registry_unbuildable")


@pytest.mark.parametrize("target", ["switches", "switches/switched"])
def test_the_kill_switch_holds_at_once_and_is_lifted(switches: Switches, target: str) -> None:
    api, request = switches.api, switches.approved("oa__read")
    etag = api.get("/agents/switched/registry").headers["etag"]
    halted = switches.world.command("halt", target, "--reason", "money is leaking")
    assert halted.returncode == 0, halted.stderr
    assert refusal(api.consume(request)) == (409, "halted")
    assert refusal(api.ask("switched", "oa__read")) == (409, "halted")
    changed = api.get("/agents/switched/registry", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    state = changed.json()["state"]
    assert (state["halted"], state["reason"], state["until"]) == (True, "money is leaking", None)
    resumed = switches.world.command("resume", target)
    assert resumed.returncode == 0, resumed.stderr
    assert switches.state() == {"read_only": False, "halted": False, "reason": None, "until": None}
    assert api.consume(request).status_code == 200


def test_a_halt_ends_by_itself(switches: Switches) -> None:
    refused = switches.world.command("halt", "switches", "--reason", "lunch", "--until", "yesterday")
    assert refused.returncode != 0
    assert "until" in refused.stderr.lower()
    end = (datetime.now(UTC) + timedelta(seconds=4)).replace(microsecond=0)
    done = switches.world.command(
        "halt", "switches", "--reason", "lunch", "--until", f"{end:%Y-%m-%dT%H:%M:%SZ}"
    )
    assert done.returncode == 0, done.stderr
    answer = switches.api.get("/agents/switched/registry")
    state = answer.json()["state"]
    assert (state["halted"], state["reason"], datetime.fromisoformat(state["until"])) == (True, "lunch", end)
    until(lambda: not switches.state()["halted"], what="the end of the halt")
    headers = {"If-None-Match": answer.headers["etag"]}
    assert switches.api.get("/agents/switched/registry", headers=headers).status_code == 200
