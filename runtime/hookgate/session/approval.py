"""One confirmation request, from asking people to reporting what became of the call."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hookgate import canonical, contract
from hookgate.wire import explanations
from hookgate.wire.pacing import Pacing
from hookgate.wire.portal import Lane, Portal, Refused, Reply, Unreachable
from hookgate.wire.waits import Feed, Waits, read_resource

log = logging.getLogger("hookgate")

_LONGEST_LIFE: Final = 259_200.0
# The code of a use that this program has taken back meanwhile.
TAKEN_BACK: Final = "cancelled"
_TAKEN_BACK: Final = "the request was cancelled by this program"
_CONSUME_REASONS: Final = {
    TAKEN_BACK: _TAKEN_BACK,
    "already_consumed": "this approved call already ran or is running elsewhere; it is not run again",
    "approval_lapsed": "the approval was not used in time and has lapsed",
    "args_mismatch": "the arguments are not those that were approved",
    "not_approved": "the request is not approved",
    "halted": "the agent is halted",
    "read_only": "the organization is in read-only mode and this tool writes",
    "agent_disabled": "the agent is switched off",
}


class Detached(Exception):
    """The session is being left: the request stays pending for the next process."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What people said. ``args`` are the arguments that may run when ``approved``."""

    approved: bool
    reason: str
    args: dict[str, Any] | None = None


