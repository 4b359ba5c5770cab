"""A graph's steps as a tree: by module, by source line, by stretches. A group is a run of steps, one after the other.

Steps are in an order in which each reads only earlier ones. So runs never read each other in a circle, however they
are cut, and a module that is called twice is two groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby

from compiler_lens.facts.graphs.launch_shares import Share, calls_around, shares
from compiler_lens.facts.kernels.graph_flow import Flow, Step, Within, common
from compiler_lens.recording.model import Kernel

MOST = 60  # boxes that compute, in one level; inputs and outputs come on top
_DEEPEST = 40  # modules in each other
_COMPONENT = re.compile(r"[^.]+(?:\.\d+)*")  # "h.3" of "transformer.h.3.attn": brothers of one family


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


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the way from the whole graph to a step."""

    kind: GroupKind
    label: str
    key: str  # the whole path of a module; a call's name


@dataclass(frozen=True, slots=True)
class GroupId:
    """Which group of a graph it is: no two groups of one kind have the same steps."""

    kind: GroupKind
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Group:
    """A run of steps."""

    kind: GroupKind
    label: str  # "attn", "model.py:12", a kernel's name
    first: int
    last: int  # one behind the last
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


Child = Group | int  # a step by its number


@dataclass(slots=True)
class _Steps:
    """The steps with what groups them."""

    steps: Sequence[Step]
    paths: Sequence[tuple[_Part, ...]]
    types: dict[str, str]
    kernels: Sequence[tuple[int, Kernel] | None]
    shares: Mapping[int, Share]  # of launches, by their first step
    shapes: list[int] = field(default_factory=list)
    reads: list[tuple[int, ...]] = field(default_factory=list)  # how far back each step reads


def tree(flow: Flow, kernels: Sequence[tuple[int, Kernel] | None] = (), ops: Mapping[int, int] | None = None) -> Group:
    """The whole graph as one group; `kernels` has the launch that computes each step, `ops` how many each computes."""
    paths = _paths(flow.steps, _modules(flow.steps, kernels))
    types = {step.node.module: step.node.module_type for step in flow.steps if step.node.module_type}
    known = _Steps(
        flow.steps, paths, types, kernels or [None] * len(flow.steps), shares(flow.steps, kernels, ops or {})
    )
    for place, step in enumerate(flow.steps):
        known.shapes.append(hash((step.node.target, step.node.specs, len(step.parts))))
        known.reads.append(tuple(place - flow.makers.get(name, -1) for name in step.reads))
    children = _children(known, 0, len(flow.steps), 0, set())
    return _group(known, GroupKind.GRAPH, "", children) if children else Group(GroupKind.GRAPH, "", 0, 0)


def _modules(steps: Sequence[Step], kernels: Sequence[tuple[int, Kernel] | None]) -> list[str]:
    """The module of each step; of a launch, the one around all that it computes."""
    own = [step.node.module for step in steps]
    if not kernels:
        return own
    keys = [(launch[0], calls_around(step)) if launch else None for step, launch in zip(steps, kernels, strict=True)]
    of: dict[Hashable, list[str]] = {}
    for module, key in zip(own, keys, strict=True):
        if key:
            of.setdefault(key, []).append(module)
    around = {key: common(modules) for key, modules in of.items()}
    return [around[key] if key else module for module, key in zip(own, keys, strict=True)]


def _paths(steps: Sequence[Step], modules: Sequence[str]) -> list[tuple[_Part, ...]]:
    """The way to each step: modules, and the calls that it stands in."""
    known: dict[Hashable, tuple[_Part, ...]] = {}
    found = []
    for step, module in zip(steps, modules, strict=True):
        key = (module, calls_around(step))
        if key not in known:
            known[key] = _path(step.within, module)
        found.append(known[key])
    return found


