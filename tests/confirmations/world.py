"""One organization with people, an agent and a payment, for the tests of confirmations."""

import uuid
from dataclasses import dataclass
from typing import Any

from channels_app import identities
from channels_app.adapters.base import Reply, Tap
from channels_app.models import Channel, Delivery, Identity
from hooks_app import confirmations
from hooks_app.confirmations import Initiator, NewRequest, Voter
from hooks_app.confirmations.resources import DecisionEntry
from hooks_app.confirmations.taps import ApprovalsTopic
from hooks_app.models import Agent, ApprovalPolicy, ConfirmationRequest
from hooks_app.registry import heads
from portal.models import Organization, User
from tests import make

KIM = Initiator(id="u42", name="Kim", email="kim@elsewhere.test")
ARGS = {"amount": 60000, "payee": "Initech", "card_number": "4111-1111"}


@dataclass
class World:
    """``alice`` is admin, ``bob`` and ``carol`` are approvers, ``dave`` is a member, ``erin`` an auditor."""

    organization: Organization
    alice: User
    bob: User
    carol: User
    dave: User
    erin: User
    channel: Channel
    agent: Agent
    policy: ApprovalPolicy

    def set_policy(self, **columns: Any) -> None:
        """Change the policy ``payments``."""
        ApprovalPolicy.objects.filter(pk=self.policy.pk).update(**columns)
        heads.inputs_changed(self.organization)

    def set_agent(self, **columns: Any) -> None:
        """Change the agent's draft and publish it."""
        Agent.objects.filter(pk=self.agent.pk).update(**columns)
        self.agent.refresh_from_db()
        make.publish(self.agent)

    def digest(self) -> str:
        """The digest of what the agent is served now."""
        revision = heads.head(self.agent).revision
        assert revision is not None
        return revision.digest

    def proposal(self, **fields: Any) -> NewRequest:
        """A payment as the runtime asks for it."""
        values: dict[str, Any] = {
            "conversation_id": "c7",
            "tool_call_id": f"call_{uuid.uuid4().hex[:8]}",
            "tool_name": "oa__purchase_pay",
            "tool_args": ARGS,
            "initiator": KIM,
            **fields,
        }
        if "registry_digest" not in values:
            values["registry_digest"] = self.digest()
        return NewRequest(**values)

    def ask(self, **fields: Any) -> ConfirmationRequest:
        """A new request."""
        row, is_new = confirmations.create(
            agent=self.agent, runtime="worker-1", request=self.proposal(**fields)
        )
        assert is_new
        return row

    def approve(self, row: ConfirmationRequest, user: User, **more: Any) -> ConfirmationRequest:
        """``user`` approves in the inbox."""
        return self.decide(row, user, "approve", **more)

    def reject(self, row: ConfirmationRequest, user: User, **more: Any) -> ConfirmationRequest:
        """``user`` rejects in the inbox."""
        return self.decide(row, user, "reject", **more)

    def decide(self, row: ConfirmationRequest, user: User, decision: str, **more: Any) -> ConfirmationRequest:
        """``user`` decides in the inbox."""
        return confirmations.decide(request_id=row.pk, voter=Voter(user=user), decision=decision, **more)

    def bind(self, user: User, external_id: str) -> Identity:
        """An account of the channel's app is ``user``."""
        return identities.bind(
            organization=self.organization, user=user, channel=self.channel, external_id=external_id
        )

    def tap(self, row: ConfirmationRequest, external_id: str, action: str, **more: Any) -> Reply:
        """The account taps a button of the request's card."""
        delivery = Delivery.objects.select_related("channel").get(topic=f"confirmation:{row.pk}")
        tap = Tap(
            event_id=str(uuid.uuid4()),
            message_id="om_1",
            chat_id="oc_1",
            external_id=external_id,
            action=action,
            ref=delivery.ref,
            **more,
        )
        identity = identities.find(delivery.channel.app, external_id)
        return ApprovalsTopic().tap(delivery=delivery, tap=tap, identity=identity)


def build() -> World:
    """A world whose agent sends its payments' cards to one chat."""
    organization = make.organization(time_zone="Asia/Seoul", approval_policy="default")
    people = {
        name: make.user(name, organization, role)
        for name, role in [
            ("alice", "admin"),
            ("bob", "approver"),
            ("carol", "approver"),
            ("dave", "member"),
            ("erin", "auditor"),
        ]
    }
    channel = make.channel(organization)
    make.connector(
        organization,
        purchase_pay={"requires_confirmation": True, "redact": ["card_number"]},
        purchase_read={"writes": False},
    )
    policy = make.policy(organization)
    agent = make.agent(organization, owner=people["dave"], approval_policy="payments", published=False)
    make.approval_channel(agent, channel)
    make.publish(agent)
    return World(organization=organization, channel=channel, agent=agent, policy=policy, **people)


def state(row: ConfirmationRequest) -> str:
    """The status as the database has it."""
    return ConfirmationRequest.objects.get(pk=row.pk).status


def counting(row: ConfirmationRequest) -> dict[str, bool]:
    """Whose votes count, as the resource says."""
    return {_voter(vote): vote.get("counts", True) for vote in confirmations.represent(row)["decisions"]}


def _voter(vote: DecisionEntry) -> str:
    if vote["user"] is not None:
        return vote["user"]
    assert vote["identity"] is not None
    return vote["identity"]["external_id"]
