"""Sliding windows of calls, on the virtual clock."""

from collections import defaultdict, deque


class Window:
    """At most `limit` calls per key in any `seconds`."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit = limit
        self.seconds = seconds
        self.taken: dict[str, deque[float]] = defaultdict(deque)

    def take(self, key: str, now: float) -> float:
        """0 and one call counted, or the seconds to wait and nothing counted."""
        stamps = self.taken[key]
        while stamps and (stamps[0] <= now - self.seconds or stamps[0] > now):
            stamps.popleft()  # a stamp in the future is left over from a clock that was set back
        if len(stamps) >= self.limit:
            return stamps[0] + self.seconds - now
        stamps.append(now)
        return 0.0

    def clear(self) -> None:
        self.taken.clear()