def _path(within: Sequence[Within], module: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    around = ""
    for each in within:
        parts += _between(around, each.call.module)
        around = each.call.module
        parts.append(_Part(GroupKind.CALL, each.call.target.rpartition(".")[2], each.call.name))
        if each.body:
            parts.append(_Part(GroupKind.BODY, each.body, f"{each.call.name} {each.body}"))
    return (*parts, *_between(around, module))


def _between(around: str, module: str) -> list[_Part]:
    """The modules on the way from one to a module inside of it."""
    if module == around:
        return []
    start = len(around) + 1 if around and module.startswith(f"{around}.") else 0
    spans = [(match.start(), match.end()) for match in _COMPONENT.finditer(module, start)]
    if len(spans) > _DEEPEST:
        spans[_DEEPEST - 1 :] = [(spans[_DEEPEST - 1][0], len(module))]
    return [_Part(GroupKind.MODULE, module[first:last], module[:last]) for first, last in spans]


def _children(known: _Steps, first: int, last: int, depth: int, tried: set[GroupKind]) -> tuple[Child, ...]:
    """The groups and single steps that a run falls into."""
    runs = _runs(first, last, lambda n: known.paths[n][depth] if len(known.paths[n]) > depth else None)
    children: list[Child] = []
    for start, end, part in runs:
        if not isinstance(part, _Part):
            children.extend(_launches(known, start, end))
        elif part.kind is GroupKind.MODULE:
            children.append(_module(known, start, end, depth))
        else:
            children.append(_call(known, start, end, depth))
    return _divided(known, tuple(children), tried)


def _runs(first: int, last: int, key: Callable[[int], Hashable]) -> Iterator[tuple[int, int, Hashable]]:
    for what, members in groupby(range(first, last), key=key):
        places = list(members)
        yield places[0], places[-1] + 1, what


def _module(known: _Steps, first: int, last: int, depth: int) -> Child:
    part = known.paths[first][depth]
    children = _children(known, first, last, depth + 1, set())
    if len(children) == 1:
        only = children[0]
        if isinstance(only, int) or only.kind is not GroupKind.MODULE:
            return only
        return replace(only, label=f"{part.label}.{only.label}")
    return replace(
        _group(known, GroupKind.MODULE, part.label, children, known.types.get(part.key, "")), module=part.key
    )


def _call(known: _Steps, first: int, last: int, depth: int) -> Child:
    """A call with what it runs, or a part of that; what is one module but for the call has that module's name."""
    part = known.paths[first][depth]
    children = _children(known, first, last, depth + 1, set())
    inner, *rest = children
    if part.kind is GroupKind.CALL and not isinstance(inner, int) and inner.kind is GroupKind.MODULE and len(rest) == 1:
        made = _group(known, part.kind, inner.label, (*inner.children, *rest), part.label)
        return replace(made, module=inner.module)
    return _group(known, part.kind, part.label, children)


def _launch_number(launch: tuple[int, Kernel] | None) -> int | None:
    return launch[0] if launch else None


def _launches(known: _Steps, first: int, last: int) -> Iterator[Child]:
    """Steps as they are, those of one kernel launch in a group, also where it is one step."""
    for start, end, number in _runs(first, last, lambda n: _launch_number(known.kernels[n])):
        launch = known.kernels[start]
        if launch is None or number is None:
            yield from range(start, end)
        else:
            children = _divided(known, tuple(range(start, end)), set())
            share = known.shares.get(start)
            made = _group(known, GroupKind.KERNEL, launch[1].name, children)
            yield replace(made, kernel=launch[1], share=share, shape=hash((made.shape, share)))


# -- keeping levels small


def _divided(known: _Steps, children: tuple[Child, ...], tried: set[GroupKind]) -> tuple[Child, ...]:
    """At most `MOST` children: by function and line where that helps, else by stretches."""
    for kind in (GroupKind.FUNCTION, GroupKind.LINE):
        if len(folds(children)) <= MOST or kind in tried:
            continue
        runs = [tuple(run) for _, run in groupby(children, key=lambda child: _place(known, child, kind))]
        if 1 < len(runs) < len(children):
            tried = {*tried, kind}
            children = tuple(run[0] if len(run) == 1 else _grouped(known, kind, run, tried) for run in runs)
    while len(folds(children)) > MOST:
        children = _stretches(known, children)
    return children


def _place(known: _Steps, child: Child, kind: GroupKind) -> Hashable:
    if not isinstance(child, int):
        return (child.first, child.last)  # stays by itself
    stack = known.steps[child].node.source
    if not stack:
        return None
    return (stack[-1].file, stack[-1].function, stack[-1].line if kind is GroupKind.LINE else 0)


def _grouped(known: _Steps, kind: GroupKind, run: tuple[Child, ...], tried: set[GroupKind]) -> Group:
    stack = known.steps[_first(run[0])].node.source
    children = _divided(known, run, tried)
    if not stack:
        return _group(known, GroupKind.STRETCH, "", children)
    place, file = stack[-1], stack[-1].file.replace("\\", "/").rpartition("/")[2]
    label = place.function if kind is GroupKind.FUNCTION else f"{file}:{place.line}"
    return _group(known, kind, label or file, children, file if label else "")


def _stretches(known: _Steps, children: tuple[Child, ...]) -> tuple[Child, ...]:
    """The children in stretches of about equal length, as few as will do."""
    count = min(-(-len(children) // (MOST // 2)), MOST)
    size = -(-len(children) // count)
    cuts = [children[start : start + size] for start in range(0, len(children), size)]
    return tuple(_group(known, GroupKind.STRETCH, "", _divided(known, cut, set(GroupKind))) for cut in cuts)


def _first(child: Child) -> int:
    return child if isinstance(child, int) else child.first


def _last(child: Child) -> int:
    return child + 1 if isinstance(child, int) else child.last


# -- what is alike


def _group(known: _Steps, kind: GroupKind, label: str, children: tuple[Child, ...], detail: str = "") -> Group:
    first, last = _first(children[0]), _last(children[-1])
    return Group(kind, label, first, last, children, detail=detail, shape=_shape(known, children, first, detail))


def _shape(known: _Steps, children: tuple[Child, ...], first: int, detail: str) -> int:
    parts: list[Hashable] = [detail]
    for child in children:
        if isinstance(child, int):
            parts.append(known.shapes[child])
        else:
            parts.append((child.kind, "" if child.kind is GroupKind.KERNEL else child.label, child.shape))
    for step in range(first, _last(children[-1])):
        # A step that reads from outside of the group is alike wherever that comes from.
        parts.append(tuple(min(back, step - first + 1) for back in known.reads[step]))  # noqa: PERF401
    return hash(tuple(parts))


def family(label: str) -> str:
    """A numbered label without its number: `h` of `h.3`; empty for a plain number."""
    return re.sub(r"\.?\d+(?:\.\d+)*$", "", label)


def folds(children: Sequence[Child]) -> list[tuple[Child, ...]]:
    """Brothers of one family that are alike, in a row: each such row is one box."""
    return [tuple(run) for _, run in groupby(children, key=_sameness)]


def _sameness(child: Child) -> Hashable:
    if isinstance(child, int):
        return child
    numbered = child.kind in {GroupKind.MODULE, GroupKind.CALL} and family(child.label) != child.label
    # The same call again and again is alike by itself, its module has no number.
    if not (numbered or child.kind in {GroupKind.STRETCH, GroupKind.CALL}):
        return (child.first, child.last)
    return (child.kind, family(child.label), child.detail, len(child), child.shape)
