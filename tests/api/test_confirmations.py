"""Confirmation requests over REST: who may ask, see, decide and use them, and what a bad request is told."""

import uuid
from datetime import timedelta

import pytest

from hooks_app.models import ConfirmationRequest
from portal.models import Membership
from tests import make
from tests.api.client import Api
from tests.api.conftest import confirmation, token


@pytest.fixture
def pending(world):
    """The body of a fresh pending request of procurement."""
    answer = world.runtime.post(
        "/confirmations", confirmation(world.procurement), headers={"Hookgate-Runtime": "worker-1"}
    )
    assert answer.status == 201, answer.body
    return answer.body


def test_a_new_request_is_201_and_shows_redacted_arguments(world, pending, time):
    assert pending["status"] == "pending"
    assert pending["agent"] == "procurement"
    assert pending["tool_args"]["amount"] == 60000
    assert "4111-1111" not in str(pending)
    assert pending["initiator"] == {"id": "u42", "name": "Kim", "email": "kim@acme.test"}
    assert pending["policy"] == {"slug": "default", "scope": "approvers", "quorum": 1}
    assert pending["created_at"].endswith("Z")
    row = ConfirmationRequest.objects.get(pk=pending["id"])
    assert (row.runtime, row.organization) == ("worker-1", world.acme)


def test_the_same_call_again_is_200_with_the_same_request_and_a_different_one_409(world, pending):
    again = world.runtime.post("/confirmations", confirmation(world.procurement))
    assert (again.status, again.body["id"]) == (200, pending["id"])
    other = world.runtime.post("/confirmations", confirmation(world.procurement, tool_args={"amount": 1}))
    assert (other.status, other.code) == (409, "tool_call_conflict")


def test_the_agent_may_be_named_by_its_id(world):
    body = confirmation(world.procurement, agent=str(world.procurement.pk))
    assert world.runtime.post("/confirmations", body).status == 201


@pytest.mark.parametrize(
    ("change", "path", "code"),
    [
        ({"agent": None}, "agent", "wrong_type"),
        ({"agent": 7}, "agent", "wrong_type"),
        ({"conversation_id": ""}, "conversation_id", "too_short"),
        ({"conversation_id": "c" * 8193}, "conversation_id", "too_long"),
        ({"tool_call_id": ["x"]}, "tool_call_id", "wrong_type"),
        ({"tool_name": "t" * 201}, "tool_name", "too_long"),
        ({"tool_args": []}, "tool_args", "wrong_type"),
        ({"tool_args": "x"}, "tool_args", "wrong_type"),
        ({"hook": "h" * 101}, "hook", "too_long"),
        ({"registry_digest": "sha256:abc"}, "registry_digest", "invalid"),
        ({"initiator": "u42"}, "initiator", "wrong_type"),
        ({"initiator": {"name": "Kim"}}, "initiator.id", "required"),
        ({"initiator": {"id": "u42", "admin": True}}, "initiator.admin", "unknown_field"),
        ({"summary": "s" * 2001}, "summary", "too_long"),
        ({"timeout_seconds": "60"}, "timeout_seconds", "wrong_type"),
        ({"timeout_seconds": True}, "timeout_seconds", "wrong_type"),
        ({"timeout_seconds": 0}, "timeout_seconds", "invalid"),
        ({"timeout_seconds": 1.5}, "timeout_seconds", "wrong_type"),
        ({"parent": "nope"}, "parent", "invalid"),
        ({"parent": 5}, "parent", "invalid"),
        ({"channel": ""}, "channel", "too_short"),
        ({"policy": {}}, "policy", "wrong_type"),
        ({"tool_nmae": "x"}, "tool_nmae", "unknown_field"),
    ],
)
def test_a_bad_field_is_named_with_what_is_wrong(world, change, path, code):
    refused = world.runtime.post("/confirmations", confirmation(world.procurement, **change))
    assert (refused.status, refused.code) == (400, "invalid")
    assert [(error["path"], error["code"]) for error in refused.body["errors"]] == [(path, code)]
    assert not ConfirmationRequest.objects.exists()


def test_every_missing_field_is_named_at_once(world):
    refused = world.runtime.post("/confirmations", {})
    assert set(refused.paths) == {
        "agent", "conversation_id", "tool_call_id", "tool_name", "tool_args", "registry_digest",
    }  # fmt: skip


def test_a_digest_that_the_agent_was_never_served_is_422(world):
    body = confirmation(world.procurement, registry_digest="sha256:" + "0" * 64)
    refused = world.runtime.post("/confirmations", body)
    assert (refused.status, refused.code) == (422, "unknown_registry")


