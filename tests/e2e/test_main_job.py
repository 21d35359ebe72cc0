"""The main job over real HTTP, embedded and in production: every step of the demo, and what is on record after it."""

from collections.abc import Callable

import httpx
import pytest

from examples import demo
from tests.e2e.conftest import Stage


@pytest.mark.parametrize("step", demo.STEPS, ids=lambda step: step.__name__)
def test_step_holds(step: demo.Step, on_stage: Callable[[demo.Step], demo.Demo]) -> None:
    on_stage(step)


def test_everything_is_on_record(stage: Stage) -> None:
    token = stage.portal.manage("issue_token", "--user", "alice").strip()
    client = httpx.Client(
        base_url=f"{stage.portal.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    requests = client.get("/confirmations").json()["results"]
    by_amount = {r["tool_args"]["amount"]: r for r in requests}
    assert by_amount[60000]["status"] == "approved"
    assert by_amount[60000]["outcome"] == "succeeded"
    assert [d["user"] for d in by_amount[60000]["decisions"]] == ["bob"]
    assert by_amount[60000]["decisions"][0]["identity"]["external_id"] == "ou_bob"
    assert by_amount[60000]["tool_args"]["card_number"] == "[redacted]"
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
        stage.portal.environment["SANDBOX_APP_SECRET"],
        stage.portal.environment["SANDBOX_ENCRYPT_KEY"],
        stage.portal.environment["SANDBOX_VERIFICATION_TOKEN"],
        "4111-1111",
    ):
        assert secret not in log
