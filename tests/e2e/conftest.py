"""A whole portal per way of running it: embedded, and with PostgreSQL, Redis and Celery processes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hookgate import Runtime

from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from examples import demo, sample
from examples.portal_process import PortalProcess, free_port
from tests import services
from tests.e2e import limits
from tests.operations import compose
from tests.soak import counts

PRODUCTION = (compose.arguments("worker"), compose.arguments("beat"))
METRICS_TOKEN = "scrape-me-in-the-end"


class Stage:
    """A portal with the demo's organization, and the chat that it sends to."""

    def __init__(self, portal: PortalProcess, sandbox: SandboxServer, key: str) -> None:
        self.portal = portal
        self.sandbox = sandbox
        self.key = key


def _portal(backend: str, folder: Path, server: SandboxServer) -> PortalProcess:
    environment = {
        "HOOKGATE_CHANNEL_HOSTS": server.base_url.removeprefix("http://"),
        **sample.placeholders(server.feishu_url),
    }
    if backend == "embedded":
        return PortalProcess(folder, environment=environment)
    environment |= {
        "DATABASE_URL": services.new_database(),
        "REDIS_URL": services.redis_url(),
        "HOOKGATE_LOG_FORMAT": "json",
        "HOOKGATE_METRICS_TOKEN": METRICS_TOKEN,
        "HOOKGATE_METRICS_DIR": str(folder / "metrics"),
        "HOOKGATE_METRICS_LISTEN": f"127.0.0.1:{free_port()}",
    }
    return PortalProcess(folder, environment=environment, companions=PRODUCTION)


@contextmanager
def staged(backend: str, folder: Path, *, file: Path = demo.FILE) -> Iterator[Stage]:
    """A stage for the organization ``demo`` of a config file; ``backend`` is ``embedded`` or ``production``."""
    chat = samples.sample(None)
    with SandboxServer(chat) as server, _portal(backend, folder, server) as portal:
        services.migrate(portal)
        portal.manage("apply", str(file), *sample.ENV)
        key = portal.manage("issue_key", "--org", "demo").strip()
        chat.directory.app(samples.APP_ID).callback_url = f"{portal.url}/channels/demo/chat/callback"
        portal.start()
        yield Stage(portal, server, key)


# `make test` plays the embedded one in tests/newcomer (`make demo`, `make run`) and in the pages of the documentation.
STAGES = ["embedded", "production"] if counts.SOAK else ["production"]


@pytest.fixture(scope="module", params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The demo's stage, with one more agent, once per module and way of running."""
    folder = tmp_path_factory.mktemp(request.param)
    file = folder / "stage.yaml"
    file.write_text(demo.FILE.read_text() + limits.AGENT)
    with staged(request.param, folder, file=file) as built:
        yield built


@pytest.fixture
def on_stage(stage: Stage) -> Callable[[demo.Step], demo.Demo]:
    """Plays one step of the demo on the stage and returns it for further questions."""

    def play(step: demo.Step) -> demo.Demo:
        async def run() -> demo.Demo:
            async with Runtime(stage.portal.url, stage.key, name="test-1") as runtime:
                scene = demo.Demo(stage.portal, stage.sandbox, runtime, stage.key)
                await step(scene)
                return scene

        return asyncio.run(run())

    return play
