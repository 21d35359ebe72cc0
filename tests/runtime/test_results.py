"""Results in the call log: only their size, unless `audit_log` is asked to keep them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import HookContext, HookResult, PostToolUseHook

from tests.runtime.documents import attached, manifest
from tests.runtime.harness import Tool, eventually, serve


class Broken(PostToolUseHook):
    """Should have masked the result."""

    on_error = "deny"

    async def execute(self, ctx: HookContext) -> HookResult:
        raise RuntimeError("no")


def logged(result: Any, *hooks: Any, name: str = "oa__purchase_pay", **params: Any) -> dict[str, Any]:
    """The entry of a call with this result."""

    async def run() -> dict[str, Any]:
        audit = {"results": True, **params}
        async with serve(manifest(hooks=attached(audit=audit))) as (portal, runtime):
            portal.on_create = lambda resource: resource.update(status="approved")
            async with runtime.session("procurement") as session:
                for hook in hooks:
                    session.hooks.register(hook)
                await session.call_tool(name, {}, execute=Tool(result))
                await eventually(lambda: portal.calls)
            (entry,) = portal.calls.values()
            return entry

    return asyncio.run(run())


class Thing:
    def __str__(self) -> str:
        return "a thing"


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ("paid", "paid"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        (60000, 60000),
        (
            {"card_number": "4111", "items": [{"api_key": "k", "n": 1}]},
            {"card_number": "[redacted]", "items": [{"api_key": "[redacted]", "n": 1}]},
        ),
        ('{"password": "p", "iban": "DE", "ok": true}', {"password": "[redacted]", "iban": "[redacted]", "ok": True}),
        ('{"password": "p", "password": "q"}', {"omitted": "not canonical JSON"}),
        ([float("nan"), "secret"], {"omitted": "not canonical JSON"}),
        ("{not JSON", "{not JSON"),
        ([Thing()], ["a thing"]),
        (b"\x00\x01", {"omitted": "2 bytes"}),
    ],
    ids=["text", "dirty", "number", "object", "json", "twice", "nan", "braces", "thing", "bytes"],
)  # fmt: skip
def test_a_kept_result_is_redacted_like_arguments(result: Any, kept: Any) -> None:
    assert logged(result, redact=["iban"])["result"] == kept


def test_a_long_result_is_shortened() -> None:
    entry = logged("x" * 50_000)
    assert entry["result_bytes"] == 50_000
    assert 31_900 < len(entry["result"]) <= 32_000
    assert entry["result"].endswith("of 50000 characters left out]")
    listed = logged(["x" * 50_000])["result"]
    assert (listed["truncated"], listed["characters"]) == (True, 50_004)


def test_only_sizes_are_kept_unless_asked_and_nothing_of_what_was_withheld() -> None:
    entry = logged("paid", results=False)
    assert (entry["result_bytes"], "result" in entry) == (4, False)
    assert "result" not in logged(None)
    withheld = logged("4111 1111", Broken(), name="oa__read")
    assert (withheld["blocked_by"], withheld["result"]) == ("Broken", {"omitted": "withheld"})
