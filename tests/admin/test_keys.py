"""Runtime keys in the portal: shown once, ready to be used, rotated, revoked."""

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client

from hooks_app import keys
from hooks_app.models import RuntimeKey
from portal import audit
from portal.models import AuditEvent
from tests.admin.forms import errors, save
from tests.admin.tenant import Tenant, sign_in
from tests.conftest import Clock


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def actions() -> list[str]:
    """Of the audit trail, oldest first."""
    return [event.action for event in AuditEvent.objects.order_by("sequence")]


def test_a_key_is_shown_once_and_revoked(acme: Tenant, browser: Client) -> None:
    address = "/admin/hooks_app/runtimekey/add/"
    answer = save(
        browser, address, label="worker", agent=str(acme.agent.pk), scopes=["registry", "confirmations"]
    )
    assert answer.status_code == 200, errors(answer)
    assert "no-store" in answer.headers["Cache-Control"]
    found = re.search(r">(hg_[\w-]+)<", answer.content.decode())
    assert found
    plain = found.group(1)
    assert f"export HOOKGATE_URL={settings.BASE_URL}\nexport HOOKGATE_KEY={plain}<" in answer.content.decode()
    key = keys.authenticate(plain)
    assert key is not None
    assert (key.agent, key.scopes, key.created_by) == (
        acme.agent,
        ["registry", "confirmations"],
        acme.people["admin"],
    )
    row = RuntimeKey.objects.get(label="worker")
    page = f"/admin/hooks_app/runtimekey/{row.pk}"
    assert plain not in browser.get(f"{page}/change/").content.decode()
    assert plain not in str(browser.cookies)
    assert browser.post(f"{page}/change/", {"label": "other"}).status_code == 403
    assert browser.post(f"{page}/revoke/").status_code == 302
    assert keys.authenticate(plain) is None
    assert browser.get(f"{page}/revoke/").status_code == 403
    assert actions()[-2:] == ["key.issued", "key.revoked"]


def test_a_key_that_ended_before_it_began_is_refused(acme: Tenant, browser: Client) -> None:
    answer = save(
        browser,
        "/admin/hooks_app/runtimekey/add/",
        label="old",
        expires_at_0="2001-01-01",
        expires_at_1="00:00:00",
    )
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == ["expires_at"]
    assert not RuntimeKey.objects.filter(label="old").exists()


@pytest.fixture
def held(acme: Tenant) -> tuple[RuntimeKey, str]:
    """A key of the agent that a runtime has."""
    return keys.issue(
        organization=acme.organization,
        agent=acme.agent,
        scopes=["registry", "limits"],
        label="worker",
        created_by=acme.people["admin"],
        actor=audit.SHELL,
    )


def rotate(browser: Client, row: RuntimeKey, ends_after: str) -> str:
    """Press the button; returns the new key, or the page where there is none."""
    page = browser.post(f"/admin/hooks_app/runtimekey/{row.pk}/rotate/", {"ends_after": ends_after})
    assert page.status_code == 200
    found = re.search(r">(hg_[\w-]+)<", page.content.decode())
    return found[1] if found else page.content.decode()


def test_both_keys_work_until_the_old_one_ends(
    time: Clock, held: tuple[RuntimeKey, str], browser: Client
) -> None:
    old, plain = held
    new = rotate(browser, old, "3600")
    made = keys.authenticate(new)
    assert made is not None
    assert (made.agent, made.scopes, made.label) == (old.agent, ["registry", "limits"], "worker")
    time.advance(minutes=59)
    assert keys.authenticate(plain) is not None
    time.advance(minutes=2)
    assert keys.authenticate(plain) is None
    assert keys.authenticate(new) is not None
    assert actions()[-2:] == ["key.issued", "key.rotated"]
    assert AuditEvent.objects.get(action="key.rotated").data["replaced_by"] == str(made.pk)


def test_the_old_key_never_lives_longer_for_it(
    time: Clock, held: tuple[RuntimeKey, str], browser: Client
) -> None:
    old, plain = held
    RuntimeKey.objects.filter(pk=old.pk).update(expires_at=time.moment + timedelta(minutes=5))
    new = rotate(browser, old, "604800")
    time.advance(minutes=6)
    # The new one keeps the end that somebody gave the old one.
    assert (keys.authenticate(plain), keys.authenticate(new)) == (None, None)


def test_at_once_is_at_once(held: tuple[RuntimeKey, str], browser: Client) -> None:
    old, plain = held
    assert keys.authenticate(rotate(browser, old, "0")) is not None
    assert keys.authenticate(plain) is None


def test_a_key_that_has_ended_has_nothing_to_hand_over(
    time: Clock, held: tuple[RuntimeKey, str], browser: Client
) -> None:
    old, _ = held
    RuntimeKey.objects.filter(pk=old.pk).update(expires_at=time.moment)
    before = RuntimeKey.objects.count()
    assert "has ended already" in rotate(browser, old, "3600")
    assert "Select a valid choice" in rotate(browser, old, "999999999")
    assert RuntimeKey.objects.count() == before
