"""What became of each line of a file: in which graphs it is, what breaks there, what runs eagerly, what guards it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct, field

from compiler_lens.facts.breaks.backend import is_of_backend
from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.breaks.fallout import regions
from compiler_lens.facts.breaks.raised import raised
from compiler_lens.facts.overview.explanation import Explanation
from compiler_lens.facts.program.coverage import GIVEN_UP, Function, Lines, Treatment, coverage
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import nearest
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import CompileId, Graph, GraphStage, Outcome, Recording, SourceLine
from compiler_lens.recording.own_files import is_machinery
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Definition, Sources, sources

_UNCOMPILED = (Treatment.EAGER, Treatment.LIMIT, Treatment.PASSED_OVER, Treatment.FAILED)
_WHOLE_FILE = 10_000_000  # lines
_LISTED = 6  # files that a message names


class NumberedCard(Struct, frozen=True):
    """A card of graph breaks, by its place among all cards of the recording, from 1."""

    number: int
    card: BreakCard


class LineFacts(Struct, frozen=True):
    """What happened to one line."""

    number: int
    graphs: tuple[CompileId, ...] = ()  # of the Dynamo graphs with an op of this very line
    calls: tuple[CompileId, ...] = ()  # of those with an op of something that was called on this line
    cards: tuple[NumberedCard, ...] = ()  # that break here
    follows: tuple[int, ...] = ()  # numbers of the cards that a break here only follows from
    calls_break: tuple[int, ...] = ()  # numbers of the cards that break inside of what is called here
    failures: tuple[str, ...] = ()  # what made a compilation fail here, in torch's words
    uncompiled: Treatment | None = None  # partly or wholly eager, since the recompile limit, failed: its function's
    guards: tuple[RecompileCause, ...] = ()  # recompiles for a value that this line depends on
    code: str = ""  # as torch gives it; empty where it does not

    @property
    def compiled(self) -> tuple[CompileId, ...]:
        """The compilations whose graphs it is in, itself or by what it calls."""
        return tuple(dict.fromkeys((*self.graphs, *self.calls)))


class FileView(Struct, frozen=True):
    """A file and what became of its lines."""

    file: str
    own: bool
    text: tuple[str, ...]  # every line; empty where the recording does not hold the file
    facts: Mapping[int, LineFacts]  # in order; lines that nothing is known of are not there
    seen: tuple[Definition, ...]  # the functions that the compiler looked at, itself or inside of others

    @property
    def cards(self) -> tuple[NumberedCard, ...]:
        """The cards of its lines, in the order of the file."""
        return tuple(card for facts in self.facts.values() for card in facts.cards)

    @property
    def breaks(self) -> int:
        """How many graph breaks these stand for."""
        return sum(len(card.card.events) for card in self.cards)

    @property
    def broken_lines(self) -> int:
        """How many of its lines these are at."""
        return sum(bool(facts.cards) for facts in self.facts.values())

    @property
    def compiled_lines(self) -> int:
        """How many of its lines are in some graph."""
        return sum(bool(facts.compiled) for facts in self.facts.values())

    @property
    def uncompiled_lines(self) -> int:
        """How many of its lines run eagerly, or did not compile."""
        return sum(facts.uncompiled is not None for facts in self.facts.values())


def source_view(
    recording: Recording, own: Ownership | None = None, explained: Explanation | None = None
) -> tuple[FileView, ...]:
    """Return every file that something happened in, and every other whose text is kept.

    The user's own come first, worst first. `explained` is what the recording means, if that is known.
    """
    own = own or Ownership()
    if explained is None:
        covered = coverage(recording, own)
        cards, reports = break_cards(recording, own, covered), recompile_reports(recording, covered, own)
    else:
        covered, cards, reports = explained.coverage, explained.cards, explained.recompiles
    files = _Files(sources(recording))
    for source in recording.sources:
        files.of(source.file)
    given_up = {c.compile_id for c in recording.compilations if c.outcome in GIVEN_UP}
    _note_graphs((graph for graph in recording.graphs if graph.compile_id not in given_up), own, files.at)
    _note_breaks(recording, cards, own, files.at)
    for cause in (cause for report in reports for cause in report.causes):
        if cause.line is not None:
            files.at(cause.line).guards.append(cause)
    _note_functions([function for function in covered.functions if not function.name.module], files)
    views = [file.view(own) for file in files.values()]
    return tuple(sorted(views, key=lambda v: (not v.own, -v.breaks, -v.uncompiled_lines, -v.compiled_lines)))


def select_file(views: Sequence[FileView], text: str) -> tuple[FileView, int | None]:
    """Return the file meant by `model.py`, any ending of its path, or `model.py:41`, and the line.

    Raises `UsageError`, which says what there is instead.
    """
    name, _, number = text.rpartition(":")
    if name and number.isdecimal() and not _named(views, text):
        return select_file(views, name)[0], int(number)
    found = _named(views, text)
    found = [view for view in found if view.own] or found
    if len(found) == 1:
        return found[0], None
    if found:
        raise UsageError(f"{text!r} is the end of several files: {_listed(view.file for view in found)}")
    there = [view.file for view in views if view.own] or [view.file for view in views if view.facts]
    meant = nearest(text, [file.rpartition("/")[2] for file in there])
    hint = f". Did you mean {meant}?" if meant else ""
    raise UsageError(f"no file {text!r} in this recording: it has {_listed(there) or 'none'}{hint}")


def _named(views: Sequence[FileView], text: str) -> list[FileView]:
    wanted = text.replace("\\", "/").removeprefix("./")
    while wanted.startswith("../"):
        wanted = wanted.removeprefix("../")
    plain = {view.file.replace("\\", "/"): view for view in views}
    if wanted in plain:
        return [plain[wanted]]
    return [view for file, view in plain.items() if wanted and file.endswith(f"/{wanted}")]


def _listed(files: Iterable[str]) -> str:
    every = list(files)
    more = f" and {len(every) - _LISTED:,} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more


# -- noting


class _Line(Struct):
    """What is known so far of one line."""

    graphs: dict[CompileId, None] = field(default_factory=dict)
    calls: dict[CompileId, None] = field(default_factory=dict)
    cards: list[NumberedCard] = field(default_factory=list)
    follows: dict[int, None] = field(default_factory=dict)
    calls_break: dict[int, None] = field(default_factory=dict)
    failures: dict[str, None] = field(default_factory=dict)
    guards: list[RecompileCause] = field(default_factory=list)
    uncompiled: Treatment | None = None
    code: str = ""
    function: str = ""

    def facts(self, number: int) -> LineFacts:
        calls = tuple(i for i in self.calls if i not in self.graphs)
        calls_break = tuple(n for n in self.calls_break if n not in self.follows)
        return LineFacts(
            number, tuple(self.graphs), calls, tuple(self.cards), tuple(self.follows), calls_break,
            tuple(self.failures), self.uncompiled, tuple(self.guards), self.code,
        )  # fmt: skip


class _File(Struct):
    """What is known so far of one file."""

    file: str
    text: tuple[str, ...]
    owners: Mapping[int, Definition]  # the innermost function around each line
    lines: dict[int, _Line] = field(default_factory=dict)
    entered: dict[Definition, None] = field(default_factory=dict)  # functions that were frames of their own

    def view(self, own: Ownership) -> FileView:
        seen = {*self.entered, *(self.owners[number] for number in self.lines if number in self.owners)}
        facts = {number: self.lines[number].facts(number) for number in sorted(self.lines)}
        return FileView(
            self.file, own.owns(self.file), self.text, facts, tuple(sorted(seen, key=lambda d: (d.line, -d.last)))
        )


class _Files(dict[str, _File]):
    """Files by their names, each made when it is first asked for."""

    def __init__(self, known: Sources) -> None:
        super().__init__()
        self.known = known

    def of(self, name: str) -> _File:
        """What is known of a file."""
        if name not in self:
            text = self.known.excerpt(name, 1, _WHOLE_FILE) if self.known.has(name) else None
            # Outer functions come before those inside of them, which take their lines over.
            owners = {line: each for each in self.known.definitions(name) for line in range(each.line, each.last + 1)}
            self[name] = _File(name, text.lines if text else (), owners)
        return self[name]

    def at(self, place: SourceLine) -> _Line:
        """What is known of a line. What has no number, or one that no line has, is noted nowhere."""
        lines = self.of(place.file).lines
        line = lines.setdefault(place.line, _Line()) if place.line > 0 else _Line()
        line.code, line.function = line.code or place.code.strip(), line.function or plain_function(place.function)
        return line


def _note_graphs(graphs: Iterable[Graph], own: Ownership, at: Callable[[SourceLine], _Line]) -> None:
    # The user's own files count as one: of a stack, only the innermost line of theirs is where the op is.
    @cache
    def kind(file: str) -> str | None:
        if own.owns(file):
            return ""
        return None if is_machinery(file) else file

    for graph in graphs:
        if graph.stage is not GraphStage.DYNAMO:
            continue
        for stack in dict.fromkeys(node.source for node in graph.all_ops):
            inner: set[str] = set()
            for place in reversed(stack):
                of = kind(place.file)
                if of is not None:
                    noted = at(place)
                    (noted.calls if of in inner else noted.graphs)[graph.compile_id] = None
                    inner.add(of)


def _note_breaks(
    recording: Recording, cards: Sequence[BreakCard], own: Ownership, at: Callable[[SourceLine], _Line]
) -> None:
    around = regions(recording)
    for number, card in enumerate(cards, 1):
        if card.place is not None:
            at(card.place).cards.append(NumberedCard(number, card))
        for event in card.events:
            if is_of_backend(event):  # its stack is where Dynamo stood, at the end of the graph
                continue
            stack = [place for place in around.compiled(event) if not is_machinery(place.file)]
            inner = own.innermost(stack) or (stack[-1] if stack else None)
            for place in stack:
                if card.place is None or place.place != card.place.place:
                    (at(place).follows if place is inner else at(place).calls_break)[number] = None
    for compilation in recording.compilations:
        # A skipped frame has one too; what that says is on its card.
        if compilation.outcome is Outcome.FAILED and compilation.failure and compilation.failure_line:
            at(compilation.failure_line).failures[raised(compilation.failure) or compilation.failure.gb_type] = None


def _note_functions(functions: Sequence[Function], files: _Files) -> None:
    for function in functions:
        file = files.of(function.name.file)
        definition = file.owners.get(function.name.line)
        if definition and _last_name(definition.name) == _last_name(function.name.name):
            file.entered[definition] = None
    for function in functions:
        parts = function.eager_lines
        if function.treatment in _UNCOMPILED:
            parts = (Lines(function.name.file, function.name.line, None),)
        for part in parts:
            if part.file in files:
                for number in _numbers(part, function, files[part.file]):
                    files[part.file].lines.setdefault(number, _Line()).uncompiled = function.treatment


def _numbers(part: Lines, function: Function, file: _File) -> Iterator[int]:
    """The lines of code in a part of a function, without functions inside of it that were compiled by themselves."""
    home, name = file.owners.get(part.first), _last_name(function.name.name)
    if home is None:  # without the text, what is known to be of this function
        yield from [n for n, line in file.lines.items() if n >= part.first and line.function == name]
        return
    if _last_name(home.name) != name:  # a lambda or a comprehension: how far it goes is not known
        yield part.first
        return
    for number in range(max(part.first, home.first), min(part.last or home.last, home.last) + 1):
        owner, text = file.owners.get(number), file.text[number - 1].strip()
        if text and not text.startswith("#") and (owner == home or owner not in file.entered):
            yield number


def _last_name(qualified: str) -> str:
    return qualified.rpartition(".")[2]
