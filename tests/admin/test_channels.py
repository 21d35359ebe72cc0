"""Channels, identities, deliveries: forms drawn for the platform, secrets that never come back."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from channels_app.models import App, Channel, Delivery, Identity
from channels_app.outbox import dispatch
from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from portal.lib import clock
from portal.models import AuditEvent
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import SECRETS, Tenant, sign_in

NEW = {
    "slug": "second",
    "config_app_id": "cli_second",
    "config_app_secret": "new-secret",
    "config_chat_id": "oc_second",
    "config_encrypt_key": "new-key",
}


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def of_channel(row: Channel, page: str = "change") -> str:
    return f"/admin/channels_app/channel/{row.pk}/{page}/"


def version(acme: Tenant) -> int:
    acme.organization.refresh_from_db()
    return acme.organization.inputs_version


def test_first_the_platform_then_its_settings(acme: Tenant, browser: Client) -> None:
    page = browser.get("/admin/channels_app/channel/add/").content.decode()
    for type in ("feishu", "slack", "wecom"):
        assert f'href="/admin/channels_app/channel/add/?type={type}"' in page
    assert "config_app_secret" in browser.get("/admin/channels_app/channel/add/?type=feishu").content.decode()
    assert "config_bot_token" in browser.get("/admin/channels_app/channel/add/?type=slack").content.decode()
    assert (
        "config_encoding_aes_key"
        in browser.get("/admin/channels_app/channel/add/?type=wecom").content.decode()
    )
    assert "?type=slack" in browser.get("/admin/channels_app/channel/add/?type=telepathy").content.decode()


def test_a_new_channel(acme: Tenant, browser: Client) -> None:
    before = version(acme)
    answer = save(browser, "/admin/channels_app/channel/add/?type=feishu", **NEW)
    assert answer.status_code == 302, errors(answer)
    row = Channel.objects.get(slug="second")
    assert (row.type, row.organization, row.app.key, row.enabled) == (
        "feishu",
        acme.organization,
        "cli_second",
        True,
    )
    assert row.config["app_secret"] == "new-secret"
    assert row.config["base_url"] == "https://open.feishu.cn"
    assert version(acme) == before + 1
    page = browser.get(of_channel(row)).content.decode()
    assert f"{settings.BASE_URL}/channels/acme/second/callback" in page
    assert "new-secret" not in page
    assert "new-key" not in page
    event = AuditEvent.objects.get(action="channel.created", object_name="second")
    assert event.actor_name == "acme-admin"
    assert "new-secret" not in str(event.data)


def test_the_settings_of_other_platforms(acme: Tenant, browser: Client) -> None:
    slack = {
        "slug": "slack",
        "config_bot_token": "xoxb-1-2-s",
        "config_signing_secret": "sign",
        "config_channel_id": "C1",
    }
    answer = save(browser, "/admin/channels_app/channel/add/?type=slack", **slack)
    assert answer.status_code == 302, errors(answer)
    wecom = {
        "slug": "wecom", "config_corp_id": "ww1", "config_agent_id": "7", "config_secret": "s", "config_token": "t",
        "config_encoding_aes_key": "k" * 43, "config_users": "bob\ncarol",
    }  # fmt: skip
    answer = save(browser, "/admin/channels_app/channel/add/?type=wecom", **wecom)
    assert answer.status_code == 302, errors(answer)
    row = Channel.objects.get(slug="wecom")
    assert (row.config["agent_id"], row.config["users"]) == (7, ["bob", "carol"])


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"config_app_id": "nonsense"}, "config_app_id"),
        ({"config_app_secret": ""}, "config_app_secret"),
        ({"config_base_url": "https://evil.example"}, "config_base_url"),
        ({"config_base_url": "http://169.254.169.254"}, "config_base_url"),
        ({"slug": "acme-chat"}, "slug"),
        ({"slug": "Not A Slug"}, "slug"),
    ],
)
def test_a_wrong_setting_is_refused_at_its_field(
    acme: Tenant, browser: Client, values: dict[str, str], field: str
) -> None:
    answer = save(browser, "/admin/channels_app/channel/add/?type=feishu", **{**NEW, **values})
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]
    assert Channel.objects.count() == 1
    assert "new-secret" not in answer.content.decode()


def test_an_empty_secret_keeps_the_stored_one(acme: Tenant, browser: Client) -> None:
    row = acme.row(Channel)
    answer = save(browser, of_channel(row), config_chat_id="oc_other", language="ko")
    assert answer.status_code == 302, errors(answer)
    row.refresh_from_db()
    assert {name: row.config[name] for name in SECRETS} == SECRETS
    assert (row.config["chat_id"], row.language) == ("oc_other", "ko")


def test_a_new_secret_replaces_the_stored_one(acme: Tenant, browser: Client) -> None:
    row = acme.row(Channel)
    assert save(browser, of_channel(row), config_app_secret="rotated").status_code == 302
    row.refresh_from_db()
    assert row.config["app_secret"] == "rotated"
    assert row.config["encrypt_key"] == SECRETS["encrypt_key"]


def test_a_stored_secret_is_sent_nowhere_else(acme: Tenant, browser: Client) -> None:
    row = acme.row(Channel)
    answer = save(browser, of_channel(row), config_base_url="https://open.larksuite.com")
    assert answer.status_code == 200
    assert sorted(answer.context["adminform"].form.errors) == [f"config_{name}" for name in sorted(SECRETS)]
    row.refresh_from_db()
    assert row.config["base_url"] == "https://open.feishu.cn"


def test_an_unchanged_channel_says_nothing(acme: Tenant, browser: Client) -> None:
    address = of_channel(acme.row(Channel))
    save(browser, address)  # fills in the defaults that the test's row lacks
    before = AuditEvent.objects.count(), version(acme)
    assert save(browser, address).status_code == 302
    assert (AuditEvent.objects.count(), version(acme)) == before


def test_a_channel_with_history_is_switched_off(acme: Tenant, browser: Client) -> None:
    row = acme.row(Channel)
    assert browser.post(of_channel(row, "remove")).status_code == 302
    row.refresh_from_db()
    assert not row.enabled
    unused = make.channel(acme.organization, "unused", config={"app_id": "cli_unused"})
    assert (
        browser.post(of_channel(unused, "remove"), follow=True).redirect_chain[0][0]
        == "/admin/channels_app/channel/"
    )
    assert not Channel.objects.filter(pk=unused.pk).exists()
    assert not App.objects.filter(key="cli_unused").exists()


@pytest.fixture
def chat() -> Iterator[SandboxServer]:
    """A Feishu that answers."""
    with SandboxServer(samples.sample(None)) as server:
        yield server


@pytest.fixture
def connected(acme: Tenant, chat: SandboxServer, settings: Any) -> Channel:
    """A channel whose platform is the sandbox."""
    settings.CHANNEL_HOSTS = [chat.base_url.removeprefix("http://")]
    config = {
        "app_id": samples.APP_ID,
        "app_secret": samples.APP_SECRET,
        "encrypt_key": samples.ENCRYPT_KEY,
        "verification_token": samples.VERIFICATION_TOKEN,
        "chat_id": "oc_finance_approvals",
        "base_url": chat.feishu_url,
    }
    return make.channel(acme.organization, "connected", config=config)


def said(browser: Client, channel: Channel) -> str:
    """The channel's state, as the list shows it."""
    page = browser.get(f"/admin/channels_app/channel/?q={channel.slug}").content.decode()
    words = "not checked|works|error|platform away|off"
    (word,) = re.findall(rf">\s*({words})\s*</span>", page)
    return str(word)


