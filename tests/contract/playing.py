"""Runtimes in the test's process: the documented API of the package, against the real portal."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hookgate import HookContext, HookResult, PreToolUseHook, Runtime

T = TypeVar("T")
SCENE_SECONDS = 60.0


def play(scene: Coroutine[Any, Any, T]) -> T:
    """Run a scene on a loop of its own, for a bounded time."""

    async def bounded() -> T:
        return await asyncio.wait_for(scene, SCENE_SECONDS)

    return asyncio.run(bounded())


class Tool:
    """A tool that remembers what it ran with."""

    def __init__(self, result: Any = "done") -> None:
        self.ran: list[dict[str, Any]] = []
        self.result = result

    async def __call__(self, args: dict[str, Any]) -> Any:
        self.ran.append(args)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def eventually(condition: Callable[[], Any], *, seconds: float = 20.0, what: str = "it") -> Any:
    """Poll, in a thread, until ``condition`` holds and return its value."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := await asyncio.to_thread(condition)):
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not happen within {seconds:g} s"
        await asyncio.sleep(0.02)
    return value


class Hands:
    """A monotonic clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Scene:
    """A runtime of the world's portal; a session is opened by the agent's name."""

    def __init__(self, world: Any, *, key: str = "acme", **options: Any) -> None:
        self.runtime = Runtime(world.portal.url, world.issued[key], name="contract-runtime", **options)

    async def __aenter__(self) -> "Scene":
        await self.runtime.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.runtime.__aexit__(*exc)

    def session(self, agent: str, **options: Any) -> Any:
        """As ``Runtime.session``."""
        return self.runtime.session(agent, **options)


class Seen(PreToolUseHook):
    """Keeps the contexts that it was shown."""

    name = "seen"

    def __init__(self, **attributes: Any) -> None:
        self.contexts: list[HookContext] = []
        self.answer = HookResult()
        for name, value in attributes.items():
            setattr(self, name, value)

    async def execute(self, ctx: HookContext) -> HookResult:
        self.contexts.append(ctx)
        return self.answer
