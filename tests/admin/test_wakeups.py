"""What an admin changes by hand reaches runtimes as soon as what a file changes."""

from typing import Any

import pytest

from portal.wakeups import wakeups
from tests.admin.forms import fill
from tests.admin.tenant import Tenant, sign_in


def test_an_agent_that_is_switched_off_by_hand_wakes_its_runtimes(
    acme: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    browser = sign_in(acme.people["admin"])
    heard: list[str] = []
    monkeypatch.setattr(wakeups, "publish", lambda *topics: heard.extend(topics))
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    values = fill(browser.get(address))
    del values["enabled"]
    with django_capture_on_commit_callbacks(execute=True):
        assert browser.post(address, values).status_code == 302
    acme.agent.refresh_from_db()
    assert not acme.agent.enabled
    assert f"agent:{acme.agent.pk}" in heard
