"""Whose time is it: what a device ran during a call of a compiled graph, given to the launches in its output code.

Pure functions of plain values. Sure are: a kernel by its name (of several launches the k-th time is the k-th launch),
and a library's call by the op of the CPU that made it, or by being the only one between two such kernels.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from statistics import fmean, median, quantiles

from compiler_lens.model import (
    CacheLayer,
    CompileId,
    Kernel,
    KernelKind,
    LaunchTime,
    OtherTime,
    OutputCode,
    Pass,
    ProfileNote,
    Recording,
    Remark,
    Trust,
)


@dataclass(frozen=True, slots=True)
class Ran:
    """One thing that the device ran: a kernel, a copy, a fill."""

    name: str
    microseconds: float
    op: int = -1  # which op of its range launched it; -1: none of them, as when a graph of launches is replayed


@dataclass(frozen=True, slots=True)
class Op:
    """One op of the CPU."""

    name: str  # "aten::mm", or a kernel's name
    microseconds: float


@dataclass(frozen=True, slots=True)
class Range:
    """One call of a compiled graph."""

    key: str  # of torch's cache
    ran: tuple[Ran, ...] = ()  # in the order of running
    ops: tuple[Op, ...] = ()  # those that no other op of the range made
    region: str = ""  # the compile id around it: "0/1"; a backward has none


@dataclass(frozen=True, slots=True)
class Slot:
    """A launch in an output code."""

    compile_id: CompileId
    part: Pass
    ordinal: int
    kernel: str
    launch: int


@dataclass(frozen=True, slots=True)
class Sample:
    """How long a launch took once."""

    microseconds: float
    device_kernels: tuple[str, ...]
    trust: Trust


@dataclass(frozen=True, slots=True)
class Matched:
    """All time that was seen, with its owners."""

    samples: Mapping[Slot, tuple[Sample, ...]]
    others: tuple[Op, ...] = ()  # what belongs to no launch
    notes: tuple[ProfileNote, ...] = ()


def match(ranges: Iterable[Range], codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> Matched:
    """Give all that ran to launches, as far as it belongs to one."""
    plans = _Plans(_plans(codes, kernels))
    found = _Found()
    for one in ranges:
        plan = plans.of(one, found)
        launches = plan.launches if plan else ()
        host, device = _host_items(one), list(_device_items(one))
        left = _align(host, [launch for launch in launches if launch.on_host], found)
        if not device:  # beside a device, what the CPU does is no time of its own
            found.leave(left)
        found.leave(_align(device, [launch for launch in launches if not launch.on_host], found))
    return Matched({slot: tuple(s) for slot, s in found.samples.items()}, tuple(found.others), tuple(found.notes))


def launch_times(matched: Matched, calls: int, rounds: int = 0) -> tuple[LaunchTime, ...]:
    """How long each launch takes; those that took most first. The calls are so many rounds over different ones."""
    times = [_launch_time(slot, samples, calls, rounds or calls) for slot, samples in matched.samples.items()]
    return tuple(sorted(times, key=lambda time: -time.microseconds * time.runs))


def _launch_time(slot: Slot, samples: Sequence[Sample], calls: int, rounds: int) -> LaunchTime:
    times = [sample.microseconds for sample in samples]
    _, spread = median_and_spread(times)
    exact = all(sample.trust is Trust.EXACT for sample in samples)
    return LaunchTime(
        *(slot.compile_id, slot.part, slot.ordinal, slot.kernel, slot.launch),
        microseconds=_typical(times, rounds),
        spread=spread,
        runs=len(samples) / calls,
        device_kernels=samples[-1].device_kernels,
        trust=Trust.EXACT if exact else Trust.TEXT,
    )


def other_times(others: Iterable[Op], calls: int, rounds: int = 0) -> tuple[OtherTime, ...]:
    """What belongs to no launch, by name; what took most first."""
    total: dict[str, list[float]] = defaultdict(list)
    for op in others:
        total[op.name].append(op.microseconds)
    times = [
        OtherTime(name, _typical(each, rounds or calls) * len(each) / calls, len(each) / calls)
        for name, each in total.items()
    ]
    return tuple(sorted(times, key=lambda time: -time.microseconds))


def _typical(values: Sequence[float], rounds: int) -> float:
    """The mean of what runs several times in each round, each of these by its median: they may be of any size."""
    runs, odd = divmod(len(values), rounds)
    if odd or not runs:
        return fmean(values)
    ordered = sorted(values)
    return fmean(median(ordered[index * rounds : (index + 1) * rounds]) for index in range(runs))


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and how far the quartiles are apart."""
    if len(values) < 2:  # noqa: PLR2004
        return (values[0], 0.0) if values else (0.0, 0.0)
    first, _, third = quantiles(values, n=4, method="inclusive")
    return median(values), third - first


