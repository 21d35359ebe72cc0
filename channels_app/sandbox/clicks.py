"""A person presses a button: the client's own checks, the callback, and what the answer does to the card."""

import asyncio
import functools
import json
import socket
import ssl
import time
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from channels_app.sandbox import answers, callbacks
from channels_app.sandbox.answers import Verdict
from channels_app.sandbox.card_view import Button, View
from channels_app.sandbox.directory import App
from channels_app.sandbox.feishu import FeishuSandbox
from channels_app.sandbox.messages import UPDATE_DAYS, Message
from channels_app.sandbox.refusals import BadOrder, PressRefused

Json = dict[str, Any]
CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class Order:
    """A press as ordered: see README.md for every field."""

    message_id: str
    open_id: str
    button: str
    form: dict[str, str] = field(default_factory=dict)
    version: int | None = None
    skew_seconds: float = 0.0
    tamper: str = ""
    set: Json = field(default_factory=dict)
    repeat: int = 1
    together: bool = False
    old_shape: bool = False
    v1_signature: bool = False
    omit_value: bool = False

    @classmethod
    def parse(cls, data: Json) -> "Order":
        """Raises BadOrder naming the field."""
        unknown = sorted(data.keys() - cls.__dataclass_fields__.keys())
        if unknown:
            raise BadOrder(f"{unknown[0]}: unknown field; a press has {', '.join(cls.__dataclass_fields__)}")
        for name in ("message_id", "open_id", "button"):
            if not isinstance(data.get(name), str) or not data[name]:
                raise BadOrder(f"{name}: is required and must be a string")
        if not isinstance(data.get("repeat", 1), int) or not 1 <= data.get("repeat", 1) <= 50:
            raise BadOrder("repeat: must be from 1 to 50")
        for name in ("form", "set"):
            if not isinstance(data.get(name, {}), dict):
                raise BadOrder(f"{name}: must be an object")
        return cls(**data)


@dataclass(frozen=True)
class Answer:
    """One answer, or the lack of one (`status` None), and its verdict."""

    status: int | None
    body: str
    elapsed_ms: int
    verdict: Verdict

    def as_json(self) -> Json:
        return {
            "status": self.status,
            "body": self.body,
            "elapsed_ms": self.elapsed_ms,
            "accepted": self.verdict.code == 0,
            "code": self.verdict.code,
            "why": self.verdict.why,
            "toast": self.verdict.toast,
        }


async def press(sandbox: FeishuSandbox, data: Json) -> Json:
    """Carries out one order and reports. Raises BadOrder, and PressRefused when the client sends nothing."""
    order = Order.parse(data)
    with sandbox.lock:
        message = sandbox.messages.get(order.message_id)
        app = sandbox.directory.app(message.app_id)
        request = _prepare(sandbox, order, message, app)
        message.clicks_unanswered += 1
    found: list[Answer] = []
    try:
        found = await _deliver(app.callback_url, request, order, sandbox.answer_seconds)
    finally:
        with sandbox.lock:
            message.clicks_unanswered -= 1
            replaced = _apply(sandbox, message, found)
    report = {**found[0].as_json(), "sent": True, "event_id": request.event_id, "card_replaced": replaced}
    report["answers"] = [answer.as_json() for answer in found]
    report["request"] = {
        "url": app.callback_url,
        "headers": request.headers,
        "body": request.body.decode(errors="replace"),
    }
    with sandbox.lock:
        sandbox.ledger.callbacks.append({"kind": "press", "order": data, **report})
        sandbox.save()
    return report


def _prepare(sandbox: FeishuSandbox, order: Order, message: Message, app: App) -> callbacks.Request:
    user = sandbox.directory.user(order.open_id)
    now = sandbox.clock.now()
    if user.open_id not in sandbox.directory.chat(message.chat_id).members:
        raise PressRefused(f"{user.name} is not in the chat and does not see the card")
    if message.recalled or message.deleted or message.msg_type != "interactive":
        raise PressRefused("there is no card to press on: recalled, deleted or not a card")
    if now - message.sent_at > UPDATE_DAYS * 86400:
        raise PressRefused(f"a card cannot be pressed later than {UPDATE_DAYS} days after it was sent")
    view = message.view(order.version)
    button = find_button(view, order.button)
    if button.dead_because or not (button.callback or button.submit):
        raise PressRefused(button.dead_because or "the button sends nothing to the app")
    form_value = _collect(view, button, order.form)
    value = None if button.submit and order.omit_value else button.value
    pressed = callbacks.Press(message.message_id, message.chat_id, button.name, value, form_value)
    shape = (
        callbacks.flat_event(app, user, pressed)
        if order.old_shape
        else callbacks.event(app, user, pressed, now=now)
    )
    _override(shape, order.set)
    return callbacks.build(
        app, shape, now=now + order.skew_seconds, tamper=order.tamper, v1_signature=order.v1_signature
    )


