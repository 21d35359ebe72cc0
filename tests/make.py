"""Rows for tests, with as few words as the test's point needs."""

from typing import Any

from channels_app.models import App, Channel
from hooks_app import keys
from hooks_app.models import (
    Action,
    Agent,
    AgentTool,
    ApprovalChannel,
    ApprovalPolicy,
    Connector,
    Declaration,
    Publication,
)
from hooks_app.registry import publishing
from portal import audit
from portal.models import Membership, Organization, User

FEISHU = {
    "app_id": "cli_1",
    "app_secret": "app-secret",
    "chat_id": "oc_1",
    "encrypt_key": "encrypt-key",
    "verification_token": "verification-token",
    "base_url": "https://open.feishu.cn",
}


def organization(slug: str = "acme", **columns: Any) -> Organization:
    """An organization."""
    return Organization.objects.create(slug=slug, name=columns.pop("name", slug.title()), **columns)


def user(name: str, organization: Organization | None = None, role: str = "approver", **columns: Any) -> User:
    """A person, a member of ``organization`` if one is given."""
    row = User.objects.create_user(name, email=columns.pop("email", f"{name}@acme.test"), **columns)
    if organization is not None:
        Membership.objects.create(organization=organization, user=row, role=role)
    return row


def agent(
    organization: Organization, slug: str = "procurement", *, published: bool = True, **columns: Any
) -> Agent:
    """An agent; its draft is published unless a test wants to add to it first."""
    row = Agent.objects.create(
        organization=organization, slug=slug, name=columns.pop("name", slug.title()), **columns
    )
    if published:
        publish(row)
    return row


def publish(agent: Agent) -> Publication:
    """Publish an agent's draft from the shell."""
    return publishing.publish(agent=agent, actor=audit.SHELL, allow_unbuildable=True)


def class_hook(agent: Agent, name: str, **columns: Any) -> Declaration:
    """One more entry of the agent's ``class_hooks``."""
    columns.setdefault("position", agent.declarations.count())
    return Declaration.objects.create(agent=agent, name=name, **columns)


def handler(agent: Agent, event: str, handler: Any, *, group: int = 0, **columns: Any) -> Declaration:
    """One more handler of the agent's ``events``."""
    columns.setdefault("position", agent.declarations.count())
    return Declaration.objects.create(
        agent=agent, source="events", event=event, handler=handler, group_index=group, **columns
    )


def tool(agent: Agent, name: str, **columns: Any) -> AgentTool:
    """A tool of the agent's own."""
    columns.setdefault("position", agent.tools.count())
    return AgentTool.objects.create(agent=agent, name=name, **columns)


def connector(organization: Organization, slug: str = "oa", **actions: dict[str, Any]) -> Connector:
    """A connector; each keyword is an action, ``star`` is ``*``."""
    row = Connector.objects.create(organization=organization, slug=slug)
    for name, columns in actions.items():
        Action.objects.create(connector=row, name="*" if name == "star" else name, **columns)
    return row


def policy(organization: Organization, slug: str = "payments", **columns: Any) -> ApprovalPolicy:
    """An approval policy."""
    return ApprovalPolicy.objects.create(organization=organization, slug=slug, **columns)


def channel(
    organization: Organization,
    slug: str = "ops-feishu",
    *,
    type: str = "feishu",
    config: dict[str, Any] | None = None,
    **columns: Any,
) -> Channel:
    """A channel and its app, as rows; nobody has asked the platform anything."""
    settings: Any = {**FEISHU, **(config or {})}
    app, _ = App.objects.get_or_create(organization=organization, type=type, key=settings["app_id"])
    return Channel.objects.create(
        organization=organization, app=app, slug=slug, type=type, config=settings, **columns
    )


def approval_channel(agent: Agent, channel: Channel) -> None:
    """One more of the agent's ``approval_channels``."""
    ApprovalChannel.objects.create(agent=agent, channel=channel, position=agent.approval_channel_rows.count())


def key(organization: Organization, agent: Agent | None = None, **more: Any) -> str:
    """The plain text of a new runtime key."""
    return keys.issue(organization=organization, agent=agent, actor=audit.SHELL, **more)[1]
