"""One cause of recompiles: what is known of it, and which fix is for that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct

from compiler_lens.facts.breaks.ranks import Offered, offered
from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import FunctionName, resumed_line
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.facts.program.uses import Use, uses
from compiler_lens.facts.recompiles.chosen import HELD, Change, Known, chosen, is_number
from compiler_lens.facts.recompiles.fix_words import OF_TENSOR, Named, worded
from compiler_lens.facts.recompiles.fixes import CauseClass, Fix
from compiler_lens.facts.recompiles.guard_values import FROM_NUMPY, EntryValues, authored
from compiler_lens.facts.recompiles.recompile_facts import Decided, Facts, whole_line
from compiler_lens.facts.recompiles.serving import Stage, stages
from compiler_lens.facts.recompiles.written import WORD, assigns, entered_from, writing_lines
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, SourceLine, Tried
from compiler_lens.recording.source_text import Definition, Sources

_ATTRIBUTE = re.compile(r"\.(\w+)")
_NO_WORD = re.compile(r"\W+")
_OF_ANOTHER = frozenset((CauseClass.ANOTHER_MODULE, CauseClass.ANOTHER_INSTANCE, CauseClass.DEAD_OBJECT))
_PINNED = (CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE, CauseClass.INT_ARGUMENT)
_WRITTEN = (*HELD[:4], CauseClass.LIST_LENGTH, CauseClass.DICT_KEYS)


class Step(Struct, frozen=True):
    """A value, and how many times in a row it was there; an empty value is not known."""

    value: str
    times: int = 1


class RecompileCause(Struct, frozen=True):
    """All recompiles of a function for one cause."""

    cause: CauseClass
    subject: str  # what changed, in the author's names: "x.shape[0]", "self.step"; empty if torch gave no reason
    changes: tuple[Change, ...]
    fix: Fix
    line: SourceLine | None  # the innermost line of the user's that depends on it, as far as torch says
    seconds: float  # of these recompiles, their backwards included
    benign: bool  # how torch.compile is meant to work: nothing to do
    follows: SourceLine | None = None  # the line of the graph break that hands the value over, if one does
    objects: int = 0  # that share the code, of recompiles for another one
    is_serving: bool = False  # what tells a call for the prompt (prefill) from one for a token after it (decode)
    tried: tuple[Tried, ...] = ()  # offers for it, each made in a copy of the program by itself
    all_changes: tuple[Change, ...] = ()  # of what changed, for other causes, too; empty if this is the only one
    may_change: tuple[SourceLine, ...] = ()  # lines that may, where it is not known which of them run
    pinned: SourceLine | None = None  # of a size: the line that needs it as a number whenever it is compiled, a loop's

    @property
    def changed(self) -> str:
        """What changed; empty where nobody knows, and where nothing did: another object has another value."""
        return "" if self.cause in _OF_ANOTHER else self.subject

    @property
    def is_unrolled(self) -> bool:
        """Whether it is a loop's number of rounds, which is compiled in whole for each."""
        code = self.pinned.code if self.pinned else ""
        return self.count > 1 and code.lstrip().startswith(("for ", "while "))

    @property
    def is_of_array(self) -> bool:
        """Whether it is about an array or a number of NumPy's, which has none of a tensor's methods and marks."""
        return self.changes[0].decided.failed.subject.startswith(FROM_NUMPY)

    @property
    def offers(self) -> tuple[Offered, ...]:
        """What to change, with how much is known of it; nothing where nothing is to be done."""
        return () if self.benign else offered(self.fix.change, "", None, (), self.tried)

    @property
    def compile_ids(self) -> tuple[CompileId, ...]:
        """The compilations that this cost."""
        return tuple(change.recompile.compile_id for change in self.changes)

    @property
    def count(self) -> int:
        """How many recompiles these are."""
        return len(self.changes)

    @property
    def series(self) -> tuple[Step, ...]:
        """The values in the order in which they came, equal ones in a row as one step; empty if none is known.

        Of several frames, a function and its rests after graph breaks, those of the one recompiled most often.
        """
        return _series(self.changes)

    @property
    def whole_series(self) -> tuple[Step, ...]:
        """The same of all changes of what changed, whatever class each is of: a size may be 1 after it was others."""
        return _series(self.all_changes or self.changes)


def _series(changes: Sequence[Change]) -> tuple[Step, ...]:
    frames = grouped(changes, lambda change: change.frame)
    values: list[str] = []
    for change in max(frames.values(), key=len):
        if values and values[-1] == change.new != change.old and change.new:
            continue  # another entry of the same function learns of the value that is there already
        if not values or (change.old and change.old != values[-1]):
            values.append(change.old)
        values.append(change.new)
    steps = tuple(Step(value, len(list(same))) for value, same in groupby(values))
    return steps if any(values) else ()


