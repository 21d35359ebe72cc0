"""The config file's shape, continued: agents, their tools and their hooks."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import CoreSchema

from hooks_app.config.model import Model
from hooks_app.config.words import HandlerTarget, RedactedPath, Slug, ToolName, UserName, check_schema

Point = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PermissionDenied",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Notification",
    "SessionEnd",
]


class AgentFreshness(Model):
    """How old this agent's registry may get; what is omitted is the organization's."""

    revalidate_after_seconds: int | None = Field(default=None, ge=1, le=3600)
    max_stale_seconds: int | None = Field(default=None, ge=15, le=86_400)


class Tool(Model):
    """What the gate must know of a tool."""

    name: ToolName
    description: str = Field("", max_length=10_000)
    writes: bool = Field(True, description="Changes something outside; stopped by read-only mode.")
    requires_confirmation: bool = Field(False, description="People decide before it runs.")
    policy: Slug | None = Field(None, description="Approval policy; null: the agent's holds.")
    redact: list[RedactedPath] = Field(
        default_factory=list, max_length=100, description="Argument paths that nobody is shown."
    )
    input_schema: Annotated[dict[str, Any], AfterValidator(check_schema)] | None = Field(
        None, alias="schema", description="JSON Schema of the arguments."
    )


class ClassHook(Model):
    """A built-in hook. Its bare name takes every default."""

    name: str = Field(min_length=1, max_length=64, description="A name of the catalogue.")
    tool_filter: str | None = Field(None, max_length=300, description="Glob over tool names.")
    when: str | None = Field(None, max_length=4096, description="CEL; the hook runs where it is true.")
    priority: int | None = Field(
        default=None, ge=0, le=899, description="Ascending; default: the catalogue's."
    )
    on_error: Literal["deny", "allow"] | None = Field(None, description="What an error of the hook means.")
    timeout_seconds: float | None = Field(None, gt=0, le=86_400)
    enabled: bool = True
    mode: Literal["enforce", "observe"] = Field("enforce", description="observe: runs, changes nothing.")
    allow_unmatched: bool = Field(
        False, description="Gate entries: publish although tool_filter matches no known tool."
    )
    params: dict[str, Any] = Field(default_factory=dict, description="The hook's own parameters.")

    @model_validator(mode="before")
    @classmethod
    def _read_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        written = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 64}, written]}


class PythonHandler(Model):
    """A function in the runtime's own process."""

    type: Literal["python"]
    target: HandlerTarget
    timeout: float | None = Field(None, gt=0, le=86_400)


def _read_handler(value: Any, validate: Any) -> dict[str, Any]:
    handler: dict[str, Any] = validate(value)
    if handler.get("type") == "python":
        PythonHandler.model_validate(handler)
    else:
        HandlerHead.model_validate(handler)
    return handler


class HandlerHead(BaseModel):
    """What every handler has, whatever else its type takes."""

    model_config = ConfigDict(extra="allow", strict=True, hide_input_in_errors=True)

    type: str = Field(min_length=1, max_length=64)


Handler = Annotated[
    dict[str, Any],
    WrapValidator(_read_handler),
    WithJsonSchema(
        {
            "type": "object",
            "description": "A user-defined handler, stored as written. This release runs `type: python`.",
            "required": ["type"],
            "properties": {"type": {"type": "string", "minLength": 1, "maxLength": 64}},
            "if": {"properties": {"type": {"const": "python"}}},
            "then": PythonHandler.model_json_schema(),
        }
    ),
]


class HandlerGroup(Model):
    """Handlers with one matcher, in the shape of hooks.json."""

    matcher: str | None = Field(
        None, max_length=500, description="Empty or * is everything; a name, a|b, or a regex."
    )
    hooks: list[Handler] = Field(min_length=1)


class Hooks(Model):
    """What an agent runs outside its loop."""

    class_hooks: list[ClassHook] = Field(default_factory=list, description="Built-in hooks, in order.")
    events: dict[Point, list[HandlerGroup]] = Field(
        default_factory=dict, description="Own handlers by hook point."
    )


class ModelConfig(BaseModel):
    """FIM One's spelling: only `hooks` is read."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)

    hooks: Hooks = Field(default_factory=Hooks)


class Agent(Model):
    """An LLM program with its own hooks."""

    slug: Slug
    name: str | None = Field(
        None, min_length=1, max_length=200, description="What people see; default: the slug."
    )
    enabled: bool = True
    owner: UserName | None = Field(None, description="A member.")
    halted: bool | None = Field(None, description="No tool of it runs. Omitted: left as it is.")
    protected: bool = Field(False, description="Keeps the draft from being published while it is on.")
    confirmation_mode: Literal["auto", "channel_only", "inline_only"] = "auto"
    approval_channels: list[Slug] = Field(default_factory=list, description="Cards go to all of them.")
    fallback_channels: list[Slug] = Field(
        default_factory=list, description="Used when none of those can be reached."
    )
    require_confirmation_for_all: bool = False
    approval_policy: Slug | None = Field(None, description="null: the organization's.")
    unlisted_tools: Literal["allow", "confirm", "deny"] = "confirm"
    tools: list[Tool] = Field(default_factory=list, description="Tools without a connector.")
    may_delegate_to: list[Slug] = Field(default_factory=list, description="Agents.")
    max_pending: int = Field(20, ge=1, le=10_000)
    barrier: Literal["call", "run"] = "call"
    freshness: AgentFreshness = Field(default_factory=AgentFreshness)
    hooks: Hooks | None = None
    model_config_json: ModelConfig | None = Field(None, description="In place of `hooks`.")

    def declared_hooks(self) -> Hooks:
        """The hooks, whichever way they are written."""
        if self.model_config_json is not None:
            return self.model_config_json.hooks
        return self.hooks or Hooks()