def with_keys(recording: Recording) -> tuple[OutputCode, ...]:
    """The output codes with the keys of torch's cache; where a code does not know its own, as the cache was asked."""
    asked: dict[CompileId, list[str]] = defaultdict(list)
    for outcome in recording.caches:
        if outcome.layer is CacheLayer.FX_GRAPH and outcome.key:
            asked[outcome.compile_id].append(outcome.key)
    by_id: dict[CompileId, list[OutputCode]] = defaultdict(list)
    for code in recording.output_codes:
        by_id[code.compile_id].append(code)
    keys: dict[int, str] = {}
    for compile_id, codes in by_id.items():
        if len(asked[compile_id]) == len(codes):  # both in the order of compiling
            keys.update({id(code): key for code, key in zip(codes, asked[compile_id], strict=True)})
    return tuple(_with_key(code, code.key or keys.get(id(code), "")) for code in recording.output_codes)


def _with_key(code: OutputCode, key: str) -> OutputCode:
    return code if code.key == key else replace(code, key=key)


# -- what was to run


@dataclass(frozen=True, slots=True)
class _Launch:
    slot: Slot
    anchors: frozenset[str]  # the names by which the device knows it for sure; none for a library's call
    op: str  # the op of the CPU that a library's call is
    on_host: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """The launches of one output code, in the order in which they run."""

    code: OutputCode
    launches: tuple[_Launch, ...]
    names: Counter[str]


