"""What a session does for its built-in hooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hookgate.catalogue import LimitVerdict
from hookgate.context import HookContext
from hookgate.journal.spool import SpoolFailed
from hookgate.result import HookResult
from hookgate.session.environment import CallEnvironment, LogSettings
from hookgate.wire.portal import Unreachable

log = logging.getLogger("hookgate")


class SessionServices:
    """Implements `hookgate.catalogue.HookServices`."""

    def __init__(self, environment: CallEnvironment) -> None:
        self._env = environment

    @property
    def read_only(self) -> bool:
        manifest = self._env.manifest
        return manifest is None or manifest.state.read_only

    def check_call_log(self) -> str | None:
        call_log, agent = self._env.process.call_log, self._env.agent
        waiting = call_log.waiting(agent)
        if waiting >= self._env.log_settings.max_queued:
            return f"the portal has not taken call-log entries for too long: {waiting} are waiting"
        try:
            call_log.check(agent)
        except SpoolFailed as error:
            return str(error)
        return None

    def placeholders(self) -> Mapping[str, str]:
        initiator = self._env.initiator or {}
        user = initiator.get("name") or initiator.get("email") or initiator.get("id") or ""
        manifest = self._env.manifest
        agent = manifest.agent if manifest else None
        return {
            "date": _today(manifest.time_zone if manifest else "UTC"),
            "organization": agent.organization if agent else "",
            "agent": agent.slug if agent else self._env.agent,
            "user": str(user),
        }

    def set_call_log(self, *, max_queued: int, redact: tuple[str, ...], results: bool) -> None:
        self._env.log_settings = LogSettings(max_queued, redact, results)

    def record_call(self, context: HookContext) -> None:
        self._env.record(self._env.find_call(context.metadata["call_id"]))

    async def request_approval(self, context: HookContext) -> HookResult:
        return await self._env.find_call(context.metadata["call_id"]).request_approval()

    async def acquire_limit(self, *, hook_id: str, connector: str, call_id: str) -> LimitVerdict:
        body = {
            "agent": self._slug, "hook": hook_id, "connector": connector,
            "user": self._env.user_id, "call": call_id,
        }  # fmt: skip
        portal = self._env.process.portal
        try:
            reply = await portal.call("POST", "limits/acquire", body=body)
        except Unreachable as error:
            if error.timed_out:
                raise
            # A kept connection may just have been closed; the same call counts once.
            reply = await portal.call("POST", "limits/acquire", body=body)
        return _read_verdict(reply.body)

    async def send_notice(self, *, channel: str, text: str, patience: float | None) -> bool:
        body = {"text": text, "agent": self._slug}
        process = self._env.process
        sending = process.portal.call("POST", f"channels/{channel}/messages", body=body)
        if patience is None:
            await sending
            return True
        task = process.background(sending)
        await asyncio.wait({task}, timeout=patience)
        if task.done():
            task.result()
            return True
        task.add_done_callback(_log_failure)
        return False

    @property
    def _slug(self) -> str:
        manifest = self._env.manifest
        return manifest.agent.slug if manifest else self._env.agent


def _today(zone: str) -> str:
    """The date there now. Where this machine doesn't know the zone, that of UTC, and the log says so."""
    now = datetime.now(UTC)
    try:
        return now.astimezone(ZoneInfo(zone)).date().isoformat()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        log.warning(
            "the time zone %r is not known here (pip install tzdata); {date} is told in UTC", zone[:64]
        )
        return now.date().isoformat()


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a notice was not sent: %s", error)


def _read_verdict(body: Any) -> LimitVerdict:
    if not isinstance(body, dict) or not isinstance(body.get("allowed"), bool):
        raise Unreachable("the portal's answer is not a limit's verdict")
    numbers: list[Any] = [body.get(name) for name in ("limit", "remaining", "retry_after_seconds")]
    if not all(type(number) in (int, float) for number in numbers):
        raise Unreachable("the portal's answer is not a limit's verdict")
    return LimitVerdict(body["allowed"], int(numbers[0]), int(numbers[1]), float(numbers[2]))
