"""A graph's steps as a tree: by module, by source line, by stretches. A group is a run of steps, one after the other.

Steps are in an order in which each reads only earlier ones. So runs never read each other in a circle, however they
are cut, and a module that is called twice is two groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.graphs.launch_order import Share, calls_around, launch_number, shares
from compiler_lens.facts.kernels.graph_flow import Flow, Step, common
from compiler_lens.facts.kernels.launches import Launched
from compiler_lens.recording.model import Kernel

MOST = 60  # boxes that compute, in one level; inputs and outputs come on top
_DEEPEST = 40  # modules in each other
_COMPONENT = re.compile(r"[^.]+(?:\.\d+)*")  # "h.3" of "transformer.h.3.attn": brothers of one family
_NUMBER = re.compile(r"(?<![\d.])\.?\d+(?:\.\d+)*$")

_T = TypeVar("_T")


class GroupKind(Enum):
    """What holds the steps of a group together."""

    GRAPH = "graph"
    MODULE = "module"
    FUNCTION = "function"
    LINE = "line"
    STRETCH = "stretch"
    KERNEL = "kernel"
    CALL = "call"  # of a higher-order op, with the graphs that it runs
    BODY = "body"  # one of these


class _Part(Struct, frozen=True):
    """A part of the way from the whole graph to a step."""

    kind: GroupKind
    label: str
    key: str  # the whole path of a module; a call's name


class GroupId(Struct, frozen=True):
    """Which group of a graph it is: no two groups of one kind have the same steps."""

    kind: GroupKind
    first: int
    last: int


class Group(Struct, frozen=True):
    """A run of steps."""

    kind: GroupKind
    label: str  # "attn", "model.py:12", a kernel's name
    first: int
    last: int  # one after the last
    children: tuple[Child, ...] = ()
    module: str = ""  # the whole path
    detail: str = ""  # the module's class, a function's name
    kernel: Kernel | None = None
    share: Share | None = None  # of a kernel: how much of its launch this is
    shape: int = 0  # equal for groups of the same structure

    @property
    def id(self) -> GroupId:
        """Which group of its graph it is."""
        return GroupId(self.kind, self.first, self.last)

    def __len__(self) -> int:
        return self.last - self.first

    def walk(self) -> Iterator[Group]:
        """Yield the group and every group in it, outer ones first."""
        waiting = [self]
        while waiting:
            group = waiting.pop()
            yield group
            waiting.extend(child for child in reversed(group.children) if not isinstance(child, int))


Child = Group | int  # a step by its number


class _Steps(Struct, frozen=True):
    """The steps with what groups them."""

    steps: Sequence[Step]
    paths: Sequence[tuple[_Part, ...]]
    types: Mapping[str, str]  # of each module: its class
    launched: Sequence[Launched]
    shares: Mapping[int, Share]  # of launches, by their first step
    shapes: Sequence[int]
    reads: Sequence[tuple[int, ...]]  # how far back each step reads


def tree(flow: Flow, launched: Sequence[Launched], ops: Mapping[int, int]) -> Group:
    """Return the whole graph as one group, with the launch that computes each step and how many ops each launch has."""
    steps = flow.steps
    if not steps:
        return Group(GroupKind.GRAPH, "", 0, 0)
    known = _Steps(
        steps,
        _paths(steps, launched),
        {step.node.module: step.node.module_type for step in steps if step.node.module_type},
        launched or [None] * len(steps),
        shares(steps, launched, ops),
        [hash((step.node.target, step.node.specs, len(step.parts))) for step in steps],
        [tuple(place - flow.makers.get(name, -1) for name in step.reads) for place, step in enumerate(steps)],
    )
    return _group(known, GroupKind.GRAPH, "", _children(known, 0, len(steps), 0))


def _paths(steps: Sequence[Step], launched: Sequence[Launched]) -> list[tuple[_Part, ...]]:
    """The way to each step: modules, and the calls that it stands in; of a launch, around all that it computes."""
    modules = [step.node.module for step in steps]
    computed: dict[Hashable, list[int]] = {}
    for number, launch in enumerate(launched):
        if launch:
            computed.setdefault((launch[0], calls_around(steps[number])), []).append(number)
    for numbers in computed.values():
        around = common([modules[number] for number in numbers])
        for number in numbers:
            modules[number] = around
    known: dict[Hashable, tuple[_Part, ...]] = {}
    found = []
    for step, module in zip(steps, modules, strict=True):
        key = (module, calls_around(step))
        if key not in known:
            parts: list[_Part] = []
            around = ""
            for each in step.within:
                parts += _between(around, each.call.module)
                around = each.call.module
                parts.append(_Part(GroupKind.CALL, each.call.target.rpartition(".")[2], each.call.name))
                if each.body:
                    parts.append(_Part(GroupKind.BODY, each.body, f"{each.call.name} {each.body}"))
            known[key] = (*parts, *_between(around, module))
        found.append(known[key])
    return found


def _between(around: str, module: str) -> list[_Part]:
    """The modules on the way from one to a module inside of it."""
    if module == around:
        return []
    start = len(around) + 1 if around and module.startswith(f"{around}.") else 0
    spans = [(match.start(), match.end()) for match in _COMPONENT.finditer(module, start)]
    if len(spans) > _DEEPEST:
        spans[_DEEPEST - 1 :] = [(spans[_DEEPEST - 1][0], len(module))]
    return [_Part(GroupKind.MODULE, module[first:last], module[:last]) for first, last in spans]


def _children(known: _Steps, first: int, last: int, depth: int) -> tuple[Child, ...]:
    """The groups and single steps that a run falls into."""

    def part_of(step: int) -> _Part | None:
        return known.paths[step][depth] if len(known.paths[step]) > depth else None

    children: list[Child] = []
    for start, end, part in _runs(first, last, part_of):
        if part is None:
            children.extend(_launches(known, start, end))
        else:
            children.append(_opened(known, part, _children(known, start, end, depth + 1)))
    return _divided(known, tuple(children), set())


def _runs(first: int, last: int, key: Callable[[int], _T]) -> Iterator[tuple[int, int, _T]]:
    for what, members in groupby(range(first, last), key=key):
        places = list(members)
        yield places[0], places[-1] + 1, what


def _opened(known: _Steps, part: _Part, children: tuple[Child, ...]) -> Child:
    """A module; or a call with what it runs: what is one module but for the call has that module's name."""
    inner, *rest = children
    module = inner if not isinstance(inner, int) and inner.kind is GroupKind.MODULE else None
    if part.kind is GroupKind.MODULE and rest:
        return _group(known, part.kind, part.label, children, detail=known.types.get(part.key, ""), module=part.key)
    if part.kind is GroupKind.MODULE:
        return replace(module, label=f"{part.label}.{module.label}") if module else inner
    if part.kind is GroupKind.CALL and module and len(rest) == 1:
        children = (*module.children, *rest)
        return _group(known, part.kind, module.label, children, detail=part.label, module=module.module)
    return _group(known, part.kind, part.label, children)


