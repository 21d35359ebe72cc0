"""Every way in which the simulated platform, its client or the control side says no."""

import json
from typing import Any

BAD_PARAMETER = 230001


class Refusal(Exception):
    """An answer of the open API with a non-zero `code`. The HTTP status is 400 unless a document says otherwise."""

    def __init__(
        self,
        code: int,
        msg: str,
        *,
        status: int = 400,
        headers: dict[str, str] | None = None,
        error: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code} {msg}")
        self.code = code
        self.msg = msg
        self.status = status
        self.headers = headers or {}
        self.error = error

    def body(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"code": self.code, "msg": self.msg}
        if self.error is not None:
            answer["error"] = self.error
        return answer


class CardFault(Exception):
    """One thing that is wrong with a card: the platform's inner ErrCode, where, what, and the value at fault."""

    def __init__(self, err_code: int, path: str, message: str, value: object = "") -> None:
        super().__init__(message)
        self.err_code = err_code
        self.path = path
        self.message = message
        self.value = value

    def ext(self) -> str:
        """The text that the platform puts after `ext=`."""
        value = self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)
        return f"ErrCode: {self.err_code}; ErrPath: {self.path}; ErrMsg: {self.message}; ErrorValue: {value[:200]}"

    def refusal(self, verb: str = "create") -> Refusal:
        return Refusal(230099, f"Failed to {verb} card content, ext={self.ext()}")


class PressRefused(Exception):
    """The client itself blocks a press, so that no callback is sent: no such button, disabled, required input empty."""


class BadOrder(Exception):
    """A request to the control side that cannot be carried out; the text names the field and the remedy."""
