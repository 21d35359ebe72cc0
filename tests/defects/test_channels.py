"""Cards go where somebody wrote that they go, and secrets nowhere else."""

import io
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from channels_app import channels
from channels_app.models import Channel, Delivery
from channels_app.outbox import deliveries
from hooks_app.registry import heads
from portal.lib import http
from tests import make
from tests.defects.office import Office, tap

LUNCH = {"chat_id": "oc_lunch"}
WECOM = {
    "corp_id": "ww1",
    "agent_id": 1000002,
    "secret": "s",
    "token": "t",
    "encoding_aes_key": "k" * 43,
    "users": ["zhang"],
}


def sent_to(request: Any) -> list[str]:
    """The channels of a request's cards."""
    return [delivery["channel"] for delivery in request["deliveries"]]


def wecom(office: Office) -> Channel:
    """A channel of a platform that this release does not speak, older in name than every other."""
    return channels.save(
        organization=office.world.organization,
        slug="a-wecom",
        type="wecom",
        enabled=True,
        language="en",
        config=WECOM,
    )


@pytest.mark.parametrize("mode", ["auto", "channel_only"])
def test_no_card_moves_to_another_group(office: Office, mode: str) -> None:
    """Known failure 19 of earlier systems: with the named channel off, cards went to the first other group."""
    world = office.world
    make.channel(world.organization, "lunch", config=LUNCH)
    world.set_agent(confirmation_mode=mode)
    assert sent_to(office.ask()) == ["ops-feishu"]
    Channel.objects.filter(pk=world.channel.pk).update(enabled=False)
    question = office.question()
    heads.inputs_changed(world.organization)
    seen = office.call("POST", "/confirmations", question)
    if mode == "auto":
        assert (seen.status, sent_to(seen.body)) == (201, [])  # the inbox is left
    else:
        assert (seen.status, seen.body["code"]) == (422, "registry_unbuildable")
        served = office.call("GET", f"/agents/{world.agent.slug}/registry")
        assert (served.status, served.body["code"]) == (422, "registry_unbuildable")
    assert not Delivery.objects.filter(channel__slug="lunch").exists()


def test_an_agent_reaches_no_channel_of_another_organization(office: Office, tmp_path: Any) -> None:
    """Known failure 20 of earlier systems: an agent posted its arguments to another organization's group."""
    world = office.world
    theirs = make.channel(make.organization("globex"), "their-chat", config={"app_id": "cli_9"})
    # By the file, by the admin page, by the runtime's own word.
    file = tmp_path / "hookgate.yaml"
    file.write_text(
        "apiVersion: hookgate/v1\norganizations:\n- slug: acme\n  name: Acme\n  agents:\n"
        "  - {slug: procurement, name: P, approval_channels: [their-chat]}\n"
    )
    errors = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("apply", str(file), stdout=io.StringIO(), stderr=errors)
    assert "agents[0].approval_channels[0]" in errors.getvalue()
    answer = office.call("POST", "/confirmations", office.question(channel="their-chat"))
    assert (answer.status, [error["path"] for error in answer.body["errors"]]) == (400, ["channel"])
    assert sent_to(office.ask()) == ["ops-feishu"]
    # A row that got there all the same makes the registry unbuildable; it is never followed.
    make.approval_channel(world.agent, theirs)
    make.publish(world.agent)
    served = office.call("GET", f"/agents/{world.agent.slug}/registry")
    assert (served.status, {error["code"] for error in served.body["errors"]}) == (422, {"unknown_channel"})
    assert (
        office.call(
            "POST", "/confirmations", {**office.question(registry_digest="sha256:" + "0" * 64)}
        ).status
        == 422
    )
    assert not Delivery.objects.filter(channel=theirs).exists()


def test_a_channel_of_the_same_name_elsewhere_is_another_channel(office: Office) -> None:
    """Known failure 20 of earlier systems, by way of a name that both organizations use."""
    theirs = make.channel(make.organization("globex"), "ops-feishu", config={"app_id": "cli_9"})
    assert sent_to(office.ask()) == ["ops-feishu"]
    assert not Delivery.objects.filter(channel=theirs).exists()
    assert tap(Delivery.objects.get(), "ou_bob", at=theirs).status == 403


@pytest.mark.parametrize("spelled", [True, False])
def test_a_channel_that_can_not_send_breaks_no_other(office: Office, spelled: bool) -> None:
    """Known failure 42 of earlier systems: one row of a platform without adapter switched approvals off."""
    world = office.world
    wecom(office)
    if spelled:
        world.agent.approval_channel_rows.all().delete()
        make.class_hook(world.agent, "feishu_gate")
    world.set_agent(confirmation_mode="channel_only")
    assert office.call("GET", f"/agents/{world.agent.slug}/registry").status == 200
    assert sent_to(office.ask()) == ["ops-feishu"]


