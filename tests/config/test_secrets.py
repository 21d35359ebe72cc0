"""``${NAME}``: where it is replaced, what happens when it is unset, and that no secret is ever printed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from channels_app.models import Channel
from hooks_app.models import Declaration
from portal.models import User
from tests.config import documents

pytestmark = pytest.mark.django_db


def _channel(slug: str = "ops-feishu", **config: Any) -> dict[str, Any]:
    return {"slug": slug, "type": "feishu", "config": documents.FEISHU | config}


def _config(slug: str = "ops-feishu") -> dict[str, Any]:
    stored: dict[str, Any] = Channel.objects.get(slug=slug).config
    return stored


def test_an_unset_variable_keeps_the_stored_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents.apply_file(documents.EXAMPLE)
    for name in documents.SECRETS:
        monkeypatch.delenv(name)
    assert documents.apply_file(documents.EXAMPLE).last == "0 changes"
    assert _config()["app_secret"] == documents.SECRETS["FEISHU_APP_SECRET"]


def test_an_unset_variable_of_a_new_object_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in documents.SECRETS:
        monkeypatch.delenv(name)
    ended = documents.apply_file(documents.EXAMPLE)
    assert ended.code == 1
    assert sorted(line.split(": ")[0] for line in ended.err) == [
        "organizations[0].channels[0].config.app_secret",
        "organizations[0].channels[0].config.encrypt_key",
        "organizations[0].channels[0].config.verification_token",
        "organizations[0].members[0].password",
    ]
    assert all(any(name in line for name in documents.SECRETS) for line in ended.err)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEISHU_TOKEN", "")
    ended = documents.apply_file(documents.EXAMPLE)
    assert [line.split(": ")[0] for line in ended.err] == [
        "organizations[0].channels[0].config.verification_token"
    ]


def test_a_secret_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("from-a-file\n", encoding="utf-8")
    monkeypatch.delenv("FEISHU_TOKEN")
    monkeypatch.setenv("FEISHU_TOKEN_FILE", str(tmp_path / "token"))
    assert documents.apply_file(documents.EXAMPLE).code == 0
    assert _config()["verification_token"] == "from-a-file"


def test_a_changed_variable_changes_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    documents.apply_file(documents.EXAMPLE)
    monkeypatch.setenv("FEISHU_APP_SECRET", "rotated")
    ended = documents.apply_file(documents.EXAMPLE)
    assert [line for line in ended.out if not line.startswith("unchanged")] == [
        "changed channel acme/ops-feishu",
        "1 changes",
    ]
    assert _config()["app_secret"] == "rotated"


def test_nothing_is_replaced_anywhere_else(tmp_path: Path) -> None:
    hooks = {"class_hooks": [{"name": "session_context", "params": {"text": "${FEISHU_APP_SECRET}"}}]}
    document = documents.small(name="${ALICE_PASSWORD}", agents=[{"slug": "a", "hooks": hooks}])
    assert documents.apply(tmp_path, document).code == 0
    assert Declaration.objects.get().params == {"text": "${FEISHU_APP_SECRET}"}
    assert "name: ${ALICE_PASSWORD}" in documents.export()


def test_a_placeholder_may_be_a_part_of_a_text_and_may_be_written_out(tmp_path: Path) -> None:
    config = {
        "app_secret": "a-${FEISHU_TOKEN}-z",
        "chat_id": "oc_$${FEISHU_TOKEN}",
        "encrypt_key": "$$${X}{$",
    }
    assert documents.apply(tmp_path, documents.small(channels=[_channel(**config)])).code == 0
    stored = _config()
    assert stored["app_secret"] == f"a-{documents.SECRETS['FEISHU_TOKEN']}-z"
    assert stored["chat_id"] == "oc_${FEISHU_TOKEN}"
    assert stored["encrypt_key"] == "$${X}{$"
    written = yaml.safe_load(documents.export())["organizations"][0]["channels"][0]["config"]
    assert written["chat_id"] == "oc_$${FEISHU_TOKEN}"
    assert documents.apply(tmp_path, documents.export()).last == "0 changes"


def test_no_secret_is_printed_or_exported(tmp_path: Path) -> None:
    document = documents.example()
    document["organizations"][0]["channels"][0]["config"]["chat_id"] = None
    document["organizations"][0]["channels"][0]["config"]["app_secret"] = ["literal-secret"]
    document["organizations"][0]["members"][0] |= {"password": "literal-password", "role": "boss"}
    ended = documents.apply(tmp_path, document)
    assert ended.code == 1
    printed = "\n".join([*ended.err, *ended.out])
    applied = documents.apply_file(documents.EXAMPLE)
    printed += "\n".join([*applied.err, *applied.out]) + documents.export()
    for secret in [*documents.SECRETS.values(), "literal-secret", "literal-password"]:
        assert secret not in printed


def test_an_export_names_its_placeholders_after_organization_channel_and_field() -> None:
    documents.apply_file(documents.EXAMPLE)
    config = yaml.safe_load(documents.export())["organizations"][0]["channels"][0]["config"]
    assert config == {
        "app_id": "cli_1",
        "app_secret": "${ACME_OPS_FEISHU_APP_SECRET}",
        "chat_id": "oc_1",
        "encrypt_key": "${ACME_OPS_FEISHU_ENCRYPT_KEY}",
        "verification_token": "${ACME_OPS_FEISHU_VERIFICATION_TOKEN}",
    }


def test_two_placeholders_never_have_one_name(tmp_path: Path) -> None:
    document = documents.small()
    document["organizations"] = [
        {"slug": "a", "channels": [_channel("b-c", app_id="cli_1", app_secret="first")]},
        {"slug": "a-b", "channels": [_channel("c", app_id="cli_2", app_secret="second")]},
        {"slug": "1a", "channels": [_channel("c", app_id="cli_3", app_secret="third")]},
    ]
    assert documents.apply(tmp_path, document).code == 0
    secrets = [
        organization["channels"][0]["config"]["app_secret"]
        for organization in yaml.safe_load(documents.export())["organizations"]
    ]
    assert secrets == ["${_1A_C_APP_SECRET}", "${A_B_C_APP_SECRET}", "${A_B_C_APP_SECRET_2}"]


def test_a_password_is_for_a_new_user_only(tmp_path: Path) -> None:
    documents.apply_file(documents.EXAMPLE)
    document = documents.example()
    document["organizations"][0]["members"][0]["password"] = "another"
    assert documents.apply(tmp_path, document).last == "0 changes"
    assert User.objects.get(username="alice").check_password(documents.SECRETS["ALICE_PASSWORD"])


def test_channels_of_one_app_must_agree(tmp_path: Path) -> None:
    channels = [_channel("one"), _channel("two", chat_id="oc_2", app_secret="different")]
    ended = documents.apply(tmp_path, documents.small(channels=channels))
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].channels[1].config.app_secret"]
    assert "different" not in ended.err[0]


def test_an_apps_secret_is_replaced_while_another_channel_joins_it(tmp_path: Path) -> None:
    documents.apply(tmp_path, documents.small(channels=[_channel("one")]))
    rotated = [_channel("new", chat_id="oc_2", app_secret="rotated"), _channel("one", app_secret="rotated")]
    assert documents.apply(tmp_path, documents.small(channels=rotated)).code == 0
    assert {_config("one")["app_secret"], _config("new")["app_secret"]} == {"rotated"}
    assert documents.apply(tmp_path, documents.small(channels=rotated)).last == "0 changes"


def test_a_stored_secret_is_not_sent_to_another_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes the file but doesn't know the secret must not be able to choose where it goes."""
    monkeypatch.setenv("APP_SECRET", "known")
    channel = _channel(app_secret="${APP_SECRET}", encrypt_key="typed")
    assert documents.apply(tmp_path, documents.small(channels=[channel])).code == 0
    monkeypatch.delenv("APP_SECRET")
    channel["config"]["base_url"] = "https://open.larksuite.com"
    ended = documents.apply(tmp_path, documents.small(channels=[channel]))
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.err] == ["organizations[0].channels[0].config.app_secret"]
    assert _config()["base_url"] == "https://open.feishu.cn"