def test_nothing_is_said_to_work_before_it_has(
    connected: Channel, browser: Client, chat: SandboxServer
) -> None:
    assert said(browser, connected) == "not checked"
    assert "never, with this configuration" in browser.get(of_channel(connected)).content.decode()
    browser.post(of_channel(connected, "try"))
    assert said(browser, connected) == "works"
    # Any other setting may be wrong again.
    assert save(browser, of_channel(connected), config_chat_id="oc_nowhere").status_code == 302
    assert said(browser, connected) == "not checked"
    browser.post(of_channel(connected, "try"))
    assert said(browser, connected) == "error"
    assert "chat:" in browser.get(of_channel(connected)).content.decode()
    # A word that changes nothing of the configuration changes nothing of what is known of it.
    assert save(browser, of_channel(connected), language="ko").status_code == 302
    assert said(browser, connected) == "error"


def test_a_new_secret_of_the_app_makes_every_channel_of_it_unchecked(
    connected: Channel, browser: Client
) -> None:
    other = make.channel(
        connected.organization, "sibling", config={**connected.config, "chat_id": "oc_other"}
    )
    for row in (connected, other):
        Channel.objects.filter(pk=row.pk).update(worked_at=clock.now())
        assert said(browser, row) == "works"
    assert save(browser, of_channel(connected), config_app_secret="rotated").status_code == 302
    assert [said(browser, row) for row in (connected, other)] == ["not checked", "not checked"]


