"""Whether the client takes the answer to a callback, and what the clicker sees when it does not."""

import json
from dataclasses import dataclass
from typing import Any

from channels_app.sandbox import card_check
from channels_app.sandbox.refusals import CardFault

NO_CALLBACK_URL = 200340
TIMED_OUT = 200341
NOT_CONNECTED = 200342
NO_SUCH_HOST = 200343
STATUS_NOT_200 = 200671
MALFORMED = 200672
BAD_CARD = 200673
TOAST_TYPES = ("info", "success", "error", "warning")


@dataclass(frozen=True)
class Verdict:
    """`code` 0: taken. `toast` and `card` are what the answer held, when it was taken."""

    code: int
    why: str = ""
    toast: dict[str, Any] | None = None
    card: dict[str, Any] | None = None


def judge(*, status: int, content_type: str, body: bytes) -> Verdict:
    """Judges an answer that came in time."""
    if status != 200:
        return Verdict(STATUS_NOT_200, f"the status is {status}, not 200")
    if content_type.split(";")[0].strip().lower() != "application/json":
        return Verdict(MALFORMED, f"the content type is {content_type!r}, not application/json")
    try:
        answer = json.loads(body)
    except ValueError as error:
        return Verdict(MALFORMED, f"the body is not JSON: {error}")
    if not isinstance(answer, dict):
        return Verdict(MALFORMED, "the body is not a JSON object")
    unknown = sorted(set(answer) - {"toast", "card"})
    if unknown:
        return Verdict(MALFORMED, f"unknown key {unknown[0]!r}")
    return (
        _judge_toast(answer) or _judge_card(answer) or Verdict(0, "", answer.get("toast"), _new_card(answer))
    )


def _judge_toast(answer: dict[str, Any]) -> Verdict | None:
    if "toast" not in answer:
        return None
    toast = answer["toast"]
    if not isinstance(toast, dict) or set(toast) - {"type", "content", "i18n"}:
        return Verdict(MALFORMED, "toast must be an object of type, content and i18n")
    if toast.get("type", "info") not in TOAST_TYPES:
        return Verdict(MALFORMED, f"toast.type must be one of {', '.join(TOAST_TYPES)}")
    texts = toast.get("i18n", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        return Verdict(MALFORMED, "toast.i18n must map languages to texts")
    if not isinstance(toast.get("content", ""), str) or not (toast.get("content") or texts):
        return Verdict(MALFORMED, "toast.content must be a text")
    return None


def _judge_card(answer: dict[str, Any]) -> Verdict | None:
    if "card" not in answer:
        return None
    card = answer["card"]
    if not isinstance(card, dict) or set(card) != {"type", "data"}:
        return Verdict(BAD_CARD, "card must be an object of type and data")
    if card["type"] != "raw":
        return Verdict(BAD_CARD, "card.type must be raw: this sandbox has no templates")
    size = len(json.dumps(card["data"], ensure_ascii=False).encode())
    if size > 30 * 1024:
        return Verdict(BAD_CARD, f"the card has {size} bytes, at most 30 KB")
    try:
        card_check.check(card["data"], replaces=True)
    except CardFault as fault:
        return Verdict(fault.err_code if fault.err_code == card_check.V2_TO_V1 else BAD_CARD, fault.ext())
    return None


def _new_card(answer: dict[str, Any]) -> dict[str, Any] | None:
    card = answer.get("card")
    return card["data"] if isinstance(card, dict) else None
