"""Saving channels: what is refused, what stays secret, what channels of one app share."""

from typing import Any

import pytest
from django.db import connection

from channels_app import channels, identities
from channels_app.models import App, Channel, Identity
from channels_app.outbox import deliveries
from channels_app.sandbox.server import SandboxServer
from portal import audit
from portal.lib.problems import Problem
from portal.models import AuditEvent, Organization
from tests import make
from tests.channels.conftest import SECRET, config, save, send

SLACK = {"bot_token": "xoxb-1-2-secret", "signing_secret": "s", "channel_id": "C1"}
WECOM = {
    "corp_id": "ww1",
    "agent_id": 1000002,
    "secret": "s",
    "token": "t",
    "encoding_aes_key": "k" * 43,
    "users": ["ann"],
    "parties": [],
    "tags": ["7"],
}
FEISHU = {"app_id": "cli_1", "app_secret": "s", "chat_id": "oc_1", "encrypt_key": "e"}


def errors(*args: Any, **kwargs: Any) -> set[tuple[str, str]]:
    """``(path, code)`` of what saving is refused for."""
    with pytest.raises(Problem) as caught:
        save(*args, **kwargs)
    assert caught.value.status == 400
    assert SECRET not in str(caught.value)
    return {(error.path, error.code) for error in caught.value.errors}


def invalid_paths(type: str, settings: dict[str, Any]) -> set[str]:
    with pytest.raises(Problem) as caught:
        channels.validate_config(type, settings)
    return {error.path for error in caught.value.errors}


def test_defaults_are_filled_in() -> None:
    assert channels.validate_config("feishu", FEISHU) == {
        **FEISHU,
        "base_url": "https://open.feishu.cn",
        "transport": "webhook",
        "answer_with_card": True,
    }
    assert channels.validate_config("slack", SLACK)["base_url"] == "https://slack.com/api/"
    assert channels.validate_config("wecom", WECOM)["base_url"] == "https://qyapi.weixin.qq.com"


@pytest.mark.parametrize(
    ("type", "settings", "paths"),
    [
        ("feishu", {}, {"config.app_id", "config.app_secret", "config.chat_id", "config.encrypt_key"}),
        ("feishu", {**FEISHU, "encrypt_key": ""}, {"config.encrypt_key"}),
        ("feishu", {**FEISHU, "chat_id": "finance"}, {"config.chat_id"}),
        ("feishu", {**FEISHU, "app_id": "1"}, {"config.app_id"}),
        ("feishu", {**FEISHU, "transport": "pigeon"}, {"config.transport"}),
        ("feishu", {**FEISHU, "chat": "x"}, {"config.chat"}),
        ("feishu", {**FEISHU, "app_secret": 5}, {"config.app_secret"}),
        ("slack", {**SLACK, "transport": "socket"}, {"config"}),
        ("wecom", {**WECOM, "users": [], "tags": []}, {"config"}),
        ("wecom", {**WECOM, "encoding_aes_key": "short"}, {"config.encoding_aes_key"}),
        ("pigeon", {}, {"type"}),
    ],
)
def test_a_wrong_configuration_names_its_fields(type: str, settings: dict[str, Any], paths: set[str]) -> None:
    assert invalid_paths(type, settings) == paths


