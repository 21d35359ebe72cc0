"""Figures in pairs: ours and a baseline, measured in turns in one run, so that a busy machine slows both."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Figure:
    """Two medians in ``unit``, and what ours should be. ``goal`` is told as text; ``met`` judges it."""

    name: str
    ours: float
    baseline: float
    unit: str
    goal: str
    met: bool

    @property
    def ratio(self) -> float | None:
        """Ours by the baseline; ``None`` where that is nothing."""
        return self.ours / self.baseline if self.baseline else None


def alternate(
    ours: Callable[[], float], baseline: Callable[[], float], *, rounds: int
) -> tuple[float, float]:
    """Run both ``rounds`` times in turns, each once before that unmeasured; the medians of what they return."""
    ours()
    baseline()
    pairs = [(ours(), baseline()) for _ in range(rounds)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


async def typical(work: Callable[[], Awaitable[object]], *, seconds: float, batch: int = 5) -> float:
    """Microseconds that ``work`` takes: the median of batches, so that a moment without the processor doesn't count."""
    batches, until = [], time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        for _ in range(batch):
            await work()
        batches.append(time.perf_counter() - started)
        # Whatever runs beside it has its turn between two batches.
        await asyncio.sleep(0)
    return median(batches) / batch * 1e6


def table(figures: list[Figure]) -> str:
    """What `make bench` prints."""
    rows = [("benchmark", "ours", "baseline", "ratio", "unit", "goal", "")]
    rows += [
        (
            figure.name,
            f"{figure.ours:.2f}",
            f"{figure.baseline:.2f}",
            "–" if figure.ratio is None else f"{figure.ratio:.3f}",
            figure.unit,
            figure.goal,
            "met" if figure.met else "missed",
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows)


def save(figures: list[Figure], path: Path) -> None:
    """Write ``{"name": {"ours", "baseline", "ratio", "unit", "goal"}}``."""
    document = {
        figure.name: {
            "ours": round(figure.ours, 4),
            "baseline": round(figure.baseline, 4),
            "ratio": None if figure.ratio is None else round(figure.ratio, 4),
            "unit": figure.unit,
            "goal": figure.goal,
        }
        for figure in figures
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
