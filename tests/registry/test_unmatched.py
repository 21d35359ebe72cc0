"""A gate entry whose filter matches no known tool: when it is refused, when it is told, and with which names."""

from pathlib import Path
from typing import Any

import pytest

from hooks_app.models import Action, Agent, Declaration
from hooks_app.registry import heads, publishing, runtimes
from portal import audit
from portal.lib.problems import Problem
from portal.models import Organization
from tests import make
from tests.config import documents

pytestmark = pytest.mark.django_db

ERP = [{"slug": "erp", "actions": [{"name": "pay"}, {"name": "refund"}]}]
OPEN = [{"slug": "crm", "actions": [{"name": "*"}]}]
ENTRY = "organizations[0].agents[0].hooks.class_hooks[0].tool_filter"


def gate(tool_filter: str, **more: Any) -> dict[str, Any]:
    return {"name": "approval_gate", "tool_filter": tool_filter, **more}


def buyer(*hooks: Any, **more: Any) -> dict[str, Any]:
    return {"slug": "buyer", "hooks": {"class_hooks": list(hooks)}, **more}


@pytest.mark.parametrize(
    ("tool_filter", "agent", "near"),
    [
        ("erp__pya", {}, "did you mean erp__pay?"),
        ("erp__transfer_everything", {}, "declare the tool"),
        ("erp__p[b-z]y", {}, "did you mean"),
        ("er__pay", {"tools": [{"name": "shell"}]}, "did you mean erp__pay?"),
        ("bank__transfr", {"tools": [{"name": "bank__transfer"}]}, "did you mean bank__transfer?"),
        ("shel", {"tools": [{"name": "shell"}]}, "did you mean shell?"),
        ("*__transfer", {"tools": [{"name": "shell"}]}, ""),
    ],
)
def test_a_mistyped_gate_is_refused_with_the_nearest_names(
    tmp_path: Path, tool_filter: str, agent: dict[str, Any], near: str
) -> None:
    document = documents.small(connectors=ERP, agents=[buyer(gate(tool_filter), **agent)])
    before = documents.snapshot()
    ended = documents.apply(tmp_path, document)
    assert (ended.code, ended.out) == (1, [])
    assert len(ended.err) == 1
    assert ended.err[0].startswith(f"{ENTRY}: {tool_filter!r} matches no known tool")
    assert near in ended.err[0]
    assert documents.snapshot() == before


@pytest.mark.parametrize(
    ("tool_filter", "connectors"),
    [
        ("bank__transfr", ERP),
        ("*__transfer", ERP),
        ("e?p__pya", ERP),
        ("shell", ERP),
        ("shell", []),
        ("cr__anything", OPEN),
    ],
)
def test_where_nobody_has_named_the_agents_tools_it_is_a_warning(
    tmp_path: Path, tool_filter: str, connectors: list[Any]
) -> None:
    document = documents.small(connectors=connectors, agents=[buyer(gate(tool_filter))])
    for _ in range(2):  # for as long as it lasts
        ended = documents.apply(tmp_path, document)
        assert ended.code == 0
        assert [line for line in ended.err if line.startswith(f"{ENTRY}: warning: {tool_filter!r} matches")]


@pytest.mark.parametrize(
    "tool_filter",
    [
        "erp__pay",
        "erp__*",
        "e*",
        "*",
        "**",
        "*pay",
        "erp__p?y",
        "crm__what_ever",
        "crm__*",
        "c*__anything",
        "[a-c]rm__x",
    ],
)
def test_a_filter_that_finds_something_is_quiet(tmp_path: Path, tool_filter: str) -> None:
    agent = buyer(gate(tool_filter), tools=[{"name": "shell"}])
    ended = documents.apply(tmp_path, documents.small(connectors=[*ERP, *OPEN], agents=[agent]))
    assert (ended.code, ended.err) == (0, [])


def test_it_may_be_meant(tmp_path: Path) -> None:
    entry = gate("erp__later", allow_unmatched=True)
    document = documents.small(connectors=ERP, agents=[buyer(entry)])
    ended = documents.apply(tmp_path, document)
    assert ended.code == 0
    assert len(ended.err) == 1
    assert "erp__later" in ended.err[0]
    assert documents.apply(tmp_path, document).last == "0 changes"
    assert "allow_unmatched: true" in documents.export()
    agent = Agent.objects.get()
    assert b"allow_unmatched" not in heads.serve(agent, "chat").body


