"""``python -m examples run`` and ``python -m examples demo``: what `make` starts."""

import signal
import sys
from importlib import import_module


def main(name: str) -> int:
    """Import the program ``run`` or ``demo`` and run it; returns its exit code."""
    # An import that Ctrl-C cuts off would print a traceback; until the program is there, the signal just ends us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = import_module(f"examples.{name}")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return int(program.main())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
