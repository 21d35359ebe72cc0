"""Log lines are events with fields: readable on a terminal, JSON for machines. One event is one line.

What others sent (paths, user agents, names of tools, messages of errors) must not be able to end a line and to begin
one of its own, nor to move the cursor or turn the text around on the terminal of whoever reads it.
"""

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog
from django.conf import settings

from portal.lib import visible
from portal.observe import outages

# Text of several lines that is ours; their breaks stay, and each line is indented so that none looks like an event.
_MULTILINE = frozenset({"exception", "stack"})

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]

structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        outages.drop_repeated,
        *_SHARED,
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)


# Bearer credentials of ours (runtime keys, tokens, links), wherever somebody put one: in an address, in an error.
_CREDENTIAL = re.compile(r"(hg[a-z]?_)[A-Za-z0-9_-]{20,}")


def mask_credentials(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: of a credential only what kind it is."""
    for name, value in event.items():
        if isinstance(value, str) and "hg" in value:
            event[name] = _CREDENTIAL.sub(r"\1…", value)
    return event


def escape_fields(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: every text of the event escaped, for the console."""
    for name, value in event.items():
        if name in _MULTILINE and isinstance(value, str):
            event[name] = "\n".join(f"  {visible.plain_line(line)}" for line in value.splitlines())
        elif not isinstance(value, bool | int | float | None):
            event[name] = visible.plain_line(value if isinstance(value, str) else str(value))
    return event


def render_json(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
    """A structlog processor: the event as one line of JSON. What JSON lets pass is escaped as well."""
    text = structlog.processors.JSONRenderer(ensure_ascii=False)(logger, method, event)
    assert isinstance(text, str)
    return visible.machine_json(text)


def formatter() -> logging.Formatter:
    """The formatter that ``HOOKGATE_LOG_FORMAT`` names."""
    # Plain tracebacks: the prettier ones print local variables, and those hold secrets.
    console: list[Any] = [
        escape_fields,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
    renderers = [render_json] if settings.LOG_FORMAT == "json" else console
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.processors.format_exc_info],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, mask_credentials, *renderers],
    )