def test_a_registry_in_force_stays_when_its_tool_goes(tmp_path: Path) -> None:
    agents = [buyer(gate("erp__refund"))]
    assert documents.apply(tmp_path, documents.small(connectors=ERP, agents=agents)).code == 0
    agent = Agent.objects.get()
    served = heads.serve(agent, "chat")
    fewer = [{"slug": "erp", "actions": [{"name": "pay"}]}]
    ended = documents.apply(tmp_path, documents.small(connectors=fewer, agents=agents))
    assert ended.code == 0
    assert ended.err[0].startswith(f"{ENTRY}: warning: 'erp__refund' matches no known tool")
    assert heads.serve(agent, "chat").digest != served.digest  # one tool fewer
    [warning] = heads.head(agent).warnings
    assert (warning["path"], warning["code"]) == ("hooks.class_hooks[0].tool_filter", "unmatched_gate")
    # Published before, so that another change of the agent can be published.
    again = documents.small(connectors=fewer, agents=[buyer(gate("erp__refund"), unlisted_tools="deny")])
    assert documents.apply(tmp_path, again).code == 0
    # A changed entry is a new one.
    changed = documents.small(connectors=fewer, agents=[buyer(gate("erp__refund", when="args.amount > 5"))])
    assert documents.apply(tmp_path, changed).code == 1


def test_a_draft_is_not_published_and_the_old_registry_stays() -> None:
    acme = make.organization()
    make.connector(acme, "erp", pay={})
    agent = make.agent(acme)
    before = heads.serve(agent, "chat").digest
    make.class_hook(agent, "feishu_gate", tool_filter="erp__pya")
    with pytest.raises(Problem) as refused:
        publishing.publish(agent=agent, actor=audit.SHELL)
    assert (refused.value.status, refused.value.code) == (422, "unmatched_gate")
    assert "did you mean erp__pay?" in refused.value.detail
    assert heads.serve(agent, "chat").digest == before
    Declaration.objects.update(allow_unmatched=True)
    publishing.publish(agent=agent, actor=audit.SHELL)
    assert heads.head(agent).warnings[0]["code"] == "unmatched_gate"


def announce(agent: Agent, *names: str) -> None:
    runtimes.report_tools(
        agent, "worker-1", [{"name": n, "description": "", "input_schema": None} for n in names]
    )


def test_what_runtimes_announce_is_known() -> None:
    acme = make.organization()
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "approval_gate", tool_filter="bank__transfer")
    make.publish(agent)  # a warning: nobody has named the agent's tools
    assert [w["code"] for w in heads.head(agent).warnings] == ["unmatched_gate"]
    announce(agent, "bank__transfer", "read_file")
    assert heads.head(agent).warnings == []
    announce(agent, "read_file")
    [warning] = heads.head(agent).warnings
    assert warning["path"] == "hooks.class_hooks[0].tool_filter"
    make.class_hook(agent, "approval_gate", tool_filter="read_fiel")
    with pytest.raises(Problem, match="did you mean read_file"):
        publishing.publish(agent=agent, actor=audit.SHELL)


def test_other_hooks_filters_and_matchers_are_warnings(tmp_path: Path) -> None:
    hooks = {
        "class_hooks": [{"name": "result_truncate", "tool_filter": "erp__pya"}],
        "events": {
            "PreToolUse": [
                {"matcher": "erp__pay|erp__refnd", "hooks": [{"type": "python", "target": "acme:guard"}]},
                {"matcher": "^erp__x.*", "hooks": [{"type": "python", "target": "acme:guard"}]},
                {"matcher": "erp__.*", "hooks": [{"type": "python", "target": "acme:guard"}]},
            ],
            "SessionStart": [{"matcher": "startup", "hooks": [{"type": "python", "target": "acme:guard"}]}],
        },
    }
    document = documents.small(connectors=ERP, agents=[{"slug": "buyer", "hooks": hooks}])
    ended = documents.apply(tmp_path, document)
    at = "organizations[0].agents[0].hooks"
    assert ended.code == 0
    assert [line.split(" matches")[0].split(" is no")[0] for line in ended.err] == [
        f"{at}.class_hooks[0].tool_filter: warning: 'erp__pya'",
        f"{at}.events.PreToolUse[0].matcher: warning: 'erp__refnd'",
        f"{at}.events.PreToolUse[1].matcher: warning: '^erp__x.*'",
    ]


def test_the_other_spelling_of_hooks_is_named_where_it_stands(tmp_path: Path) -> None:
    agent = {"slug": "buyer", "model_config_json": {"hooks": {"class_hooks": [gate("erp__pya")]}}}
    ended = documents.apply(tmp_path, documents.small(connectors=ERP, agents=[agent]))
    assert ended.err[0].startswith(
        "organizations[0].agents[0].model_config_json.hooks.class_hooks[0].tool_filter: 'erp__pya'"
    )


