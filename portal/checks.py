"""What production lacks: the warnings of ``manage.py check --deploy``, each with a stable id and its remedy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

from portal import environment
from portal.lib import closed

# The shortest prefixes of networks that may be a proxy's: beyond them it is half the Internet.
SHORTEST = {4: 8, 6: 16}
_KEY_COMMAND = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"


@dataclass(frozen=True)
class Rule:
    """One warning: its stable id, when it holds for the present settings, what is wrong and what to do."""

    id: str
    holds: Callable[[], bool]
    text: Callable[[], str]
    remedy: str

    def warning(self) -> CheckMessage:
        """As Django shows it."""
        return Warning(self.text(), hint=self.remedy, id=self.id)


def _serves_https() -> bool:
    return bool(settings.BASE_URL.startswith("https://"))


def is_here(host: str) -> bool:
    """Whether a host is this machine alone; no host is a socket, which is."""
    if host in ("", "localhost"):
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def believed() -> list[str]:
    """The trusted proxies that are everybody, or nearly."""
    return [proxy for proxy in settings.TRUSTED_PROXIES if _is_everybody(proxy)]


def _is_everybody(proxy: str) -> bool:
    if proxy == "*":
        return True
    try:
        network = ip_network(proxy, strict=False)
    except ValueError:
        return False
    return network.prefixlen < SHORTEST[network.version]


def _unprotected_redis() -> bool:
    parts = urlsplit(settings.REDIS_URL)
    return bool(parts.hostname) and not parts.password and not is_here(parts.hostname or "")


def _plain_postgres() -> bool:
    """A name without dots is a container's neighbour, on a network of its own."""
    parts = urlsplit(settings.DATABASE_URL)
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    mode = parse_qs(parts.query).get("sslmode", [""])[0]
    far = not host.startswith("/") and ("." in host or ":" in host) and not is_here(host)
    return parts.scheme.startswith("postgres") and far and mode not in {"require", "verify-ca", "verify-full"}


def _open_paths() -> list[str]:
    """Files and folders with secrets in them that others have a right to."""
    kept = [settings.VAR_DIR / name for name in ("secret_key", "encryption_keys")]
    if settings.DATABASE_URL.startswith("sqlite"):
        database = str(settings.DATABASES["default"]["NAME"])
        kept += [Path(f"{database}{end}") for end in closed.BESIDE]
    found = [path for path in kept if path.exists()]
    folders = dict.fromkeys(path.parent for path in found)
    return [str(path) for path in (*folders, *found) if closed.is_open(path)]


def exposed(host: str) -> list[CheckMessage]:
    """What must not be seen from elsewhere, and is if the portal listens at ``host``."""
    here = is_here(host) and is_here(urlsplit(settings.BASE_URL).hostname or "")
    ids = {"hookgate.W013"} if here else {"hookgate.W007", "hookgate.W008", "hookgate.W013"}
    return [rule.warning() for rule in RULES if rule.id in ids and rule.holds()]


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
    Rule(
        "hookgate.W013",
        lambda: bool(believed()),
        lambda: (
            f"HOOKGATE_TRUSTED_PROXIES holds {', '.join(believed())}: anybody may say which address they have, and"
            " that they came over TLS."
        ),
        "Name the addresses of the proxies that terminate TLS.",
    ),
    Rule(
        "hookgate.W014",
        _unprotected_redis,
        lambda: (
            "Redis asks for no password: whoever reaches it may hand tasks to the workers and lift rate limits."
        ),
        "Give it one (requirepass), and set REDIS_URL to redis://:PASSWORD@host:6379/0.",
    ),
    Rule(
        "hookgate.W015",
        _plain_postgres,
        lambda: "PostgreSQL is on another machine, and the connection may do without TLS.",
        "Add ?sslmode=verify-full (or require) to DATABASE_URL.",
    ),
    Rule(
        "hookgate.W016",
        lambda: bool(_open_paths()),
        lambda: f"Others on this machine have rights to what holds secrets: {', '.join(_open_paths())}.",
        "chmod 700 the folder and 600 the files; only the portal's account needs them.",
    ),
)


@register(Tags.security, deploy=True)
def check_production(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Every warning that holds for the present settings."""
    return [rule.warning() for rule in RULES if rule.holds()]