def cause_of(
    kind: CauseClass, subject: str, group: Sequence[Decided], function: FunctionName, facts: Facts
) -> RecompileCause:
    """Return the cause that all recompiles of a group are for: what is known of it, and what its fix says of it."""
    known = _known(kind, subject, group, facts)
    fix = chosen(kind, subject, known, group, function, facts)
    at = known.follows or known.pinned
    values = tuple(value for change in known.changes for value in (change.old, change.new) if value)
    message = next((one.failure.text for one in group if one.failure), "")
    named = Named(kind, subject, function.name, values, known.first, known.uses, at.line if at else None, message)
    return RecompileCause(
        kind, subject, known.changes, worded(fix, named), known.writes or known.pinned or known.line, known.seconds,
        known.most <= fix.free and not _is_pinned_again(group, known, facts), known.follows, known.objects,
        known.is_serving, pinned=known.pinned,
        may_change=known.may_change,
    )  # fmt: skip


def _known(kind: CauseClass, subject: str, group: Sequence[Decided], facts: Facts) -> Known:
    changes = _changes(group, facts)
    line = next((line for decided in group if (line := _line(decided, facts))), None)
    entered = _entered(group, line, facts) if line and kind in {*_WRITTEN, *HELD} else ()
    written, used = _written_and_used(kind, subject, group, line, entered, facts)
    is_assigned = kind in HELD[:2] and line is not None and _is_assigned(subject, group, line, entered, facts)
    value = facts.values.get(changes[0].frame, EntryValues()).values.get(group[0].failed.key, "")
    return Known(
        changes,
        sum(_seconds(change, facts) for change in changes),
        max(Counter(change.frame for change in changes).values()),
        line,
        written[0] if len(written) == 1 else None,
        written if len(written) > 1 else (),
        used,
        _follows(group, facts),
        _pinned(group, facts) if kind in _PINNED else None,
        _crosses(group, facts),
        _objects(group, facts) if kind in {CauseClass.ANOTHER_MODULE, CauseClass.ANOTHER_INSTANCE} else 0,
        value if is_number(value) else next((change.old for change in changes if change.old), "0"),
        is_assigned,
    )


def _entered(group: Sequence[Decided], line: SourceLine, facts: Facts) -> tuple[Definition, ...]:
    """Return the functions of a line's file that the compiled code may call; none where it is of another file."""
    compilation = facts.compilations.get(group[0].recompile.compile_id)
    start = compilation.definition or compilation if compilation else line
    return entered_from(facts.texts, line.file, start.line) if start.file == line.file else ()


def _is_assigned(
    subject: str, group: Sequence[Decided], line: SourceLine, entered: Sequence[Definition], facts: Facts
) -> bool:
    """Return whether what was compiled gives an attribute a value."""
    entered = entered or entered_from(facts.texts, line.file, line.line)
    ran = [n for file, n in _ran(group, facts) if file == line.file]
    there = [one for one in entered if any(one.line <= n <= one.last for n in ran)]
    return assigns(facts.texts, line.file, subject, there)


def _changes(group: Sequence[Decided], facts: Facts) -> tuple[Change, ...]:
    changes: list[Change] = []
    for this, after in zip(group, [*group[1:], None], strict=True):
        own, new = this.recompile.compile_id, this.failed.new
        # a new value that is known only from its own failure, by the recompile after it
        if not new and after and after.failure and facts.epochs.entry(after.recompile, after.failure) == own:
            new = after.failed.old
        changes.append(Change(this, facts.epochs.first(own), this.failed.old, new))
    return tuple(changes)


def _seconds(change: Change, facts: Facts) -> float:
    compilation = facts.compilations.get(change.recompile.compile_id)
    return (compile_seconds(compilation) if compilation else None) or 0.0


def _written_and_used(  # noqa: PLR0913, PLR0917 -- what it is looked for by
    kind: CauseClass,
    subject: str,
    group: Sequence[Decided],
    line: SourceLine | None,
    entered: Sequence[Definition],
    facts: Facts,
) -> tuple[tuple[SourceLine, ...], frozenset[Use]]:
    """Return the line of the user's that changes a value, or all that may, and what a number is used for."""
    if line is None or kind not in {*_WRITTEN, *HELD}:
        return (), frozenset()
    writes = writing_lines(facts.texts, line, subject, entered, _ran(group, facts)) if kind in _WRITTEN else ()
    name = subject.removeprefix("global ")
    used = uses(facts.texts, line.file, line.line, name, entered) if kind in HELD else None
    return writes, used or frozenset()


def _ran(group: Sequence[Decided], facts: Facts) -> frozenset[tuple[str, int]]:
    """The lines that put something into a graph of these recompiles, or of what they were compared with."""
    ids = {decided.recompile.compile_id for decided in group}
    ids |= {facts.epochs.entry(decided.recompile, decided.failure) for decided in group if decided.failure}
    nodes = (node for one in ids for graph in facts.graphs.get(one, ()) for node in graph.nodes)
    return frozenset((at.file, at.line) for node in nodes for at in node.source)


