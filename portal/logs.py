"""Log lines are events with fields: readable on a terminal, JSON for machines."""

import logging
from typing import Any

import structlog
from django.conf import settings

from portal import outages

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
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


def formatter() -> logging.Formatter:
    """The formatter that ``HOOKGATE_LOG_FORMAT`` names."""
    # Plain tracebacks: the prettier ones print local variables, and those hold secrets.
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if settings.LOG_FORMAT == "json"
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.processors.format_exc_info],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
