"""The commands' other ways to be called, and to end."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError

from portal.models import AuditEvent
from tests import make
from tests.config import documents

pytestmark = pytest.mark.django_db


def test_a_file_may_come_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(documents.EXAMPLE.read_bytes())))
    assert documents.apply_file(Path("-")).last == "11 changes"


def test_a_lost_encryption_key_is_said_and_changes_nothing(
    tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    documents.apply_file(documents.EXAMPLE)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]  # type: ignore[attr-defined]
    events = AuditEvent.objects.count()
    ended = documents.apply_file(documents.EXAMPLE)
    assert ended.code == 1
    assert ended.err[0].startswith("(database): ")
    assert "HOOKGATE_ENCRYPTION_KEYS" in ended.err[0]
    assert AuditEvent.objects.count() == events


def test_an_export_of_an_unknown_organization_is_an_error() -> None:
    with pytest.raises(CommandError, match="no organization 'nobody'"):
        documents.export("--org", "nobody")


def test_an_export_of_nothing_is_a_file_all_the_same(tmp_path: Path) -> None:
    assert documents.export() == "apiVersion: hookgate/v1\norganizations: []\n"
    assert documents.apply(tmp_path, documents.export()).out == ["0 changes"]


def test_what_a_file_can_not_say_is_told(tmp_path: Path) -> None:
    acme = make.organization()
    carol = make.user("carol")
    make.agent(acme, owner=carol)
    ended = documents.export_with_notes()
    assert ended.err == ["agent procurement: the owner carol is left out, because they are no member"]
    assert "owner" not in "\n".join(ended.out)