class Approval:
    """The request of one call. ``id`` is None until the portal has taken it."""

    def __init__(
        self,
        portal: Portal,
        pacing: Pacing,
        clock: Callable[[], float],
        announce: Callable[[str, dict[str, Any]], Awaitable[None]],
        waits: Waits,
        feed: Feed,
    ) -> None:
        self.id: str | None = None
        self._detached = False
        # The call was taken back, and somebody was told that its tool will not run.
        self._cancelled = False
        # The tool may be running from here on.
        self._used = False
        self._portal = portal
        self._pacing = pacing
        self._clock = clock
        self._announce = announce
        self._waits = waits
        self._feed = feed
        # Kept in memory only: a process that died can't pass for the one that consumed.
        self._attempt = str(uuid.uuid4())
        self._use_by = 0.0
        self._older: int | None = None
        self._creating: asyncio.Task[dict[str, Any]] | None = None
        self._waiting: asyncio.Task[dict[str, Any] | None] | None = None

    async def request(self, body: Mapping[str, Any]) -> Verdict:
        """Ask people and wait for the end of it. Raises Unreachable, Refused and Detached."""
        if (version := self._portal.contract) is not None and version < contract.VERSION:
            return Verdict(False, contract.explain_older(version))
        # From before: should the stream be connected again meanwhile, an end may go unheard.
        epoch = self._feed.epoch
        # Shielded: a call that is cancelled meanwhile must still learn which request to take back.
        self._creating = asyncio.get_running_loop().create_task(self._create(body))
        self._creating.add_done_callback(_look_at)
        resource = await asyncio.shield(self._creating)
        if self._detached:
            raise Detached
        if self._older is not None:
            # One of several processes of the portal, which is being upgraded: what it was asked is taken back.
            await self.cancel()
            return Verdict(False, contract.explain_older(self._older))
        if (difference := _find_difference(resource, body)) is not None:
            return Verdict(False, difference)
        if self._cancelled:
            return Verdict(False, _TAKEN_BACK)
        if resource["status"] == "pending":
            await self._announce("awaiting_confirmation", self._describe(resource))
            ended = await self._await_end(resource, epoch)
            if self._cancelled:
                await self._resolve("cancelled", None)
                return Verdict(False, _TAKEN_BACK)
            if ended is None:
                await self.cancel()
                return Verdict(
                    False, "the portal gave no answer until long after the request's time was over"
                )
            resource = ended
            if (difference := _find_difference(resource, body)) is not None:
                return Verdict(False, difference)
        # A duration, because this machine's wall clock may be wrong.
        self._use_by = self._clock() + _read_span(resource, "ended_at", "start_by", otherwise=0.0)
        await self._resolve(resource["status"], resource.get("reason"))
        return _read_verdict(resource, body["tool_args"])

    async def _resolve(self, status: str, reason: str | None) -> None:
        await self._announce("confirmation_resolved", {"id": self.id, "status": status, "reason": reason})

    async def consume(self, args_digest: str) -> None:
        """Use the approval for arguments with this digest; the tool may run when this returns.

        The same attempt is repeated until the approval's time to start is over, so that an answer that got lost, or a
        portal that restarts, costs no approval that people have given. Leaving ends the repeating.
        Raises Unreachable and Refused; `explain_consume` says what they mean. Unreachable also for a 200 that
        isn't the use of this approval, for these arguments, by this attempt.
        """
        body = {"args_digest": args_digest, "attempt": self._attempt}
        pause = self._pacing.pause_first
        while True:
            try:
                reply = await self._persist("POST", f"confirmations/{self.id}/consume", body)
            except Unreachable:
                if self._detached or self._clock() + pause >= self._use_by:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._pacing.pause_last)
            else:
                break
        self._check_use(reply, args_digest)
        if self._cancelled:
            # Taken back while the portal was asked, and told so to whoever did.
            raise Refused(409, TAKEN_BACK, _TAKEN_BACK)
        self._used = True

    def _check_use(self, reply: Reply, args_digest: str) -> None:
        """Raise Unreachable unless the answer says that this attempt may run what has this digest."""
        resource = read_resource(reply, self.id)
        wrong = next(
            (
                word
                for word, holds in (
                    (f"status {reply.status}", reply.status == 200),
                    (f"a request that is {resource['status']}", resource["status"] == "approved"),
                    ("other arguments", resource.get("args_digest") == args_digest),
                    ("no time of use", _is_time(resource.get("consumed_at"))),
                    ("another attempt", _is_same_id(reply.attempt, self._attempt)),
                )
                if not holds
            ),
            None,
        )
        if wrong is not None:
            raise Unreachable(f"the portal's answer is not the use of this approval: it has {wrong}")

    async def report(self, status: str, detail: str | None) -> None:
        """Report the outcome until the portal has taken or refused it. The runtime cancels this when it
        closes; the outcome is then lost, and reads as missing at the portal."""
        body = {"status": status, "detail": detail and detail[:2000]}
        pause = self._pacing.pause_first
        try:
            while True:
                try:
                    reply = await self._portal.call(
                        "POST", f"confirmations/{self.id}/outcome", body=body, lane="uses"
                    )
                    # Anything else than this request has not taken it.
                    read_resource(reply, self.id)
                    return
                except Refused as error:
                    log.warning("outcome %s of request %s refused: %s", status, self.id, error)
                    return
                except Unreachable as error:
                    log.info("outcome %s of request %s: %s; trying again", status, self.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._pacing.pause_last)
        except asyncio.CancelledError:
            log.error("outcome %s of request %s could not be reported", status, self.id)
            raise

    async def cancel(self) -> bool:
        """Take the request back. True only if the tool will not run; False when it was decided already or the
        portal can't be reached. While the request is being posted, the portal's answer is waited for."""
        if self.id is None and self._creating is not None:
            await asyncio.wait({self._creating})
        if self._cancelled:
            return True
        if self.id is None:
            # Never posted, or without an answer: nothing can be used of it.
            self._take_back()
            return True
        if self._used:
            return False
        try:
            reply = await self._persist("POST", f"confirmations/{self.id}/cancel", {})
            if read_resource(reply, self.id)["status"] != "cancelled":
                raise Unreachable("the portal's answer is not a cancelled request")
        except (Unreachable, Refused) as error:
            log.info("request %s not cancelled: %s", self.id, error)
            return False
        if self._used:
            # Used while the portal was asked.
            return False
        self._take_back()
        return True

    def _take_back(self) -> None:
        self._cancelled = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def abandon(self) -> None:
        """The call is given up: take its request back, also when it is only just being posted."""
        await self.cancel()

    def detach(self) -> None:
        """Stop waiting, leaving the request as it is. While it is still being posted, its end is not
        waited for."""
        self._detached = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        reply = await self._persist("POST", "confirmations", body, lane="asks")
        resource = read_resource(reply)
        self.id = resource["id"]
        self._older = reply.contract if reply.contract < contract.VERSION else None
        return resource

    async def _persist(
        self, method: str, path: str, body: Mapping[str, Any], *, lane: Lane = "uses"
    ) -> Reply:
        """An idempotent request, repeated a few times while the portal is out of reach."""
        for delay in self._pacing.retry_delays:
            try:
                return await self._portal.call(method, path, body=body, lane=lane)
            except Unreachable as error:
                log.info("%s %s: %s; trying again", method, path, error)
                await asyncio.sleep(max(delay, min(error.retry_after or 0.0, self._pacing.pause_last)))
        return await self._portal.call(method, path, body=body, lane=lane)

    async def _await_end(self, resource: Mapping[str, Any], epoch: int) -> dict[str, Any] | None:
        """The resource once it is no longer pending; None when its time is long over. Raises Detached."""
        if self._detached:
            raise Detached
        # A duration here too.
        life = _read_span(resource, "created_at", "expires_at", otherwise=_LONGEST_LIFE)
        self._waiting = asyncio.get_running_loop().create_task(
            self._waits.wait_for_end(resource["id"], self._feed, ends_at=self._clock() + life, epoch=epoch)
        )
        try:
            return await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            if self._cancelled:
                return None
            raise Detached from None
        finally:
            self._waiting = None

    def _describe(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        url = resource.get("url") or f"{self._portal.url}/inbox/{self.id}/"
        return {"id": self.id, "url": url, "expires_at": resource.get("expires_at")}


def _look_at(task: asyncio.Task[Any]) -> None:
    # An error that nobody waits for any more is no news.
    if not task.cancelled():
        task.exception()


def explain_consume(error: Unreachable | Refused) -> str:
    """Why an approval could not be used, for the model."""
    if isinstance(error, Unreachable):
        return f"the approval could not be used: {explanations.OUT_OF_REACH}"
    return _CONSUME_REASONS.get(error.code, f"the approval could not be used ({error.code[:80]})")


def _find_difference(resource: Mapping[str, Any], asked: Mapping[str, Any]) -> str | None:
    """What shows that a request is not the one that was asked for; None when it is."""
    if resource.get("requested_digest") != canonical.digest(asked["tool_args"]):
        return "the portal's request is for other arguments"
    for name in ("agent", "tool_name"):
        if resource.get(name) != asked[name]:
            return f"the portal's request has another {name}"
    return None


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_same_id(text: str | None, expected: str) -> bool:
    try:
        return uuid.UUID(text) == uuid.UUID(expected)
    except (TypeError, ValueError, AttributeError):
        return False


def _read_span(resource: Mapping[str, Any], first: str, last: str, *, otherwise: float) -> float:
    """Seconds between two times of a request; ``otherwise`` where one is missing or unreadable."""
    try:
        begins = datetime.fromisoformat(resource[first])
        ends = datetime.fromisoformat(resource[last])
        return min(_LONGEST_LIFE, max(0.0, (ends - begins).total_seconds()))
    except (KeyError, TypeError, ValueError):
        return otherwise


def _read_verdict(resource: Mapping[str, Any], asked: dict[str, Any]) -> Verdict:
    status = resource["status"]
    if status == "rejected":
        return Verdict(False, _describe_rejection(resource))
    if status != "approved":
        words = {
            "expired": "nobody decided in time",
            "cancelled": "the request was cancelled",
            "undeliverable": "nobody could be reached",
        }
        reason = resource.get("reason")
        return Verdict(False, f"{words.get(status, status)} ({status}){f': {reason}' if reason else ''}")
    if resource.get("consumed_at") is not None:
        outcome = resource.get("outcome")
        told = f" (outcome: {outcome})" if outcome else ""
        return Verdict(False, _CONSUME_REASONS["already_consumed"] + told)
    edited = resource.get("approved_args")
    args = asked if edited is None else edited
    try:
        matches = isinstance(args, dict) and canonical.digest(args) == resource.get("args_digest")
    except canonical.NotCanonical:
        matches = False
    if not matches:
        return Verdict(False, "the portal's arguments and their digest don't belong together")
    return Verdict(True, "approved", args)


def _describe_rejection(resource: Mapping[str, Any]) -> str:
    decisions = resource.get("decisions")
    votes = [item for item in decisions if isinstance(item, dict)] if isinstance(decisions, list) else []
    last = next((vote for vote in reversed(votes) if vote.get("decision") == "reject"), {})
    reason = resource.get("reason") or last.get("reason")
    by = f" by {last['user']}" if last.get("user") else ""
    if resource.get("refused_by"):
        by += f" ({resource['refused_by']})"
    return f"rejected{by}: {reason}" if reason else f"rejected{by}"
