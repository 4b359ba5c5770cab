"""What became of a line, or of a module: its ops, its kernels of both passes, and what else is in those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, convert
from msgspec.structs import asdict

from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.kernels.lineage import LaunchMatch, Role, TracedOrigin
from compiler_lens.facts.overview.line_story import Fate, LineRow, LineStory, line_rows, line_story
from compiler_lens.facts.overview.shared import costs_of, provenance_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CompileId, Direction
from compiler_lens.recording.model import Decomposition, Recording, SourceLine, Trust
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.document import Column, line, paragraph
from compiler_lens.views.lineage import modules_text
from compiler_lens.views.parts import At, Cell, Figure, KernelName, Kind, Parts, Tone, code, quiet, strong
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import joined, plural, times

_OPS = 8
_KERNELS = 16
_SHARES = 6

# Why a line has no kernel.
FATES: Mapping[Fate, str] = {
    Fate.KERNELS: "",
    Fate.VIEWS: "It costs nothing: it only looks at memory in another way.",
    Fate.FOLDED: "It costs nothing: no op of it is left in the graphs that Inductor gets.",
    Fate.UNNAMED: "Inductor gets ops of it, and no kernel is known to compute them.",
    Fate.NO_KERNELS: "It is compiled, and its compilation has no kernels in this recording.",
    Fate.BREAKS: "It is in no graph: the graph breaks here.",
    Fate.EAGER: "It runs eagerly.",
    Fate.FAILED: "It failed to compile.",
    Fate.UNSEEN: "No graph in this recording has an op of it.",
}


class Lines(Struct, frozen=True):
    """Every line that some launch works for, with how many launches of each pass do."""

    lines: tuple[LineRow, ...]


class MatchedLaunch(Struct, frozen=True):
    """A launch that works for a line."""

    compile_id: CompileId
    direction: Direction
    ordinal: int
    kernel: str
    launch: int | None
    role: Role
    trust: Trust
    nodes: tuple[str, ...]  # that are for the line
    of: int  # how many nodes the launch has


class SharedLine(Struct, frozen=True):
    """Another line in the same launches."""

    line: SourceLine
    launches: int


class LineFate(Struct, frozen=True):
    """What became of one line or of one module."""

    file: str | None
    line: int | None
    module: str | None
    code: str
    fate: Fate
    ops: tuple[TracedOrigin, ...]
    called_ops: tuple[TracedOrigin, ...]
    decompositions: tuple[Decomposition, ...]
    launches: tuple[MatchedLaunch, ...]
    launches_of_what_it_calls: tuple[MatchedLaunch, ...]
    shares: tuple[SharedLine, ...]


Data = Lines | LineFate


def document(recording: Recording, selection: Selection) -> doc.Document:
    """Return the story of the line or module that was asked for; without one, every line with launches."""
    provenance = provenance_of(recording, selection)
    if not selection.place:
        return _every_line(line_rows(provenance))
    story = line_story(recording, provenance, selection.place, Ownership.of(selection.user_paths))
    costs = costs_of(recording, selection)
    head = line(At(story.asked, Tone.STRONG), "  ", code(story.code))
    if story.asked.module:
        own = [op for op in story.ops if op.module == story.asked.module]
        kinds = ", ".join(dict.fromkeys(op.module_type for op in own if op.module_type))
        head = line(strong(story.asked.module), quiet(f"  {kinds}"))
    blocks: list[doc.Block] = [head, *ops(story)]
    if FATES[story.fate]:
        blocks.append(paragraph(FATES[story.fate], indent=2))
    blocks += _kernels(costs, "forward", story.of_pass(backward=False))
    blocks += _kernels(costs, "backward", story.of_pass(backward=True))
    if story.launches and not costs.is_usable:
        blocks.append(paragraph(UNUSABLE, indent=2, tone=Tone.WARN))
    called = inside(story)
    blocks += [doc.Gap(), called] if called else []
    blocks += _around(story)
    if story.launches:
        blocks += [doc.Gap(), doc.Command("one of them: ", f"kernel {story.launches[0].lineage.kernel.name}", 2)]
    return doc.Document(tuple(blocks), _data(story))


def _data(story: LineStory) -> LineFate:
    asked, origins = story.asked, tuple[TracedOrigin, ...]
    return LineFate(
        asked.file or None, asked.line or None, asked.module or None, story.code, story.fate,
        convert(asked.found.direct, origins, from_attributes=True),
        convert(asked.found.calls, origins, from_attributes=True),
        story.decompositions, _matched(story.launches), _matched(story.inside),
        tuple(SharedLine(at, count) for at, count in story.shares),
    )  # fmt: skip


def _matched(matches: Iterable[LaunchMatch]) -> tuple[MatchedLaunch, ...]:
    made = []
    for match in matches:
        one, nodes = match.lineage, tuple(node.name for node in match.nodes)
        launch = MatchedLaunch(
            **asdict(one.kernel.code_id), kernel=one.kernel.name, launch=one.launch, role=match.role,
            trust=match.trust, nodes=nodes, of=len(one.nodes),
        )  # fmt: skip
        made.append(launch)
    return tuple(made)


_CODE = Column("code", Kind.CODE, Tone.CODE, flexible=True, headless=True)


def _every_line(rows: Sequence[LineRow]) -> doc.Document:
    if not rows:
        return doc.Document((line("No kernel here leads to a line."),), Lines(()), count=0)
    columns = (Column("line"), Column("forward", Kind.COUNT), Column("backward", Kind.COUNT), _CODE)
    cells = tuple(
        (At(row.line, Tone.STRONG), row.forward or None, row.backward or None, row.line.code.strip()) for row in rows
    )
    most = max(rows, key=lambda row: row.forward + row.backward).line
    blocks = (
        doc.Section("Lines", (doc.Table(columns, cells),), f"{plural(len(rows), 'line')} with launches"),
        doc.Gap(),
        doc.Command("one of them: ", ("line ", At(most, short=True))),
    )
    return doc.Document(blocks, Lines(tuple(rows)), count=len(rows))


def ops(story: LineStory) -> Iterator[doc.Block]:
    """Yield the torch ops of a line, and what they became."""
    if not story.ops:
        return
    called = "" if story.asked.found.direct else " in what it calls"
    by_compilation: dict[CompileId, list[str]] = {}
    for op in story.ops:
        by_compilation.setdefault(op.compile_id, []).append(op.target)
    targets = next(iter(by_compilation.values()))
    alike = all(other == targets for other in by_compilation.values())
    if not alike:
        targets = [op.target for op in story.ops]
    several = ""
    if len(by_compilation) > 1:
        several = f" in {'each of' if alike else 'all'} {len(by_compilation):,} compilations"
    yield _counted(f"{plural(len(targets), 'torch op')}{called}{several}: ", targets)
    modules = modules_text((op.module for op in story.ops if op.module), 4)
    if modules and not story.asked.module:
        yield paragraph(quiet("of "), modules, indent=4, limit=2)
    forward = [op for each in story.decompositions for op in each.forward]
    backward = [op for each in story.decompositions for op in each.backward]
    if forward:
        yield _counted("ATen forward: ", forward)
    if backward:
        yield _counted("ATen backward: ", backward)


def _counted(told: str, targets: Sequence[str]) -> doc.Paragraph:
    names = Counter(words.op_name(target) for target in targets if target)
    shown = [f"{name} {times(n)}" if n > 1 else name for name, n in names.most_common(_OPS)]
    more = f", {len(names) - _OPS} more" if len(names) > _OPS else ""
    return paragraph(quiet(told), code(", ".join(shown) + more), indent=2, limit=2)


def _kernels(costs: Costs, name: str, matches: Sequence[LaunchMatch]) -> Iterator[doc.Block]:
    """One row for each kernel, with its launches for this line and how much of them is of it."""
    if not matches:
        return
    found = by_kernel(matches)
    counts = f"{plural(len(found), 'kernel')}, {plural(len(matches), 'launch', 'launches')}"
    whole = took(matches, costs)
    spent: Parts = ()
    if whole is not None:
        spent = quiet(", "), Figure(whole, Kind.MICROSECONDS, Tone.QUIET), quiet(" in all")
    rows: list[tuple[Cell, ...]] = []
    for members in found:
        kernel = KernelName(members[0].lineage.kernel.name, members[0].lineage.index, Tone.PLAIN)
        rows.append((kernel, launches_words(members), share_words(members), took(members, costs)))
    columns = (
        Column("kernel", flexible=True, middle=True, headless=True),
        Column("launches", tone=Tone.QUIET, headless=True),
        Column("share", headless=True),
        Column("time", Kind.MICROSECONDS, headless=True),
    )
    yield doc.Gap()
    yield line(strong(name), quiet(f"  {counts}"), *spent, indent=2)
    yield doc.Table(columns, tuple(rows), indent=4, most=_KERNELS, noun="kernel")


def by_kernel(matches: Sequence[LaunchMatch]) -> list[list[LaunchMatch]]:
    """Return the launches of each kernel; those that only look at memory last."""
    return list(grouped(sorted(matches, key=is_only_views), lambda match: match.lineage.index).values())


def took(matches: Sequence[LaunchMatch], costs: Costs) -> float | None:
    """Return the microseconds that launches take in a call, those left out that only look at memory."""
    return costs.microseconds(match.lineage for match in matches if not is_only_views(match))


def is_only_views(match: LaunchMatch) -> bool:
    """Return whether the launch computes nothing of it, but reads it in another shape."""
    return all(node.is_view for node in match.nodes)


def launches_words(members: Sequence[LaunchMatch]) -> str:
    """Return how many of a kernel's launches these are."""
    whole = len(members[0].lineage.kernel.launches)
    return f"{len(members)} of {plural(whole, 'launch', 'launches')}" if whole > 1 else ""


