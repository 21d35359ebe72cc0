"""Where the portal's one outgoing client goes, and where it doesn't."""

import socket
from typing import Any

import httpx
import pytest

from channels_app.sandbox import samples
from channels_app.sandbox.server import SandboxServer
from portal.lib.http import Client, ForbiddenAddress

HOSTS = ("open.feishu.cn",)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "192.168.1.1", "::1", "fd00::1", "0.0.0.0"]
)
def test_a_name_that_leads_into_the_own_network_is_not_called(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def resolve(*args: Any, **options: Any) -> list[Any]:
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 443))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ForbiddenAddress, match="private address"):
        Client("https://open.feishu.cn", hosts=HOSTS).request("GET", "/open-apis/bot/v3/info")


def test_a_redirect_is_not_followed(settings: Any) -> None:
    with SandboxServer(samples.sample(None)) as server:
        settings.CHANNEL_HOSTS = [server.base_url.removeprefix("http://")]
        body = {"endpoint": "bot_info", "status": 302, "headers": {"Location": f"{server.base_url}/"}}
        server.control("failures", **body)
        answer = Client(server.feishu_url, hosts=HOSTS).request("GET", "/open-apis/bot/v3/info")
    assert answer.status_code == 302


def test_the_checked_address_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that changes its answer between the check and the call gains nothing."""
    looked_up: list[str] = []
    called: list[str] = []

    def resolve(host: str, *args: Any, **options: Any) -> list[Any]:
        looked_up.append(host)
        public = len(looked_up) == 1
        address = "93.184.216.34" if public else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 443))]

    def connect(address: tuple[str, int], *args: Any, **options: Any) -> Any:
        called.append(address[0])
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(httpx.ConnectError):
        Client("https://open.feishu.cn", hosts=HOSTS).request("GET", "/open-apis/bot/v3/info")
    assert called == ["93.184.216.34"]
    assert looked_up == ["open.feishu.cn"]
