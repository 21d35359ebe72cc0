"""The callback endpoint: who is let in, and what an authentic tap gets."""

import json
import uuid
from typing import Any

import httpx
import pytest

from tests.contract.conftest import World
from tests.contract.outside import until


@pytest.fixture(scope="module")
def http(world: World) -> Any:
    """A client that speaks to the callback as anybody on the internet may."""
    with httpx.Client(base_url=world.portal.url, trust_env=False, timeout=20) as client:
        yield client


def waiting(
    world: World, agent: str = "procurement", tool: str = "oa__pay"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pending request and the message that shows it."""
    marker = uuid.uuid4().hex
    created = world["acme"].asked(agent, tool, {"marker": marker})
    return created, world.card(marker)


def test_an_unknown_or_switched_off_channel_is_404(http: httpx.Client) -> None:
    for path in ("acme/no-such", "no-such/ops", "acme/only", "acme/asleep"):
        for answer in (
            http.post(f"/channels/{path}/callback", json={}),
            http.get(f"/channels/{path}/callback"),
        ):
            assert answer.status_code == 404, (path, answer.status_code)


def test_a_body_over_one_mebibyte_is_413(http: httpx.Client) -> None:
    assert http.post("/channels/acme/ops/callback", content=b"x" * (1024 * 1024 + 1)).status_code == 413


def test_nonsense_is_refused(http: httpx.Client) -> None:
    for body in (b"", b"{", b"[]", b'{"encrypt": 5}', b'{"encrypt": "AAAA"}', b"\x00\xff"):
        answer = http.post("/channels/acme/ops/callback", content=body)
        assert answer.status_code in (400, 401), (body, answer.status_code)


def test_a_tap_of_bob_approves_and_is_answered_in_the_platforms_form(world: World) -> None:
    created, message = waiting(world)
    report = world.press(message, "ou_bob", "Approve")
    assert (report["status"], report["accepted"]) == (200, True), report
    assert report["card_replaced"] is True
    decided = world["acme"].read(created)
    assert decided["status"] == "approved"
    assert [(d["user"], d["decision"]) for d in decided["decisions"]] == [("bob", "approve")]
    identity = decided["decisions"][0]["identity"]
    assert set(identity) == {"channel", "external_id", "name"}
    # Feishu's callback names nobody: the name is the one that the identity was bound with, if any.
    assert (identity["channel"], identity["external_id"], identity["name"]) == ("ops", "ou_bob", "Bob")


def test_a_rejection_brings_its_reason(world: World) -> None:
    created, message = waiting(world)
    report = world.press(message, "ou_bob", "Reject", form={"reason": "wrong supplier"})
    assert report["status"] == 200, report
    decided = world["acme"].read(created)
    assert (decided["status"], decided["reason"]) == ("rejected", "wrong supplier")


TAMPERED = {
    "signature": 401,
    "body": 401,
    "token": 401,
    "app_id": 403,
    "tenant": 403,
    "garbage": 400,
    "truncated": 400,
    "bad_padding": 400,
}


def test_what_is_not_authentic_changes_nothing(world: World) -> None:
    created, message = waiting(world)
    # The portal learns its tenant from the first authentic tap; this is it where no other test came before.
    world.press(message, "ou_nora", "Approve")
    for how, status in TAMPERED.items():
        report = world.press(message, "ou_bob", "Approve", tamper=how)
        assert (how, report["status"]) == (how, status), report
        assert world["acme"].read(created)["status"] == "pending", how


def test_the_window_is_five_minutes(world: World) -> None:
    early, early_message = waiting(world)
    late, late_message = waiting(world)
    for created, message, inside in ((early, early_message, -290), (late, late_message, 290)):
        for outside in (-310, 310):
            assert world.press(message, "ou_bob", "Approve", skew_seconds=outside)["status"] == 401
        assert world["acme"].read(created)["status"] == "pending"
        assert world.press(message, "ou_bob", "Approve", skew_seconds=inside)["status"] == 200
        assert world["acme"].read(created)["status"] == "approved"


def test_taps_that_change_nothing_are_200(world: World) -> None:
    created, message = waiting(world)
    for who in ("ou_dave", "ou_nora"):
        report = world.press(message, who, "Approve")
        assert (report["status"], report["accepted"]) == (200, True), report
        assert report["toast"]["type"] != "success"
        assert world["acme"].read(created)["status"] == "pending"
    assert world["acme"].read(created)["decisions"] == []
    unknown = world.press(message, "ou_bob", "Approve", set={"event.context.open_message_id": "om_unknown"})
    assert (unknown["status"], world["acme"].read(created)["status"]) == (200, "pending")
    foreign = world.press(message, "ou_bob", "Approve", set={"event.context.open_chat_id": "oc_2"})
    assert (foreign["status"], world["acme"].read(created)["status"]) == (200, "pending")
    first = world.press(message, "ou_bob", "Approve", repeat=2)
    assert {answer["status"] for answer in first["answers"]} == {200}
    assert world["acme"].read(created)["status"] == "approved"
    late = world.press(message, "ou_alice", "Reject", version=message["version"], form={"reason": "no"})
    assert late["status"] == 200
    decided = world["acme"].read(created)
    assert (decided["status"], len(decided["decisions"])) == ("approved", 1)


def test_a_self_approval_by_tap_is_refused(world: World) -> None:
    marker = uuid.uuid4().hex
    own = {"id": "u9", "name": "Bob", "email": "bob@acme.test"}
    created = world["acme"].asked("procurement", "oa__pay", {"marker": marker}, initiator=own)
    report = world.press(world.card(marker), "ou_bob", "Approve")
    assert report["toast"]["type"] != "success"
    assert world["acme"].read(created)["status"] == "pending"


def test_a_card_follows_what_happens_elsewhere(world: World) -> None:
    created, message = waiting(world)
    assert world["bob"].respond(created, "approve").status_code == 200
    same = message["message_id"]

    def buttons() -> int:
        found = world.sandbox.look("messages", chat_id="oc_1")["messages"]
        return sum(
            bool(b["callback"]) for m in found if m["message_id"] == same for b in m["view"]["buttons"]
        )

    until(lambda: buttons() == 0, what="the card without buttons")


def test_the_platforms_check_of_the_address(world: World) -> None:
    assert world.sandbox.control("url_verification", app_id="cli_1")["ok"] is True
    assert world.sandbox.control("url_verification", app_id="cli_1", token="wrong")["ok"] is False


def test_a_callback_may_arrive_at_any_address_of_its_app(world: World) -> None:
    created, message = waiting(world)
    other = f"{world.portal.url}/channels/acme/spare/callback"
    usual = f"{world.portal.url}/channels/acme/ops/callback"
    world.sandbox.control("apps", app_id="cli_1", callback_url=other)
    try:
        assert world.press(message, "ou_bob", "Approve")["status"] == 200
    finally:
        world.sandbox.control("apps", app_id="cli_1", callback_url=usual)
    assert world["acme"].read(created)["status"] == "approved"


def test_another_organizations_address_is_not_ones_own(world: World) -> None:
    created, message = waiting(world)
    usual = f"{world.portal.url}/channels/acme/ops/callback"
    world.sandbox.control(
        "apps", app_id="cli_1", callback_url=f"{world.portal.url}/channels/solo/only/callback"
    )
    try:
        assert world.press(message, "ou_bob", "Approve")["status"] in (400, 401, 403)
    finally:
        world.sandbox.control("apps", app_id="cli_1", callback_url=usual)
    assert world["acme"].read(created)["status"] == "pending"


def test_what_the_model_wrote_is_text_on_the_card(world: World) -> None:
    marker = uuid.uuid4().hex
    evil = f"{marker} <at id=all></at> [click](https://evil.test) **bold**\n"
    world["acme"].asked("procurement", "oa__pay", {"text": evil, "card_number": "4111-1111"})
    view = world.card(marker)["view"]
    assert view["mentions"] == [] if "mentions" in view else "<at" not in json.dumps(view.get("mention", []))
    assert "evil.test" not in json.dumps([view.get("link"), view.get("links")])
    assert "4111-1111" not in json.dumps(view)


def test_arguments_that_do_not_fit_leave_reject_alone(world: World) -> None:
    marker = uuid.uuid4().hex
    world["acme"].asked("procurement", "oa__pay", {"marker": marker, "text": "word " * 20_000})
    buttons = [b["text"] for b in world.card(marker)["view"]["buttons"] if b["callback"]]
    assert "Reject" in buttons
    assert "Approve" not in buttons
