"""In which order the launches of an output code run, which is not that of its lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

_PARTITION = re.compile(r"def partition_(\d+)\(|partitions\[(\d+)\]\(")


@dataclass(frozen=True, slots=True)
class Order:
    """Which line of an output code runs before which."""

    starts: tuple[tuple[int, int], ...]  # line, partition that begins there; -1: none
    called: Mapping[int, int]

    def __call__(self, line: int) -> tuple[int, int]:
        index = bisect_right(self.starts, (line, 1 << 30)) - 1
        partition = self.starts[index][1] if index >= 0 else -1
        return (self.called.get(partition, line), line)


def running_order(code: str) -> Order:
    """A function of a line that sorts launches: a partition's code stands before, and runs where it is called."""
    starts: list[tuple[int, int]] = []
    called: dict[int, int] = {}
    for number, line in enumerate(code.split("\n"), 1):
        if "partition" in line and (found := _PARTITION.search(line)):
            if found[1]:
                starts.append((number, int(found[1])))
            else:
                called[int(found[2])] = number
        elif starts and starts[-1][1] >= 0 and line and not line[0].isspace():
            starts.append((number, -1))
    return Order(tuple(starts), called)