def _plans(codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> list[_Plan]:
    own: dict[tuple[CompileId, bool, int], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        own[kernel.compile_id, kernel.part is Pass.BACKWARD, kernel.ordinal].append(kernel)
    return [_plan(code, own.get((code.compile_id, code.part is Pass.BACKWARD, code.ordinal), ())) for code in codes]


def _plan(code: OutputCode, kernels: Sequence[Kernel]) -> _Plan:
    place = running_order(code.code)
    known = {kernel.name: kernel for kernel in kernels}
    placed = [
        (place(launch.line), _launch(code, kernel, index, known))
        for kernel in kernels
        for index, launch in enumerate(kernel.launches)
    ]
    launches = tuple(launch for _, launch in sorted(placed, key=lambda pair: pair[0]))
    return _Plan(code, launches, Counter(name for launch in launches for name in launch.anchors or (launch.op,)))


def _launch(code: OutputCode, kernel: Kernel, index: int, known: Mapping[str, Kernel]) -> _Launch:
    slot = Slot(code.compile_id, code.part, code.ordinal, kernel.name, index)
    return _Launch(slot, _anchors(kernel, known), _op_name(kernel.name), kernel.device.partition(":")[0] == "cpu")


_FUNCTION = re.compile(r"^\s*def (\w+)\(", re.MULTILINE)


def _anchors(kernel: Kernel, known: Mapping[str, Kernel]) -> frozenset[str]:
    if kernel.kind in {KernelKind.EXTERN, KernelKind.FALLBACK}:
        return frozenset()
    names = {kernel.name, str(kernel.meta.get("compiled_as", kernel.name))}
    for choice in kernel.meta.get("choices", ()):  # of a multi-kernel: one of them runs
        names |= {str(choice), *_FUNCTION.findall(known[choice].source if choice in known else "")}
    if kernel.kind is KernelKind.USER:  # numbered in the output code, by its own name on the device
        names |= set(_FUNCTION.findall(kernel.source))
    return frozenset(names)


def _op_name(kernel: str) -> str:
    """`extern_kernels.bias_addmm` -> addmm, `torch.ops.aten.topk.default` -> topk, `Tensor.copy_` -> copy_."""
    parts = kernel.removeprefix("torch.ops.").split(".")
    if len(parts) > 2:  # noqa: PLR2004 -- namespace, op, overload
        return parts[1]
    return parts[-1].removeprefix("bias_")


_PARTITION = re.compile(r"def partition_(\d+)\(|partitions\[(\d+)\]\(")


def running_order(code: str) -> _Order:
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
    return _Order(tuple(starts), called)


@dataclass(frozen=True, slots=True)
class _Order:
    starts: tuple[tuple[int, int], ...]  # line, partition that begins there; -1: none
    called: Mapping[int, int]

    def __call__(self, line: int) -> tuple[int, int]:
        index = bisect_right(self.starts, (line, 1 << 30)) - 1
        partition = self.starts[index][1] if index >= 0 else -1
        return (self.called.get(partition, line), line)


# -- what ran


@dataclass(frozen=True, slots=True)
class _Item:
    """What one op launched, or one kernel of a replay; on a CPU one op."""

    op: str
    ran: tuple[Ran, ...]
    microseconds: float
    is_host: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*((self.op,) if self.op else ()), *(ran.name for ran in self.ran))


def _host_items(one: Range) -> list[_Item]:
    """Ops that launched nothing: they work themselves."""
    launched = {ran.op for ran in one.ran}
    return [
        _Item(op.name, (), op.microseconds, is_host=True) for index, op in enumerate(one.ops) if index not in launched
    ]


def _device_items(one: Range) -> Iterator[_Item]:
    """What one op launched is one item; in the order of running."""
    for number, group in groupby(enumerate(one.ran), key=lambda pair: pair[1].op if pair[1].op >= 0 else ~pair[0]):
        ran = tuple(r for _, r in group)
        op = one.ops[number].name if 0 <= number < len(one.ops) else ""
        yield _Item(op, ran, sum(r.microseconds for r in ran))


@dataclass(slots=True)
class _Found:
    samples: dict[Slot, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    others: list[Op] = field(default_factory=list)
    notes: dict[ProfileNote, None] = field(default_factory=dict)

    def give(self, launch: _Launch, items: Sequence[_Item], trust: Trust) -> None:
        """These items are one run of a launch."""
        if items:
            names = tuple(ran.name for item in items for ran in item.ran)
            self.samples[launch.slot].append(Sample(sum(item.microseconds for item in items), names, trust))

    def leave(self, items: Iterable[_Item]) -> None:
        """These belong to no launch."""
        for item in items:
            if item.op or not item.ran:
                self.others.append(Op(item.op, item.microseconds))
            else:
                self.others += [Op(ran.name, ran.microseconds) for ran in item.ran]

    def note(self, remark: Remark, name: str = "", number: float | None = None, of: int | None = None) -> None:
        self.notes[ProfileNote(remark, name, number, of)] = None


# -- which output code


class _Plans:
    """The plans of a recording, and which of them a range follows."""

    def __init__(self, plans: Sequence[_Plan]) -> None:
        self._by_key: dict[str, list[_Plan]] = defaultdict(list)
        for plan in plans:
            self._by_key[plan.code.key].append(plan)
        self._all = plans
        self._alike: dict[tuple[str, ...], _Plan | None] = {}

    def of(self, one: Range, found: _Found) -> _Plan | None:
        """By its key; else by its kernels."""
        same = self._by_key.get(one.key, []) if one.key else []
        if len(same) > 1 and one.region:
            same = [plan for plan in same if str(plan.code.compile_id).partition("@")[0] == one.region] or same
        if not same:
            return self._likely(one, found)
        if len({_where(plan) for plan in same}) > 1:
            found.note(Remark.SAME_CODE)
        return same[-1]

    def _likely(self, one: Range, found: _Found) -> _Plan | None:
        names = tuple(name for item in (*_host_items(one), *_device_items(one)) for name in item.names)
        if names not in self._alike:
            self._alike[names] = _most_alike(Counter(names), self._by_key.get("") or self._all)
        likely = self._alike[names]
        found.note(Remark.UNKNOWN_GRAPH if likely is None else Remark.BY_NAMES)
        return likely


def _where(plan: _Plan) -> tuple[str, Pass]:
    return str(plan.code.compile_id), plan.code.part


def _most_alike(names: Counter[str], plans: Iterable[_Plan]) -> _Plan | None:
    """The code whose kernels these are; none if no generated kernel is among them."""

    def likeness(plan: _Plan) -> tuple[int, int]:
        shared = sum((plan.names & names).values())
        return shared, -abs(len(plan.launches) - shared)

    return max((plan for plan in plans if likeness(plan)[0]), key=likeness, default=None)


# -- which launch


def _align(items: Sequence[_Item], launches: Sequence[_Launch], found: _Found) -> list[_Item]:
    """Give each item to a launch: anchors by name, what is between them to those between them. Gives the rest."""
    left: list[_Item] = []
    sure = _anchored(items, launches, found)
    marks = [(-1, -1), *sure, (len(items), len(launches))]
    for (item, launch), (next_item, next_launch) in pairwise(marks):
        between = [at for at in launches[launch + 1 : next_launch] if not at.anchors]
        left += _between(items[item + 1 : next_item], between, found)
    return left


def _anchored(items: Sequence[_Item], launches: Sequence[_Launch], found: _Found) -> list[tuple[int, int]]:
    """Item and launch of every kernel that is known by its name."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, launch in enumerate(launches):
        for name in launch.anchors:
            places[name].append(index)
    seen: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        if name := next((name for name in item.names if name in places), ""):
            seen[name].append(index)
    pairs: list[tuple[int, int]] = []
    for name, indices in seen.items():
        trust = Trust.EXACT if len(indices) == len(places[name]) else Trust.TEXT
        if trust is Trust.TEXT:
            found.note(Remark.OTHER_COUNT, name, len(indices), len(places[name]))
        for turn, index in enumerate(indices):
            place = places[name][turn % len(places[name])]
            found.give(launches[place], [items[index]], trust)
            pairs.append((index, place))
    return sorted(pairs)


def _between(items: Sequence[_Item], launches: Sequence[_Launch], found: _Found) -> list[_Item]:
    """Library calls between two generated kernels. Gives what is left."""
    by_op = [item for item in items if item.op]
    replayed = [item for item in items if not item.op]
    left, rest = _by_name(by_op, launches, found)
    if replayed:  # what ops launched beside a replay are the copies of its inputs
        return [*left, *_by_place(replayed, rest, found)]
    if not rest or len(rest) != len(left):
        return left
    for launch, item in zip(rest, left, strict=True):
        found.give(launch, [item], Trust.TEXT if item.is_host else Trust.EXACT)
    return []


def _by_name(items: Sequence[_Item], launches: Sequence[_Launch], found: _Found) -> tuple[list[_Item], list[_Launch]]:
    """Ops of the names of launches, in order. Gives the items and the launches that are left."""
    left: list[_Item] = []
    rest: list[_Launch] = []
    places: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        places[item.op.rpartition("::")[2]].append(index)
    start = 0
    for launch in launches:
        of_name = places.get(launch.op, [])
        turn = bisect_left(of_name, start)
        if turn == len(of_name):
            rest.append(launch)
        else:
            at = of_name[turn]
            found.give(launch, [items[at]], Trust.EXACT)
            left += items[start:at]
            start = at + 1
    return [*left, *items[start:]], rest


def _by_place(items: Sequence[_Item], launches: Sequence[_Launch], found: _Found) -> Sequence[_Item]:
    if not launches:
        return items
    if len(launches) == 1:
        found.give(launches[0], items, Trust.EXACT)
        return ()
    groups = _with_helpers(items)
    if len(groups) < len(launches):
        found.note(Remark.TOO_FEW)
        return items
    if len(groups) > len(launches):
        found.note(Remark.BY_PLACE)
    for index, launch in enumerate(launches):
        first, last = (n * len(groups) // len(launches) for n in (index, index + 1))
        found.give(launch, [item for group in groups[first:last] for item in group], Trust.TEXT)
    return ()


_BEFORE = re.compile(r"memset|^Memset", re.IGNORECASE)  # a library clears its workspace first
_AFTER = re.compile(r"split_?k.*reduce|reduce.*split_?k|convert_dq", re.IGNORECASE)  # and adds up its parts last


def _with_helpers(items: Sequence[_Item]) -> list[list[_Item]]:
    """Kernels with those that only prepare or finish them."""
    groups: list[list[_Item]] = []
    waiting: list[_Item] = []
    for item in items:
        name = item.ran[0].name
        if _BEFORE.search(name):
            waiting.append(item)
        elif _AFTER.search(name) and groups and not waiting:
            groups[-1].append(item)
        else:
            groups.append([*waiting, item])
            waiting = []
    if waiting:
        groups.append(waiting)
    return groups
