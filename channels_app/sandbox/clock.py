"""The virtual clock: real time plus an offset that a test may set."""

import time
from collections.abc import Callable


class Clock:
    """Seconds since the epoch, shifted by `offset` seconds. `source` replaces the machine's own clock."""

    def __init__(self, source: Callable[[], float] = time.time) -> None:
        self.source = source
        self.offset = 0.0

    def now(self) -> float:
        return self.source() + self.offset

    def now_ms(self) -> str:
        """Milliseconds as the decimal string that the platform uses for `create_time`."""
        return str(int(self.now() * 1000))
