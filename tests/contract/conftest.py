"""One portal for all tests of the contract: a real process, filled by ``apply``, spoken to over HTTP alone."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.server import SandboxServer
from examples.portal_process import PortalProcess
from tests import services
from tests.contract.outside import Api, until
from tests.contract.shell import Done, Shell, process

FILES = Path(__file__).with_name("files")
WORLD = FILES / "world.yaml"
SECRETS = {
    "ALICE_PASSWORD": "correct-horse-7-battery",
    "APP_SECRET": "app-secret-of-the-contract",
    "ENCRYPT_KEY": "encrypt-key-of-the-contract",
    "TOKEN": "verification-token-of-the-contract",
    "APP_SECRET_2": "second-app-secret",
    "ENCRYPT_KEY_2": "second-encrypt-key",
    "TOKEN_2": "second-verification-token",
}
# How the files of the world name their variables.
ENV = ("--env", "WORLD_")
METRICS_TOKEN = "metrics-token"

KEYS = {
    "acme": ("--org", "acme"),
    "procurement": ("--agent", "acme/procurement"),
    "solo": ("--org", "solo"),
    "switches": ("--org", "switches"),
    "registry only": ("--org", "acme", "--scopes", "registry"),
    "notify only": ("--org", "acme", "--scopes", "notify"),
    "eval": ("--org", "acme", "--scopes", "registry,eval"),
}
TOKENS = {
    **{name: ("--user", name, "--scopes", "read,decide") for name in ("alice", "bob", "erin", "dave", "kim")},
    "carol": ("--user", "carol"),
    "sam": ("--user", "sam", "--scopes", "read,decide"),
}


class World:
    """The portal, its chat, and a client per key and person."""

    def __init__(
        self, portal: PortalProcess, sandbox: SandboxServer, shell: Shell, issued: dict[str, str]
    ) -> None:
        self.portal = portal
        self.sandbox = sandbox
        self.shell = shell
        self.issued = issued
        self.clients = {name: Api(portal.url, plain) for name, plain in issued.items()}

    def __getitem__(self, name: str) -> Api:
        return self.clients[name]

    def command(self, *arguments: str) -> Done:
        """Run a management command, whatever its exit code."""
        return self.shell.run(*arguments)

    def process(self, *arguments: str) -> Done:
        """The same as a process of its own."""
        return process(self.portal, *arguments)

    def apply(self, text: str, *options: str) -> Done:
        """Apply a config file of this text."""
        file = self.portal.folder / "given.yaml"
        file.write_text(text)
        return self.command("apply", str(file), *ENV, *options)

    def card(self, marker: str, *, chat: str = "oc_1") -> dict[str, Any]:
        """The message whose card shows ``marker``; waits until it is there."""

        def find() -> dict[str, Any] | None:
            messages = self.sandbox.look("messages", chat_id=chat)["messages"]
            return next((m for m in messages if marker in str(m["view"])), None)

        found: dict[str, Any] = until(find, what=f"a card that shows {marker}")
        return found

    def press(self, message: dict[str, Any], who: str, button: str, **more: Any) -> dict[str, Any]:
        """A person presses a button of a card; the sandbox's report."""
        return self.sandbox.control(
            "press", message_id=message["message_id"], open_id=who, button=button, **more
        )


def make_sandbox() -> FeishuSandbox:
    """Two apps of two tenants, three groups, five people."""
    sandbox = FeishuSandbox()
    for number, suffix in (("1", ""), ("2", "_2")):
        secret, encrypt_key, token = (
            SECRETS[name + suffix] for name in ("APP_SECRET", "ENCRYPT_KEY", "TOKEN")
        )
        sandbox.add_app(f"cli_{number}", secret, encrypt_key, token, f"tenant{number}", None)
    for chat, app in (("oc_1", "cli_1"), ("oc_2", "cli_1"), ("oc_3", "cli_2")):
        sandbox.add_chat(chat, chat, bots=[app])
    for name in ("alice", "bob", "dave", "nora"):
        sandbox.add_user(f"ou_{name}", name.title(), f"{name}@acme.test")
        for chat in ("oc_1", "oc_2", "oc_3"):
            sandbox.add_member(chat, f"ou_{name}")
    return sandbox


def make_portal(folder: Path, sandbox: SandboxServer) -> PortalProcess:
    """A portal that isn't started yet, and may speak to the sandbox."""
    hosts = sandbox.base_url.removeprefix("http://")
    environment = {
        "HOOKGATE_CHANNEL_HOSTS": hosts,
        "HOOKGATE_METRICS_TOKEN": METRICS_TOKEN,
        "WORLD_PLATFORM": sandbox.feishu_url,
        **{f"WORLD_{name}": value for name, value in SECRETS.items()},
    }
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return PortalProcess(folder, environment=environment)


def issue(shell: Shell) -> dict[str, str]:
    """Every key and token of the tests by name."""
    orders = {name: ("issue_key", *arguments) for name, arguments in KEYS.items()}
    orders |= {name: ("issue_token", *arguments) for name, arguments in TOKENS.items()}
    issued = {}
    for name, order in orders.items():
        done = shell.run(*order)
        assert done.returncode == 0, done.stderr
        issued[name] = done.stdout.strip()
    return issued


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The portal, running."""
    chat = make_sandbox()
    with (
        SandboxServer(chat) as server,
        make_portal(tmp_path_factory.mktemp("contract"), server) as portal,
    ):
        shell = Shell(portal)
        services.migrate(portal)
        done = shell.run("apply", str(WORLD), *ENV)
        assert done.returncode == 0, done.stderr
        chat.directory.app("cli_1").callback_url = f"{portal.url}/channels/acme/ops/callback"
        chat.directory.app("cli_2").callback_url = f"{portal.url}/channels/solo/only/callback"
        issued = issue(shell)
        portal.start()
        yield World(portal, server, shell, issued)
        shell.close()


@pytest.fixture(scope="session")
def acme(world: World) -> Api:
    """The client with the organization's key."""
    return world["acme"]


@pytest.fixture(scope="session")
def hooked(world: World) -> World:
    """The same world, with the organization of ``files/hooks.yaml`` and a key of that name."""
    done = world.command("apply", str(FILES / "hooks.yaml"), *ENV)
    assert done.returncode == 0, done.stderr
    world.issued["hooked"] = world.command("issue_key", "--org", "hooked").stdout.strip()
    world.clients["hooked"] = Api(world.portal.url, world.issued["hooked"])
    return world
