"""Feishu and Lark: approval cards in a group, and the taps on them."""

import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from channels_app.adapters import feishu_api, feishu_callback, feishu_card
from channels_app.adapters.base import (
    Adapter,
    AdapterConfig,
    AdapterError,
    Answer,
    Chat,
    CheckResult,
    Handle,
    InboundRequest,
    Reply,
    Tap,
    TokenStore,
)
from channels_app.adapters.feishu_api import FeishuApi
from channels_app.cards import Card
from portal.lib.http import Client

NO_LISTENER = (
    "transport long_connection needs a listener, which this release does not have; set transport to webhook"
)
_ENABLED = 2
_STATES: dict[Any, tuple[str, str]] = {
    0: ("the app is not installed", "publish a version in the developer console"),
    1: ("the tenant's admin has disabled the app", "ask the tenant's admin to enable it"),
    3: ("the app waits for its first use", "open the app once in the client"),
    4: ("the app waits for an upgrade", "confirm the new version in the admin console"),
    5: ("the app's licence has expired", "renew the licence"),
    6: ("the app's plan has expired or was downgraded", "renew the plan"),
}
_PAGES = 50


class FeishuConfig(AdapterConfig):
    """A bot in one group of Feishu or Lark."""

    app_id: str = Field(pattern=r"^cli_[!-~]{1,190}$")
    app_secret: SecretStr = Field(min_length=1, max_length=200)
    chat_id: str = Field(pattern=r"^oc_[!-~]{1,190}$")
    # Optional on the platform, required here: without it a callback is protected by a token in its own body.
    encrypt_key: SecretStr = Field(min_length=1, max_length=200)
    verification_token: SecretStr | None = None
    base_url: str = "https://open.feishu.cn"
    transport: Literal["webhook", "long_connection"] = "webhook"
    # Some clients refuse a card in the answer to a tap (code 200673); the card is updated by a call anyway.
    answer_with_card: bool = True

    @field_validator("verification_token", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None


class FeishuAdapter(Adapter):
    """One bot of Feishu or Lark."""

    type = "feishu"
    title = "Feishu / Lark"
    config_model = FeishuConfig
    hosts = ("open.feishu.cn", "open.larksuite.com")
    # A group takes five messages a second from all of its bots, a message five updates.
    send_rate = "5/second"
    update_rate = "5/second"
    repeat_seconds = 3600

    def __init__(self, config: FeishuConfig, *, client: Client, tokens: TokenStore) -> None:
        super().__init__(config, client=client, tokens=tokens)
        self._api = FeishuApi(config, client=client, tokens=tokens)

    @classmethod
    def app_key(cls, config: FeishuConfig) -> str:
        return config.app_id

    @classmethod
    def recipients(cls, config: FeishuConfig) -> list[str]:
        return [config.chat_id]

    @classmethod
    def unusable(cls, config: FeishuConfig) -> str | None:
        return NO_LISTENER if config.transport == "long_connection" else None

    def fit(self, card: Card) -> Card:
        return feishu_card.fit(card)

    def render(self, card: Card, ref: str) -> dict[str, Any]:
        return feishu_card.draw(self.fit(card), ref)

    def send(self, recipient: str, card: Card, ref: str, *, key: str) -> Handle:
        answer = self._api.call(
            "POST",
            "/open-apis/im/v1/messages",
            params={"receive_id_type": "chat_id"},
            json={
                "receive_id": recipient,
                "msg_type": "interactive",
                "content": feishu_card.encode(self.render(card, ref)),
                "uuid": key,
            },
            writes=True,
        )
        data = _mapping(answer.get("data"))
        message_id = data.get("message_id")
        if not isinstance(message_id, str) or not message_id:
            raise AdapterError(
                "bad_answer", "sent, but no message_id came back", permanent=False, unknown=True
            )
        return Handle(message_id, str(data.get("chat_id") or recipient))

    def update(self, handle: Handle, card: Card, ref: str) -> None:
        content = feishu_card.encode(self.render(card, ref))
        self._api.call("PATCH", f"/open-apis/im/v1/messages/{handle.message_id}", json={"content": content})

    def receive(self, request: InboundRequest) -> Tap | Answer:
        token = self.config.verification_token
        return feishu_callback.read(
            request,
            app_id=self.config.app_id,
            encrypt_key=self.config.encrypt_key.get_secret_value(),
            verification_token=token.get_secret_value() if token else None,
        )

    def answer(self, reply: Reply) -> Answer:
        body: dict[str, Any] = {
            "toast": {"type": "success" if reply.ok else "warning", "content": reply.text[:200]}
        }
        if reply.card is not None and self.config.answer_with_card:
            body["card"] = {"type": "raw", "data": self.render(reply.card, reply.ref)}
        return Answer(200, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())

    def check(self) -> list[CheckResult]:
        results = [self._checked("credentials", self._check_token)]
        if results[0].ok:
            results.append(self._checked("bot", self._check_bot))
            results.append(self._checked("chat", self._check_chat))
        return results

    def _checked(self, name: str, attempt: Callable[[str], CheckResult]) -> CheckResult:
        try:
            return attempt(name)
        except AdapterError as error:
            return CheckResult(name, False, str(error), feishu_api.remedy(error))

    def _check_token(self, name: str) -> CheckResult:
        self._api.fetch_token()
        return CheckResult(name, True, f"{self.config.app_id} gets a token from {self.config.base_url}")

    def _check_bot(self, name: str) -> CheckResult:
        bot = _mapping(self._api.call("GET", "/open-apis/bot/v3/info").get("bot"))
        state = bot.get("activate_status")
        if state == _ENABLED:
            return CheckResult(name, True, f"{bot.get('app_name', '')} is enabled")
        detail, remedy = _STATES.get(state, (f"unknown state {state}", "look at the app in the console"))
        return CheckResult(name, False, detail, remedy)

    def _check_chat(self, name: str) -> CheckResult:
        answer = self._api.call("GET", f"/open-apis/im/v1/chats/{self.config.chat_id}")
        title = _mapping(answer.get("data")).get("name") or self.config.chat_id
        return CheckResult(name, True, f"the bot is in {title}")

    def chats(self) -> list[Chat]:
        found: list[Chat] = []
        page = ""
        for _ in range(_PAGES):
            params = {"page_size": "100", **({"page_token": page} if page else {})}
            data = _mapping(self._api.call("GET", "/open-apis/im/v1/chats", params=params).get("data"))
            found += [
                Chat(item["chat_id"], item.get("name") or item["chat_id"], item.get("description") or "")
                for item in data.get("items") or []
            ]
            page = data.get("page_token") or ""
            if not data.get("has_more") or not page:
                break
        return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
