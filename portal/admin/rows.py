"""How many rows of an inline a form sends: what its counters say is checked by the fields that are there.

A counter is a number that a client writes. Believed, a large one makes thousands of forms, and a small one leaves
rows out that somebody has filled in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.forms.formsets import (
    INITIAL_FORM_COUNT,
    MAX_NUM_FORM_COUNT,
    MIN_NUM_FORM_COUNT,
    TOTAL_FORM_COUNT,
)
from django.utils.translation import gettext as _

MOST = 1000
_COUNTERS = {
    TOTAL_FORM_COUNT: True,
    INITIAL_FORM_COUNT: True,
    MIN_NUM_FORM_COUNT: False,
    MAX_NUM_FORM_COUNT: False,
}


@dataclass(frozen=True)
class Count:
    """``total`` rows, of which the first ``initial`` exist already; ``fault`` says what is wrong with the counters."""

    total: int
    initial: int
    fault: str = ""


def count(data: Mapping[str, Any], prefix: str, key: str) -> Count:
    """Count the rows ``PREFIX-N-…`` of a form that was sent; ``PREFIX-N-KEY`` holds the key of one that exists."""
    pattern = re.compile(rf"{re.escape(prefix)}-([0-9]{{1,6}})-")
    sent = {int(found[1]) for name in data if (found := pattern.match(name))}
    existing = {number for number in sent if data.get(f"{prefix}-{number}-{key}")}
    # As many as were sent, so that nothing that was typed is lost while the fault is shown.
    told = Count(min(len(sent), MOST), min(len(existing), MOST))
    if fault := _fault(data, prefix, sent, existing):
        return Count(told.total, told.initial, fault)
    return told


def _fault(data: Mapping[str, Any], prefix: str, sent: set[int], existing: set[int]) -> str:
    numbers: dict[str, int] = {}
    for name, needed in _COUNTERS.items():
        text = data.get(f"{prefix}-{name}", "")
        if not text and not needed:
            continue
        if not (isinstance(text, str) and re.fullmatch("[0-9]{1,9}", text)):
            return _("%(name)s is no number of rows; load the page again.") % {"name": f"{prefix}-{name}"}
        numbers[name] = int(text)
    total, initial = numbers[TOTAL_FORM_COUNT], numbers[INITIAL_FORM_COUNT]
    if max(total, len(sent)) > MOST:
        return _("There are at most %(count)d rows here.") % {"count": MOST}
    if sent != set(range(total)):
        return _("%(name)s is %(total)d, and %(sent)d rows were sent; load the page again.") % {
            "name": f"{prefix}-{TOTAL_FORM_COUNT}", "total": total, "sent": len(sent),
        }  # fmt: skip
    if existing != set(range(initial)):
        return _("%(name)s is %(total)d, and %(sent)d rows exist; load the page again.") % {
            "name": f"{prefix}-{INITIAL_FORM_COUNT}", "total": initial, "sent": len(existing),
        }  # fmt: skip
    return ""
