"""What became of every frame, and of every function that the user wrote: compiled whole, cut, or run eagerly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.program.owners import Owner, owner_of
from compiler_lens.facts.program.ownership import Ownership, innermost_own
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    Compilation,
    CompileId,
    GraphBreak,
    GraphStage,
    Outcome,
    Recording,
    SourceLine,
)
from compiler_lens.recording.resume_names import plain_function, resumed
from compiler_lens.recording.source_text import Sources, sources

# torch's own words in ConvertFrameAssert.__call__(), 2.11 to 2.15; all that comes out is "an error was suppressed".
GENERATOR = (
    "Generators cannot be compiled directly with `torch.compile`. "
    "Call a generator from inside of a non-generator Python function and compile that function instead."
)

# What a frame counts as when its compilations ended differently: what hurts the user most.
_OUTCOME_ORDER = (
    Outcome.FAILED,
    Outcome.RECOMPILE_LIMIT,
    Outcome.COMPILED,
    Outcome.SKIPPED,
    Outcome.TRACED,
    Outcome.EMPTY,
    Outcome.UNFINISHED,
)


# What torch says where `torch.compiler.disable(recursive=False)` asks for it (torch/_dynamo/convert_frame.py).
_NON_RECURSIVELY = "non-recursively disabled for this frame"

_WITHOUT_GRAPHS = (Outcome.UNFINISHED, Outcome.TRACED)
# What was made of them up to there, nothing runs.
GIVEN_UP = (Outcome.SKIPPED, Outcome.FAILED)


_GENERATOR_EXPRESSION = "<genexpr>"
# Frames of their own: of lists, sets and dicts up to Python 3.11, of generator expressions always. Dynamo tries them by
# themselves only where the function that they stand in runs eagerly.
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", _GENERATOR_EXPRESSION)
SUPPRESS_ERRORS = "_dynamo.config.suppress_errors"


class Treatment(Enum):
    """What became of a function as its author sees it."""

    WHOLE = "whole"  # one graph
    SPLIT = "split"  # several graphs, with Python in between
    PARTLY_EAGER = "partly_eager"  # compiled up to some line, eager from there
    EAGER = "eager"  # skipped: nothing of it is compiled
    LIMIT = "recompile_limit"  # recompiled too often: eager since
    PASSED_OVER = "passed_over"  # compiled, and eager since torch passed over it
    FAILED = "failed"
    TRACED = "traced"  # made into a graph by a call that compiles nothing
    EMPTY = "empty"  # nothing to compile
    UNFINISHED = "unfinished"

    @property
    def is_compiled(self) -> bool:
        """Whether all that can be compiled of it is."""
        return self in {Treatment.WHOLE, Treatment.SPLIT}

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to compile, or nobody asked for that."""
        return self in {Treatment.TRACED, Treatment.EMPTY}


_NOT_WHOLE = (Treatment.EAGER, Treatment.PARTLY_EAGER, Treatment.LIMIT, Treatment.PASSED_OVER)


class FunctionName(Struct, frozen=True, order=True):
    """A frame as its author knows it: a function of theirs, or a module."""

    name: str
    file: str = ""
    line: int = 0
    module: bool = False  # `name` is the class of a module; the place is where it was called


class Frame(Struct, frozen=True):
    """One frame with all its compilations."""

    id: CompileId  # without `recompile`: what all its compilations have in common
    name: FunctionName
    outcome: Outcome
    compilations: tuple[Compilation, ...]
    resumes_at: int | None = None  # for a resume function: the line of the break after which it goes on
    breaks: tuple[GraphBreak, ...] = ()
    graphs: int = 0  # of its first compilation: what one call runs

    @property
    def compile_ids(self) -> tuple[CompileId, ...]:
        """All its compilations."""
        return tuple(c.compile_id for c in self.compilations)

    @property
    def suppressed(self) -> Compilation | None:
        """The compilation that failed without an error for the user, as `suppress_errors` wants it: it runs eagerly.

        Where torch told of a break that skips the frame, there would be no error without that setting either.
        """
        told = {event.compile_id for event in self.breaks if event.outcome is BreakOutcome.SKIPPED_FRAME}
        failed = (c for c in self.compilations if c.outcome is Outcome.SKIPPED and "fail_type" in c.metrics)
        skipped = (c for c in failed if c.compile_id not in told)
        return next((c for c in skipped if (c.config or {}).get(SUPPRESS_ERRORS) == "True"), None)

    @property
    def is_passed_over(self) -> bool:
        """Whether torch passed over it before it gave it a number: what it does so for is no break and no error."""
        return self.id.frame is None and self.resumes_at is None and self.outcome is Outcome.SKIPPED

    @property
    def reason(self) -> str:
        """Why it was not compiled, as far as torch said."""
        return next((c.reason for c in reversed(self.compilations) if c.reason and c.outcome is self.outcome), "")


