"""Functions that the portal names: which ones a runtime imports, and the ones that never come back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from hookgate.engine.handlers import HandlerUnusable, load
from hookgate.registry.manifest import parse

from tests.runtime.documents import handler, manifest
from tests.runtime.harness import Tool, serve

HERE = "tests.runtime.handlers_for_tests:"
ROOT = Path(__file__).resolve().parents[2]


def load_target(target: str, prefixes: list[str]) -> object:
    spec = parse(manifest(handler(target))).hooks[0]
    assert spec.handler is not None
    return load(spec, spec.handler, prefixes)


@pytest.mark.parametrize(
    ("target", "prefixes", "message"),
    [
        (HERE + "cap", [], "may not import"),
        (HERE + "cap", ["tests.run"], "may not import"),
        (HERE + "cap", ["tests.runtim"], "may not import"),
        (HERE + "cap", ["runtime"], "may not import"),
        (HERE + "cap", ["."], "may not import"),
        (HERE + "cap", [""], "may not import"),
        (HERE + "cap", ["tests.runtime.handlers_for_tests.cap"], "may not import"),
        ("os:system", ["tests"], "may not import 'os'"),
        ("testsevil:x", ["tests."], "may not import"),
        ("testsevil:x", ["tests"], "may not import"),
        (HERE + "NOT_CALLABLE", ["tests"], "not callable"),
        (HERE + "missing", ["tests"], "can't import"),
        (HERE + "Group.missing", ["tests"], "can't import"),
        ("tests.runtime.nowhere:x", ["tests"], "can't import"),
        ("tests.runtime.handlers_for_tests", ["tests"], "package.module:callable"),
        (":cap", ["tests"], "package.module:callable"),
        (HERE, ["tests"], "package.module:callable"),
    ],
)
def test_what_may_not_or_can_not_be_imported(target: str, prefixes: list[str], message: str) -> None:
    with pytest.raises(HandlerUnusable, match=message):
        load_target(target, prefixes)


@pytest.mark.parametrize("prefix", ["tests", "tests.", "tests.runtime", "tests.runtime.handlers_for_tests"])
def test_a_prefix_is_a_package_or_a_module_with_or_without_its_dot(prefix: str) -> None:
    assert load_target(HERE + "cap", [prefix])


@pytest.mark.parametrize(
    "name",
    [
        "subprocess.run", "os.abort", "os", "fine.__globals__.clear", "fine.__call__", "fine.__class__", "reexported",
        "from_c", "foreign_partial", "foreign_method", "of_a_dict", "seen.clear", "foreign_object",
        "foreign_wrapped", "claimed",
        "MODULES.clear", "Inherits", "Inherits.kill", "an_heir", "CallsForeign", "conjured", "HookResult", "Group",
        "functools.partial", "threading.Thread.run", "fine.__get__", "Path.unlink", "__builtins__.get", "Any",
    ],
)  # fmt: skip
def test_only_what_an_allowed_package_defines_itself_is_a_handler(name: str) -> None:
    with pytest.raises(HandlerUnusable, match=r"is not allowed|can't import"):
        load_target(HERE + name, ["tests"])


@pytest.mark.parametrize(
    "name", ["fine", "decorated", "cached", "ours_partial", "method_of_ours", "an_object", "Group.allow"]
)
def test_functions_methods_objects_and_what_decorators_make_of_them_are_handlers(name: str) -> None:
    assert load_target(HERE + name, ["tests"])


@pytest.mark.parametrize("target", ["tests.__main__:x", "tests.run.__main__:main", "tests.runtime.exits:x"])
def test_importing_a_handler_ends_nothing(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def exits(name: str) -> None:
        raise SystemExit(name)

    monkeypatch.setattr("hookgate.engine.handlers.importlib.import_module", exits)
    with pytest.raises(HandlerUnusable, match=r"is not a module|SystemExit"):
        load_target(target, ["tests"])


def test_methods_and_objects_are_callables_too() -> None:
    async def run() -> None:
        document = manifest(handler(HERE + "Group.allow"), handler(HERE + "an_object"))
        async with (
            serve(document, python_handlers=["tests"]) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            outcome = await session.call_tool("oa__read", {}, execute=(tool := Tool()))
            assert (outcome.reason, tool.runs) == ("an object says no", [])

    asyncio.run(run())


SCRIPT = """
import asyncio, time
from tests.runtime.documents import handler, manifest
from tests.runtime.harness import Tool, serve

async def main():
    here = "tests.runtime.handlers_for_tests:"
    document = manifest(handler(here + "stuck", timeout_seconds=0.3, matcher="oa__read"))
    async with (
        serve(document, python_handlers=["tests"]) as (_, runtime),
        runtime.session("procurement") as session,
    ):
        tool = Tool()
        calls = [session.call_tool("oa__read", {}, execute=tool) for _ in range(50)]
        outcomes = await asyncio.gather(*calls)
        print(len(tool.runs), {o.trace[-1]["outcome"] for o in outcomes}, {o.blocked_by for o in outcomes})
        # All places are taken for good: whoever needs one is blocked in time, and nobody else is.
        started = time.monotonic()
        outcome = await session.call_tool("oa__read", {}, execute=tool)
        print(outcome.blocked, time.monotonic() - started < 20)
        await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        print((await session.call_tool("oa__write", {}, execute=lambda args: "ran")).result)
        print(await asyncio.to_thread(lambda: "a thread"))

asyncio.run(main())
print("ended")
"""


def test_handlers_that_never_come_back_block_their_calls_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "0 {'timed_out_denied'} {'PreToolUse[0].hooks[0]'}", "True True", "ran", "a thread", "ended"
    ], done.stderr[-2000:]  # fmt: skip