def test_another_organization_or_another_agents_key_cannot_ask(world):
    body = confirmation(world.procurement, agent=str(world.procurement.pk))
    for api in (world.runtime_of_beta, world.runtime_of_reports):
        refused = api.post("/confirmations", body)
        assert (refused.status, refused.code) == (404, "not_found")
    assert not ConfirmationRequest.objects.exists()


def test_a_request_is_not_there_for_whom_it_is_out_of_reach(world, pending):
    path = f"/confirmations/{pending['id']}"
    consume = {"args_digest": pending["args_digest"], "attempt": str(uuid.uuid4())}
    for api in (world.runtime_of_beta, world.runtime_of_reports):
        assert api.get(path).status == 404
        assert api.post(f"{path}/consume", consume).status == 404
        assert api.post(f"{path}/outcome", {"status": "failed"}).status == 404
        assert api.post(f"{path}/cancel").status == 404
        assert api.get("/confirmations").body["results"] == []
    mallory = world.person("mallory")
    assert mallory.get(path).status == 404
    assert mallory.post(f"{path}/respond", {"decision": "approve"}).status == 404
    assert mallory.get("/confirmations").body == {"results": [], "next": None}
    assert world.runtime.get(path).body["status"] == "pending"
    for api in (world.runtime, world.runtime_of_acme, world.person("bob"), world.person("carol")):
        assert api.get(path).body["id"] == pending["id"]
    assert world.person("dave").get(path).status == 404


def test_too_many_pending_requests_are_429_with_a_time_to_wait(world):
    world.procurement.max_pending = 1
    world.procurement.save()
    make.publish(world.procurement)
    assert world.runtime.post("/confirmations", confirmation(world.procurement)).status == 201
    refused = world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id="call_02"))
    assert (refused.status, refused.code) == (429, "too_many_pending")
    assert int(refused.headers["Retry-After"]) >= 1


def test_answers_stay_out_of_caches(world, pending):
    path = f"/confirmations/{pending['id']}"
    assert world.runtime.get(path).headers["Cache-Control"] == "no-store"
    assert world.nobody.get(path).headers["Cache-Control"] == "no-store"
    assert world.runtime.client.head(f"/api/v1{path}", headers=world.runtime.headers).status_code == 200


@pytest.mark.parametrize(
    "odd",
    [
        "05ed3db8-c3e9-494e-8bc0-77a065c8f4d4",
        "x",
        "%00",
        "1",
        "urn:uuid:838f8c54-cf93-478d-bd56-121aed0b7f68",
    ],
)
def test_an_id_that_is_none_is_404(world, odd):
    assert world.runtime.get(f"/confirmations/{odd}").status == 404
    assert world.runtime.post(f"/confirmations/{odd}/cancel").status == 404
    assert world.person("bob").post(f"/confirmations/{odd}/respond", {"decision": "reject"}).status == 404


def test_wait_is_a_whole_number_up_to_60(world, pending):
    path = f"/confirmations/{pending['id']}"
    assert world.runtime.get(path, wait=0).status == 200
    for wait in ("-1", "61", "x", "1.5", "", "٣"):
        refused = world.runtime.get(path, wait=wait)
        assert (refused.status, refused.paths) == (400, ["wait"]), wait


def test_people_decide_and_runtimes_do_not(world, pending):
    path = f"/confirmations/{pending['id']}/respond"
    for api in (world.runtime, world.runtime_of_acme, world.runtime_of_beta):
        refused = api.post(path, {"decision": "approve"})
        assert (refused.status, refused.code) == (403, "people_only")
    refused = world.person("bob", "read").post(path, {"decision": "approve"})
    assert (refused.status, refused.code) == (403, "scope_missing")
    refused = world.person("dave").post(path, {"decision": "approve"})
    assert (refused.status, refused.code) == (403, "not_an_approver")
    refused = world.person("bob").post(path, {"decision": "approve", "args": {"amount": 1}})
    assert (refused.status, refused.code) == (403, "edit_not_allowed")
    approved = world.person("bob").post(path, {"decision": "approve"})
    assert (approved.status, approved.body["status"]) == (200, "approved")
    assert [(d["decision"], d["user"]) for d in approved.body["decisions"]] == [("approve", "bob")]
    assert world.person("bob").post(path, {"decision": "approve"}).status == 200
    refused = world.person("alice").post(path, {"decision": "reject"})
    assert (refused.status, refused.code) == (409, "already_decided")


def test_the_same_person_cannot_change_their_mind(world):
    make.policy(world.acme, "two", quorum=2, reject_quorum=2)
    world.procurement.approval_policy = "two"
    world.procurement.save()
    make.publish(world.procurement)
    made = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    path = f"/confirmations/{made['id']}/respond"
    bob = world.person("bob")
    assert bob.post(path, {"decision": "approve"}).body["status"] == "pending"
    assert bob.post(path, {"decision": "approve"}).status == 200
    refused = bob.post(path, {"decision": "reject"})
    assert (refused.status, refused.code) == (409, "already_voted")
    assert world.person("alice").post(path, {"decision": "approve"}).body["status"] == "approved"


