"""The registry calls of contract section 4."""

import json
from datetime import timedelta

import pytest
from hookgate.registry.manifest import parse

from hooks_app.governance import halting
from hooks_app.models import RuntimeInstance
from hooks_app.registry import heads, publishing
from portal import audit
from portal.models import AuditEvent, Membership
from tests import make
from tests.api.client import Api

PATH = "/agents/procurement/registry"


def test_a_runtime_gets_the_manifest_of_its_agent_by_slug_and_by_id(world):
    by_slug = world.runtime.get(PATH)
    by_id = world.runtime.get(f"/agents/{world.procurement.pk}/registry")
    assert by_slug.status == by_id.status == 200
    assert by_slug.body == by_id.body
    assert by_slug.body["agent"] == {
        "id": str(world.procurement.pk),
        "slug": "procurement",
        "organization": "acme",
    }
    assert by_slug.body["surface"] == "chat"
    assert by_slug.headers["ETag"][0] == by_slug.headers["ETag"][-1] == '"'
    parse(by_slug.body)


def test_each_surface_is_named_and_an_unknown_one_is_an_error(world):
    for surface in ("chat", "api", "dag", "subagent", "workflow"):
        assert world.runtime.get(PATH, surface=surface).body["surface"] == surface
    refused = world.runtime.get(PATH, surface="moon")
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", ["surface"])
    refused = world.runtime.get(PATH, surfaec="chat")
    assert (refused.status, refused.paths) == (400, ["surfaec"])


def test_a_held_etag_is_304_until_any_byte_changes(world):
    first = world.runtime.get(PATH)
    tag = first.headers["ETag"]
    for held in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = world.runtime.get(PATH, headers={"If-None-Match": held})
        assert (again.status, again.headers["ETag"]) == (304, tag)
    assert world.runtime.get(PATH, headers={"If-None-Match": '"other"'}).status == 200
    other_surface = world.runtime.get(PATH, surface="api", headers={"If-None-Match": tag})
    assert other_surface.status == 200

    halting.halt(organization=world.acme, agent=world.procurement, reason="audit", actor=audit.SHELL)
    halted = world.runtime.get(PATH, headers={"If-None-Match": tag})
    assert (halted.status, halted.body["state"]["halted"], halted.body["state"]["reason"]) == (
        200,
        True,
        "audit",
    )
    assert halted.headers["ETag"] != tag
    assert halted.body["digest"] == first.body["digest"]

    make.class_hook(world.procurement, "result_truncate")
    make.publish(world.procurement)
    changed = world.runtime.get(PATH, headers={"If-None-Match": halted.headers["ETag"]})
    assert (changed.status, changed.body["revision"]) == (200, first.body["revision"] + 1)


def test_an_unbuildable_registry_is_422_with_every_reason(world):
    tag = world.runtime.get(PATH).headers["ETag"]
    make.class_hook(world.procurement, "no_such_hook")
    make.class_hook(world.procurement, "result_truncate", params={"max_chars": "many"})
    make.publish(world.procurement)
    for headers in ({}, {"If-None-Match": tag}, {"If-None-Match": "*"}):
        refused = world.runtime.get(PATH, headers=headers)
        assert (refused.status, refused.code) == (422, "registry_unbuildable")
        assert len(refused.body["errors"]) >= 2


def test_the_portal_keeps_which_runtime_holds_which_revision_to_the_minute(world, time):
    tag = world.runtime.get(PATH, headers={"Hookgate-Runtime": "worker-1"}).headers["ETag"]
    row = RuntimeInstance.objects.get(agent=world.procurement)
    minute = time.moment.replace(second=0, microsecond=0)
    assert (row.name, row.surface, row.revision, row.last_seen_at) == ("worker-1", "chat", 1, minute)
    time.advance(minutes=3)
    world.runtime.get(PATH, headers={"Hookgate-Runtime": "worker-1", "If-None-Match": tag})
    row.refresh_from_db()
    assert (row.revision, row.last_seen_at) == (1, minute + timedelta(minutes=3))
    Api(user=world.alice).get(PATH, headers={"Hookgate-Runtime": "alice"})
    assert RuntimeInstance.objects.count() == 1


def test_a_runtime_name_that_does_not_fit_is_refused_by_name(world):
    refused = world.runtime.get(PATH, headers={"Hookgate-Runtime": "x" * 101})
    assert (refused.status, refused.paths) == (400, ["Hookgate-Runtime"])


def test_eval_needs_its_scope_and_is_audited(world):
    refused = world.runtime.get(PATH, surface="eval")
    assert (refused.status, refused.code) == (403, "scope_missing")
    assert not AuditEvent.objects.filter(action__startswith="registry.").exists()
    evaluator = Api(make.key(world.acme, world.procurement, scopes=["eval", "registry"]))
    served = evaluator.get(PATH, surface="eval")
    assert (served.status, served.body["bypass"], served.body["hooks"]) == (200, True, [])
    event = AuditEvent.objects.get(action__startswith="registry.")
    assert (event.actor_kind, event.object_id) == ("runtime", str(world.procurement.pk))


