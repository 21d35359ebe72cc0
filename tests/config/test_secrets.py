"""``${NAME}``: where it is replaced, what happens when it is unset, and that no secret is ever printed."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from channels_app.models import Channel
from hooks_app.config import placeholders
from hooks_app.models import Action, Declaration
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


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (lambda o, text: o.update(name=text), "name"),
        (lambda o, text: o["members"][0].update(email=text), "members[0].email"),
        (lambda o, text: o["channels"][0]["config"].update(chat_id=f"oc_{text}"), "channels[0].config.chat_id"),
        (lambda o, text: o["channels"][0]["config"].update(base_url=text), "channels[0].config.base_url"),
        (lambda o, text: o.update(connectors=[{"slug": "oa", "actions": [{"name": "pay", "schema": {"title": text}}]}]),
         "connectors[0].actions[0].schema.title"),
        (lambda o, text: o.update(connectors=[{"slug": "oa", "actions": [{"name": "pay", "schema": {text: 1}}]}]),
         "connectors[0].actions[0].schema.{text}"),
        (lambda o, text: o.update(agents=[{"slug": "a", "model_config_json": {"hooks": {"class_hooks": [text]}}}]),
         "agents[0].model_config_json.hooks.class_hooks[0]"),
        (lambda o, text: o.update(agents=[{"slug": "a", "hooks": {"events": {"Stop": [{"hooks": [
            {"type": "python", "target": "a:b", "note": text}]}]}}}]),
         "agents[0].hooks.events.Stop[0].hooks[0].note"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "text", ["${ACME_TOKEN}", "a ${DATABASE_URL} b", "${", "${a-b}", "$${A}${B}", "${ACME_TOKEN:-x}"]
)
def test_a_placeholder_where_none_is_replaced_is_an_error_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, path: str, text: str
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "the-value")
    document = documents.small(channels=[_channel()])
    place(document["organizations"][0], text)
    before = documents.snapshot()
    ended = documents.apply(tmp_path, document)
    assert (ended.code, ended.out, documents.snapshot()) == (1, [], before)
    where = f"organizations[0].{path.replace('{text}', text)}"
    assert [line.split(": ")[0] for line in ended.err] == [where]
    assert "$${" in ended.err[0]


OWN = ["HOOKGATE_SECRET_KEY", "HOOKGATE_ENCRYPTION_KEYS_FILE", "DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL",
       "REDIS_URL_FILE", "HOOKGATE_ANYTHING", "hookgate_secret_key"]  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--env", "HOOKGATE_"), ("--env", "D"), ("--env", "R")])
@pytest.mark.parametrize("name", OWN)
def test_the_portals_own_variables_are_given_to_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv(name, "operators-own")
    document = documents.small(channels=[_channel(app_secret=f"x${{{name}}}")])
    document["organizations"][0]["members"].append({"user": "eve", "password": f"${{{name}}}"})
    ended = documents.apply(tmp_path, document, *options)
    assert (ended.code, ended.out) == (1, [])
    assert [line.split(": ")[0] for line in ended.err] == [
        "organizations[0].members[1].password", "organizations[0].channels[0].config.app_secret",
    ]  # fmt: skip
    assert all(name in line and "operators-own" not in line for line in ended.err)
    assert not User.objects.exists()


def test_a_prefix_opens_all_of_a_channels_configuration_and_closes_every_other_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACME_CHAT": "oc_9", "ACME_SECRET": "acme-own", "OTHER": "not-acmes"}.items():
        monkeypatch.setenv(name, value)
    config = {"chat_id": "${ACME_CHAT}", "app_secret": "${ACME_SECRET}", "encrypt_key": "$${OTHER}"}
    ended = documents.apply(tmp_path, documents.small(channels=[_channel(**config)]), "--env", "ACME_")
    assert (ended.code, ended.err) == (0, [])
    assert [_config()[key] for key in config] == ["oc_9", "acme-own", "${OTHER}"]
    config["encrypt_key"] = "${OTHER}"
    refused = documents.apply(tmp_path, documents.small(channels=[_channel(**config)]), "--env", "ACME_")
    assert refused.err == [
        "organizations[0].channels[0].config.encrypt_key: OTHER does not begin with ACME_; rename it, or write $${"
        " for the text itself"
    ]
    assert _config()["encrypt_key"] == "${OTHER}"


@pytest.mark.parametrize("prefix", ["", "A-B", "1", "$", "${"])
def test_a_prefix_is_the_beginning_of_a_name(tmp_path: Path, prefix: str) -> None:
    ended = documents.apply(tmp_path, documents.small(), f"--env={prefix}")
    assert (ended.code, ended.out) == (1, [])
    assert ended.err == ["--env: use the beginning of variable names, such as ACME_"]


def test_a_variable_that_is_not_the_organizations_by_name_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACME_KR_SECRET", "ACME_SECRET", "ACME_KRX"):
        monkeypatch.setenv(name, "some-secret-value")
    config = {"app_secret": "${ACME_KR_SECRET}", "encrypt_key": "${ACME_SECRET}-${ACME_KRX}"}
    document = documents.small(slug="acme-kr", channels=[_channel(**config)])
    document["organizations"][0]["members"][0]["password"] = "${ACME_SECRET}"
    for _ in range(2):  # also where nothing changes any more
        ended = documents.apply(tmp_path, document)
        assert ended.code == 0
        assert [line.split(" does not")[0] for line in ended.err] == [
            "organizations[0].members[0].password: warning: ACME_SECRET",
            "organizations[0].channels[0].config.encrypt_key: warning: ACME_SECRET",
            "organizations[0].channels[0].config.encrypt_key: warning: ACME_KRX",
        ]
        assert "ACME_KR_" in ended.err[0]
    assert ended.last == "0 changes"


@pytest.mark.parametrize("text", ["${A}", "$${A}", "${", "$$${", "x${a-b}y${", "$A", "$", "{$}${}"])
def test_every_text_survives_export_and_apply(tmp_path: Path, text: str) -> None:
    written = text.replace("${", "$${")
    action = {"name": "pay", "description": written, "schema": {written: [written]}}
    hook = {"name": "session_context", "params": {"text": written}}
    document = documents.small(
        name=f"A{written}",
        connectors=[{"slug": "oa", "actions": [action]}],
        agents=[{"slug": "a", "hooks": {"class_hooks": [hook]}}],
        channels=[_channel(chat_id=f"oc_{written}")],
    )
    assert documents.apply(tmp_path, document).code == 0
    assert Declaration.objects.get().params == {"text": text}
    assert Action.objects.get().schema == {text: [text]}
    assert _config()["chat_id"] == f"oc_{text}"
    exported = documents.export()
    assert yaml.safe_load(exported)["organizations"][0]["name"] == f"A{written}"
    assert documents.apply(tmp_path, exported, "--prune").last == "0 changes"


def test_a_long_run_of_dollars_costs_no_time(tmp_path: Path) -> None:
    began = time.process_time()
    assert documents.apply(tmp_path, documents.small(name="$" * 200)).code == 0
    assert placeholders.read_literal("$" * 2_000_000) == "$" * 2_000_000
    assert placeholders.escape("$" * 2_000_000 + "{") == "$" * 2_000_001 + "{"
    assert time.process_time() - began < 5
