"""How many SQL statements each call of the API takes: exactly, so that one more is a decision and not an accident.

A call that takes another number fails here and prints its statements. Fewer is welcome and more wants a reason; either
way put the new number into ``STATEMENTS``. BEGIN, COMMIT and savepoints don't count.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hooks_app.models import Agent
from hooks_app.registry import heads
from tests import make
from tests.api.client import Answer
from tests.api.conftest import confirmation
from tests.api.test_calls import entry, send
from tests.api.test_limits import body, limit_of
from tests.conftest import Clock

REGISTRY = "/agents/procurement/registry"
APPROVE = {"decision": "approve"}
CONTROL = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")

Prepared = Callable[[Any], Callable[[], Any]]
STATEMENTS: dict[str, tuple[int, Prepared]] = {}


def takes(number: int) -> Callable[[Prepared], Prepared]:
    """The call that this function prepares takes ``number`` statements."""

    def keep(prepare: Prepared) -> Prepared:
        STATEMENTS[prepare.__name__] = (number, prepare)
        return prepare

    return keep


def warm(world: Any, *, mode: str = "inline_only") -> None:
    """The agent asks this way, and has asked before: what can't change at one version of its inputs has been read."""
    Agent.objects.filter(pk=world.procurement.pk).update(confirmation_mode=mode)
    world.procurement.refresh_from_db()
    make.publish(world.procurement)
    ask(world, "before")


def chat(world: Any) -> None:
    """As :func:`warm`, and a card goes to one chat."""
    make.approval_channel(world.procurement, make.channel(world.acme))
    heads.inputs_changed(world.acme)
    warm(world, mode="auto")


def ask(world: Any, call: str) -> Answer:
    answer: Answer = world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id=call))
    return answer


def asked(world: Any) -> str:
    return f"/confirmations/{ask(world, uuid4().hex).body['id']}"


def approved(world: Any) -> tuple[str, dict[str, Any]]:
    path = asked(world)
    assert world.person("bob").post(f"{path}/respond", APPROVE).status == 200
    digest = world.runtime.get(path).body["args_digest"]
    return path, {"args_digest": digest, "attempt": str(uuid4())}


def consumed(world: Any) -> str:
    path, using = approved(world)
    assert world.runtime.post(f"{path}/consume", using).status == 200
    return path


@takes(4)
def registry_whole(world: Any) -> Any:
    return lambda: world.runtime.get(REGISTRY)


@takes(3)
def registry_unchanged(world: Any) -> Any:
    # By the view. What polls get is answered before it, in one statement: see tests/registry/test_polls.py.
    tag = world.runtime.get(REGISTRY).headers["ETag"]
    return lambda: world.runtime.get(REGISTRY, headers={"If-None-Match": tag})


@takes(3)
def revisions(world: Any) -> Any:
    return lambda: world.runtime.get(f"{REGISTRY}/revisions")


@takes(6)  # what they were, as a filter may match one of them now: then the registry is judged again
def tools_reported(world: Any) -> Any:
    return lambda: world.runtime.put("/agents/procurement/tools", {"tools": [{"name": "a"}, {"name": "b"}]})


@takes(10)
def confirmation_created(world: Any) -> Any:
    warm(world)
    wanted = confirmation(world.procurement, tool_call_id="new")
    return lambda: world.runtime.post("/confirmations", wanted)


@takes(11)  # one delivery
def confirmation_created_with_a_card(world: Any) -> Any:
    chat(world)
    wanted = confirmation(world.procurement, tool_call_id="new")
    return lambda: world.runtime.post("/confirmations", wanted)


@takes(7)  # it looks for the call once, behind the lock, where a new one has to look
def confirmation_found_again(world: Any) -> Any:
    warm(world)
    wanted = confirmation(world.procurement, tool_call_id="again")
    world.runtime.post("/confirmations", wanted)
    return lambda: world.runtime.post("/confirmations", wanted)


@takes(3)
def confirmation_read(world: Any) -> Any:
    warm(world)
    path, _ = approved(world)
    return lambda: world.runtime.get(path)


@takes(4)
def confirmations_listed_one(world: Any) -> Any:
    approved(world)
    return lambda: world.runtime.get("/confirmations")


@takes(4)
def confirmations_listed_five(world: Any) -> Any:
    for _ in range(5):
        approved(world)
    return lambda: world.runtime.get("/confirmations")


@takes(8)
def responded(world: Any) -> Any:
    warm(world)
    path, bob = asked(world), world.person("bob")
    bob.get("/confirmations")
    return lambda: bob.post(f"{path}/respond", APPROVE)


@takes(9)
def responded_in_a_session(world: Any) -> Any:
    warm(world)
    path, client = asked(world), Client()
    client.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")

    def respond() -> SimpleNamespace:
        answer = client.post(f"/api/v1{path}/respond", APPROVE, content_type="application/json")
        return SimpleNamespace(status=answer.status_code)

    return respond


@takes(5)
def consumed_once(world: Any) -> Any:
    warm(world)
    path, using = approved(world)
    return lambda: world.runtime.post(f"{path}/consume", using)


@takes(3)
def consumed_again(world: Any) -> Any:
    warm(world)
    path, using = approved(world)
    world.runtime.post(f"{path}/consume", using)
    return lambda: world.runtime.post(f"{path}/consume", using)


@takes(5)
def outcome_reported(world: Any) -> Any:
    warm(world)
    path = consumed(world)
    return lambda: world.runtime.post(f"{path}/outcome", {"status": "succeeded"})


@takes(6)
def cancelled(world: Any) -> Any:
    warm(world)
    path = asked(world)
    return lambda: world.runtime.post(f"{path}/cancel")


@takes(5)
def calls_sent_one(world: Any) -> Any:
    return lambda: send(world.runtime, entry())


@takes(5)
def calls_sent_twenty(world: Any) -> Any:
    # Fewer rows than fill one statement of SQLite.
    entries = [entry() for _ in range(20)]
    return lambda: send(world.runtime, *entries)


@takes(3)
def calls_read(world: Any) -> Any:
    carol = world.person("carol")
    send(world.runtime, *(entry() for _ in range(20)))
    carol.get("/calls")
    return lambda: carol.get("/calls")


@takes(8)
def limit_acquired(world: Any) -> Any:
    make.class_hook(world.procurement, "connector_rate_limit", params={"max_calls": 3, "window_seconds": 60})
    make.publish(world.procurement)
    sent = body(limit_of(world.procurement))
    return lambda: world.runtime.post("/limits/acquire", sent)


def counted(queries: Iterable[dict[str, str]]) -> list[str]:
    return [query["sql"] for query in queries if not query["sql"].startswith(CONTROL)]


@pytest.mark.parametrize("named", STATEMENTS)
def test_each_call_takes_so_many_statements(world: Any, time: Clock, named: str) -> None:
    number, prepare = STATEMENTS[named]
    # The first call of a minute notes the use of the key.
    world.runtime.get(REGISTRY)
    call = prepare(world)
    with CaptureQueriesContext(connection) as queries:
        answer = call()
    assert answer.status in {200, 201, 202, 204, 304}, answer
    made = counted(queries)
    assert len(made) == number, "\n".join([f"{named}: {len(made)} statements, not {number}", *made])
