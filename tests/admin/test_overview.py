"""The overview says first what can't wait; the probe counts it and names nobody."""

import re

import pytest
from django.test import Client

from hooks_app.models import Agent
from hooks_app.registry import heads
from tests import make
from tests.admin.tenant import Tenant, sign_in

ALERT = re.compile(r'<p class="hookgate-notice (bad|warn)">([^<]*) <a href="([^"]*)">', re.DOTALL)


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def alerts(browser: Client) -> list[tuple[str, str, str]]:
    """``(kind, text, link)`` of what the overview says first."""
    return ALERT.findall(browser.get("/admin/").content.decode())


def break_one(acme: Tenant, slug: str) -> Agent:
    return make.agent(acme.organization, slug, approval_policy="no-such-policy")


def test_nothing_is_said_where_nothing_is_wrong(browser: Client) -> None:
    assert alerts(browser) == []


def test_broken_agents_come_first_and_lead_to_their_page(acme: Tenant, browser: Client) -> None:
    odd = make.agent(acme.organization, "odd", published=False)
    make.class_hook(odd, "result_truncate", tool_filter="bank__transfr", params={"max_chars": 500})
    make.publish(odd)
    broken = break_one(acme, "broken")
    assert alerts(browser) == [
        (
            "bad",
            "Agent broken: its registry can’t be built, and no tool runs.",
            f"/admin/hooks_app/agent/{broken.pk}/change/",
        ),
        (
            "warn",
            "Agent odd: 1 filter, matcher or condition may match nothing.",
            f"/admin/hooks_app/agent/{odd.pk}/change/",
        ),
    ]
    Agent.objects.filter(pk=broken.pk).update(enabled=False)
    assert [text for _kind, text, _link in alerts(browser)] == [
        "Agent odd: 1 filter, matcher or condition may match nothing."
    ]


def test_a_deleted_policy_is_seen_at_once(acme: Tenant, browser: Client) -> None:
    policy = make.policy(acme.organization, "short-lived")
    Agent.objects.filter(pk=acme.agent.pk).update(approval_policy="short-lived")
    make.publish(Agent.objects.get(pk=acme.agent.pk))
    assert alerts(browser) == []
    policy.delete()
    heads.inputs_changed(acme.organization)
    assert [(kind, "acme-agent" in text) for kind, text, _link in alerts(browser)] == [("bad", True)]


def test_nobody_hears_of_another_organizations_agents(acme: Tenant, browser: Client) -> None:
    elsewhere = make.organization("elsewhere")
    make.agent(elsewhere, "theirs", approval_policy="no-such-policy")
    assert alerts(browser) == []
    assert alerts(sign_in(acme.people["auditor"])) == []


def test_the_probe_counts_registries_that_cannot_be_built(acme: Tenant) -> None:
    before = Client().get("/readyz")
    assert "can't be built" not in before.content.decode()
    break_one(acme, "broken")
    answer = Client().get("/readyz")
    count = Agent.objects.filter(enabled=True, head__isnull=False).count()
    told = answer.json()["checks"]["agents"]
    # The portal itself is as ready as before.
    assert answer.status_code == before.status_code
    assert f"1 of {count} registries can't be built" in str(told)
    assert "broken" not in answer.content.decode()
