"""CPU time of a step: of several runs the least, which other programs touched least."""

import time
from collections.abc import Callable

REPEATS = 3


def least_cpu(step: Callable[[], object]) -> float:
    """Seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)
