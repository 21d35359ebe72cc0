"""Export then apply changes nothing, and makes the same of an empty database: over many generated documents."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest
import yaml
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings

from hooks_app.config import apply, export, schema, writing
from hooks_app.models import Agent
from hooks_app.registry import heads, publishing
from portal.models import Organization
from tests.config import documents, generated

pytestmark = pytest.mark.django_db
VALIDATOR = jsonschema.Draft202012Validator(schema.json_schema())


def _apply(document: Any, **options: Any) -> int:
    return sum(change.counts for change in apply.apply(document, actor=documents.ACTOR, **options).changes)


def test_every_line_break_survives_the_file() -> None:
    document = {"name": "a\x85= b", "more": ["\u2028", "\r\n", "\x85", "plain"]}
    assert yaml.safe_load(writing.to_yaml(document)) == document


def _export() -> tuple[dict[str, Any], dict[str, str]]:
    """The export, through YAML and back, and an environment for its placeholders."""
    document = export.export(Organization.objects.all())
    environment = {
        value[2:-1]: documents.FEISHU[key]
        for organization in document["organizations"]
        for channel in organization.get("channels", [])
        for key, value in channel["config"].items()
        if value.startswith("${")
    }
    return yaml.safe_load(writing.to_yaml(document)), environment


def _governing() -> dict[str, Any]:
    """What the agents are: drafts without ids, and the digest or the errors of each registry."""
    governing = {}
    for agent in Agent.objects.select_related("organization").order_by("organization__slug", "slug"):
        head = heads.head(agent)
        draft = publishing.draft(agent)
        for entry in [*draft["class_hooks"], *draft["events"]]:
            del entry["id"]
        digest = head.revision.digest if head.revision else None
        governing[f"{agent.organization.slug}/{agent.slug}"] = (draft, digest, sorted(map(repr, head.errors)))
    return governing


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking a whole database takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(document=generated.files())
def test_an_export_says_everything_and_nothing_else(document: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(document)) == []
    with transaction.atomic():
        assert _apply(document) > 0
        assert _apply(document) == 0
        exported, environment = _export()
        governing = _governing()
        assert list(VALIDATOR.iter_errors(exported)) == []
        # The variables are not set: what is stored is kept.
        assert _apply(exported) == 0
        assert _apply(exported, prune=True) == 0
        transaction.set_rollback(True)
    with transaction.atomic(), mock.patch.dict(os.environ, environment):
        assert not Organization.objects.exists()
        assert _apply(exported) > 0
        assert _export()[0] == exported
        assert _governing() == governing
        assert _apply(document) == 0
        transaction.set_rollback(True)


def test_the_examples_export_makes_the_same_of_an_empty_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transaction.atomic():
        documents.apply_file(documents.EXAMPLE)
        exported = documents.export()
        assert documents.apply(tmp_path, exported, "--prune").last == "0 changes"
        transaction.set_rollback(True)
    for name, secret in (("APP_SECRET", "s"), ("ENCRYPT_KEY", "e"), ("VERIFICATION_TOKEN", "t")):
        monkeypatch.setenv(f"ACME_OPS_FEISHU_{name}", secret)
    assert documents.apply(tmp_path, exported).last == "11 changes"
    assert documents.export() == exported
