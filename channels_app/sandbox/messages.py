"""Messages: what was sent, by whom, to where, and every version of its content."""

import json
import secrets
from dataclasses import asdict, dataclass, field
from typing import Any

from channels_app.sandbox import card_check, card_view, markup
from channels_app.sandbox.card_rules import MAX_BYTES
from channels_app.sandbox.clock import Clock
from channels_app.sandbox.directory import App, Chat
from channels_app.sandbox.limits import Window
from channels_app.sandbox.refusals import BAD_PARAMETER, BadOrder, CardFault, Refusal

MAX_TEXT_BYTES = 150 * 1024
UUID_LIFE = 3600
UPDATE_DAYS = 14
LOCKED = CardFault(11310, "ROOT", "card action is lock", "")


@dataclass
class Message:
    """One message. `content` is the parsed content; `versions` keeps the earlier ones, oldest first."""

    message_id: str
    chat_id: str
    app_id: str
    msg_type: str
    content: dict[str, Any]
    sent_at: float
    updated_at: float
    receive_id: str
    receive_id_type: str
    uuid: str = ""
    recalled: bool = False
    deleted: bool = False
    clicks_unanswered: int = 0
    versions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def version(self) -> int:
        return len(self.versions)

    def at_version(self, version: int | None) -> dict[str, Any]:
        """The content now, or as a client that has not refreshed since that version still shows it."""
        history = [*self.versions, self.content]
        if version is None:
            return self.content
        if not 0 <= version < len(history):
            raise BadOrder(f"version: must be from 0 to {len(history) - 1}")
        return history[version]

    def view(self, version: int | None = None) -> card_view.View:
        """As people see it; a text message is a card of one line without a header."""
        content = self.at_version(version)
        if self.msg_type == "interactive":
            return card_view.draw(content)
        line = card_view.Part("text", spans=markup.message(content["text"]))
        return card_view.View([], [], "default", [], [line])

    def replace(self, content: dict[str, Any], now: float) -> None:
        self.versions.append(self.content)
        self.content = content
        self.updated_at = now


