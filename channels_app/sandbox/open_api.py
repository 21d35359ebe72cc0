"""The endpoints of the open API: plain functions of the sandbox, the app and the call. The caller holds the lock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from channels_app.sandbox.directory import App, Chat, User
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.messages import Message
from channels_app.sandbox.refusals import BAD_PARAMETER, Refusal

Json = dict[str, Any]
RECEIVE_ID_TYPES = ("chat_id", "open_id", "union_id", "user_id", "email")
USER_ID_TYPES = ("open_id", "union_id", "user_id")
BAD_CHAT_PARAMETER = 232001
BAD_CONTACT_PARAMETER = 40001


@dataclass(frozen=True)
class ApiCall:
    """What an endpoint sees of a request. `body` None: there was none, or it was no JSON object."""

    query: dict[str, str] = field(default_factory=dict)
    body: Json | None = None
    id: str = ""


def tenant_token(sandbox: FeishuSandbox, call: ApiCall) -> Json:
    """POST auth/v3/tenant_access_token/internal."""
    body = call.body or {}
    app_id, secret = body.get("app_id"), body.get("app_secret")
    sandbox.tokens.requests[app_id if isinstance(app_id, str) else "unknown"] += 1
    if not isinstance(app_id, str) or not isinstance(secret, str) or not app_id or not secret:
        raise Refusal(10003, "invalid param")
    app = sandbox.directory.apps.get(app_id)
    if app is None:
        raise Refusal(20002, "app_id or app_secret is wrong")
    if app.app_secret != secret:
        raise Refusal(10015, "app secret invalid")
    if app.activate_status in (0, 1):
        raise Refusal(10014, "app is disabled or not authorized")
    token, expire = sandbox.tokens.issue(app, sandbox.clock.now())
    return {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": expire}


def authorize(sandbox: FeishuSandbox, authorization: str | None, endpoint: str) -> App:
    """The app behind a call, if its token, its scopes and its rate allow the endpoint. Raises Refusal."""
    now = sandbox.clock.now()
    app = sandbox.directory.apps[sandbox.tokens.app_id_of(authorization, now)]
    needed = SCOPES[endpoint]
    if needed and not any(scope in app.scopes for scope in needed):
        violations = [{"type": "action_scope_required", "subject": scope} for scope in needed]
        raise Refusal(
            99991672,
            f"Access denied. One of the following scopes is required: [{', '.join(needed)}]. "
            f"Apply at https://open.feishu.cn/app/{app.app_id}/auth?q={','.join(needed)}",
            error={"permission_violations": violations},
        )
    key = f"{app.app_id} {endpoint}"
    for window in (sandbox.per_second, sandbox.per_minute):
        wait = window.take(key, now)
        if wait > 0:
            raise Refusal(
                99991400,
                "request trigger frequency limit",
                status=429,
                headers={
                    "x-ogw-ratelimit-limit": str(window.limit),
                    "x-ogw-ratelimit-reset": str(int(wait) + 1),
                },
            )
    return app


def send(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """POST im/v1/messages."""
    kind = call.query.get("receive_id_type")
    if kind not in RECEIVE_ID_TYPES:
        raise Refusal(
            BAD_PARAMETER,
            f"invalid request parameter, ext=receive_id_type must be one of {', '.join(RECEIVE_ID_TYPES)}",
        )
    body = _body(call, BAD_PARAMETER)
    receive_id = body.get("receive_id")
    if not isinstance(receive_id, str) or not receive_id:
        raise Refusal(BAD_PARAMETER, "invalid request parameter, ext=receive_id must be a string")
    _check_bot(app)
    chat = _receiver(sandbox, app, kind, receive_id)
    message = sandbox.messages.send(
        app,
        chat,
        receive_id=receive_id,
        receive_id_type=kind,
        msg_type=body.get("msg_type"),
        content=body.get("content"),
        uuid=body.get("uuid"),
    )
    return {"code": 0, "msg": "success", "data": _message_json(sandbox, app, message, str(body["content"]))}


def _receiver(sandbox: FeishuSandbox, app: App, kind: str, receive_id: str) -> Chat:
    if kind == "chat_id":
        if not receive_id.startswith("oc_"):
            raise Refusal(230034, "The receive_id is invalid")
        chat = sandbox.directory.chats.get(receive_id)
        if chat is None or app.app_id not in chat.bots:
            raise Refusal(230002, "Bot/User can NOT be out of the chat.")
        return chat
    prefix = {"open_id": "ou_", "union_id": "on_"}.get(kind, "")
    if not receive_id.startswith(prefix):
        raise Refusal(230034, "The receive_id is invalid")
    user = sandbox.directory.find_user(kind, receive_id)
    if user is None and kind != "email":
        raise Refusal(99992351, f"The request you send is not a valid {{{kind}}} or not exists")
    if user is None:
        raise Refusal(230034, "The receive_id is invalid")
    if user.is_resigned:
        raise Refusal(230029, "User has resigned")
    if not user.in_range:
        raise Refusal(230013, "Bot has NO availability to this user.")
    return sandbox.directory.private_chat(app, user)


def _message_json(sandbox: FeishuSandbox, app: App, message: Message, content: str) -> Json:
    del sandbox
    return {
        "message_id": message.message_id,
        "msg_type": message.msg_type,
        "create_time": str(int(message.sent_at * 1000)),
        "update_time": str(int(message.updated_at * 1000)),
        "deleted": False,
        "updated": bool(message.versions),
        "chat_id": message.chat_id,
        "sender": {
            "id": app.app_id,
            "id_type": "app_id",
            "sender_type": "app",
            "tenant_key": app.tenant_key,
        },
        "body": {"content": content},
    }


def update(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """PATCH im/v1/messages/:message_id."""
    body = _body(call, BAD_PARAMETER)
    _check_bot(app)
    sandbox.messages.update(app, call.id, body.get("content"))
    return {"code": 0, "msg": "ok", "data": {}}


def bot_info(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """GET bot/v3/info. `bot` stands at top level, not in `data`."""
    del sandbox, call
    _check_bot(app)
    return {
        "code": 0,
        "msg": "ok",
        "bot": {
            "activate_status": app.activate_status,
            "app_name": app.name,
            "avatar_url": "",
            "ip_white_list": [],
            "open_id": app.bot_open_id,
        },
    }


def list_chats(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """GET im/v1/chats: the groups that the bot is in."""
    size = call.query.get("page_size", "20")
    token = call.query.get("page_token", "")
    if not size.isdigit() or not 1 <= int(size) <= 100:
        raise Refusal(
            BAD_CHAT_PARAMETER, "Your request contains an invalid request parameter, ext=page_size 1 to 100"
        )
    start = token.removeprefix("page-")
    if token and (start == token or not start.isdigit()):
        raise Refusal(
            BAD_CHAT_PARAMETER, "Your request contains an invalid request parameter, ext=page_token"
        )
    groups = sandbox.directory.groups_of(app)
    first = int(start or 0)
    end = first + int(size)
    more = end < len(groups)
    items = [{"chat_id": chat.chat_id, **_chat_json(chat)} for chat in groups[first:end]]
    data = {"items": items, "has_more": more, "page_token": f"page-{end}" if more else ""}
    return {"code": 0, "msg": "success", "data": data}


def get_chat(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """GET im/v1/chats/:chat_id."""
    chat = sandbox.directory.chats.get(call.id)
    if chat is None:
        raise Refusal(232006, "Your request specifies a chat_id which is invalid.")
    if app.app_id not in chat.bots:
        raise Refusal(232011, "Operator can NOT be out of the chat.")
    data = {
        **_chat_json(chat),
        "chat_mode": chat.kind,
        "user_count": str(len(chat.members)),
        "bot_count": "1",
    }
    return {"code": 0, "msg": "success", "data": data}


def _chat_json(chat: Chat) -> Json:
    return {
        "name": chat.name,
        "description": "",
        "owner_id": chat.members[0] if chat.members else "",
        "owner_id_type": "open_id",
        "external": False,
        "tenant_key": chat.tenant_key,
        "chat_status": "normal",
    }


def batch_get_id(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """POST contact/v3/users/batch_get_id. Unknown addresses come back without `user_id`."""
    del app
    kind = _user_id_type(call)
    body = _body(call, BAD_CONTACT_PARAMETER)
    emails, mobiles = body.get("emails", []), body.get("mobiles", [])
    for name, values in (("emails", emails), ("mobiles", mobiles)):
        if (
            not isinstance(values, list)
            or len(values) > 50
            or not all(isinstance(item, str) for item in values)
        ):
            raise Refusal(
                BAD_CONTACT_PARAMETER, f"param error, ext={name} must be a list of at most 50 strings"
            )
    if not emails and not mobiles:
        raise Refusal(BAD_CONTACT_PARAMETER, "param error, ext=give emails or mobiles")
    rows: list[Json] = [{"mobile": mobile} for mobile in mobiles]
    for email in emails:
        user = sandbox.directory.find_user("email", email)
        shown = (
            user is not None
            and user.in_range
            and (body.get("include_resigned") is True or not user.is_resigned)
        )
        found = (
            {"user_id": getattr(user, kind), "status": user.status()} if user is not None and shown else {}
        )
        rows.append({"email": email, **found})
    return {"code": 0, "msg": "success", "data": {"user_list": rows}}


def get_user(sandbox: FeishuSandbox, app: App, call: ApiCall) -> Json:
    """GET contact/v3/users/:user_id. A field appears only with its scope."""
    kind = _user_id_type(call)
    user = sandbox.directory.find_user(kind, call.id)
    if user is None:
        raise Refusal(99992351, f"The request you send is not a valid {{{kind}}} or not exists")
    if not user.in_range:
        raise Refusal(41050, "no user authority error")
    return {"code": 0, "msg": "success", "data": {"user": _user_json(app, user)}}


def _user_json(app: App, user: User) -> Json:
    row: Json = {"open_id": user.open_id, "union_id": user.union_id}
    if "contact:user.employee_id:readonly" in app.scopes:
        row["user_id"] = user.user_id
    if "contact:user.base:readonly" in app.scopes:
        row |= {"name": user.name, "en_name": user.name, "status": user.status()}
    if "contact:user.email:readonly" in app.scopes:
        row |= {"email": user.email, "enterprise_email": ""}
    return row


def _user_id_type(call: ApiCall) -> str:
    kind = call.query.get("user_id_type", "open_id")
    if kind not in USER_ID_TYPES:
        raise Refusal(
            BAD_CONTACT_PARAMETER, f"param error, ext=user_id_type must be one of {', '.join(USER_ID_TYPES)}"
        )
    return kind


def _check_bot(app: App) -> None:
    if not app.bot_enabled:
        raise Refusal(230006, "Bot ability is not activated.")


def _body(call: ApiCall, code: int) -> Json:
    if call.body is None:
        raise Refusal(
            code, "invalid request parameter, ext=the body must be a JSON object sent as application/json"
        )
    return call.body


Endpoint = Callable[[FeishuSandbox, App, ApiCall], Json]

ENDPOINTS: dict[str, Endpoint] = {
    "send": send,
    "update": update,
    "bot_info": bot_info,
    "chats": list_chats,
    "chat": get_chat,
    "batch_get_id": batch_get_id,
    "user": get_user,
}

# Any one of them suffices; none: the token is enough.
SCOPES: dict[str, tuple[str, ...]] = {
    "send": ("im:message", "im:message:send_as_bot"),
    "update": ("im:message", "im:message:update"),
    "bot_info": (),
    "chats": ("im:chat:readonly",),
    "chat": ("im:chat:readonly",),
    "batch_get_id": ("contact:user.id:readonly",),
    "user": ("contact:contact.base:readonly",),
}
