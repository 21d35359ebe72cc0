"""Section 5, "Which hooks run": filters, matchers, conditions and ``should_trigger``."""

import json
from typing import Any

import pytest
from hookgate import Hook, HookContext, HookEvent, HookResult

from tests.contract.conftest import World
from tests.contract.outside import KIM
from tests.contract.playing import Scene, Seen, Tool, play

PREFIXES = ["tests.contract."]


def ran(trace: list[Any], name: str) -> list[str]:
    """The outcomes of one hook in a trace."""
    return [part["outcome"] for part in trace if part["hook"] == name]


def test_a_tool_filter_is_a_glob_that_minds_case_and_holds_at_tool_points_only(hooked: World) -> None:
    filtered = {
        pattern: Seen(name=pattern, tool_filter=pattern)
        for pattern in ("oa__*", "OA__*", "oa__rea?", "oa__[rw]*", "oa__read", "oa__rea", "*")
    }
    points = (HookEvent.PRE_TOOL_USE, HookEvent.USER_PROMPT_SUBMIT)
    everywhere = Seen(name="everywhere", tool_filter="oa__*", points=points)

    async def scene() -> None:
        async with Scene(hooked, key="hooked") as at, at.session("counted") as session:
            for hook in (*filtered.values(), everywhere):
                session.hooks.register(hook)
            await session.call_tool("oa__read", {}, execute=Tool())
            await session.emit("UserPromptSubmit", prompt="hello")

    play(scene())
    triggered = {pattern for pattern, hook in filtered.items() if hook.contexts}
    assert triggered == {"oa__*", "oa__rea?", "oa__[rw]*", "oa__read", "*"}
    assert [str(ctx.event) for ctx in everywhere.contexts] == ["PreToolUse", "UserPromptSubmit"]


# The handlers of the agent `matched` by their places, and the tools that their matchers let through.
ALL = {"oa__write", "oa__read", "oa__pay", "write"}
MATCHES = {
    "PreToolUse[0].hooks[0]": ALL,
    "PreToolUse[0].hooks[1]": ALL,
    "PreToolUse[1].hooks[0]": ALL,
    "PreToolUse[2].hooks[0]": ALL,
    "PreToolUse[3].hooks[0]": {"oa__write"},
    "PreToolUse[4].hooks[0]": {"oa__read", "oa__write"},
    "PreToolUse[5].hooks[0]": set(),
    "PreToolUse[6].hooks[0]": {"oa__write", "oa__read", "oa__pay"},
    "PreToolUse[7].hooks[0]": {"write"},
    "PreToolUse[8].hooks[0]": {"oa__write", "write"},
    "PreToolUse[9].hooks[0]": set(),
}


def test_the_forms_of_a_matcher_and_the_order_of_equal_priorities(hooked: World) -> None:
    async def scene() -> dict[str, list[Any]]:
        async with (
            Scene(hooked, key="hooked", python_handlers=PREFIXES) as at,
            at.session("matched") as session,
        ):
            traces = {}
            for tool in sorted(ALL):
                asked = await session.emit("PreToolUse", tool_name=tool, tool_args={})
                traces[tool] = asked.trace
            return traces

    traces = play(scene())
    for tool, trace in traces.items():
        handlers = [part["hook"] for part in trace if part["hook"].startswith("PreToolUse")]
        assert handlers == [name for name, tools in MATCHES.items() if tool in tools], tool


class Recorder(Hook):
    """Says no in `should_trigger`, and remembers that it was asked."""

    points = (HookEvent.PRE_TOOL_USE,)

    def __init__(self, name: str, priority: int, tool_filter: str | None = None) -> None:
        self.name, self.priority, self.tool_filter = name, priority, tool_filter
        self.asked: list[dict[str, Any]] = []
        self.ran = 0
        self.wants = False

    def should_trigger(self, ctx: HookContext) -> bool:
        self.asked.append(ctx.tool_args)
        return self.wants

    async def execute(self, ctx: HookContext) -> HookResult:
        self.ran += 1
        return HookResult()


def test_each_must_say_yes_in_turn_on_the_arguments_as_rewritten_so_far(hooked: World) -> None:
    rewrite = Seen(name="rewrite", priority=5)
    rewrite.answer = HookResult(modified_args={"amount": 100})
    before, after = Recorder("before", 1), Recorder("after", 600)
    elsewhere = Recorder("elsewhere", 600, tool_filter="mail__*")
    after.wants = elsewhere.wants = True

    async def scene() -> tuple[Any, Any]:
        async with Scene(hooked, key="hooked") as at, at.session("counted") as session:
            few = await session.call_tool("oa__write", {"amount": 1}, execute=Tool())
            for hook in (after, elsewhere, before, rewrite):
                session.hooks.register(hook)
            return few, await session.call_tool("oa__write", {"amount": 1}, execute=Tool())

    few, many = play(scene())
    # The condition is `args.amount > 5`; the rewriting hook comes before it.
    assert ran(few.trace, "connector_rate_limit") == []
    assert ran(many.trace, "connector_rate_limit") == ["allowed"]
    assert (before.asked, before.ran) == ([{"amount": 1}], 0)
    assert (after.asked, after.ran) == ([{"amount": 100}], 1)
    # A filter that says no leaves `should_trigger` unasked.
    assert (elsewhere.asked, elsewhere.ran) == ([], 0)
    assert ran(many.trace, "before") == []


