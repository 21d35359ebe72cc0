"""What production lacks: the warnings of ``manage.py check --deploy``, each with a stable id and its remedy."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

from portal import environment

_KEY_COMMAND = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


@register(Tags.security, deploy=True)
def check_production(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Every warning that holds for the present settings."""
    return [*_check_secrets(), *_check_services(), *_check_web()]


def _check_secrets() -> Iterator[CheckMessage]:
    if not environment.secret("HOOKGATE_SECRET_KEY"):
        yield Warning(
            "The secret key comes from a file that this installation made for itself.",
            hint="Set HOOKGATE_SECRET_KEY (or HOOKGATE_SECRET_KEY_FILE) to the same long random text everywhere.",
            id="hookgate.W001",
        )
    if not environment.secret("HOOKGATE_ENCRYPTION_KEYS"):
        yield Warning(
            "The encryption keys come from a file that this installation made for itself.",
            hint=f"Set HOOKGATE_ENCRYPTION_KEYS, and keep a copy: secrets are lost without it. {_KEY_COMMAND}",
            id="hookgate.W002",
        )
    if not settings.METRICS_TOKEN:
        yield Warning(
            "Anybody may read /metrics.",
            hint="Set HOOKGATE_METRICS_TOKEN, and give it to Prometheus as its bearer token.",
            id="hookgate.W003",
        )


def _check_services() -> Iterator[CheckMessage]:
    if settings.DATABASE_URL.startswith("sqlite"):
        yield Warning(
            "The database is SQLite: one machine, one writer at a time.",
            hint="Set DATABASE_URL to postgresql://user:password@host/name.",
            id="hookgate.W004",
        )
    if not settings.REDIS_URL:
        yield Warning(
            "There is no Redis: one web process, with the delivery worker inside it.",
            hint="Set REDIS_URL, and run `celery -A portal worker` and `celery -A portal beat`.",
            id="hookgate.W005",
        )


def _check_web() -> Iterator[CheckMessage]:
    if not settings.BASE_URL.startswith("https://"):
        yield Warning(
            f"HOOKGATE_BASE_URL is {settings.BASE_URL}: links, callbacks and cookies are not protected by TLS.",
            hint="Set HOOKGATE_BASE_URL to the public https:// origin.",
            id="hookgate.W006",
        )
    if settings.DEBUG:
        yield Warning(
            "HOOKGATE_DEBUG is on: error pages show code and settings.",
            hint="Unset HOOKGATE_DEBUG.",
            id="hookgate.W007",
        )
    if settings.SANDBOX:
        yield Warning(
            "HOOKGATE_SANDBOX is on: anybody can play every person of the sandbox.",
            hint="Unset HOOKGATE_SANDBOX.",
            id="hookgate.W008",
        )
    if not environment.words("HOOKGATE_ALLOWED_HOSTS"):
        yield Warning(
            "The host names are guessed from HOOKGATE_BASE_URL, and include localhost.",
            hint="Set HOOKGATE_ALLOWED_HOSTS to the names under which the portal is reached.",
            id="hookgate.W009",
        )
    if "*" in settings.ALLOWED_HOSTS:
        yield Warning(
            "HOOKGATE_ALLOWED_HOSTS holds *: any Host header is believed.",
            hint="Name the hosts.",
            id="hookgate.W010",
        )
    if settings.BASE_URL.startswith("https://") and not settings.TRUSTED_PROXIES:
        yield Warning(
            "The origin is https, but no proxy is trusted to say that a request came over TLS.",
            hint="Set HOOKGATE_TRUSTED_PROXIES to the addresses of the proxies that terminate TLS.",
            id="hookgate.W011",
        )
    if settings.CHANNEL_HOSTS:
        yield Warning(
            f"Channels may call hosts that are not their platforms': {', '.join(settings.CHANNEL_HOSTS)}.",
            hint="Unset HOOKGATE_CHANNEL_HOSTS unless these are yours.",
            id="hookgate.W012",
        )
