"""An organization with at least one row behind every screen of the admin site."""

import uuid
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import Model
from django.test import Client

from channels_app import identities
from channels_app.models import Delivery, DeliveryAttempt, Interaction
from hooks_app import calls, confirmations, keys
from hooks_app.confirmations import NewRequest, Voter
from hooks_app.models import Agent, ConfirmationRequest, RegistryRevision
from hooks_app.registry import heads, runtimes
from portal import audit
from portal.lib import clock
from portal.models import Absence, AuditEvent, Group, GroupMember, Invitation, Organization, User
from portal.people import tokens
from tests import make

# Values that no page may ever show.
SECRETS = {
    "app_secret": "S3CRET-app-secret",
    "encrypt_key": "S3CRET-encrypt-key",
    "verification_token": "S3CRET-verification",
}
CARD_NUMBER = "S3CRET-4111-1111"


@dataclass
class Tenant:
    """``rows`` has a row for each model that the admin site knows; ``people`` are ``admin``, ``approver``, …"""

    organization: Organization
    people: dict[str, User]
    rows: dict[type[Model], Any]
    agent: Agent
    plain: list[str]

    def row(self, model: type[Model]) -> Any:
        """The row of ``model``."""
        return self.rows[model]


def sign_in(user: User, *, csrf: bool = False) -> Client:
    """A browser in which the person is signed in."""
    browser = Client(enforce_csrf_checks=csrf)
    browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return browser


def build(slug: str) -> Tenant:
    """A tenant; every name in it begins with ``slug``."""
    organization = make.organization(slug)
    people = {
        role: make.user(f"{slug}-{role}", organization, role, email=f"{role}@{slug}.test")
        for role in ("admin", "approver", "auditor", "member")
    }
    channel = make.channel(organization, f"{slug}-chat", config={**SECRETS, "app_id": f"cli_{slug}"})
    identity = identities.bind(
        organization=organization, user=people["approver"], channel=channel, external_id=f"ou_{slug}"
    )
    governed = _governed(organization, people["admin"], channel)
    agent = governed[0]
    request = _ask(agent, f"{slug}_oa__pay", people["approver"])
    token, plain_token = tokens.issue(user=people["member"], label=f"{slug}-token", actor=audit.SHELL)
    key, plain_key = keys.issue(
        organization=organization, agent=agent, label=f"{slug}-key", actor=audit.SHELL
    )
    delivery = Delivery.objects.get(organization=organization)
    invitation = Invitation.objects.create(
        organization=organization, name=f"{slug}-guest", made_by=people["admin"]
    )
    rows: list[Any] = [
        organization, people["member"].memberships.get(), people["member"], invitation,
        *_groups(organization, people), token,
        channel.app, channel, identity, delivery, _interaction(organization, channel, delivery), *governed, key,
        request, _call(agent, request), RegistryRevision.objects.get(agent=agent), agent.runtimes.get(),
        AuditEvent.objects.filter(organization=organization).first(),
    ]  # fmt: skip
    by_model = {type(row): row for row in rows}
    return Tenant(organization, people, by_model, agent, plain=[plain_token, plain_key, delivery.ref])


def _groups(organization: Organization, people: dict[str, User]) -> tuple[Group, Absence]:
    group = Group.objects.create(organization=organization, slug=f"{organization.slug}-group")
    GroupMember.objects.create(group=group, user=people["approver"])
    absence = Absence.objects.create(
        organization=organization,
        user=people["approver"],
        substitute=people["member"],
        first_day=date(2031, 1, 1),
        last_day=date(2031, 1, 5),
    )
    return group, absence


def _governed(organization: Organization, owner: User, channel: Any) -> tuple[Any, ...]:
    """The agent first, then what governs it."""
    slug = organization.slug
    connector = make.connector(
        organization, f"{slug}_oa", pay={"requires_confirmation": True, "redact": ["card_number"]}
    )
    policy = make.policy(organization, f"{slug}-policy")
    agent = make.agent(organization, f"{slug}-agent", owner=owner, published=False)
    make.approval_channel(agent, channel)
    make.tool(agent, f"{slug}_tool")
    declaration = make.class_hook(agent, "result_truncate", params={"max_chars": 500})
    runtimes.record(agent, f"{slug}-runtime", "chat", 1)
    return agent, connector, policy, declaration, make.publish(agent)


def _ask(agent: Agent, tool: str, voter: User) -> ConfirmationRequest:
    revision = heads.head(agent).revision
    assert revision is not None
    row, _new = confirmations.create(
        agent=agent,
        runtime="worker",
        request=NewRequest(
            conversation_id="c1",
            tool_call_id="call-1",
            tool_name=tool,
            tool_args={"amount": 5, "card_number": CARD_NUMBER},
            initiator=None,
            registry_digest=revision.digest,
        ),
    )
    confirmations.decide(request_id=row.pk, voter=Voter(user=voter), decision="approve", reason="fine")
    DeliveryAttempt.objects.create(
        delivery=Delivery.objects.get(organization=agent.organization),
        at=clock.now(),
        kind="send",
        version=1,
        result="failed",
        code="230002",
        message="bot is not in the chat",
        duration_ms=12,
    )
    row.refresh_from_db()
    return row


def _interaction(organization: Organization, channel: Any, delivery: Delivery) -> Interaction:
    return Interaction.objects.create(
        organization=organization,
        app=channel.app,
        channel=channel,
        event_id=uuid.uuid4().hex,
        external_id="ou_x",
        delivery=delivery,
        action="approve",
        result="approved",
        answer={"toast": "S3CRET-answer"},
        received_at=clock.now(),
    )


def _call(agent: Agent, request: ConfirmationRequest) -> Any:
    entry = calls.Entry(
        agent=agent,
        id=uuid.uuid4(),
        tool_name=request.tool_name,
        status="succeeded",
        started_at=clock.now(),
        user={"id": "u1", "name": "Kim", "email": "kim@example.test"},
        surface="chat",
        duration_ms=3.5,
        args={"amount": 5},
        confirmation_id=request.pk,
        trace=[{"hook": "approval_gate", "outcome": "approved", "ms": 1, "changed": False}],
    )
    calls.store([entry], runtime="worker")
    return agent.calls.get()
