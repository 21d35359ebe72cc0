"""What lists and pages say of agents and runtimes: nothing is called running that nobody has heard of."""

import re
from typing import Any

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hooks_app.models import Agent, RegistryHead, RuntimeInstance
from hooks_app.registry import heads, runtimes
from tests import make
from tests.admin.tenant import Tenant, sign_in
from tests.conftest import Clock

LIST = "/admin/hooks_app/agent/"
WORDS = "off|halted|never published|can’t be built|no runtime yet|no runtime any more|behind|running"


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The auditor's: whoever looks may know."""
    return sign_in(acme.people["auditor"])


@pytest.fixture
def agent(acme: Tenant, time: Clock) -> Agent:
    """A published agent that no runtime has asked for."""
    time.moment = time.moment.replace(second=0)
    agent = make.agent(acme.organization, "fresh")
    heads.serve(agent, "chat")
    return agent


def said(browser: Client, agent: Agent) -> str:
    """The agent's state, as the list shows it."""
    page = browser.get(f"{LIST}?q={agent.slug}").content.decode()
    (word,) = re.findall(rf">\s*({WORDS})\s*</span>", page)
    return str(word)


def test_an_agent_is_running_while_a_runtime_asks_for_it(agent: Agent, time: Clock, browser: Client) -> None:
    assert said(browser, agent) == "no runtime yet"
    runtimes.record(agent, "worker-1", "chat", 1)
    assert said(browser, agent) == "running"
    # 15 seconds are between two questions, and the time is kept to the minute.
    time.advance(seconds=89)
    assert said(browser, agent) == "running"
    time.advance(minutes=12)
    assert said(browser, agent) == "no runtime any more"
    runtimes.record(agent, "worker-2", "chat", 1)
    assert said(browser, agent) == "running"


def test_the_time_between_two_questions_is_the_agents(agent: Agent, time: Clock, browser: Client) -> None:
    Agent.objects.filter(pk=agent.pk).update(revalidate_after_seconds=600)
    runtimes.record(agent, "worker-1", "chat", 1)
    time.advance(minutes=15)
    assert said(browser, agent) == "running"
    time.advance(minutes=15)
    assert said(browser, agent) == "no runtime any more"


def test_what_stops_an_agent_is_said_first(agent: Agent, browser: Client) -> None:
    runtimes.record(agent, "worker-1", "chat", 1)
    RegistryHead.objects.filter(agent=agent).update(errors=[{"path": "p", "code": "c", "message": "m"}])
    assert said(browser, agent) == "can’t be built"
    Agent.objects.filter(pk=agent.pk).update(halted=True, halt_reason="look")
    assert said(browser, agent) == "halted"
    Agent.objects.filter(pk=agent.pk).update(enabled=False)
    assert said(browser, agent) == "off"


def test_an_agent_that_was_never_published_is_not_running(acme: Tenant, time: Clock, browser: Client) -> None:
    draft = make.agent(acme.organization, "draft-only", published=False)
    runtimes.record(draft, "worker-1", "chat", None)
    assert said(browser, draft) == "never published"


def test_a_runtime_is_live_behind_or_gone(agent: Agent, time: Clock, browser: Client) -> None:
    runtimes.record(agent, "old", "chat", 1)
    time.advance(minutes=12)
    runtimes.record(agent, "late", "chat", 0)
    assert said(browser, agent) == "behind"
    runtimes.record(agent, "new", "chat", 1)
    assert said(browser, agent) == "running"
    page = browser.get(f"{LIST}{agent.pk}/change/").content.decode()
    rows = {
        name: re.sub(r"<[^>]+>|\s+", " ", row)
        for name in ("old", "late", "new")
        for row in re.findall(rf"<tr><td>{name}</td>.*?</tr>", page, re.DOTALL)
    }
    assert "gone" in rows["old"]
    assert "12 minutes ago" in rows["old"]
    assert "behind" in rows["late"]
    assert "live" in rows["new"]


def test_more_agents_cost_no_more_statements(
    acme: Tenant, time: Clock, browser: Client, django_assert_max_num_queries: Any
) -> None:
    from django.db import connection

    counts = []
    for number in range(2):
        for extra in range(1 + 8 * number):
            made = make.agent(acme.organization, f"more-{number}-{extra}")
            runtimes.record(made, "worker", "chat", 1)
            heads.serve(made, "chat")
        with CaptureQueriesContext(connection) as asked:
            browser.get(LIST)
        counts.append(sum("runtimeinstance" in query["sql"] for query in asked))
    assert counts[0] == counts[1]
    assert RuntimeInstance.objects.count() >= 9
