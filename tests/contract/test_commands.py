"""Section 2: the commands of keys, tokens, channels and secrets."""

import subprocess
import sys
import time

import httpx
import pytest
from cryptography.fernet import Fernet

from examples.portal_process import ROOT
from tests.contract.conftest import World
from tests.contract.outside import Api


def bearer(world: World, *arguments: str) -> str:
    """A key or token, alone on stdout."""
    done = world.process(*arguments)
    assert done.returncode == 0, done.stderr
    plain = done.stdout.strip()
    assert done.stdout == f"{plain}\n"
    assert " " not in plain
    assert plain not in done.stderr
    return plain


def test_a_key_with_scopes_and_an_end(world: World) -> None:
    plain = bearer(
        world, "issue_key", "--agent", "acme/quiet", "--scopes", "registry,calls", "--expires", "1"
    )
    key = Api(world.portal.url, plain)
    assert key.get("/agents/quiet/registry").status_code == 200
    assert key.get("/confirmations").status_code == 403
    assert key.get("/agents/procurement/registry").status_code == 404


def test_default_scopes_are_all_but_eval(world: World) -> None:
    # Each of the others is used by some test with such a key.
    answer = world["procurement"].get("/agents/procurement/registry", surface="eval")
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


@pytest.mark.parametrize(
    "arguments",
    [
        ("issue_key", "--org", "acme", "--scopes", "registry,all"),
        ("issue_key", "--org", "no-such"),
        ("issue_key", "--agent", "acme/no-such"),
        ("issue_key", "--agent", "procurement"),
        ("issue_key", "--org", "acme", "--expires", "0"),
        ("issue_token", "--user", "nobody"),
        ("issue_token", "--user", "bob", "--scopes", "write"),
        ("check_channel", "acme/no-such"),
        ("build_registry", "acme/no-such"),
        ("halt", "acme"),
        ("halt", "no-such", "--reason", "x"),
        ("resume", "acme/no-such"),
        ("issue_key",),
        ("issue_token",),
        ("build_registry",),
        ("check_channel",),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(world: World, arguments: tuple[str, ...]) -> None:
    done = world.command(*arguments)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_a_channel_is_checked(world: World) -> None:
    done = world.command("check_channel", "acme/ops")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"callback_url: {world.portal.url}/channels/acme/ops/callback" in done.stdout.splitlines()


def test_a_channel_that_does_not_work_says_what_to_do(world: World) -> None:
    world.sandbox.control("members", chat_id="oc_2", app_id="cli_1", present=False)
    try:
        done = world.command("check_channel", "acme/spare")
    finally:
        world.sandbox.control("members", chat_id="oc_2", app_id="cli_1", present=True)
    assert done.returncode == 1
    assert "callback_url: " in done.stdout
    assert "group" in done.stdout + done.stderr or "chat" in done.stdout + done.stderr


def test_the_address_of_a_channel_is_one_of_the_platforms_or_allowed(world: World) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: astray
    name: Astray
    channels: [{slug: c, type: feishu, config: {app_id: cli_x, app_secret: s, chat_id: oc_x, encrypt_key: e,
      verification_token: t, base_url: "%s"}}]
"""
    for address in ("http://169.254.169.254", "https://evil.test"):
        done = world.apply(text % address)
        assert done.returncode == 1, address
        assert "organizations[0].channels[0].config.base_url: " in done.stderr


def test_production_is_told_what_it_lacks(world: World) -> None:
    done = world.process("check", "--deploy")
    said = done.stdout + done.stderr
    for name in ("HOOKGATE_SECRET_KEY", "HOOKGATE_ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL"):
        assert name in said, name


def test_keys_are_rotated_and_old_ones_let_go(world: World) -> None:
    environment = world.portal.environment
    files = list(world.portal.folder.rglob("*"))
    first = next((f for f in files if f.is_file() and "encryption" in f.name.lower()), None)
    if first is None:
        pytest.skip("the key of the embedded portal has no file of its own")
    old, new = first.read_text().strip(), Fernet.generate_key().decode()
    environment["HOOKGATE_ENCRYPTION_KEYS"] = f"{new},{old}"
    try:
        done = world.process("rotate_keys")
        assert done.returncode == 0, done.stderr
        assert old not in done.stdout
        environment["HOOKGATE_ENCRYPTION_KEYS"] = new
        assert world.process("check_channel", "acme/ops").returncode == 0
        # Back to the key that the running server has.
        environment["HOOKGATE_ENCRYPTION_KEYS"] = f"{old},{new}"
        assert world.process("rotate_keys").returncode == 0
    finally:
        del environment["HOOKGATE_ENCRYPTION_KEYS"]
    assert world.command("check_channel", "acme/ops").returncode == 0


def test_listen_says_what_it_holds(world: World) -> None:
    # No channel here needs it: it says so and ends, or goes on until it is stopped.
    listening = subprocess.Popen(
        [sys.executable, "manage.py", "listen"],
        cwd=ROOT,
        env=world.portal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert listening.stdout is not None
        said = listening.stdout.readline()
    finally:
        listening.terminate()
        rest = listening.communicate(timeout=60)[0]
    assert said.strip()
    assert "Traceback" not in said + rest


def test_a_person_who_is_switched_off_loses_tokens_at_once(world: World) -> None:
    text = """
apiVersion: hookgate/v1
organizations:
  - slug: leaving
    name: Leaving
    members: [%s]
"""
    assert world.apply(text % "{user: lena, role: admin}, {user: max, role: approver}").returncode == 0
    token = Api(world.portal.url, world.command("issue_token", "--user", "max").stdout.strip())
    assert token.get("/confirmations").status_code == 200
    pruned = world.apply(text % "{user: lena, role: admin}", "--prune")
    assert "pruned member leaving/max" in pruned.stdout.splitlines()
    gone = token.get("/confirmations")
    assert gone.status_code == 401 or gone.json()["results"] == []


def test_the_server_answers_while_commands_run(world: World) -> None:
    started = time.monotonic()
    assert httpx.get(f"{world.portal.url}/healthz", trust_env=False, timeout=5).status_code == 200
    assert time.monotonic() - started < 5
