"""Whose time is it: what a device ran during a call of a compiled graph, given to the launches in its output code.

Pure functions of plain values. Sure are: a kernel by its name (of several launches the k-th time is the k-th launch),
and a library's call by the op of the CPU that made it, or by being the only one between two such kernels.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.kernels.launches import running_order
from compiler_lens.measure.profile.trace import Op, Ran, Range
from compiler_lens.recording import model
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CodeId, CompileId, LaunchId
from compiler_lens.recording.model import Kernel, OutputCode, ProfileNote, Remark, Trust


class Sample(Struct, frozen=True):
    """How long a launch took once."""

    microseconds: float
    device_kernels: tuple[str, ...]
    trust: Trust


class Matched(Struct, frozen=True):
    """All time that was seen, with its owners."""

    samples: Mapping[LaunchId, tuple[Sample, ...]]
    others: tuple[Op, ...] = ()  # what belongs to no launch
    notes: tuple[ProfileNote, ...] = ()


def match(ranges: Iterable[Range], codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> Matched:
    """Give all that ran to launches, as far as it belongs to one."""
    plans = _Plans(codes, kernels)
    found = _Found()
    for one in ranges:
        launched = {ran.op for ran in one.ran}
        # Ops that launched nothing work themselves.
        host = [
            _Item(op.name, (), op.microseconds, is_host=True)
            for index, op in enumerate(one.ops)
            if index not in launched
        ]
        # What one op launched is one item; in the order of running.
        device: list[_Item] = []
        for number, group in groupby(enumerate(one.ran), key=lambda pair: pair[1].op if pair[1].op >= 0 else ~pair[0]):
            ran = tuple(r for _, r in group)
            op_name = one.ops[number].name if 0 <= number < len(one.ops) else ""
            device.append(_Item(op_name, ran, sum(r.microseconds for r in ran)))
        plan = plans.of(one, [name for item in (*host, *device) for name in item.names], found.note)
        launches = plan.launches if plan else ()
        left = _align(host, [launch for launch in launches if launch.on_host], found)
        if not device:  # beside a device, what the CPU does is no time of its own
            found.leave(left)
        found.leave(_align(device, [launch for launch in launches if not launch.on_host], found))
    return Matched({launch: tuple(s) for launch, s in found.samples.items()}, tuple(found.others), tuple(found.notes))


class _Item(Struct, frozen=True):
    """What one op launched, or one kernel of a replay; on a CPU one op."""

    op: str
    ran: tuple[Ran, ...]
    microseconds: float
    is_host: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*((self.op,) if self.op else ()), *(ran.name for ran in self.ran))


class _Found(Struct):
    samples: dict[LaunchId, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    others: list[Op] = field(default_factory=list)
    notes: dict[ProfileNote, None] = field(default_factory=dict)

    def give(self, launch: _Planned, items: Sequence[_Item], trust: Trust) -> None:
        """Count these items as one run of a launch."""
        if items:
            names = tuple(ran.name for item in items for ran in item.ran)
            self.samples[launch.id].append(Sample(sum(item.microseconds for item in items), names, trust))

    def leave(self, items: Iterable[_Item]) -> None:
        """Keep what belongs to no launch."""
        for item in items:
            if item.op or not item.ran:
                self.others.append(Op(item.op, item.microseconds))
            else:
                self.others += [Op(ran.name, ran.microseconds) for ran in item.ran]

    def note(self, remark: Remark, name: str = "", number: float | None = None, of: int | None = None) -> None:
        self.notes[ProfileNote(remark, name, number, of)] = None


# -- what was to run: the launches of each output code in their order, and the code that a call of a graph follows


class _Planned(Struct, frozen=True):
    """One launch, and how it is recognised."""

    id: LaunchId
    anchors: frozenset[str]  # the names by which the device knows it for sure; none for a library's call
    op: str  # the op of the CPU that a library's call is
    on_host: bool


class _Plan(Struct, frozen=True):
    """The launches of one output code, in the order in which they run."""

    code: OutputCode
    launches: tuple[_Planned, ...]
    names: Counter[str]

    def likeness(self, names: Counter[str]) -> tuple[int, int]:
        """How many of these kernels are its own; of two plans with as many, the one with fewer others."""
        shared = sum((self.names & names).values())
        return shared, -abs(len(self.launches) - shared)


def with_keys(recording: model.Recording) -> tuple[OutputCode, ...]:
    """Return the output codes with the keys of torch's cache; one without its own gets what the cache was asked for."""
    asked: dict[CompileId, list[str]] = defaultdict(list)
    for outcome in recording.caches:
        if outcome.layer is model.CacheLayer.FX_GRAPH and outcome.key:
            asked[outcome.compile_id].append(outcome.key)
    keys: dict[CodeId, str] = {}
    for compile_id, codes in grouped(recording.output_codes, lambda code: code.compile_id).items():
        if len(asked[compile_id]) == len(codes):  # both in the order of compiling
            keys.update({code.id: key for code, key in zip(codes, asked[compile_id], strict=True)})
    return tuple(code if code.key else replace(code, key=keys.get(code.id, "")) for code in recording.output_codes)