def test_an_overdue_request_reads_and_refuses_as_expired_and_is_listed_so(world, pending, time):
    world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id="call_02"))
    ConfirmationRequest.objects.filter(pk=pending["id"]).update(
        created_at=time.moment - timedelta(hours=2), expires_at=time.moment
    )
    assert [row["id"] for row in world.runtime.get("/confirmations", status="expired").body["results"]] == [
        pending["id"]
    ]
    assert len(world.runtime.get("/confirmations", status="pending").body["results"]) == 1
    assert world.runtime.get(f"/confirmations/{pending['id']}").body["status"] == "expired"
    refused = world.person("bob").post(f"/confirmations/{pending['id']}/respond", {"decision": "approve"})
    assert (refused.status, refused.code) == (409, "expired")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "decision"),
        ({"decision": "maybe"}, "decision"),
        ({"decision": "approve", "reason": 5}, "reason"),
        ({"decision": "approve", "reason": "r" * 2001}, "reason"),
        ({"decision": "approve", "user": "alice"}, "user"),
        ({"decision": "approve", "args": []}, "args"),
    ],
)
def test_a_bad_response_names_the_field(world, pending, body, path):
    refused = world.person("bob").post(f"/confirmations/{pending['id']}/respond", body)
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", [path])


def test_a_reject_reason_is_asked_for_when_the_policy_wants_one(world):
    make.policy(world.acme, "strict", require_reject_reason=True)
    world.procurement.approval_policy = "strict"
    world.procurement.save()
    make.publish(world.procurement)
    made = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    path = f"/confirmations/{made['id']}/respond"
    refused = world.person("bob").post(path, {"decision": "reject"})
    assert (refused.status, refused.code) == (400, "reason_required")
    rejected = world.person("bob").post(path, {"decision": "reject", "reason": "too much"})
    assert (rejected.body["status"], rejected.body["reason"]) == ("rejected", "too much")


def test_an_approval_is_used_once_and_its_outcome_reported_once(world, pending):
    path = f"/confirmations/{pending['id']}"
    attempt = str(uuid.uuid4())
    use = {"args_digest": pending["args_digest"], "attempt": attempt}
    refused = world.runtime.post(f"{path}/consume", use)
    assert (refused.status, refused.code) == (409, "not_approved")
    refused = world.runtime.post(f"{path}/outcome", {"status": "succeeded"})
    assert (refused.status, refused.code) == (409, "not_consumed")
    world.person("bob").post(f"{path}/respond", {"decision": "approve"})
    refused = world.runtime.post(f"{path}/consume", {**use, "args_digest": "sha256:" + "0" * 64})
    assert (refused.status, refused.code) == (409, "args_mismatch")
    for _ in range(2):
        used = world.runtime.post(f"{path}/consume", use)
        assert (used.status, used.body["consumed_at"] is not None) == (200, True)
        assert used.headers["Hookgate-Attempt"] == attempt
    refused = world.runtime.post(f"{path}/consume", {**use, "attempt": str(uuid.uuid4())})
    assert (refused.status, refused.code) == (409, "already_consumed")
    for status, code in (("unknown", 200), ("succeeded", 200), ("succeeded", 200), ("failed", 409)):
        answer = world.runtime.post(f"{path}/outcome", {"status": status, "detail": "d"})
        assert answer.status == code, (status, answer.body)
    assert answer.code == "outcome_conflict"
    refused = world.runtime.post(f"{path}/cancel")
    assert (refused.status, refused.code) == (409, "already_decided")


@pytest.mark.parametrize(
    ("call", "body", "path"),
    [
        ("consume", {}, "args_digest"),
        ("consume", {"args_digest": "sha256:" + "0" * 64}, "attempt"),
        ("consume", {"args_digest": "SHA256:" + "0" * 64, "attempt": str(uuid.uuid4())}, "args_digest"),
        (
            "consume",
            {"args_digest": "sha256:" + "0" * 64, "attempt": "{" + str(uuid.uuid4()) + "}"},
            "attempt",
        ),
        ("outcome", {}, "status"),
        ("outcome", {"status": "done"}, "status"),
        ("outcome", {"status": "failed", "detail": "x" * 10_001}, "detail"),
        ("cancel", {"reason": "x"}, "reason"),
    ],
)
def test_a_bad_use_outcome_or_cancel_names_the_field(world, pending, call, body, path):
    refused = world.runtime.post(f"/confirmations/{pending['id']}/{call}", body)
    assert (refused.status, refused.code, path in refused.paths) == (400, "invalid", True)


