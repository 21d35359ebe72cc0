"""The call log over REST (contract 4.3)."""

import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from hooks_app import digests
from hooks_app.models import ConnectorCallLog
from portal.lib import clock
from tests import make
from tests.api.client import Api

START = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def entry(**changes):
    """A whole entry as a runtime sends it."""
    return {
        "id": str(uuid.uuid4()),
        "agent": "procurement",
        "session_id": "s1",
        "conversation_id": "c7",
        "tool_call_id": "call_01",
        "tool_name": "oa__purchase_pay",
        "user": {"id": "u42", "name": "Kim", "email": "kim@acme.test"},
        "surface": "chat",
        "status": "succeeded",
        "blocked_by": None,
        "reason": None,
        "error": None,
        "started_at": "2026-11-02T09:30:00.000Z",
        "duration_ms": 12.5,
        "args": {"amount": 60000, "card_number": "[redacted]"},
        "args_digest": "sha256:" + "1" * 64,
        "result_bytes": 17,
        "result": {"paid": [60000, None], "note": "ä"},
        "confirmation_id": str(uuid.uuid4()),
        "registry_digest": "sha256:" + "2" * 64,
        "trace": [{"hook": "approval_gate", "outcome": "allow", "ms": 1.5, "changed": False}],
        "side_effects": ["order 7"],
        **changes,
    }


def send(api, *entries):
    return api.post("/calls", {"calls": list(entries)}, headers={"Hookgate-Runtime": "worker-1"})


def as_read(world, sent):
    """``sent`` as people read it: the tag in the place of the digest, as a part of the arguments is hidden."""
    (row,) = ConnectorCallLog.objects.filter(pk=sent["id"])
    tag = digests.tag(row.organization_id, sent["args_digest"])
    return {**sent, "args_digest": None, "args_tag": tag}


def test_a_sent_entry_is_what_an_auditor_reads(world):
    sent = entry()
    assert send(world.runtime, sent).body == {"accepted": 1, "duplicates": 0}
    for name in ("alice", "carol"):
        assert world.person(name).get(f"/calls/{sent['id']}").body == as_read(world, sent)
    assert ConnectorCallLog.objects.get().runtime == "worker-1"


def test_a_kept_result_is_encrypted(world):
    send(world.runtime, entry(result={"iban": "DE-in-clear"}))
    with connection.cursor() as cursor:
        cursor.execute("SELECT result FROM hooks_app_connectorcalllog")
        ((stored,),) = cursor.fetchall()
    assert "DE-in-clear" not in stored
    assert ConnectorCallLog.objects.get().result == {"iban": "DE-in-clear"}


def test_the_shortest_entry_reads_with_nulls(world):
    sent = {key: entry()[key] for key in ("id", "agent", "tool_name", "status", "started_at")}
    assert send(world.runtime, sent).status == 202
    read = world.person("carol").get(f"/calls/{sent['id']}").body
    assert {key: read[key] for key in sent} == sent
    assert read["user"] is read["args"] is read["duration_ms"] is read["result"] is None
    assert read["trace"] == read["side_effects"] == []


def test_the_first_entry_wins_except_that_a_final_status_replaces_unknown(world):
    first = entry(status="unknown", error="gone")
    assert send(world.runtime, first).body == {"accepted": 1, "duplicates": 0}
    assert send(world.runtime, {**first, "status": "unknown"}).body == {"accepted": 0, "duplicates": 1}
    final = {**first, "status": "failed", "error": "refused", "tool_name": "oa__stock"}
    assert send(world.runtime, final).body == {"accepted": 1, "duplicates": 0}
    assert send(world.runtime, {**first, "status": "succeeded"}).body == {"accepted": 0, "duplicates": 1}
    assert send(world.runtime, first).body == {"accepted": 0, "duplicates": 1}
    assert world.person("carol").get(f"/calls/{first['id']}").body == as_read(world, final)


def test_the_same_rules_hold_within_one_batch(world):
    one = entry(status="unknown")
    final = {**one, "status": "succeeded"}
    other = entry()
    answer = send(world.runtime, one, final, {**one, "status": "failed"}, other, other)
    assert answer.body == {"accepted": 2, "duplicates": 3}
    assert ConnectorCallLog.objects.get(pk=one["id"]).status == "succeeded"