@pytest.mark.parametrize(
    "url",
    [
        "http://open.feishu.cn",
        "https://open.feishu.cn:8443",
        "https://open.feishu.cn.evil.test",
        "https://open.feishu.cn@evil.test",
        "https://evil.test/?https://open.feishu.cn",
        "https://open.feishu.cn?x=1",
        "https://open.feishu.cn#x",
        "http://127.0.0.1:8000",
        "http://169.254.169.254/latest",
        "http://[::1",
        "https://open.feishu.cn:99999",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_base_url_outside_the_policy_is_refused(url: str) -> None:
    assert invalid_paths("feishu", {**FEISHU, "base_url": url}) == {"config.base_url"}


@pytest.mark.parametrize("url", ["https://open.feishu.cn", "https://open.larksuite.com"])
def test_both_regions_are_allowed(url: str) -> None:
    assert channels.validate_config("feishu", {**FEISHU, "base_url": url})["base_url"] == url


def test_a_listed_host_is_allowed(settings: Any) -> None:
    settings.CHANNEL_HOSTS = ["im.internal:8080"]
    url = "http://im.internal:8080/feishu"
    assert channels.validate_config("feishu", {**FEISHU, "base_url": url})["base_url"] == url
    assert invalid_paths("feishu", {**FEISHU, "base_url": "http://im.internal"}) == {"config.base_url"}


def test_which_fields_are_secret() -> None:
    assert channels.secret_fields("feishu") == {"app_secret", "encrypt_key", "verification_token"}
    assert channels.secret_fields("slack") == {"bot_token", "signing_secret", "app_token"}
    assert channels.secret_fields("wecom") == {"secret", "token", "encoding_aes_key"}


def test_secrets_are_encrypted_at_rest(channel: Channel) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT config FROM channels_app_channel")
        assert SECRET not in cursor.fetchone()[0]


def test_a_masked_secret_keeps_the_stored_one(channel: Channel, server: SandboxServer) -> None:
    masked = {"app_secret": channels.KEEP, "encrypt_key": "***", "verification_token": channels.KEEP}
    changed = save_again(channel, server, chat_id="oc_other", **masked)
    assert changed.pk == channel.pk
    assert changed.config == config(server, chat_id="oc_other", transport="webhook", answer_with_card=True)


def save_again(channel: Channel, server: SandboxServer, **changes: Any) -> Channel:
    return channels.save(
        organization=channel.organization,
        slug=channel.slug,
        type="feishu",
        enabled=True,
        language="en",
        config=config(server, **changes),
        channel=channel,
    )


def test_saving_the_same_again_changes_nothing(channel: Channel, server: SandboxServer) -> None:
    save_again(channel, server)
    assert AuditEvent.objects.filter(object_kind="channel").count() == 1


def test_the_audit_holds_no_secret(channel: Channel, server: SandboxServer) -> None:
    save_again(channel, server, app_secret="another-secret")
    events = AuditEvent.objects.filter(object_kind="channel")
    assert [event.action for event in events.order_by("pk")] == ["channel.created", "channel.changed"]
    assert not any("secret" in str(event.data) for event in events)


def test_a_new_channel_has_nothing_to_keep(acme: Organization, server: SandboxServer) -> None:
    assert errors(acme, server, app_secret=channels.KEEP) == {("config.app_secret", "required")}


@pytest.mark.parametrize("change", [{"base_url": "https://open.feishu.cn"}, {"app_id": "cli_other"}])
def test_a_stored_secret_goes_nowhere_else(
    channel: Channel, server: SandboxServer, change: dict[str, Any]
) -> None:
    """Whoever only sees asterisks must not be able to have the secret sent to a place of their choice."""
    masked = {"app_secret": channels.KEEP, "encrypt_key": channels.KEEP}
    with pytest.raises(Problem) as caught:
        save_again(channel, server, **masked, **change)
    assert {(e.path, e.code) for e in caught.value.errors} == {
        ("config.app_secret", "reenter"),
        ("config.encrypt_key", "reenter"),
    }
    assert save_again(channel, server, **change).config["app_secret"] == SECRET  # typed in, it is fine


def test_channels_of_one_app_must_agree(channel: Channel, server: SandboxServer) -> None:
    changes = {"app_secret": "x", "verification_token": None}
    assert errors(channel.organization, server, "second", **changes) == {
        ("config.app_secret", "disagrees"),
        ("config.verification_token", "disagrees"),
    }
    second = save(channel.organization, server, "second", chat_id="oc_2")
    assert second.app_id == channel.app_id


def test_a_new_secret_is_shared_and_the_old_token_forgotten(
    channel: Channel, server: SandboxServer, owner: object
) -> None:
    second = save(channel.organization, server, "second", chat_id="oc_2")
    send(channel)
    deliveries.sweep()
    save_again(channel, server, app_secret="new", verification_token=None)
    second.refresh_from_db()
    assert second.config["app_secret"] == "new"
    assert "verification_token" not in second.config
    assert second.config["chat_id"] == "oc_2"
    assert App.objects.get(pk=channel.app_id).token is None


def test_another_organization_has_an_app_of_its_own(channel: Channel, server: SandboxServer) -> None:
    other = save(make.organization("globex"), server, app_secret="x")
    assert other.app_id != channel.app_id


def test_disagreements_in_one_file_are_found_before_anything_is_saved() -> None:
    one = channels.validate_config("feishu", FEISHU)
    two = channels.validate_config("feishu", {**FEISHU, "app_secret": "x", "chat_id": "oc_2"})
    found = channels.disagreements([("channels[0]", "feishu", one), ("channels[1]", "feishu", two)])
    assert [(error.path, error.code) for error in found] == [("channels[1].config.app_secret", "disagrees")]


def test_a_wrong_slug_or_language_is_named(acme: Organization, server: SandboxServer) -> None:
    assert errors(acme, server, "Not A Slug") == {("slug", "invalid")}
    with pytest.raises(Problem, match="language"):
        channels.save(
            organization=acme, slug="a", type="feishu", enabled=True, language="fr", config=config(server)
        )
    save(acme, server)
    assert errors(acme, server, app_id="cli_two") == {("slug", "invalid")}


def test_why_a_channel_cannot_carry_cards(channel: Channel, server: SandboxServer) -> None:
    assert channels.usable(channel) is None
    channel.enabled = False
    assert "switched off" in (channels.usable(channel) or "")
    waiting = save(channel.organization, server, "lc", app_id="cli_3", transport="long_connection")
    assert "long_connection" in (channels.usable(waiting) or "")
    for type, settings in (("slack", SLACK), ("wecom", WECOM)):
        stored = channels.save(
            organization=channel.organization,
            slug=type,
            type=type,
            enabled=True,
            language="en",
            config=settings,
        )
        assert "not available in this release" in (channels.usable(stored) or "")


def test_a_host_that_is_no_longer_listed_makes_the_channel_unusable(channel: Channel, settings: Any) -> None:
    settings.CHANNEL_HOSTS = []
    assert "HOOKGATE_CHANNEL_HOSTS" in (channels.usable(channel) or "")


def test_the_callback_url(channel: Channel, settings: Any) -> None:
    settings.BASE_URL = "https://hookgate.example.com"
    assert channels.callback_url(channel) == "https://hookgate.example.com/channels/acme/ops-feishu/callback"


def test_a_channel_with_history_is_switched_off_instead_of_deleted(
    channel: Channel, server: SandboxServer
) -> None:
    fresh = save(channel.organization, server, "fresh", app_id="cli_2")
    assert channels.remove(fresh) is True
    assert not App.objects.filter(pk=fresh.app_id).exists()
    send(channel)
    assert channels.remove(channel) is False
    channel.refresh_from_db()
    assert channel.enabled is False


def test_one_account_is_one_person(channel: Channel, acme: Organization) -> None:
    bob, alice = make.user("bob", acme), make.user("alice", acme)
    bound = identities.bind(organization=acme, user=bob, channel=channel, external_id="ou_bob")
    assert (
        identities.bind(organization=acme, user=bob, channel=channel, external_id="ou_bob", name="Bob").pk
        == bound.pk
    )
    with pytest.raises(Problem, match="is bob"):
        identities.bind(organization=acme, user=alice, channel=channel, external_id="ou_bob")
    found = identities.find(channel.app, "ou_bob")
    assert found is not None
    assert (found.user, found.name) == (bob, "Bob")
    identities.unbind(found, actor=audit.SHELL)
    assert identities.find(channel.app, "ou_bob") is None
    assert [e.action for e in AuditEvent.objects.filter(object_kind="identity").order_by("pk")] == [
        "identity.bound",
        "identity.unbound",
    ]


def test_a_runtimes_user_is_not_an_account_of_the_app(channel: Channel, acme: Organization) -> None:
    bob = make.user("bob", acme)
    identities.bind(organization=acme, user=bob, channel=None, external_id="u42")
    assert identities.find(channel.app, "u42") is None
    found = identities.find_runtime_user(acme, "u42")
    assert found is not None
    assert found.user == bob
    assert identities.find_runtime_user(make.organization("globex"), "u42") is None


def test_strangers_and_foreign_channels_are_not_bound(channel: Channel, acme: Organization) -> None:
    globex = make.organization("globex")
    eve = make.user("eve", globex)
    with pytest.raises(Problem, match="no member"):
        identities.bind(organization=acme, user=eve, channel=channel, external_id="ou_eve")
    with pytest.raises(Problem, match="channel"):
        identities.bind(organization=globex, user=eve, channel=channel, external_id="ou_eve")
    with pytest.raises(Problem, match="external_id"):
        identities.bind(organization=globex, user=eve, channel=None, external_id="")
    assert not Identity.objects.exists()