class Lines(Struct, frozen=True):
    """A stretch of lines in a file."""

    file: str
    first: int
    last: int | None = None  # None: to the end of the function, wherever that is


class Function(Struct, frozen=True):
    """What the user wrote: a frame and the resume functions that graph breaks cut from it."""

    name: FunctionName
    frames: tuple[Frame, ...]
    treatment: Treatment
    parts: int  # compiled pieces that it fell into: of one life of torch's, and of the two ways after a branch one
    eager_lines: tuple[Lines, ...] = ()  # what of it runs eagerly, where only a part does
    own: bool = True  # the user's own, not a library's
    owner: Owner = Owner()  # whose it is; of a library's, what to do from where the user calls it
    generator: bool = False  # by itself it is never compiled, only within a function
    around: str = ""  # of a comprehension that runs eagerly: the function that it stands in, which does so first

    @property
    def is_call(self) -> bool:
        """Whether it is a call of torch's compiler itself, not a function that torch.compile was given."""
        return bool(self.frames[0].compilations[0].door)

    @property
    def compile_ids(self) -> tuple[CompileId, ...]:
        """All its compilations."""
        return tuple(i for frame in self.frames for i in frame.compile_ids)

    @property
    def reason(self) -> str:
        """Why it, or a part of it, is not compiled; empty if it is."""
        if self.generator:
            return GENERATOR
        given = next((f.reason for f in self.frames if f.outcome is not Outcome.COMPILED and f.reason), "")
        lost = (e for f in self.frames for e in f.breaks if e.outcome is BreakOutcome.SKIPPED_REST and e.causes)
        return given or next((event.root.gb_type for event in lost), "")


class Coverage(Struct, frozen=True):
    """Every frame that Dynamo looked at, once."""

    frames: tuple[Frame, ...]  # the user's
    functions: tuple[Function, ...]
    library: tuple[Frame, ...]  # frames of torch and other packages that Dynamo passed over, as it should
    disabled: tuple[SourceLine, ...] = ()  # calls of functions kept out of the compiler on purpose
    kept_out: tuple[
        Frame, ...
    ] = ()  # frames that Dynamo came to and passed over as a mark asks, but not what they call

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many of the user's frames ended how."""
        return Counter(frame.outcome for frame in self.frames)

    @property
    def treatments(self) -> Mapping[Treatment, int]:
        """How many functions became what."""
        return Counter(function.treatment for function in self.functions)

    def treated(self, *treatments: Treatment) -> tuple[Function, ...]:
        """Return the functions of some kinds, the user's own before a library's."""
        found = [f for f in self.functions if f.treatment in treatments]
        return tuple(sorted(found, key=lambda f: (not f.own, treatments.index(f.treatment))))


def function_name(compilation: Compilation) -> FunctionName:
    """Return what to call a compilation's frame: as its author does; the module's class where only that is known."""
    if at := compilation.definition:
        return FunctionName(at.function, at.file, at.line)
    before = resumed(compilation.function)
    rest_of = compilation.resumes or (before.function if before else "")
    if rest_of:
        return FunctionName(plain_function(rest_of), compilation.file, compilation.line)
    if not compilation.file.replace("\\", "/").endswith(WRAPPER_FILE):
        return FunctionName(compilation.function or "?", compilation.file, compilation.line)
    caller = innermost_own(compilation.stack) or SourceLine("", 0)
    return FunctionName(compilation.module or "module", caller.file, caller.line, module=True)