def test_build_registry_prints_warnings(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.small(connectors=ERP, agents=[buyer(gate("bank__pay"))]))
    ended = documents._call("build_registry", "acme/buyer")
    assert ended.code == 0
    assert '"code": "unmatched_gate"' in "\n".join(ended.out)
    assert ended.err[0].startswith(
        "hooks.class_hooks[0].tool_filter: warning: 'bank__pay' matches no known tool"
    )


BROKEN = [{"name": "notify", "params": {"channel": "nowhere", "text": "x"}}]


def test_apply_keeps_a_registry_that_works(tmp_path: Path) -> None:
    assert documents.apply(tmp_path, documents.small(agents=[buyer()])).code == 0
    agent = Agent.objects.get()
    digest = heads.serve(agent, "chat").digest
    before = documents.snapshot()
    broken = documents.small(agents=[buyer(*BROKEN)])
    ended = documents.apply(tmp_path, broken)
    assert (ended.code, ended.out) == (1, [])
    assert ended.err[0].startswith(
        "organizations[0].agents[0].hooks.class_hooks[0].params.channel: there is no channel"
    )
    assert "--allow-unbuildable" in ended.err[0]
    assert documents.snapshot() == before
    assert heads.serve(agent, "chat").digest == digest
    meant = documents.apply(tmp_path, broken, "--allow-unbuildable")
    assert meant.code == 0
    assert "warning: there is no channel 'nowhere'" in meant.err[0]
    with pytest.raises(Problem, match="registry can't be built"):
        heads.serve(agent, "chat")
    # Nothing is lost any more, so that nothing needs to be meant.
    assert documents.apply(tmp_path, broken).code == 0


def test_apply_keeps_the_registries_of_agents_that_the_file_does_not_name(tmp_path: Path) -> None:
    policies = [{"slug": "payments"}]
    first = documents.small(approval_policies=policies, agents=[buyer(approval_policy="payments")])
    assert documents.apply(tmp_path, first).code == 0
    broken = documents.small(approval_policies=[{"slug": "payments", "remind_after_seconds": 5}])
    ended = documents.apply(tmp_path, broken)
    assert ended.code == 1
    assert ended.err[0].startswith("acme/buyer.approval_policies.payments.remind_after_seconds: ")
    assert heads.works(Agent.objects.get())


FEISHU = [{"slug": "ops-feishu", "type": "feishu", "config": documents.FEISHU}]
TO_FINANSE = [{"slug": "p", "scope": "group", "group": "finanse"}]
TO_FEISH = {"name": "notify", "params": {"channel": "ops-feish", "text": "x"}}


@pytest.mark.parametrize(
    ("organization", "near"),
    [
        ({"agents": [buyer(approval_channels=["ops-feish"])], "channels": FEISHU}, "ops-feishu"),
        ({"agents": [buyer(TO_FEISH)], "channels": FEISHU}, "ops-feishu"),
        (
            {"agents": [buyer(approval_policy="paymnts")], "approval_policies": [{"slug": "payments"}]},
            "payments",
        ),
        ({"agents": [buyer(may_delegate_to=["researchr"]), {"slug": "researcher"}]}, "researcher"),
        ({"groups": [{"slug": "finance", "members": ["alise"]}]}, "alice"),
        ({"approval_policies": TO_FINANSE, "groups": [{"slug": "finance"}]}, "finance"),
        ({"agents": [buyer("aproval_gate")]}, "approval_gate"),
    ],
)
def test_a_mistyped_name_gets_the_nearest(tmp_path: Path, organization: dict[str, Any], near: str) -> None:
    ended = documents.apply(tmp_path, documents.small(**organization))
    assert f"did you mean {near}?" in "\n".join(ended.err)


def test_a_filter_of_a_tool_that_an_admin_removes_is_told_and_breaks_nothing() -> None:
    acme: Organization = make.organization()
    make.connector(acme, "erp", pay={})
    agent = make.agent(acme, published=False)
    make.class_hook(agent, "approval_gate", tool_filter="erp__pay")
    make.publish(agent)
    assert heads.head(agent).warnings == []
    Action.objects.all().delete()
    heads.inputs_changed_by_hand(acme)
    assert heads.works(agent)
    assert heads.head(agent).warnings[0]["code"] == "unmatched_gate"
