"""What guards secrets is as closed as the secrets: the embedded database and its journal, keys and their folder."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from examples.portal_process import CommandFailed, PortalProcess
from portal.lib import closed
from tests import services

OURS = ("hookgate.sqlite3", "hookgate.sqlite3-wal", "hookgate.sqlite3-shm", "secret_key", "encryption_keys")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def portal(tmp_path: Path) -> PortalProcess:
    """Of an account whose umask lets everybody read."""
    return PortalProcess(tmp_path / "var")


@pytest.fixture(autouse=True)
def _generous() -> None:
    os.umask(0o022)


def test_what_a_portal_makes_is_its_own_accounts(portal: PortalProcess) -> None:
    portal.folder.mkdir(mode=0o755)
    with portal:
        services.migrate(portal)
        # As an older release has left it.
        (portal.folder / "hookgate.sqlite3").chmod(0o644)
        portal.start()
        with closing(sqlite3.connect(portal.folder / "hookgate.sqlite3")) as reader:
            reader.execute(
                "SELECT 1 FROM django_session"
            ).fetchall()  # the journal stays while somebody is there
            found = {path.name: mode(path) for path in portal.folder.iterdir() if path.is_file()}
        assert mode(portal.folder) == 0o700
        assert {name: found[name] for name in OURS} == dict.fromkeys(OURS, 0o600)


def test_a_new_database_is_closed_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite3"
    closed.make_database(str(path))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (x)")
        beside = sorted(tmp_path.iterdir())
        assert [mode(one) for one in beside] == [0o600] * len(beside)
        assert len(beside) == 3
    database.close()


def test_a_folder_that_everybody_shares_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(CommandFailed, match=r"everybody shares; set HOOKGATE_VAR_DIR"):
        PortalProcess(shared).manage("check")
    assert mode(shared) == 0o777 | stat.S_ISVTX
    assert list(shared.iterdir()) == []


def test_what_is_anothers_to_close_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    secret = tmp_path / "secret_key"
    secret.touch()
    secret.chmod(0o644)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(ImproperlyConfigured, match=rf"others may read {secret}.*chmod 600 {secret}"):
        closed.close_file(secret)


def test_static_files_may_be_read(tmp_path: Path, portal: PortalProcess) -> None:
    portal.environment["HOOKGATE_STATIC_DIR"] = str(tmp_path / "static")
    portal.manage("collectstatic", "--noinput", "--verbosity", "0")
    found = list((tmp_path / "static").rglob("*"))
    assert found
    assert all(mode(path) & 0o044 for path in found)
