"""Why functions were compiled again, as a person would say it: what changed, how often, at what price, what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import broken_at
from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import Coverage, FunctionName, resumed_line
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.facts.recompiles.fixes import CauseClass, Fix, fix_table
from compiler_lens.facts.recompiles.guard_values import EntryValues, phrase
from compiler_lens.facts.recompiles.recompile_facts import (
    Decided,
    Facts,
    author_name,
    decide,
    recompile_facts,
    whole_line,
)
from compiler_lens.facts.recompiles.written import WORD, writing_line
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, Outcome, Recompile, Recording, SourceLine

_OF_TENSOR = re.compile(r"(?P<tensor>.+?)\.(?:shape\[|stride\(|dtype|device|dim\(|requires_grad)(?P<axis>\d*)")
_UNNAMED = re.compile(r".* of (?:the )?(?P<what>(?:\w+ argument|value at line \d+))")
_NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?\Z")
_ATTRIBUTE = re.compile(r"\.(\w+)")
_NO_WORD = re.compile(r"\W+")


class Change(Struct, frozen=True):
    """One recompile: what a value was and what it became; empty where neither torch nor a guard says it."""

    decided: Decided
    frame: CompileId  # the first compilation of its frame
    old: str = ""
    new: str = ""

    @property
    def recompile(self) -> Recompile:
        """The recompile itself, with all that torch said."""
        return self.decided.recompile


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

    @property
    def count(self) -> int:
        """How many recompiles these are."""
        return len(self.changes)

    @property
    def series(self) -> tuple[Step, ...]:
        """The values in the order in which they came, equal ones in a row as one step; empty if none is known.

        Of several frames, a function and its rests after graph breaks, those of the one recompiled most often.
        """
        frames = grouped(self.changes, lambda change: change.frame)
        values: list[str] = []
        for change in max(frames.values(), key=len):
            if values and values[-1] == change.new != change.old and change.new:
                continue  # another entry of the same function learns of the value that is there already
            if not values or (change.old and change.old != values[-1]):
                values.append(change.old)
            values.append(change.new)
        steps = tuple(Step(value, len(list(same))) for value, same in groupby(values))
        return steps if any(values) else ()


class RecompileReport(Struct, frozen=True):
    """Everything about the recompiles of one function."""

    function: FunctionName  # as its author names it: "Model.forward"
    causes: tuple[RecompileCause, ...]  # those that something is to be done about first, then by seconds
    compilations: int  # how many times it was really compiled, the first times included
    parts: int  # frames that were recompiled: the function itself, and the rests of it after graph breaks
    seconds: float  # of all recompiles
    limit: CompileId | None = None  # where the recompile limit was hit: it runs eagerly since
    repeats_breaks: int = 0  # graph breaks of recompilations at lines where the first compilation broke too

    @property
    def recompiles(self) -> int:
        """How many times its compiled code did not fit."""
        return sum(cause.count for cause in self.causes)

    @property
    def benign(self) -> bool:
        """Whether there is nothing to do."""
        return self.limit is None and all(cause.benign for cause in self.causes)


def recompile_reports(recording: Recording, covered: Coverage | None = None) -> tuple[RecompileReport, ...]:
    """Return a report for every function that was recompiled: those that need something done first, then by seconds.

    Every recompile of the recording is in exactly one cause of one report. `covered` is its coverage, if known.
    """
    if not recording.recompiles:
        return ()
    facts = recompile_facts(recording, covered=covered)
    groups = grouped(recording.recompiles, lambda recompile: facts.home(recompile.compile_id))
    members = grouped(recording.compilations, lambda compilation: facts.home(compilation.compile_id))
    reports = [_report(home, group, members.get(home, ()), facts) for home, group in groups.items()]
    return tuple(sorted(reports, key=lambda s: (s.benign, s.limit is None, -s.seconds, -s.recompiles)))


def _report(
    home: FunctionName, recompiles: Sequence[Recompile], members: Sequence[Compilation], facts: Facts
) -> RecompileReport:
    function = next((author_name(c, facts) for c in members if not c.resumes), home)
    groups: dict[tuple[CauseClass, str], list[Decided]] = {}
    for decided in (decide(recompile, facts) for recompile in recompiles):
        names = facts.names[decided.recompile.compile_id]
        groups.setdefault((decided.failed.cause, phrase(decided.failed.subject, names)), []).append(decided)
    causes = [_cause(kind, subject, group, function, facts) for (kind, subject), group in groups.items()]
    frames = {facts.epochs.first(recompile.compile_id) for recompile in recompiles}
    ours = [c for c in members if facts.epochs.first(c.compile_id) in frames]
    refused = [c.compile_id for c in ours if c.outcome is Outcome.RECOMPILE_LIMIT]
    repeated = 0
    for own in (recompile.compile_id for recompile in recompiles):
        first = facts.epochs.first(own)
        before = {broken_at(b) for b in facts.breaks.get(first, ())} if first != own else set()
        repeated += sum(broken_at(b) in before for b in facts.breaks.get(own, ()))
    return RecompileReport(
        function,
        tuple(sorted(causes, key=lambda cause: (cause.benign, -cause.seconds, -cause.count))),
        len(ours) - len(refused),
        len(frames),
        sum(cause.seconds for cause in causes),
        refused[0] if refused else None,
        repeated,
    )


def _cause(
    kind: CauseClass, subject: str, group: Sequence[Decided], function: FunctionName, facts: Facts
) -> RecompileCause:
    changes: list[Change] = []
    frames: Counter[CompileId] = Counter()
    total = 0.0
    for this, after in zip(group, [*group[1:], None], strict=True):
        own, new = this.recompile.compile_id, this.failed.new
        # a new value that is known only from its own failure, by the recompile after it
        if not new and after and after.failure and facts.epochs.entry(after.recompile, after.failure) == own:
            new = after.failed.old
        changes.append(Change(this, facts.epochs.first(own), this.failed.old, new))
        frames[changes[-1].frame] += 1
        compilation = facts.compilations.get(own)
        total += (compile_seconds(compilation) if compilation else None) or 0.0
    line = next((line for decided in group if (line := _line(decided, facts))), None)
    writes = writing_line(facts.texts, line, subject) if line and kind in _WRITTEN else None
    fix = _fix(kind, group, facts, is_written=writes is not None)
    line = writes or line
    known = facts.values.get(changes[0].frame, EntryValues()).values.get(group[0].failed.key, "")
    start = known if _NUMBER.match(known) else next((change.old for change in changes if change.old), "0")
    fix = replace(fix, change=_worded(fix.change, subject, function, changes, start))
    return RecompileCause(kind, subject, tuple(changes), fix, line, total, max(frames.values()) <= fix.free)


def _line(decided: Decided, facts: Facts) -> SourceLine | None:
    """Where the user's code depends on what changed: the failed guard's line, else that of the entry's guard on it."""
    if decided.failure is None:
        return None
    if decided.failed.cause is CauseClass.KEYWORDS and (c := facts.compilations.get(decided.recompile.compile_id)):
        return innermost_own(c.stack[:-1])  # the call is to blame
    entry, stack = facts.epochs.entry(decided.recompile, decided.failure), decided.failure.user_stack
    found = _OF_TENSOR.match(decided.failed.subject)
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