def test_a_channel_that_can_carry_nothing_is_an_error(acme: Tenant, browser: Client) -> None:
    row = make.channel(acme.organization, "elsewhere", config={"base_url": "https://evil.example"})
    assert said(browser, row) == "error"


def test_a_card_that_arrived_shows_that_a_channel_works(connected: Channel, browser: Client) -> None:
    browser.post(of_channel(connected, "send_test"))
    assert said(browser, connected) == "not checked"
    dispatch.bring(Delivery.objects.values_list("pk", flat=True).filter(channel=connected))
    assert said(browser, connected) == "works"


def test_the_check_says_what_works_and_lists_the_chats(connected: Channel, browser: Client) -> None:
    asked = browser.get(of_channel(connected, "try")).content.decode()
    assert "Finance approvals" not in asked
    page = browser.post(of_channel(connected, "try")).content.decode()
    assert "oc_finance_approvals" in page
    assert "Finance approvals" in page
    assert "works" in page
    assert samples.APP_SECRET not in page


def test_the_check_says_what_to_do(connected: Channel, browser: Client) -> None:
    connected.config = {**connected.config, "app_secret": "S3CRET-other"}
    connected.save()
    page = browser.post(of_channel(connected, "try")).content.decode()
    assert "fails" in page
    assert "copy it again from the developer console" in page
    assert "S3CRET" not in page


def test_a_test_message_goes_out(connected: Channel, browser: Client) -> None:
    before = Delivery.objects.filter(channel=connected).count()
    assert browser.post(of_channel(connected, "send_test")).status_code == 302
    assert Delivery.objects.filter(channel=connected).count() == before + 1
    connected.enabled = False
    connected.save()
    assert "switched off" in browser.post(of_channel(connected, "send_test")).content.decode()


def test_bind_and_unbind_an_account(acme: Tenant, browser: Client) -> None:
    address = "/admin/channels_app/identity/add/"
    values = {
        "user": str(acme.people["member"].pk),
        "channel": str(acme.row(Channel).pk),
        "external_id": "ou_new",
    }
    answer = save(browser, address, **values)
    assert answer.status_code == 302, errors(answer)
    row = Identity.objects.get(external_id="ou_new")
    assert (row.user, row.app) == (acme.people["member"], acme.row(App))
    taken = save(browser, address, **{**values, "external_id": "ou_acme"})
    assert list(taken.context["adminform"].form.errors) == ["external_id"]
    assert browser.post(f"/admin/channels_app/identity/{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Identity.objects.filter(pk=row.pk).exists()
    actions = list(AuditEvent.objects.order_by("-sequence").values_list("action", flat=True)[:2])
    assert actions == ["identity.unbound", "identity.bound"]


def test_a_failed_delivery_is_tried_again(acme: Tenant, browser: Client) -> None:
    row = acme.row(Delivery)
    page = f"/admin/channels_app/delivery/{row.pk}"
    assert browser.post(f"{page}/retry/").status_code == 403
    Delivery.objects.filter(pk=row.pk).update(status="failed", due_at=None)
    shown = browser.get(f"{page}/change/").content.decode()
    assert "bot is not in the chat" in shown
    assert browser.post(f"{page}/retry/").status_code == 302
    row.refresh_from_db()
    assert (row.status, row.due_at is not None) == ("queued", True)
    assert AuditEvent.objects.filter(action="delivery.retried", actor_name="acme-admin").exists()