def test_one_bad_entry_is_named_by_its_index_and_nothing_is_stored(world):
    refused = send(world.runtime, entry(), entry(), entry(status="done"))
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", ["calls[2].status"])
    refused = send(world.runtime, entry(), entry(agent="reports"), entry(agent="no-such"))
    assert (refused.status, refused.paths) == (400, ["calls[1].agent", "calls[2].agent"])
    refused = send(world.runtime_of_acme, entry(), entry(agent=str(world.theirs.pk)))
    assert (refused.status, refused.paths) == (400, ["calls[1].agent"])
    assert not ConnectorCallLog.objects.exists()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "x"}, "id"),
        ({"id": None}, "id"),
        ({"agent": ["procurement"]}, "agent"),
        ({"tool_name": ""}, "tool_name"),
        ({"tool_name": "x" * 201}, "tool_name"),
        ({"session_id": "x" * 201}, "session_id"),
        ({"user": 42}, "user"),
        ({"user": "x" * 201}, "user"),
        ({"user": {"id": 1}}, "user.id"),
        ({"user": {"id": "u", "role": "admin"}}, "user.role"),
        ({"surface": "moon"}, "surface"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"started_at": "2026-11-02T09:30:00"}, "started_at"),
        ({"started_at": "2026-02-30T09:30:00Z"}, "started_at"),
        ({"started_at": "0001-01-01T00:00:00+14:00"}, "started_at"),
        ({"started_at": 1730000000}, "started_at"),
        ({"duration_ms": -1}, "duration_ms"),
        ({"duration_ms": "5"}, "duration_ms"),
        ({"args_digest": "md5:1"}, "args_digest"),
        ({"result_bytes": 1.5}, "result_bytes"),
        ({"confirmation_id": "x"}, "confirmation_id"),
        ({"trace": {}}, "trace"),
        ({"trace": ["x"]}, "trace[0]"),
        ({"side_effects": "x"}, "side_effects"),
        ({"blocked_by": "x" * 101}, "blocked_by"),
        ({"reason": "x" * 10_001}, "reason"),
        ({"extra": 1}, "extra"),
    ],
)
def test_every_field_is_checked(world, change, path):
    refused = send(world.runtime, entry(), entry(**change))
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", [f"calls[1].{path}"])
    assert not ConnectorCallLog.objects.exists()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "calls"),
        ({"calls": []}, "calls"),
        ({"calls": {}}, "calls"),
        ({"calls": [1]}, "calls[0]"),
        ({"calls": None}, "calls"),
        ({"call": []}, "call"),
    ],
)
def test_the_batch_itself_is_checked(world, body, path):
    refused = world.runtime.post("/calls", body)
    assert (refused.status, path in refused.paths) == (400, True)


def test_a_batch_holds_1_to_1000_entries(world):
    small = [
        {key: entry()[key] for key in ("id", "agent", "tool_name", "status", "started_at")} for _ in range(1)
    ]
    many = [{**small[0], "id": str(uuid.uuid4())} for _ in range(1000)]
    assert send(world.runtime, *many).body == {"accepted": 1000, "duplicates": 0}
    assert send(world.runtime, *many).body == {"accepted": 0, "duplicates": 1000}
    refused = send(world.runtime, *many, {**small[0], "id": str(uuid.uuid4())})
    assert (refused.status, refused.paths) == (400, ["calls"])


def test_an_id_of_another_organization_or_agent_neither_leaks_nor_is_overwritten(world):
    theirs = entry(status="unknown", error="theirs")
    assert send(world.runtime_of_beta, theirs).body == {"accepted": 1, "duplicates": 0}
    mine = {**theirs, "status": "succeeded", "error": "mine"}
    for api, sent in (
        (world.runtime, mine),
        (world.runtime_of_reports, {**mine, "agent": "reports", "error": "reports"}),
    ):
        fresh = send(api, {**sent, "id": str(uuid.uuid4())})
        answer = send(api, sent)
        assert (answer.status, answer.body) == (fresh.status, fresh.body)
        assert send(api, sent).body == {"accepted": 0, "duplicates": 1}
    assert world.person("mallory").get(f"/calls/{theirs['id']}").body["error"] == "theirs"
    assert world.person("alice").get(f"/calls/{theirs['id']}").status == 404
    found = world.person("alice").get("/calls").body["results"]
    assert sorted(row["error"] for row in found) == ["mine", "mine", "reports", "reports"]


def test_a_resent_entry_of_a_taken_id_may_still_become_final(world):
    theirs = entry()
    send(world.runtime_of_beta, theirs)
    assert send(world.runtime, {**theirs, "status": "unknown"}).body["accepted"] == 1
    assert send(world.runtime, {**theirs, "status": "failed"}).body == {"accepted": 1, "duplicates": 0}
    assert world.person("alice").get("/calls", status="failed").body["results"][0]["status"] == "failed"


def test_auditors_and_admins_read_and_nobody_else(world):
    sent = entry()
    send(world.runtime, sent)
    for name, status in (("alice", 200), ("carol", 200), ("bob", 403), ("dave", 403)):
        assert world.person(name).get("/calls").status == status, name
        assert world.person(name).get(f"/calls/{sent['id']}").status == status, name
    assert world.person("bob").get("/calls").code == "role_missing"
    for api in (world.runtime, world.runtime_of_acme):
        assert api.get("/calls").code == api.get(f"/calls/{sent['id']}").code == "people_only"
    assert world.person("mallory").get("/calls").body == {"results": [], "next": None}
    assert world.person("mallory").get(f"/calls/{sent['id']}").status == 404
    assert world.person("mallory").get("/calls", agent=str(world.procurement.pk)).status == 404
    assert Api(user=world.carol).get("/calls").status == 200
    for odd in ("x", "%00", str(uuid.uuid4())):
        assert world.person("carol").get(f"/calls/{odd}").status == 404


