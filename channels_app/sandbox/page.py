"""The page where a person sees the chats and presses the buttons."""

from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from channels_app.sandbox import clicks, drawing, web
from channels_app.sandbox.directory import Chat, User
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.refusals import BadOrder, PressRefused
from channels_app.sandbox.web import Request, Response, Route

STATIC = Path(__file__).parent / "static"
TYPES = {"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'"
)


def routes(sandbox: FeishuSandbox) -> list[Route]:
    page = _Page(sandbox)
    return [
        Route("GET", "/", page.show),
        Route("GET", "", page.enter),
        Route("GET", "/fragment", page.fragment),
        Route("POST", "/click", page.click),
        Route("GET", "/static/{}", serve_file),
    ]


async def serve_file(request: Request, name: str) -> Response:
    del request
    if name not in TYPES:
        return Response(404, b"no such file")
    return Response(200, (STATIC / name).read_bytes(), {"content-type": TYPES[name]})


class _Page:
    """Handlers of the page. `as` in the query is the person who looks, `chat` the chat that is open."""

    def __init__(self, sandbox: FeishuSandbox) -> None:
        self.sandbox = sandbox
        self.toasts: list[dict[str, str]] = []

    async def enter(self, request: Request, segment: str) -> Response:
        del segment
        return Response(307, b"", {"location": f"{request.root}/"})

    async def show(self, request: Request, segment: str) -> Response:
        del segment
        with self.sandbox.lock:
            viewer = self._viewer(request.query.get("as", ""))
            if viewer is None:
                return _html(
                    "<!doctype html><title>Sandbox chat</title><p>Nobody lives in this sandbox yet.</p>"
                )
            chat = self._chat(viewer, request.query.get("chat", ""))
            return _html(self._document(viewer, chat, request.query.get("pressed", "")))

    async def fragment(self, request: Request, segment: str) -> Response:
        """What may have changed since the page was loaded: chat list and messages."""
        del segment
        with self.sandbox.lock:
            viewer = self._viewer(request.query.get("as", ""))
            if viewer is None:
                return _html("")
            chat = self._chat(viewer, request.query.get("chat", ""))
            return _html(self._chats(viewer, chat) + self._messages(viewer, chat))

    async def click(self, request: Request, segment: str) -> Response:
        """A pressed button: as JSON for the script, as a redirect for a browser without one."""
        del segment
        form = request.form()
        order: dict[str, Any] = {name: form.get(name, "") for name in ("message_id", "open_id", "button")}
        if form.get("version", "").isdigit():
            order["version"] = int(form["version"])
        report = await self._press(
            order, {name[6:]: text for name, text in form.items() if name.startswith("field.")}
        )
        if "application/json" in request.headers.get("accept", ""):
            return web.as_json(report)
        with self.sandbox.lock:
            message = self.sandbox.messages.by_id.get(order["message_id"])
            number = self._keep(report)
        back = {"as": order["open_id"], "chat": message.chat_id if message else "", "pressed": number}
        return Response(303, b"", {"location": f"./?{urlencode(back)}"})

    async def _press(self, order: dict[str, Any], fields: dict[str, str]) -> dict[str, str]:
        """The toast that the person sees: `type` and `content`."""
        try:
            with self.sandbox.lock:
                message = self.sandbox.messages.get(order["message_id"])
                button = clicks.find_button(message.view(order.get("version")), order["button"])
            report = await clicks.press(self.sandbox, {**order, "form": fields if button.submit else {}})
        except (BadOrder, PressRefused) as error:
            return {"type": "warning", "content": str(error)}
        return _toast(report)

    def _viewer(self, open_id: str) -> User | None:
        users = self.sandbox.directory.users
        return users.get(open_id) or next(iter(users.values()), None)

    def _chat(self, viewer: User, chat_id: str) -> Chat | None:
        chats = self.sandbox.directory.chats_of(viewer.open_id)
        return next((chat for chat in chats if chat.chat_id == chat_id), chats[0] if chats else None)

    def _document(self, viewer: User, chat: Chat | None, pressed: str) -> str:
        name = chat.name if chat else "No chat"
        toast = self._last_toast(pressed)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(name)} · Sandbox chat</title>"
            '<link rel="icon" href="data:,"><link rel="stylesheet" href="static/style.css">'
            '<script src="static/page.js" defer></script></head>'
            f'<body data-as="{escape(viewer.open_id)}" data-chat="{escape(chat.chat_id if chat else "")}">'
            f'<aside><p class="brand">Sandbox chat<small>a stand-in for Feishu</small></p>'
            f"{self._chats(viewer, chat)}{self._people(viewer, chat)}</aside>"
            f'<main><header class="top"><h1>{escape(name)}</h1>{self._members(chat)}</header>'
            f"{self._messages(viewer, chat)}"
            f"<footer>You are <strong>{escape(viewer.name)}</strong>. Press a button on a card: a signed, encrypted "
            "callback goes to the portal, as the real platform would send it.</footer></main>"
            f'<div id="toast" role="status" aria-live="polite" class="{escape(toast.get("type", ""))}">'
            f"{escape(toast.get('content', ''))}</div>"
            '<dialog id="confirm"><h2></h2><p></p><form method="dialog"><button value="no" class="button default">'
            'Cancel</button><button value="yes" class="button primary_filled">Confirm</button></form></dialog>'
            "</body></html>"
        )

    def _chats(self, viewer: User, chat: Chat | None) -> str:
        rows = "".join(
            self._chat_row(viewer, item, item is chat)
            for item in self.sandbox.directory.chats_of(viewer.open_id)
        )
        return f'<nav id="chats" aria-label="Chats">{rows}</nav>'

    def _chat_row(self, viewer: User, chat: Chat, is_open: bool) -> str:
        messages = self.sandbox.messages.in_chat(chat.chat_id)
        last = messages[-1].view() if messages else None
        preview = (
            "".join(span.text for span in (last.title or last.parts[0].spans))
            if last and (last.title or last.parts)
            else ""
        )
        name = self.sandbox.directory.apps[chat.bots[0]].name if chat.kind == "p2p" else chat.name
        query = urlencode({"as": viewer.open_id, "chat": chat.chat_id})
        current = ' aria-current="page"' if is_open else ""
        return (
            f'<a href="./?{query}"{current}>{drawing.avatar(name)}<span><b>{escape(name)}</b>'
            f"<small>{escape(preview[:60])}</small></span></a>"
        )

    def _people(self, viewer: User, chat: Chat | None) -> str:
        rows = ""
        for user in self.sandbox.directory.users.values():
            query = urlencode({"as": user.open_id, "chat": chat.chat_id if chat else ""})
            current = ' aria-current="true"' if user is viewer else ""
            rows += f'<a href="./?{query}"{current}>{drawing.avatar(user.name)}<span>{escape(user.name)}</span></a>'
        return f'<nav id="people" aria-label="You are"><p>You are</p>{rows}</nav>'

    def _members(self, chat: Chat | None) -> str:
        if chat is None:
            return ""
        names = [self.sandbox.directory.users[member].name for member in chat.members]
        bots = [self.sandbox.directory.apps[bot].name for bot in chat.bots]
        return f'<p class="members">{escape(", ".join(names + bots))}</p>'

    def _messages(self, viewer: User, chat: Chat | None) -> str:
        items = self.sandbox.messages.in_chat(chat.chat_id)[-100:] if chat else []
        rows = "".join(
            drawing.message(item, self.sandbox.directory.apps[item.app_id], viewer) for item in items
        )
        empty = '<p class="empty">No messages yet. A card appears here when an agent needs an approval.</p>'
        return f'<div id="messages">{rows or empty}</div>'

    def _keep(self, toast: dict[str, str]) -> str:
        """Remembers a toast over the redirect that follows a press without script; returns its number."""
        self.toasts.append(toast)
        return str(len(self.toasts))

    def _last_toast(self, pressed: str) -> dict[str, str]:
        if not pressed.isdigit() or not 1 <= int(pressed) <= len(self.toasts):
            return {}
        return self.toasts[int(pressed) - 1]


def _toast(report: dict[str, Any]) -> dict[str, str]:
    if not report.get("accepted"):
        return {
            "type": "error",
            "content": f"Something went wrong ({report.get('code')}): {report.get('why')}",
        }
    toast = report.get("toast") or {}
    texts = toast.get("i18n", {})
    content = toast.get("content") or texts.get("en_us") or next(iter(texts.values()), "")
    return {"type": toast.get("type", "info"), "content": content}


def _html(text: str) -> Response:
    return Response(
        200,
        text.encode(),
        {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": POLICY,
            "referrer-policy": "no-referrer",
        },
    )
