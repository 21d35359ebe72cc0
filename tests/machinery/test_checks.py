"""``manage.py check --deploy``."""

from pathlib import Path
from typing import Any

import pytest

from portal import checks


def found() -> set[str]:
    """The ids of the warnings that hold now."""
    return {str(message.id).removeprefix("hookgate.") for message in checks.check_production(None)}


PRODUCTION = {
    "HOOKGATE_SECRET_KEY": "x" * 60,
    "HOOKGATE_ENCRYPTION_KEYS": "a-key",
    "HOOKGATE_ALLOWED_HOSTS": "gate.acme.test",
}


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    """An installation that lacks nothing."""
    for name, value in PRODUCTION.items():
        monkeypatch.setenv(name, value)
    settings.METRICS_TOKEN = "scrape-me"
    settings.DATABASE_URL = "postgresql://hookgate@db/hookgate"
    settings.REDIS_URL = "redis://:pw@redis/0"
    settings.BASE_URL = "https://gate.acme.test"
    settings.DEBUG = settings.SANDBOX = False
    settings.ALLOWED_HOSTS = ["gate.acme.test"]
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    settings.CHANNEL_HOSTS = []
    settings.VAR_DIR = tmp_path


@pytest.mark.usefixtures("production")
def test_production_lacks_nothing() -> None:
    assert found() == set()


@pytest.mark.usefixtures("production")
@pytest.mark.parametrize(
    ("variable", "id"),
    [
        ("HOOKGATE_SECRET_KEY", "W001"),
        ("HOOKGATE_ENCRYPTION_KEYS", "W002"),
        ("HOOKGATE_ALLOWED_HOSTS", "W009"),
    ],
)
def test_a_variable_that_is_missing(monkeypatch: pytest.MonkeyPatch, variable: str, id: str) -> None:
    monkeypatch.delenv(variable)
    assert found() == {id}


@pytest.mark.usefixtures("production")
@pytest.mark.parametrize(
    ("name", "value", "ids"),
    [
        ("METRICS_TOKEN", "", {"W003"}),
        ("DATABASE_URL", "sqlite:////var/hookgate.sqlite3", {"W004"}),
        ("REDIS_URL", "", {"W005"}),
        ("BASE_URL", "http://gate.acme.test", {"W006"}),
        ("DEBUG", True, {"W007"}),
        ("SANDBOX", True, {"W008"}),
        ("ALLOWED_HOSTS", ["*"], {"W010"}),
        ("TRUSTED_PROXIES", [], {"W011"}),
        ("CHANNEL_HOSTS", ["127.0.0.1:9000"], {"W012"}),
        ("TRUSTED_PROXIES", ["*"], {"W013"}),
        ("TRUSTED_PROXIES", ["10.0.0.1", "0.0.0.0/0"], {"W013"}),
        ("TRUSTED_PROXIES", ["::/0"], {"W013"}),
        ("TRUSTED_PROXIES", ["0.0.0.0/1", "128.0.0.0/1"], {"W013"}),
        ("TRUSTED_PROXIES", ["10.0.0.0/8", "2606:4700::/32", "unix"], set()),
        ("REDIS_URL", "redis://redis:6379/0", {"W014"}),
        ("REDIS_URL", "rediss://user@10.0.0.9/0", {"W014"}),
        ("REDIS_URL", "redis://127.0.0.1/0", set()),
        ("REDIS_URL", "redis://[::1]:6379/0", set()),
        ("REDIS_URL", "rediss://user:pw@cache.acme.test/0", set()),
        ("DATABASE_URL", "postgresql://u:p@db.acme.test/h", {"W015"}),
        ("DATABASE_URL", "postgresql://u:p@10.0.0.7/h?sslmode=prefer", {"W015"}),
        ("DATABASE_URL", "postgresql://u:p@db.acme.test/h?sslmode=verify-full", set()),
        ("DATABASE_URL", "postgresql://u:p@127.0.0.1/h", set()),
        ("DATABASE_URL", "postgresql://u@/h?host=/run/postgresql", set()),
    ],
)
def test_a_setting_that_is_not_for_production(settings: Any, name: str, value: Any, ids: set[str]) -> None:
    setattr(settings, name, value)
    assert found() == ids


def test_each_warning_says_what_to_do(settings: Any) -> None:
    settings.REDIS_URL = ""
    for message in checks.check_production(None):
        assert message.hint


@pytest.mark.usefixtures("production")
def test_what_holds_secrets_and_stands_open(settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path
    (tmp_path / "secret_key").touch(mode=0o600)
    tmp_path.chmod(0o700)
    assert found() == set()
    (tmp_path / "secret_key").chmod(0o640)
    assert found() == {"W016"}
    (tmp_path / "secret_key").chmod(0o600)
    tmp_path.chmod(0o755)
    assert found() == {"W016"}


@pytest.mark.usefixtures("production")
@pytest.mark.parametrize(
    ("host", "base", "exposed"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", set()),
        ("::1", "http://localhost:8000", set()),
        ("0.0.0.0", "http://127.0.0.1:8000", {"W007", "W008"}),
        ("127.0.0.1", "https://gate.acme.test", {"W007", "W008"}),
        ("10.0.0.4", "http://10.0.0.4:8000", {"W007", "W008"}),
    ],
)
def test_what_is_seen_from_elsewhere(settings: Any, host: str, base: str, exposed: set[str]) -> None:
    settings.BASE_URL = base
    settings.DEBUG = settings.SANDBOX = True
    assert {str(one.id).removeprefix("hookgate.") for one in checks.exposed(host)} == exposed
    settings.DEBUG = settings.SANDBOX = False
    assert checks.exposed(host) == []
    settings.TRUSTED_PROXIES = ["*"]
    assert [one.id for one in checks.exposed(host)] == ["hookgate.W013"]