def _pinned(group: Sequence[Decided], facts: Facts) -> SourceLine | None:
    """Return the line that needs a size as a number in each of these recompiles; None where any is free of it."""
    found: list[SourceLine | None] = []
    for decided in group:
        values = facts.values.get(decided.recompile.compile_id, EntryValues())
        found.append(values.pins.get(decided.failed.key))
    return found[-1] if found and None not in found else None


def _is_pinned_again(group: Sequence[Decided], known: Known, facts: Facts) -> bool:
    """Return whether a size was a symbol before, and was pinned then, too: each other size is one more compilation."""
    entries = (facts.epochs.entry(one.recompile, one.failure) for one in group if known.pinned and one.failure)
    keys = {one.failed.key for one in group}
    return any(keys & facts.values.get(entry, EntryValues()).pins.keys() for entry in entries)


def _objects(group: Sequence[Decided], facts: Facts) -> int:
    """Return how many objects these recompiles and what they were compared with are of."""
    ids = {decided.recompile.compile_id for decided in group}
    ids |= {facts.epochs.entry(decided.recompile, decided.failure) for decided in group if decided.failure}
    return len({c.instance for i in ids if (c := facts.compilations.get(i)) and c.instance})


def _crosses(group: Sequence[Decided], facts: Facts) -> bool:
    """Whether each of these recompiles is for the other kind of call than what it was compared with."""
    sides: list[set[Stage]] = []
    for decided in group:
        if decided.failure is None:
            return False
        both = decided.recompile.compile_id, facts.epochs.entry(decided.recompile, decided.failure)
        sides.append({stage for _, stage in stages({i: facts.values[i] for i in both if i in facts.values})})
    return all(len(side) > 1 for side in sides)


def _follows(group: Sequence[Decided], facts: Facts) -> SourceLine | None:
    """Return the line of the graph break that hands all these values over; None if any comes from elsewhere."""
    found: SourceLine | None = None
    for decided in group:
        compilation = facts.compilations.get(decided.recompile.compile_id)
        line = resumed_line(compilation) if compilation else None
        if compilation is None or line is None or decided.failure is None:
            return None
        if "___stack" not in decided.failure.source and not _is_made(
            decided.failed.subject, compilation, line, facts.texts
        ):
            return None
        code = facts.texts.line(compilation.file, line).strip()
        found = found or SourceLine(compilation.file, line, compilation.resumes, code)
    return found


def _is_made(subject: str, compilation: Compilation, line: int, texts: Sources) -> bool:
    """Whether a name of the function's is one that it assigned itself before a line."""
    root = next(iter(WORD.findall(authored(subject).removeprefix("len("))), "")
    function = texts.function_at(compilation.file, line)
    if function is None or subject.startswith("global ") or root in {"", "self", "cls"}:
        return False
    name = rf"(?<![\w.]){re.escape(root)}\b"
    assigned = re.compile(rf"{name}\s*(?:,[^=]{{0,80}})?(?:[-+*/%@]|//|\*\*)?=(?!=)|\bfor .{{0,80}}{name}.{{0,80}} in ")
    numbers = range(function.first, line + 1)
    return any(assigned.search(texts.line(compilation.file, n)) for n in numbers if n > function.first)


def _line(decided: Decided, facts: Facts) -> SourceLine | None:
    """Where the user's code depends on what changed: the failed guard's line, else that of the entry's guard on it."""
    if decided.failure is None:
        return None
    if decided.failed.cause is CauseClass.KEYWORDS and (c := facts.compilations.get(decided.recompile.compile_id)):
        return innermost_own(c.stack[:-1])  # the call is to blame
    entry, stack = facts.epochs.entry(decided.recompile, decided.failure), decided.failure.user_stack
    found = OF_TENSOR.match(decided.failed.subject)
    guarded = facts.values.get(entry, EntryValues()).lines.get(found["tensor"] if found else decided.failed.subject)
    at = stack[0] if stack else guarded
    if len(stack) > 1:  # where an attribute is read, not where the number that it is goes into a graph
        *path, last = WORD.findall(decided.failed.subject) or [""]
        reads = [one for one in stack if path and last in _ATTRIBUTE.findall(one.code)]
        at = innermost_own(reads) or innermost_own(stack)
    if own := whole_line(at, entry, facts) if at else None:
        return own
    # The line that first uses it as an input of a graph; Dynamo calls the input of `args[0]` l_args_0_.
    name = f"l_{_NO_WORD.sub('_', decided.failure.source).strip('_')}_"
    users = (node for graph in facts.graphs.get(entry, ()) for node in graph.nodes if name in node.inputs)
    return next((line for node in users if (line := innermost_own(node.source))), None)