def _launches(known: _Steps, first: int, last: int) -> Iterator[Child]:
    """Steps as they are, those of one kernel launch in a group, also where it is one step."""
    for start, end, _ in _runs(first, last, lambda n: launch_number(known.launched[n])):
        launch = known.launched[start]
        if launch is None:
            yield from range(start, end)
        else:
            children = _divided(known, tuple(range(start, end)), set())
            share = known.shares.get(start)
            made = _group(known, GroupKind.KERNEL, launch[1].name, children)
            yield replace(made, kernel=launch[1], share=share, shape=hash((made.shape, share)))


def _divided(known: _Steps, children: tuple[Child, ...], tried: set[GroupKind]) -> tuple[Child, ...]:
    """At most `MOST` children: by function and line where that helps, else by stretches."""
    for kind in (GroupKind.FUNCTION, GroupKind.LINE):
        if len(folds(children)) <= MOST or kind in tried:
            continue
        runs = [tuple(run) for _, run in groupby(children, key=lambda child: _place(known, child, kind))]
        if 1 < len(runs) < len(children):
            tried = {*tried, kind}
            children = tuple(run[0] if len(run) == 1 else _written(known, kind, run, tried) for run in runs)
    while len(folds(children)) > MOST:  # stretches of about equal length, as few as will do
        count = min(-(-len(children) // (MOST // 2)), MOST)
        size = -(-len(children) // count)
        cuts = [children[start : start + size] for start in range(0, len(children), size)]
        children = tuple(_group(known, GroupKind.STRETCH, "", _divided(known, cut, set(GroupKind))) for cut in cuts)
    return children


def _place(known: _Steps, child: Child, kind: GroupKind) -> Hashable:
    if not isinstance(child, int):
        return (child.first, child.last)  # stays by itself
    stack = known.steps[child].node.source
    if not stack:
        return None
    return (stack[-1].file, stack[-1].function, stack[-1].line if kind is GroupKind.LINE else 0)


def _written(known: _Steps, kind: GroupKind, run: tuple[Child, ...], tried: set[GroupKind]) -> Group:
    """What one function or line wrote."""
    stack = known.steps[span(run[0])[0]].node.source
    children = _divided(known, run, tried)
    if not stack:
        return _group(known, GroupKind.STRETCH, "", children)
    place, file = stack[-1], stack[-1].file.replace("\\", "/").rpartition("/")[2]
    label = place.function if kind is GroupKind.FUNCTION else f"{file}:{place.line}"
    return _group(known, kind, label or file, children, detail=file if label else "")


def _group(  # noqa: PLR0913 -- what makes a group
    known: _Steps, kind: GroupKind, label: str, children: tuple[Child, ...], *, detail: str = "", module: str = ""
) -> Group:
    first, last = span(children[0])[0], span(children[-1])[1]
    alike: list[Hashable] = [detail]
    for child in children:
        if isinstance(child, int):
            alike.append(known.shapes[child])
        else:
            alike.append((child.kind, "" if child.kind is GroupKind.KERNEL else child.label, child.shape))
    for step in range(first, last):
        # A step that reads from outside of the group is alike wherever that comes from.
        alike.append(tuple(min(back, step - first + 1) for back in known.reads[step]))  # noqa: PERF401
    return Group(kind, label, first, last, children, module, detail, shape=hash(tuple(alike)))


def span(child: Child) -> tuple[int, int]:
    """Return the first step of a group or single step, and the one after its last."""
    return (child, child + 1) if isinstance(child, int) else (child.first, child.last)


def folds(children: Sequence[Child]) -> list[tuple[Child, ...]]:
    """Return brothers of one family that are alike, in a row: each such row is one box."""
    return [tuple(run) for _, run in groupby(children, key=_sameness)]


def _sameness(child: Child) -> Hashable:
    if isinstance(child, int):
        return child
    # The same call again and again is alike by itself, its module has no number.
    if child.kind not in {GroupKind.MODULE, GroupKind.CALL, GroupKind.STRETCH}:
        return (child.first, child.last)
    family = _NUMBER.sub("", child.label)  # `h` of `h.3`; nothing of a plain number
    if child.kind is GroupKind.MODULE and family == child.label:
        return (child.first, child.last)
    return (child.kind, family, child.detail, len(child), child.shape)
