"""A portal for the runtime's tests: contract sections 4 to 4.3 over real sockets, and faults on demand.

Written from the contract alone, sharing no code with the product's portal: a misreading of it shows as a difference.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import rfc8785

from tests.runtime.fake_events import EventStreams

KEY = "hg_test"
JSON = dict[str, Any]


class Problem(Exception):
    """A problem+json answer."""

    def __init__(self, status: int, code: str, errors: list[JSON] | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.body = {"type": "about:blank", "title": code, "status": status, "detail": f"detail of {code}",
                     "code": code, "errors": errors or []}  # fmt: skip


def digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def stamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


class FakePortal:
    """``url`` once it serves. Tests read ``requests``, ``confirmations``, ``calls`` and call `decide`."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = {KEY}
        self.registries: dict[tuple[str, str], JSON] = {}
        self.refusals: dict[str, Problem] = {}
        self.confirmations: dict[str, JSON] = {}
        self.attempts: dict[str, str] = {}
        self.calls: dict[str, JSON] = {}
        self.messages: list[tuple[str, JSON]] = []
        self.tools: dict[str, JSON] = {}
        self.contract: str | None = "3"  # what each answer names; None: a portal of before the header
        self.refuse_create: Problem | None = None
        self.limit = 10
        self.limit_calls: dict[str, JSON] = {}
        self.timeout = 60.0
        self.requests: list[tuple[str, JSON | None, dict[str, str]]] = []
        self.faults: dict[str, list[str]] = {}
        self.standing: dict[str, str] = {}
        self.on_create: Callable[[JSON], None] | None = None
        self.alters: dict[str, Callable[[int, Any, JSON], Awaitable[tuple[int, Any, JSON]]]] = {}
        self.etag_hits = 0
        self.gone: set[str] = set()
        # None unless a test wants them.
        self.events = EventStreams()
        # The operation at whose next request the portal goes away, until `restart`.
        self.falls_at: str | None = None
        self.fallen = asyncio.Event()
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    # Serving

    async def __aenter__(self) -> FakePortal:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Refuse connections from now on."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    def _fall(self) -> None:
        assert self._server is not None
        self.falls_at = None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        self.fallen.set()

    async def restart(self) -> None:
        """Serve again on the same port."""
        port = int(self.url.rsplit(":", 1)[1])
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)

    def fail(self, operation: str, *kinds: str) -> None:
        """Let the next requests of an operation fail: ``500``, ``503``, ``429``, ``garbage``, ``html``, ``reset``,
        ``truncated``, ``slow``, ``redirect``, or ``ok`` for none; with ``late-`` in front after the state has
        changed."""
        self.faults.setdefault(operation, []).extend(kinds)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while request := await self._read(reader):
                if await self._stream(writer, reader, request[1], request[2]):
                    break
                if not await self._respond(writer, *request):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
        line = await reader.readline()
        if not line:
            return None
        method, target, _ = line.decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return method, target, headers, body

    async def _stream(
        self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, target: str, headers: dict[str, str]
    ) -> bool:
        """Whether it was the request of an event stream, which is over then."""
        match = re.fullmatch(r"/api/v1/agents/([^/]+)/events", target)
        if match is None:
            return False
        self.requests.append(("events", None, headers))
        document = self.registries.get((match.group(1), "chat"))
        kind = self.events.kind
        if document is None or kind == "none":
            await self._misbehave(writer, "404")
        elif kind.isdigit() or kind in ("reset", "redirect"):
            await self._misbehave(writer, kind)
        else:
            await self.events.serve(writer, reader, match.group(1), document)
        return True

    async def _respond(
        self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bool:
        path = urlsplit(target).path.removeprefix("/api/v1/")
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        operation, handle, match = self._route(method, path)
        document = json.loads(body) if body else None
        self.requests.append((operation, document, headers))
        if operation == self.falls_at:
            self._fall()
            return False
        waiting = self.faults.get(operation)
        fault = waiting.pop(0) if waiting else self.standing.get(operation, "ok")
        if fault != "ok" and not fault.startswith("late-"):
            return await self._misbehave(writer, fault)
        try:
            status, answer, extra = await handle(match, query, document, headers)
        except Problem as problem:
            status, answer, extra = problem.status, problem.body, {}
        if operation in self.alters:
            status, answer, extra = await self.alters[operation](status, answer, extra)
        if fault != "ok":
            return await self._misbehave(writer, fault.removeprefix("late-"))
        payload = b"" if answer is None else json.dumps(answer).encode()
        await self._write(writer, status, payload, extra)
        return True

    async def _write(
        self,
        writer: asyncio.StreamWriter,
        status: int,
        payload: bytes,
        extra: dict[str, str],
        missing: int = 0,
    ) -> None:
        extra = extra if self.contract is None else {"hookgate-contract": self.contract, **extra}
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in extra.items())]
        if status not in (204, 304):
            lines += ["content-type: application/json", f"content-length: {len(payload) + missing}"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + payload)
        await writer.drain()

    async def _misbehave(self, writer: asyncio.StreamWriter, kind: str) -> bool:
        if kind == "reset":
            writer.transport.abort()
            return False
        if kind == "slow":
            await asyncio.sleep(5)
        elif kind == "truncated":
            await self._write(writer, 200, b'{"id": "x", "sta', {}, missing=100)
        elif kind == "garbage":
            writer.write(b"\x00\x01garbage\r\n\r\n")
            await writer.drain()
        elif kind == "html":
            await self._write(writer, 200, b"<html>sign in to the network</html>", {})
        elif kind == "redirect":
            await self._write(writer, 302, b"{}", {"location": "/login"})
        else:
            await self._write(writer, int(kind), b'{"code": "broken"}', {"retry-after": "0"})
            return True
        return False

    def _route(self, method: str, path: str) -> tuple[str, Any, re.Match[str]]:
        for operation, verb, pattern, handle in (
            ("registry", "GET", r"agents/([^/]+)/registry", self._registry),
            ("tools", "PUT", r"agents/([^/]+)/tools", self._tools),
            ("create", "POST", r"confirmations", self._create),
            ("wait", "GET", r"confirmations/([^/]+)", self._wait),
            ("consume", "POST", r"confirmations/([^/]+)/consume", self._consume),
            ("outcome", "POST", r"confirmations/([^/]+)/outcome", self._outcome),
            ("cancel", "POST", r"confirmations/([^/]+)/cancel", self._cancel),
            ("calls", "POST", r"calls", self._calls),
            ("limits", "POST", r"limits/acquire", self._limits),
            ("notify", "POST", r"channels/([^/]+)/messages", self._notify),
        ):
            match = re.fullmatch(pattern, path)
            if match and method == verb:
                return operation, handle, match
        raise AssertionError(f"the contract has no {method} {path}")

    def seen(self, operation: str) -> list[JSON | None]:
        """The bodies of an operation's requests."""
        return [body for name, body, _ in self.requests if name == operation]

    # Registry

    def publish(self, document: JSON) -> None:
        self.registries[(document["agent"]["slug"], document["surface"])] = document

    async def _registry(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        self._authenticate(headers)
        slug, surface = match.group(1), query["surface"]
        if slug in self.refusals:
            raise self.refusals[slug]
        document = self.registries.get((slug, surface)) or self.registries.get((slug, "chat"))
        if document is None:
            raise Problem(404, "not_found")
        if document["surface"] != surface and surface != "eval":
            document = {**document, "surface": surface}
        etag = f'"{digest(document)}"'
        if headers.get("if-none-match") == etag:
            self.etag_hits += 1
            return 304, None, {"etag": etag}
        return 200, document, {"etag": etag}

    def _authenticate(self, headers: dict[str, str]) -> None:
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.keys:
            raise Problem(401, "unauthenticated")

    async def _tools(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        self.tools[match.group(1)] = body
        return 204, None, {}

    # Confirmations

    async def _create(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        if self.refuse_create is not None:
            raise self.refuse_create
        for found in self.confirmations.values():
            if [found[k] for k in ("agent", "conversation_id", "tool_call_id")] == [
                body[k] for k in ("agent", "conversation_id", "tool_call_id")
            ]:
                if (
                    found["requested_digest"] != digest(body["tool_args"])
                    or found["initiator"] != body["initiator"]
                ):
                    raise Problem(409, "tool_call_conflict")
                return 200, found, {}
        now = datetime.now(UTC)
        hashed = digest(body["tool_args"])
        resource = {
            "id": str(uuid.uuid4()), "status": "pending",
            **{k: body[k] for k in ("agent", "conversation_id", "tool_call_id", "tool_name", "tool_args", "hook",
                                    "initiator", "summary")},
            "requested_digest": hashed, "args_digest": hashed, "approved_args": None, "mode": "auto",
            "policy": {"slug": body["policy"] or "default", "scope": "approvers", "quorum": 1}, "stage": None,
            "decisions": [], "created_at": stamp(now), "expires_at": stamp(now + timedelta(seconds=self.timeout)),
            "ended_at": None, "reason": None, "refused_by": None, "grant": None, "start_by": None,
            "consumed_at": None, "outcome": None, "deliveries": [],
        }  # fmt: skip
        self.confirmations[resource["id"]] = resource
        if self.on_create:
            self.on_create(resource)
        return 201, resource, {}

    def _find(self, match: re.Match[str]) -> JSON:
        if match.group(1) not in self.confirmations:
            raise Problem(404, "not_found")
        return self.confirmations[match.group(1)]

    async def _wait(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        resource = self._find(match)
        try:
            async with asyncio.timeout(float(query.get("wait", 0))), self._changed:
                await self._changed.wait_for(lambda: resource["status"] != "pending")
        except TimeoutError:
            pass
        return 200, resource, {}

    async def _consume(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        resource = self._find(match)
        held = self.attempts.get(resource["id"])
        consumer = {"hookgate-attempt": body["attempt"]}
        if held == body["attempt"] and resource["outcome"] is None:
            return 200, resource, consumer
        if held is not None:
            raise Problem(409, "already_consumed")
        if resource["status"] != "approved":
            raise Problem(409, "not_approved")
        if body["args_digest"] != resource["args_digest"]:
            raise Problem(409, "args_mismatch")
        document = self.registries.get((resource["agent"], "chat"))
        if document and document["state"]["halted"]:
            raise Problem(409, "halted")
        self.attempts[resource["id"]] = body["attempt"]
        resource["consumed_at"] = stamp(datetime.now(UTC))
        return 200, resource, consumer

    async def _outcome(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        resource = self._find(match)
        if resource["consumed_at"] is None:
            raise Problem(409, "not_consumed")
        if resource["outcome"] not in (None, "unknown", body["status"]):
            raise Problem(409, "outcome_conflict")
        resource["outcome"] = body["status"]
        return 200, resource, {}

    async def _cancel(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        resource = self._find(match)
        if resource["status"] != "pending":
            raise Problem(409, "already_decided")
        await self.settle(resource["id"], "cancelled")
        return 200, resource, {}

    async def settle(self, request_id: str, status: str, **changes: Any) -> None:
        """End a request and wake whoever waits for it."""
        resource = self.confirmations[request_id]
        assert resource["status"] == "pending"
        resource.update(status=status, ended_at=stamp(datetime.now(UTC)), **changes)
        async with self._changed:
            self._changed.notify_all()

    async def pending(self, count: int = 1) -> list[JSON]:
        """The pending requests, once there are that many."""
        async with asyncio.timeout(10):
            while True:
                found = [item for item in self.confirmations.values() if item["status"] == "pending"]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.005)

    # The rest

    async def _calls(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        self._authenticate(headers)
        for index, entry in enumerate(body["calls"]):
            if entry["agent"] in self.gone:
                raise Problem(404, "not_found")
            if entry["tool_name"] == "unloggable":
                raise Problem(
                    400, "invalid", [{"path": f"calls[{index}].tool_name", "code": "x", "message": "no"}]
                )
        fresh = [entry for entry in body["calls"] if self._is_new(entry)]
        self.calls.update({entry["id"]: entry for entry in fresh})
        return 202, {"accepted": len(fresh), "duplicates": len(body["calls"]) - len(fresh)}, {}

    def _is_new(self, entry: JSON) -> bool:
        """The first entry wins, except that a final status replaces ``unknown``."""
        stored = self.calls.get(entry["id"])
        return stored is None or (stored["status"] == "unknown" != entry["status"])

    async def _limits(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        self.limit_calls.setdefault(body["call"], body)
        used = len(self.limit_calls)
        allowed = used <= self.limit
        left, wait = max(0, self.limit - used), 0 if allowed else 6.2
        verdict = {"allowed": allowed, "limit": self.limit, "remaining": left, "retry_after_seconds": wait}
        return 200, verdict, {}

    async def _notify(self, match: re.Match[str], query: JSON, body: Any, headers: dict[str, str]) -> Any:
        self.messages.append((match.group(1), body))
        return 202, {}, {}
