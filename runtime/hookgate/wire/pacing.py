"""How long the runtime waits for what. Seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pacing:
    """``retry_delays``: pauses between the tries of a request that must not be lost.
    ``poll_hold``: for how long the portal may hold a poll (at most 60, whole seconds), and in how many seconds
    each of those who wait has its turn; ``polls_at_once`` of them are under way in a runtime.
    ``poll_floor``: least time between two polls. ``pause_first`` and ``pause_last``: pauses while the portal is
    away, doubling.
    ``grace``: how much longer than a request's life its answer is waited for.
    ``cancel_bound``, ``close_bound``: how long a cancellation, and leaving, may take.
    ``detach_grace``: how long a cancelled call waits to see whether its session is being left.
    ``read_every``: how often who waits for an event reads all the same; ``reads_at_once`` bounds these reads.
    ``stream_delay``: how old a session is when the stream is opened. ``stream_silence``: after which it counts
    as dead. ``stream_last``: the longest pause between two tries; ``stream_refused``: the one after a refusal.
    ``log_delay``: how long call-log entries are gathered. ``adopt_every``: how often entries of processes
    that are gone are looked for."""

    retry_delays: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0)
    poll_hold: float = 10.0
    poll_floor: float = 0.25
    polls_at_once: int = 64
    read_every: float = 30.0
    reads_at_once: int = 16
    stream_delay: float = 1.0
    stream_silence: float = 30.0
    stream_last: float = 30.0
    stream_refused: float = 60.0
    pause_first: float = 0.5
    pause_last: float = 5.0
    grace: float = 10.0
    cancel_bound: float = 2.0
    close_bound: float = 5.0
    detach_grace: float = 0.25
    log_delay: float = 0.2
    adopt_every: float = 30.0