class Messages:
    """Sends, replaces and remembers messages. The caller holds the lock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.by_id: dict[str, Message] = {}
        self.by_uuid: dict[tuple[str, str], Message] = {}
        self.to_chat = Window(5, 1.0)  # shared by all bots of the chat
        self.of_message = Window(5, 1.0)

    def send(
        self,
        app: App,
        chat: Chat,
        *,
        receive_id: str,
        receive_id_type: str,
        msg_type: object,
        content: object,
        uuid: object,
    ) -> Message:
        """Stores one message, or finds the one that the same uuid made within the hour. Raises Refusal."""
        parsed = parse_content(msg_type, content)
        if uuid is not None and (not isinstance(uuid, str) or not 0 < len(uuid) <= 50):
            raise Refusal(
                BAD_PARAMETER, "invalid request parameter, ext=uuid must be a string of at most 50 characters"
            )
        now = self.clock.now()
        earlier = self._sent_with(app, uuid, now) if isinstance(uuid, str) else None
        if earlier is not None:
            return earlier
        if msg_type == "interactive":
            check_card(parsed)
        _slow_down(self.to_chat.take(chat.chat_id, now), "5 messages per second to one chat")
        message = Message(
            message_id=f"om_{secrets.token_hex(16)}",
            chat_id=chat.chat_id,
            app_id=app.app_id,
            msg_type=str(msg_type),
            content=parsed,
            sent_at=now,
            updated_at=now,
            receive_id=receive_id,
            receive_id_type=receive_id_type,
            uuid=uuid if isinstance(uuid, str) else "",
        )
        self._keep(message)
        return message

    def _keep(self, message: Message) -> None:
        self.by_id[message.message_id] = message
        if message.uuid:
            self.by_uuid[message.app_id, message.uuid] = message

    def _sent_with(self, app: App, uuid: str, now: float) -> Message | None:
        message = self.by_uuid.get((app.app_id, uuid))
        return message if message is not None and now - message.sent_at < UUID_LIFE else None

    def update(self, app: App, message_id: str, content: object) -> Message:
        """PATCH: replaces a card nobody clicked just now. Raises Refusal."""
        message = self.by_id.get(message_id)
        if message is None:
            raise Refusal(
                99992354,
                f"The request you send is not a valid {{message_id}} or not exists: {message_id[:64]}",
            )
        self._check_updatable(app, message)
        parsed = parse_content("interactive", content)
        check_card(parsed, replaces=True)
        if not (
            card_check.declares_update_multi(message.content) and card_check.declares_update_multi(parsed)
        ):
            raise Refusal(
                BAD_PARAMETER,
                "invalid request parameter, ext=config.update_multi must be true before and after",
            )
        if message.clicks_unanswered:
            raise LOCKED.refusal("update")
        now = self.clock.now()
        _slow_down(self.of_message.take(message_id, now), "5 updates per second of one message")
        message.replace(parsed, now)
        return message

    def _check_updatable(self, app: App, message: Message) -> None:
        if message.app_id != app.app_id:
            raise Refusal(230027, "Lack of necessary permissions, ext=the message was sent by another app")
        if message.deleted:
            raise Refusal(230110, "Action unavailable as the message has been deleted")
        if message.recalled:
            raise Refusal(230011, "The message was recalled")
        if message.msg_type != "interactive":
            raise Refusal(BAD_PARAMETER, "invalid request parameter, ext=This message is NOT a card")
        if self.clock.now() - message.sent_at > UPDATE_DAYS * 86400:
            raise Refusal(230031, "The card message exceeds the update time limit of 14 days")

    def get(self, message_id: str) -> Message:
        """For the control side. Raises BadOrder."""
        if message_id not in self.by_id:
            raise BadOrder(f"message_id: {message_id!r} is unknown here; list /sandbox-control/messages")
        return self.by_id[message_id]

    def in_chat(self, chat_id: str) -> list[Message]:
        """Oldest first, without deleted ones."""
        return [
            message for message in self.by_id.values() if message.chat_id == chat_id and not message.deleted
        ]

    def clear(self) -> None:
        self.by_id.clear()
        self.by_uuid.clear()
        self.to_chat.clear()
        self.of_message.clear()

    def dump(self, keep: int = 200) -> list[dict[str, Any]]:
        return [asdict(message) for message in list(self.by_id.values())[-keep:]]

    def load(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self._keep(Message(**{**row, "clicks_unanswered": 0}))


def _slow_down(wait: float, limit: str) -> None:
    if wait > 0:
        raise Refusal(230020, f"This operation triggers the frequency limit, ext={limit}")


def parse_content(msg_type: object, content: object) -> dict[str, Any]:
    """The object inside a `content` string. Raises Refusal 230001 (shape) or 230025 (size)."""
    if msg_type not in ("interactive", "text"):
        raise Refusal(
            BAD_PARAMETER, f"invalid request parameter, ext=msg_type {msg_type!r} is not taken here"
        )
    if not isinstance(content, str):
        raise Refusal(
            BAD_PARAMETER, "invalid request parameter, ext=content must be a string that contains JSON"
        )
    try:
        size = len(content.encode())
        parsed = json.loads(content)
    except ValueError as error:
        raise Refusal(
            BAD_PARAMETER, f"invalid request parameter, ext=content is not JSON: {error}"
        ) from error
    if size > (MAX_BYTES if msg_type == "interactive" else MAX_TEXT_BYTES):
        raise Refusal(230025, f"The length of the message content reaches its limit, ext={size} bytes")
    if not isinstance(parsed, dict):
        raise Refusal(BAD_PARAMETER, "invalid request parameter, ext=content must contain a JSON object")
    if msg_type == "text" and not isinstance(parsed.get("text"), str):
        raise Refusal(BAD_PARAMETER, "invalid request parameter, ext=a text message needs text")
    return parsed


def check_card(card: dict[str, Any], *, replaces: bool = False) -> None:
    """The card check as the open API reports it. Raises Refusal 230099."""
    try:
        card_check.check(card, replaces=replaces)
    except CardFault as fault:
        raise fault.refusal("update" if replaces else "create") from fault
