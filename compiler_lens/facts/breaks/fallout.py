"""Which graph breaks only follow from others: what was compiled where, and what had been passed before it broke."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.program.coverage import COMPREHENSIONS, resumed_line
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import BreakOutcome, Compilation, CompileId, GraphBreak, Recording, SourceLine
from compiler_lens.recording.own_files import is_machinery
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Definition, Sources

Key = tuple[SourcePlace | None, str]  # of a group of breaks: where, and the type of the root
_Call = tuple[str, str]  # a file and a function's own name

# Types of break, alike in 2.11 to 2.15, that a value in a tensor brings about.
_ON_A_VALUE = ("Data-dependent branching", "Data dependent operator", "Unsupported Tensor.item() call")
_OF_ROWS = "Dynamic shape operator"


class Regions(Struct, frozen=True):
    """Which functions were compiled, and which part of a stack is inside of one."""

    frames: Mapping[CompileId, Compilation]
    calls: frozenset[_Call]

    def compiled(self, event: GraphBreak) -> tuple[SourceLine, ...]:
        """Return the part of a break's stack that a compiled function leads to: outside of it nothing is compiled."""
        stack = event.user_stack
        start = next((i for i, at in enumerate(stack) if _call(at) in self.calls), None)
        frame = self.frames.get(event.compile_id)
        if start is not None or frame is None or not frame.stack:
            return stack[start or 0 :]
        # What torch runs in the frame's stead, when it rebuilds a value, stands on the stack in the frame's place.
        return frame.stack[-1:] + stack[len(frame.stack) - 1 :]

    def depth(self, event: GraphBreak) -> int | None:
        """Return where in a break's stack the frame stands that was being compiled; None if it is not there."""
        frame = self.frames.get(event.compile_id)
        if frame is None:
            return None
        wanted, expected = (frame.file, plain_function(frame.function)), len(frame.stack) - 1
        found = [i for i, at in enumerate(event.user_stack) if _call(at) == wanted]
        return expected if expected in found else next(reversed(found), None)


def regions(recording: Recording) -> Regions:
    """Return what was compiled, to be asked about stacks."""
    own = [c for c in recording.compilations if c.compile_id.frame is not None]
    return Regions({c.compile_id: c for c in own}, frozenset((c.file, plain_function(c.function)) for c in own))


_OF_ITERATORS = ("missing tp_iter", "Missing tp_iternext")


def is_of_comprehension(event: GraphBreak, frame: Compilation | None) -> bool:
    """Return whether a comprehension that torch tries by itself breaks at its own iterator, which Python hands it."""
    is_own = frame is not None and frame.function in COMPREHENSIONS
    return is_own and bool(event.causes) and event.causes[0].gb_type in _OF_ITERATORS


def fallout_of(events: Sequence[GraphBreak], keys: Sequence[Key], around: Regions, known: Sources) -> Mapping[Key, Key]:
    """Return, for each group of breaks (by key) that only follows from another, that other's key; never in a circle.

    A group follows from an earlier one if all its breaks do: because the same call had been traced past this point
    until the other broke it, because torch was still at work on the other, or because they ask for a number that the
    other brought out. What is not sure is a root of its own: a card too many is read, a hidden cause is not.
    """
    history = _History(around, known)
    firsts: dict[Key, int] = {}
    blamed: dict[Key, list[Key | None]] = defaultdict(list)
    for number, (event, key) in enumerate(zip(events, keys, strict=True)):
        firsts.setdefault(key, number)
        # Nobody traced the call that a recompile is for. But where the line broke by itself and not within the call
        # around it, it will not break again once that call is compiled whole.
        blamed[key].append(blamed[key][0] if event.compile_id.recompile and blamed[key] else history.root(event, key))
        history.note(event, key)
    roots = {key: found[0] for key, found in blamed.items() if found[0] is not None and None not in found}
    left = [(event, key) for event, key in zip(events, keys, strict=True) if key not in roots]
    roots |= _derived(left, known)
    ends: dict[Key, Key] = {}
    for key in roots:
        root = key
        while root in roots and firsts[roots[root]] < firsts[root]:  # each points to what happened before it
            root = roots[root]
        ends[key] = root
    return ends


def _call(at: SourceLine) -> _Call:
    return at.file, plain_function(at.function)


class _Reached(Struct, frozen=True):
    """How far a call had been traced when something broke it."""

    after: int  # a resume function begins after this line
    line: int
    key: Key


