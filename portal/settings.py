"""Settings of the portal: one file, everything from the environment, usable with none of it set."""

import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from portal import environment
from portal.lib import closed

BASE_DIR = Path(__file__).resolve().parent.parent
# Where the embedded installation keeps its database and generated secrets.
VAR_DIR = Path(environment.text("HOOKGATE_VAR_DIR") or BASE_DIR / "var")

DEBUG = environment.flag("HOOKGATE_DEBUG")
SECRET_KEY = environment.kept_secret("HOOKGATE_SECRET_KEY", VAR_DIR)
ENCRYPTION_KEYS = [
    key.strip()
    for key in environment.kept_secret("HOOKGATE_ENCRYPTION_KEYS", VAR_DIR).split(",")
    if key.strip()
]

PORT = environment.number("PORT", 8000, largest=65535)
# `serve` replaces the default by the address that it really serves.
BASE_URL = environment.text("HOOKGATE_BASE_URL", f"http://127.0.0.1:{PORT}").rstrip("/")
_origin = urlsplit(BASE_URL)
if _origin.scheme not in {"http", "https"} or not _origin.hostname or _origin.path:
    raise ImproperlyConfigured(
        "HOOKGATE_BASE_URL: use an origin such as https://hookgate.example.com, without a path"
    )
ALLOWED_HOSTS = environment.words("HOOKGATE_ALLOWED_HOSTS") or [
    _origin.hostname,
    "127.0.0.1",
    "localhost",
    "[::1]",
]
CSRF_TRUSTED_ORIGINS = [BASE_URL]
TRUSTED_PROXIES = environment.words("HOOKGATE_TRUSTED_PROXIES")
SANDBOX = environment.flag("HOOKGATE_SANDBOX")
CHANNEL_HOSTS = environment.words("HOOKGATE_CHANNEL_HOSTS")
STREAMS_PER_CALLER = environment.number("HOOKGATE_STREAMS_PER_CALLER", 500, largest=100_000)
# What a client may take before it is known: seconds to get on with sending and reading, connections of one process.
SLOW_CLIENT_SECONDS = environment.number("HOOKGATE_SLOW_CLIENT_SECONDS", 10, smallest=1, largest=3600)
CONNECTIONS = environment.number("HOOKGATE_CONNECTIONS", 1000, smallest=10, largest=1_000_000)
# Threads of one process that answer requests, each with a database connection that it keeps.
THREADS = environment.number("HOOKGATE_THREADS", 8, smallest=4, largest=200)
METRICS_TOKEN = environment.secret("HOOKGATE_METRICS_TOKEN")
METRICS_LISTEN = environment.address("HOOKGATE_METRICS_LISTEN")
METRICS_DIR = environment.text("HOOKGATE_METRICS_DIR")
if METRICS_LISTEN and not METRICS_DIR:
    raise ImproperlyConfigured(
        "HOOKGATE_METRICS_LISTEN: set HOOKGATE_METRICS_DIR too, where the worker's children leave their counts"
    )
if METRICS_DIR:
    Path(METRICS_DIR).mkdir(parents=True, exist_ok=True)
    # The library looks for it when it is imported, which is after the settings.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = METRICS_DIR
LOG_FORMAT = environment.text("HOOKGATE_LOG_FORMAT", "console")
if LOG_FORMAT not in {"console", "json"}:
    raise ImproperlyConfigured("HOOKGATE_LOG_FORMAT: use console or json")

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_structlog",
    "axes",
    "rest_framework",
    "drf_spectacular",
    "portal",
    "channels_app",
    "hooks_app",
]

