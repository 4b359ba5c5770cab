"""The user's files, line by line, with a gutter: what is compiled, where it breaks, what runs eagerly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.overview.line_story import Asked, LineStory, story_of
from compiler_lens.facts.overview.shared import costs_of, files_of, provenance_of
from compiler_lens.facts.overview.source_view import FileView, LineFacts, select_file
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CompileId, Direction, SourcePlace
from compiler_lens.recording.model import Recording
from compiler_lens.views import document as doc
from compiler_lens.views import line as line_view
from compiler_lens.views import words
from compiler_lens.views.advice import changed, why
from compiler_lens.views.document import Column, LineNote, Mark, line, paragraph
from compiler_lens.views.parts import At, File, Kind, Tone, ToView, code, quiet
from compiler_lens.views.text import plural

_AROUND = 12  # lines shown on each side of the one asked for
_QUIET = 14  # lines in a row that nothing happened in, inside of a function that was seen
_CONTEXT = 3
_TABLE = 12  # files in the list
_SHARES = 12

COMPILED = Mark("+", Tone.GOOD, "compiled, in the graphs on the right")
EAGER = Mark("-", Tone.WARN, "runs eagerly")
BOTH = Mark("~", Tone.WARN, "partly compiled, partly eager")
FAILED = Mark("x", Tone.BAD, "failed to compile")
BREAK = Mark("!", Tone.BAD, "graph break")
CALLS = Mark("|", Tone.WARN, "calls what breaks")
GUARD = Mark("g", Tone.CODE, "recompiled for this")
_LEGEND = (COMPILED, EAGER, BOTH, FAILED, BREAK, CALLS, GUARD)


class SeenFunction(Struct, frozen=True):
    """A function that the compiler looked at."""

    name: str
    first: int
    last: int


class LineFate(Struct, frozen=True):
    """What happened to one line."""

    line: int
    code: str
    graphs: tuple[CompileId, ...]
    calls: tuple[CompileId, ...]
    cards: tuple[int, ...]
    follows: tuple[int, ...]
    calls_break: tuple[int, ...]
    failures: tuple[str, ...]
    uncompiled: Treatment | None
    guards: tuple[str, ...]


class FileFate(Struct, frozen=True):
    """A file, and every line of it that something is known of."""

    file: str
    own: bool
    has_text: bool
    breaks: int
    functions: tuple[SeenFunction, ...]
    lines: tuple[LineFate, ...]

    @classmethod
    def of(cls, view: FileView) -> FileFate:
        """Return the data of a file."""
        functions = tuple(SeenFunction(each.name, each.first, each.last) for each in view.seen)
        lines: list[LineFate] = []
        for number, facts in view.facts.items():
            text = view.text[number - 1] if number <= len(view.text) else facts.code
            cards, guards = (card.number for card in facts.cards), (cause.subject for cause in facts.guards)
            fate = LineFate(
                number, text, facts.graphs, facts.calls, tuple(cards), facts.follows, facts.calls_break, facts.failures,
                facts.uncompiled, tuple(guards),
            )  # fmt: skip
            lines.append(fate)
        return cls(view.file, view.own, bool(view.text), view.breaks, functions, tuple(lines))


class Data(Struct, frozen=True):
    """Files line by line."""

    line: int | None  # that was asked for
    files: tuple[FileFate, ...]


def document(recording: Recording, selection: Selection) -> doc.Document:
    """Return the file that was asked for; else the most broken one, and a list of the others."""
    views = files_of(recording, selection)
    if selection.for_page:
        return _whole(recording, selection, views)
    if selection.file:
        view, number = select_file(views, selection.file)
        kernels = _kernels(recording, SourcePlace(view.file, number), selection) if number else ()
        return doc.Document((*_file(view, number), *kernels), Data(number, (FileFate.of(view),)))
    data = Data(None, tuple(FileFate.of(view) for view in views if view.facts))
    happened = [view for view in views if view.breaks or view.compiled_lines or view.uncompiled_lines]
    chosen = [view for view in happened if view.own] or [view for view in happened if view.cards]
    if not chosen:
        none = line("No line of your files was compiled, and none broke a graph.")
        return doc.Document((none, *(_list(happened, " of libraries") if happened else ())), data)
    listed = () if len(chosen) == 1 else (*_list(chosen), doc.Gap())
    return doc.Document((*listed, *_file(chosen[0])), data)


def _kernels(recording: Recording, at: SourcePlace, selection: Selection) -> tuple[doc.Block, ...]:
    """How many kernels work for the line that was asked for."""
    provenance = provenance_of(recording, selection)
    matches = provenance.launches_of(provenance.at_line(at.file, at.line).every)
    kernels = {match.lineage.index: match.lineage.kernel for match in matches}.values()
    counts = Counter(words.PASSES[kernel.direction] for kernel in kernels)
    if not counts:
        return ()
    told = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items(), reverse=True))
    return doc.Gap(), doc.Command(f"its kernels ({told}): ", ("line ", At(at)))


def _list(views: Sequence[FileView], whose: str = "") -> tuple[doc.Block, ...]:
    listed = doc.table(
        views,
        (Column("file", tone=Tone.STRONG, flexible=True, middle=True), lambda view: File(view.file)),
        (Column("breaks", Kind.COUNT), lambda view: view.breaks or None),
        (Column("lines compiled", Kind.COUNT), lambda view: view.compiled_lines or None),
        (Column("not compiled", Kind.COUNT), lambda view: view.uncompiled_lines or None),
        most=_TABLE,
    )
    summary = f"{plural(len(views), 'file')}{whose}, worst first"
    return doc.Section("Source", (listed,), summary), doc.Command("one of them: ", "source FILE")


# -- one file


def _summary(view: FileView) -> str:
    """Return how much of a file broke, how much is compiled and how much is not."""
    if not view.facts:
        return "nothing happened in it"
    broken = f"{plural(view.breaks, 'graph break')} at {plural(view.broken_lines, 'line')}" if view.cards else ""
    not_compiled = f"{view.uncompiled_lines:,} not" if view.uncompiled_lines else ""
    return ", ".join(filter(None, (broken, f"{plural(view.compiled_lines, 'line')} compiled", not_compiled)))


def _file(view: FileView, number: int | None = None) -> tuple[doc.Block, ...]:
    """One file, and what to ask for next."""
    last = len(view.text) - (not view.text[-1]) if view.text else 0
    every = [*range(1, last + 1), *(number for number in view.facts if number > last)]
    shown = [n for n in every if number is None or abs(n - number) <= _AROUND]
    kept = _kept(view, shown) if number is None and view.text and shown else shown
    rows = {n: _row(view.facts[n]) for n in shown if n in view.facts}
    names = {each.line: each.name for each in view.seen if "." in each.name}
    bounds = (shown[0], shown[-1]) if shown else (0, 0)
    drawn = doc.Annotated(view.file, _summary(view), view.text, rows, _LEGEND, bounds, tuple(kept), names)
    if not shown:
        known = f"it has {plural(len(every), 'line')}" if view.text else "nothing is known of the lines there"
        return drawn, line(f"No line {number}: {known}." if number else "No line of it is known.", indent=2)
    broken = any(view.facts[n].cards or view.facts[n].follows or view.facts[n].calls_break for n in rows)
    more = (doc.Gap(), doc.Command("what to change, break by break: ", "breaks")) if broken else ()
    return (drawn, *more)


def _kept(view: FileView, shown: Sequence[int]) -> Iterator[int]:
    """The functions that were seen, without their long quiet stretches, and every line of which something is known."""
    seen = {number for each in view.seen for number in range(each.line, each.last + 1)}
    loud = [-1, *(at for at, n in enumerate(shown) if n in view.facts or n not in seen), len(shown)]
    for before, after in pairwise(loud):
        quiet_stretch = after - before > _QUIET
        for at in range(before + 1, after):
            if not quiet_stretch or at - before <= _CONTEXT or after - at <= _CONTEXT:
                yield shown[at]
        if after < len(shown) and shown[after] in view.facts:
            yield shown[after]


def _row(facts: LineFacts, *, whole: bool = False) -> doc.SourceRow:
    """A line with its marks: compiled or not, broken, guarded."""
    if facts.uncompiled is Treatment.FAILED:
        state: Mark | None = FAILED
    elif facts.uncompiled:
        state = BOTH if facts.compiled else EAGER
    else:
        state = COMPILED if facts.compiled else None
    broken = BREAK if facts.cards or facts.follows else CALLS if facts.calls_break else None
    marks = (state, broken, GUARD if facts.guards else None)
    tone = Tone.STRONG if facts.cards else Tone.WARN if facts.uncompiled else Tone.PLAIN
    return doc.SourceRow(facts.code, marks, facts.compiled, tone, tuple(_notes(facts, whole=whole)))


def _notes(facts: LineFacts, *, whole: bool) -> Iterator[LineNote]:
    """Below a line: what breaks there and what for it was recompiled."""
    for each in facts.cards:
        head = ToView(f"break {each.number}", "breaks", each.number, Tone.BAD)
        yield LineNote(BREAK, 1, head, ": ", why(each.card), limit=2)
    for number in facts.follows:
        yield LineNote(BREAK, 1, ToView("follows", "breaks", number, Tone.WARN), " ", quiet(f"from break {number}"))
    for number in facts.calls_break:
        head = ToView(f"break {number}", "breaks", number, Tone.WARN)
        yield LineNote(CALLS, 1, head, " ", quiet("is in what is called here"))
    for failure in facts.failures:
        yield LineNote(FAILED, 0, ToView("failed here", "frames", tone=Tone.BAD), ": ", failure)
    for causes in grouped(facts.guards, lambda one: (one.changed or id(one), one.whole_series)).values():
        head = ToView("recompiled" if whole else "", "recompiles", tone=Tone.CODE)
        yield LineNote(GUARD, 2, head, ": " if whole else "", quiet(changed(*causes)))


# -- every file, with the kernels of each line


def _whole(recording: Recording, selection: Selection, views: Sequence[FileView]) -> doc.Document:
    provenance, costs = provenance_of(recording, selection), costs_of(recording, selection)
    happened = [view for view in views if view.facts]
    legend = (replace(COMPILED, words="compiled, in the graphs beside it"), *_LEGEND[1:])
    files = []
    for view in happened:
        rows = {}
        for number, facts in view.facts.items():
            asked = Asked(view.file, number, "", provenance.at_line(view.file, number))
            story = story_of(recording, provenance, asked, view)
            rows[number] = replace(_row(facts, whole=True), story=_story(story, costs))
        files.append(doc.Annotated(view.file, _summary(view), view.text, rows, legend, breaks=view.breaks))
    return doc.Document(tuple(files), Data(None, tuple(map(FileFate.of, happened))), count=len(happened))


def _story(story: LineStory, costs: Costs) -> doc.SourceStory:
    """What became of a line: its ops, its kernels, the slowest first, and what else is in those."""
    above: list[doc.Block] = [*line_view.ops(story)]
    if line_view.FATES[story.fate]:
        above.append(paragraph(line_view.FATES[story.fate]))
    kernels: list[doc.KernelPart] = []
    for members in line_view.by_kernel(story.launches):
        lineage = members[0].lineage
        backward = lineage.kernel.direction is Direction.BACKWARD
        launches, share = line_view.launches_words(members), line_view.share_words(members)
        kernels.append(doc.KernelPart(lineage.index, backward, launches, share, line_view.took(members, costs)))
    kernels.sort(key=lambda one: -(one.microseconds or 0.0))
    inside = line_view.inside(story)
    below: list[doc.Block] = [inside] if inside else []
    shares: list[doc.Block] = []
    for at, count in story.shares[:_SHARES]:
        often = quiet(f"  {plural(count, 'launch', 'launches')}  ")
        shares.append(line(At(at, Tone.STRONG), often, code(at.code.strip())))
    if shares:
        below.append(doc.Section("in the same launches", tuple(shares)))
    return doc.SourceStory(tuple(above), tuple(kernels), tuple(below))
