"""Long arguments on the page of a request: folded at first, so that nobody scrolls past what they decide about.

What is folded can't be approved: Approve stands on the page that shows everything.
"""

import math
from dataclasses import dataclass

# Lines as they are drawn, and how many characters one takes: as wide as a desk's, so that a phone draws more of them.
SHOWN = 40
FOLDED_FROM = 60
WIDTH = 100


@dataclass(frozen=True)
class Folded:
    """The text that is shown, and how many lines are not; 0 where everything is."""

    text: str
    more: int


def fold(text: str) -> Folded:
    """``text`` whole up to 60 drawn lines, else as many of its lines as fill 40, the last of them cut if need be."""
    lines = text.split("\n")
    heights = [_height(line) for line in lines]
    if sum(heights) <= FOLDED_FROM:
        return Folded(text, 0)
    shown: list[str] = []
    room = SHOWN
    for line, height in zip(lines, heights, strict=True):
        if height > room:
            if room and not shown:
                shown.append(f"{line[: room * WIDTH]} …")
                room = 0
            break
        shown.append(line)
        room -= height
    return Folded("\n".join(shown), sum(heights) - (SHOWN - room))


def _height(line: str) -> int:
    return max(1, math.ceil(len(line) / WIDTH))
