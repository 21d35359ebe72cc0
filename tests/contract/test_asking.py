"""Section 4.1: asking for a confirmation, and what comes back."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from tests.contract.conftest import World
from tests.contract.outside import KIM, STRANGER, Api, digest, paths, refusal

RESOURCE = {
    "id", "status", "agent", "conversation_id", "tool_call_id", "tool_name", "tool_args", "requested_digest",
    "args_digest", "approved_args", "hook", "initiator", "summary", "mode", "policy", "stage", "decisions",
    "created_at", "expires_at", "ended_at", "reason", "refused_by", "grant", "start_by", "consumed_at", "outcome",
    "deliveries",
}  # fmt: skip


def seconds_between(request: dict[str, Any]) -> float:
    """How long the request may wait."""
    created, expires = (datetime.fromisoformat(request[name]) for name in ("created_at", "expires_at"))
    return (expires - created).total_seconds()


def test_a_new_request_is_201_with_the_resource(acme: Api) -> None:
    body = acme.request("procurement", "oa__pay", {"amount": 60000}, summary="pay the supplier")
    answer = acme.post("/confirmations", {**body, "channel": None, "policy": None, "parent": None})
    assert answer.status_code == 201
    created = answer.json()
    assert set(created) >= RESOURCE
    for field in ("conversation_id", "tool_call_id", "tool_name", "tool_args", "summary", "hook"):
        assert created[field] == body[field]
    assert created["status"] == "pending"
    assert created["agent"] == "procurement"
    assert created["initiator"] == STRANGER
    assert created["requested_digest"] == created["args_digest"] == digest({"amount": 60000})
    assert created["policy"] == {"slug": "payments", "scope": "approvers", "quorum": 1}
    assert created["mode"] == "auto"
    assert created["decisions"] == []
    empty = ("approved_args", "stage", "ended_at", "reason", "refused_by", "grant", "start_by", "consumed_at")
    assert [created[name] for name in (*empty, "outcome")] == [None] * 9
    assert seconds_between(created) == pytest.approx(120, abs=0.01)
    delivery = created["deliveries"][0]
    assert len(created["deliveries"]) == 1
    assert set(delivery) >= {"channel", "recipient", "status", "attempts", "last_error"}
    assert (delivery["channel"], delivery["recipient"]) == ("ops", "oc_1")
    assert acme.get(f"/confirmations/{created['id']}").json()["tool_call_id"] == body["tool_call_id"]


def test_what_is_redacted_is_so_for_everybody_and_the_digest_is_not(world: World) -> None:
    args = {"amount": 1, "card_number": "4111-1111", "payer": {"iban": "DE77", "name": "Lee"}}
    created = world["acme"].asked("procurement", "oa__pay", args)
    assert created["args_digest"] == digest(args)
    for client in (world["acme"], world["alice"], world["bob"]):
        shown = client.read(created)["tool_args"]
        assert "4111-1111" not in json.dumps(shown)
        assert "DE77" not in json.dumps(shown)
        assert (shown["amount"], shown["payer"]["name"]) == (1, "Lee")


def test_the_same_call_again_attaches_to_the_same_request(world: World) -> None:
    acme = world["acme"]
    body = acme.request("procurement", "oa__pay", {"amount": 1, "marker": uuid.uuid4().hex})
    first = acme.post("/confirmations", body)
    again = acme.post("/confirmations", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    by_agents_key = world["procurement"].post("/confirmations", body)
    assert (by_agents_key.status_code, by_agents_key.json()["id"]) == (200, first.json()["id"])
    reordered = json.dumps({**body, "tool_args": dict(reversed(body["tool_args"].items()))})
    assert acme.post_bytes("/confirmations", reordered.encode()).status_code == 200
    card = world.card(body["tool_args"]["marker"])
    same = [m for m in world.sandbox.look("messages")["messages"] if body["tool_args"]["marker"] in str(m)]
    assert [m["message_id"] for m in same] == [card["message_id"]]
    # Also when it has ended.
    assert acme.post(f"/confirmations/{first.json()['id']}/cancel").status_code == 200
    ended = acme.post("/confirmations", body)
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")


def test_two_that_ask_at_once_get_one_request(acme: Api) -> None:
    for _ in range(5):
        body = acme.request("quiet", "oa__pay")
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _, body=body: acme.post("/confirmations", body), range(6)))
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_parent_is_a_request_within_reach(world: World) -> None:
    acme = world["acme"]
    parent = acme.asked("quiet", "oa__pay")
    assert acme.ask("helper", "oa__pay", parent=parent["id"]).status_code == 201
    for odd in (str(uuid.uuid4()), "x", world["solo"].asked("procurement", "any")["id"]):
        answer = acme.ask("helper", "oa__pay", parent=odd)
        assert (answer.status_code, paths(answer)) == (400, ["parent"]), odd


@pytest.mark.parametrize(
    "change",
    [
        {"tool_name": "oa__plain"},
        {"tool_args": {"amount": 60001}},
        {"tool_args": {"amount": 60000, "card_number": "1"}},
        {"initiator": KIM},
        {"initiator": {**STRANGER, "id": "u43"}},
    ],
)
def test_any_difference_is_a_conflict(acme: Api, change: dict[str, Any]) -> None:
    body = acme.request("procurement", "oa__pay")
    assert acme.post("/confirmations", body).status_code == 201
    assert refusal(acme.post("/confirmations", {**body, **change})) == (409, "tool_call_conflict")


def test_another_conversation_call_or_agent_is_another_request(acme: Api) -> None:
    body = acme.request("procurement", "oa__pay")
    others = (
        body,
        {**body, "conversation_id": "c8"},
        {**body, "tool_call_id": uuid.uuid4().hex},
        {**body, "agent": "quiet", "registry_digest": acme.served("quiet")},
    )
    answers = [acme.post("/confirmations", other) for other in others]
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 4


def test_the_time_may_be_shortened_and_never_lengthened(acme: Api) -> None:
    assert seconds_between(acme.asked("procurement", "oa__pay", timeout_seconds=60)) == pytest.approx(
        60, abs=0.1
    )
    assert seconds_between(acme.asked("procurement", "oa__pay", timeout_seconds=121)) == pytest.approx(
        120, abs=0.1
    )
    longest = acme.asked("procurement", "oa__pay", timeout_seconds=259200)
    assert seconds_between(longest) == pytest.approx(120, abs=0.1)


def test_a_registry_that_was_never_served_is_unknown(world: World) -> None:
    acme = world["acme"]
    never = "sha256:" + "0" * 64
    assert refusal(acme.ask("procurement", "oa__pay", registry_digest=never)) == (422, "unknown_registry")
    # Another agent's does not do.
    theirs = acme.served("limited")
    assert refusal(acme.ask("procurement", "oa__pay", registry_digest=theirs)) == (422, "unknown_registry")


def test_nobody_who_could_approve(acme: Api) -> None:
    assert refusal(acme.ask("procurement", "oa__nobody")) == (422, "no_eligible_approver")
    assert refusal(acme.ask("ownerless", "oa__owner")) == (422, "no_eligible_approver")


def test_a_policy_of_the_initiator_needs_to_know_them(acme: Api) -> None:
    assert refusal(acme.ask("procurement", "oa__initiator")) == (422, "initiator_unknown")
    assert refusal(acme.ask("procurement", "oa__initiator", initiator=None)) == (422, "initiator_unknown")
    assert acme.ask("procurement", "oa__initiator", initiator=KIM).status_code == 201
    by_identity = {"id": "kim-7", "name": "Kim", "email": None}
    assert acme.ask("procurement", "oa__initiator", initiator=by_identity).status_code == 201


def test_an_agent_that_is_switched_off(acme: Api) -> None:
    never = "sha256:" + "0" * 64
    assert refusal(acme.ask("resting", "oa__pay", registry_digest=never)) == (409, "agent_disabled")


def test_too_many_pending(acme: Api) -> None:
    first = acme.asked("busy", "oa__pay")
    answer = acme.ask("busy", "oa__pay")
    assert refusal(answer) == (429, "too_many_pending")
    assert int(answer.headers["retry-after"]) >= 1
    assert acme.post(f"/confirmations/{first['id']}/cancel").status_code == 200
    assert acme.ask("busy", "oa__pay").status_code == 201


DEEPEST = 32


def nested(depth: int) -> str:
    """Arguments of ``depth`` levels, the object itself among them."""
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize(
    ("args", "where"),
    [
        ('{"a": NaN}', "tool_args.a"),
        ('{"a": [1, Infinity]}', "tool_args.a[1]"),
        ('{"a": -Infinity}', "tool_args.a"),
        ('{"a": 1e400}', "tool_args.a"),
        ('{"a": 9007199254740992}', "tool_args.a"),
        ('{"a": {"b": -9007199254740992}}', "tool_args.a.b"),
        ('{"a": "\\ud800"}', "tool_args.a"),
        ('{"a": "x\\u0000"}', "tool_args.a"),
        ('{"a": 1, "a": 1}', "tool_args.a"),
        ('{"b": {"a": 1, "a": 2}}', "tool_args.b.a"),
        (nested(DEEPEST + 1), "tool_args" + ".a" * DEEPEST),
    ],
)
def test_arguments_that_have_no_canonical_form(acme: Api, args: str, where: str) -> None:
    body = json.dumps(acme.request("procurement", "oa__pay", "ARGS")).replace('"ARGS"', args)
    answer = acme.post_bytes("/confirmations", body.encode())
    assert refusal(answer) == (400, "args_not_canonical"), answer.text
    assert paths(answer) == [where]


def test_arguments_at_the_bounds(acme: Api) -> None:
    for args in (
        nested(DEEPEST),
        '{"a": 9007199254740991, "b": -9007199254740991, "c": 1e300, "d": "\\ud83d\\ude00", "e": null}',
        "{}",
    ):
        body = json.dumps(acme.request("procurement", "oa__pay", "ARGS")).replace('"ARGS"', args)
        assert acme.post_bytes("/confirmations", body.encode()).status_code == 201, args


def test_numbers_are_compared_as_numbers(acme: Api) -> None:
    body = acme.request("procurement", "oa__pay", "ARGS")
    as_text = json.dumps(body)
    answers = [
        acme.post_bytes("/confirmations", as_text.replace('"ARGS"', args).encode())
        for args in ('{"n": 100, "m": 0.5}', '{"m": 5e-1, "n": 1e2}', '{"n": 100.0, "m": 0.50}')
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert answers[0].json()["args_digest"] == digest({"n": 100, "m": 0.5})


def test_the_policy_is_the_actions_else_the_agents_else_the_organizations_else_the_built_in(
    acme: Api,
) -> None:
    built_in = {"slug": "default", "scope": "approvers", "quorum": 1}
    assert acme.asked("quiet", "oa__pay")["policy"]["slug"] == "payments"
    assert acme.asked("quiet", "oa__plain")["policy"]["slug"] == "by-group"
    by_default = acme.asked("procurement", "oa__plain")
    assert by_default["policy"] == built_in
    assert seconds_between(by_default) == pytest.approx(120, abs=0.1)
    assert acme.asked("procurement", "shred")["policy"]["slug"] == "by-group"
    assert acme.asked("procurement", "mail__anything")["policy"] == built_in


def test_a_trigger_gives_policy_and_channel(acme: Api) -> None:
    caught = acme.asked("triggered", "oa__write", {"amount": 50000})
    assert caught["policy"]["slug"] == "by-group"
    assert [d["channel"] for d in caught["deliveries"]] == ["spare"]
    reasoned = acme.asked("triggered", "free", {"amount": 11})
    assert reasoned["policy"]["slug"] == "reasoned"
    assert [d["channel"] for d in reasoned["deliveries"]] == ["ops"]
    # The action's own policy comes first.
    assert acme.asked("triggered", "oa__pay")["policy"]["slug"] == "payments"


def test_cards_go_where_the_mode_says(world: World) -> None:
    acme = world["acme"]
    assert acme.asked("inline", "oa__pay")["deliveries"] == []
    assert acme.asked("quiet", "oa__pay")["deliveries"] == []
    assert acme.asked("inline", "oa__pay")["mode"] == "inline_only"
    tapped = acme.asked("tapped", "oa__pay")
    assert (tapped["mode"], [d["channel"] for d in tapped["deliveries"]]) == ("channel_only", ["ops"])
    alone = world["solo"].asked("procurement", "anything")
    assert [(d["channel"], d["recipient"]) for d in alone["deliveries"]] == [("only", "oc_3")]


def test_policy_and_channel_of_the_caller_are_those_that_the_agent_names_or_refused(acme: Api) -> None:
    answer = acme.ask("procurement", "oa__plain", policy="by-members")
    assert (answer.status_code, paths(answer)) == (400, ["policy"])
    answer = acme.ask("procurement", "oa__plain", channel="spare")
    assert (answer.status_code, paths(answer)) == (400, ["channel"])
    assert acme.ask("procurement", "oa__plain", policy="no-such").status_code == 400
    assert acme.ask("procurement", "oa__plain", channel="ops").status_code == 201
