"""How values look on admin pages: times, JSON, coloured words."""

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.models import Organization

# Colours of unfold's labels for the words of a status.
STATUS_COLOURS = {
    "pending": "warning",
    "approved": "success",
    "rejected": "danger",
    "expired": "info",
    "cancelled": "info",
    "undeliverable": "danger",
    "succeeded": "success",
    "failed": "danger",
    "blocked": "warning",
    "timed_out": "danger",
    "unknown": "info",
    "queued": "info",
    "sending": "info",
    "sent": "success",
    "superseded": "info",
    "ok": "success",
    "retry": "warning",
}


class Word(tuple[str, Any]):
    """``(status, text)``: a coloured label in a list, the text alone in a form."""

    def __new__(cls, status: str, text: Any) -> "Word":
        return super().__new__(cls, (status, text))

    def __str__(self) -> str:
        return str(self[1])


def pretty(value: Any) -> SafeString:
    """JSON for reading. What it holds is data: it is escaped, and wraps instead of running off the page."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return format_html('<pre class="hookgate-json" tabindex="0">{}</pre>', text)


def at(moment: datetime | None, organization: Organization | None) -> str:
    """A time as the organization reads it, its zone named; a dash for none."""
    if moment is None:
        return "–"
    zone = organization.time_zone if organization is not None else "UTC"
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} ({zone})"
