"""``manage.py check_channel``: what it says, and its exit code."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from channels_app import channels
from channels_app.models import Channel
from channels_app.sandbox.server import SandboxServer
from tests.channels.conftest import APP_ID, CHAT, SECRET, save


def check(path: str = "acme/ops-feishu") -> tuple[str, bool]:
    """What is printed, and whether the exit code is 0."""
    out = StringIO()
    try:
        call_command("check_channel", path, stdout=out)
    except CommandError as error:
        return f"{out.getvalue()}{error}", False
    return out.getvalue(), True


def test_a_working_channel(channel: Channel, server: SandboxServer) -> None:
    text, good = check()
    assert good, text
    lines = text.splitlines()
    assert lines[0] == f"callback_url: {channels.callback_url(channel)}"
    assert [line.split(":")[0] for line in lines if line.startswith("ok")] == [
        "ok    credentials",
        "ok    bot",
        "ok    chat",
    ]


@pytest.mark.parametrize(
    ("order", "changes", "words"),
    [
        (
            "apps",
            {"app_id": APP_ID, "app_secret": "other"},
            ["FAIL  credentials: 10015", "app_secret is wrong"],
        ),
        ("apps", {"app_id": APP_ID, "activate_status": 3}, ["FAIL  bot", "open the app once"]),
        (
            "members",
            {"chat_id": CHAT, "app_id": APP_ID, "present": False},
            ["FAIL  chat", "add it to the group"],
        ),
        ("apps", {"app_id": APP_ID, "scopes": []}, ["99991672", "a scope is missing"]),
        (
            "failures",
            {"endpoint": "token", "drop_connection": True},
            ["FAIL  credentials: network", "base_url"],
        ),
        ("failures", {"endpoint": "token", "status": 404, "body": "<html>"}, ["http_404", "base_url"]),
    ],
)
def test_what_is_broken_is_named_with_its_remedy(
    channel: Channel, server: SandboxServer, order: str, changes: dict[str, Any], words: list[str]
) -> None:
    server.control(order, **changes)
    text, good = check()
    assert not good
    for word in words:
        assert word in text
    assert SECRET not in text


def test_the_bots_chats_are_listed_when_the_chat_is_wrong(channel: Channel, server: SandboxServer) -> None:
    for number in range(3):
        server.sandbox.add_chat(f"oc_{number}", f"Group {number}", bots=[APP_ID])
    save(channel.organization, server, "wrong", chat_id="oc_nowhere")
    text, good = check("acme/wrong")
    assert not good
    assert "oc_2  Group 2" in text
    assert {chat.id for chat in channels.open_adapter(channel).chats()} == {CHAT, "oc_0", "oc_1", "oc_2"}


def test_a_long_connection_is_a_clear_error_without_a_callback_url(
    channel: Channel, server: SandboxServer
) -> None:
    save(channel.organization, server, "lc", app_id="cli_3", transport="long_connection")
    text, good = check("acme/lc")
    assert not good
    assert "callback_url" not in text
    assert "set transport to webhook" in text


@pytest.mark.parametrize("path", ["acme", "acme/none", "none/ops-feishu", "/"])
def test_an_unknown_channel_is_a_clear_error(channel: Channel, path: str) -> None:
    text, good = check(path)
    assert not good
    assert "ORG/CHANNEL" in text


def test_other_platforms_say_that_they_are_not_available(channel: Channel) -> None:
    channels.save(
        organization=channel.organization,
        slug="slack",
        type="slack",
        enabled=True,
        language="en",
        config={"bot_token": "xoxb-1-2-s", "signing_secret": "s", "channel_id": "C1"},
    )
    text, good = check("acme/slack")
    assert not good
    assert "not available in this release" in text
