"""How long a registry may be trusted, and what ends a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hookgate import Outcome, Runtime
from hookgate.session.session import Session

from tests.runtime.documents import handler, hook, manifest, seal, switched
from tests.runtime.fake_portal import KEY, FakePortal, Problem
from tests.runtime.harness import FAST, Hands, Tool, eventually, serve


async def read(session: Session) -> Outcome:
    return await session.call_tool("oa__read", {}, execute=Tool())


def asked(portal: FakePortal) -> int:
    return len(portal.seen("registry"))


def test_a_registry_is_asked_for_again_only_when_it_is_due() -> None:
    async def run() -> None:
        hands = Hands()
        async with (
            serve(manifest(), clock=hands) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            await read(session)
            hands.now += 14.9
            await read(session)
            assert asked(portal) == 1
            hands.now += 0.1
            await asyncio.gather(*(read(session) for _ in range(5)))
            assert (asked(portal), portal.etag_hits) == (2, 1)
            await read(session)
            assert asked(portal) == 2

    asyncio.run(run())


def test_a_switch_reaches_the_runtime_with_the_next_call_that_asks() -> None:
    async def run() -> None:
        hands = Hands()
        document = manifest()
        async with (
            serve(document, clock=hands) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            assert not (await read(session)).blocked
            portal.publish(switched(document, halted=True, reason="stop"))
            hands.now += 15
            assert (await read(session)).blocked_by == "halted"
            portal.publish(document)
            hands.now += 15
            assert not (await read(session)).blocked

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["500", "reset", "html", "slow"])
def test_an_old_registry_serves_until_max_stale_counted_from_the_start_of_the_last_answer(fault: str) -> None:
    async def run() -> None:
        hands = Hands()
        async with (
            serve(manifest(), clock=hands, timeout=0.1) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            portal.standing["registry"] = fault
            hands.now += 299.9
            assert not (await read(session)).blocked
            hands.now += 0.1
            outcome = await read(session)
            assert outcome.blocked_by == "registry"
            assert (outcome.reason or "").startswith(
                "the registry has not been confirmed for 300 s: the portal is"
            )
            portal.standing.clear()
            assert not (await read(session)).blocked

    asyncio.run(run())


def test_age_counts_from_the_start_of_the_request() -> None:
    async def run() -> None:
        hands = Hands()
        async with FakePortal() as portal:
            portal.publish(manifest())
            original = portal._registry

            async def slow(*arguments: Any) -> Any:
                hands.now += 200
                return await original(*arguments)

            portal._registry = slow  # type: ignore[assignment, method-assign]
            async with (
                Runtime(portal.url, KEY, pacing=FAST, clock=hands) as runtime,
                runtime.session("procurement") as session,
            ):
                portal.standing["registry"] = "500"
                hands.now += 99
                assert not (await read(session)).blocked
                hands.now += 1
                assert (await read(session)).blocked

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["500", "reset"])
def test_an_unreachable_portal_is_not_asked_at_every_call(fault: str) -> None:
    async def run() -> None:
        hands = Hands()
        async with (
            serve(manifest(), clock=hands) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            portal.standing["registry"] = fault
            hands.now += 20
            for _ in range(5):
                await read(session)
            assert asked(portal) == 2
            hands.now += 5
            await read(session)
            assert asked(portal) == 3

    asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "unauthenticated"), (403, "scope_missing"), (404, "x"), (422, "registry_unbuildable")],
)
def test_a_refusal_stops_the_session_at_once_and_for_good(status: int, code: str) -> None:
    async def run() -> None:
        hands = Hands()
        async with serve(manifest(), clock=hands) as (portal, runtime):
            async with runtime.session("procurement") as session:
                errors = [{"path": "hooks[0]", "code": "unknown_hook", "message": "no such hook"}]
                portal.refusals["procurement"] = Problem(status, code, errors)
                hands.now += 15
                outcome = await read(session)
                assert outcome.blocked_by == "registry"
                assert f"({status} {code})" in (outcome.reason or "")
                assert session.stopped == outcome.reason
                portal.refusals.clear()
                hands.now += 1000
                assert (await read(session)).blocked
            async with runtime.session("procurement") as fresh:
                assert not (await read(fresh)).blocked
                assert (await read(session)).blocked

    asyncio.run(run())


def test_an_unknown_key_is_told_as_such() -> None:
    async def run() -> None:
        async with FakePortal() as portal, Runtime(portal.url, "hg_wrong", pacing=FAST) as runtime:
            portal.publish(manifest())
            async with runtime.session("procurement") as session:
                assert "unauthenticated" in ((await read(session)).reason or "")

    asyncio.run(run())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(schema="hookgate.registry/2"),
        lambda d: d["hooks"][0].update(name="unknown_hook"),
        lambda d: d["hooks"].pop(),
        lambda d: d.update(revision=2, digest="sha256:0"),
        lambda d: d["agent"].update(slug="other"),
        lambda d: d.update(bypass=True, hooks=[]),
    ],
)
def test_a_registry_that_can_not_be_used_replaces_the_old_one_by_none(spoil: Any) -> None:
    async def run() -> None:
        hands = Hands()
        document = manifest()
        async with (
            serve(document, clock=hands) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            assert not (await read(session)).blocked
            bad = manifest()
            spoil(bad)
            bad = bad if bad["digest"] == "sha256:0" else seal(bad)
            portal.registries[("procurement", "chat")] = bad
            hands.now += 15
            outcome = await read(session)
            assert (outcome.blocked_by, session.stopped) == ("registry", None)
            assert "the registry can't be used" in (outcome.reason or "")
            portal.publish(document)
            assert not (await read(session)).blocked

    asyncio.run(run())


def test_a_new_revision_swaps_the_hooks_between_calls() -> None:
    async def run() -> None:
        hands = Hands()
        async with (
            serve(manifest(), clock=hands) as (portal, runtime),
            runtime.session("procurement") as session,
        ):
            running, go_on = asyncio.Event(), asyncio.Event()

            async def long(args: dict[str, Any]) -> str:
                running.set()
                await go_on.wait()
                return "x" * 500

            first = asyncio.create_task(session.call_tool("oa__read", {}, execute=long))
            await running.wait()
            portal.publish(manifest(hook("result_truncate", params={"max_chars": 100}), revision=2))
            hands.now += 15
            second = await session.call_tool("oa__read", {}, execute=Tool("x" * 500))
            assert len(second.result) <= 100
            go_on.set()
            assert len((await first).result) == 500

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("os:system", "may not import 'os'"),
        ("tests.runtimes.x:y", "may not import"),
        ("tests.runtime.handlers_for_tests:missing", "can't import"),
        ("tests.runtime.no_such_module:x", "can't import"),
        ("tests.runtime.handlers_for_tests:NOT_CALLABLE", "not callable"),
        ("tests.runtime.handlers_for_tests", "is not package.module:callable"),
    ],
)
def test_a_handler_that_may_not_or_can_not_run_makes_the_registry_unusable(target: str, reason: str) -> None:
    async def run() -> None:
        async with (
            serve(manifest(handler(target)), python_handlers=["tests.runtime."]) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            outcome = await read(session)
            assert outcome.blocked_by == "registry"
            assert reason in (outcome.reason or "")

    asyncio.run(run())


def test_without_listed_packages_no_handler_runs() -> None:
    async def run() -> None:
        async with (
            serve(manifest(handler("tests.runtime.handlers_for_tests:cap"))) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            assert (await read(session)).blocked_by == "registry"

    asyncio.run(run())


def test_a_hook_that_must_run_at_the_start_and_fails_stops_the_session() -> None:
    async def run() -> None:
        spec = handler("tests.runtime.handlers_for_tests:broken", point="SessionStart", on_error="deny")
        async with (
            serve(manifest(spec), python_handlers=["tests"]) as (_, runtime),
            runtime.session("procurement") as session,
        ):
            outcome = await read(session)
            assert "SessionStart[0].hooks[0] failed at SessionStart" in (outcome.reason or "")

    asyncio.run(run())


def test_nothing_runs_after_the_runtime_or_the_session_was_left() -> None:
    async def run() -> None:
        async with serve(manifest()) as (_, runtime):
            async with runtime.session("procurement") as session:
                pass
            assert (await read(session)).blocked_by == "session"
            async with runtime.session("procurement") as open_session:
                await runtime.aclose()
                assert (await read(open_session)).blocked_by == "session"
            with pytest.raises(RuntimeError, match="enter the runtime first"):
                runtime.session("procurement")
            with pytest.raises(RuntimeError, match="entered once"):
                await runtime.__aenter__()

    asyncio.run(run())


def test_tools_are_announced() -> None:
    async def run() -> None:
        async with serve(manifest()) as (portal, runtime):
            tools = [{"name": "oa__read", "description": "", "input_schema": {}}]
            await runtime.announce_tools("procurement", tools)
            await eventually(lambda: portal.tools == {"procurement": {"tools": tools}})

    asyncio.run(run())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("portal", "hg_x"), "origin"),
        (("ftp://portal", "hg_x"), "origin"),
        (("http://portal", ""), "runtime key"),
        (("http://portal", "hg x"), "runtime key"),
    ],
)
def test_bad_options_are_named(arguments: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Runtime(*arguments)


def test_the_environment_names_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("HOOKGATE_URL", "HOOKGATE_KEY", "HOOKGATE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LookupError, match="HOOKGATE_URL"):
        Runtime.from_env()
    monkeypatch.setenv("HOOKGATE_URL", "http://127.0.0.1:1")
    with pytest.raises(LookupError, match="HOOKGATE_KEY"):
        Runtime.from_env()
    (tmp_path / "key").write_text("hg_file\n")
    monkeypatch.setenv("HOOKGATE_KEY_FILE", str(tmp_path / "key"))
    assert Runtime.from_env(name="w").name == "w"
