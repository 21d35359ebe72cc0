"""The simulated platform as one object: state and behaviour, without HTTP."""

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from channels_app.sandbox.clock import Clock
from channels_app.sandbox.directory import ALL_SCOPES, App, Chat, Directory, User
from channels_app.sandbox.failures import Failures
from channels_app.sandbox.ledger import Ledger
from channels_app.sandbox.limits import Window
from channels_app.sandbox.messages import Messages
from channels_app.sandbox.refusals import BadOrder
from channels_app.sandbox.tokens import Tokens

logger = logging.getLogger(__name__)


class FeishuSandbox:
    """One Feishu tenant. Every public method may be called from any thread; parts are touched under `lock`.

    `source`: seconds since the epoch, for tests with a clock of their own. `answer_seconds`, `challenge_seconds`: how
    long a callback and a URL check may take. `state_path`: a JSON file that keeps the chats over a restart.
    """

    def __init__(
        self,
        *,
        source: Callable[[], float] = time.time,
        answer_seconds: float = 3.0,
        challenge_seconds: float = 1.0,
        state_path: Path | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.clock = Clock(source)
        self.answer_seconds = answer_seconds
        self.challenge_seconds = challenge_seconds
        self.state_path = state_path
        self.directory = Directory()
        self.tokens = Tokens()
        self.messages = Messages(self.clock)
        self.failures = Failures()
        self.ledger = Ledger()
        self.per_second = Window(50, 1.0)
        self.per_minute = Window(1000, 60.0)

    def add_app(
        self,
        app_id: str,
        app_secret: str,
        encrypt_key: str,
        verification_token: str,
        tenant_key: str,
        callback_url: str | None,
        scopes: Iterable[str] = ALL_SCOPES,
        *,
        name: str = "Approvals",
    ) -> App:
        """A self-built app with its bot. `callback_url` None: the console has no request URL yet."""
        bot = f"ou_bot_{app_id.removeprefix('cli_')}"
        app = App(
            app_id,
            app_secret,
            encrypt_key,
            verification_token,
            tenant_key,
            callback_url,
            list(scopes),
            name,
            bot,
        )
        with self.lock:
            self.directory.apps[app_id] = app
        return app

    def add_user(
        self,
        open_id: str,
        name: str,
        email: str,
        *,
        union_id: str | None = None,
        user_id: str | None = None,
        in_range: bool = True,
        is_resigned: bool = False,
        is_frozen: bool = False,
    ) -> User:
        stem = open_id.removeprefix("ou_")
        user = User(
            open_id, name, email, union_id or f"on_{stem}", user_id or stem, in_range, is_resigned, is_frozen
        )
        with self.lock:
            self.directory.users[open_id] = user
        return user

    def add_chat(self, chat_id: str, name: str, bots: Iterable[str] = ()) -> Chat:
        """A group. `bots`: app ids whose bots are in it. Raises BadOrder for an unknown app."""
        with self.lock:
            apps = [self.directory.app(app_id) for app_id in bots]
            tenant_key = apps[0].tenant_key if apps else "sandbox"
            chat = Chat(chat_id, name, tenant_key, [app.app_id for app in apps])
            self.directory.chats[chat_id] = chat
        return chat

    def add_member(self, chat_id: str, open_id: str) -> None:
        """Puts a user into a group; already there is fine. Raises BadOrder."""
        with self.lock:
            chat, user = self.directory.chat(chat_id), self.directory.user(open_id)
            if user.open_id not in chat.members:
                chat.members.append(user.open_id)

    def remove_member(self, chat_id: str, open_id: str) -> None:
        with self.lock:
            chat = self.directory.chat(chat_id)
            chat.members = [member for member in chat.members if member != open_id]

    def set_bot(self, chat_id: str, app_id: str, *, present: bool) -> None:
        """Adds a bot to a group, or removes it. Raises BadOrder."""
        with self.lock:
            chat, app = self.directory.chat(chat_id), self.directory.app(app_id)
            chat.bots = [bot for bot in chat.bots if bot != app.app_id] + ([app.app_id] if present else [])

    def say(self, chat_id: str, text: str, app_id: str) -> str:
        """A text message of a bot without going through the API; returns its id. For seeding a chat."""
        with self.lock:
            message = self.messages.send(
                self.directory.app(app_id),
                self.directory.chat(chat_id),
                receive_id=chat_id,
                receive_id_type="chat_id",
                msg_type="text",
                content=json.dumps({"text": text}),
                uuid=f"say-{secrets.token_hex(8)}",
            )
            return message.message_id

    def reset(self) -> None:
        """Forgets messages, tokens, failures, records and the clock offset; apps, users and chats stay."""
        with self.lock:
            self.messages.clear()
            self.tokens = Tokens()
            self.failures.clear()
            self.ledger.clear()
            self.per_second.clear()
            self.per_minute.clear()
            self.clock.offset = 0.0
            self.save()

    def set_clock(self, offset_seconds: object) -> float:
        """Shifts the virtual clock against real time. Raises BadOrder."""
        if isinstance(offset_seconds, bool) or not isinstance(offset_seconds, int | float):
            raise BadOrder("offset_seconds: must be a number of seconds, for example 3600")
        with self.lock:
            self.clock.offset = float(offset_seconds)
            return self.clock.now()

    def save(self) -> None:
        """Writes chats and messages to `state_path`, if there is one."""
        if self.state_path is None:
            return
        with self.lock:
            directory = {**self.directory.dump(), "apps": []}  # seeding brings the apps, and their secrets
            text = json.dumps({"directory": directory, "messages": self.messages.dump()})
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.state_path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, self.state_path)

    def load(self) -> bool:
        """Adds what `state_path` holds: its messages, and the chats and users that seeding did not make.

        False when there is no file, or one that cannot be read: a sandbox starts afresh rather than not at all.
        """
        if self.state_path is None or not self.state_path.exists():
            return False
        try:
            state: dict[str, Any] = json.loads(self.state_path.read_text(encoding="utf-8"))
            kept = Directory()
            kept.load(state["directory"])
            with self.lock:
                self._take_over(kept, state["messages"])
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("sandbox_state_unreadable path=%s error=%s", self.state_path, error)
            return False
        return True

    def _take_over(self, kept: Directory, messages: list[dict[str, Any]]) -> None:
        """Apps come from the seed alone: chats and messages of an app that it no longer has are left out."""
        apps = self.directory.apps.keys()
        chats = {chat_id: chat for chat_id, chat in kept.chats.items() if apps >= set(chat.bots)}
        self.directory.users = {**kept.users, **self.directory.users}
        self.directory.chats = {**chats, **self.directory.chats}
        self.messages.load(
            [row for row in messages if row["app_id"] in apps and row["chat_id"] in self.directory.chats]
        )
