"""The bodies and query parameters that the API takes."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, StringConstraints, TypeAdapter

from hooks_app import json_schemas
from hooks_app.api.fields import (
    Address,
    AgentReference,
    Body,
    CallId,
    Digest,
    Email,
    IJson,
    LoggedId,
    LongText,
    Moment,
    Name,
    Note,
    Object,
    PersonId,
    ReadQueryWhole,
    ReadWhole,
    SlugReference,
    Text,
    Uuid,
)
from portal.api import pagination

Surface = Literal["chat", "api", "dag", "subagent", "workflow", "eval"]
ConfirmationStatus = Literal["pending", "approved", "rejected", "expired", "cancelled", "undeliverable"]
CallStatus = Literal["succeeded", "failed", "blocked", "timed_out", "cancelled", "unknown"]
Limit = Annotated[int, Field(ge=1, le=pagination.LARGEST_PAGE), ReadQueryWhole]
Cursor = Annotated[str, StringConstraints(max_length=500)]


class Nothing(Body):
    """A call without a body; an empty object is fine too."""


class RegistryQuery(Body):
    """Which registry is asked for."""

    surface: Surface = "chat"


class PageQuery(Body):
    """Where in a list."""

    cursor: Cursor | None = Field(None, description="`next` of the page before.")
    limit: Limit = Field(pagination.PAGE_SIZE, description="Entries per page.")


class ConfirmationQuery(PageQuery):
    """Which confirmation requests."""

    status: ConfirmationStatus | None = Field(
        None, description="As it reads now: an overdue pending request is `expired`."
    )
    agent: AgentReference | None = Field(None, description="Slug or id of an agent.")


class WaitQuery(Body):
    """How long to wait for a decision."""

    wait: Annotated[int, Field(ge=0, le=60), ReadQueryWhole] = Field(
        0, description="Seconds to wait while the request is pending."
    )


class CallQuery(PageQuery):
    """Which entries of the call log."""

    agent: AgentReference | None = Field(None, description="Slug or id of an agent.")
    tool: Name | None = Field(None, description="Exact name of a tool.")
    status: CallStatus | None = None
    user: Name | None = Field(None, description="Id, e-mail address or name of the end user.")
    hook: Name | None = Field(None, description="A hook that blocked the call or is in its trace.")
    from_: Moment | None = Field(None, alias="from", description="Started at this time or later.")
    to: Moment | None = Field(None, description="Started before this time.")


class Tool(Body):
    """One tool that a runtime has."""

    name: Name
    description: LongText = ""
    input_schema: Annotated[Object, AfterValidator(json_schemas.check)] | None = None


class ToolReport(Body):
    """All tools that a runtime has; replaces what it reported before."""

    tools: list[Tool] = Field(max_length=2000)


class InitiatorFacts(Body):
    """The end user for whom the agent acts."""

    id: PersonId
    name: Text | None = None
    email: Address | None = None


class NewConfirmation(Body):
    """A tool call that waits for people."""

    agent: AgentReference = Field(description="Slug or id.")
    conversation_id: CallId
    tool_call_id: CallId = Field(
        description="Of more than 200 characters the first 135, `~` and the SHA-256 in hex are shown and compared."
    )
    tool_name: Name
    tool_args: Object = Field(description="I-JSON, at most 32 levels deep and 256 KiB in canonical form.")
    hook: Annotated[Name, StringConstraints(max_length=100)] = "approval_gate"
    registry_digest: Digest = Field(description="`digest` of the manifest that the runtime holds.")
    initiator: InitiatorFacts | None = None
    summary: Note | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=259_200), ReadWhole] | None = Field(
        None, description="Shortens the policy's time; never lengthens it."
    )
    channel: SlugReference | None = Field(None, description="A channel that a declared gate entry names.")
    policy: SlugReference | None = Field(None, description="A policy that a declared gate entry names.")
    parent: Uuid | None = Field(
        None, description="The confirmation request on whose behalf this one is made."
    )


class Response(Body):
    """A person's decision."""

    decision: Literal["approve", "reject"]
    reason: Note | None = None
    args: Object | None = Field(None, description="Edited arguments; this release refuses them.")


class Consumption(Body):
    """The single use of an approval."""

    args_digest: Digest = Field(description="Of the arguments that are about to run.")
    attempt: Uuid = Field(description="Made by the runtime for this one call.")


class Outcome(Body):
    """How the approved call ended."""

    status: Literal["succeeded", "failed", "unknown"]
    detail: Note | None = None


class CallUser(Body):
    """The end user of a call."""

    id: Text | None = None
    name: Text | None = None
    email: Email | None = None


_USER_ID: TypeAdapter[str] = TypeAdapter(Text)


def _read_call_user(value: Any) -> Any:
    # Not a plain union, whose errors would speak of both forms: the form that was sent is the one to mend.
    if isinstance(value, str):
        return _USER_ID.validate_python(value, strict=True)
    return None if value is None else CallUser.model_validate(value)


class Call(Body):
    """One tool call, as its runtime saw it."""

    id: Uuid
    agent: AgentReference = Field(description="Slug or id.")
    session_id: Text | None = None
    conversation_id: LoggedId | None = None
    tool_call_id: LoggedId | None = None
    tool_name: Name
    user: Annotated[
        CallUser | str | None, PlainValidator(_read_call_user, json_schema_input_type=CallUser | Text | None)
    ] = Field(None, description="The end user, or only their id.")
    surface: Surface | None = None
    status: CallStatus
    blocked_by: Annotated[Text, StringConstraints(max_length=100)] | None = None
    reason: LongText | None = None
    error: LongText | None = None
    started_at: Moment
    duration_ms: Annotated[float, Field(ge=0, le=1e12)] | None = None
    args: IJson = Field(None, description="Redacted by the runtime.")
    args_digest: Digest | None = None
    result_bytes: Annotated[int, Field(ge=0, le=2**53 - 1), ReadWhole] | None = None
    result: IJson = Field(
        None, description="Redacted and shortened by the runtime; only where `audit_log` keeps results."
    )
    confirmation_id: Uuid | None = None
    registry_digest: Digest | None = None
    trace: list[Object] = Field(default_factory=list, max_length=1000)
    side_effects: list[IJson] = Field(default_factory=list, max_length=1000)


class CallBatch(Body):
    """Entries for the call log: all are stored, or none."""

    calls: list[Call] = Field(min_length=1, max_length=1000)


class Acquisition(Body):
    """One call that counts against a declared limit."""

    agent: AgentReference = Field(description="Slug or id.")
    hook: Uuid = Field(description="Id of a `connector_rate_limit` hook in the manifest.")
    connector: Name
    user: Text | None = Field(None, description="Id of the end user; the limit is per user.")
    call: Uuid = Field(description="Made by the runtime for this one call; a repeated one counts once.")


class Message(Body):
    """A plain notice to a channel."""

    text: Annotated[LongText, StringConstraints(min_length=1, max_length=4000)]
    agent: AgentReference = Field(description="Slug or id of the agent that speaks.")
