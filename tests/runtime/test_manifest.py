"""What a runtime accepts as a registry."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hookgate.canonical import digest
from hookgate.registry.manifest import ManifestInvalid, manifest_digest, parse
from hookgate.spec import Handler

from tests.runtime.documents import attached, evaluation, handler, hook, manifest, seal, switched

CAP = "acme.hooks:cap"


def test_a_manifest_is_read_as_it_stands() -> None:
    document = manifest(
        hook("connector_rate_limit", tool_filter="oa__*", when="args.amount > 1"), handler(CAP)
    )
    parsed = parse(document)
    assert (parsed.agent.slug, parsed.surface, parsed.revision, parsed.unlisted_tools) == (
        "procurement", "chat", 1, "confirm",
    )  # fmt: skip
    limit = parsed.hooks[0]
    assert limit.matches_tool is not None
    assert limit.matches_tool("oa__x")
    assert limit.params == {"max_calls": 10, "window_seconds": 60}
    assert (parsed.hooks[1].on_error, parsed.hooks[1].handler) == (
        "deny",
        Handler("python", CAP, 5.0),
    )
    assert parse(manifest(handler(CAP, point="PostToolUse"))).hooks[0].on_error == "allow"


def test_the_digest_covers_everything_but_itself_revision_state_surface_and_ids() -> None:
    document = manifest(hook("notify", params={"channel": "ops"}))
    same = {**switched(document, halted=True), "revision": 99, "surface": "api", "digest": "x"}
    same["agent"] = {**document["agent"], "id": "another"}
    same["hooks"] = [{**item, "id": f"other{index}"} for index, item in enumerate(document["hooks"])]
    assert manifest_digest(same) == document["digest"]
    for name in sorted(set(document) - {"digest", "revision", "state", "surface"}):
        assert manifest_digest({**document, name: "changed"}) != document["digest"]
    assert manifest_digest({"agent": {"id": 1, "slug": "p"}, "revision": 3}) == digest(
        {"agent": {"slug": "p"}}
    )


@pytest.mark.parametrize(
    ("path", "spoil"),
    [
        ("schema", lambda d: d.update(schema="hookgate.registry/2")),
        ("surface", lambda d: d.update(surface="web")),
        ("bypass", lambda d: d.update(bypass=True)),
        ("bypass", lambda d: d.update(surface="eval")),
        ("unlisted_tools", lambda d: d.update(unlisted_tools="maybe")),
        ("require_confirmation_for_all", lambda d: d.update(require_confirmation_for_all="no")),
        ("freshness.max_stale_seconds", lambda d: d["freshness"].update(max_stale_seconds=14)),
        (
            "freshness.revalidate_after_seconds",
            lambda d: d["freshness"].update(revalidate_after_seconds=True),
        ),
        ("state.halted", lambda d: d["state"].update(halted=None)),
        ("agent", lambda d: d.update(agent=None)),
        ("tools[0].writes", lambda d: d["tools"][0].pop("writes")),
        ("tools[0]", lambda d: d["tools"].insert(0, 3)),
        ("tools[0].redact", lambda d: d["tools"][0].update(redact=[1])),
        ("hooks[0].name", lambda d: d["hooks"][0].update(name="unknown")),
        ("hooks[0].name", lambda d: d["hooks"][0].update(name="feishu_gate")),
        ("hooks[0].points", lambda d: d["hooks"][0].update(points=["PostToolUse"])),
        ("hooks[0].points", lambda d: d["hooks"][0].update(points=["Whenever"])),
        ("hooks[0].points", lambda d: d["hooks"][0].update(points=[])),
        ("hooks[0].params.max_calls", lambda d: d["hooks"][0].update(params={"max_calls": 0})),
        ("hooks[0].params.size", lambda d: d["hooks"][0].update(params={"size": 1})),
        ("hooks[0].tool_filter", lambda d: d["hooks"][0].update(tool_filter="")),
        ("hooks[0].matcher", lambda d: d["hooks"][0].update(matcher="(")),
        ("hooks[0].when", lambda d: d["hooks"][0].update(when="args.")),
        ("hooks[0].on_error", lambda d: d["hooks"][0].update(on_error="ignore")),
        ("hooks[0].mode", lambda d: d["hooks"][0].update(mode="off")),
        ("hooks[0].timeout_seconds", lambda d: d["hooks"][0].update(timeout_seconds=0)),
        ("hooks[0].priority", lambda d: d["hooks"][0].update(priority=900)),
        ("hooks[0].priority", lambda d: d["hooks"][0].update(priority=-1)),
        ("hooks[0].handler.type", lambda d: d["hooks"][0].update(handler={"type": "command", "target": "x"})),
        ("hooks[1]", lambda d: d["hooks"][1].update(mode="observe")),
        ("hooks[1]", lambda d: d["hooks"][1].update(on_error="allow")),
        ("hooks[1]", lambda d: d["hooks"][1].update(tool_filter="oa__*")),
        ("hooks[3].priority", lambda d: d["hooks"][3].update(priority=899)),
        ("hooks[3].params.when", lambda d: d["hooks"][3].update(params={"when": "true"})),
        (
            "hooks[3].params.triggers[0].when",
            lambda d: d["hooks"][3].update(params={"triggers": [{"when": "x"}]}),
        ),
        ("hooks", lambda d: d["hooks"].pop(1)),
        ("hooks", lambda d: d["hooks"].pop(2)),
        ("hooks", lambda d: d["hooks"].pop(3)),
        ("hooks", lambda d: d["hooks"].append(d["hooks"][3])),
        ("hooks", lambda d: d.update(hooks={})),
    ],
)
def test_what_a_runtime_does_not_understand_it_refuses_as_a_whole(path: str, spoil: Any) -> None:
    document = manifest(hook("connector_rate_limit"))
    document["tools"] = [dict(tool) for tool in document["tools"]]
    spoil(document)
    with pytest.raises(ManifestInvalid) as caught:
        parse(seal(document))
    assert caught.value.path == path


@pytest.mark.parametrize("document", [None, [], "x", {}, {"schema": "hookgate.registry/1"}])
def test_what_is_no_manifest_at_all_is_refused(document: Any) -> None:
    with pytest.raises(ManifestInvalid):
        parse(document)


def test_a_digest_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ManifestInvalid, match="does not belong"):
        parse({**manifest(), "unlisted_tools": "allow"})


def test_evaluation_has_no_hooks_and_no_gate() -> None:
    assert parse(evaluation()).hooks == ()
    with pytest.raises(ManifestInvalid, match="runs none"):
        parse(seal({**evaluation(), "hooks": attached()}))


def test_unknown_additions_are_read_over() -> None:
    document = manifest()
    document["later"] = {"x": 1}
    assert parse(seal(document)).digest == document["digest"]


def test_importing_the_package_loads_no_client_no_models_and_no_expression_engine() -> None:
    code = (
        "import sys, hookgate, hookgate.registry.manifest, hookgate.catalogue, hookgate.session.gate;"
        "print([m for m in ('httpx', 'pydantic', 'cel', 'django') if m in sys.modules]);"
        "from hookgate import *;"
        "print([m for m in ('httpx', 'pydantic', 'cel', 'django') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="runtime"
    )
    assert shown.stdout.split("\n")[:2] == ["[]", "[]"]
