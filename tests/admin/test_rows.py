"""Rows of a form: counters that lie cost nothing and are said, and nothing that was added is dropped."""

from typing import Any

import pytest
from django.test import Client

from hooks_app.models import Action, Agent, Connector
from portal.admin import rows
from portal.admin.forms import ScopedFormSet
from portal.admin.site import site
from portal.models import Group
from tests.admin.forms import errors, fill
from tests.admin.tenant import Tenant, sign_in
from tests.config.documents import snapshot

FORGED = [
    ("TOTAL_FORMS", "99999"),
    ("TOTAL_FORMS", "1000000000000000000000"),
    ("TOTAL_FORMS", "-1"),
    ("TOTAL_FORMS", "0"),
    ("TOTAL_FORMS", "many"),
    ("TOTAL_FORMS", "٣"),
    ("TOTAL_FORMS", "1.0"),
    ("INITIAL_FORMS", "99999"),
    ("INITIAL_FORMS", "-5"),
    ("INITIAL_FORMS", "0"),
    ("INITIAL_FORMS", ""),
    ("MIN_NUM_FORMS", "x"),
    ("MIN_NUM_FORMS", "-1"),
    ("MAX_NUM_FORMS", "1e9"),
]


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def test_every_inline_counts_its_own_rows() -> None:
    for screen in site._registry.values():
        for inline in screen.inlines:
            assert issubclass(inline.formset, ScopedFormSet), inline


@pytest.mark.parametrize(("name", "value"), FORGED)
def test_a_forged_counter_is_said_and_costs_nothing(
    acme: Tenant, browser: Client, name: str, value: str
) -> None:
    there = f"/admin/hooks_app/connector/{acme.row(Connector).pk}/change/"
    filled = fill(browser.get(there))
    filled["actions-0-description"] = ["typed by somebody"]
    before = snapshot()
    answer = browser.post(there, filled | {f"actions-{name}": value})
    assert answer.status_code == 200
    formset = answer.context["inline_admin_formsets"][0].formset
    assert len(formset.forms) == 1
    said = str(formset.non_form_errors())
    assert f"actions-{name}" in said or "at most 1000 rows" in said
    page = answer.content.decode()
    assert said.partition("<li>")[2].partition("</li>")[0] in page
    assert "typed by somebody" in page
    assert snapshot() == before


def test_more_rows_than_a_form_may_have(acme: Tenant, browser: Client) -> None:
    found = rows.count(
        {"a-TOTAL_FORMS": "1001", "a-INITIAL_FORMS": "0", **{f"a-{n}-name": "x" for n in range(1001)}},
        "a",
        "id",
    )
    assert "at most 1000" in found.fault
    assert found.total == 1000


def test_hundreds_of_rows_are_saved(acme: Tenant, browser: Client) -> None:
    connector = acme.row(Connector)
    there = f"/admin/hooks_app/connector/{connector.pk}/change/"
    filled = fill(browser.get(there))
    for number in range(1, 180):
        filled |= row(number)
    filled["actions-TOTAL_FORMS"] = ["180"]
    assert browser.post(there, filled).status_code == 302
    assert connector.actions.count() == 180


def row(number: int, **fields: str) -> dict[str, Any]:
    """A new action, as the form sends it."""
    sent = {
        "id": "", "connector": "", "name": f"action_{number}", "description": "", "policy": "", "redact": "",
        "schema": "", "position": "0", "writes": "on",
    }  # fmt: skip
    return {f"actions-{number}-{name}": [value] for name, value in (sent | fields).items()}


def test_an_added_row_that_is_empty_is_said_at_its_field(acme: Tenant, browser: Client) -> None:
    there = f"/admin/hooks_app/connector/{acme.row(Connector).pk}/change/"
    filled = fill(browser.get(there)) | row(1, name="") | {"actions-TOTAL_FORMS": ["2"]}
    before = snapshot()
    answer = browser.post(there, filled)
    assert answer.status_code == 200
    assert answer.context["inline_admin_formsets"][0].formset.errors[1].keys() == {"name"}
    assert snapshot() == before
    # Whoever removes it again, as the page offers, saves.
    del filled["actions-1-name"]
    filled = {name: value for name, value in filled.items() if not name.startswith("actions-1-")}
    assert browser.post(there, filled | {"actions-TOTAL_FORMS": ["1"]}).status_code == 302


@pytest.mark.parametrize(
    ("model", "prefix", "field", "pattern"),
    [
        (Group, "memberships", "user", "/admin/portal/group/{}/change/"),
        (Agent, "approval_channel_rows", "channel", "/admin/hooks_app/agent/{}/change/"),
        (Agent, "fallback_channel_rows", "channel", "/admin/hooks_app/agent/{}/change/"),
        (Agent, "tools", "name", "/admin/hooks_app/agent/{}/change/"),
    ],
)
def test_no_inline_drops_an_empty_row(
    acme: Tenant, browser: Client, model: Any, prefix: str, field: str, pattern: str
) -> None:
    there = pattern.format(acme.row(model).pk)
    filled = fill(browser.get(there))
    number = int(filled[f"{prefix}-TOTAL_FORMS"][0])
    filled |= {f"{prefix}-{number}-id": [""], f"{prefix}-{number}-{field}": [""]}
    filled[f"{prefix}-TOTAL_FORMS"] = [str(number + 1)]
    answer = browser.post(there, filled)
    assert answer.status_code == 200
    assert "required" in errors(answer)


def test_what_was_typed_into_a_new_row_is_saved(acme: Tenant, browser: Client) -> None:
    there = f"/admin/hooks_app/connector/{acme.row(Connector).pk}/change/"
    filled = fill(browser.get(there)) | row(1, name="refund", description="gives money back")
    assert browser.post(there, filled | {"actions-TOTAL_FORMS": ["2"]}).status_code == 302
    assert Action.objects.get(name="refund").description == "gives money back"


@pytest.mark.parametrize(
    "schema", ['{"type": "strnig"}', "[]", "7", '{"properties": ["amount"]}', "true", '""']
)
def test_a_schema_that_is_none_is_said_at_its_field(acme: Tenant, browser: Client, schema: str) -> None:
    there = f"/admin/hooks_app/connector/{acme.row(Connector).pk}/change/"
    filled = fill(browser.get(there)) | row(1, name="refund", schema=schema) | {"actions-TOTAL_FORMS": ["2"]}
    answer = browser.post(there, filled)
    assert answer.status_code == 200
    assert answer.context["inline_admin_formsets"][0].formset.errors[1].keys() == {"schema"}
    assert not Action.objects.filter(name="refund").exists()
