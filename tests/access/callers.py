"""Everybody who may call the portal, and a world in which two organizations have everything that can be asked for."""

import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.test import Client

from hooks_app import confirmations
from hooks_app.confirmations import NewRequest
from hooks_app.models import ConfirmationRequest, RuntimeKey
from hooks_app.registry import heads
from portal import audit
from portal.lib import clock
from portal.models import Invitation, User
from portal.people import tokens
from tests import make
from tests.admin import tenant as tenants
from tests.admin.tenant import Tenant

# What the letters of the table mean. The API takes a session or a bearer credential, pages a session alone.
CALLERS = {
    "a": "anonymous",
    "k": "runtime key of this agent",
    "s": "runtime key of another agent of the organization",
    "o": "runtime key of the organization",
    "f": "runtime key of another organization",
    "m": "runtime key without the scope",
    "r": "revoked key",
    "e": "expired key",
    "R": "an admin's token with read alone",
    "D": "an admin's token with decide alone",
    "G": "token of somebody deactivated",
    "M": "session of a member",
    "P": "session of an approver",
    "U": "session of an auditor",
    "A": "session of an admin",
    "X": "session of another organization's admin",
    "S": "session of a superuser",
    "d": "session of somebody deactivated",
}
# Who belongs to acme: nothing of the other organization may be in what they are shown.
OURS = "aksomreRDGMPUAd"


@dataclass
class World:
    """acme is asked for; ``pending``, ``approved`` and ``consumed`` are its requests; it invites initech's admin."""

    acme: Tenant
    initech: Tenant
    pending: ConfirmationRequest
    approved: ConfirmationRequest
    consumed: ConfirmationRequest
    invitation: Invitation
    hook: str
    headers: dict[str, dict[str, str]]
    cookies: dict[str, str]
    browser: Client = field(default_factory=Client)

    def become(self, caller: str) -> dict[str, str]:
        """Let ``browser`` be the caller with that letter; returns the headers to send.

        One client for all: each new one loads the middleware, and that looks through all static files.
        """
        self.browser.cookies.clear()
        if caller in self.cookies:
            self.browser.cookies[settings.SESSION_COOKIE_NAME] = self.cookies[caller]
        return self.headers.get(caller, {})

    def foreign(self) -> list[bytes]:
        """What marks a row of the other organization: its names, and the ids that are no small numbers."""
        keys = [row.pk for row in self.initech.rows.values() if not isinstance(row.pk, int)]
        return [b"initech", *(str(key).encode() for key in keys)]


def build() -> World:
    """Both organizations, and one credential for each letter."""
    acme, initech = tenants.build("acme"), tenants.build("initech")
    make.class_hook(acme.agent, "connector_rate_limit", params={"max_calls": 10, "window_seconds": 60})
    make.publish(acme.agent)
    revision = heads.head(acme.agent).revision
    assert revision is not None
    hook = next(h["id"] for h in revision.manifest["hooks"] if h["name"] == "connector_rate_limit")
    approved = acme.row(ConfirmationRequest)
    pending, consumed = (_ask(acme, f"call-{name}") for name in ("pending", "consumed"))
    consumed = confirmations.decide(
        request_id=consumed.pk,
        voter=confirmations.Voter(user=acme.people["approver"]),
        decision="approve",
    )
    confirmations.consume(
        request=consumed, args_digest=consumed.args_digest, attempt=uuid.uuid4(), actor=audit.SHELL
    )
    headers = {
        letter: {"Authorization": f"Bearer {plain}"} for letter, plain in _bearers(acme, initech).items()
    }
    asked = Invitation.objects.create(
        organization=acme.organization, name="initech-admin", user=initech.people["admin"], role="member"
    )
    return World(acme, initech, pending, approved, consumed, asked, hook, headers, _sessions(acme, initech))


def _ask(tenant: Tenant, call: str) -> ConfirmationRequest:
    revision = heads.head(tenant.agent).revision
    assert revision is not None
    proposal = NewRequest(
        conversation_id="c1",
        tool_call_id=call,
        tool_name=f"{tenant.organization.slug}_oa__pay",
        tool_args={"amount": 5},
        initiator=None,
        registry_digest=revision.digest,
    )
    return confirmations.create(agent=tenant.agent, runtime="worker", request=proposal)[0]


def _bearers(acme: Tenant, initech: Tenant) -> dict[str, str]:
    organization = acme.organization
    found = {
        "k": make.key(organization, acme.agent, label="own"),
        "s": make.key(organization, make.agent(organization, "acme-reports"), label="sibling"),
        "o": make.key(organization, label="organization"),
        "f": make.key(initech.organization, label="foreign"),
        "m": make.key(organization, acme.agent, scopes=["eval"], label="scopeless"),
        "r": make.key(organization, acme.agent, label="revoked"),
        "e": make.key(organization, acme.agent, label="expired"),
    }
    now = clock.now()
    RuntimeKey.objects.filter(label="revoked").update(revoked_at=now)
    RuntimeKey.objects.filter(label="expired").update(expires_at=now - timedelta(seconds=1))
    gone = make.user("acme-gone", organization, "admin")
    for letter, user, scopes in (
        ("R", acme.people["admin"], ["read"]),
        ("D", acme.people["admin"], ["decide"]),
        ("G", gone, ["read", "decide"]),
    ):
        found[letter] = tokens.issue(user=user, scopes=scopes, actor=audit.SHELL)[1]
    return found


def _sessions(acme: Tenant, initech: Tenant) -> dict[str, str]:
    gone = User.objects.get(username="acme-gone")
    root = User.objects.create_superuser("root", "root@example.test")
    people = {
        "M": acme.people["member"],
        "P": acme.people["approver"],
        "U": acme.people["auditor"],
        "A": acme.people["admin"],
        "X": initech.people["admin"],
        "S": root,
        "d": gone,
    }
    found = {
        letter: tenants.sign_in(user).cookies[settings.SESSION_COOKIE_NAME].value
        for letter, user in people.items()
    }
    User.objects.filter(pk=gone.pk).update(is_active=False)
    return found
