"""Names of policies, channels and agents are picked: what there is not can't be saved, what is gone is told."""

from typing import Any

import pytest
from django.test import Client

from hooks_app.models import Action, Agent, Declaration
from portal.models import Organization
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import Tenant, sign_in

GONE = "gone (there is none any more)"


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def pages(acme: Tenant) -> dict[str, tuple[str, str]]:
    """``(address, field)`` of every form that names a policy, a channel or agents."""
    agent = acme.agent
    connector = Action.objects.get(connector__organization=acme.organization).connector
    gate = make.class_hook(agent, "approval_gate", tool_filter="*")
    told = make.class_hook(agent, "notify", params={"channel": "acme-chat"})
    admin = "/admin/hooks_app"
    return {
        "agent's policy": (f"{admin}/agent/{agent.pk}/change/", "approval_policy"),
        "agent's tool": (f"{admin}/agent/{agent.pk}/change/", "tools-0-policy"),
        "agent's delegates": (f"{admin}/agent/{agent.pk}/change/", "may_delegate_to"),
        "organization's policy": (
            f"/admin/portal/organization/{acme.organization.pk}/change/",
            "approval_policy",
        ),
        "action's policy": (f"{admin}/connector/{connector.pk}/change/", "actions-0-policy"),
        "gate's policy": (f"{admin}/declaration/{gate.pk}/change/", "param_policy"),
        "gate's channel": (f"{admin}/declaration/{gate.pk}/change/", "param_channel"),
        "notice's channel": (f"{admin}/declaration/{told.pk}/change/", "param_channel"),
    }


FORMS = [
    "agent's policy", "agent's tool", "agent's delegates", "organization's policy", "action's policy",
    "gate's policy", "gate's channel", "notice's channel",
]  # fmt: skip


@pytest.fixture
def theirs(db: None) -> Organization:
    """Another organization with a policy, a channel and an agent called ``theirs``."""
    row = make.organization("elsewhere")
    make.policy(row, "theirs")
    make.channel(row, "theirs")
    make.agent(row, "theirs")
    return row


def offered(browser: Client, address: str, field: str) -> list[str]:
    """The values that a form's field offers."""
    context = browser.get(address).context
    forms = [context["adminform"].form]
    forms += [form for inline in context["inline_admin_formsets"] for form in inline.formset.forms]
    (found,) = [form.fields[name] for form in forms for name in form.fields if form.add_prefix(name) == field]
    return [str(value) for value, _label in found.choices if value]


def stored(acme: Tenant) -> list[Any]:
    """Everything that could hold a name."""
    return [
        list(model.objects.order_by("pk").values()) for model in (Agent, Action, Declaration, Organization)
    ]


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["acme-polcy", "theirs", " ", "acme-policy\n", "acme-policy/"])
def test_only_names_that_there_are_can_be_saved(acme: Tenant, browser: Client, form: str, name: str) -> None:
    address, field = pages(acme)[form]
    assert "theirs" not in offered(browser, address, field)
    before = stored(acme)
    answer = save(browser, address, **{field: [name] if form == "agent's delegates" else name})
    assert answer.status_code == 200, f"{name!r} was taken"
    assert "is not one of the available choices" in errors(answer)
    assert stored(acme) == before


@pytest.mark.parametrize("form", FORMS)
def test_each_offers_what_there_is(acme: Tenant, browser: Client, form: str) -> None:
    address, field = pages(acme)[form]
    expected = {"acme-chat"} if "channel" in form else {"acme-policy", "default"}
    if form == "agent's delegates":
        expected = {"acme-agent"}
    assert set(offered(browser, address, field)) == expected


def test_a_name_that_is_gone_is_told_and_kept_until_another_is_chosen(acme: Tenant, browser: Client) -> None:
    Agent.objects.filter(pk=acme.agent.pk).update(approval_policy="gone", may_delegate_to=["gone"])
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    page = browser.get(address).content.decode()
    assert page.count(GONE) == 2
    answer = save(browser, address, name="Renamed")
    assert answer.status_code == 200
    assert "is not one of the available choices" in errors(answer)
    answer = save(browser, address, name="Renamed", approval_policy="", may_delegate_to=[])
    assert answer.status_code == 302, errors(answer)
    row = Agent.objects.get(pk=acme.agent.pk)
    assert (row.approval_policy, row.may_delegate_to) == (None, [])