def find_button(view: View, key: str) -> Button:
    """By name, else by its text. Raises PressRefused."""
    buttons = view.buttons()
    found = next((button for button in buttons if button.name == key), None)
    found = found or next((button for button in buttons if button.text == key), None)
    if found is None:
        shown = ", ".join(repr(button.text) for button in buttons) or "none"
        raise PressRefused(f"the card has no button {key!r}; it has {shown}")
    return found


def _collect(view: View, button: Button, given: dict[str, str]) -> dict[str, str] | None:
    if not button.submit:
        if given:
            raise BadOrder(f"form: the button {button.text!r} submits no form")
        return None
    fields = {item.name: item for item in view.fields() if item.form == button.form}
    unknown = sorted(given.keys() - fields.keys())
    if unknown:
        raise BadOrder(f"form.{unknown[0]}: the form has no such input; it has {', '.join(fields) or 'none'}")
    values = {name: given.get(name, item.value) for name, item in fields.items()}
    for name, item in fields.items():
        if item.required and not values[name].strip():
            raise PressRefused(f"{item.label or item.placeholder or name}: is required")
        if len(values[name]) > item.max_length:
            raise PressRefused(f"{item.label or name}: at most {item.max_length} characters")
    return values


def _override(payload: Json, changes: Json) -> None:
    """Sets `a.b.c` to a value, or removes it when the value is null: what a foreign or forged payload looks like."""
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = payload
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
        if value is None:
            del node[last]


def _apply(sandbox: FeishuSandbox, message: Message, found: list[Answer]) -> bool:
    cards = [answer.verdict.card for answer in found if answer.verdict.card is not None]
    for card in cards:
        message.replace(card, sandbox.clock.now())
    return bool(cards)


async def _deliver(url: str | None, request: callbacks.Request, order: Order, seconds: float) -> list[Answer]:
    if url is None:
        return [Answer(None, "", 0, Verdict(answers.NO_CALLBACK_URL, "the app has no request URL"))]
    async with httpx.AsyncClient(verify=_tls(), trust_env=False, follow_redirects=False) as client:
        if order.together:
            return await asyncio.gather(*(post(client, url, request, seconds) for _ in range(order.repeat)))
        return [await post(client, url, request, seconds) for _ in range(order.repeat)]


async def post(client: httpx.AsyncClient, url: str, request: callbacks.Request, seconds: float) -> Answer:
    """Sends one callback and judges the answer. Never raises for what the other side does."""
    started = time.monotonic()
    limits = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
    response: httpx.Response | None = None
    try:
        async with asyncio.timeout(seconds):
            response = await client.post(url, content=request.body, headers=request.headers, timeout=limits)
        verdict = answers.judge(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            body=response.content,
        )
    except (TimeoutError, httpx.TimeoutException) as error:
        code = answers.NOT_CONNECTED if isinstance(error, httpx.ConnectTimeout) else answers.TIMED_OUT
        verdict = Verdict(code, f"no answer within {seconds:g} s")
    except httpx.ConnectError as error:
        verdict = Verdict(_connect_code(error), f"cannot connect: {error}")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        verdict = Verdict(answers.TIMED_OUT, f"no whole answer: {error}")
    elapsed = int((time.monotonic() - started) * 1000)
    return Answer(
        response.status_code if response is not None else None,
        response.text if response is not None else "",
        elapsed,
        verdict,
    )


def _connect_code(error: BaseException | None) -> int:
    while error is not None:
        if isinstance(error, socket.gaierror):
            return answers.NO_SUCH_HOST
        error = error.__cause__ or error.__context__
    return answers.NOT_CONNECTED


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()  # loading the root certificates takes longer than a whole click


async def check_url(
    sandbox: FeishuSandbox, app_id: str, *, url: str | None = None, token: str | None = None
) -> Json:
    """What the console does when the request URL is saved: `ok` when the challenge came back in time.

    `url` None: the app's own. `token`: another verification token, which the app must refuse. Raises BadOrder.
    """
    with sandbox.lock:
        app = sandbox.directory.app(app_id)
        request, challenge = callbacks.url_check(app, token=token)
        url = url or app.callback_url
    if url is None:
        raise BadOrder("url: the app has no request URL; give one")
    async with httpx.AsyncClient(verify=_tls(), trust_env=False, follow_redirects=False) as client:
        answer = await post(client, url, request, sandbox.challenge_seconds)
    answer = replace(answer, verdict=_judge_challenge(answer, challenge))
    report = {**answer.as_json(), "ok": answer.verdict.code == 0, "challenge": challenge, "url": url}
    with sandbox.lock:
        sandbox.ledger.callbacks.append({"kind": "url_verification", "app_id": app_id, **report})
    return report


def _judge_challenge(answer: Answer, challenge: str) -> Verdict:
    if answer.status is None or answer.status != 200:
        return answer.verdict
    try:
        returned = json.loads(answer.body)
    except ValueError:
        return Verdict(answers.MALFORMED, "the body is not JSON")
    if not isinstance(returned, dict) or returned.get("challenge") != challenge:
        return Verdict(answers.MALFORMED, "the challenge did not come back")
    return Verdict(0)