def resumed_line(compilation: Compilation) -> int | None:
    """Return the line of the graph break after which a resume function goes on; None for any other frame."""
    before = resumed(compilation.function)
    return before.line if before else None


def coverage(recording: Recording, own: Ownership | None = None) -> Coverage:
    """Group the recording's compilations into frames, and the frames into the functions that the user wrote."""
    own = own or Ownership()
    # All modules share the code object of torch's wrapper, and so one frame number: they differ in their class. Calls
    # without a frame have no number.
    groups = grouped(
        recording.compilations, lambda c: c.torch_function if c.door else (c.compile_id.of_frame, c.module)
    )
    broken = grouped(recording.graph_breaks, lambda event: event.compile_id)
    given_up = {c.compile_id for c in recording.compilations if c.outcome in GIVEN_UP}
    made = (g.compile_id for g in recording.graphs if g.stage is GraphStage.DYNAMO)
    graphs = Counter(i for i in made if i not in given_up)
    looked_at: list[Frame] = []
    library: list[Frame] = []
    kept_out: list[Frame] = []
    for group in groups.values():
        name, outcome = function_name(group[0]), min((c.outcome for c in group), key=_OUTCOME_ORDER.index)
        ids = dict.fromkeys(c.compile_id for c in group)
        breaks = tuple(event for i in ids for event in broken.get(i, ()))
        first_graphs = next((graphs[i] for i in ids if i in graphs), 0)
        frame = Frame(
            group[0].compile_id.of_frame, name, outcome, tuple(group), resumed_line(group[0]), breaks, first_graphs
        )
        if outcome is Outcome.SKIPPED and all(c.reason.endswith(_NON_RECURSIVELY) for c in group):
            kept_out.append(frame)
            continue
        # Dynamo looks at every Python frame below a compiled call, library ones too; nobody waits for those to compile.
        is_idle = outcome in {Outcome.SKIPPED, Outcome.TRACED, Outcome.EMPTY} and not breaks and not name.module
        (library if is_idle and not own.owns(group[0].file) else looked_at).append(frame)
    # But for one that was compiled, as a module of torch's that the user gives to torch.compile.
    compiled = {frame.name for frame in looked_at if frame.outcome is Outcome.COMPILED}
    looked_at += [frame for frame in library if frame.name in compiled]
    library = [frame for frame in library if frame.name not in compiled]
    functions = _functions(looked_at, own, sources(recording))
    asked_for = (e for e in recording.graph_breaks if e.user_stack and e.causes and is_disabling(e.causes[0]))
    disabled = dict.fromkeys(event.user_stack[-1] for event in asked_for)
    return Coverage(tuple(looked_at), functions, tuple(library), tuple(disabled), tuple(kept_out))


def is_disabling(cause: BreakCause) -> bool:
    """Return whether somebody asked for a break: a call of a function that is kept out of the compiler on purpose."""
    return cause.gb_type.endswith("disable()`d function")  # as torch's registry has it


def _functions(frames: Sequence[Frame], own: Ownership, known: Sources) -> tuple[Function, ...]:
    members: dict[FunctionName, list[Frame]] = {f.name: [] for f in frames if f.resumes_at is None}
    starts = grouped(members, lambda name: (name.file, name.name))
    for frame in frames:
        home, at = frame.name, frame.resumes_at
        if at is not None and not any(c.definition for c in frame.compilations):
            # of several functions with one name in one file, the last that starts before it
            before = [name for name in starts.get((home.file, home.name), ()) if name.line <= at]
            home = max(before, key=lambda name: name.line, default=home)
        members.setdefault(home, []).append(frame)
    functions = [_function(name, tuple(group), own, known) for name, group in members.items()]
    eager = {(f.name.file, f.name.name) for f in functions if f.treatment in _NOT_WHOLE}
    return tuple(replace(f, around=_around(f, eager)) if _is_comprehension(f) else f for f in functions)


def _is_comprehension(function: Function) -> bool:
    return function.treatment is Treatment.EAGER and function.name.name.endswith(COMPREHENSIONS)


