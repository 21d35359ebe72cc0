"""The sandbox on a port of its own, for tests and the demo."""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Any

import httpx
import uvicorn

from channels_app.sandbox import asgi
from channels_app.sandbox.feishu import FeishuSandbox

START_SECONDS = 10.0


class SandboxServer:
    """`with SandboxServer(sandbox) as server:` serves on 127.0.0.1 and a free port until the block ends."""

    def __init__(self, sandbox: FeishuSandbox) -> None:
        self.sandbox = sandbox
        # With the protocol named, asyncio switches Nagle off: without, every answer takes 40 ms.
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.socket.bind(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.feishu_url = f"{self.base_url}/feishu"
        self.client = httpx.Client(base_url=self.base_url, timeout=60, trust_env=False)
        config = uvicorn.Config(
            asgi.application(sandbox),
            log_level="critical",
            lifespan="off",
            access_log=False,
            # Longer than clients keep an idle connection (httpx: 5 s), so that none sends into one that just closes.
            timeout_keep_alive=60,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, args=([self.socket],), name="sandbox", daemon=True
        )

    def __enter__(self) -> "SandboxServer":
        self.thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self.server.started:
            if time.monotonic() > deadline or not self.thread.is_alive():
                raise RuntimeError(f"the sandbox did not start within {START_SECONDS:g} s")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(START_SECONDS)
        with contextlib.suppress(OSError):
            self.socket.close()

    def control(self, path: str, /, **order: Any) -> dict[str, Any]:
        """POSTs an order to the control side and returns its answer. Raises httpx.HTTPStatusError with the reason."""
        return self._answer(self.client.post(f"/sandbox-control/{path}", json=order))

    def look(self, path: str, /, **query: str) -> dict[str, Any]:
        """GETs a list of the control side."""
        return self._answer(self.client.get(f"/sandbox-control/{path}", params=query))

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        if response.status_code != 200:
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
        answer: dict[str, Any] = response.json()
        return answer
