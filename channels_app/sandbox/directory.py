"""Apps, users and chats: who exists, and who is where."""

from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from channels_app.sandbox.refusals import BadOrder

ALL_SCOPES = (
    "im:message",
    "im:message:send_as_bot",
    "im:message:update",
    "im:chat:readonly",
    "contact:user.id:readonly",
    "contact:contact.base:readonly",
    "contact:user.base:readonly",
    "contact:user.email:readonly",
    "contact:user.employee_id:readonly",
)
T = TypeVar("T")

ID_FIELDS = ("open_id", "union_id", "user_id")


@dataclass
class App:
    """A self-built app with a bot. `callback_url` is what the console has as request URL; None: nothing configured."""

    app_id: str
    app_secret: str
    encrypt_key: str
    verification_token: str
    tenant_key: str
    callback_url: str | None
    scopes: list[str]
    name: str
    bot_open_id: str
    activate_status: int = 2
    bot_enabled: bool = True


@dataclass
class User:
    """A person. `in_range`: inside every app's availability range. `status` words as in `batch_get_id`."""

    open_id: str
    name: str
    email: str
    union_id: str
    user_id: str
    in_range: bool = True
    is_resigned: bool = False
    is_frozen: bool = False

    def status(self) -> dict[str, bool]:
        return {
            "is_frozen": self.is_frozen,
            "is_resigned": self.is_resigned,
            "is_activated": not self.is_resigned,
            "is_exited": False,
            "is_unjoin": False,
        }


@dataclass
class Chat:
    """A group, or the two-person chat (`kind` "p2p") between a bot and a user."""

    chat_id: str
    name: str
    tenant_key: str
    bots: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    kind: str = "group"


class Directory:
    """Every app, user and chat by its id."""

    def __init__(self) -> None:
        self.apps: dict[str, App] = {}
        self.users: dict[str, User] = {}
        self.chats: dict[str, Chat] = {}

    def find_user(self, id_type: str, value: str) -> User | None:
        """`id_type`: open_id, union_id, user_id or email."""
        if id_type == "open_id":
            return self.users.get(value)
        return next((user for user in self.users.values() if getattr(user, id_type) == value), None)

    def private_chat(self, app: App, user: User) -> Chat:
        """The bot's chat with one person, made at first use."""
        chat_id = f"oc_p2p_{app.app_id[-8:]}_{user.open_id.removeprefix('ou_')}"
        if chat_id not in self.chats:
            self.chats[chat_id] = Chat(
                chat_id, user.name, app.tenant_key, [app.app_id], [user.open_id], "p2p"
            )
        return self.chats[chat_id]

    def groups_of(self, app: App) -> list[Chat]:
        return [chat for chat in self.chats.values() if chat.kind == "group" and app.app_id in chat.bots]

    def chats_of(self, open_id: str) -> list[Chat]:
        return [chat for chat in self.chats.values() if open_id in chat.members]

    def app(self, app_id: str) -> App:
        return _get(self.apps, app_id, "app_id")

    def user(self, open_id: str) -> User:
        return _get(self.users, open_id, "open_id")

    def chat(self, chat_id: str) -> Chat:
        return _get(self.chats, chat_id, "chat_id")

    def dump(self) -> dict[str, Any]:
        return {
            "apps": [asdict(app) for app in self.apps.values()],
            "users": [asdict(user) for user in self.users.values()],
            "chats": [asdict(chat) for chat in self.chats.values()],
        }

    def load(self, data: dict[str, Any]) -> None:
        self.apps = {row["app_id"]: App(**row) for row in data["apps"]}
        self.users = {row["open_id"]: User(**row) for row in data["users"]}
        self.chats = {row["chat_id"]: Chat(**row) for row in data["chats"]}


def _get(rows: dict[str, T], key: str, name: str) -> T:
    if key not in rows:
        raise BadOrder(f"{name}: {key!r} is unknown here; known: {', '.join(rows) or 'none'}")
    return rows[key]
