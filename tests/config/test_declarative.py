"""What an apply does to what the file names, and leaves alone of what it doesn't."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from channels_app.models import Identity
from hooks_app.governance import halting
from hooks_app.models import Agent, ApprovalPolicy, Declaration, Publication
from hooks_app.registry import heads, publishing
from portal import audit
from portal.models import Membership, Organization, User
from tests import make
from tests.config import documents

pytestmark = pytest.mark.django_db


def _changed(ended: documents.Ended) -> list[str]:
    assert ended.code == 0, ended.err
    return [line for line in ended.out[:-1] if not line.startswith("unchanged ")]


def _agent(**keys: Any) -> dict[str, Any]:
    return documents.small(agents=[{"slug": "procurement"} | keys])


def test_an_omitted_key_has_its_default(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.example())
    document = documents.example()
    document["organizations"][0]["approval_policies"] = [{"slug": "payments"}]
    document["organizations"][0]["connectors"][0]["actions"] = [{"name": "purchase_pay"}]
    document["organizations"][0]["agents"] = [{"slug": "procurement"}]
    assert _changed(documents.apply(tmp_path, document)) == [
        "changed action acme/oa/purchase_pay",
        "changed agent acme/procurement",
    ]
    agent = Agent.objects.get()
    assert (agent.name, agent.owner, agent.approval_policy) == ("procurement", None, None)
    assert not agent.declarations.exists()
    assert not agent.tools.exists()
    assert not agent.approval_channels.exists()


def test_objects_that_are_not_named_are_left_alone(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.example())
    before = documents.snapshot()
    only = {"slug": "acme", "name": "Acme", "time_zone": "Asia/Seoul"}
    document = {"apiVersion": "hookgate/v1", "organizations": [only]}
    assert documents.apply(tmp_path, document).out == ["unchanged organization acme", "0 changes"]
    assert documents.snapshot() == before


def test_an_action_that_the_file_drops_is_gone(tmp_path: Path) -> None:
    documents.apply(
        tmp_path, documents.small(connectors=[{"slug": "oa", "actions": [{"name": "a"}, {"name": "b"}]}])
    )
    ended = documents.apply(
        tmp_path, documents.small(connectors=[{"slug": "oa", "actions": [{"name": "a"}]}])
    )
    assert _changed(ended) == ["pruned action acme/oa/b"]
    assert ended.last == "1 changes"


def test_a_group_has_exactly_the_members_that_the_file_gives_it(tmp_path: Path) -> None:
    people = [{"user": name} for name in ("alice", "bob", "carol")]
    documents.apply(
        tmp_path, documents.small(members=people, groups=[{"slug": "f", "members": ["alice", "bob"]}])
    )
    again = documents.small(members=people, groups=[{"slug": "f", "members": ["carol", "bob"]}])
    assert _changed(documents.apply(tmp_path, again)) == ["changed group acme/f"]
    assert yaml.safe_load(documents.export())["organizations"][0]["groups"] == [
        {"slug": "f", "members": ["bob", "carol"]}
    ]


def test_a_person_of_another_organization_joins(tmp_path: Path) -> None:
    globex = make.organization("globex")
    carol = make.user("carol", globex, "auditor", email="carol@globex.test")
    ended = documents.apply(tmp_path, documents.small(members=[{"user": "carol", "role": "approver"}]))
    assert "created member acme/carol" in ended.out
    assert User.objects.filter(username="carol").count() == 1
    carol.refresh_from_db()
    assert carol.email == "carol@globex.test"
    roles = dict(Membership.objects.filter(user=carol).values_list("organization__slug", "role"))
    assert roles == {"globex": "auditor", "acme": "approver"}


def test_runtime_users_are_identities_of_the_channel_runtime(tmp_path: Path) -> None:
    member = {"user": "bob", "identities": [{"channel": "runtime", "external_id": "u42", "name": "Bob"}]}
    assert (
        "created identity acme/bob/runtime/u42"
        in documents.apply(tmp_path, documents.small(members=[member])).out
    )
    identity = Identity.objects.get()
    assert (identity.app, identity.external_id, identity.user.username) == (None, "u42", "bob")
    assert documents.apply(tmp_path, documents.export()).last == "0 changes"


def test_an_account_can_move_from_one_person_to_another(tmp_path: Path) -> None:
    account = {"channel": "runtime", "external_id": "u42"}
    documents.apply(
        tmp_path, documents.small(members=[{"user": "bob", "identities": [account]}, {"user": "carol"}])
    )
    moved = documents.small(
        members=[{"user": "bob", "identities": []}, {"user": "carol", "identities": [account]}]
    )
    assert _changed(documents.apply(tmp_path, moved)) == [
        "pruned identity acme/bob/runtime/u42",
        "created identity acme/carol/runtime/u42",
    ]


def test_accounts_are_left_alone_where_the_file_says_nothing_of_them(tmp_path: Path) -> None:
    account = {"channel": "runtime", "external_id": "u42"}
    documents.apply(tmp_path, documents.small(members=[{"user": "bob", "identities": [account]}]))
    assert documents.apply(tmp_path, documents.small(members=[{"user": "bob"}])).last == "0 changes"
    assert Identity.objects.count() == 1


def test_policies_keep_the_files_order(tmp_path: Path) -> None:
    slugs = ["zeta", "alpha", "mid"]
    documents.apply(tmp_path, documents.small(approval_policies=[{"slug": slug} for slug in slugs]))
    assert list(ApprovalPolicy.objects.values_list("slug", flat=True)) == slugs
    documents.apply(tmp_path, documents.small(approval_policies=[{"slug": "new"}, {"slug": "mid"}]))
    assert list(ApprovalPolicy.objects.values_list("slug", flat=True)) == ["new", "mid", "zeta", "alpha"]


def test_default_may_be_declared_and_then_replaces_the_built_in(tmp_path: Path) -> None:
    document = documents.small(
        approval_policy="default", approval_policies=[{"slug": "default", "timeout_seconds": 77}]
    )
    assert "created approval_policy acme/default" in documents.apply(tmp_path, document).out
    assert ApprovalPolicy.objects.get(slug="default").timeout_seconds == 77


def test_references_may_name_what_the_database_has(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.example())
    document = documents.example()
    for key in ("members", "groups", "absences", "channels", "approval_policies", "connectors"):
        del document["organizations"][0][key]
    assert documents.apply(tmp_path, document).last == "0 changes"
    assert documents.apply(tmp_path, document, "--prune").code == 1


def test_fim_ones_spelling_stands_in_place_of_hooks(tmp_path: Path) -> None:
    config = {"model": "gpt-x", "temperature": 0.2, "hooks": {"class_hooks": ["session_context"]}}
    assert documents.apply(tmp_path, _agent(model_config_json=config)).code == 0
    assert list(Declaration.objects.values_list("name", flat=True)) == ["session_context"]
    assert documents.apply(tmp_path, _agent(hooks={"class_hooks": ["session_context"]})).last == "0 changes"
    broken = _agent(model_config_json={"hooks": {"class_hook": []}})
    ended = documents.apply(tmp_path, broken)
    assert [line.split(": ")[0] for line in ended.err] == [
        "organizations[0].agents[0].model_config_json.hooks.class_hook"
    ]
    empty = documents.apply(tmp_path, _agent(model_config_json={"model": "gpt-x"}))
    assert (empty.code, Declaration.objects.count()) == (0, 0)


def test_an_unchanged_hook_keeps_its_id(tmp_path: Path) -> None:
    limit = {"name": "connector_rate_limit", "params": {"max_calls": 5}}
    documents.apply(tmp_path, _agent(hooks={"class_hooks": ["session_context", limit]}))
    before = dict(Declaration.objects.values_list("name", "id"))
    more = {"name": "connector_rate_limit", "params": {"max_calls": 6}}
    documents.apply(tmp_path, _agent(hooks={"class_hooks": [more, "result_truncate", "session_context"]}))
    after = dict(Declaration.objects.values_list("name", "id"))
    assert {name: after[name] for name in before} == before
    assert list(Declaration.objects.values_list("name", flat=True)) == [
        "connector_rate_limit",
        "result_truncate",
        "session_context",
    ]


def test_gaps_in_the_numbers_of_handler_groups_mean_nothing(tmp_path: Path) -> None:
    acme = make.organization(name="Acme")
    agent = make.agent(acme, published=False)
    python = {"type": "python", "target": "a.b:c"}
    make.handler(agent, "Stop", python, group=2)
    make.handler(agent, "Stop", python | {"timeout": 3}, group=7, matcher="x")
    make.publish(agent)
    assert documents.apply(tmp_path, documents.export()).last == "0 changes"


def test_an_agent_is_published_when_its_draft_changed_and_only_then(tmp_path: Path) -> None:
    documents.apply(tmp_path, _agent())
    documents.apply(tmp_path, _agent(enabled=False))
    assert Publication.objects.count() == 1
    documents.apply(tmp_path, _agent(max_pending=5))
    assert Publication.objects.count() == 2


def test_a_draft_that_somebody_left_is_published_with_the_file(tmp_path: Path) -> None:
    documents.apply(tmp_path, _agent())
    agent = Agent.objects.get()
    agent.max_pending = 5
    agent.save()
    assert publishing.is_dirty(agent)
    assert _changed(documents.apply(tmp_path, _agent(max_pending=5))) == ["changed agent acme/procurement"]
    assert not publishing.is_dirty(agent)


def test_a_protected_agents_changes_wait_for_a_second_person(tmp_path: Path) -> None:
    documents.apply(tmp_path, _agent())
    served = Publication.objects.get().content
    ended = documents.apply(tmp_path, _agent(protected=True, max_pending=5))
    assert _changed(ended) == ["changed agent acme/procurement"]
    assert [line for line in ended.err if line.startswith("organizations[0].agents[0]: warning: ")] != []
    assert Publication.objects.get().content == served
    assert publishing.is_dirty(Agent.objects.get())
    again = documents.apply(tmp_path, _agent(protected=True, max_pending=5))
    assert again.last == "0 changes"
    assert "protected" in again.err[0]


def test_a_shared_change_reaches_every_registry(tmp_path: Path) -> None:
    document = _agent()
    documents.apply(tmp_path, document)
    document["organizations"][0]["connectors"] = [{"slug": "oa", "actions": [{"name": "pay"}]}]
    documents.apply(tmp_path, document)
    served = heads.serve(Agent.objects.get(), "chat")
    assert [tool["name"] for tool in json.loads(served.body)["tools"]] == ["oa__pay"]
    version = Organization.objects.get().inputs_version
    documents.apply(tmp_path, document)
    assert Organization.objects.get().inputs_version == version


@pytest.mark.parametrize(
    ("hooks", "path"),
    [
        ({"class_hooks": ["no_such_hook"]}, "class_hooks[0]"),
        ({"class_hooks": [{"name": "connector_rate_limit", "params": {"max_calls": 0}}]}, "params.max_calls"),
        ({"class_hooks": [{"name": "session_context", "when": "args."}]}, "when"),
        (
            {"events": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}},
            "events.Stop[0].hooks[0]",
        ),
    ],
)
def test_what_no_runtime_can_run_is_stored_and_warned_of(tmp_path: Path, hooks: Any, path: str) -> None:
    ended = documents.apply(tmp_path, _agent(hooks=hooks))
    assert ended.code == 0
    places = [line.split(": warning: ")[0] for line in ended.err]
    assert len(places) == 1, ended.err
    assert places[0].startswith("organizations[0].agents[0].hooks.")
    assert path in places[0]
    assert Declaration.objects.count() == 1
    assert documents.apply(tmp_path, documents.export()).last == "0 changes"


def test_a_halt_is_lifted_by_a_file_that_says_so_and_by_no_other(tmp_path: Path) -> None:
    documents.apply(tmp_path, _agent())
    acme, agent = Organization.objects.get(), Agent.objects.get()
    halting.halt(organization=acme, reason="incident", actor=audit.SHELL)
    halting.halt(organization=acme, agent=agent, reason="incident", actor=audit.SHELL)
    halting.set_read_only(organization=acme, read_only=True, actor=audit.SHELL)
    assert documents.apply(tmp_path, _agent()).last == "0 changes"
    assert heads.state(agent) | {"reason": None} == {
        "read_only": True,
        "halted": True,
        "reason": None,
        "until": None,
    }
    document = _agent(halted=False)
    document["organizations"][0] |= {"halted": False, "read_only": False}
    assert _changed(documents.apply(tmp_path, document)) == [
        "changed organization acme",
        "changed agent acme/procurement",
    ]
    assert heads.state(agent) == {"read_only": False, "halted": False, "reason": None, "until": None}


def test_switches_can_be_thrown_from_the_file_and_come_back_from_an_export(tmp_path: Path) -> None:
    document = _agent(halted=True)
    document["organizations"][0] |= {"read_only": True}
    documents.apply(tmp_path, document)
    state = heads.state(Agent.objects.get())
    assert (state["read_only"], state["halted"], bool(state["reason"])) == (True, True, True)
    written = yaml.safe_load(documents.export())["organizations"][0]
    assert (written["read_only"], written["agents"][0]["halted"]) == (True, True)
    assert "halted" not in written


def test_an_export_of_one_organization_holds_no_other(tmp_path: Path) -> None:
    make.organization("acme")
    make.organization("globex")
    written = yaml.safe_load(documents.export("--org", "globex"))
    assert [organization["slug"] for organization in written["organizations"]] == ["globex"]


def test_another_agent_that_a_shared_change_breaks_is_warned_of_too(tmp_path: Path) -> None:
    document = documents.small(
        approval_policies=[{"slug": "slow"}], agents=[{"slug": "one", "approval_policy": "slow"}]
    )
    documents.apply(tmp_path, document)
    stages = [{"name": "first"}]
    broken = documents.small(approval_policies=[{"slug": "slow", "stages": stages}])
    assert documents.apply(tmp_path, broken).code == 1
    ended = documents.apply(tmp_path, broken, "--allow-unbuildable")
    assert ended.code == 0
    assert [line.split(": ")[:2] for line in ended.err] == [
        ["acme/one.approval_policies.slow.stages", "warning"]
    ]
