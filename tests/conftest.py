"""Fixtures for every test.

``pytest`` alone runs on SQLite. ``python -m tests.run`` runs the suite in two parts: on SQLite, and on PostgreSQL with
a Redis-compatible server; that second run also takes the tests marked ``postgres``.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from portal.lib import clock
from tests import services
from tests.soak import counts

COUNTS = pytest.StashKey[Path]()
# Few tests and long ones, which start whole portals. Begun last, they would leave all but one process without work.
LONG = (
    "outages",
    "crashes",
    "e2e",
    "soak",
    "conformance",
    "newcomer",
    "browser",
    "contract",
    "races",
    "machinery",
)


def pytest_configure(config: pytest.Config) -> None:
    """Give the long tests a file for their counts, unless whoever started this run wants them in theirs."""
    # For what fixtures of a module start; each test has its own.
    os.environ.setdefault("HOOKGATE_SPOOL_DIR", tempfile.mkdtemp(prefix="hookgate-spool-"))
    if counts.SOAK and counts.VARIABLE not in os.environ:
        handle, name = tempfile.mkstemp(prefix="hookgate-counts-")
        os.close(handle)
        os.environ[counts.VARIABLE] = name
        config.stash[COUNTS] = Path(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what the long tests counted."""
    if file := config.stash.get(COUNTS, None):
        terminalreporter.section("counts")
        terminalreporter.write_line(counts.table(file))
        file.unlink()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A SQLite test database is a file of this process: threads and other connections must see each other's commits."""
    from django.db import connections

    connection = connections["default"]
    if connection.vendor == "sqlite":
        file = tmp_path_factory.mktemp("database") / "test.sqlite3"
        shutil.copyfile(services.migrated(), file)
        connection.settings_dict["TEST"]["NAME"] = str(file)
    else:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        connection.settings_dict["TEST"]["NAME"] = f"test_{os.getpid()}{worker}"


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether the test database is there already, with its migrations."""
    from django.db import connection

    return connection.vendor == "sqlite"


@pytest.fixture(autouse=True)
def _spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes of a test, and of processes that it starts, leave their call log where no other test finds it."""
    monkeypatch.setenv("HOOKGATE_SPOOL_DIR", str(tmp_path / "spool"))


@pytest.fixture(autouse=True)
def _log_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test had logged is not left out in the next, which comes within the same minute."""
    from portal.observe import outages

    monkeypatch.setattr(outages, "_logged", {})


@pytest.fixture(autouse=True)
def _count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is refused for what people did wrong at the same address in another test, or in Redis before."""
    from portal import sign_ins

    monkeypatch.setattr(sign_ins, "NAMESPACE", uuid.uuid4().hex)


@pytest.fixture(scope="session", autouse=True)
def _look_for_static_files_when_asked() -> None:
    """Each test client loads the middleware, which else looks through all static files first: 25 ms a client."""
    from django.conf import settings

    settings.WHITENOISE_AUTOREFRESH = True


class Clock:
    """The portal's clock, in a test's hands."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC).replace(microsecond=0)

    def advance(self, **by: float) -> datetime:
        """Move on by ``timedelta(**by)`` and return the new time."""
        self.moment += timedelta(**by)
        return self.moment


@pytest.fixture
def time() -> Iterator[Clock]:
    """A clock that stands still until the test moves it."""
    hands = Clock()
    with clock.set_to(lambda: hands.moment):
        yield hands


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long ones first, and leave those that need PostgreSQL to the second run."""
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.parent.name, len(LONG)))
    from django.db import connection

    if connection.vendor == "postgresql":
        return
    kept: list[Any] = [item for item in items if "postgres" not in item.keywords]
    left_out = [item for item in items if "postgres" in item.keywords]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
