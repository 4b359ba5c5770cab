"""What became of every frame: compiled, empty, skipped, failed, over the recompile limit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from compiler_lens.analysis.places import innermost_own, is_own
from compiler_lens.model import Compilation, CompileId, Outcome, Recording, SourceLine

FrameKey = tuple[int | None, int, int | None]  # torch's frame number, the epoch, compiled autograd's number

_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")

# The frame that torch compiles in place of a module's forward, in torch/_dynamo/external_utils.py (2.11 to 2.15).
_WRAPPER_FILE = "torch/_dynamo/external_utils.py"

# What a frame counts as when its compilations ended differently: what hurts the user most.
_OUTCOME_ORDER = (
    Outcome.FAILED,
    Outcome.RECOMPILE_LIMIT,
    Outcome.COMPILED,
    Outcome.SKIPPED,
    Outcome.EMPTY,
    Outcome.UNFINISHED,
)


@dataclass(frozen=True, slots=True, order=True)
class FunctionName:
    """A frame as its author knows it: a function of theirs, or a module."""

    name: str
    file: str = ""
    line: int = 0
    module: bool = False  # `name` is the class of a module; the place is where it was called


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame with all its compilations."""

    key: FrameKey
    name: FunctionName
    outcome: Outcome
    compilations: tuple[Compilation, ...]
    resumes_at: int | None = None  # for a resume function: the line of the break it goes on behind
    graph_breaks: int = 0

    @property
    def reason(self) -> str:
        """Why it was not compiled, as far as torch said."""
        return next((c.reason for c in reversed(self.compilations) if c.reason and c.outcome is self.outcome), "")


@dataclass(frozen=True, slots=True)
class Function:
    """What the user wrote: a frame and the resume functions that graph breaks cut from it."""

    name: FunctionName
    frames: tuple[Frame, ...]

    @property
    def outcome(self) -> Outcome:
        """The outcome of its worst frame, but an empty rest of a compiled function counts as compiled."""
        return _worst({frame.outcome for frame in self.frames})

    @property
    def parts(self) -> int:
        """Into how many compiled pieces it fell."""
        return sum(frame.outcome is Outcome.COMPILED for frame in self.frames)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every frame that Dynamo looked at, once."""

    frames: tuple[Frame, ...]  # the user's
    functions: tuple[Function, ...]
    library: tuple[Frame, ...]  # frames of torch and other packages that Dynamo passed over, as it should

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many of the user's frames ended how."""
        return Counter(frame.outcome for frame in self.frames)


def frame_key(compile_id: CompileId) -> FrameKey:
    """What all compilations of one frame share."""
    return compile_id.frame, compile_id.epoch, compile_id.autograd


def function_name(compilation: Compilation) -> FunctionName:
    """What to call a compilation's frame: the module's class for torch's wrapper around a module."""
    resumed = compilation.resumes or _resumed(compilation.function)[0]
    if resumed:
        return FunctionName(_resumed(resumed)[0] or resumed, compilation.file, compilation.line)
    if not compilation.file.replace("\\", "/").endswith(_WRAPPER_FILE):
        return FunctionName(compilation.function or "?", compilation.file, compilation.line)
    caller = innermost_own(compilation.stack) or SourceLine("", 0)
    return FunctionName(compilation.module or "module", caller.file, caller.line, module=True)


def resumed_line(compilation: Compilation) -> int | None:
    """For a resume function: the line of the graph break that it goes on behind."""
    return _resumed(compilation.function)[1]


def coverage(recording: Recording) -> Coverage:
    """Group the recording's compilations into frames, and the frames into the functions that the user wrote."""
    # All modules share the code object of torch's wrapper, and so one frame number: their class tells them apart.
    groups: dict[tuple[FrameKey, str], list[Compilation]] = {}
    for compilation in recording.compilations:
        groups.setdefault((frame_key(compilation.compile_id), compilation.module), []).append(compilation)
    broken = Counter(b.compile_id for b in recording.graph_breaks)
    frames = [_frame(key, tuple(group), broken) for (key, _), group in groups.items()]
    own = tuple(f for f in frames if not _passed_over(f))
    return Coverage(own, _functions(own), tuple(f for f in frames if _passed_over(f)))


def plain_function(function: str) -> str:
    """A function's own name, without what torch adds where it goes on behind a graph break."""
    return _resumed(function)[0] or function


def _resumed(function: str) -> tuple[str, int | None]:
    found = _RESUME.search(function)
    return (found[1], int(found[2])) if found else ("", None)


def _worst(outcomes: set[Outcome]) -> Outcome:
    return next(outcome for outcome in _OUTCOME_ORDER if outcome in outcomes)


def _frame(key: FrameKey, compilations: tuple[Compilation, ...], broken: Mapping[CompileId, int]) -> Frame:
    first = compilations[0]
    outcome = _worst({c.outcome for c in compilations})
    graph_breaks = sum(broken[i] for i in {c.compile_id for c in compilations})
    return Frame(key, function_name(first), outcome, compilations, resumed_line(first), graph_breaks)


def _passed_over(frame: Frame) -> bool:
    # Dynamo looks at every Python frame below a compiled call, library ones too; nobody waits for those to compile.
    idle = frame.outcome in {Outcome.SKIPPED, Outcome.EMPTY} and not frame.graph_breaks
    return idle and not frame.name.module and not is_own(frame.compilations[0].file)


def _functions(frames: tuple[Frame, ...]) -> tuple[Function, ...]:
    members: dict[FunctionName, list[Frame]] = {f.name: [] for f in frames if f.resumes_at is None}
    starts: dict[tuple[str, str], list[FunctionName]] = {}
    for name in members:
        starts.setdefault((name.file, name.name), []).append(name)
    for frame in frames:
        members.setdefault(_home(frame, starts), []).append(frame)
    return tuple(Function(name, tuple(group)) for name, group in members.items())


def _home(frame: Frame, starts: Mapping[tuple[str, str], list[FunctionName]]) -> FunctionName:
    """The function that a frame is part of; of several with one name in one file, the last that starts before it."""
    at = frame.resumes_at
    if at is None:
        return frame.name
    before = [name for name in starts.get((frame.name.file, frame.name.name), ()) if name.line <= at]
    return max(before, key=lambda name: name.line, default=frame.name)
