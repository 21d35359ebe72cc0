"""The statements of one create, decide and consume, run bare: ``python -m benchmarks.replay KEY TOKEN DIGEST``.

In the environment of the portal that is measured. The calls are made once through Django's test client; what they sent
to the database is then sent again by the bare driver, with new ids, each call in one transaction. Prints the
milliseconds of every repetition: ``{"sequential": {call: [...]}, "together": {call: [...]}, "statements": {call: n}}``.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

import psycopg  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from psycopg_pool import ConnectionPool  # noqa: E402

from benchmarks.confirming import CALLS, CLIENTS, ROUNDS, TOGETHER, asking  # noqa: E402
from hooks_app.models import Decision  # noqa: E402

CONTROL = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
# As many as a portal process has.
CONNECTIONS = 16

Times = dict[str, list[float]]
Statements = dict[str, list[str]]


def capture(key: str, token: str, digest: str) -> tuple[Statements, list[uuid.UUID]]:
    """The statements of each call, and the ids in them that must be new each time."""
    conversation, attempt = uuid.uuid4(), uuid.uuid4()
    client = Client(SERVER_NAME="127.0.0.1")
    found: Statements = {}

    def call(name: str, path: str, body: Any, bearer: str) -> Any:
        with CaptureQueriesContext(connection) as queries:
            answer = client.post(
                f"/api/v1/confirmations{path}",
                json.dumps(body),
                content_type="application/json",
                headers={"Authorization": f"Bearer {bearer}"},
            )
        if answer.status_code not in (200, 201):
            raise RuntimeError(f"{name}: {answer.status_code} {answer.content[:300]!r}")
        found[name] = [query["sql"] for query in queries if not query["sql"].startswith(CONTROL)]
        return answer.json()

    made = call("create", "", asking("payer", digest, str(conversation)), key)
    path = f"/{made['id']}"
    decided = call("decide", f"{path}/respond", {"decision": "approve"}, token)
    call("consume", f"{path}/consume", {"args_digest": decided["args_digest"], "attempt": str(attempt)}, key)
    request = uuid.UUID(made["id"])
    decision = Decision.objects.get(request=request)
    # The stage's number is the database's to give: the new request's is looked up.
    stage = f"(SELECT id FROM hooks_app_stage WHERE request_id = '{request.hex}'::uuid)"
    found["decide"] = [
        text.replace(f"::uuid, {decision.stage_id}, 'approve'", f"::uuid, {stage}, 'approve'")
        for text in found["decide"]
    ]
    return found, [conversation, attempt, request, decision.pk]


def renew(statements: Statements, ids: list[uuid.UUID]) -> Statements:
    """The same statements about another request."""
    fresh = {old: uuid.uuid4() for old in ids}

    def other(text: str) -> str:
        for old, new in fresh.items():
            text = text.replace(str(old), str(new)).replace(old.hex, new.hex)
        return text

    return {name: [other(text) for text in texts] for name, texts in statements.items()}


def play(run: psycopg.Connection[Any], texts: list[str]) -> None:
    """Send them in one transaction, and read what they answer."""
    with run.transaction(), run.cursor() as cursor:
        for text in texts:
            cursor.execute(text.encode())
            if cursor.description:
                cursor.fetchall()


def main() -> None:
    """Capture, play alone, play with others."""
    statements, ids = capture(*sys.argv[1:4])
    alone: Times = {name: [] for name in CALLS}
    together: Times = {name: [] for name in CALLS}
    driver = {"cursor_factory": psycopg.ClientCursor, "autocommit": True}
    with ConnectionPool(
        os.environ["DATABASE_URL"], kwargs=driver, min_size=CONNECTIONS, max_size=CONNECTIONS, timeout=60
    ) as pool:
        pool.wait(60)

        def repeat(times: Times, rounds: int) -> Callable[[], None]:
            def run() -> None:
                for _ in range(rounds):
                    for name, texts in renew(statements, ids).items():
                        started = time.perf_counter()
                        with pool.connection() as one:
                            play(one, texts)
                        times[name].append((time.perf_counter() - started) * 1000)

            return run

        repeat(alone, ROUNDS)()
        with ThreadPoolExecutor(CLIENTS) as threads:
            for done in [threads.submit(repeat(together, TOGETHER)) for _ in range(CLIENTS)]:
                done.result()
    count = {name: len(texts) for name, texts in statements.items()}
    print(json.dumps({"sequential": alone, "together": together, "statements": count}))


if __name__ == "__main__":
    main()
