"""Calls of the Feishu Open Platform: one token, one answer, and what each error code means for us.

Most refusals are HTTP 400 with a ``code`` in the body, so the body decides, not the status. Sources: the platform's
"server API error codes" and the error tables of the message, bot and chat calls.
"""

import re
from typing import Any

import httpx

from channels_app.adapters.base import AdapterError, TokenStore
from portal.lib.http import Client, ForbiddenAddress

TOKEN_PATH = "/open-apis/auth/v3/tenant_access_token/internal"  # noqa: S105  # an address
# The tenant token is no longer good: fetch another one, once per call.
TOKEN_INVALID = {99991663, 99991664, 99991665}
# Too fast, or the same message is being sent just now: the same call may succeed later.
BUSY = {99991400, 230020, 230049, 11232, 11233, 11247, 1000004, 1000005}
# The content is refused; without its body the card may pass.
CONTENT_REFUSED = {230025, 230028}
# Failures of the request's way there: nothing has reached the platform.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

REMEDIES = {
    10003: "check app_id and app_secret",
    10014: "the app is disabled; enable it in the developer console",
    10015: "app_secret is wrong; copy it again from the developer console",
    20002: "app_id or app_secret is wrong; check also that base_url is the app's own region",
    99991401: "add this server's address to the app's IP allow-list",
    99991403: "the app's monthly quota is used up",
    99991662: "the app is not in use; publish a version",
    99991672: "a scope is missing; add it in the console and publish a new version",
    230002: "the bot is not in the chat; add it to the group",
    230006: "switch the app's bot ability on and publish a new version",
    230011: "the message was recalled",
    230013: "put the recipient into the app's availability range",
    230018: "the group's settings forbid it",
    230022: "the platform calls the content sensitive",
    230025: "the card is too long",
    230027: "the app may not do this; check its scopes",
    230028: "the tenant's data loss prevention refuses the content",
    230031: "the message is older than 14 days and can't be changed any more",
    230034: "chat_id is not a chat of this tenant",
    230035: "the group is muted or the bot is blocked in it",
    230054: "this kind of group can't hold cards",
    230075: "encrypted chats can't hold cards",
    230110: "the message was deleted",
    232006: "chat_id is not a chat",
    232009: "the group was dissolved",
    232011: "the bot is not in the chat; add it to the group",
}


def remedy(error: AdapterError) -> str:
    """What an admin can do about a refusal."""
    known = REMEDIES.get(int(error.code)) if error.code.isdecimal() else None
    if error.code in {"network", "forbidden_address"}:
        return known or "check base_url, and that this server may reach it"
    return known or "look the code up in the platform's error list"


class FeishuApi:
    """One app's authenticated calls."""

    def __init__(self, config: Any, *, client: Client, tokens: TokenStore) -> None:
        self._config = config
        self._client = client
        self._tokens = tokens

    def fetch_token(self) -> tuple[str, float]:
        """Ask for a tenant token. Returns ``(token, seconds)``. Raises :class:`AdapterError`."""
        body = {
            "app_id": self._config.app_id,
            "app_secret": self._config.app_secret.get_secret_value(),
        }
        answer = self._exchange("POST", TOKEN_PATH, json=body, writes=False)
        token, seconds = answer.get("tenant_access_token"), answer.get("expire")
        if not isinstance(token, str) or not isinstance(seconds, int):
            raise AdapterError("bad_answer", "the token call answered without a token", permanent=False)
        return token, float(seconds)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        json: Any = None,
        writes: bool = False,
    ) -> dict[str, Any]:
        """Make one call and return its body. ``writes`` says that a lost answer leaves doubt.

        A token that the platform calls invalid is renewed once. Raises :class:`AdapterError`.
        """
        token = self._tokens.get(self.fetch_token)
        for last in (False, True):
            try:
                return self._exchange(method, path, params=params, json=json, token=token, writes=writes)
            except AdapterError as error:
                if last or error.code not in {str(code) for code in TOKEN_INVALID}:
                    raise
            token = self._tokens.get(self.fetch_token, stale=token)
        raise AssertionError("unreachable")

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        json: Any = None,
        token: str = "",
        writes: bool,
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            response = self._client.request(method, path, headers=headers, params=params, json=json)
        except ForbiddenAddress as error:
            raise AdapterError("forbidden_address", str(error), permanent=True) from error
        except _NOT_SENT as error:
            raise AdapterError(
                "network", f"no connection ({type(error).__name__})", permanent=False, away=True
            ) from error
        except httpx.HTTPError as error:
            raise AdapterError(
                "network", f"no answer ({type(error).__name__})", permanent=False, unknown=writes, away=True
            ) from error
        return _body(response, writes=writes)


def _body(response: httpx.Response, *, writes: bool) -> dict[str, Any]:
    """The answer's JSON when its ``code`` is 0. Raises :class:`AdapterError`."""
    try:
        body = response.json()
        code = body["code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        body = code = None
    if not isinstance(body, dict) or not isinstance(code, int):
        if response.status_code == 429:
            raise _busy("429", response)
        raise AdapterError(
            f"http_{response.status_code}",
            "not an answer of Feishu; check base_url",
            permanent=400 <= response.status_code < 500,
            retry_after=_wish(response) if response.status_code >= 500 else None,
            unknown=writes and not 400 <= response.status_code < 500,
            away=response.status_code >= 500,
        )
    if code != 0:
        raise _refusal(code, str(body.get("msg", "")), response, writes=writes)
    return body


def _refusal(code: int, message: str, response: httpx.Response, *, writes: bool) -> AdapterError:
    text = f"{_tidy(message)}; {REMEDIES[code]}" if code in REMEDIES else _tidy(message)
    if code in BUSY or response.status_code == 429:
        return _busy(str(code), response, text)
    if code == 230099 and "lock" in message:
        # A tap on this card is being answered just now.
        return AdapterError(str(code), text, permanent=False, retry_after=1.0)
    if code in TOKEN_INVALID:
        return AdapterError(str(code), text, permanent=False)
    if response.status_code >= 500 and code not in REMEDIES:
        return AdapterError(
            str(code), text, permanent=False, retry_after=_wish(response), unknown=writes, away=True
        )
    return AdapterError(str(code), text, permanent=True, hide_body=code in CONTENT_REFUSED)


def _busy(code: str, response: httpx.Response, text: str = "too many calls") -> AdapterError:
    return AdapterError(code, text, permanent=False, retry_after=_wish(response))


def _wish(response: httpx.Response) -> float | None:
    """For how many seconds the platform wants to be left alone."""
    wish = response.headers.get("x-ogw-ratelimit-reset") or response.headers.get("retry-after") or ""
    return float(wish) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", wish) else None


def _tidy(message: str) -> str:
    """The platform's words, without the values that it quotes from our card."""
    return re.split(r";\s*ErrorValue:", message)[0][:300]