def _around(function: Function, eager: Container[tuple[str, str]]) -> str:
    """Return the function that a comprehension stands in, if that runs eagerly."""
    outer = function.name.name
    while outer.endswith(COMPREHENSIONS):
        outer = outer.rpartition(".")[0]
    return outer if (function.name.file, outer) in eager else ""


def _function(name: FunctionName, frames: tuple[Frame, ...], own: Ownership, known: Sources) -> Function:
    lines: dict[Lines, None] = {}  # in order: after a break that nothing resumes from, and of resume functions given up
    for frame in frames:
        file = frame.compilations[0].file
        if frame.resumes_at is not None and frame.outcome in {Outcome.SKIPPED, Outcome.RECOMPILE_LIMIT}:
            lines[Lines(file, frame.resumes_at)] = None
        for event in frame.breaks:
            at = next((at for at in reversed(event.user_stack) if at.file == file), None)
            if event.outcome is BreakOutcome.SKIPPED_REST and at is not None:
                lines[Lines(file, at.line)] = None
    refused = all(frame.id.frame is None and frame.outcome is Outcome.SKIPPED for frame in frames)
    # Only where it is needed: to find where a function ends, its file must be parsed.
    around = known.function_at(name.file, name.line) if (lines or refused) and not name.module else None
    last = around.last if around and name.line in {around.line, around.first} else None
    eager = tuple(replace(line, last=last) for line in lines)
    is_generator = refused and (name.name.endswith(_GENERATOR_EXPRESSION) or (around is not None and around.generator))
    parts = _parts(frames)
    treatment, is_own, owner = _treatment(frames, eager, parts), own.owns(name.file), Owner()
    if not (is_own or treatment is Treatment.WHOLE or treatment.is_idle):
        owner = owner_of((*frames[0].compilations[0].stack, SourceLine(name.file, name.line, name.name)), own)
    return Function(name, frames, treatment, parts, eager, is_own, owner, is_generator)


def _parts(frames: Iterable[Frame]) -> int:
    """After a reset torch makes all of it again: these are no further parts."""
    return max(map(_parts_of, grouped(frames, lambda frame: frame.id.epoch).values()), default=0)


def _parts_of(frames: Sequence[Frame]) -> int:
    total = 0
    for at, group in grouped(frames, lambda frame: frame.resumes_at).items():
        sizes = [int(frame.graphs or frame.outcome is Outcome.COMPILED) for frame in group]
        # After a branch torch makes a resume function for either way; other breaks of one line follow each other.
        lines = ((f.name.file, line) for f in group for event in f.breaks for line in event.user_stack)
        breaks_again = any(line.line == at and line.file == file for file, line in lines)
        total += sum(sizes) if breaks_again else max(sizes)
    return total


def _treatment(frames: tuple[Frame, ...], eager: tuple[Lines, ...], graphs: int) -> Treatment:
    outcomes = {frame.outcome for frame in frames}
    if Outcome.FAILED in outcomes:
        return Treatment.FAILED
    if any(f.outcome is Outcome.RECOMPILE_LIMIT and f.resumes_at is None for f in frames):
        return Treatment.LIMIT
    # A frame that breaks before its first op is empty for torch, and runs eagerly from there.
    if not graphs and (eager or Outcome.SKIPPED in outcomes):
        return Treatment.EAGER
    if not graphs or outcomes == {Outcome.TRACED}:
        return next((Treatment(o.value) for o in _WITHOUT_GRAPHS if o in outcomes), Treatment.EMPTY)
    return _compiled(frames, eager)


def _compiled(frames: tuple[Frame, ...], eager: tuple[Lines, ...]) -> Treatment:
    """What became of a function that has graphs."""
    if any(frame.is_passed_over for frame in frames):
        return Treatment.PASSED_OVER
    if eager:
        return Treatment.PARTLY_EAGER
    return Treatment.SPLIT if any(map(_is_cut, frames)) else Treatment.WHOLE


def _is_cut(frame: Frame) -> bool:
    is_part = frame.resumes_at is not None or frame.graphs > 1
    return is_part or any(event.outcome is BreakOutcome.SPLIT for event in frame.breaks)
