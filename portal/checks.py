"""What production lacks: the warnings of ``manage.py check --deploy``, each with a stable id and its remedy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

from portal import environment

_KEY_COMMAND = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


@dataclass(frozen=True)
class Rule:
    """One warning: its stable id, when it holds for the present settings, what is wrong and what to do."""

    id: str
    holds: Callable[[], bool]
    text: Callable[[], str]
    remedy: str


def _serves_https() -> bool:
    return bool(settings.BASE_URL.startswith("https://"))


RULES = (
    Rule(
        "hookgate.W001",
        lambda: not environment.secret("HOOKGATE_SECRET_KEY"),
        lambda: "The secret key comes from a file that this installation made for itself.",
        "Set HOOKGATE_SECRET_KEY (or HOOKGATE_SECRET_KEY_FILE) to the same long random text everywhere.",
    ),
    Rule(
        "hookgate.W002",
        lambda: not environment.secret("HOOKGATE_ENCRYPTION_KEYS"),
        lambda: "The encryption keys come from a file that this installation made for itself.",
        f"Set HOOKGATE_ENCRYPTION_KEYS, and keep a copy: secrets are lost without it. {_KEY_COMMAND}",
    ),
    Rule(
        "hookgate.W003",
        lambda: not settings.METRICS_TOKEN,
        lambda: "Anybody may read /metrics.",
        "Set HOOKGATE_METRICS_TOKEN, and give it to Prometheus as its bearer token.",
    ),
    Rule(
        "hookgate.W004",
        lambda: settings.DATABASE_URL.startswith("sqlite"),
        lambda: "The database is SQLite: one machine, one writer at a time.",
        "Set DATABASE_URL to postgresql://user:password@host/name.",
    ),
    Rule(
        "hookgate.W005",
        lambda: not settings.REDIS_URL,
        lambda: "There is no Redis: one web process, with the delivery worker inside it.",
        "Set REDIS_URL, and run `celery -A portal worker` and `celery -A portal beat`.",
    ),
    Rule(
        "hookgate.W006",
        lambda: not _serves_https(),
        lambda: (
            f"HOOKGATE_BASE_URL is {settings.BASE_URL}: links, callbacks and cookies are not protected by TLS."
        ),
        "Set HOOKGATE_BASE_URL to the public https:// origin.",
    ),
    Rule(
        "hookgate.W007",
        lambda: settings.DEBUG,
        lambda: "HOOKGATE_DEBUG is on: error pages show code and settings.",
        "Unset HOOKGATE_DEBUG.",
    ),
    Rule(
        "hookgate.W008",
        lambda: settings.SANDBOX,
        lambda: "HOOKGATE_SANDBOX is on: anybody can play every person of the sandbox.",
        "Unset HOOKGATE_SANDBOX.",
    ),
    Rule(
        "hookgate.W009",
        lambda: not environment.words("HOOKGATE_ALLOWED_HOSTS"),
        lambda: "The host names are guessed from HOOKGATE_BASE_URL, and include localhost.",
        "Set HOOKGATE_ALLOWED_HOSTS to the names under which the portal is reached.",
    ),
    Rule(
        "hookgate.W010",
        lambda: "*" in settings.ALLOWED_HOSTS,
        lambda: "HOOKGATE_ALLOWED_HOSTS holds *: any Host header is believed.",
        "Name the hosts.",
    ),
    Rule(
        "hookgate.W011",
        lambda: _serves_https() and not settings.TRUSTED_PROXIES,
        lambda: "The origin is https, but no proxy is trusted to say that a request came over TLS.",
        "Set HOOKGATE_TRUSTED_PROXIES to the addresses of the proxies that terminate TLS.",
    ),
    Rule(
        "hookgate.W012",
        lambda: bool(settings.CHANNEL_HOSTS),
        lambda: (
            f"Channels may call hosts that are not their platforms': {', '.join(settings.CHANNEL_HOSTS)}."
        ),
        "Unset HOOKGATE_CHANNEL_HOSTS unless these are yours.",
    ),
)


@register(Tags.security, deploy=True)
def check_production(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Every warning that holds for the present settings."""
    return [Warning(rule.text(), hint=rule.remedy, id=rule.id) for rule in RULES if rule.holds()]