def test_a_runtime_cancels_with_or_without_a_body(world, pending):
    cancelled = world.runtime.post(f"/confirmations/{pending['id']}/cancel")
    assert (cancelled.status, cancelled.body["status"]) == (200, "cancelled")
    second = world.runtime.post(
        "/confirmations", confirmation(world.procurement, tool_call_id="call_02")
    ).body
    assert world.runtime.post(f"/confirmations/{second['id']}/cancel", {}).body["status"] == "cancelled"


def test_the_list_pages_through_everything_once_newest_first(world, time):
    for number in range(7):
        if number % 3:
            time.advance(seconds=1)
        body = confirmation(world.procurement, tool_call_id=f"call_{number}", timeout_seconds=100)
        assert world.runtime.post("/confirmations", body).status == 201
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        page = world.runtime.get("/confirmations", None, limit="3", **query).body
        seen += [row["id"] for row in page["results"]]
        if page["next"] is None:
            break
        query = {"cursor": page["next"]}
        body = confirmation(world.procurement, tool_call_id=f"late_{len(seen)}")
        time.advance(seconds=1)
        world.runtime.post("/confirmations", body)  # what arrives meanwhile moves nothing
    rows = ConfirmationRequest.objects.filter(tool_call_id__startswith="call_")
    assert seen == [str(row.pk) for row in rows.order_by("-created_at", "-id")]


def test_a_cursor_that_this_list_did_not_make_is_400(world, time):
    for number in range(2):
        world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id=f"c{number}"))
    cursor = world.runtime.get("/confirmations", limit=1).body["next"]
    other_list = f"{'A' * 40}:1abcde:{'B' * 43}"
    for bad in ("", "x", cursor[:-1], cursor + "x", other_list, "x" * 501, "\u0663"):
        refused = world.runtime.get("/confirmations", cursor=bad)
        assert (refused.status, refused.code, refused.paths) == (400, "invalid", ["cursor"]), bad
    refused = world.person("alice").get("/calls", cursor=cursor)
    assert (refused.status, refused.paths) == (400, ["cursor"])


def test_the_list_filters_by_status_and_agent(world):
    first = world.runtime.post("/confirmations", confirmation(world.procurement)).body
    second = world.runtime_of_acme.post("/confirmations", confirmation(world.reports)).body
    world.person("bob").post(f"/confirmations/{first['id']}/respond", {"decision": "reject"})

    def ids(api, **query):
        return {row["id"] for row in api.get("/confirmations", **query).body["results"]}

    assert ids(world.runtime_of_acme) == ids(world.person("bob")) == {first["id"], second["id"]}
    assert ids(world.runtime) == {first["id"]}
    assert ids(world.runtime_of_acme, status="rejected") == {first["id"]}
    assert ids(world.runtime_of_acme, status="pending") == {second["id"]}
    assert ids(world.runtime_of_acme, agent="reports") == {second["id"]}
    assert ids(world.person("bob"), agent=str(world.reports.pk)) == {second["id"]}
    assert world.runtime.get("/confirmations", agent="reports").status == 404
    for name, value in (("status", "done"), ("limit", "0"), ("limit", "201"), ("limit", "x"), ("sort", "id")):
        refused = world.runtime.get("/confirmations", **{name: value})
        assert (refused.status, refused.paths) == (400, [name])


def test_a_filter_given_twice_or_with_a_nul_is_400(world):
    answer = world.runtime.send("GET", "/confirmations", query={"status": ["pending", "approved"]})
    assert (answer.status, answer.paths) == (400, ["status"])
    answer = world.runtime.get("/confirmations", agent="a\x00")
    assert (answer.status, answer.paths) == (400, ["agent"])


def test_a_person_sees_what_concerns_them(world):
    mine = confirmation(world.procurement, initiator={"id": "u1", "email": "dave@acme.test"})
    made = world.runtime.post("/confirmations", mine).body
    world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id="call_02"))
    found = world.person("dave").get("/confirmations").body["results"]
    assert [row["id"] for row in found] == [made["id"]]
    assert len(Api(user=world.carol).get("/confirmations").body["results"]) == 2
    Membership.objects.filter(user=world.dave).delete()
    assert Api(token(world.dave)).get("/confirmations").body["results"] == []


def test_the_list_costs_the_same_number_of_reads_per_row_kind(world, django_assert_max_num_queries):
    for number in range(12):
        world.runtime.post("/confirmations", confirmation(world.procurement, tool_call_id=f"c{number}"))
    with django_assert_max_num_queries(40):
        assert len(world.runtime.get("/confirmations").body["results"]) == 12
