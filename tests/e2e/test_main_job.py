"""The main job over real HTTP, embedded and in production: every step of the demo, and what is on record after it."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from examples import demo
from tests.e2e import limits
from tests.e2e.conftest import METRICS_TOKEN, Stage
from tests.operations import compose
from tests.soak.crowd import amount_of


@pytest.mark.parametrize("step", demo.STEPS, ids=lambda step: step.__name__)
def test_step_holds(step: demo.Step, on_stage: Callable[[demo.Step], demo.Demo]) -> None:
    on_stage(step)


def test_everything_is_on_record(stage: Stage) -> None:
    token = stage.portal.manage("issue_token", "--user", "alice").strip()
    client = httpx.Client(
        base_url=f"{stage.portal.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    requests = client.get("/confirmations").json()["results"]
    by_amount = {amount_of(r): r for r in requests}
    assert by_amount[60000]["status"] == "approved"
    assert by_amount[60000]["outcome"] == "succeeded"
    assert [d["user"] for d in by_amount[60000]["decisions"]] == ["bob"]
    assert by_amount[60000]["decisions"][0]["identity"]["external_id"] == "ou_bob"
    assert '"card_number":"[redacted]"' in by_amount[60000]["excerpt"]
    assert by_amount[60001]["status"] == "rejected"
    assert by_amount[60001]["reason"] == "wrong supplier"
    assert by_amount[60002]["status"] == "expired"
    assert by_amount[60004]["consumed_at"] is None
    calls = client.get("/calls").json()["results"]
    statuses = {call["tool_name"] + str((call["args"] or {}).get("amount")): call["status"] for call in calls}
    assert statuses["calculator1"] == "succeeded"
    assert statuses["oa__purchase_pay60000"] == "succeeded"
    assert statuses["oa__purchase_pay60001"] == "blocked"
    assert statuses["oa__badge_print60002"] == "blocked"


def test_no_secret_is_in_the_log(stage: Stage) -> None:
    log = stage.portal.log.read_text()
    for secret in (
        stage.key,
        stage.portal.environment["SAMPLE_APP_SECRET"],
        stage.portal.environment["SAMPLE_ENCRYPT_KEY"],
        stage.portal.environment["SAMPLE_VERIFICATION_TOKEN"],
        "4111-1111",
        METRICS_TOKEN,
        '"amount"',
        "'amount'",
    ):
        assert secret not in log


# In this order, whatever happens between them in other processes.
STORY = [
    "confirmation.created",
    "delivery.queued",
    "delivery.sent",
    "interaction.judged",
    "decision.recorded",
    "confirmation.approved",
    "confirmation.consumed",
    "confirmation.outcome",
]


@pytest.fixture
def events(stage: Stage) -> list[dict[str, Any]]:
    """Every line of the log of web, worker and scheduler, in the order of their times."""
    if "HOOKGATE_LOG_FORMAT" not in stage.portal.environment:
        pytest.skip("this stage logs for people")
    lines = [json.loads(line) for line in stage.portal.log.read_text().splitlines()]
    return sorted(lines, key=lambda line: line["timestamp"])


def test_every_line_of_every_process_is_an_event(events: list[dict[str, Any]]) -> None:
    for line in events:
        assert {"event", "level", "logger", "timestamp"} <= set(line), line
    assert "serve.started" in {line["event"] for line in events}


def test_one_search_tells_a_requests_story(events: list[dict[str, Any]]) -> None:
    approved = {line["confirmation"] for line in events if line["event"] == "confirmation.outcome"}
    assert approved
    woken = {line["confirmation"] for line in events if line["event"] == "wait.ended"}
    assert approved & woken
    for confirmation in approved:
        found = [line for line in events if confirmation in json.dumps(line)]
        told = list(dict.fromkeys(line["event"] for line in found if line["event"] in STORY))
        assert told == STORY
        for line in found:
            if line["event"].startswith("confirmation."):
                assert (line["organization"], line["agent"]) == ("demo", "procurement")


def test_a_requests_id_goes_into_the_worker(events: list[dict[str, Any]]) -> None:
    asked = {
        line["confirmation"]: line["request_id"] for line in events if line["event"] == "confirmation.created"
    }
    sent = [line for line in events if line["event"] == "delivery.sent"]
    # The sweep may be faster than the poke, and knows of no request.
    assert any(
        line.get("request_id") == asked.get(line["topic"].partition(":")[2]) and line["task_id"]
        for line in sent
    )
    assert all(line["delivery"] and line["channel"] == "chat" for line in sent)


def test_a_rate_limit_holds_against_sixteen_runtimes_at_once(stage: Stage) -> None:
    limits.play(stage.portal.url, stage.key, database="postgresql" if stage.portal.companions else "sqlite")


def test_the_demo_prints_a_line_for_each_step(
    on_stage: Callable[[demo.Step], demo.Demo],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One that holds, and one that does not."""

    async def failing(scene: demo.Demo) -> None:
        """a step that fails"""
        demo.expect(False, "what was seen")

    failures: list[int] = []

    async def play(scene: demo.Demo) -> None:
        failures.append(await demo.play(scene))

    monkeypatch.setattr(demo, "STEPS", (demo.no_approval, failing))
    on_stage(play)
    printed = [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]
    assert [re.sub(r"\d+\.\d\d s", "TIME", line) for line in printed] == [
        "ok TIME a call that needs no approval runs at once",
        "FAIL StepFailed: what was seen",
        "TIME a step that fails",
    ]
    assert failures == [1]


