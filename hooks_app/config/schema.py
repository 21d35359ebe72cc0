"""The config file's shape. Every model refuses unknown keys and coerces nothing; an omitted key has its default.

``docs/config.schema.json`` is :func:`json_schema`, written by ``manage.py export --schema``.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from hooks_app.config.agents_schema import Agent, Tool
from hooks_app.config.model import Model
from hooks_app.config.words import (
    ActionName,
    Condition,
    ConnectorSlug,
    Day,
    Email,
    ExternalId,
    Slug,
    TimeZone,
    UserName,
)

Scope = Literal["initiator", "agent_owner", "org_members", "approvers", "group", "channel_members"]
Seconds = Annotated[int, Field(ge=1, le=259_200)]
Quorum = Annotated[int, Field(ge=1, le=100)]


class Freshness(Model):
    """How old a registry may get in a runtime."""

    revalidate_after_seconds: int = Field(
        default=15, ge=1, le=3600, description="A runtime asks again after this time."
    )
    max_stale_seconds: int = Field(
        default=300, ge=15, le=86_400, description="An older registry runs no tool."
    )


class Identity(Model):
    """An account of a member in one chat app, or in a runtime."""

    channel: Slug = Field(description="A channel of the app, or `runtime` for a runtime's own user ids.")
    external_id: ExternalId = Field(description="The account as the platform names it.")
    name: str = Field("", max_length=200, description="What people see.")


class Member(Model):
    """A person of the organization. Makes the portal user if there is none of that name."""

    user: UserName = Field(description="The portal user name.")
    email: Email | None = Field(
        None, description="Matched with a request's initiator. Omitted: left as it is."
    )
    role: Literal["admin", "approver", "auditor", "member"] = Field(
        "member", description="What the person may do."
    )
    password: str | None = Field(
        None,
        min_length=1,
        max_length=4096,
        repr=False,
        description="Used when the user is made, never afterwards. `${NAME}` is replaced from the environment.",
    )
    existing: bool = Field(
        False, description="Somebody who has an account already is meant: invited, and a member on accepting."
    )
    identities: list[Identity] | None = Field(
        None, description="The person's chat accounts. Omitted: left as they are."
    )


class Group(Model):
    """A named set of members that a policy can name."""

    slug: Slug
    members: list[UserName] = Field(default_factory=list, description="User names; each is a member.")


class Absence(Model):
    """Days on which another member may decide in the place of one. Both dates count."""

    user: UserName
    first_day: Day = Field(alias="from")
    last_day: Day = Field(alias="until")
    substitute: UserName


class Channel(Model):
    """A bot in one chat, or for some people."""

    slug: Slug
    type: str = Field(
        min_length=1, max_length=32, description="feishu, slack, wecom, or an installed adapter's."
    )
    enabled: bool = True
    language: Literal["en", "ko", "zh-hans"] = Field("en", description="Language of the cards.")
    config: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="The adapter's own keys. In secrets `${NAME}` is replaced; with `apply --env` in all.",
    )


class EscalateTo(Model):
    """Where a request goes that nobody has decided: a channel or a group."""

    channel: Slug | None = None
    group: Slug | None = None


class Stage(Model):
    """One of several approvals in a row."""

    name: str = Field(min_length=1, max_length=64)
    scope: Scope = "approvers"
    group: Slug | None = None
    quorum: Quorum = 1
    timeout_seconds: Seconds | None = None


class Grants(Model):
    """Standing approvals that an approver may give."""

    allowed: bool = False
    max_uses: int = Field(default=10, ge=1, le=1_000_000)
    max_seconds: int = Field(default=3600, ge=1, le=31_536_000)


class ApprovalPolicy(Model):
    """Who may decide, how many must, and how long they have."""

    slug: Slug
    when: Condition | None = Field(
        None, description="CEL; the first policy in file order that matches holds."
    )
    scope: Scope = Field("approvers", description="Who may decide.")
    group: Slug | None = Field(None, description="With `scope: group`.")
    quorum: Quorum = Field(1, description="Approvals that are needed.")
    reject_quorum: Quorum = Field(1, description="Rejections that end it.")
    timeout_seconds: Seconds = Field(120, description="Time to decide.")
    start_by_seconds: Seconds = Field(300, description="An approval not used within this time lapses.")
    forbid_self_approval: bool = True
    require_known_initiator: bool = False
    allow_edit_args: bool = False
    require_reject_reason: bool = False
    remind_after_seconds: Seconds | None = None
    escalate_after_seconds: Seconds | None = None
    escalate_to: EscalateTo | None = None
    stages: list[Stage] = Field(default_factory=list, max_length=20)
    grants: Grants = Field(default_factory=Grants)
    sticky_denial_seconds: int = Field(600, ge=0, le=259_200)


class Action(Tool):
    """One action of a connector; `*` covers those without an entry of their own."""

    name: ActionName


class Connector(Model):
    """A system that tools act on: the part of a tool's name before the first `__`."""

    slug: ConnectorSlug
    actions: list[Action] = Field(default_factory=list)


class Organization(Model):
    """A tenant and everything in it."""

    slug: Slug
    name: str | None = Field(
        None, min_length=1, max_length=200, description="What people see; default: the slug."
    )
    time_zone: TimeZone = "UTC"
    read_only: bool | None = Field(None, description="Tools that write do not run. Omitted: left as it is.")
    halted: bool | None = Field(None, description="No tool runs. Omitted: left as it is.")
    approval_policy: Slug = Field("default", description="Holds where neither action nor agent names one.")
    freshness: Freshness = Field(default_factory=Freshness)
    retention_days: int | None = Field(
        None, ge=1, le=36_500, description="null keeps requests and calls for good."
    )
    members: list[Member] = Field(default_factory=list)
    groups: list[Group] = Field(default_factory=list)
    absences: list[Absence] = Field(default_factory=list)
    channels: list[Channel] = Field(default_factory=list)
    approval_policies: list[ApprovalPolicy] = Field(default_factory=list)
    connectors: list[Connector] = Field(default_factory=list)
    agents: list[Agent] = Field(default_factory=list)


class Document(Model):
    """A Hookgate config file."""

    api_version: Literal["hookgate/v1"] = Field(alias="apiVersion")
    organizations: list[Organization]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the config file, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Document.model_json_schema(by_alias=True),
        "title": "Hookgate config file",
    }