@pytest.mark.parametrize("user", ["u42", {"id": "u42"}, {"email": "kim@acme.test"}, {}, None])
def test_the_user_comes_back_as_it_was_sent(world, user):
    sent = entry(user=user)
    send(world.runtime, sent)
    assert world.person("carol").get(f"/calls/{sent['id']}").body["user"] == user


def test_each_filter_narrows(world):
    blocked = entry(
        status="blocked", blocked_by="readonly_guard", trace=[], started_at="2026-11-02T10:30:00.000Z",
        user={"id": "u1", "email": "lee@acme.test"}, tool_name="oa__stock",
    )  # fmt: skip
    plain = entry(agent="reports")
    send(world.runtime_of_acme, blocked, plain)
    carol = world.person("carol")

    def found(**query):
        return {row["id"] for row in carol.get("/calls", **query).body["results"]}

    assert found() == {blocked["id"], plain["id"]}
    assert found(agent="reports") == found(agent=str(world.reports.pk)) == {plain["id"]}
    assert found(tool="oa__stock") == {blocked["id"]}
    assert found(status="blocked") == {blocked["id"]}
    assert found(user="u1") == found(user="lee@acme.test") == {blocked["id"]}
    assert found(user="Kim") == {plain["id"]}
    assert found(hook="readonly_guard") == {blocked["id"]}
    assert found(hook="approval_gate") == {plain["id"]}
    assert found(hook='"') == found(hook="%") == found(hook="approval_gat") == set()
    assert found(from_="2026-11-02T10:30:00Z") == {blocked["id"]}
    assert found(to="2026-11-02T10:30:00Z") == {plain["id"]}
    assert found(from_="2026-11-02T19:30:00+09:00", to="2026-11-02T10:30:01Z") == {blocked["id"]}
    assert found(hook="readonly_guard", agent="reports") == set()
    by_id = entry(user="u7")
    send(world.runtime, by_id)
    assert found(user="u7") == {by_id["id"]}


def test_a_bad_filter_is_named(world):
    carol = world.person("carol")
    for name, value in (
        ("status", "done"),
        ("from", "yesterday"),
        ("to", "2026-11-02"),
        ("tool", "x" * 201),
        ("user", "\x00"),
        ("hook", ""),
        ("limit", "1000"),
        ("tools", "x"),
    ):
        refused = carol.get("/calls", **{name: value})
        assert (refused.status, refused.code, refused.paths) == (400, "invalid", [name])


def test_the_log_pages_through_everything_once_newest_first(world):
    times = [clock.rfc3339(START + timedelta(seconds=number // 3)) for number in range(11)]
    entries = [entry(started_at=time) for time in times]
    send(world.runtime, *entries)
    carol, seen, cursor = world.person("carol"), [], None
    while True:
        page = carol.get("/calls", limit=4, **({"cursor": cursor} if cursor else {})).body
        seen += [row["id"] for row in page["results"]]
        cursor = page["next"]
        if cursor is None:
            break
    wanted = sorted(entries, key=lambda sent: (sent["started_at"], sent["id"]), reverse=True)
    assert seen == [sent["id"] for sent in wanted]


def test_arguments_may_be_as_deep_as_arguments_may_be(world):
    args: dict[str, Any] = {"x": 1}
    for _ in range(31):
        args = {"x": args}
    sent = entry(args=args)
    assert send(world.runtime, sent).status == 202
    assert world.person("carol").get(f"/calls/{sent['id']}").body["args"] == args
    refused = send(world.runtime, entry(args={"x": args}))
    assert (refused.status, refused.code) == (400, "invalid")
    assert refused.paths[0].startswith("calls[0].args.x")


def test_the_agent_is_kept_by_name_when_it_is_gone(world):
    short = make.agent(world.acme, "short")
    send(world.runtime_of_acme, entry(agent="short"))
    short.head.delete() if hasattr(short, "head") else None
    short.publications.all().delete()
    short.delete()
    assert world.person("carol").get("/calls").body["results"][0]["agent"] == "short"


@pytest.mark.django_db(transaction=True)
def test_entries_that_arrive_at_once_are_stored_once_and_the_final_one_stays():
    acme = make.organization("acme")
    for slug in ("procurement", "reports"):
        make.agent(acme, slug)
    key = make.key(acme)
    for _ in range(5):
        sent = entry()
        variants = [
            {**sent, "status": "unknown"},
            {**sent, "status": "failed"},
            {**sent, "status": "failed"},
            {**sent, "agent": "reports"},
        ]
        answers = at_once(key, variants)
        assert [answer.status for answer in answers] == [202] * 4
        assert ConnectorCallLog.objects.get(agent__slug="procurement").status == "failed"
        assert ConnectorCallLog.objects.get(agent__slug="reports").status == "succeeded"
        # One row per agent; an unknown entry that came first was replaced, and that counts too.
        assert sum(answer.body["accepted"] for answer in answers) in (2, 3)
        ConnectorCallLog.objects.all().delete()


def at_once(key, entries):
    """Send each entry from a thread of its own, all at the same moment."""
    answers: list[Any] = []
    start = threading.Barrier(len(entries))

    def run(sent):
        start.wait(timeout=10)
        try:
            answers.append(send(Api(key), sent))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(sent,)) for sent in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    return answers
