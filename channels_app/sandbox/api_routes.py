"""The open API over HTTP: /feishu/open-apis/…"""

import asyncio
import json
import secrets
from typing import Any

from channels_app.sandbox import open_api, web
from channels_app.sandbox.failures import Failure
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.ledger import Call
from channels_app.sandbox.refusals import Refusal
from channels_app.sandbox.web import Request, Response, Route

PREFIX = "/feishu/open-apis"
PATHS = (
    ("POST", "/auth/v3/tenant_access_token/internal", "token"),
    ("POST", "/im/v1/messages", "send"),
    ("PATCH", "/im/v1/messages/{}", "update"),
    ("GET", "/bot/v3/info", "bot_info"),
    ("GET", "/im/v1/chats", "chats"),
    ("GET", "/im/v1/chats/{}", "chat"),
    ("POST", "/contact/v3/users/batch_get_id", "batch_get_id"),
    ("GET", "/contact/v3/users/{}", "user"),
)


def routes(sandbox: FeishuSandbox) -> list[Route]:
    return [Route(method, PREFIX + path, _Endpoint(sandbox, name)) for method, path, name in PATHS]


class _Endpoint:
    """One endpoint: note the call, let a planned failure have its way, carry it out, note the answer."""

    def __init__(self, sandbox: FeishuSandbox, name: str) -> None:
        self.sandbox = sandbox
        self.name = name

    async def __call__(self, request: Request, segment: str) -> Response:
        call, failure = self._open(request)
        if failure is not None and failure.delay_ms:
            await asyncio.sleep(failure.delay_ms / 1000)
        response = self._planned(failure) or self._carry_out(request, segment)
        if failure is not None and failure.late_ms:
            await asyncio.sleep(failure.late_ms / 1000)
        if failure is not None and failure.apply_then_drop:
            response = Response(dropped=True)
        self._close(call, response)
        return response

    def _open(self, request: Request) -> tuple[Call, Failure | None]:
        sandbox = self.sandbox
        with sandbox.lock:
            call = Call(
                number=0,
                at=sandbox.clock.now(),
                endpoint=self.name,
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=request.text(),
            )
            sandbox.ledger.open(call)
            failure = sandbox.failures.take(self.name)
            call.app_id = self._app_id(request)
            call.failure = "" if failure is None else _name(failure)
        return call, failure

    def _app_id(self, request: Request) -> str:
        if self.name == "token":
            return str((request.json_object() or {}).get("app_id", ""))
        try:
            return self.sandbox.tokens.app_id_of(
                request.headers.get("authorization"), self.sandbox.clock.now()
            )
        except Refusal:
            return ""

    def _planned(self, failure: Failure | None) -> Response | None:
        if failure is None or failure.apply_then_drop:
            return None
        if failure.drop_connection:
            return Response(dropped=True)
        if failure.status is None:
            return None
        if isinstance(failure.body, str):
            return Response(failure.status, failure.body.encode(), dict(failure.headers))
        return web.as_json(failure.body or {}, status=failure.status, headers=failure.headers)

    def _carry_out(self, request: Request, segment: str) -> Response:
        sandbox = self.sandbox
        order = open_api.ApiCall(request.query, request.json_object(), segment)
        log_id = secrets.token_hex(16)
        try:
            with sandbox.lock:
                body = self._run(request, order)
                if self.name in ("send", "update"):
                    sandbox.save()
        except Refusal as refusal:
            return web.as_json(
                refusal.body(), status=refusal.status, headers={"x-tt-logid": log_id, **refusal.headers}
            )
        return web.as_json(body, headers={"x-tt-logid": log_id})

    def _run(self, request: Request, order: open_api.ApiCall) -> dict[str, Any]:
        if self.name == "token":
            return open_api.tenant_token(self.sandbox, order)
        app = open_api.authorize(self.sandbox, request.headers.get("authorization"), self.name)
        return open_api.ENDPOINTS[self.name](self.sandbox, app, order)

    def _close(self, call: Call, response: Response) -> None:
        code = None
        if not response.dropped and response.headers.get("content-type", "").startswith("application/json"):
            parsed = json.loads(response.body)
            code = parsed.get("code") if isinstance(parsed, dict) else None
        reset = {name.lower(): value for name, value in response.headers.items()}.get(
            "x-ogw-ratelimit-reset", ""
        )
        with self.sandbox.lock:
            self.sandbox.ledger.close(
                call,
                status=None if response.dropped else response.status,
                code=code,
                reset_after=float(reset) if response.status == 429 and reset.isdigit() else None,
            )


def _name(failure: Failure) -> str:
    if failure.apply_then_drop:
        return "apply_then_drop"
    if failure.drop_connection:
        return "drop_connection"
    if failure.status is not None:
        return f"status {failure.status}"
    return f"late {failure.late_ms} ms" if failure.late_ms else f"delay {failure.delay_ms} ms"