class _Plans:
    """The plans of a recording, and which of them a range follows."""

    def __init__(self, codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> None:
        own = grouped(kernels, lambda kernel: kernel.code_id)
        self._all = [_plan(code, own.get(code.id, ())) for code in codes]
        self._by_key = grouped(self._all, lambda plan: plan.code.key)
        self._alike: dict[tuple[str, ...], _Plan | None] = {}

    def of(self, one: Range, names: Sequence[str], note: Callable[[Remark], object]) -> _Plan | None:
        """Return the plan of a range: by its key, else by its kernels, whose names these are."""
        same = self._by_key.get(one.key, []) if one.key else []
        if len(same) > 1 and one.region:
            same = [plan for plan in same if str(plan.code.compile_id).partition("@")[0] == one.region] or same
        if same:
            if len({(str(plan.code.compile_id), plan.code.direction) for plan in same}) > 1:
                note(Remark.SAME_CODE)
            return same[-1]
        key = tuple(names)
        if key not in self._alike:
            counted = Counter(names)
            some = [plan for plan in self._by_key.get("") or self._all if plan.likeness(counted)[0]]
            self._alike[key] = max(some, key=lambda plan: plan.likeness(counted), default=None)
        likely = self._alike[key]
        note(Remark.UNKNOWN_GRAPH if likely is None else Remark.BY_NAMES)
        return likely


def _plan(code: OutputCode, kernels: Sequence[Kernel]) -> _Plan:
    place = running_order(code.code)
    known = {kernel.name: kernel for kernel in kernels}
    placed: list[tuple[Any, _Planned]] = []
    for kernel in kernels:
        anchors = frozenset() if kernel.kind.is_library else _anchors(kernel, known)
        # `extern_kernels.bias_addmm` -> addmm, `torch.ops.aten.topk.default` -> topk, `Tensor.copy_` -> copy_
        parts = kernel.name.removeprefix("torch.ops.").split(".")
        is_overload = len(parts) > 2  # noqa: PLR2004 -- namespace, op, overload
        op = parts[1] if is_overload else parts[-1].removeprefix("bias_")
        on_host = kernel.device.partition(":")[0] == "cpu"
        for index, launch in enumerate(kernel.launches):
            placed.append((place(launch.line), _Planned(kernel.launch_id(index), anchors, op, on_host)))
    launches = tuple(launch for _, launch in sorted(placed, key=lambda pair: pair[0]))
    return _Plan(code, launches, Counter(name for launch in launches for name in launch.anchors or (launch.op,)))


_FUNCTION = re.compile(r"^[ \t]*def (\w+)\(", re.MULTILINE)


def _anchors(kernel: Kernel, known: Mapping[str, Kernel]) -> frozenset[str]:
    names = {kernel.name, str(kernel.meta.get("compiled_as", kernel.name))}
    for choice in kernel.meta.get("choices", ()):  # of a multi-kernel: one of them runs
        names |= {str(choice), *_FUNCTION.findall(known[choice].source if choice in known else "")}
    if kernel.kind is model.KernelKind.USER:  # numbered in the output code, by its own name on the device
        names |= set(_FUNCTION.findall(kernel.source))
    return frozenset(names)


# -- which launch


def _align(items: Sequence[_Item], launches: Sequence[_Planned], found: _Found) -> list[_Item]:
    """Give each item to a launch: anchors by name, what is between them to those between them. Gives the rest."""
    left: list[_Item] = []
    sure = _anchored(items, launches, found)
    marks = [(-1, -1), *sure, (len(items), len(launches))]
    for (item, launch), (next_item, next_launch) in pairwise(marks):
        between = [at for at in launches[launch + 1 : next_launch] if not at.anchors]
        left += _between(items[item + 1 : next_item], between, found)
    return left


def _anchored(items: Sequence[_Item], launches: Sequence[_Planned], found: _Found) -> list[tuple[int, int]]:
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


def _between(items: Sequence[_Item], launches: Sequence[_Planned], found: _Found) -> list[_Item]:
    """Library calls between two generated kernels: by the names of ops, in order. Gives what is left."""
    by_op = [item for item in items if item.op]
    replayed = [item for item in items if not item.op]
    places: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(by_op):
        places[item.op.rpartition("::")[2]].append(index)
    left: list[_Item] = []
    rest: list[_Planned] = []
    start = 0
    for launch in launches:
        of_name = places.get(launch.op, [])
        turn = bisect_left(of_name, start)
        if turn == len(of_name):
            rest.append(launch)
        else:
            at = of_name[turn]
            found.give(launch, [by_op[at]], Trust.EXACT)
            left += by_op[start:at]
            start = at + 1
    left += by_op[start:]
    if replayed:  # what ops launched beside a replay are the copies of its inputs
        return [*left, *_by_place(replayed, rest, found)]
    if not rest or len(rest) != len(left):
        return left
    for launch, item in zip(rest, left, strict=True):
        found.give(launch, [item], Trust.TEXT if item.is_host else Trust.EXACT)
    return []


_PREPARES = re.compile(r"memset|^Memset", re.IGNORECASE)  # a library clears its workspace first
_FINISHES = re.compile(r"\A(?=.*split_?k).*reduce|convert_dq", re.IGNORECASE)  # and adds up its parts last


def _by_place(items: Sequence[_Item], launches: Sequence[_Planned], found: _Found) -> Sequence[_Item]:
    if not launches:
        return items
    if len(launches) == 1:
        found.give(launches[0], items, Trust.EXACT)
        return ()
    groups: list[list[_Item]] = []  # kernels with those that only prepare or finish them
    waiting: list[_Item] = []
    for item in items:
        name = item.ran[0].name
        if _PREPARES.search(name):
            waiting.append(item)
        elif _FINISHES.search(name) and groups and not waiting:
            groups[-1].append(item)
        else:
            groups.append([*waiting, item])
            waiting = []
    if waiting:
        groups.append(waiting)
    if len(groups) < len(launches):
        found.note(Remark.TOO_FEW)
        return items
    if len(groups) > len(launches):
        found.note(Remark.BY_PLACE)
    for index, launch in enumerate(launches):
        first, last = (n * len(groups) // len(launches) for n in (index, index + 1))
        found.give(launch, [item for group in groups[first:last] for item in group], Trust.TEXT)
    return ()
