"""The sandbox as an ASGI application, alone or mounted under a prefix."""

from channels_app.sandbox import api_routes, control, page, web
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.web import Receive, Request, Response, Router, Scope, Send


def application(sandbox: FeishuSandbox) -> "Application":
    """Serves `/` (the page), `/feishu/open-apis/…` and `/sandbox-control/…`, relative to the mount point.

    Mounted, the prefix is either in `scope["root_path"]` or already taken out of `scope["path"]`.
    """
    return Application(sandbox)


class Application:
    """The ASGI callable."""

    def __init__(self, sandbox: FeishuSandbox) -> None:
        self.sandbox = sandbox
        self.router = Router(
            [*api_routes.routes(sandbox), *control.routes(sandbox), *page.routes(sandbox)],
            not_found=_not_found,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            request = await web.read(scope, receive)
            if request is None:
                await web.answer(send, Response(413, b"request body too large"))
            elif _is_foreign(request):
                await web.answer(
                    send, web.as_json({"error": "another site may not press buttons here"}, status=403)
                )
            else:
                await web.answer(send, await self.router.handle(request))


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _is_foreign(request: Request) -> bool:
    """A browser says when a form or a script of another site sends the request; programs say nothing."""
    return request.method != "GET" and request.headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _not_found(request: Request) -> Response:
    return Response(
        404, f"404 page not found: {request.method} {request.path}".encode(), {"content-type": "text/plain"}
    )