def test_the_history_pages_newest_first(world):
    heads.head(world.procurement)
    for hook in ("result_truncate", "session_context", "connector_rate_limit"):
        make.class_hook(world.procurement, hook)
        publishing.publish(
            agent=world.procurement, actor=audit.person(world.alice), user=world.alice, comment=f"add {hook}"
        )
        heads.head(world.procurement)
    path = f"{PATH}/revisions"
    first = world.runtime.get(path, limit=3)
    assert [row["number"] for row in first.body["results"]] == [4, 3, 2]
    assert first.body["results"][0]["comment"] == "add connector_rate_limit"
    assert first.body["results"][0]["author"] == "alice"
    second = world.runtime.get(path, limit=3, cursor=first.body["next"])
    assert ([row["number"] for row in second.body["results"]], second.body["next"]) == ([1], None)
    for cursor in ("x", "", "-1", "9" * 12, "٣"):
        refused = world.runtime.get(path, cursor=cursor)
        assert (refused.status, refused.paths) == (400, ["cursor"])


def test_one_revision_has_its_manifest(world):
    served = world.runtime.get(PATH).body
    found = world.runtime.get(f"{PATH}/revisions/1")
    assert (found.status, found.body["digest"]) == (200, served["digest"])
    assert found.body["manifest"]["hooks"] == served["hooks"]
    for number in ("2", "0", "99999999999999999999", "x"):
        assert world.runtime.get(f"{PATH}/revisions/{number}").status == 404


def test_reported_tools_replace_those_before_per_runtime(world):
    path = "/agents/procurement/tools"
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}}
    tools = [
        {"name": "oa__purchase_pay", "description": "Pays.", "input_schema": schema},
        {"name": "calculator"},
    ]
    for name, sent in (("worker-1", tools), ("worker-2", tools), ("worker-1", tools[1:])):
        answer = world.runtime.put(path, {"tools": sent}, headers={"Hookgate-Runtime": name})
        assert (answer.status, answer.body) == (204, None)
    one = RuntimeInstance.objects.get(agent=world.procurement, name="worker-1")
    two = RuntimeInstance.objects.get(agent=world.procurement, name="worker-2")
    assert [tool["name"] for tool in one.tools] == ["calculator"]
    assert two.tools[0] == tools[0]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "tools"),
        ({"tools": {}}, "tools"),
        ({"tools": [{}]}, "tools[0].name"),
        ({"tools": [{"name": "a"}, {"name": 1}]}, "tools[1].name"),
        ({"tools": [{"name": "a" * 201}]}, "tools[0].name"),
        ({"tools": [{"name": "a", "input_schema": []}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "a"}, {"name": "b", "input_schema": {"type": "x"}}]}, "tools[1].input_schema"),
        ({"tools": [{"name": "a", "input_schema": {"$schema": "http://x"}}]}, "tools[0].input_schema"),
        ({"tools": [{"name": "a", "writes": False}]}, "tools[0].writes"),
        ([], "body"),
    ],
)
def test_a_bad_tool_report_names_the_field(world, body, path):
    refused = world.runtime.put("/agents/procurement/tools", body)
    assert (refused.status, refused.code, refused.paths) == (400, "invalid", [path])


def test_nothing_of_another_organization_or_agent_is_there(world):
    for suffix in ("registry", "registry/revisions", "registry/revisions/1"):
        for api in (world.runtime_of_beta, world.runtime_of_reports, world.person("mallory")):
            assert api.get(f"/agents/{world.procurement.pk}/{suffix}").status == 404
        assert world.runtime_of_reports.get(f"/agents/procurement/{suffix}").status == 404
        assert world.runtime_of_acme.get(f"/agents/procurement/{suffix}").status == 200
    assert world.runtime_of_beta.get(PATH).body["agent"]["organization"] == "beta"
    refused = world.runtime_of_beta.put(f"/agents/{world.procurement.pk}/tools", {"tools": []})
    assert (refused.status, refused.code) == (404, "not_found")
    for odd in ("no-such", "%00", "a%0A", "..", "UPPER", "x" * 300, "٣"):
        assert world.runtime.get(f"/agents/{odd}/registry").status == 404


def test_admins_and_auditors_preview_and_others_find_nothing(world):
    for name, status in (("alice", 200), ("carol", 200), ("bob", 404), ("dave", 404), ("mallory", 200)):
        assert world.person(name).get(PATH).status == status, name
    assert world.person("mallory").get(PATH).body["agent"]["organization"] == "beta"


def test_a_slug_in_two_organizations_of_a_person_asks_for_the_id(world):
    Membership.objects.create(organization=world.beta, user=world.alice, role="auditor")
    alice = world.person("alice")
    refused = alice.get(PATH)
    assert (refused.status, refused.paths) == (400, ["agent"])
    assert "id" in json.dumps(refused.body["errors"])
    assert alice.get(f"/agents/{world.theirs.pk}/registry").body["agent"]["organization"] == "beta"


def test_the_304_needs_few_reads(world, django_assert_max_num_queries):
    tag = world.runtime.get(PATH, headers={"Hookgate-Runtime": "worker-1"}).headers["ETag"]
    with django_assert_max_num_queries(5):
        held = world.runtime.get(PATH, headers={"Hookgate-Runtime": "worker-1", "If-None-Match": tag})
    assert held.status == 304
