"""For how long a search that was ended would have to go on: said with its best, as a number to type."""

from __future__ import annotations

import math

_MORE = 8  # runs that may come up once those are done that wait, two closer looks among them
_GENEROUS = 1.5  # times as long: what is tried last divides functions, and takes longer
_STEPS = ((600, 60), (3600, 300), (math.inf, 1800))  # seconds up to which it is rounded up to so many


def enough_for_all(seconds: float, runs: int, waiting: int, kept: float) -> int:
    """Return seconds that are probably enough for all runs.

    Args:
        seconds: that have gone by.
        runs: that were made in them.
        waiting: runs that were still to come, as far as that is known.
        kept: the part of all the time that is kept for what comes last.
    """
    needed = _GENEROUS * seconds * (1 + (waiting + _MORE) / max(runs, 1)) / (1 - kept)
    step = next(step for most, step in _STEPS if needed <= most)
    return math.ceil(needed / step) * step