class _History:
    """What had broken, and where, when something else did."""

    def __init__(self, around: Regions, known: Sources) -> None:
        self._around = around
        self._known = known
        self._reached: dict[tuple[object, ...], dict[int, _Reached]] = {}
        self._before: dict[CompileId, tuple[GraphBreak, Key]] = {}
        self._given_up: dict[_Call, Key] = {}

    def note(self, event: GraphBreak, key: Key) -> None:
        """Note that each call on the way to a break was traced up to it, by the frame that was being compiled."""
        self._before[event.compile_id] = event, key
        depth, frame = self._around.depth(event), self._around.frames.get(event.compile_id)
        if frame and event.outcome is not BreakOutcome.SPLIT:
            self._given_up[frame.file, plain_function(frame.function)] = key
        if depth is None:
            return
        for i, (call, at) in enumerate(_calls(event)[depth:]):
            if i == 0 and event.outcome is BreakOutcome.SPLIT:
                continue  # what the frame itself did before the break is compiled, and stays so
            after = (resumed_line(frame) or 0) if frame and i == 0 else 0
            by_depth = self._reached.setdefault(call, {})
            if depth not in by_depth or by_depth[depth].line < at.line:
                by_depth[depth] = _Reached(after, at.line, key)

    def root(self, event: GraphBreak, key: Key) -> Key | None:
        """Return what an event follows from."""
        if is_of_comprehension(event, self._around.frames.get(event.compile_id)) and len(event.user_stack) > 1:
            # torch tries it by itself because it gave up on its function, and reads no iterator that Python made
            around = self._given_up.get(_call(event.user_stack[-2]))
            if around:
                return None if around == key else around
        before, other = self._before.get(event.compile_id, (event, key))
        if event.outcome is BreakOutcome.SKIPPED_FRAME and event.attempt > before.attempt:
            # torch was splitting the frame at the other break when that failed as well: there it gave up on the frame
            depth, now = self._around.depth(before), self._around.depth(event)
            if depth is None or now is None or before.user_stack[depth].line <= event.user_stack[now].line:
                return None if other == key else other
        return self._passed_before(event, key)

    def _passed_before(self, event: GraphBreak, key: Key) -> Key | None:
        """What broke a call around this frame further on than where this break stands: else the frame were part of it.

        Sure only of the frame's first compilation, and where the way to the frame has no branch that the other
        break's has not: then the frame is called as it was traced.
        """
        depth, known = self._around.depth(event), self._known
        if depth is None or event.compile_id.recompile != 0:
            return None
        start = len(event.user_stack) - len(self._around.compiled(event))
        for i, (call, at) in enumerate(_calls(event)):
            if i >= start and not is_machinery(at.file) and known.repeats(at.file, at.line):
                break  # from here on it may be another round of a loop, with other objects
            for outer, reached in self._reached.get(call, {}).items():
                if outer >= depth or reached.key == key or not reached.after <= at.line < reached.line:
                    continue
                here, there = known.arms(at.file, at.line), known.arms(at.file, reached.line)
                if here is None or there is None or not here <= there:
                    continue  # who reaches the one need not have passed the other
                between = [line for line in event.user_stack[i + 1 : depth] if not is_machinery(line.file)]
                if all(known.arms(line.file, line.line) == frozenset() for line in between):
                    return reached.key
        return None


def _calls(event: GraphBreak) -> list[tuple[tuple[object, ...], SourceLine]]:
    """Each call of a stack, with what identifies it: the way there and the function."""
    calls: list[tuple[tuple[object, ...], SourceLine]] = []
    way = 0
    for at in event.user_stack:
        calls.append(((way, *_call(at)), at))
        way = hash((way, at.file, at.line))
    return calls


def _derived(breaks: Iterable[tuple[GraphBreak, Key]], known: Sources) -> Mapping[Key, Key]:
    """Groups that only ask for a row number, in a loop over those that another group's line brought out."""
    made: dict[tuple[str, Definition], dict[int, Key]] = defaultdict(dict)
    asking: list[tuple[Key, list[SourcePlace]]] = []
    for key, group in grouped(breaks, lambda one: one[1]).items():
        inner = (next((at for at in reversed(e.user_stack) if not is_machinery(at.file)), None) for e, _ in group)
        places = [at.place for at in dict.fromkeys(inner) if at]  # be it in a library
        if places and key[1].startswith(_ON_A_VALUE):
            asking.append((key, places))
        for at in places if key[1].startswith(_OF_ROWS) else ():
            if around := known.function_at(at.file, at.line):
                made[at.file, around].setdefault(at.line, key)
    found: dict[Key, Key] = {}
    for key, places in asking if made else ():
        around = known.function_at(places[0].file, places[0].line)
        if around is None:
            continue
        for start, root in made.get((places[0].file, around), {}).items():
            rows = known.lines_on_rows(places[0].file, around, start)
            if all(at.file == places[0].file and at.line in rows for at in places):
                found[key] = root
    return found
