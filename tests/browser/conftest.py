"""A portal as `make run` starts it, a headless Chromium, and an agent that waits in a thread of its own.

Debian's Chromium is driven (``apt-get install chromium``); ``HOOKGATE_CHROMIUM`` names another. Without one the tests
are skipped, or fail where ``HOOKGATE_REQUIRE_BROWSER=1`` says that it must be there (CI).
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hookgate import Runtime
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from examples import run, sample
from examples.portal_process import PortalProcess
from tests import services

CHROMIUM = os.environ.get("HOOKGATE_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 20_000.0
USER = {"id": "charlie", "name": "Charlie", "email": "charlie@acme.test"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once per module: while its driver lives, this thread counts as inside an event loop."""
    if not Path(CHROMIUM).exists():
        missing = f"there is no Chromium at {CHROMIUM}; apt-get install chromium, or set HOOKGATE_CHROMIUM"
        if os.environ.get("HOOKGATE_REQUIRE_BROWSER") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PortalProcess]:
    """A portal with the sandbox IM and the sample organization; no agent is at work in it."""
    portal = PortalProcess(tmp_path_factory.mktemp("browser"))
    portal.environment |= {
        "HOOKGATE_SANDBOX": "1",
        "HOOKGATE_CHANNEL_HOSTS": portal.url.removeprefix("http://"),
        **sample.placeholders(f"{portal.url}/sandbox/feishu"),
    }
    with portal:
        services.migrate(portal)
        portal.environment["HOOKGATE_KEY"] = run.load_sample(portal)
        portal.start()
        yield portal


class Agent:
    """Makes tool calls as a runtime would, each in its own conversation, and counts what really ran."""

    def __init__(self, portal: PortalProcess) -> None:
        self._portal = portal
        self._threads = ThreadPoolExecutor(max_workers=4)
        self.paid: list[dict[str, Any]] = []

    def pay(self, order: str, amount: int = 60000) -> "Future[Any]":
        """Ask to pay; the future's result is the call's outcome."""
        args = {"order": order, "amount": amount, "card_number": "4111 1111"}
        return self._threads.submit(lambda: asyncio.run(self._call("oa__purchase_pay", args)))

    async def _call(self, tool: str, args: dict[str, Any]) -> Any:
        async with (
            Runtime(
                self._portal.url, self._portal.environment["HOOKGATE_KEY"], name="browser-test"
            ) as runtime,
            runtime.session("procurement", user=USER) as session,
        ):
            return await session.call_tool(tool, args, execute=self._execute)

    def _execute(self, args: dict[str, Any]) -> str:
        self.paid.append(args)
        return f"paid {args['amount']} for {args['order']}"

    def close(self) -> None:
        """Wait for the threads; a call that still waits would fail the test before."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def agent(portal: PortalProcess) -> Iterator[Agent]:
    """An agent of the sample organization."""
    agent = Agent(portal)
    yield agent
    agent.close()


Open = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, portal: PortalProcess) -> Iterator[Open]:
    """Opens a page in a browser of its own: ``open_page(user=…, **context options)``, signed in if ``user`` is given.

    An error in a page's script fails the test.
    """
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_(user: str | None = None, **options: Any) -> Page:
        context = browser.new_context(base_url=portal.url, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        if user is not None:
            page.goto("/login/")
            page.get_by_label("Username").fill(user)
            page.get_by_label("Password").fill(sample.PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/inbox/")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
