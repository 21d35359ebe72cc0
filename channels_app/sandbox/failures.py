"""Planned failures: the next calls of an endpoint that shall go wrong, and how."""

from dataclasses import dataclass, field
from typing import Any

from channels_app.sandbox.refusals import BadOrder

ENDPOINTS = ("token", "send", "update", "bot_info", "chats", "chat", "batch_get_id", "user")
RATE_LIMITED = {"code": 99991400, "msg": "request trigger frequency limit"}


@dataclass
class Failure:
    """One plan for `count` calls of `endpoint` ("*": any).

    `delay_ms` waits first. `apply_then_drop` carries the call out and closes the connection without an answer;
    `drop_connection` closes it with nothing carried out; otherwise a `status` answers with `headers` and `body`
    (an object is sent as JSON, a string as it is). Only a delay: the call is carried out late. `late_ms` comes after
    the carrying out: the platform has done it, and a client that dies meanwhile doesn't know.
    """

    endpoint: str
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    count: int = 1
    delay_ms: int = 0
    late_ms: int = 0
    drop_connection: bool = False
    apply_then_drop: bool = False


class Failures:
    """The plans that are still open, in the order in which they were made."""

    def __init__(self) -> None:
        self.plans: list[Failure] = []

    def plan(self, order: dict[str, Any]) -> Failure:
        """Adds a plan. Raises BadOrder naming the field."""
        unknown = sorted(set(order) - set(Failure.__dataclass_fields__))
        if unknown:
            raise BadOrder(
                f"{unknown[0]}: unknown field; a failure has {', '.join(Failure.__dataclass_fields__)}"
            )
        if order.get("endpoint") not in (*ENDPOINTS, "*"):
            raise BadOrder(f"endpoint: must be * or one of {', '.join(ENDPOINTS)}")
        failure = Failure(**order)
        for name in ("count", "delay_ms", "late_ms"):
            if not isinstance(getattr(failure, name), int) or getattr(failure, name) < 0:
                raise BadOrder(f"{name}: must be a whole number, not negative")
        if failure.status is not None and not (
            isinstance(failure.status, int) and 200 <= failure.status <= 599
        ):
            raise BadOrder("status: must be a number from 200 to 599")
        effects = (failure.status, failure.delay_ms, failure.late_ms, failure.drop_connection)
        if not any(effects) and not failure.apply_then_drop:
            raise BadOrder("status: give a status, a delay_ms, a late_ms, drop_connection or apply_then_drop")
        if failure.status == 429 and failure.body is None:
            failure.body = RATE_LIMITED
            failure.headers.setdefault("x-ogw-ratelimit-reset", "2")
        self.plans.append(failure)
        return failure

    def take(self, endpoint: str) -> Failure | None:
        """The plan for this call, counted down; None when it may go its way."""
        for failure in self.plans:
            if failure.endpoint in (endpoint, "*") and failure.count > 0:
                failure.count -= 1
                self.plans = [plan for plan in self.plans if plan.count > 0]
                return failure
        return None

    def clear(self) -> None:
        self.plans.clear()
