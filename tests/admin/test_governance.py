"""Agents, hooks, policies, connectors, keys: what an admin changes, and what follows from it."""

import re

import pytest
from django.test import Client

from hooks_app import switches
from hooks_app.models import ApprovalPolicy, Connector, Declaration, Publication, RegistryRevision
from hooks_app.registry import heads, publishing
from portal.lib.problems import Problem
from portal.models import AuditEvent
from tests import make
from tests.admin.forms import errors, save
from tests.admin.tenant import Tenant, sign_in


@pytest.fixture
def browser(acme: Tenant) -> Client:
    """The admin's."""
    return sign_in(acme.people["admin"])


def actions() -> list[str]:
    """What the audit trail says, oldest first."""
    return list(AuditEvent.objects.order_by("sequence").values_list("action", flat=True))


def test_a_changed_agent_is_a_draft_until_it_is_published(acme: Tenant, browser: Client) -> None:
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    before = heads.serve(acme.agent, "chat")
    answer = save(browser, address, unlisted_tools="deny")
    assert answer.status_code == 302
    assert heads.serve(acme.agent, "chat").digest == before.digest
    page = browser.get(address).content.decode()
    assert "The draft below differs from what is published" in page
    publish = f"/admin/hooks_app/agent/{acme.agent.pk}/publish/"
    shown = browser.get(publish).content.decode()
    assert "-  &quot;unlisted_tools&quot;: &quot;confirm&quot;" in shown
    assert "+  &quot;unlisted_tools&quot;: &quot;deny&quot;" in shown
    assert browser.post(publish, {"comment": "stricter"}).status_code == 302
    after = heads.serve(acme.agent, "chat")
    assert (after.revision, after.digest != before.digest) == (before.revision + 1, True)
    publication = Publication.objects.first()
    assert publication is not None
    assert (publication.author, publication.comment) == (acme.people["admin"], "stricter")
    assert actions()[-2:] == ["agent.changed", "agent.published"]
    event = AuditEvent.objects.get(action="agent.changed")
    assert event.data == {"unlisted_tools": ["confirm", "deny"]}
    assert event.actor_name == "acme-admin"
    page = browser.get(address).content.decode()
    assert "Revision 2 is what runtimes are served." in page
    assert "stricter" in page


def test_saving_an_unchanged_agent_says_nothing(acme: Tenant, browser: Client) -> None:
    before = actions()
    assert save(browser, f"/admin/hooks_app/agent/{acme.agent.pk}/change/").status_code == 302
    assert actions() == before
    assert not publishing.is_dirty(acme.agent)


def test_a_new_agent_starts_unpublished(acme: Tenant, browser: Client) -> None:
    answer = save(browser, "/admin/hooks_app/agent/add/", slug="fresh", name="Fresh")
    assert answer.status_code == 302, errors(answer)
    row = acme.organization.agents.get(slug="fresh")
    page = browser.get(f"/admin/hooks_app/agent/{row.pk}/change/").content.decode()
    assert "This agent was never published" in page
    with pytest.raises(Problem, match="never published"):
        heads.serve(row, "chat")
    assert browser.post(f"/admin/hooks_app/agent/{row.pk}/publish/", {"comment": ""}).status_code == 302
    assert heads.serve(row, "chat").revision == 1


def test_two_agents_of_one_name_are_refused_at_the_field(acme: Tenant, browser: Client) -> None:
    answer = save(browser, "/admin/hooks_app/agent/add/", slug="acme-agent", name="Again")
    assert answer.status_code == 200
    assert "already exists" in errors(answer)


def test_every_reason_against_the_registry_is_on_the_agents_page(acme: Tenant, browser: Client) -> None:
    make.class_hook(acme.agent, "no_such_hook")
    make.class_hook(acme.agent, "notify", params={"channel": "nowhere"})
    make.publish(acme.agent)
    page = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/change/").content.decode()
    assert "hooks.class_hooks[1].name" in page
    assert "no hook is called &#x27;no_such_hook&#x27;" in page
    assert "hooks.class_hooks[2].params.channel" in page
    registry_page = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/registry/").content.decode()
    assert "nothing is served" in registry_page
    assert "hooks.class_hooks[1].name" in registry_page


@pytest.mark.parametrize("surface", ["api", "chat", "dag", "eval", "subagent", "workflow"])
def test_the_registry_is_shown_per_surface(acme: Tenant, browser: Client, surface: str) -> None:
    page = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/registry/?surface={surface}").content.decode()
    assert f"&quot;surface&quot;: &quot;{surface}&quot;" in page
    served = heads.serve(acme.agent, surface)
    assert served.digest in page
    assert ("approval_gate" in page) == (surface != "eval")


