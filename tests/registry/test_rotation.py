"""The encryption key is replaced: every secret, or none."""

from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection

from channels_app.models import App, Channel
from portal import rotation
from portal.models import Organization
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Organization:
    return make.organization("acme")


def stored(table: str, column: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def test_every_encrypted_column_is_found() -> None:
    assert {str(column) for column in rotation.columns()} >= {
        "channels_app.App.token",
        "channels_app.Channel.config",
        "hooks_app.ConfirmationRequest.approved_args",
        "hooks_app.ConfirmationRequest.args",
    }


def test_the_new_key_reads_everything_and_the_old_one_is_not_needed(
    acme: Organization, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [old]
    monkeypatch.setattr(rotation, "BATCH", 2)
    for number in range(5):
        make.channel(acme, f"ops-{number}", config={"chat_id": f"oc_{number}"})
    App.objects.update(token={"token": "t-1"})
    before = stored("channels_app_channel", "config")
    settings.ENCRYPTION_KEYS = [new, old]
    out = StringIO()
    call_command("rotate_keys", stdout=out)
    assert [line for line in out.getvalue().splitlines() if not line.endswith(": 0")] == [
        "channels_app.App.token: 1",
        "channels_app.Channel.config: 5",
        "6 secrets are encrypted with the first key.",
    ]
    assert "hooks_app.ConfirmationRequest.args: 0" in out.getvalue().splitlines()
    assert not set(before) & set(stored("channels_app_channel", "config"))
    settings.ENCRYPTION_KEYS = [new]
    assert {channel.config["chat_id"] for channel in Channel.objects.all()} == {f"oc_{n}" for n in range(5)}
    assert App.objects.get().token == {"token": "t-1"}


def test_a_secret_that_no_key_reads_stops_everything(acme: Organization, settings: Any) -> None:
    lost, old, new = (Fernet.generate_key().decode() for _ in range(3))
    settings.ENCRYPTION_KEYS = [lost]
    unreadable = make.channel(acme, "lost", config={"app_id": "cli_2"})
    settings.ENCRYPTION_KEYS = [old]
    make.channel(acme, "ops-feishu")
    before = stored("channels_app_channel", "config")
    settings.ENCRYPTION_KEYS = [new, old]
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("rotate_keys", stdout=out, stderr=err)
    assert "nothing has changed; 1 secret can't be read." in str(caught.value)
    assert err.getvalue() == (
        f"channels_app.Channel.config of {unreadable.pk}: no key of HOOKGATE_ENCRYPTION_KEYS can read it\n"
    )
    assert out.getvalue() == ""
    assert stored("channels_app_channel", "config") == before
