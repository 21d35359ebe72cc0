"""How values look on admin pages: times, JSON, coloured words."""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import CharField, Model, TextField
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.lib import visible
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
    return format_html('<pre class="hookgate-json" tabindex="0">{}</pre>', visible.dump(value))


def person(facts: Any) -> str:
    """Somebody as a runtime names them (``{"name", "email", "id"}``), on one line; a dash for nobody."""
    named = facts if isinstance(facts, dict) else {"id": facts}
    return (
        visible.line(" · ".join(str(named[key]) for key in ("name", "email", "id") if named.get(key))) or "–"
    )


def reveal(row: Model, *, spoken: Collection[str] = (), on_lines: bool = False) -> None:
    """Make the texts of a row that is only looked at ready to be drawn, in place; it must not be saved afterwards.

    ``spoken`` names the columns that hold a person's own words. ``on_lines``: texts may take several lines.
    """
    for column in row._meta.concrete_fields:
        value = row.__dict__.get(column.attname)
        if isinstance(value, str) and type(column) in (CharField, TextField) and not column.primary_key:
            row.__dict__[column.attname] = _shown(column, value, spoken, on_lines)


def _shown(column: Any, value: str, spoken: Collection[str], on_lines: bool) -> str:
    if not on_lines:
        return visible.line(value)
    if column.name in spoken:
        return visible.speech(value)
    return visible.block(value) if isinstance(column, TextField) else visible.line(value)


def duration(milliseconds: float | None) -> str:
    """How long something took, as people say it: ``12.5 ms``, ``1.2 s``, ``2 min 39 s``, ``3 h 5 min``."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def at(moment: datetime | None, organization: Organization | None) -> str:
    """A time as the organization reads it, its zone named; a dash for none."""
    if moment is None:
        return "–"
    zone = organization.time_zone if organization is not None else "UTC"
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S} ({zone})"
