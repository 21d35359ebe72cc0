"""The control side: /sandbox-control/…, JSON in, JSON out. See README.md."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from channels_app.sandbox import clicks, web
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.messages import Message
from channels_app.sandbox.refusals import BadOrder, PressRefused
from channels_app.sandbox.web import Handler, Request, Response, Route

Json = dict[str, Any]
PREFIX = "/sandbox-control"


def routes(sandbox: FeishuSandbox) -> list[Route]:
    reads: dict[str, Callable[[FeishuSandbox, Json], object]] = {
        "calls": list_calls,
        "callbacks": list_callbacks,
        "messages": list_messages,
        "counters": counters,
        "failures": list_failures,
        "clock": show_clock,
        "directory": show_directory,
    }
    writes: dict[str, Callable[[FeishuSandbox, Json], object]] = {
        "reset": reset,
        "failures": plan_failure,
        "failures/clear": clear_failures,
        "clock": set_clock,
        "tokens/invalidate": invalidate_tokens,
        "messages/recall": recall,
        "members": set_member,
        "apps": change_app,
        "users": change_user,
    }
    return [
        *(Route("GET", f"{PREFIX}/{name}", _read(sandbox, function)) for name, function in reads.items()),
        *(Route("POST", f"{PREFIX}/{name}", _write(sandbox, function)) for name, function in writes.items()),
        Route("POST", f"{PREFIX}/press", _press(sandbox)),
        Route("POST", f"{PREFIX}/url_verification", _check_url(sandbox)),
    ]


def _read(sandbox: FeishuSandbox, function: Callable[[FeishuSandbox, Json], object]) -> Handler:
    async def handle(request: Request, segment: str) -> Response:
        del segment
        try:
            with sandbox.lock:
                return web.as_json(function(sandbox, dict(request.query)))
        except BadOrder as error:
            return _refuse(error)

    return handle


def _write(sandbox: FeishuSandbox, function: Callable[[FeishuSandbox, Json], object]) -> Handler:
    async def handle(request: Request, segment: str) -> Response:
        del segment
        try:
            order = _order(request)
            with sandbox.lock:
                answer = function(sandbox, order)
                sandbox.save()
            return web.as_json(answer)
        except BadOrder as error:
            return _refuse(error)

    return handle


def _press(sandbox: FeishuSandbox) -> Handler:
    async def handle(request: Request, segment: str) -> Response:
        del segment
        try:
            return web.as_json(await clicks.press(sandbox, _order(request)))
        except BadOrder as error:
            return _refuse(error)
        except PressRefused as error:
            return web.as_json({"sent": False, "accepted": False, "why": str(error)})

    return handle


def _check_url(sandbox: FeishuSandbox) -> Handler:
    async def handle(request: Request, segment: str) -> Response:
        del segment
        try:
            order = _order(request)
            app_id = _text(order, "app_id")
            return web.as_json(
                await clicks.check_url(sandbox, app_id, url=order.get("url"), token=order.get("token"))
            )
        except BadOrder as error:
            return _refuse(error)

    return handle


def _order(request: Request) -> Json:
    if not request.body:
        return {}
    order = request.json_object()
    if order is None:
        raise BadOrder("body: must be a JSON object with content type application/json")
    return order


def _refuse(error: BadOrder) -> Response:
    return web.as_json({"error": str(error)}, status=400)


def _text(order: Json, name: str) -> str:
    value = order.get(name)
    if not isinstance(value, str) or not value:
        raise BadOrder(f"{name}: is required and must be a string")
    return value


def list_calls(sandbox: FeishuSandbox, query: Json) -> Json:
    """Received API calls, oldest first; `endpoint` and `since` (a call's number) narrow the list."""
    since = query.get("since", "0")
    if not since.isdigit():
        raise BadOrder("since: must be the number of a call")
    calls = [
        call.as_json()
        for call in sandbox.ledger.calls
        if call.number > int(since) and query.get("endpoint") in (None, call.endpoint)
    ]
    return {"calls": calls}


def list_callbacks(sandbox: FeishuSandbox, query: Json) -> Json:
    del query
    return {"callbacks": list(sandbox.ledger.callbacks)}


def list_messages(sandbox: FeishuSandbox, query: Json) -> Json:
    """Messages as people see them, oldest first; `chat_id` narrows the list."""
    messages = sandbox.messages.by_id.values()
    return {"messages": [describe(item) for item in messages if query.get("chat_id") in (None, item.chat_id)]}


def describe(message: Message) -> Json:
    """One message: where and when, what people see, and the content as it was sent."""
    return {
        "message_id": message.message_id,
        "chat_id": message.chat_id,
        "app_id": message.app_id,
        "receive_id": message.receive_id,
        "receive_id_type": message.receive_id_type,
        "msg_type": message.msg_type,
        "uuid": message.uuid,
        "sent_at": message.sent_at,
        "updated_at": message.updated_at,
        "version": message.version,
        "recalled": message.recalled,
        "clicks_unanswered": message.clicks_unanswered,
        "view": message.view().as_json(),
        "content": message.content,
    }


def counters(sandbox: FeishuSandbox, query: Json) -> Json:
    """Calls per app and endpoint; `token_requests` per app id; `early` calls after a 429."""
    del query
    return {
        "calls": sandbox.ledger.counters(),
        "token_requests": dict(sandbox.tokens.requests),
        "early": sum(call.early for call in sandbox.ledger.calls),
    }


def list_failures(sandbox: FeishuSandbox, query: Json) -> Json:
    del query
    return {"failures": [asdict(plan) for plan in sandbox.failures.plans]}


def show_clock(sandbox: FeishuSandbox, query: Json) -> Json:
    del query
    return {"now": sandbox.clock.now(), "offset_seconds": sandbox.clock.offset}


def show_directory(sandbox: FeishuSandbox, query: Json) -> Json:
    """Apps (without secrets), users and chats."""
    del query
    rows = sandbox.directory.dump()
    hidden = {"app_secret", "encrypt_key", "verification_token"}
    rows["apps"] = [{key: value for key, value in row.items() if key not in hidden} for row in rows["apps"]]
    return rows


def reset(sandbox: FeishuSandbox, order: Json) -> Json:
    del order
    sandbox.reset()
    return {"ok": True}


def plan_failure(sandbox: FeishuSandbox, order: Json) -> Json:
    return asdict(sandbox.failures.plan(order))


def clear_failures(sandbox: FeishuSandbox, order: Json) -> Json:
    del order
    sandbox.failures.clear()
    return {"ok": True}


def set_clock(sandbox: FeishuSandbox, order: Json) -> Json:
    return {"now": sandbox.set_clock(order.get("offset_seconds")), "offset_seconds": sandbox.clock.offset}


def invalidate_tokens(sandbox: FeishuSandbox, order: Json) -> Json:
    return {"invalidated": sandbox.tokens.invalidate(order.get("app_id"))}


def recall(sandbox: FeishuSandbox, order: Json) -> Json:
    """Recalls a message; with `delete` true it is gone for good."""
    message = sandbox.messages.get(_text(order, "message_id"))
    message.recalled = True
    message.deleted = order.get("delete") is True
    return describe(message)


def set_member(sandbox: FeishuSandbox, order: Json) -> Json:
    """`open_id` or `app_id` into `chat_id`, or out of it with `present` false."""
    chat_id, present = _text(order, "chat_id"), order.get("present", True) is True
    if "app_id" in order:
        sandbox.set_bot(chat_id, _text(order, "app_id"), present=present)
    elif present:
        sandbox.add_member(chat_id, _text(order, "open_id"))
    else:
        sandbox.remove_member(chat_id, _text(order, "open_id"))
    return asdict(sandbox.directory.chat(chat_id))


def change_app(sandbox: FeishuSandbox, order: Json) -> Json:
    """Changes what the console would: `callback_url`, `scopes`, `activate_status`, `bot_enabled`, keys."""
    app = sandbox.directory.app(_text(order, "app_id"))
    _assign(
        app,
        order,
        "callback_url scopes activate_status bot_enabled encrypt_key verification_token app_secret name",
    )
    return {"app_id": app.app_id, "callback_url": app.callback_url, "scopes": app.scopes}


def change_user(sandbox: FeishuSandbox, order: Json) -> Json:
    user = sandbox.directory.user(_text(order, "open_id"))
    _assign(user, order, "name email in_range is_resigned is_frozen")
    return asdict(user)


def _assign(row: object, order: Json, names: str) -> None:
    for name, value in order.items():
        if name in ("app_id", "open_id"):
            continue
        if name not in names.split():
            raise BadOrder(f"{name}: cannot be changed; known: {names}")
        wanted = str if name == "callback_url" else type(getattr(row, name))
        if not isinstance(value, wanted) and not (name == "callback_url" and value is None):
            raise BadOrder(f"{name}: must be of type {wanted.__name__}")
        setattr(row, name, value)