@pytest.mark.parametrize(("agent", "outcomes"), [
    ("counted", ["condition_failed_ran", "allowed"]), ("relaxed", ["condition_failed_skipped"])])  # fmt: skip
def test_a_condition_that_fails_matches_under_deny_only_and_is_traced(
    hooked: World, agent: str, outcomes: list[str]
) -> None:
    async def scene() -> list[Any]:
        async with Scene(hooked, key="hooked") as at, at.session(agent) as session:
            return [
                await session.call_tool("oa__write", args, execute=Tool())
                for args in ({"amount": "much"}, {}, {"amount": 6}, {"amount": 5})
            ]

    wrong, missing, more, less = play(scene())
    for outcome in (wrong, missing):
        assert ran(outcome.trace, "connector_rate_limit") == outcomes
        assert not outcome.blocked
    assert ran(more.trace, "connector_rate_limit") == ["allowed"]
    assert ran(less.trace, "connector_rate_limit") == []


# A condition, and at how many points it holds: of a call that works, of one that fails, and of a prompt.
TOOL = (
    "tool.name == 'oa__write' && tool.connector == 'oa' && tool.action == 'write'"
    " && tool.writes && !tool.requires_confirmation"
)
AGENT = "agent.slug == 'when-6' && agent.organization == 'conditions' && size(agent.id) == 36"
CONDITIONS = [
    ("event == 'PostToolUse' || event == 'UserPromptSubmit'", (1, 0, 1)),
    (TOOL, (2, 2, 0)),
    ("tool == null", (0, 0, 1)),
    ("args.amount == 5", (2, 2, 0)),
    ("result != null && result.n == 7", (1, 0, 0)),
    ("error != null && error.contains('no money')", (0, 1, 0)),
    (AGENT, (2, 2, 1)),
    ("user.id == 'u42' && user.name == 'Kim' && user.email == 'kim@acme.test'", (2, 2, 1)),
    ("user == null", (0, 0, 0)),
    ("surface == 'api'", (2, 2, 1)),
    ("metadata.conversation_id == 'c-when' && metadata.org_id != ''", (2, 2, 1)),
    ("metadata.tool_call_id == 't-when'", (2, 2, 0)),
    ("false", (0, 0, 0)),
    # Not boolean, and `notify` lets failures pass: no match.
    ("args.amount", (0, 0, 0)),
]
WATCHED = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit")


def declare(when: str) -> dict[str, Any]:
    """A hook that does nothing but be traced, under a condition."""
    params = {"channel": "room", "text": "x", "points": WATCHED}
    return {"name": "notify", "mode": "observe", "when": when, "params": params}


def watchers() -> str:
    """A config file with an agent for each condition."""
    app = {"app_id": "cli_1", "app_secret": "${WORLD_APP_SECRET}", "chat_id": "oc_2", "base_url": "${WORLD_PLATFORM}",
           "encrypt_key": "${WORLD_ENCRYPT_KEY}", "verification_token": "${WORLD_TOKEN}"}  # fmt: skip
    agents = [
        {"slug": f"when-{number}", "name": "W", "owner": "alice", "hooks": {"class_hooks": [declare(when)]}}
        for number, (when, _) in enumerate(CONDITIONS)
    ]
    organization = {
        "slug": "conditions", "name": "Conditions", "agents": agents,
        "members": [{"user": "alice", "role": "admin"}],
        "channels": [{"slug": "room", "type": "feishu", "config": app}],
        "connectors": [{"slug": "oa", "actions": [{"name": "write"}]}],
    }  # fmt: skip
    return json.dumps({"apiVersion": "hookgate/v1", "organizations": [organization]})


async def watch(at: Scene, agent: str, user: Any = KIM) -> tuple[int, int, int]:
    """At how many points the agent's only hook of its own ran."""
    async with at.session(agent, surface="api", user=user, conversation_id="c-when") as session:

        async def call(tool: Tool) -> int:
            outcome = await session.call_tool("oa__write", {"amount": 5}, execute=tool, tool_call_id="t-when")
            return ran(outcome.trace, "notify").count("would_allow")

        worked, failed = await call(Tool({"n": 7})), await call(Tool(RuntimeError("no money")))
        prompted = await session.emit("UserPromptSubmit", prompt="hello")
        return worked, failed, ran(prompted.trace, "notify").count("would_allow")


def test_every_variable_of_a_condition(world: World) -> None:
    done = world.apply(watchers())
    assert done.returncode == 0, done.stderr
    world.issued["conditions"] = world.command("issue_key", "--org", "conditions").stdout.strip()

    async def scene() -> tuple[list[Any], Any]:
        async with Scene(world, key="conditions") as at:
            known = [await watch(at, f"when-{number}") for number in range(len(CONDITIONS))]
            return known, await watch(at, "when-8", user=None)

    known, unknown = play(scene())
    assert {when: count for (when, _), count in zip(CONDITIONS, known, strict=True)} == dict(CONDITIONS)
    assert unknown == (2, 2, 1)