def scrape(url: str, token: str) -> str:
    answer = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert answer.status_code == 200
    return answer.text


async def once_more(scene: demo.Demo) -> None:
    """A payment of an amount that no card has shown yet is approved and runs."""
    call = asyncio.create_task(scene.call({"amount": 61234}))
    await scene.tap(await scene.card("61234"), "ou_bob", "Approve")
    assert (await call).result == "paid 61234"


def test_every_process_is_counted(
    stage: Stage, events: list[dict[str, Any]], on_stage: Callable[[demo.Step], demo.Demo]
) -> None:
    """Web and worker share a folder here, so either answers for both. Counts began anew with the demo's restart."""
    on_stage(once_more)
    worker = f"http://{stage.portal.environment['HOOKGATE_METRICS_LISTEN']}"
    assert httpx.get(f"{worker}/metrics", trust_env=False).status_code == 401
    assert httpx.get(f"{stage.portal.url}/metrics", trust_env=False).status_code == 401
    for text in (scrape(worker, METRICS_TOKEN), scrape(stage.portal.url, METRICS_TOKEN)):
        for line in [
            'hookgate_decisions_total{decision="approve",path="tap"}',
            'hookgate_transitions_total{status="approved"}',
            'hookgate_request_seconds_count{status="approved"}',
            'hookgate_delivery_attempts_total{kind="send",result="ok"}',
            'hookgate_delivery_seconds_count{kind="send"}',
            'hookgate_taps_total{result="accepted"}',
            'hookgate_consumptions_total{result="first"}',
            'hookgate_outcomes_total{status="succeeded"}',
            'hookgate_calls_total{status="succeeded"}',
            'hookgate_registry_answers_total{status="200"}',
            'hookgate_wait_seconds_count{result="answered"}',
            'hookgate_tasks_total{result="ok",task="channels_app.tasks.sweep"}',
            'hookgate_http_requests_total{method="POST",route="api/v1/confirmations",status="201"}',
        ]:
            assert re.search(rf"^{re.escape(line)} [1-9]", text, re.MULTILINE), line
        assert "# HELP hookgate_waiting " in text
        labels = "".join(re.findall(r"\{.*?\}", text))
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}|procurement|demo|bob", labels)
    assert "hookgate_tasks_queued 0" in scrape(stage.portal.url, METRICS_TOKEN)
    assert "hookgate_requests_pending" in scrape(stage.portal.url, METRICS_TOKEN)


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_health_checks_hold(name: str, stage: Stage, events: list[dict[str, Any]]) -> None:
    check = [part.replace(":8000/", f":{stage.portal.port}/") for part in compose.health_check(name)]
    done = subprocess.run(
        [sys.executable, *check],
        cwd=compose.ROOT,
        env=stage.portal.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
