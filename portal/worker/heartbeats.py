"""Signs of life of Celery's worker and scheduler: ``python -m portal.worker.heartbeats worker`` (or ``beat``).

Each touches a file in ``HOOKGATE_VAR_DIR``: the worker with every heartbeat it sends to the broker, the scheduler with
every task that the broker took. Looking costs no connection and a tenth of a second; ``celery inspect ping`` would load
everything and ask every worker through the broker. Exit 0 while the sign is fresh, else 1.
"""

import os
import sys
import time
from pathlib import Path

# Seconds. The worker sends a heartbeat every two, the scheduler a task every second.
STALE = 30.0
NAMES = ("worker", "beat")
# As in the settings, which are not loaded here: looking often must be cheap.
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "var"


def path(folder: Path, name: str) -> Path:
    """The file that ``name`` touches."""
    return folder / f"{name}.alive"


def give(folder: Path, name: str) -> None:
    """Show that ``name`` lives now."""
    path(folder, name).touch()


def age(folder: Path, name: str) -> float | None:
    """Seconds since the last sign; ``None`` without any."""
    try:
        return max(0.0, time.time() - path(folder, name).stat().st_mtime)
    except OSError:
        return None


def main(arguments: list[str]) -> int:
    """Judge the process that ``arguments`` name, and say what was found."""
    if len(arguments) != 1 or arguments[0] not in NAMES:
        print(f"usage: python -m portal.worker.heartbeats {'|'.join(NAMES)}", file=sys.stderr)
        return 2
    name = arguments[0]
    folder = Path(os.environ.get("HOOKGATE_VAR_DIR", "").strip() or DEFAULT_FOLDER)
    seconds = age(folder, name)
    if seconds is None:
        print(f"{name}: no sign of life in {folder}", file=sys.stderr)
        return 1
    print(f"{name}: last sign of life {seconds:.0f} s ago")
    return 0 if seconds <= STALE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
