"""A form writes its own columns and makes out of date what is built from them; what others wrote meanwhile stays."""

from typing import Any

import pytest
from django.db.models import F

from hooks_app.admin.agents import AgentForm
from hooks_app.admin.organizations import OrganizationForm
from hooks_app.models import Agent
from portal.models import AuditEvent, Organization
from tests.admin.forms import fill
from tests.admin.tenant import Tenant, sign_in


def version(tenant: Tenant) -> int:
    return Organization.objects.get(pk=tenant.organization.pk).inputs_version


def meanwhile(monkeypatch: pytest.MonkeyPatch, form: Any, act: Any) -> None:
    """Have ``act`` done by somebody else while a page that has read its row judges what was sent."""
    judge = form.clean

    def clean(self: Any) -> Any:
        act()
        return judge(self)

    monkeypatch.setattr(form, "clean", clean)


def test_a_halt_that_came_while_the_form_was_judged_stays(
    acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in(acme.people["admin"])
    row = Agent.objects.filter(pk=acme.agent.pk)
    meanwhile(monkeypatch, AgentForm, lambda: row.update(halted=True, halt_reason="incident"))
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    values = fill(browser.get(address)) | {"name": "Another name"}
    assert browser.post(address, values).status_code == 302
    found = row.get()
    assert (found.name, found.halted, found.halt_reason) == ("Another name", True, "incident")


def test_an_inputs_version_that_rose_meanwhile_does_not_fall(
    acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in(acme.people["admin"])
    before = version(acme)
    rows = Organization.objects.filter(pk=acme.organization.pk)
    meanwhile(
        monkeypatch,
        OrganizationForm,
        lambda: rows.update(inputs_version=F("inputs_version") + 5, read_only=True),
    )
    address = f"/admin/portal/organization/{acme.organization.pk}/change/"
    values = fill(browser.get(address)) | {"name": "Another name"}
    assert browser.post(address, values).status_code == 302
    found = rows.get()
    assert (found.name, found.read_only) == ("Another name", True)
    assert found.inputs_version >= before + 5


def test_a_new_agent_makes_registries_out_of_date_as_in_a_file(acme: Tenant) -> None:
    """Delegation is built from the list of agents."""
    browser = sign_in(acme.people["admin"])
    before = version(acme)
    address = "/admin/hooks_app/agent/add/"
    values = fill(browser.get(address)) | {"slug": "another", "name": "Another"}
    assert browser.post(address, values).status_code == 302
    assert Agent.objects.filter(organization=acme.organization, slug="another").exists()
    assert version(acme) == before + 1


def test_switching_an_agent_off_builds_no_registry_again(acme: Tenant) -> None:
    """None is built from it, so that none that can't be built meanwhile keeps the agent on."""
    browser = sign_in(acme.people["admin"])
    before = version(acme)
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    values = fill(browser.get(address))
    del values["enabled"]
    assert browser.post(address, values).status_code == 302
    assert not Agent.objects.get(pk=acme.agent.pk).enabled
    assert version(acme) == before


def test_a_form_that_changes_nothing_writes_nothing(acme: Tenant) -> None:
    browser = sign_in(acme.people["admin"])
    before, entries = version(acme), AuditEvent.objects.count()
    for address in (
        f"/admin/hooks_app/agent/{acme.agent.pk}/change/",
        f"/admin/portal/organization/{acme.organization.pk}/change/",
    ):
        assert browser.post(address, fill(browser.get(address))).status_code == 302
    assert (version(acme), AuditEvent.objects.count()) == (before, entries)
