"""What an adapter is: the code that speaks one platform's protocol.

An adapter never touches the database. It gets its typed configuration, one HTTP client and a store for its access
token, and says what happened with :class:`AdapterError` or a value. One small class per platform; packages add theirs
through the entry point group ``hookgate.adapters``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, SecretStr

from channels_app.cards import Card
from portal.lib.http import Client


class AdapterError(Exception):
    """A platform refused, or could not be reached.

    ``code`` is the platform's own (or ``network``), ``message`` is for an admin and holds no secret. ``permanent``
    says that repeating can't help. ``retry_after`` is the platform's wish in seconds. ``unknown`` says that the call
    may have taken effect. ``hide_body`` says that the same card without its body may be accepted. ``away`` says that
    the platform itself could not be reached or is broken, so that other calls would fare no better.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        permanent: bool,
        retry_after: float | None = None,
        unknown: bool = False,
        hide_body: bool = False,
        away: bool = False,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.permanent = permanent
        self.retry_after = retry_after
        self.unknown = unknown
        self.hide_body = hide_body
        self.away = away


class CallbackRefused(Exception):
    """A callback that is not authentic (401), not decodable (400) or not for this app (403)."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message


class AdapterConfig(BaseModel):
    """Base of the typed configurations. Fields typed ``SecretStr`` are write-only everywhere.

    ``base_url`` is where the platform's API is; an adapter's model gives it a default.
    """

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, hide_input_in_errors=True)

    base_url: str

    def to_json(self) -> dict[str, Any]:
        """The configuration as it is stored, encrypted: secrets revealed, absent values left out."""
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in self
            if value is not None
        }


ConfigModel = type[AdapterConfig]


class TokenStore(Protocol):
    """Keeps one app's access token for every worker; see :mod:`channels_app.tokens`."""

    def get(self, fetch: "TokenFetch", *, stale: str | None = None) -> str:
        """Return a token. ``stale`` is one that the platform has just called invalid: it is never returned again."""


class TokenFetch(Protocol):
    """Asks the platform for a token."""

    def __call__(self) -> tuple[str, float]:
        """Return ``(token, seconds it is valid)``. Raises :class:`AdapterError`."""


@dataclass(frozen=True)
class Handle:
    """What the platform calls a message that was sent."""

    message_id: str
    chat_id: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InboundRequest:
    """A callback as it arrived: method, header names in lower case, the query, the raw body."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Tap:
    """An authentic tap on a card, in the portal's words. ``ref`` is empty when the platform left it out."""

    event_id: str
    message_id: str
    chat_id: str
    external_id: str
    action: str
    ref: str = ""
    reason: str | None = None
    name: str = ""
    tenant_key: str = ""


@dataclass(frozen=True)
class Reply:
    """What the person who tapped is told: a short text and, when it changed, the card as it stands now."""

    text: str
    ok: bool
    card: Card | None = None
    ref: str = ""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer in the platform's own form."""

    status: int
    body: bytes
    content_type: str = "application/json; charset=utf-8"


@dataclass(frozen=True)
class CheckResult:
    """One line of ``check_channel``: what was tried, whether it works, and what to do if not."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Chat:
    """A chat that the bot is in."""

    id: str
    name: str
    description: str = ""


class Platform(ABC):
    """What the portal must know of a platform to keep a channel's configuration."""

    type: ClassVar[str]
    title: ClassVar[str]
    config_model: ClassVar[ConfigModel]
    # Hosts that a channel's base_url may name without HOOKGATE_CHANNEL_HOSTS.
    hosts: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def app_key(cls, config: Any) -> str:
        """What identifies the bot: channels of one organization with the same key share one app."""

    @classmethod
    @abstractmethod
    def recipients(cls, config: Any) -> list[str]:
        """Whom a card of this channel goes to; each gets a delivery of its own."""

    @classmethod
    @abstractmethod
    def unusable(cls, config: Any) -> str | None:
        """Why a channel with this configuration can't carry cards in this release, and what to do; else ``None``."""


class Adapter(Platform):
    """One platform at work. Instances are cheap and live for one delivery, callback or check."""

    # At most so many calls, in the notation of the ``limits`` library: sends per recipient, updates per message.
    send_rate: ClassVar[str]
    update_rate: ClassVar[str]
    # For so many seconds after a first try the same key can't send a second message; 0 when there are no keys.
    repeat_seconds: ClassVar[int]

    def __init__(self, config: Any, *, client: Client, tokens: TokenStore) -> None:
        self.config = config
        self.client = client
        self.tokens = tokens

    @abstractmethod
    def fit(self, card: Card) -> Card:
        """What of ``card`` this platform can show: what :meth:`render` draws, and no button more. Pure."""

    @abstractmethod
    def render(self, card: Card, ref: str) -> dict[str, Any]:
        """The platform's message for ``card``, its buttons carrying ``ref``. Pure."""

    @abstractmethod
    def send(self, recipient: str, card: Card, ref: str, *, key: str) -> Handle:
        """Send a card. ``key`` (at most 50 characters) is the same for every try. Raises :class:`AdapterError`."""

    @abstractmethod
    def update(self, handle: Handle, card: Card, ref: str) -> None:
        """Replace the card of a sent message. Raises :class:`AdapterError`."""

    @abstractmethod
    def receive(self, request: InboundRequest) -> "Tap | Answer":
        """Verify a callback, then read it: a tap, or the answer to one that needs no decision (URL check, other event).

        Raises :class:`CallbackRefused`. Nothing is parsed before the signature holds.
        """

    @abstractmethod
    def answer(self, reply: Reply) -> Answer:
        """Put a reply into the platform's form."""

    @abstractmethod
    def check(self) -> list[CheckResult]:
        """Try what a delivery needs (token, bot, chat), and say what to do about each failure."""

    @abstractmethod
    def chats(self) -> list[Chat]:
        """The chats that the bot is in. Raises :class:`AdapterError`."""