MIDDLEWARE = [
    "portal.serving.lanes.bounded",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "portal.serving.traffic.LoggedRequests",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "portal.web.failures.Refusals",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
# The ASGI application that answers the long-lived requests; portal.asgi puts it before Django.
WAITING_APPLICATION = "hooks_app.live.waiting.application"
# Told of each request before Django is: a short way to the answer of what is asked all the time.
SHORTCUT = "hooks_app.live.shortcut.prepare"
SANDBOX_APPLICATION = "channels_app.sandbox.mounted.application"
# What /readyz asks and what /metrics reads, beside the portal's own; see portal.health and
# portal.observe.exposition.
HEALTH_CHECKS = {
    "deliveries": "channels_app.health.check_oldest_due",
    "agents": "hooks_app.health.check_agents",
}
METRIC_READERS = ["channels_app.metrics.read", "hooks_app.metrics.read"]
# Told by the admin pages that something registries are built from has changed.
INPUTS_CHANGED = "hooks_app.registry.heads.inputs_changed_by_hand"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.web.context.frame",
            ]
        },
    }
]

# Database

DATABASE_URL = environment.secret("DATABASE_URL") or f"sqlite:///{VAR_DIR / 'hookgate.sqlite3'}"
_database: dict[str, Any] = environ.Env.db_url_config(DATABASE_URL)
if _database["ENGINE"] == "django.db.backends.sqlite3":
    if Path(_database["NAME"]).parent == VAR_DIR:
        closed.make_folder(VAR_DIR)
    closed.close_database(Path(_database["NAME"]))
    _database["ENGINE"] = "portal.sqlite"
    _database["OPTIONS"] = {
        # Writers queue at BEGIN instead of failing in the middle; a commit is on disk before it is answered.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
elif _database["ENGINE"] == "django.db.backends.postgresql":
    _database["ENGINE"] = "portal.postgresql"
    _database.setdefault("OPTIONS", {})
    for _option, _seconds in {
        # Shorter than the five seconds of patience that a runtime has: it is to read why it gets nothing.
        "connect_timeout": 3,
        # A server whose network is cut says nothing at all; by themselves connections hang for a quarter of an hour.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20000,
    }.items():
        _database["OPTIONS"].setdefault(_option, _seconds)
    # Allows the prepared statements of portal.lib.statements; Django's own cursors make none.
    _database["OPTIONS"].setdefault("prepare_threshold", 5)
else:
    raise ImproperlyConfigured(
        "DATABASE_URL: use sqlite:////absolute/path or postgresql://user:password@host/name"
    )
# Threads and workers keep their connections, and look before each request or task whether they still live.
_database["CONN_MAX_AGE"] = None
_database["CONN_HEALTH_CHECKS"] = True
DATABASES = {"default": _database}

# Where wake-ups are heard when the database is reached through a transaction pooler and there is no Redis.
LISTEN_URL = environment.secret("HOOKGATE_LISTEN_URL")
if LISTEN_URL and not LISTEN_URL.startswith(("postgresql://", "postgres://")):
    raise ImproperlyConfigured(
        "HOOKGATE_LISTEN_URL: use postgresql://user:password@host/name, past the pooler"
    )

# Redis, or everything in this process

REDIS_URL = environment.secret("REDIS_URL")
CACHES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}

# People

