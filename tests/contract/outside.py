"""A client that knows nothing but the contract, and the words it needs again and again."""

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx

DEADLINE = 20.0
KIM = {"id": "u42", "name": "Kim", "email": "kim@acme.test"}
STRANGER = {"id": "u1", "name": "Lee", "email": "lee@elsewhere.test"}
ABSENT = "00000000-0000-4000-8000-000000000000"


def digest(value: Any) -> str:
    """The contract's digest, for values whose RFC 8785 form is what ``json`` writes: ASCII, no fractions."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def until(condition: Callable[[], Any], *, seconds: float = DEADLINE, what: str = "it") -> Any:
    """Poll until ``condition`` holds and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.02)
    return value


class Api:
    """The REST API for one bearer; every refusal is held against the contract's form of errors."""

    def __init__(self, url: str, bearer: str | None = None, *, runtime: str | None = "contract-1") -> None:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        if runtime:
            headers["Hookgate-Runtime"] = runtime
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=90, trust_env=False)
        self._digests: dict[str, str] = {}

    def get(self, path: str, /, *, headers: Any = None, **query: Any) -> httpx.Response:
        named = {name.rstrip("_"): value for name, value in query.items()}
        return _checked(self.http.get(path, params=named, headers=headers))

    def post(self, path: str, /, body: Any = None) -> httpx.Response:
        return _checked(self.http.post(path, json=body))

    def post_bytes(self, path: str, /, body: bytes, content_type: str = "application/json") -> httpx.Response:
        return _checked(self.http.post(path, content=body, headers={"Content-Type": content_type}))

    def put(self, path: str, /, body: Any) -> httpx.Response:
        return _checked(self.http.put(path, json=body))

    def served(self, agent: str) -> str:
        """The digest of the agent's registry, fetched once."""
        if agent not in self._digests:
            answer = self.get(f"/agents/{agent}/registry")
            assert answer.status_code == 200, answer.text
            self._digests[agent] = answer.json()["digest"]
        return self._digests[agent]

    def request(self, agent: str, tool: str, args: Any = None, **more: Any) -> dict[str, Any]:
        """The body of a confirmation request."""
        return {
            "agent": agent,
            "conversation_id": "c7",
            "tool_call_id": uuid.uuid4().hex,
            "tool_name": tool,
            "tool_args": {"amount": 60000} if args is None else args,
            "hook": "approval_gate",
            "registry_digest": more.pop("registry_digest", None) or self.served(agent),
            "initiator": STRANGER,
            **more,
        }

    def ask(self, agent: str, tool: str, args: Any = None, **more: Any) -> httpx.Response:
        """Post a confirmation request."""
        return self.post("/confirmations", self.request(agent, tool, args, **more))

    def asked(self, agent: str, tool: str, args: Any = None, **more: Any) -> dict[str, Any]:
        """A confirmation request that must be taken."""
        answer = self.ask(agent, tool, args, **more)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def respond(self, request: dict[str, Any], decision: str, **more: Any) -> httpx.Response:
        return self.post(f"/confirmations/{request['id']}/respond", {"decision": decision, **more})

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as it is now."""
        found: dict[str, Any] = self.get(f"/confirmations/{request['id']}").json()
        return found

    def consume(
        self, request: dict[str, Any], attempt: str | None = None, args_digest: str | None = None
    ) -> httpx.Response:
        body = {
            "args_digest": args_digest or request["args_digest"],
            "attempt": attempt or str(uuid.uuid4()),
        }
        return self.post(f"/confirmations/{request['id']}/consume", body)


def _checked(answer: httpx.Response) -> httpx.Response:
    """Hold a refusal against section 4: problem+json with type, title, status, detail, code, and errors if any."""
    assert answer.status_code < 500, (answer.request.url, answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json", answer.headers
        body = answer.json()
        assert body["status"] == answer.status_code
        for word in ("type", "title", "detail", "code"):
            assert isinstance(body[word], str), body
            assert body[word], body
        for error in body.get("errors", []):
            assert {"path", "code", "message"} <= set(error), body
    return answer


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json().get("code", "")


def paths(answer: httpx.Response) -> list[str]:
    """Where the faults are."""
    return [error["path"] for error in answer.json().get("errors", [])]


def codes(answer: httpx.Response) -> list[str]:
    """What the faults are."""
    return [error["code"] for error in answer.json().get("errors", [])]