# -- words of a fix

_WRITTEN = (CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL, CauseClass.CLOSURE)


def _fix(kind: CauseClass, group: Sequence[Decided], facts: Facts, *, is_written: bool) -> Fix:
    """The fix of a class, but for what the function writes itself and for what only a graph break hands over."""
    table = fix_table()
    fix = table.of_class[kind]
    if all(decided.failure and "___stack" in decided.failure.source for decided in group):
        at = next((resumed_line(c) for d in group if (c := facts.compilations.get(d.recompile.compile_id))), None)
        return replace(fix, change=table.after_a_break.replace("{line}", str(at))) if at else fix
    is_number = all(_NUMBER.match(decided.failed.old) for decided in group)
    if kind is CauseClass.MODULE_ATTRIBUTE and not is_number:
        return table.no_number_in_module
    varies = any(d.failed.key in facts.values.get(d.recompile.compile_id, EntryValues()).varying for d in group)
    if varies or not is_written:
        return fix
    return table.counted_in_module if kind is CauseClass.MODULE_ATTRIBUTE else table.counted


def _came_and_went(changes: Sequence[Change]) -> str:
    """Return the keywords that not every call had."""
    sets = [frozenset(text.split(", ")) for change in changes for text in (change.old, change.new) if text]
    some = sorted(
        {keyword for each in sets for keyword in each if any(keyword not in other for other in sets)} - {"none"}
    )
    return f", {', '.join(f'`{keyword}`' for keyword in some)} among them" if some else ""


def _worded(change: str, subject: str, function: FunctionName, changes: Sequence[Change], start: str) -> str:
    """Return what a fix says to change, with the names of this cause filled in."""
    name = tensor = subject.removeprefix("global ") or "the value"
    axis = "0"
    if found := _OF_TENSOR.match(subject):
        tensor, axis = found["tensor"], found["axis"]
    if unnamed := _UNNAMED.match(subject):
        tensor = f"<{unnamed['what']}>"
        axis = next(iter(re.findall(r"\d+", subject)), axis)
    classes = list(dict.fromkeys(value for change in changes for value in (change.old, change.new) if value))
    return change.format(
        name=name,
        tensor=tensor,
        axis=axis,
        list=name.removeprefix("len(").removesuffix(")"),
        attribute=next(reversed(WORD.findall(name)), name),
        function=function.name,
        keywords=_came_and_went(changes),
        value=start,
        unspec=fix_table().unspec if all(change.old.lstrip("-").isdigit() for change in changes) else "",
        classes=f": it was {' and '.join(classes)}" if len(classes) > 1 else "",
    )
