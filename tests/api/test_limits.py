"""`POST /limits/acquire`."""

import threading
import time
import uuid

import pytest
import time_machine
from django.db import connection

from hooks_app import limits
from hooks_app.models import LimitAcquisition
from hooks_app.registry import heads
from portal.lib import clock
from tests import make
from tests.api.client import Api


@pytest.fixture
def hook(world):
    """The id of procurement's limit: 3 calls in 60 seconds."""
    make.class_hook(world.procurement, "connector_rate_limit", params={"max_calls": 3, "window_seconds": 60})
    make.publish(world.procurement)
    return limit_of(world.procurement)


def hook_of(agent, name):
    revision = heads.head(agent).revision
    assert revision is not None
    return next(hook["id"] for hook in revision.manifest["hooks"] if hook["name"] == name)


def limit_of(agent):
    return hook_of(agent, "connector_rate_limit")


def body(declared, **changes):
    call = str(uuid.uuid4())
    return {
        "agent": "procurement",
        "hook": declared,
        "connector": "oa",
        "user": "u42",
        "call": call,
        **changes,
    }


def acquire(api, hook, **changes):
    answer = api.post("/limits/acquire", body(hook, **changes))
    assert answer.status == 200, answer.body
    return answer.body


def test_the_declared_limit_holds_and_says_when_to_come_back(world, hook):
    with time_machine.travel("2026-11-02T09:30:00Z", tick=False) as traveller:
        for remaining in (2, 1, 0):
            assert acquire(world.runtime, hook) == {
                "allowed": True, "limit": 3, "remaining": remaining, "retry_after_seconds": 0,
            }  # fmt: skip
            traveller.shift(10)
        refused = acquire(world.runtime, hook)
        assert (refused["allowed"], refused["limit"], refused["remaining"]) == (False, 3, 0)
        assert refused["retry_after_seconds"] == pytest.approx(30, abs=1)
        traveller.shift(
            refused["retry_after_seconds"] + 0.1
        )  # the oldest call has left the window, the others not
        assert acquire(world.runtime, hook)["allowed"] is True
        assert acquire(world.runtime, hook)["allowed"] is False


def test_a_repeated_call_gets_the_same_answer_and_counts_once(world, hook):
    call = str(uuid.uuid4())
    first = acquire(world.runtime, hook, call=call)
    for _ in range(5):
        assert acquire(world.runtime, hook, call=call) == first
    assert acquire(world.runtime, hook)["remaining"] == 1
    acquire(world.runtime, hook)
    refused = acquire(world.runtime, hook, call=(late := str(uuid.uuid4())))
    assert refused["allowed"] is False
    assert acquire(world.runtime, hook, call=late)["allowed"] is False


def test_users_connectors_agents_and_organizations_do_not_share(world, hook):
    for _ in range(3):
        acquire(world.runtime, hook)
    assert acquire(world.runtime, hook)["allowed"] is False
    assert acquire(world.runtime, hook, user="u43")["remaining"] == 2
    assert acquire(world.runtime, hook, user=None)["remaining"] == 2
    assert acquire(world.runtime, hook, connector="crm")["remaining"] == 2
    assert acquire(world.runtime, hook, connector="oa/u42", user="")["remaining"] == 2
    make.class_hook(world.theirs, "connector_rate_limit", params={"max_calls": 3, "window_seconds": 60})
    make.publish(world.theirs)
    assert acquire(world.runtime_of_beta, limit_of(world.theirs))["remaining"] == 2
    make.class_hook(world.reports, "connector_rate_limit", params={"max_calls": 3, "window_seconds": 60})
    make.publish(world.reports)
    assert acquire(world.runtime_of_acme, limit_of(world.reports), agent="reports")["remaining"] == 2


def test_a_published_change_of_the_limit_holds_at_once(world, hook):
    assert acquire(world.runtime, hook)["limit"] == 3
    world.procurement.declarations.update(params={"max_calls": 1, "window_seconds": 60})
    assert acquire(world.runtime, hook)["limit"] == 3  # a draft changes nothing
    make.publish(world.procurement)
    assert acquire(world.runtime, hook)["limit"] == 1


