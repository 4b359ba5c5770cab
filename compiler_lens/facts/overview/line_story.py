"""What became of a line of the user's, or of a module: ops, kernels of both passes, and what else is in those.

And which launches a user means who names a compilation, a line, a module or a kernel, also in a profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.kernels import launch_ids, lineages_of
from compiler_lens.facts.kernels.lineage import LaunchMatch, Lineage, Origin, OriginsAt, Role, is_view
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.roofline import GroupCost, Roofline
from compiler_lens.facts.overview.shared import provenance_of
from compiler_lens.facts.overview.source_view import FileView, LineFacts, select_file, source_view
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection, nearest, select_kernels
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.ids import POST_GRADS, SourcePlace
from compiler_lens.recording.model import Decomposition, Direction, Kernel, Recording, SourceLine

_LISTED = 6  # modules that a message names


class Fate(Enum):
    """What became of a line, in one word."""

    KERNELS = "kernels"  # some kernel works for it
    VIEWS = "views"  # it only looks at memory in another way
    FOLDED = "folded"  # nothing of it is left in the graphs that Inductor gets
    UNNAMED = "unnamed"  # it is in those graphs, and no kernel is known to compute it
    NO_KERNELS = "no_kernels"  # its compilation has no kernels in this recording: another backend
    BREAKS = "breaks"
    EAGER = "eager"
    FAILED = "failed"
    UNSEEN = "unseen"  # in no graph


class Asked(Struct, frozen=True):
    """A line or a module, as it was named, and its ops."""

    file: str
    line: int
    module: str
    found: OriginsAt


class LineStory(Struct, frozen=True):
    """Everything that is known of a line or a module."""

    asked: Asked
    code: str
    ops: tuple[Origin, ...]  # its own; where it has none, those of what it calls
    launches: tuple[LaunchMatch, ...]  # launches that work for these
    inside: tuple[LaunchMatch, ...]  # launches that work only for what is called there
    decompositions: tuple[Decomposition, ...]
    shares: tuple[tuple[SourceLine, int], ...]  # other lines in these launches, and in how many of them
    fate: Fate
    unknown: tuple[Kernel, ...] = ()  # of the same compilations, that lead to no line at all: one may be this line's

    def of_pass(self, *, backward: bool) -> tuple[LaunchMatch, ...]:
        """Return the launches of the backward, or of the other programs."""
        return tuple(
            match for match in self.launches if (match.lineage.kernel.direction is Direction.BACKWARD) is backward
        )


class LineRow(Struct, frozen=True):
    """A line, and in how many launches it is."""

    line: SourceLine
    forward: int
    backward: int


def line_rows(provenance: Provenance) -> tuple[LineRow, ...]:
    """Return every line that some launch works for, file by file."""
    lines: dict[SourcePlace, SourceLine] = {}
    forward: Counter[SourcePlace] = Counter()
    backward: Counter[SourcePlace] = Counter()
    for lineage in provenance.lineages:
        counts = backward if lineage.kernel.direction is Direction.BACKWARD else forward
        for line in lineage.lines:
            lines[line.place] = line
            counts[line.place] += 1
    by_file = sorted(lines, key=lambda at: (at.file, at.line))
    return tuple(LineRow(lines[at], forward[at], backward[at]) for at in by_file)


def line_story(recording: Recording, provenance: Provenance, text: str, own: Ownership | None = None) -> LineStory:
    """Return the story of what a user names: `model.py:41`, or `layers.3.attn`."""
    views = source_view(recording, own or Ownership())
    asked = select_place(provenance, views, text)
    return story_of(recording, provenance, asked, next((view for view in views if view.file == asked.file), None))


def story_of(recording: Recording, provenance: Provenance, asked: Asked, view: FileView | None) -> LineStory:
    """Return the story of a place whose file is known."""
    ops = asked.found.direct or asked.found.calls
    became = {(each.compile_id, each.node): each for each in recording.decompositions}
    matches = provenance.launches_of(ops)
    known = {match.lineage.id for match in matches}
    inside = [match for match in provenance.launches_of(asked.found.calls) if match.lineage.id not in known]
    facts = view.facts.get(asked.line) if view else None
    ids = {op.compile_id for op in ops}
    lost = {one.kernel.id: one.kernel for one in provenance.lineages if one.kernel.compile_id in ids and not one.lines}
    placed = {one.kernel.id for one in provenance.lineages if one.lines}
    return LineStory(
        asked,
        _code(view, facts, asked.line, ops),
        ops,
        matches,
        tuple(inside),
        tuple(became[op.compile_id, op.node] for op in ops if op.node and (op.compile_id, op.node) in became),
        _shares(matches, asked, ops),
        _fate(recording, ops, matches, facts),
        tuple(kernel for which, kernel in lost.items() if which not in placed),
    )


def selected(
    recording: Recording, provenance: Provenance, selection: Selection, *, with_views: bool = True
) -> tuple[Lineage, ...]:
    """Return the launches that a selection means: of compilations, of a line, of a module, of a kernel.

    Without views, those that compute something of the line or module, and do not just read it in another shape.
    """
    if not selection.place:
        return lineages_of(recording, provenance, (k for k in recording.kernels if selection.has(k)))
    views = source_view(recording, Ownership.of(selection.user_paths))
    try:
        asked = select_place(provenance, views, selection.place, "line, no module and no kernel")
    except UsageError:
        # It may be a kernel's name or a part of one, or of several, which `select_kernels` then says.
        if not selection.place.strip() or not any(selection.place in kernel.name for kernel in recording.kernels):
            raise
        return lineages_of(recording, provenance, select_kernels(recording, selection.place, None))
    matches = provenance.launches_of(asked.found.every)
    return tuple(match.lineage for match in matches if with_views or not all(traced.is_view for traced in match.nodes))


def select_place(
    provenance: Provenance, views: Sequence[FileView], text: str, kinds: str = "line and no module"
) -> Asked:
    """Return the line meant by `model.py:41`, or any ending of the path; else the module of that path or ending.

    Raises `UsageError`, which says what there is instead.
    """
    name, _, number = text.rpartition(":")
    if name and number.isdecimal():
        view, line = select_file(views, text)
        if view.text and not 0 < int(number) <= max(len(view.text), *view.facts, 0):
            raise UsageError(f"no line {text}: the file has {len(view.text):,} lines")
        return Asked(view.file, line or 0, "", provenance.at_line(view.file, line or 0))
    path = text.strip().removeprefix("self.").strip(".")
    found = _in_module(provenance, path) if path else OriginsAt()
    if found.every:
        return Asked("", 0, path, OriginsAt(found.every))
    raise UsageError(f"no {kinds} {text!r} in this recording{_instead(provenance, views, text)}")


def _in_module(provenance: Provenance, path: str) -> OriginsAt:
    whole = provenance.in_module(path)
    if whole.every:
        return whole
    ending = f".{path}"
    found = {module: f"{module}.".find(f"{ending}.") for module in provenance.modules}
    tops = dict.fromkeys(module[: at + len(ending)] for module, at in found.items() if at > 0)
    each = {origin.number: origin for top in tops for origin in provenance.in_module(top).every}
    return OriginsAt(tuple(each.values()))


def _instead(provenance: Provenance, views: Sequence[FileView], text: str) -> str:
    try:
        view, _ = select_file(views, text)
    except UsageError:
        view = None
    if view is not None:
        lines = [number for number, facts in view.facts.items() if facts.compiled]
        return f": which line of it? {text}:{lines[0]} for one" if lines else ": a file, and no line of it is compiled"
    if text.strip().isdecimal():
        names = (view.file.replace("\\", "/").rpartition("/")[2] for view in views if view.own)
        named = next(filter(None, names), "FILE")
        return f": a line is named with its file: {named}:{text.strip()}"
    modules = provenance.modules
    meant = nearest(text, modules)
    more = f" and {len(modules) - _LISTED:,} more" if len(modules) > _LISTED else ""
    listed = f": it has the modules {', '.join(modules[:_LISTED])}{more}" if modules else ": name a line as FILE:N"
    return listed + (f". Did you mean {meant}?" if meant else "")


def _code(view: FileView | None, facts: LineFacts | None, number: int, ops: Sequence[Origin]) -> str:
    if view and 0 < number <= len(view.text):
        return view.text[number - 1].strip()
    told = (place.code for op in ops for place in op.stack if view and (place.file, place.line) == (view.file, number))
    return (facts.code if facts else "") or next(told, "")


def _shares(matches: Iterable[LaunchMatch], asked: Asked, ops: Iterable[Origin]) -> tuple[tuple[SourceLine, int], ...]:
    mine = {SourcePlace(asked.file, asked.line), *(op.line.place for op in ops if op.line and not asked.file)}
    lines: dict[SourcePlace, SourceLine] = {}
    counts: Counter[SourcePlace] = Counter()
    for match in matches:
        # What a view is part of works for its line as well, but shares nothing with it.
        for line in () if all(traced.is_view for traced in match.nodes) else match.lineage.lines:
            if line.place not in mine:
                lines[line.place] = line
                counts[line.place] += 1
    return tuple((lines[place], count) for place, count in counts.most_common())


def _fate(recording: Recording, ops: Sequence[Origin], matches: Iterable[LaunchMatch], facts: LineFacts | None) -> Fate:
    if any(not traced.is_view and traced.role is not Role.FEEDS for match in matches for traced in match.nodes):
        return Fate.KERNELS
    if not ops:
        return _without_ops(facts)
    ids = {op.compile_id for op in ops}
    if not any(kernel.compile_id in ids for kernel in recording.kernels):
        return Fate.NO_KERNELS
    names = {(op.compile_id, op.node) for op in ops}
    left: list[str] = []
    for graph in recording.graphs:
        if graph.compile_id in ids and graph.stage in POST_GRADS:
            origins = ((node.target, ((graph.compile_id, name) for name in node.origins)) for node in graph.ops)
            left += [target for target, made_of in origins if not names.isdisjoint(made_of)]
    if not left and all(op.node for op in ops):
        return Fate.FOLDED
    return Fate.VIEWS if left and all(map(is_view, left)) else Fate.UNNAMED


def _without_ops(facts: LineFacts | None) -> Fate:
    if facts is None:
        return Fate.UNSEEN
    if facts.failures or facts.uncompiled is Treatment.FAILED:
        return Fate.FAILED
    if facts.cards:
        return Fate.BREAKS
    return Fate.EAGER if facts.uncompiled else Fate.UNSEEN


# -- in a profile


class ProfilePart(Struct, frozen=True):
    """What was asked for of a profile: kernels with those of their launches that are meant."""

    groups: tuple[GroupCost, ...]  # the most to gain first
    launches: int  # that were timed
    untimed: int = 0  # of what was named, that have no time
    named: str = ""  # what was asked for; empty: all


def profile_part(recording: Recording, found: Roofline, selection: Selection) -> ProfilePart:
    """Return the launches that a selection means; of all, where it names nothing."""
    if selection.ids is None and not selection.place:
        return ProfilePart(found.groups, sum(len(group.launches) for group in found.groups))
    provenance = provenance_of(recording, selection)
    wanted = frozenset(launch_ids(selected(recording, provenance, selection, with_views=False)))
    groups = []
    for group in found.groups:
        launches = tuple(cost for cost in group.launches if cost.time.id in wanted)
        if launches:
            own = {cost.kernel.id for cost in launches}
            kernels = tuple(kernel for kernel in group.group.kernels if kernel.id in own)
            groups.append(GroupCost.of(replace(group.group, kernels=kernels), launches))
    groups.sort(key=lambda group: (-group.above, -group.total))
    count = sum(len(group.launches) for group in groups)
    named = selection.place or ", ".join(f"[{i}]" for i in sorted(selection.ids or (), key=str))
    return ProfilePart(tuple(groups), count, len(wanted) - count, named)
