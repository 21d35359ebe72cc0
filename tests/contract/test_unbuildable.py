"""Section 4.2: a registry that can't be built is an error for everyone who asks, with every reason."""

import uuid

import pytest
from hookgate import Runtime

from tests.contract.conftest import FILES, World
from tests.contract.outside import Api, codes, paths, refusal
from tests.contract.playing import play

# agent: the code that the contract names, or None where it names none; a word of the path
REASONS = {
    "unknown-hook": (None, "class_hooks[0]"),
    "wrong-case": (None, "class_hooks[0]"),
    "bad-parameter": (None, "max_calls"),
    "unknown-parameter": (None, "txet"),
    "text-for-number": (None, "max_chars"),
    "gate-parameter": (None, "quorum"),
    "bad-when": (None, "when"),
    "unknown-word": (None, "when"),
    "bad-gate-when": (None, "when"),
    "bad-matcher": (None, "matcher"),
    "tool-filter-elsewhere": (None, "tool_filter"),
    "command-handler": ("handler_unsupported", "PreToolUse[0].hooks[0]"),
    "http-handler": ("handler_unsupported", "PreToolUse[0].hooks[0]"),
    "switched-off-guard": ("protected_hook", "enabled"),
    "switched-off-log": ("protected_hook", "enabled"),
    "switched-off-gate": ("protected_hook", "enabled"),
    "switched-off-spelling": ("protected_hook", "enabled"),
    "filtered-guard": ("protected_hook", "tool_filter"),
    "lenient-log": ("protected_hook", "on_error"),
    "lenient-gate": ("protected_hook", "on_error"),
    "moved-gate": ("protected_hook", "priority"),
    "moved-guard": ("protected_hook", "priority"),
    "watching-guard": (None, "mode"),
    "watching-gate": (None, "mode"),
    "ambiguous": ("ambiguous_channel", ""),
    "whole-runs": ("not_available", "barrier"),
    "tap-nowhere": (None, ""),
    "tap-asleep": (None, ""),
}
BUILDABLE = ("fine", "allowed", "named-channel", "no-such-channel-type")


@pytest.fixture(scope="module")
def broken(world: World) -> Api:
    """The client of the organization whose registries are refused; the file itself is taken."""
    done = world.command("apply", str(FILES / "broken.yaml"))
    assert done.returncode == 0, done.stderr
    return Api(world.portal.url, world.command("issue_key", "--org", "broken").stdout.strip())


@pytest.mark.parametrize("agent", REASONS)
def test_the_reason_is_named(broken: Api, agent: str) -> None:
    code, where = REASONS[agent]
    answer = broken.get(f"/agents/{agent}/registry")
    assert refusal(answer) == (422, "registry_unbuildable"), answer.text
    assert any(where in path for path in paths(answer)), answer.text
    assert all(error["message"] for error in answer.json()["errors"])
    if code:
        assert code in codes(answer)


@pytest.mark.parametrize("agent", BUILDABLE)
def test_these_can_be_built(broken: Api, agent: str) -> None:
    answer = broken.get(f"/agents/{agent}/registry")
    assert answer.status_code == 200, answer.text


def test_every_reason_is_named(world: World, broken: Api) -> None:
    answer = broken.get("/agents/several/registry")
    found = " ".join(paths(answer))
    for where in ("class_hooks[0]", "class_hooks[1].when", "class_hooks[2].enabled"):
        assert where in found
    printed = world.command("build_registry", "broken/several")
    assert printed.returncode == 1
    assert printed.stdout == ""
    for where in paths(answer):
        assert where in printed.stderr


def test_nobody_gets_such_a_registry(world: World, broken: Api) -> None:
    for surface in ("api", "dag", "subagent", "workflow"):
        assert broken.get("/agents/unknown-hook/registry", surface=surface).status_code == 422
    refused = broken.get("/agents/unknown-hook/registry", headers={"If-None-Match": "*"})
    assert refused.status_code == 422
    body = broken.request("unknown-hook", "oa__pay", registry_digest="sha256:" + "0" * 64)
    assert refusal(broken.post("/confirmations", body)) == (422, "registry_unbuildable")
    limit = {
        "agent": "unknown-hook",
        "hook": str(uuid.uuid4()),
        "connector": "oa",
        "user": None,
        "call": str(uuid.uuid4()),
    }
    assert refusal(broken.post("/limits/acquire", limit)) == (422, "registry_unbuildable")


def test_a_runtime_stops_at_once(world: World, broken: Api) -> None:
    ran: list[object] = []

    async def scene() -> None:
        key = broken.http.headers["authorization"].removeprefix("Bearer ")
        async with (
            Runtime(world.portal.url, key, name="r") as runtime,
            runtime.session("unknown-hook") as session,
        ):
            outcome = await session.call_tool("oa__read", {}, execute=ran.append)
            assert outcome.blocked
            assert "no_such_hook" in outcome.observation or "registry" in outcome.observation

    play(scene())
    assert ran == []


def test_a_policy_or_channel_that_is_gone_breaks_what_named_it(world: World) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: gone
    name: Gone
    members: [{user: alice, role: admin}]
    approval_policies: [%s]
    agents:
      - {slug: agent, name: Agent, owner: alice, approval_policy: %s}
"""
    assert world.apply(text % ("{slug: short}", "short")).returncode == 0
    refused = world.apply(text % ("", "short"))
    pruned = world.command("apply", str(world.portal.folder / "given.yaml"), "--prune")
    # Either the file is refused while something names the policy, or the registry is.
    if refused.returncode == 0 and pruned.returncode == 0:
        key = Api(world.portal.url, world.command("issue_key", "--org", "gone").stdout.strip())
        assert refusal(key.get("/agents/agent/registry")) == (422, "registry_unbuildable")
    else:
        assert "short" in refused.stderr + pruned.stderr