def test_roll_back(acme: Tenant, browser: Client) -> None:
    first = heads.head(acme.agent).revision
    assert first is not None
    make.class_hook(acme.agent, "notify", params={"channel": "acme-chat"})
    make.publish(acme.agent)
    assert heads.serve(acme.agent, "chat").revision == 2
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/rollback/"
    assert 'value="1"' in browser.get(f"{address}?number=1").content.decode()
    refused = browser.post(address, {"number": "77"})
    assert "no revision of this number" in refused.content.decode()
    assert browser.post(address, {"number": "1", "comment": "back"}).status_code == 302
    served = heads.serve(acme.agent, "chat")
    assert (served.revision, served.digest) == (3, first.digest)
    assert actions()[-1] == "agent.rolled_back"
    assert publishing.is_dirty(acme.agent)


def test_the_draft_is_rolled_back_too_unless_somebody_wants_to_keep_it(acme: Tenant, browser: Client) -> None:
    first = heads.head(acme.agent).revision
    assert first is not None
    before = publishing.draft(acme.agent)
    make.class_hook(acme.agent, "notify", params={"channel": "acme-chat"})
    type(acme.agent).objects.filter(pk=acme.agent.pk).update(unlisted_tools="deny", max_pending=3)
    acme.agent.tools.create(name="calculator", writes=False)
    acme.agent.refresh_from_db()
    make.publish(acme.agent)
    assert heads.serve(acme.agent, "chat").revision == 2
    address = f"/admin/hooks_app/agent/{acme.agent.pk}/rollback/"
    kept = browser.post(address, {"number": "1"}, follow=True).content.decode()
    assert "publishing it brings back what was rolled back" in kept
    assert (
        "+  &quot;max_pending&quot;: 3"
        in browser.get(address.replace("rollback", "publish")).content.decode()
    )
    same = browser.post(address, {"number": "1", "restore": "on"}, follow=True).content.decode()
    assert "The draft is the same now." in same
    acme.agent.refresh_from_db()
    assert publishing.draft(acme.agent) == before
    assert not publishing.is_dirty(acme.agent)
    assert actions()[-2:] == ["agent.rolled_back", "agent.draft_restored"]
    assert heads.serve(acme.agent, "chat").digest == first.digest


def test_halt_and_resume_an_agent(acme: Tenant, browser: Client) -> None:
    address = f"/admin/hooks_app/agent/{acme.agent.pk}"
    assert browser.post(f"{address}/halt/", {"reason": " "}).status_code == 200
    assert browser.post(f"{address}/halt/", {"reason": "odd payments"}).status_code == 302
    acme.agent.refresh_from_db()
    assert switches.state(acme.agent, acme.organization)["reason"] == "odd payments"
    assert "odd payments" in browser.get(f"{address}/change/").content.decode()
    assert browser.get(f"{address}/halt/").status_code == 403
    assert browser.post(f"{address}/resume/").status_code == 302
    acme.agent.refresh_from_db()
    assert not switches.is_halted(acme.agent)
    assert actions()[-2:] == ["agent.halted", "agent.resumed"]


def test_halt_and_read_only_of_an_organization(acme: Tenant, browser: Client) -> None:
    address = f"/admin/portal/organization/{acme.organization.pk}"
    late = {"reason": "audit", "until_0": "2001-01-01", "until_1": "00:00:00"}
    assert "the time is over" in browser.post(f"{address}/halt/", late).content.decode()
    for button, column, value in (
        ("set_read_only", "read_only", True),
        ("set_writable", "read_only", False),
        ("halt", "halted", True),
        ("resume", "halted", False),
    ):
        assert browser.post(f"{address}/{button}/", {"reason": "audit"}).status_code == 302, button
        acme.organization.refresh_from_db()
        assert getattr(acme.organization, column) is value
    assert actions()[-4:] == [
        "organization.read_only",
        "organization.writable",
        "organization.halted",
        "organization.resumed",
    ]