AUTH_USER_MODEL = "portal.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "portal.sign_ins.AddressBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = [
    "portal.people.hashing.QueuedArgon2",
    "portal.people.hashing.QueuedPBKDF2",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_ENABLE_ADMIN = False
# Nobody reads it, and it has a row for each time that somebody signs in.
AXES_DISABLE_ACCESS_LOG = True
# By itself it would believe any X-Forwarded-For.
AXES_CLIENT_IP_CALLABLE = "portal.sign_ins.peer"
AXES_LOCKOUT_CALLABLE = "portal.web.login.locked_out"
# Hashing a password takes 100 MB and a good part of a second of every core, and anybody may ask for it.
HASHING_AT_ONCE = environment.number("HOOKGATE_HASHING_AT_ONCE", 2, smallest=1, largest=100)
HASHING_WAITING = environment.number("HOOKGATE_HASHING_WAITING", 20, largest=1000)
HASHING_WAIT_SECONDS = environment.number("HOOKGATE_HASHING_WAIT_SECONDS", 5, largest=60)
# Over all names, from one address; what succeeds is not counted.
FAILED_SIGN_INS_PER_MINUTE = environment.number(
    "HOOKGATE_FAILED_SIGN_INS_PER_MINUTE", 10, smallest=1, largest=100_000
)
FAILED_SIGN_INS_PER_HOUR = environment.number(
    "HOOKGATE_FAILED_SIGN_INS_PER_HOUR", 60, smallest=1, largest=100_000
)
# Links for choosing a password go by e-mail where both are set; see portal.people.links.
EMAIL_URL = environment.secret("HOOKGATE_EMAIL_URL")
DEFAULT_FROM_EMAIL = environment.text("HOOKGATE_EMAIL_FROM")
if bool(EMAIL_URL) != bool(DEFAULT_FROM_EMAIL):
    raise ImproperlyConfigured(
        "HOOKGATE_EMAIL_URL and HOOKGATE_EMAIL_FROM go together: set both, such as"
        " smtp+tls://user:password@mail.example.com:587 and hookgate@example.com"
    )
_mail = environment.mail_server("HOOKGATE_EMAIL_URL", EMAIL_URL) if EMAIL_URL else {}
EMAIL_HOST = _mail.get("EMAIL_HOST", "localhost")
EMAIL_PORT = _mail.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _mail.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = _mail.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = _mail.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _mail.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 10
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/inbox/"
LOGOUT_REDIRECT_URL = "login"

# Web

STATIC_URL = "static/"
STATIC_DIR = environment.text("HOOKGATE_STATIC_DIR")
STATIC_ROOT = Path(STATIC_DIR or VAR_DIR / "static")
if not STATIC_DIR and VAR_DIR.is_dir() and os.access(VAR_DIR, os.W_OK):
    STATIC_ROOT.mkdir(exist_ok=True)  # whitenoise warns about a folder that `collectstatic` has not made yet
# A fresh clone serves its static files without `collectstatic`; where they were collected, that folder is all.
WHITENOISE_USE_FINDERS = not STATIC_DIR
# Static files may be read by whatever serves them, whoever collected them.
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o755
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
# An agent with hundreds of tools has thousands of fields; the body is bounded as well.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# The proxy that ends TLS redirects to it, and what else lives below the portal's domain isn't the portal's to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _origin.scheme == "https"
SECURE_HSTS_SECONDS = 31536000 if _origin.scheme == "https" else 0

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ko", "한국어"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["hooks_app.api.authentication.BearerOrSession"],
    "DEFAULT_PERMISSION_CLASSES": ["hooks_app.api.authentication.IsKnown"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["hooks_app.api.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "portal.api.negotiation.OnlyFormat",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "hooks_app.api.openapi.Schema",
    "EXCEPTION_HANDLER": "portal.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Hookgate",
    "DESCRIPTION": "Governance for AI agents: registries, confirmations, call log.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["hooks_app.api.openapi.complete"],
}

UNFOLD = {
    "SITE_TITLE": "Hookgate",
    "SITE_HEADER": "Hookgate",
    "SITE_SUBHEADER": _("Hooks that hold"),
    "SITE_URL": "/inbox/",
    "SITE_ICON": "portal.admin.look.icon",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "portal.admin.look.icon"}],
    "ENVIRONMENT": "portal.admin.look.environment",
    "STYLES": ["portal.admin.look.style"],
    "SCRIPTS": ["portal.admin.look.script"],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "SIDEBAR": {"show_search": False},
}

DJANGO_STRUCTLOG_CELERY_ENABLED = True
logging.captureWarnings(True)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"events": {"()": "portal.observe.logs.formatter"}},
    "filters": {"outages": {"()": "portal.observe.outages.OnceFilter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "events", "filters": ["outages"]}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # Both print whole URLs, which hold secrets on some platforms.
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "uvicorn.access": {"level": "WARNING"},
        "celery": {"level": "WARNING"},
        # The sweeps begin and end every second; what tasks do says so itself.
        "django_structlog.celery": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
    },
}
