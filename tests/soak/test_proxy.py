"""The reverse proxies' configurations of ``docs/operations.md``, in a real nginx and Caddy before a real portal."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hookgate import Runtime

from channels_app.sandbox import samples
from examples import demo
from examples.portal_process import free_port
from tests.docs.tables import DOCS
from tests.e2e.conftest import Stage
from tests.soak import counts

HOST = "hookgate.example.com"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not counts.SOAK, reason="part of make soak"),
]


class Proxy:
    """A proxy with the page's snippet; ``url`` is plain http, ``tls`` with a certificate of its own."""

    name = ""

    def __init__(self, folder: Path, upstream: int) -> None:
        self.folder = folder
        self.plain, self.secure = free_port(), free_port()
        self.url, self.tls = f"http://127.0.0.1:{self.plain}", f"https://127.0.0.1:{self.secure}"
        page = (DOCS / "operations.md").read_text(encoding="utf-8")
        found = re.search(rf"```{self.name}\n(.*?)```", page, re.DOTALL)
        assert found
        self.process = subprocess.Popen(
            [
                str(program(self.name)),
                *self.write(found[1].replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")),
            ],
            env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)},
        )

    def write(self, snippet: str) -> list[str]:
        """Write what the program reads; returns its arguments."""
        raise NotImplementedError

    def stop(self) -> None:
        """Returns when it has ended."""
        self.process.terminate()
        self.process.wait(10)