def test_a_hook_that_is_no_limit_of_this_agent_is_named(world, hook):
    gate = hook_of(world.procurement, "approval_gate")
    for other in (str(uuid.uuid4()), gate):
        refused = world.runtime.post("/limits/acquire", body(other))
        assert (refused.status, refused.code, refused.paths) == (400, "invalid", ["hook"])
    refused = world.runtime_of_acme.post("/limits/acquire", body(hook, agent="reports"))
    assert (refused.status, refused.paths) == (400, ["hook"])
    assert not LimitAcquisition.objects.exists()


def test_another_agents_or_organizations_limit_is_not_there(world, hook):
    for api in (world.runtime_of_beta, world.runtime_of_reports):
        refused = api.post("/limits/acquire", body(hook, agent=str(world.procurement.pk)))
        assert (refused.status, refused.code) == (404, "not_found")


def test_an_unbuildable_registry_is_422(world, hook):
    make.class_hook(world.procurement, "no_such_hook")
    make.publish(world.procurement)
    refused = world.runtime.post("/limits/acquire", body(hook))
    assert (refused.status, refused.code) == (422, "registry_unbuildable")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"agent": 1}, "agent"),
        ({"hook": "x"}, "hook"),
        ({"connector": ""}, "connector"),
        ({"connector": "x" * 201}, "connector"),
        ({"user": 7}, "user"),
        ({"call": "x"}, "call"),
        ({"calls": 2}, "calls"),
    ],
)
def test_a_bad_field_is_named(world, change, path):
    refused = world.runtime.post("/limits/acquire", body(str(uuid.uuid4()), **change))
    assert (refused.status, refused.paths) == (400, [path])


def test_a_counter_that_cannot_be_reached_is_503_and_counts_nothing(world, hook, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    refused = world.runtime.post("/limits/acquire", body(hook))
    assert (refused.status, refused.code) == (503, "limits_unavailable")
    assert not LimitAcquisition.objects.exists()


def test_old_answers_are_forgotten(world, hook, time):
    acquire(world.runtime, hook)
    assert limits.purge() == 0
    with clock.shifted(limits.KEPT + limits.KEPT):
        assert limits.purge() == 1


def at_once(count, work):
    """``work(number)`` in ``count`` threads that begin together."""
    start = threading.Barrier(count)

    def run(number):
        start.wait(timeout=10)
        try:
            work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)


@pytest.mark.django_db(transaction=True)
def test_sixteen_who_ask_at_once_never_get_more_than_the_window_allows(monkeypatch):
    acme = make.organization("acme")
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "connector_rate_limit", params={"max_calls": 5, "window_seconds": 1})
    make.publish(agent)
    hook, keys = limit_of(agent), [make.key(acme) for _ in range(2)]
    taken, refused, until, count = [], [], time.monotonic() + 2.5, limits._hit

    def watch(scope, amount, seconds):
        began = time.monotonic()
        verdict = count(scope, amount, seconds)
        if verdict.allowed:
            taken.append((began, time.monotonic()))
        return verdict

    # Only the counter's own moments are exact: a request may wait long for the database.
    monkeypatch.setattr(limits, "_hit", watch)

    def ask(number):
        api = Api(keys[number % 2])
        while time.monotonic() < until:
            answer = api.post("/limits/acquire", body(hook, user=None)).body
            if not answer["allowed"]:
                refused.append(answer["retry_after_seconds"])
                time.sleep(0.01)

    at_once(16, ask)
    assert len(taken) >= 5
    assert refused
    assert all(0 < wait < 1.01 for wait in refused)
    taken.sort()
    for first in range(len(taken) - 5):
        several = taken[first : first + 6]
        assert max(ended for _, ended in several) - several[0][0] > 0.99


@pytest.mark.django_db(transaction=True)
def test_the_same_call_at_once_counts_once():
    acme = make.organization("acme")
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "connector_rate_limit", params={"max_calls": 50, "window_seconds": 60})
    make.publish(agent)
    hook, key = limit_of(agent), make.key(acme)
    same, answers = str(uuid.uuid4()), []

    def ask(number):
        call = same if number % 2 else str(uuid.uuid4())
        answers.append(Api(key).post("/limits/acquire", body(hook, call=call)).body)

    at_once(8, ask)
    assert len(answers) == 8
    assert Api(key).post("/limits/acquire", body(hook)).body["remaining"] == 50 - 4 - 1 - 1
