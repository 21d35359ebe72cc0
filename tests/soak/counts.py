"""What the long tests counted: one line per test into a file that outlives the pytest runs, one table at the end.

``make soak`` runs pytest twice (SQLite; PostgreSQL and Redis) and prints one table for both; a pytest of your own with
``HOOKGATE_SOAK=1`` prints its own.
"""

import json
import os
from pathlib import Path

import pytest

# Names the file of lines. Set by whoever prints the table, so that processes below add to the same one.
VARIABLE = "HOOKGATE_COUNTS_FILE"
SOAK = os.environ.get("HOOKGATE_SOAK") == "1"
# For tests that `make test` leaves to `make soak` as a whole: what they promise is tested in small elsewhere.
LONG = pytest.mark.skipif(not SOAK, reason="the long form, run by `make soak`")


def record(
    test: str, *, rounds: int, faults: dict[str, int], database: str | None = None, **seen: int | float | str
) -> None:
    """Put a test's figures on record, then fail if a fault was counted.

    ``faults`` are the counts that must be 0; ``seen`` are whatever else is worth reading. ``database`` is told by
    tests that start a portal of their own; it is this process's otherwise. Raises ``AssertionError``.
    """
    line = {"test": test, "database": database or _vendor(), "rounds": rounds, "faults": faults, "seen": seen}
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    assert not any(faults.values()), line


def table(path: Path) -> str:
    """The recorded lines as a table for people; empty when nothing was recorded."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    if not lines:
        return ""
    rows = [("test", "database", "rounds", "must be 0", "seen")]
    rows += [
        (
            ("BAD " if any(line["faults"].values()) else "") + line["test"],
            line["database"],
            str(line["rounds"]),
            _words(line["faults"]),
            _words(line["seen"]),
        )
        for line in sorted(lines, key=lambda line: (line["test"], line["database"]))
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    shown = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in shown)


def _words(figures: dict[str, int] | dict[str, int | float | str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {figure}" for name, figure in figures.items())


def _vendor() -> str:
    from django.db import connection

    return connection.vendor
