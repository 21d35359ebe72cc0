"""A matcher of an earlier release: named by `migrate`, told on the agent's page, served as it is until it is edited."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from hookgate.registry.manifest import manifest_digest, parse

from examples.portal_process import PortalProcess
from hooks_app.models import Agent, Declaration, RegistryRevision
from hooks_app.registry import heads
from tests import make

pytestmark = pytest.mark.django_db
OLD = "^(?!oa__).*"
CAP = {"type": "python", "target": "acme.hooks:cap"}


@pytest.fixture
def agent() -> Agent:
    """Published with a matcher that this release takes, then as an earlier one left it."""
    agent = make.agent(make.organization("acme"), published=False)
    make.handler(agent, "PreToolUse", CAP, matcher="crm__.*x")
    make.publish(agent)
    heads.head(agent)
    Declaration.objects.filter(agent=agent).update(matcher=OLD)
    row = RegistryRevision.objects.get(agent=agent)
    hook = next(hook for hook in row.manifest["hooks"] if hook["matcher"])
    hook["matcher"] = OLD
    row.manifest["digest"] = manifest_digest(row.manifest)
    RegistryRevision.objects.filter(pk=row.pk).update(manifest=row.manifest, digest=row.manifest["digest"])
    return agent


def test_migrate_names_it(agent: Agent) -> None:
    said = StringIO()
    call_command("migrate", stdout=said)
    told = said.getvalue()
    assert "acme/procurement: hooks.events.PreToolUse[0].matcher: the matcher '^(?!oa__).*'" in told
    assert "acme/procurement: revision 1, PreToolUse[0].hooks[0]: the matcher '^(?!oa__).*'" in told
    assert "publish" in told
    Declaration.objects.filter(agent=agent).update(matcher="oa__.*y")
    said = StringIO()
    call_command("migrate", stdout=said)
    assert "hooks.events" not in said.getvalue()
    assert "revision 1" in said.getvalue()


def test_a_part_of_the_migrations_says_nothing_of_it(tmp_path: Path) -> None:
    """Where the tables are not there yet, or are those of an older release."""
    with PortalProcess(tmp_path) as portal:
        for target in (("portal",), ("hooks_app", "0003"), (), ("hooks_app", "0004")):
            said = portal.manage("migrate", *target)
            assert "Matchers" not in said


def test_migrate_has_nothing_to_say_of_others() -> None:
    agent = make.agent(make.organization("acme"), published=False)
    make.handler(agent, "PreToolUse", CAP, matcher="oa__.*y")
    make.publish(agent)
    said = StringIO()
    call_command("migrate", stdout=said)
    assert "matcher" not in said.getvalue().lower()


def test_what_is_published_is_served_and_read(agent: Agent) -> None:
    read = parse(json.loads(heads.serve(agent, "chat").body))
    matches = next(hook.matches_subject for hook in read.hooks if hook.matcher)
    assert matches is not None
    assert [matches("crm__read"), matches("oa__pay")] == [True, False]
    assert heads.published(agent).manifest.digest == read.digest


def test_the_agents_page_tells_it_of_the_draft(agent: Agent, client: Client) -> None:
    admin = make.user("ada", agent.organization, "admin")
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/admin/hooks_app/agent/{agent.pk}/change/").content.decode()
    assert "hooks.events.PreToolUse[0].matcher" in page
    assert "without look-around and back references" in page
