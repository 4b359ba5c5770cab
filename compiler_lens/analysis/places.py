"""Where graph breaks happen in the user's own code, and what each place costs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from compiler_lens.model import BreakCause, BreakOutcome, CompileId, GraphBreak, Recording, SourceLine

# Files that nobody who uses torch.compile wrote: installed packages, the standard library, a source checkout of torch,
# code that torch generated, code without a file. `<stdin>` and `<ipython-input-3-…>` are the user's.
_NOT_OWN = re.compile(
    r"(^|/)(site-packages|dist-packages)/"
    r"|/lib(64)?/python3(\.\d+)?t?/"
    r"|^<(frozen |string>|eval_with_key>|eval with|__array_function__|unknown)"
    r"|/torchinductor_[^/]*/"
    r"|(^|/)compiler_lens/(capture/|cli/|lens\.py)"  # our own hooks stand in torch's stacks
    r"|(^|/)torch/(_dynamo|_inductor|_functorch|_higher_order_ops|_ops|_tensor|_library|nn/modules|nn/functional|nn/parallel"
    r"|fx|optim|autograd|distributed|utils/_)(/|\.|_)",
)

_MACHINERY = re.compile(r"(^|/)((site-packages|dist-packages)/torch|compiler_lens/capture)/")

# torch/_dynamo/graph_break_hints.py, the same eight texts in 2.11, 2.13 and 2.15: true of any break, so no advice.
_GENERIC_HINTS = (
    "Your code may result in an error when running in eager.",
    "This is likely to be a Dynamo bug.",
    "This graph break may be difficult to debug.",
    "This graph break is fundamental",
    "It may be possible to write Dynamo tracing rules for this code.",
    "This graph break may have been caused by an earlier graph break.",
    "Please report an issue to PyTorch",
)

_SEVERITY = (BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST, BreakOutcome.SPLIT)


@dataclass(frozen=True, slots=True)
class Place:
    """All breaks of one kind at one line: what a user would fix in one go."""

    line: SourceLine | None  # None: torch gave no line at all
    gb_type: str
    breaks: tuple[GraphBreak, ...]
    own: bool  # the line is in the user's own code
    inside: tuple[SourceLine, ...] = ()  # where in a library it broke, most frequent first; empty if at `line` itself

    @property
    def cause(self) -> BreakCause:
        """The root cause of the first break here; the others have the same gb_type."""
        return root_cause(self.breaks[0])

    @property
    def outcomes(self) -> tuple[tuple[BreakOutcome, int], ...]:
        """How many breaks ended how, the worst first."""
        counts = Counter(b.outcome for b in self.breaks)
        return tuple((outcome, counts[outcome]) for outcome in _SEVERITY if counts[outcome])

    @property
    def compile_ids(self) -> tuple[CompileId, ...]:
        """The compilations that broke here, each once, in order of appearance."""
        return tuple(dict.fromkeys(b.compile_id for b in self.breaks))

    def frames(self, outcome: BreakOutcome) -> int:
        """How many frames ended this way here."""
        return len(
            {(i.frame, i.epoch, i.autograd) for i in (b.compile_id for b in self.breaks if b.outcome is outcome)}
        )


def is_own(file: str) -> bool:
    """Whether a file is the user's: not torch's, not an installed package's, not the standard library's."""
    return bool(file) and _NOT_OWN.search(file.replace("\\", "/")) is None


def is_machinery(file: str) -> bool:
    """Whether a file is torch's or ours: its lines in a stack tell a user nothing."""
    return _MACHINERY.search(file.replace("\\", "/")) is not None


def innermost_own(stack: Iterable[SourceLine]) -> SourceLine | None:
    """The innermost line of a stack (outermost first) that the user wrote."""
    own = [line for line in stack if is_own(line.file)]
    return own[-1] if own else None


def own_stack(stack: tuple[SourceLine, ...]) -> tuple[SourceLine, ...]:
    """A stack without the lines of torch, packages and the standard library; whole if nothing remained."""
    return tuple(line for line in stack if is_own(line.file)) or stack


def innermost(event: GraphBreak) -> SourceLine | None:
    """Where torch stood when it broke, whoever wrote that line."""
    return event.user_stack[-1] if event.user_stack else event.location


def root_cause(event: GraphBreak) -> BreakCause:
    """What came first; a break whose words nobody could read still is a break."""
    return event.causes[0] if event.causes else BreakCause("Graph break of unknown cause")


def specific_hints(cause: BreakCause) -> tuple[str, ...]:
    """The hints that say something about this code, without those that torch gives for any break."""
    return tuple(hint for hint in cause.hints if not hint.strip().startswith(_GENERIC_HINTS))


def break_places(recording: Recording) -> tuple[Place, ...]:
    """Every graph break, grouped by line of the user's own code and root cause; the costliest place first.

    The groups partition the events: their sizes add up to the number of breaks in the recording.
    """
    groups: dict[tuple[str, int, str], list[GraphBreak]] = {}
    for event in recording.graph_breaks:
        line = _line_of(event)
        gb_type = root_cause(event).gb_type
        key = (line.file, line.line, gb_type) if line else ("", 0, gb_type)
        groups.setdefault(key, []).append(event)
    return tuple(sorted((_place(tuple(events)) for events in groups.values()), key=_cost, reverse=True))


def _line_of(event: GraphBreak) -> SourceLine | None:
    own = innermost_own(event.user_stack)
    if own is None and event.location is not None and is_own(event.location.file):
        return event.location
    return own or innermost(event)


def _place(events: tuple[GraphBreak, ...]) -> Place:
    line = _line_of(events[0])
    found = Counter(inner for event in events if (inner := innermost(event)) is not None)
    inside = tuple(i for i, _ in found.most_common() if line is None or (i.file, i.line) != (line.file, line.line))
    return Place(line, root_cause(events[0]).gb_type, events, line is not None and is_own(line.file), inside)


def _cost(place: Place) -> tuple[int, int, int]:
    skipped = place.frames(BreakOutcome.SKIPPED_FRAME)
    return skipped, place.frames(BreakOutcome.SKIPPED_REST), len(place.breaks)