def test_a_platform_that_can_not_send_is_a_clear_error_where_it_is_asked_for(office: Office) -> None:
    """Known failure 42 of earlier systems, the other half: an option that can't work says so."""
    world = office.world
    world.agent.approval_channel_rows.all().delete()
    make.approval_channel(world.agent, wecom(office))
    world.set_agent(confirmation_mode="channel_only")
    served = office.call("GET", f"/agents/{world.agent.slug}/registry")
    assert (served.status, [error["code"] for error in served.body["errors"]]) == (422, ["no_usable_channel"])
    assert "WeCom is not available" in str(served.body)


def channel_form(office: Office, **changes: str) -> tuple[Any, Channel]:
    """Send the channel's admin form as alice, secrets left empty unless given; the answer and the row after it."""
    channel = office.world.channel
    browser = Client()
    browser.force_login(office.world.alice, backend="django.contrib.auth.backends.ModelBackend")
    form = {
        "enabled": "on",
        "language": "en",
        "config_app_id": channel.config["app_id"],
        "config_chat_id": channel.config["chat_id"],
        "config_base_url": channel.config["base_url"],
        "config_transport": "webhook",
        "config_answer_with_card": "on",
        **changes,
    }
    answer = browser.post(f"/admin/channels_app/channel/{channel.pk}/change/", form)
    return answer, Channel.objects.get(pk=channel.pk)


def test_who_sees_only_stars_can_not_send_a_secret_elsewhere(office: Office, settings: Any) -> None:
    """Known failure 25 of earlier systems: an admin changed the address and received the secret there."""
    settings.CHANNEL_HOSTS = ["127.0.0.1:9"]
    for address in (
        "http://127.0.0.1:9",
        "https://open.larksuite.com",
        "http://169.254.169.254/latest",
        "https://x.test",
    ):
        for stars in ("", "***", channels.KEEP):
            secrets = {
                f"config_{name}": stars for name in ("app_secret", "encrypt_key", "verification_token")
            }
            answer, row = channel_form(office, config_base_url=address, **secrets)
            assert answer.status_code == 200, address  # the form again, with its errors
            assert row.config["base_url"] == "https://open.feishu.cn"
            for word in ("app-secret", "encrypt-key", "verification-token"):
                assert word not in answer.content.decode()


@pytest.mark.parametrize("stars", ["", "***", channels.KEEP])
def test_a_mask_that_comes_back_keeps_the_secret(office: Office, stars: str) -> None:
    """Known failure 28 of earlier systems: saving what the page had shown stored three asterisks as the secret."""
    before = office.world.channel.config
    secrets = {f"config_{name}": stars for name in ("app_secret", "encrypt_key", "verification_token")}
    answer, row = channel_form(office, config_chat_id="oc_2", **secrets)
    assert (answer.status_code, row.config["chat_id"]) == (302, "oc_2")
    kept = ("app_secret", "encrypt_key", "verification_token")
    assert {name: row.config[name] for name in kept} == {name: before[name] for name in kept}


def test_the_channels_page_says_what_is_stored(office: Office) -> None:
    """Known failure 41 of earlier systems: a working channel was shown as disabled and without secrets."""
    browser = Client()
    browser.force_login(office.world.alice, backend="django.contrib.auth.backends.ModelBackend")
    page = browser.get(f"/admin/channels_app/channel/{office.world.channel.pk}/change/").content.decode()
    assert page.count("A value is stored.") == 3
    assert "not checked" in browser.get("/admin/channels_app/channel/").content.decode()


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"]
)
def test_a_name_that_leads_inside_is_not_called(
    office: Office, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Known failures 18 and 25 of earlier systems: any address was called; a failed send left a live request, and the
    answer's raw text went to members and to the model."""
    called: list[Any] = []
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def lead_inside(host: Any, *more: Any, **named: Any) -> Any:
        inside = [(family, socket.SOCK_STREAM, 6, "", (address, 443))]
        return inside if host in ("open.feishu.cn", b"open.feishu.cn") else resolve(host, *more, **named)

    def note(self: socket.socket, target: Any) -> None:
        if target[0] != address or target[1] != 443:
            return connect(self, target)  # the portal's own services
        called.append(target)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", lead_inside)
    monkeypatch.setattr(socket.socket, "connect", note)
    office.world.set_agent(confirmation_mode="channel_only")
    request = office.ask()
    deliveries.sweep()
    assert called == []
    read = office.call("GET", f"/confirmations/{request['id']}").body
    assert (read["status"], read["deliveries"][0]["status"]) == ("undeliverable", "failed")
    assert read["reason"] == "No card could be delivered, and only a tap on a card may decide."
    assert office.consume(request).status == 409


def test_a_redirect_is_not_followed(settings: Any) -> None:
    """Known failure 25 of earlier systems: a trick with the address gave control of where a request goes."""
    seen: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/inside")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Redirecting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.CHANNEL_HOSTS = [f"127.0.0.1:{server.server_port}"]
    client = http.Client(f"http://127.0.0.1:{server.server_port}", hosts=())
    assert client.request("GET", "/outside").status_code == 302
    server.shutdown()
    server.server_close()
    assert seen == ["/outside"]
