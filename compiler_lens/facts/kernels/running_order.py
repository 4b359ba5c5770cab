"""In which order the launches of an output code run, which is not that of its lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

_PARTITION = re.compile(r"def partition_(\d+)\(|partitions\[(\d+)\]\(")


def running_order(code: str) -> Callable[[int], tuple[int, int]]:
    """Return a key that sorts lines of an output code: those of a partition run where it is called, further down."""
    starts: list[tuple[int, int]] = []  # line, partition that begins there; -1: none
    called: dict[int, int] = {}
    for number, line in enumerate(code.split("\n"), 1):
        if "partition" in line and (found := _PARTITION.search(line)):
            if found[1]:
                starts.append((number, int(found[1])))
            else:
                called[int(found[2])] = number
        elif starts and starts[-1][1] >= 0 and line and not line[0].isspace():
            starts.append((number, -1))

    def order(line: int) -> tuple[int, int]:
        at = bisect_right(starts, (line, 1 << 30))
        partition = starts[at - 1][1] if at else -1
        return called.get(partition, line), line

    return order