def share_words(members: Sequence[LaunchMatch]) -> str:
    """Return how many ops of these launches are of the line; views count as nothing."""
    own = sum(not node.is_view for match in members for node in match.nodes)
    whole = sum(not node.is_view for match in members for node in match.lineage.nodes)
    if not own:
        return "only views"
    roles = {match.role for match in members}
    part = "all of it" if own == whole else f"{own} of {whole} ops"
    does = {Role.RECOMPUTES: ", recomputed", Role.FEEDS: ", feeds it"}
    return part + (does.get(roles.pop(), "") if len(roles) == 1 else "")


def inside(story: LineStory) -> doc.Paragraph | None:
    """Return what works only for what is called on the line."""
    if not story.inside:
        return None
    modules = modules_text((op.module for op in story.asked.found.calls if op.module), 3)
    told = f"what is called here has {plural(len(story.inside), 'launch', 'launches')} more"
    return paragraph(told, quiet(f": {modules}" if modules else ""), indent=2)


def _around(story: LineStory) -> Iterator[doc.Block]:
    """What else is in the same launches, how far they are known, and kernels that may be of this line."""
    if story.shares:
        columns = (Column("line", headless=True), Column("launches", tone=Tone.QUIET, headless=True), _CODE)
        rows = tuple((At(at, Tone.STRONG), plural(n, "launch", "launches"), at.code.strip()) for at, n in story.shares)
        yield doc.Gap()
        yield line(strong("in the same launches"), indent=2)
        yield doc.Table(columns, rows, indent=4, most=_SHARES, noun="line")
    doubtful = sum(match.trust is Trust.TEXT for match in story.launches)
    if doubtful and story.fate is Fate.KERNELS:
        whose = "these links are" if doubtful == len(story.launches) else f"{doubtful:,} of these links are"
        yield paragraph(f"{whose} {words.TRUST[Trust.TEXT]}", indent=2, tone=Tone.QUIET)
    if story.unknown:
        names = [f"{kernel.name} in [{kernel.compile_id}]" for kernel in story.unknown]
        told = "kernels of the same compilation that lead to no line, and may be of this one: "
        yield paragraph(quiet(told), joined(names, _SHARES), indent=2, limit=3)
