"""How many entries of the call log its writer stores in a second, and how many rows a bare ``bulk_create``:
``python -m benchmarks.recorder``, in the environment of the portal that is measured. Prints one line of JSON.
"""

import json
import os
import time
import uuid
from collections.abc import Callable

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from hooks_app import calls  # noqa: E402
from hooks_app.models import Agent, ConnectorCallLog  # noqa: E402
from portal.lib import clock  # noqa: E402

BATCH = 1000
ROUNDS = 9


def entries(agent: Agent) -> list[calls.Entry]:
    """A batch as a runtime sends it, with new ids."""
    return [
        calls.Entry(
            agent=agent,
            id=uuid.uuid4(),
            tool_name="oa__purchase_pay",
            status="succeeded",
            started_at=clock.now(),
            session_id="0d9a3a4c-5f9e-4d3e-a3a8-6a4ddf3c8f10",
            conversation_id="c7",
            tool_call_id=f"call_{number}",
            user={"id": "u42", "name": "Kim", "email": "kim@bench.test"},
            surface="chat",
            duration_ms=12.5,
            args={"amount": number, "card_number": "[redacted]", "note": "for the office in the third floor"},
            args_digest="sha256:" + "1" * 64,
            result_bytes=170,
            registry_digest="sha256:" + "2" * 64,
            trace=[
                {"hook": name, "outcome": "allowed", "ms": 0.012, "changed": []}
                for name in ("readonly_guard", "connector_rate_limit", "audit_log")
            ],
        )
        for number in range(BATCH)
    ]


def rows(agent: Agent) -> list[ConnectorCallLog]:
    """The same as rows, made beforehand."""
    now = clock.now()
    return [
        ConnectorCallLog(
            id=entry.id,
            organization_id=agent.organization_id,
            agent=agent,
            agent_slug=agent.slug,
            runtime="bench-1",
            user_id_text="u42",
            received_at=now,
            **{
                name: getattr(entry, name)
                for name in (
                    "tool_name", "status", "started_at", "session_id", "conversation_id", "tool_call_id", "user",
                    "surface", "duration_ms", "args", "args_digest", "result_bytes", "registry_digest", "trace",
                )
            },
        )
        for entry in entries(agent)
    ]  # fmt: skip


def rate(work: Callable[[], object]) -> float:
    """Rows a second."""
    started = time.perf_counter()
    work()
    return BATCH / (time.perf_counter() - started)


def main() -> None:
    """Both in turns on one connection; every pair, after one that isn't counted."""
    agent = Agent.objects.get(slug="payer")
    before = ConnectorCallLog.objects.count()
    pairs = []
    for _ in range(ROUNDS + 1):
        batch, ready = entries(agent), rows(agent)
        ours = rate(lambda batch=batch: calls.store(batch, runtime="bench-1"))  # type: ignore[misc]
        bare = rate(lambda ready=ready: ConnectorCallLog.objects.bulk_create(ready))  # type: ignore[misc]
        pairs.append((ours, bare))
    assert ConnectorCallLog.objects.count() == before + 2 * BATCH * len(pairs)
    print(json.dumps(pairs[1:]))


if __name__ == "__main__":
    main()
