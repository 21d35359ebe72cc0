"""Section 4.1 and the row of `respond`: who may decide, and what a decision does."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.conftest import World
from tests.contract.outside import KIM, Api, refusal, until

TERMINAL = {"approved", "rejected", "expired", "cancelled", "undeliverable"}


def test_an_approval(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    answer = world["bob"].respond(created, "approve", reason="fine")
    assert answer.status_code == 200
    approved = world["acme"].read(created)
    assert answer.json()["status"] == approved["status"] == "approved"
    assert approved["ended_at"] is not None
    assert approved["start_by"] > approved["ended_at"]
    decision = approved["decisions"][0]
    assert set(decision) >= {"decision", "user", "identity", "reason", "at"}
    assert (decision["decision"], decision["user"], decision["identity"]) == ("approve", "bob", None)
    assert decision["reason"] == "fine"
    assert approved["consumed_at"] is approved["outcome"] is None


def test_a_rejection(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    answer = world["bob"].respond(created, "reject", reason="wrong supplier")
    assert (answer.status_code, answer.json()["status"]) == (200, "rejected")
    rejected = world["acme"].read(created)
    assert rejected["reason"] == "wrong supplier"
    assert rejected["start_by"] is None
    assert rejected["decisions"][0]["reason"] == "wrong supplier"


def test_the_same_again_is_unchanged_and_another_is_refused(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__two")
    first = world["bob"].respond(created, "approve")
    again = world["bob"].respond(created, "approve")
    assert (first.status_code, again.status_code) == (200, 200)
    assert len(again.json()["decisions"]) == 1
    assert refusal(world["bob"].respond(created, "reject")) == (409, "already_voted")
    assert world["acme"].read(created)["status"] == "pending"
    assert world["erin"].respond(created, "approve").json()["status"] == "approved"
    # Also after the end.
    assert world["bob"].respond(created, "approve").status_code == 200
    assert refusal(world["bob"].respond(created, "reject")) == (409, "already_voted")
    assert refusal(world["alice"].respond(created, "approve")) == (409, "already_decided")


def test_terminal_states_never_change(world: World) -> None:
    acme, bob, alice = world["acme"], world["bob"], world["alice"]
    rejected, cancelled = acme.asked("quiet", "oa__pay"), acme.asked("quiet", "oa__pay")
    assert bob.respond(rejected, "reject").status_code == 200
    assert acme.post(f"/confirmations/{cancelled['id']}/cancel").status_code == 200
    for request, status in ((rejected, "rejected"), (cancelled, "cancelled")):
        assert refusal(alice.respond(request, "approve")) == (409, "already_decided")
        assert acme.read(request)["status"] == status
        assert acme.read(request)["ended_at"] is not None


def test_what_has_expired_reads_so_and_refuses(world: World) -> None:
    acme = world["acme"]
    created = acme.asked("quiet", "oa__brief")
    assert created["status"] == "pending"
    waited = acme.get(f"/confirmations/{created['id']}", wait="10").json()
    assert waited["status"] == "expired"
    assert refusal(world["bob"].respond(created, "approve")) == (409, "expired")
    assert acme.consume(created).json()["code"] == "not_approved"
    assert world["acme"].get("/confirmations", status="pending", agent="quiet").text.find(created["id"]) < 0
    ended = until(lambda: acme.read(created)["ended_at"], what="the sweep")
    assert ended >= created["expires_at"]


def test_unknown_words_are_400(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    for body in ({}, {"decision": "maybe"}, {"decision": "approve", "extra": 1}, {"decision": True}):
        assert world["bob"].post(f"/confirmations/{created['id']}/respond", body).status_code == 400


def test_edited_arguments_are_refused_where_the_policy_does_not_allow_them(world: World) -> None:
    created = world["acme"].asked("quiet", "oa__pay")
    answer = world["bob"].respond(created, "approve", args={"amount": 1})
    assert refusal(answer) == (403, "edit_not_allowed")
    assert world["acme"].read(created)["status"] == "pending"


SCOPES = {
    # Who may approve, of alice (admin, owner), bob and erin (approvers), dave (member), kim (approver, the initiator).
    "oa__pay": {"alice", "bob", "erin"},
    "oa__selfish": {"alice", "bob", "erin", "kim"},
    "oa__owner": {"alice"},
    "oa__members": {"alice", "bob", "erin", "dave"},
    "oa__group": {"erin"},
    "oa__initiator": {"kim"},
    "oa__chat": set(),
}
PEOPLE = ("alice", "bob", "erin", "dave", "kim")


@pytest.mark.parametrize("tool", SCOPES)
def test_each_scope_says_who(world: World, tool: str) -> None:
    for name in PEOPLE:
        created = world["acme"].asked("procurement", tool, initiator=KIM)
        answer = world[name].respond(created, "approve")
        if name in SCOPES[tool]:
            assert answer.status_code == 200, (name, answer.text)
            assert answer.json()["decisions"][0]["user"] == name
            continue
        own = name == "kim" and tool in ("oa__pay", "oa__members")
        assert answer.status_code in ((403,) if own else (403, 404)), (name, answer.text)
        if own:
            assert answer.json()["code"] == "self_approval"
        elif answer.status_code == 403:
            assert answer.json()["code"] in ("not_an_approver", "channel_only"), (name, answer.text)
        assert world["acme"].read(created)["status"] == "pending"


def test_the_initiator_is_known_by_identity_too(world: World) -> None:
    initiator = {"id": "kim-7", "name": "Kim", "email": None}
    created = world["acme"].asked("procurement", "oa__pay", initiator=initiator)
    assert refusal(world["kim"].respond(created, "approve")) == (403, "self_approval")
    # The mail address comes first, whatever the id says.
    other = world["acme"].asked(
        "procurement", "oa__initiator", initiator={**initiator, "email": "bob@acme.test"}
    )
    assert world["kim"].respond(other, "approve").status_code == 403
    assert world["bob"].respond(other, "approve").status_code == 200


def test_forbidding_self_approval_does_not_forbid_to_reject(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__pay", initiator=KIM)
    answer = world["kim"].respond(created, "reject")
    assert answer.status_code in (200, 403)
    if answer.status_code == 403:
        assert answer.json()["code"] == "self_approval"


def test_a_quorum_counts_people(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__two")
    assert created["policy"]["quorum"] == 2
    assert world["bob"].respond(created, "approve").json()["status"] == "pending"
    assert world["alice"].respond(created, "reject").json()["status"] == "pending"
    assert world["dave"].respond(created, "approve").json()["status"] == "approved"
    assert len(world["acme"].read(created)["decisions"]) == 3


def test_a_reject_quorum_counts_rejections(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__two")
    assert world["bob"].respond(created, "reject").json()["status"] == "pending"
    assert world["erin"].respond(created, "reject").json()["status"] == "rejected"
    one = world["acme"].asked("procurement", "oa__two_one")
    assert world["bob"].respond(one, "approve").json()["status"] == "pending"
    assert world["erin"].respond(one, "reject").json()["status"] == "rejected"


def test_a_reason_may_be_required(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__reasoned")
    for more in ({}, {"reason": None}, {"reason": ""}, {"reason": "  \n"}):
        assert refusal(world["bob"].respond(created, "reject", **more)) == (400, "reason_required"), more
    assert world["acme"].read(created)["status"] == "pending"
    assert world["bob"].respond(created, "reject", reason="no").json()["status"] == "rejected"
    other = world["acme"].asked("procurement", "oa__reasoned")
    assert world["bob"].respond(other, "approve").json()["status"] == "approved"


def test_with_channel_only_a_tap_alone_decides(world: World) -> None:
    marker = uuid.uuid4().hex
    created = world["acme"].asked("tapped", "oa__pay", {"marker": marker})
    for name in ("bob", "alice"):
        assert refusal(world[name].respond(created, "approve")) == (403, "channel_only")
    card = world.card(marker)
    assert world.press(card, "ou_bob", "Approve")["status"] == 200
    decided = world["acme"].read(created)
    assert decided["status"] == "approved"
    assert decided["decisions"][0]["user"] == "bob"
    identity = decided["decisions"][0]["identity"]
    assert (identity["channel"], identity["external_id"], identity["name"]) == (
        "ops",
        "ou_bob",
        identity["name"],
    )


def test_any_member_of_the_chat_where_the_policy_says_so(world: World) -> None:
    marker = uuid.uuid4().hex
    created = world["acme"].asked("procurement", "oa__chat", {"marker": marker})
    card = world.card(marker)
    assert world.press(card, "ou_nora", "Approve")["status"] == 200
    decided = world["acme"].read(created)
    assert decided["status"] == "approved"
    assert decided["decisions"][0]["user"] is None
    assert decided["decisions"][0]["identity"]["external_id"] == "ou_nora"


def test_one_transition_wins(world: World) -> None:
    def race(request: dict[str, Any]) -> list[Any]:
        moves = [
            lambda: world["bob"].respond(request, "approve"),
            lambda: world["erin"].respond(request, "reject"),
            lambda: world["alice"].respond(request, "approve"),
            lambda: world["acme"].post(f"/confirmations/{request['id']}/cancel"),
        ]
        with ThreadPoolExecutor(len(moves)) as pool:
            return list(pool.map(lambda move: move(), moves))

    for _ in range(5):
        created = world["acme"].asked("quiet", "oa__pay")
        answers = race(created)
        won = [answer for answer in answers if answer.status_code == 200]
        lost = [answer for answer in answers if answer.status_code != 200]
        ended = world["acme"].read(created)
        assert len(won) == 1, [answer.text for answer in answers]
        assert {refusal(answer) for answer in lost} == {(409, "already_decided")}
        assert won[0].json()["status"] == ended["status"]
        assert ended["status"] in TERMINAL
        assert len(ended["decisions"]) == (0 if ended["status"] == "cancelled" else 1)


def test_people_see_what_concerns_them(world: World) -> None:
    created = world["acme"].asked("procurement", "oa__group", initiator=KIM)
    for name in ("alice", "bob", "carol", "erin", "kim"):
        assert world[name].get(f"/confirmations/{created['id']}").status_code == 200, name
    assert world["dave"].get(f"/confirmations/{created['id']}").status_code == 404


def test_a_token_that_may_only_read_does_not_decide(world: World, acme: Api) -> None:
    created = acme.asked("quiet", "oa__pay")
    assert world["carol"].get(f"/confirmations/{created['id']}").status_code == 200
    assert refusal(world["carol"].respond(created, "reject")) == (403, "scope_missing")
