"""The documents that the API answers with, as they are described in OpenAPI.

Nothing is built from these models: they are what the tests hold every answer against.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from hooks_app.api.requests import CallStatus, ConfirmationStatus, Surface

Uuid = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
Object = dict[str, Any]


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(extra="allow")


class ProblemField(Answer):
    """One field at fault."""

    path: str
    code: str
    message: str


class Problem(Answer):
    """Why the request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemField] | None = None


class RegistryAgent(Answer):
    """Whose registry it is."""

    id: Uuid
    slug: str
    organization: str


class RegistryState(Answer):
    """The switches that hold now."""

    read_only: bool
    halted: bool
    reason: str | None
    until: Moment | None


class Freshness(Answer):
    """How long a manifest may be used, in seconds."""

    revalidate_after_seconds: int
    max_stale_seconds: int


class ManifestTool(Answer):
    """A tool that the registry lists."""

    name: str
    connector: str | None
    writes: bool
    requires_confirmation: bool
    redact: list[str]


class ManifestHook(Answer):
    """A hook that the agent runs."""

    id: str
    name: str
    points: list[str]
    priority: int
    tool_filter: str | None
    matcher: str | None
    when: str | None
    on_error: Literal["deny", "allow"]
    mode: Literal["enforce", "observe"]
    timeout_seconds: float | None
    params: Object
    handler: Object | None
    source: Literal["auto", "class_hooks", "events"]


class Manifest(Answer):
    """Everything that an agent runs."""

    schema_: Literal["hookgate.registry/1"] = Field(alias="schema")
    agent: RegistryAgent
    surface: Surface
    revision: int
    digest: str
    bypass: bool
    state: RegistryState
    freshness: Freshness
    unlisted_tools: Literal["allow", "confirm", "deny"]
    require_confirmation_for_all: bool
    may_delegate_to: list[str]
    tools: list[ManifestTool]
    hooks: list[ManifestHook]


class RevisionSummary(Answer):
    """One revision, without its manifest."""

    number: int
    created_at: Moment
    author: str
    comment: str
    digest: str


class Revision(RevisionSummary):
    """One revision with its manifest, as it is stored: without state and surface."""

    manifest: Object


class RevisionPage(Answer):
    """Revisions, newest first."""

    results: list[RevisionSummary]
    next: str | None


class Initiator(Answer):
    """The end user for whom the agent acts."""

    id: str | None
    name: str | None = None
    email: str | None = None


class DecisionIdentity(Answer):
    """The account that tapped."""

    channel: str
    external_id: str
    name: str


class DecisionEntry(Answer):
    """One person's decision."""

    decision: Literal["approve", "reject"]
    user: str | None
    identity: DecisionIdentity | None
    reason: str | None
    at: Moment
    counts: bool = Field(
        default=True,
        description="Only where false: at the last vote, whoever cast it might no longer decide.",
    )


class DeliveryEntry(Answer):
    """One card and how far it got."""

    channel: str
    recipient: str
    status: Literal["queued", "sending", "sent", "unknown", "failed", "superseded"]
    attempts: int
    last_error: str | None


class PolicyFacts(Answer):
    """The policy that the request froze."""

    slug: str
    scope: str
    quorum: int


class Confirmation(Answer):
    """A confirmation request."""

    id: Uuid
    status: ConfirmationStatus
    agent: str
    conversation_id: str
    tool_call_id: str
    tool_name: str
    tool_args: Object | None = Field(description="Redacted; null in lists.")
    excerpt: str | None = Field(
        description="The first 160 characters of the redacted arguments as canonical JSON, as asked."
    )
    requested_digest: str | None = Field(
        description="Null for people where a part of the arguments is redacted; so is `args_digest`."
    )
    args_digest: str | None
    args_tag: str = Field(description="Of the arguments: the same tag, the same arguments.")
    approved_args: Object | None = Field(description="Null in lists.")
    hook: str
    initiator: Initiator | None
    initiator_matched: bool = Field(description="Whether the initiator is known to the portal.")
    summary: str | None
    mode: Literal["auto", "channel_only", "inline_only"]
    policy: PolicyFacts
    stage: Any
    decisions: list[DecisionEntry]
    created_at: Moment
    expires_at: Moment
    ended_at: Moment | None
    reason: str | None
    refused_by: str | None
    grant: Uuid | None
    start_by: Moment | None
    consumed_at: Moment | None
    outcome: Literal["succeeded", "failed", "unknown"] | None
    outcome_detail: str | None
    outcome_at: Moment | None
    deliveries: list[DeliveryEntry]


class ConfirmationPage(Answer):
    """Confirmation requests, newest first."""

    results: list[Confirmation]
    next: str | None


class BatchReceipt(Answer):
    """How many entries were new, or final where `unknown` was stored, and how many changed nothing."""

    accepted: int
    duplicates: int


class CallEntry(Answer):
    """One entry of the call log."""

    id: Uuid
    agent: str
    session_id: str | None
    conversation_id: str | None
    tool_call_id: str | None
    tool_name: str
    user: Object | str | None
    surface: Surface | None
    status: CallStatus
    blocked_by: str | None
    reason: str | None
    error: str | None
    started_at: Moment
    duration_ms: float | None
    args: Any
    args_digest: str | None
    args_tag: str | None
    result_bytes: int | None
    result: Any
    confirmation_id: Uuid | None
    registry_digest: str | None
    trace: list[Object]
    side_effects: list[Any]


class CallPage(Answer):
    """Entries of the call log, newest first."""

    results: list[CallEntry]
    next: str | None


class LimitAnswer(Answer):
    """Whether the call may go on."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_seconds: float


class MessageReceipt(Answer):
    """The notice is in the outbox."""

    id: Uuid
    recipients: int
