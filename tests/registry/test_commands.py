"""The commands, as a shell sees them."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from hooks_app import keys
from hooks_app.models import Agent, RuntimeKey
from hooks_app.registry import heads
from portal import audit
from portal.lib import clock
from portal.models import AuditEvent, Organization, PersonalToken
from portal.people import tokens
from tests import make
from tests.conftest import Clock

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Organization:
    return make.organization("acme")


@pytest.fixture
def agent(acme: Organization) -> Agent:
    return make.agent(acme)


def run(*words: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def refuse(*words: str) -> str:
    err = StringIO()
    with pytest.raises(CommandError) as caught:
        call_command(*words, stdout=StringIO(), stderr=err)
    assert caught.value.returncode == 1
    return err.getvalue() + str(caught.value)


def test_build_registry_prints_what_is_served(agent: Agent) -> None:
    out, err = run("build_registry", "acme/procurement")
    assert json.loads(out) == json.loads(heads.serve(agent, "chat").body)
    assert err == ""
    out, _ = run("build_registry", "acme/procurement", "--surface", "eval")
    assert (json.loads(out)["bypass"], json.loads(out)["hooks"]) == (True, [])
    event = AuditEvent.objects.filter(action="registry.bypass_served").latest("sequence")
    assert (event.actor_kind, event.object_id) == ("shell", str(agent.pk))


def test_build_registry_says_when_the_draft_is_newer(agent: Agent) -> None:
    make.class_hook(agent, "session_context")
    out, err = run("build_registry", "acme/procurement")
    assert "session_context" not in out
    assert "not published" in err


def test_build_registry_names_every_reason(agent: Agent) -> None:
    make.class_hook(agent, "connector_rate_limit", params={"max_calls": 0})
    make.class_hook(agent, "audit_log", priority=5)
    make.publish(agent)
    lines = refuse("build_registry", "acme/procurement").splitlines()
    assert lines[0].startswith("hooks.class_hooks[0].params.max_calls: ")
    assert lines[1].startswith("hooks.class_hooks[1].priority: ")
    assert lines[1].endswith("[protected_hook]")
    assert lines[2] == "The registry of acme/procurement can't be built: 2 reasons."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build_registry", "acme"], "'acme' names no agent; write ORG/AGENT."),
        (["build_registry", "nobody/x"], "There is no organization 'nobody'."),
        (["build_registry", "acme/x"], "Organization 'acme' has no agent 'x'."),
        (["halt", "acme/x", "--reason", "r"], "Organization 'acme' has no agent 'x'."),
        (["halt", "nobody", "--reason", "r"], "There is no organization 'nobody'."),
        (["halt", "acme", "--reason", " "], "reason: say why, for everybody whose calls stop"),
        (["halt", "acme", "--reason", "r", "--until", "noon"], "--until takes a time"),
        (["halt", "acme", "--reason", "r", "--until", "2026-13-01T00:00:00Z"], "--until takes a time"),
        (["halt", "acme", "--reason", "r", "--until", "2999-01-01T00:00:00"], "--until takes a time"),
        (["halt", "acme", "--reason", "r", "--until", "2001-01-01T00:00:00Z"], "until: the time is over"),
        (["halt", "acme"], "--reason"),
        (["resume", "acme/"], "names no agent"),
        (["issue_key"], "--agent --org"),
        (["issue_key", "--org", "nobody"], "There is no organization 'nobody'."),
        (["issue_key", "--agent", "acme/x"], "Organization 'acme' has no agent 'x'."),
        (["issue_key", "--org", "acme", "--scopes", "calls,all"], "scopes: there is no scope 'all'"),
        (["issue_key", "--org", "acme", "--scopes", ""], "scopes: use some of registry"),
        (["issue_key", "--org", "acme", "--expires", "0"], "--expires takes 1 to"),
        (["issue_token", "--user", "nobody"], "There is no user 'nobody'."),
        (["issue_token", "--user", "bob", "--scopes", "approve"], "scopes: there is no scope 'approve'"),
        (["issue_token", "--user", "charlie"], "user: charlie is switched off"),
    ],
)
def test_a_wrong_word_is_named(acme: Organization, words: list[str], message: str) -> None:
    make.user("bob", acme)
    make.user("charlie", acme, is_active=False)
    assert message in refuse(*words)
    assert not RuntimeKey.objects.exists()
    assert not PersonalToken.objects.exists()
    assert not AuditEvent.objects.exists()


def test_halt_and_resume(agent: Agent, time: Clock) -> None:
    ends = time.moment.replace(year=time.moment.year + 1)
    out, _ = run("halt", "acme/procurement", "--reason", "odd payments", "--until", ends.isoformat())
    assert "acme/procurement is halted until" in out
    state = heads.state(agent)
    assert (state["halted"], state["reason"], state["until"]) == (True, "odd payments", clock.rfc3339(ends))
    run("halt", "acme", "--reason", "everybody out")
    out, err = run("resume", "acme/procurement")
    assert (out, err) == ("acme/procurement is resumed.\n", "Its organization acme is still halted.\n")
    assert heads.state(agent)["reason"] == "everybody out"
    assert run("resume", "acme") == ("acme is resumed.\n", "")
    assert run("resume", "acme") == ("acme was not halted.\n", "")
    assert heads.state(agent)["halted"] is False
    events = (
        AuditEvent.objects.filter(action__contains=".").exclude(action="agent.published").order_by("sequence")
    )
    assert [(event.action, event.actor_kind, event.object_name) for event in events] == [
        ("agent.halted", "shell", "procurement"),
        ("organization.halted", "shell", "acme"),
        ("agent.resumed", "shell", "procurement"),
        ("organization.resumed", "shell", "acme"),
    ]
    assert events[0].data == {"reason": "odd payments", "until": clock.rfc3339(ends)}


def test_issue_key_prints_the_key_alone(agent: Agent, time: Clock) -> None:
    out, err = run("issue_key", "--agent", "acme/procurement", "--expires", "2")
    plain = out.removesuffix("\n")
    assert (plain.startswith("hg_"), "\n" in plain, err) == (True, False, "")
    key = keys.authenticate(plain)
    assert key is not None
    assert (key.agent, key.organization.slug) == (agent, "acme")
    assert key.scopes == ["registry", "confirmations", "calls", "limits", "tools", "notify"]
    assert plain not in str(list(RuntimeKey.objects.values()) + list(AuditEvent.objects.values()))
    event = AuditEvent.objects.get(action="key.issued")
    assert (event.actor_kind, event.data["agent"], event.data["scopes"]) == (
        "shell",
        "procurement",
        key.scopes,
    )
    time.advance(days=2)
    assert keys.authenticate(plain) is None


def test_issue_key_for_an_organization_with_scopes(acme: Organization) -> None:
    out, _ = run("issue_key", "--org", "acme", "--scopes", "registry, eval,registry")
    key = keys.authenticate(out.strip())
    assert key is not None
    assert (key.agent, key.scopes, key.expires_at) == (None, ["registry", "eval"], None)


def test_issue_token_prints_the_token_alone(acme: Organization, time: Clock) -> None:
    bob = make.user("bob", acme)
    out, _ = run("issue_token", "--user", "bob")
    plain = out.removesuffix("\n")
    assert (plain.startswith("hgp_"), "\n" in plain) == (True, False)
    token = tokens.authenticate(plain)
    assert token is not None
    assert (token.user, token.scopes) == (bob, ["read"])
    assert plain not in str(list(PersonalToken.objects.values()) + list(AuditEvent.objects.values()))
    assert AuditEvent.objects.get(action="token.issued").data["user"] == "bob"
    out, _ = run("issue_token", "--user", "bob", "--scopes", "read,decide", "--expires", "1")
    decides = tokens.authenticate(out.strip())
    assert decides is not None
    assert decides.scopes == ["read", "decide"]
    time.advance(days=1)
    assert tokens.authenticate(out.strip()) is None
    assert tokens.authenticate(plain) is not None
    bob.is_active = False
    bob.save()
    assert tokens.authenticate(plain) is None


def test_credentials_die_when_they_are_revoked_and_with_their_maker(agent: Agent, time: Clock) -> None:
    alice = make.user("alice", agent.organization, "admin")
    key, plain = keys.issue(organization=agent.organization, created_by=alice, actor=audit.person(alice))
    token, secret = tokens.issue(user=alice, actor=audit.person(alice))
    time.moment = time.moment.replace(second=30)
    used = keys.authenticate(plain)
    assert used is not None
    assert used.last_used_at == time.moment.replace(second=0)
    alice.is_active = False
    alice.save()
    assert (keys.authenticate(plain), tokens.authenticate(secret)) == (None, None)
    alice.is_active = True
    alice.save()
    keys.revoke(key, actor=audit.SHELL)
    keys.revoke(key, actor=audit.SHELL)
    tokens.revoke(token, audit.SHELL)
    assert (keys.authenticate(plain), tokens.authenticate(secret)) == (None, None)
    assert AuditEvent.objects.filter(action="key.revoked").count() == 1
    assert AuditEvent.objects.filter(action="token.revoked").count() == 1
    for word in ("", "hg_", "hgp_", "hg_" + "x" * 32, secret, "hg_\udc80"):
        assert keys.authenticate(word) is None
    assert tokens.authenticate(plain) is None


def test_a_key_is_not_made_for_another_organizations_agent(agent: Agent) -> None:
    from portal.lib.problems import Problem

    other = make.organization("other")
    with pytest.raises(Problem) as caught:
        keys.issue(organization=other, agent=agent, actor=audit.SHELL)
    assert [error.path for error in caught.value.errors] == ["agent"]
