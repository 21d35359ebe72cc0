"""Tenant access tokens: 7200 s, the same one while at least 1800 s remain, then a new one beside the old."""

import secrets
from collections import Counter
from dataclasses import dataclass

from channels_app.sandbox.directory import App
from channels_app.sandbox.refusals import Refusal

LIFE = 7200
KEEP_WHILE = 1800


@dataclass
class Token:
    text: str
    app_id: str
    expires_at: float


class Tokens:
    """Issues tokens and recognises them. `requests` counts the calls of the token endpoint per app id."""

    def __init__(self) -> None:
        self.by_text: dict[str, Token] = {}
        self.newest: dict[str, Token] = {}
        self.requests: Counter[str] = Counter()

    def issue(self, app: App, now: float) -> tuple[str, int]:
        """The token and the whole seconds that it still lives."""
        token = self.newest.get(app.app_id)
        if token is None or token.expires_at - now < KEEP_WHILE:
            token = Token(f"t-g104{secrets.token_hex(18).upper()}", app.app_id, now + LIFE)
            self.newest[app.app_id] = token
            self.by_text[token.text] = token
        return token.text, int(token.expires_at - now)

    def app_id_of(self, authorization: str | None, now: float) -> str:
        """The app id that an `Authorization` header stands for.

        Raises Refusal 99991661 (no token), 99991671 (neither t- nor u-), 99991668 (a user's), 99991663 (not valid).
        """
        scheme, _, text = (authorization or "").partition(" ")
        if scheme != "Bearer" or not text.strip():
            raise Refusal(
                99991661, "Missing access token for authorization. Please make a request with token attached."
            )
        text = text.strip()
        if text.startswith("u-"):
            raise Refusal(
                99991668, "Invalid access token for authorization. Please make a request with token attached."
            )
        if not text.startswith("t-"):
            raise Refusal(
                99991671, "Invalid access token for authorization: token must start with 't-' or 'u-'."
            )
        token = self.by_text.get(text)
        if token is None or token.expires_at <= now:
            raise Refusal(
                99991663, "Invalid access token for authorization. Please make a request with token attached."
            )
        return token.app_id

    def invalidate(self, app_id: str | None = None) -> int:
        """Forgets the tokens of one app, or of all. Returns how many."""
        gone = [text for text, token in self.by_text.items() if app_id in (None, token.app_id)]
        for text in gone:
            self.newest.pop(self.by_text.pop(text).app_id, None)
        return len(gone)