def test_a_hook_is_declared_with_its_typed_parameters(acme: Tenant, browser: Client) -> None:
    chosen = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/add_hook/").content.decode()
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook=connector_rate_limit"
    assert address.replace("&", "&amp;") in chosen
    form = browser.get(address).content.decode()
    assert "Calls allowed within one window." in form
    answer = save(browser, address, param_max_calls="3", tool_filter="oa__*", position="5")
    assert answer.status_code == 302, errors(answer)
    assert answer.headers["location"] == f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    row = Declaration.objects.get(name="connector_rate_limit")
    assert row.params == {"max_calls": 3, "window_seconds": 60}
    assert (row.tool_filter, row.when, row.on_error, row.agent) == ("oa__*", None, None, acme.agent)
    make.publish(acme.agent)
    assert b'"max_calls":3' in heads.serve(acme.agent, "chat").body
    assert "hook.created" in actions()


@pytest.mark.parametrize(
    ("hook", "values", "field"),
    [
        ("connector_rate_limit", {"param_max_calls": "0"}, "param_max_calls"),
        ("connector_rate_limit", {"when": "args.amount >"}, "when"),
        ("connector_rate_limit", {"priority": "950"}, "priority"),
        ("session_context", {"tool_filter": "oa__*"}, "tool_filter"),
        ("notify", {"param_channel": "nowhere"}, "param_channel"),
        ("feishu_gate", {"param_policy": "not a slug", "asks": "nothing"}, "param_policy"),
    ],
)
def test_a_wrong_declaration_is_refused_at_its_field(
    acme: Tenant, browser: Client, hook: str, values: dict[str, str], field: str
) -> None:
    before = Declaration.objects.count(), actions()
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook={hook}"
    answer = save(browser, address, **values)
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]
    assert (Declaration.objects.count(), actions()) == before


def test_a_list_that_has_a_default_shows_it(acme: Tenant, browser: Client) -> None:
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook=notify"
    page = browser.get(address).content.decode()
    boxes = re.findall(r'<input[^>]*name="param_points"[^>]*>', page)
    checked = [box for box in boxes if re.search(r"\schecked[\s=>/]", box)]
    assert len(boxes) == 15
    assert ['value="PostToolUse"' in box for box in checked] == [True]


def test_a_handler_of_ones_own(acme: Tenant, browser: Client) -> None:
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}"
    wrong = save(browser, address, event="PostToolUse", handler='{"type": "command", "command": "x"}')
    assert list(wrong.context["adminform"].form.errors) == ["handler"]
    assert "no runtime of this release runs handlers of type" in errors(wrong)
    broken = save(browser, address, event="PostToolUse", handler="{")
    assert list(broken.context["adminform"].form.errors) == ["handler"]
    unmatched = save(
        browser, address, event="PostToolUse", handler='{"type": "python", "target": "a.b:c"}', matcher="("
    )
    assert list(unmatched.context["adminform"].form.errors) == ["matcher"]
    good = save(
        browser,
        address,
        event="PostToolUse",
        handler='{"type": "python", "target": "a.b:c"}',
        matcher="oa__.*",
    )
    assert good.status_code == 302, errors(good)
    row = Declaration.objects.get(source="events")
    assert (row.event, row.matcher, row.handler) == (
        "PostToolUse",
        "oa__.*",
        {"type": "python", "target": "a.b:c"},
    )
    make.publish(acme.agent)
    assert b"PostToolUse[0].hooks[0]" in heads.serve(acme.agent, "chat").body


def test_the_hooks_that_are_attached_offer_no_way_around(acme: Tenant, browser: Client) -> None:
    for hook, offered in (
        ("readonly_guard", {"position"}),
        ("audit_log", {"param_max_queued", "param_redact", "param_results", "position"}),
        (
            "approval_gate",
            {"param_policy", "param_channel", "asks", "tool_filter", "when", "allow_unmatched", "position"},
        ),
    ):
        address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook={hook}"
        assert set(browser.get(address).context["adminform"].form.fields) == offered
    address = f"/admin/hooks_app/declaration/add/?agent={acme.agent.pk}&hook=readonly_guard"
    save(browser, address, enabled="", mode="observe", on_error="allow", priority="1")
    row = Declaration.objects.get(name="readonly_guard")
    assert (row.enabled, row.mode, row.on_error, row.priority) == (True, "enforce", None, None)


def test_a_hook_for_another_tenants_agent_is_not_offered(
    acme: Tenant, initech: Tenant, browser: Client
) -> None:
    address = f"/admin/hooks_app/declaration/add/?agent={initech.agent.pk}&hook=notify"
    for answer in (
        browser.get(address),
        browser.post(address, {"param_channel": "initech-chat", "position": "0"}),
    ):
        assert answer.headers["location"] == "/admin/hooks_app/agent/"
    assert not Declaration.objects.filter(agent=initech.agent, name="notify").exists()


