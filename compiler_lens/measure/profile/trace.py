"""From the events of torch's profiler, as it exports them, to what ran in which call of a compiled graph."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

_DEVICE = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
_CPU = frozenset(("cpu_op", "user_annotation"))
# The words are those of torch/_inductor/output_code.py and torch/_dynamo/eval_frame.py.
_CALL = re.compile(r"## Call CompiledFxGraph (\S+) ##")
_REGION = re.compile(r"Torch-Compiled Region: (\S+)")
_ENGINE = "autograd::engine"

Raw = Mapping[str, Any]


class Ran(Struct, frozen=True):
    """One thing that the device ran: a kernel, a copy, a fill."""

    name: str
    microseconds: float
    op: int = -1  # which op of its range launched it; -1: none of them, as when a graph of launches is replayed


class Op(Struct, frozen=True):
    """One op of the CPU."""

    name: str  # "aten::mm", or a kernel's name
    microseconds: float


class Range(Struct, frozen=True):
    """One call of a compiled graph."""

    key: str  # of torch's cache
    ran: tuple[Ran, ...] = ()  # in the order of running
    ops: tuple[Op, ...] = ()  # those that no other op of the range made
    region: str = ""  # the compile id around it: "0/1"; a backward has none


class Trace(Struct, frozen=True):
    """What ran: within calls of compiled graphs, and besides."""

    ranges: tuple[Range, ...]
    others: tuple[Op, ...]  # outside of all compiled graphs
    busy_microseconds: float  # at least one thing running
    device_events: int


def read_trace(events: Iterable[Raw], *, on_cpu: bool = False) -> Trace:
    """Return the calls of compiled graphs in a trace. With `on_cpu`, ops of the CPU outside of them count as work."""
    complete = [event for event in events if event.get("ph") == "X"]
    device = sorted((e for e in complete if e.get("cat") in _DEVICE), key=lambda e: float(e["ts"]))
    threads: dict[Any, list[Raw]] = defaultdict(list)
    for event in complete:
        is_launch = event.get("cat") not in _DEVICE and "correlation" in (event.get("args") or {})
        if event.get("cat") in _CPU or is_launch:
            threads[event.get("pid"), event.get("tid")].append(event)
    hosts = _Hosts()
    for of_thread in threads.values():
        hosts.walk(sorted(of_thread, key=lambda e: (float(e["ts"]), -float(e["dur"]))))
    ran: dict[int, list[Ran]] = defaultdict(list)
    others: list[Op] = []
    for event in device:
        host, name = hosts.of(event), str(event["name"])[:300]  # C++ templates have names of thousands of letters
        if host.range >= 0:
            ran[host.range].append(Ran(name, float(event["dur"]), host.op))
        else:
            others.append(Op(host.outer or name, float(event["dur"])))
    ranges = tuple(
        Range(key, tuple(ran[index]), tuple(hosts.ops[index]), region)
        for index, (key, region) in enumerate(hosts.ranges)
    )
    spans = [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in device]
    if on_cpu:
        others += hosts.outside
        spans += hosts.spans
    busy, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return Trace(ranges, tuple(others), busy, len(device))


class _Host(Struct, frozen=True):
    """Where on the CPU something was launched."""

    range: int = -1
    op: int = -1  # of the range
    outer: str = ""  # the outermost op


class _Open(Struct):
    end: float
    host: _Host
    region: str


class _Hosts(Struct):
    """All that the CPU did, each with the range and the op that it is in."""

    ranges: list[tuple[str, str]] = field(default_factory=list)  # key, region
    ops: dict[int, list[Op]] = field(default_factory=lambda: defaultdict(list))
    outside: list[Op] = field(default_factory=list)  # outermost ops that are in no range
    spans: list[tuple[float, float]] = field(default_factory=list)  # of ops, in a range or not
    by_correlation: dict[Any, _Host] = field(default_factory=dict)
    by_id: dict[Any, _Host] = field(default_factory=dict)

    def of(self, event: Raw) -> _Host:
        """Return the place that a device's event was launched from."""
        arguments = event.get("args", {})
        found = self.by_correlation.get(arguments.get("correlation"))
        return found or self.by_id.get(arguments.get("External id")) or _Host()

    def walk(self, events: Sequence[Raw]) -> None:
        """Read one thread's events, in order."""
        stack = [_Open(float("inf"), _Host(), "")]
        for event in events:
            start = float(event["ts"])
            while stack[-1].end <= start:
                stack.pop()
            arguments, around = event.get("args") or {}, stack[-1]
            opened = self._opened(event, around)
            if event.get("cat") in _CPU:
                self.by_id[arguments.get("External id")] = opened.host
                stack.append(opened)
            else:
                # A recorded graph of launches is one call of the driver, whatever op it is in.
                is_replay = "GraphLaunch" in str(event["name"])
                host = _Host(around.host.range, outer=around.host.outer) if is_replay else around.host
                self.by_correlation[arguments["correlation"]] = host

    def _opened(self, event: Raw, around: _Open) -> _Open:
        name, start, length = str(event["name"]), float(event["ts"]), float(event["dur"])
        host, region = around.host, around.region
        if called := _CALL.search(name):
            self.ranges.append((called[1], region))
            return _Open(start + length, _Host(len(self.ranges) - 1), region)
        if inside := _REGION.search(name):
            region = inside[1]
        elif event.get("cat") == "cpu_op" and host.range >= 0 and host.op < 0:
            ops = self.ops[host.range]
            ops.append(Op(name, length))
            host = _Host(host.range, len(ops) - 1, name)
            self.spans.append((start, start + length))
        elif host.range < 0 and not host.outer and "::" in name and not name.startswith(_ENGINE):
            host = _Host(outer=name)
            self.outside.append(Op(name, length))
            self.spans.append((start, start + length))
        return _Open(start + length, host, region)
