"""A gate entry says in a sentence what it asks for, and the form makes one choose."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hooks_app.models import Declaration
from hooks_app.registry import gate_words
from portal.models import Group
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import Tenant, sign_in

SENTENCES = [
    (None, None, "Adds no trigger by itself"),
    ("*", None, "Asks before every tool. Then 2 of the group treasury decide (policy dual)."),
    (None, "args.amount >= 1000", "Asks before every tool, when amount ≥ 1,000."),
    ("erp__pay", None, "Asks before erp__pay."),
    ("erp__pay", "args.amount > 2500.5", "Asks before erp__pay, when amount > 2,500.5."),
    ("erp__*", 'args.to == "abroad"', 'Asks before each tool that fits erp__*, when to = "abroad".'),
    (
        "erp__*",
        "args.a > 1 && args.b < 2",
        "Asks before each tool that fits erp__*, when args.a > 1 && args.b < 2.",
    ),
]


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


@pytest.fixture
def dual(acme: Tenant) -> None:
    """Two of the treasury."""
    group = Group.objects.create(organization=acme.organization, slug="treasury")
    make.policy(acme.organization, "dual", scope="group", group=group, quorum=2)


@pytest.mark.usefixtures("dual")
@pytest.mark.parametrize(("tool_filter", "when", "told"), SENTENCES)
def test_an_entry_is_told_in_a_sentence(
    acme: Tenant, browser: Client, tool_filter: str | None, when: str | None, told: str
) -> None:
    row = make.class_hook(
        acme.agent, "approval_gate", tool_filter=tool_filter, when=when, params={"policy": "dual"}
    )
    assert gate_words.sentence(row, gate_words.policies_of(acme.organization)).startswith(told)
    page = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/change/").content.decode()
    assert (
        told.replace('"', "&quot;").replace(">", "&gt;").replace("<", "&lt;").replace("&&", "&amp;&amp;")
        in page
    )


def test_a_policy_that_there_is_not_is_told(acme: Tenant) -> None:
    row = make.class_hook(acme.agent, "approval_gate", tool_filter="*", params={"policy": "gone"})
    assert (
        gate_words.sentence(row, gate_words.policies_of(acme.organization))
        == "Asks before every tool. There is no policy gone."
    )


CHOICES: list[tuple[dict[str, Any], list[str], tuple[str | None, str | None] | None]] = [
    ({}, ["asks"], None),
    ({"asks": "every"}, [], ("*", None)),
    ({"asks": "every", "tool_filter": "*"}, [], ("*", None)),
    ({"asks": "every", "when": "args.amount > 1"}, ["asks"], None),
    ({"asks": "every", "tool_filter": "acme_oa__pay"}, ["asks"], None),
    ({"asks": "matching"}, ["tool_filter"], None),
    ({"asks": "matching", "tool_filter": "acme_oa__pay"}, [], ("acme_oa__pay", None)),
    ({"asks": "matching", "tool_filter": "*", "when": "args.amount > 1"}, [], ("*", "args.amount > 1")),
    ({"asks": "condition"}, ["when"], None),
    ({"asks": "condition", "when": "args.amount > 1"}, [], (None, "args.amount > 1")),
    ({"asks": "condition", "when": "args.amount > 1", "tool_filter": "x"}, ["asks"], None),
    ({"asks": "nothing"}, [], (None, None)),
    ({"asks": "nothing", "tool_filter": "acme_oa__pay"}, ["asks"], None),
    ({"asks": "everything"}, ["asks"], None),
]


@pytest.mark.parametrize(("values", "wrong", "stored"), CHOICES)
def test_what_it_asks_for_is_chosen(
    acme: Tenant, browser: Client, values: dict[str, Any], wrong: list[str], stored: Any
) -> None:
    before = Declaration.objects.count()
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook=approval_gate"
    answer = save(browser, address, **values)
    if wrong:
        assert list(answer.context["adminform"].form.errors) == wrong
        assert Declaration.objects.count() == before
        return
    assert answer.status_code == 302, errors(answer)
    row = Declaration.objects.order_by("pk").exclude(name="").filter(name="approval_gate").last()
    assert row is not None
    made = Declaration.objects.filter(
        agent=acme.agent, name="approval_gate", tool_filter=stored[0], when=stored[1]
    )
    assert made.exists()


def test_a_filter_that_fits_nothing_takes_an_explicit_word(acme: Tenant, browser: Client) -> None:
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook=approval_gate"
    values = {"asks": "matching", "tool_filter": "acme_oa__pya"}
    refused = save(browser, address, **values)
    assert list(refused.context["adminform"].form.errors) == ["tool_filter"]
    assert "acme_oa__pay" in refused.content.decode()
    assert save(browser, address, **values, allow_unmatched="on").status_code == 302
    assert Declaration.objects.filter(tool_filter="acme_oa__pya", allow_unmatched=True).exists()


def test_more_entries_cost_no_more_statements(acme: Tenant, browser: Client) -> None:
    page = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    counts = []
    for number in (1, 8):
        for _n in range(number):
            make.class_hook(acme.agent, "approval_gate", tool_filter="*")
        with CaptureQueriesContext(connection) as asked:
            assert browser.get(page).content.decode().count("Asks before every tool.") >= number
        counts.append(sum('FROM "hooks_app_approvalpolicy"' in query["sql"] for query in asked))
    assert counts[0] == counts[1]
