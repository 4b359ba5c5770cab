"""Whose time is it: what a device ran during a call of a compiled graph, given to the launches in its output code.

Pure functions of plain values. Sure are: a kernel by its name (of several launches the k-th time is the k-th launch),
and a library's call by the op of the CPU that made it, or by being the only one between two such kernels.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from msgspec import Struct, field

from compiler_lens.measure.profile.plans import Planned, Plans
from compiler_lens.measure.profile.trace import Op, Ran, Range
from compiler_lens.recording.ids import LaunchId
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
    plans = Plans(codes, kernels)
    found = _Found()
    for one in ranges:
        host, device = _host_items(one), list(_device_items(one))
        plan = plans.of(one, (name for item in (*host, *device) for name in item.names), found.note)
        launches = plan.launches if plan else ()
        left = _align(host, [launch for launch in launches if launch.on_host], found)
        if not device:  # beside a device, what the CPU does is no time of its own
            found.leave(left)
        found.leave(_align(device, [launch for launch in launches if not launch.on_host], found))
    return Matched({launch: tuple(s) for launch, s in found.samples.items()}, tuple(found.others), tuple(found.notes))


# -- what ran


class _Item(Struct, frozen=True):
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


class _Found(Struct):
    samples: dict[LaunchId, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    others: list[Op] = field(default_factory=list)
    notes: dict[ProfileNote, None] = field(default_factory=dict)

    def give(self, launch: Planned, items: Sequence[_Item], trust: Trust) -> None:
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


# -- which launch


def _align(items: Sequence[_Item], launches: Sequence[Planned], found: _Found) -> list[_Item]:
    """Give each item to a launch: anchors by name, what is between them to those between them. Gives the rest."""
    left: list[_Item] = []
    sure = _anchored(items, launches, found)
    marks = [(-1, -1), *sure, (len(items), len(launches))]
    for (item, launch), (next_item, next_launch) in pairwise(marks):
        between = [at for at in launches[launch + 1 : next_launch] if not at.anchors]
        left += _between(items[item + 1 : next_item], between, found)
    return left


def _anchored(items: Sequence[_Item], launches: Sequence[Planned], found: _Found) -> list[tuple[int, int]]:
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


def _between(items: Sequence[_Item], launches: Sequence[Planned], found: _Found) -> list[_Item]:
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


def _by_name(items: Sequence[_Item], launches: Sequence[Planned], found: _Found) -> tuple[list[_Item], list[Planned]]:
    """Ops of the names of launches, in order. Gives the items and the launches that are left."""
    left: list[_Item] = []
    rest: list[Planned] = []
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


def _by_place(items: Sequence[_Item], launches: Sequence[Planned], found: _Found) -> Sequence[_Item]:
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
