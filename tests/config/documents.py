"""Config files for tests, and the commands that read and write them."""

import copy
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from django.apps import apps
from django.core.management import call_command

from portal import audit

EXAMPLE = Path(__file__).with_name("example.yaml")
SECRETS = {
    "ALICE_PASSWORD": "alice-has-a-password",
    "FEISHU_APP_SECRET": "the-app-secret",
    "FEISHU_ENCRYPT_KEY": "the-encrypt-key",
    "FEISHU_TOKEN": "the-verification-token",
}
FEISHU = {
    "app_id": "cli_1",
    "app_secret": "the-app-secret",
    "chat_id": "oc_1",
    "encrypt_key": "the-encrypt-key",
}


class Ended(NamedTuple):
    """How a command ended: exit code, lines of stdout, lines of stderr."""

    code: int
    out: list[str]
    err: list[str]

    @property
    def last(self) -> str:
        return self.out[-1] if self.out else ""


def example() -> dict[str, Any]:
    """The contract's example, as plain data."""
    loaded: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    absence = loaded["organizations"][0]["absences"][0]
    absence |= {key: str(absence[key]) for key in ("from", "until")}
    return loaded


def small(**organization: Any) -> dict[str, Any]:
    """One organization with alice, its admin, and whatever a test adds."""
    base = {"slug": "acme", "members": [{"user": "alice", "email": "alice@acme.test", "role": "admin"}]}
    return {"apiVersion": "hookgate/v1", "organizations": [base | copy.deepcopy(organization)]}


def apply(folder: Path, document: Any, *options: str) -> Ended:
    """``manage.py apply`` on a file with ``document``: a text as it is, anything else as JSON, which YAML includes."""
    file = folder / "config.yaml"
    file.write_text(
        document if isinstance(document, str) else json.dumps(document, ensure_ascii=False), encoding="utf-8"
    )
    return apply_file(file, *options)


def apply_file(file: Path, *options: str) -> Ended:
    """``manage.py apply FILE``."""
    return _call("apply", str(file), *options)


def export(*options: str) -> str:
    """What ``manage.py export`` prints."""
    ended = _call("export", *options)
    assert ended.code == 0
    return "\n".join(ended.out) + "\n"


def export_with_notes() -> Ended:
    """``manage.py export``, and what it says on stderr."""
    return _call("export")


def _call(*words: str) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command(*words, stdout=out, stderr=err)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return Ended(code, out.getvalue().splitlines(), err.getvalue().splitlines())


def snapshot() -> dict[str, list[Any]]:
    """Every row of the portal's own tables."""
    rows = {}
    for label in ("portal", "channels_app", "hooks_app"):
        for model in apps.get_app_config(label).get_models(include_auto_created=True):
            rows[model.__name__] = sorted(map(repr, model._default_manager.values()))
    return rows


ACTOR = audit.SHELL