class Nginx(Proxy):
    """The snippet's server, on two ports."""

    name = "nginx"

    def write(self, snippet: str) -> list[str]:
        """One file, and a certificate."""
        order = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={HOST} -keyout key.pem -out cert.pem"
        subprocess.run(order.split(), cwd=self.folder, check=True, capture_output=True)
        listens = (
            f"listen 127.0.0.1:{self.secure} ssl; listen 127.0.0.1:{self.plain};"
            f" ssl_certificate {self.folder}/cert.pem; ssl_certificate_key {self.folder}/key.pem;"
        )
        server = re.sub(r"ssl_certificate(_key)? .*?;", "", snippet).replace("listen 443 ssl;", listens)
        folders = " ".join(
            f"{name}_temp_path {self.folder}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # Its workers put long bodies into files of the test's own folder.
        owner = "user root; " if os.geteuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(
            f"{owner}daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log;\n"
            f"events {{}}\nhttp {{ access_log off; {folders}\n{server}\n}}\n"
        )
        return ["-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]


class Caddy(Proxy):
    """The snippet's site, at two addresses; its certificate is from an authority of its own."""

    name = "caddy"

    def write(self, snippet: str) -> list[str]:
        """One file."""
        options = (
            f"{{\n admin off\n local_certs\n skip_install_trust\n default_sni {HOST}\n"
            f" http_port {self.plain}\n https_port {self.secure}\n auto_https disable_redirects\n grace_period 1s\n}}\n"
        )
        site = snippet.replace(f"{HOST} {{", f"https://{HOST}, http://127.0.0.1:{self.plain} {{", 1)
        (self.folder / "Caddyfile").write_text(options + site)
        return ["run", "--adapter", "caddyfile", "--config", str(self.folder / "Caddyfile")]


def program(name: str) -> str | None:
    """Where the proxy's program is, if it is installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            kind,
            id=kind.name,
            marks=pytest.mark.skipif(program(kind.name) is None, reason=f"{kind.name} is not installed"),
        )
        for kind in (Nginx, Caddy)
    ],
)
def proxied(
    request: pytest.FixtureRequest, stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stage, Proxy]]:
    """The stage with a proxy before it, which the platform calls too."""
    stage.portal.stop()
    stage.portal.environment |= {
        "HOOKGATE_BASE_URL": f"https://{HOST}",
        "HOOKGATE_ALLOWED_HOSTS": f"{HOST},127.0.0.1",
        "HOOKGATE_TRUSTED_PROXIES": "127.0.0.1",
    }
    stage.portal.start()
    proxy: Proxy = request.param(tmp_path_factory.mktemp("proxy"), stage.portal.port)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", proxy.plain)) == 0:
                break
        time.sleep(0.05)
    # The cards that people have decided through another proxy.
    stage.sandbox.control("reset")
    app = stage.sandbox.sandbox.directory.app(samples.APP_ID)
    app.callback_url = f"{proxy.url}/channels/demo/chat/callback"
    yield stage, proxy
    proxy.stop()


@pytest.mark.parametrize("step", [demo.approved, demo.rejected, demo.expired], ids=lambda step: step.__name__)
def test_people_decide_through_it(step: demo.Step, proxied: tuple[Stage, Proxy]) -> None:
    stage, proxy = proxied

    async def run() -> None:
        async with Runtime(proxy.url, stage.key, name="behind-a-proxy") as runtime:
            await step(demo.Demo(stage.portal, stage.sandbox, runtime, stage.key))

    asyncio.run(run())


def test_the_longest_wait_is_answered_and_not_cut_off(proxied: tuple[Stage, Proxy]) -> None:
    stage, proxy = proxied
    with client(stage, proxy) as http:
        digest = http.get("/api/v1/agents/procurement/registry").json()["digest"]
        asked = http.post("/api/v1/confirmations", json=question(digest))
        assert asked.status_code == 201, asked.text
        began = time.monotonic()
        answer = http.get(f"/api/v1/confirmations/{asked.json()['id']}?wait=60", timeout=80)
    assert answer.status_code == 200
    # The request's own deadline is as far away as the longest wait.
    assert answer.json()["status"] in {"pending", "expired"}
    assert 50 < time.monotonic() - began < 75


def test_events_come_as_they_happen(proxied: tuple[Stage, Proxy]) -> None:
    stage, proxy = proxied
    began = time.monotonic()
    with (
        client(stage, proxy) as http,
        http.stream("GET", "/api/v1/agents/procurement/events", timeout=30) as stream,
    ):
        seen: dict[str, float] = {}
        for line in stream.iter_lines():
            seen.setdefault(line.partition(":")[0] + line[-5:], time.monotonic() - began)
            if line.startswith(":"):
                break
    first, comment = min(seen.values()), max(seen.values())
    assert first < 5
    assert 5 < comment < 20


def test_bodies_are_refused_by_the_portal_in_its_own_words(proxied: tuple[Stage, Proxy]) -> None:
    stage, proxy = proxied
    with client(stage, proxy) as http:
        for path in ("/api/v1/confirmations", "/channels/demo/chat/callback"):
            answer = http.post(path, content=b"x" * (1024 * 1024 + 1))
            assert answer.status_code == 413
            assert answer.headers["Content-Type"].startswith("application/problem+json")
        for mebibytes, status in ((7, 400), (9, 413)):
            body = b"x" * (mebibytes * 1024 * 1024)
            answer = http.post("/api/v1/calls", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == status
        assert http.get("/metrics").status_code == 404


def test_the_portal_knows_that_it_is_https_and_who_asks(proxied: tuple[Stage, Proxy]) -> None:
    stage, proxy = proxied
    with httpx.Client(base_url=proxy.tls, verify=False, trust_env=False, headers={"Host": HOST}) as http:
        page = http.get("/login/", headers={"X-Forwarded-For": "203.0.113.9"})
        assert "Secure" in page.headers["Set-Cookie"]
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token
        answer = http.post(
            "/login/",
            data={"username": "bob", "password": "wrong", "csrfmiddlewaretoken": token[1]},
            headers={"Referer": f"https://{HOST}/login/", "Cookie": f"csrftoken={http.cookies['csrftoken']}"},
        )
        assert answer.status_code == 200, answer.text  # the form again, not a refusal for its token
    assert "203.0.113.9" not in stage.portal.log.read_text()


def client(stage: Stage, proxy: Proxy) -> httpx.Client:
    """A runtime's client through the proxy."""
    return httpx.Client(
        base_url=proxy.url, headers={"Authorization": f"Bearer {stage.key}"}, trust_env=False, timeout=30
    )


def question(digest: str) -> dict[str, object]:
    """The body of a request that nobody answers."""
    return {
        "agent": "procurement",
        "conversation_id": f"proxy-{time.time_ns()}",
        "tool_call_id": "1",
        "tool_name": "oa__purchase_pay",
        "tool_args": {"amount": 60009},
        "hook": "approval_gate",
        "registry_digest": digest,
        "initiator": demo.USER,
    }
