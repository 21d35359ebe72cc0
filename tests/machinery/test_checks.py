"""``manage.py check --deploy``."""

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
def production(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """An installation that lacks nothing."""
    for name, value in PRODUCTION.items():
        monkeypatch.setenv(name, value)
    settings.METRICS_TOKEN = "scrape-me"
    settings.DATABASE_URL = "postgresql://hookgate@db/hookgate"
    settings.REDIS_URL = "redis://redis/0"
    settings.BASE_URL = "https://gate.acme.test"
    settings.DEBUG = settings.SANDBOX = False
    settings.ALLOWED_HOSTS = ["gate.acme.test"]
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    settings.CHANNEL_HOSTS = []


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
    ],
)
def test_a_setting_that_is_not_for_production(settings: Any, name: str, value: Any, ids: set[str]) -> None:
    setattr(settings, name, value)
    assert found() == ids


def test_each_warning_says_what_to_do(settings: Any) -> None:
    settings.REDIS_URL = ""
    for message in checks.check_production(None):
        assert message.hint