def test_a_channel_of_another_tenant_is_no_approval_channel(
    acme: Tenant, initech: Tenant, browser: Client
) -> None:
    from channels_app.models import Channel

    address = f"/admin/hooks_app/agent/{acme.agent.pk}/change/"
    answer = save(
        browser,
        address,
        **{
            "approval_channel_rows-TOTAL_FORMS": "2",
            "approval_channel_rows-1-channel": str(initech.row(Channel).pk),
            "approval_channel_rows-1-position": "1",
        },
    )
    assert answer.status_code == 200
    assert acme.agent.approval_channel_rows.count() == 1


def test_a_changed_policy_holds_at_once(acme: Tenant, browser: Client) -> None:
    row = acme.row(ApprovalPolicy)
    before = acme.organization.inputs_version
    acme.organization.refresh_from_db()
    before = acme.organization.inputs_version
    answer = save(browser, f"/admin/hooks_app/approvalpolicy/{row.pk}/change/", quorum="2")
    assert answer.status_code == 302, errors(answer)
    row.refresh_from_db()
    acme.organization.refresh_from_db()
    assert (row.quorum, acme.organization.inputs_version) == (2, before + 1)
    assert AuditEvent.objects.get(action="approval_policy.changed").data == {"quorum": [1, 2]}


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"scope": "group"}, "group"),
        ({"quorum": "0"}, "quorum"),
        ({"timeout_seconds": "259201"}, "timeout_seconds"),
        ({"stages": "["}, "stages"),
    ],
)
def test_a_policy_whose_parts_disagree_is_refused(
    acme: Tenant, browser: Client, values: dict[str, str], field: str
) -> None:
    answer = save(browser, f"/admin/hooks_app/approvalpolicy/{acme.row(ApprovalPolicy).pk}/change/", **values)
    assert list(answer.context["adminform"].form.errors) == [field]


def test_a_changed_action_reaches_the_registry(acme: Tenant, browser: Client) -> None:
    row = acme.row(Connector)
    before = heads.serve(acme.agent, "chat").digest
    address = f"/admin/hooks_app/connector/{row.pk}/change/"
    answer = save(
        browser, address, **{"actions-0-requires_confirmation": "", "actions-0-redact": "card_number\niban"}
    )
    assert answer.status_code == 302, errors(answer)
    assert row.actions.get().redact == ["card_number", "iban"]
    assert heads.serve(acme.agent, "chat").digest != before
    event = AuditEvent.objects.get(action="connector.changed")
    assert event.data == {"actions": {"changed": ["acme_oa__pay"]}}


def test_a_policy_that_is_used_is_not_deleted_and_its_users_are_named(acme: Tenant, browser: Client) -> None:
    acme.agent.approval_policy = "acme-policy"
    acme.agent.save()
    make.publish(acme.agent)
    row = acme.row(ApprovalPolicy)
    address = f"/admin/hooks_app/approvalpolicy/{row.pk}/delete/"
    for method in (browser.get, lambda at: browser.post(at, {"post": "yes"})):
        page = browser.get(method(address).headers["Location"]).content.decode()
        assert (
            f"This is in use and stays: agent {acme.agent.slug}, agent {acme.agent.slug} (published)." in page
        )
    # No more named in the draft, but still in what is published.
    acme.agent.approval_policy = None
    acme.agent.save()
    assert browser.post(address, {"post": "yes"}).headers["Location"].endswith("/change/")
    assert ApprovalPolicy.objects.filter(pk=row.pk).exists()
    assert heads.works(acme.agent)
    make.publish(acme.agent)
    assert browser.post(address, {"post": "yes"}).status_code == 302
    assert not ApprovalPolicy.objects.filter(pk=row.pk).exists()
    assert "approval_policy.deleted" in actions()


def test_the_history_of_a_row_is_its_audit_trail(acme: Tenant, browser: Client) -> None:
    save(browser, f"/admin/hooks_app/agent/{acme.agent.pk}/change/", name="Renamed")
    answer = browser.get(f"/admin/hooks_app/agent/{acme.agent.pk}/history/", follow=True)
    events = [event.action for event in answer.context["cl"].result_list]
    assert events == ["agent.changed", "agent.published"]


def test_revisions_and_requests_are_not_for_editing(acme: Tenant, browser: Client) -> None:
    row = acme.row(RegistryRevision)
    page = f"/admin/hooks_app/registryrevision/{row.pk}"
    assert browser.post(f"{page}/change/", {"comment": "nicer"}).status_code == 403
    assert browser.post(f"{page}/delete/", {"post": "yes"}).status_code == 403
