"""Why functions were compiled again, as a person would say it: what changed, how often, at what price, what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import broken_at
from compiler_lens.facts.program.coverage import Coverage, FunctionName
from compiler_lens.facts.program.owners import Owner, Whose, owner_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause, cause_of
from compiler_lens.facts.recompiles.chosen import Change
from compiler_lens.facts.recompiles.fixes import CauseClass, fix_table
from compiler_lens.facts.recompiles.guard_values import EntryValues, authored, phrase
from compiler_lens.facts.recompiles.recompile_facts import (
    Decided,
    Facts,
    author_name,
    decide,
    recompile_facts,
    whole_line,
)
from compiler_lens.facts.recompiles.serving import Stage, stages
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, Outcome, Recompile, Recording, SourceLine, Tried
from compiler_lens.recording.own_files import is_machinery
from compiler_lens.recording.torch_names import RAISED_AT_LIMIT

_NEAR = 2  # of 8 compilations that torch keeps
_LIMITS = ("recompile_limit", "cache_size_limit")  # its names in torch._dynamo.config, and before 2.6
_DEFAULT_LIMIT = 8
# torch's words on the limit that was hit, in _compile() of torch/_dynamo/convert_frame.py; a fix says the usual one.
_HIT = re.compile(r"exceeding the (\w{1,60}) cache size limit")
_USUAL = "torch._dynamo.config.recompile_limit`"


class RecompileReport(Struct, frozen=True):
    """Everything about the recompiles of one function."""

    function: FunctionName  # as its author names it: "Model.forward"
    causes: tuple[RecompileCause, ...]  # those that something is to be done about first, then by seconds
    compilations: int  # how many times it was really compiled, the first times included
    parts: int  # frames that were recompiled: the function itself, and the rests of it after graph breaks
    seconds: float  # of all recompiles
    owner: Owner = Owner()  # whose the function is, or the call that brings what changed
    limit: CompileId | None = None  # where the recompile limit was hit: it runs eagerly since
    is_error: bool = False  # what fits no compilation raises since, and runs not even eagerly
    limit_name: str = "recompile_limit"  # which of torch's limits that is
    repeats_breaks: int = 0  # graph breaks of recompilations at lines where the first compilation broke too
    entries: int = 0  # compilations of the frame that has most of them
    allowed: int = 0  # how many torch keeps of a frame, as it was set
    stages: tuple[tuple[CompileId, Stage], ...] = ()  # of a model that serves: which compilation is for what
    # Where the limit was hit: what was another value in each compilation, and what torch names as a cause of none.
    also: tuple[tuple[str, SourceLine | None], ...] = ()

    @property
    def is_near_limit(self) -> bool:
        """Whether few more compilations, or none, are kept before calls run eagerly."""
        return self.limit is None and self.entries >= max(self.allowed - _NEAR, _NEAR)

    @property
    def subjects(self) -> tuple[tuple[RecompileCause, ...], ...]:
        """The causes by what changed; each of those that torch gave no reason for is by itself."""
        numbered = grouped(enumerate(self.causes), lambda one: one[1].changed or one[0])
        return tuple(tuple(cause for _, cause in causes) for causes in numbered.values())

    @property
    def follows(self) -> SourceLine | None:
        """The line of the graph break that all recompiles that ask for something follow from; None where not all do."""
        asking = [cause for cause in self.causes if not cause.benign or self.limit]
        return asking[0].follows if asking and all(cause.follows for cause in asking) else None

    @property
    def recompiles(self) -> int:
        """How many times its compiled code did not fit."""
        return sum(cause.count for cause in self.causes)

    @property
    def benign(self) -> bool:
        """Whether there is nothing to do."""
        is_full = self.entries >= self.allowed > 0  # the next one is refused
        return self.limit is None and not is_full and all(cause.benign for cause in self.causes)


class _Whole(Struct, frozen=True):
    """What all reports of a recording share."""

    own: Ownership
    compiled: frozenset[tuple[str, str]]  # functions that were compiled, by file


def recompile_reports(
    recording: Recording, covered: Coverage | None = None, own: Ownership | None = None
) -> tuple[RecompileReport, ...]:
    """Return a report for every function that was recompiled: those that need something done first, then by seconds.

    Every recompile of the recording is in exactly one cause of one report. `covered` is its coverage, if known.
    """
    if not recording.recompiles:
        return ()
    facts = recompile_facts(recording, covered=covered)
    groups = grouped(recording.recompiles, lambda recompile: facts.home(recompile.compile_id))
    members = grouped(recording.compilations, lambda compilation: facts.home(compilation.compile_id))
    compiled = frozenset((c.file, name) for c in recording.compilations for name in (c.function, c.resumes))
    whole = _Whole(own or Ownership(), compiled)
    reports = [_report(home, group, members.get(home, ()), facts, whole) for home, group in groups.items()]
    if recording.tried:
        reports = [_with_trials(report, recording.tried) for report in reports]
    return tuple(sorted(reports, key=lambda s: (s.benign, s.limit is None, -s.seconds, -s.recompiles)))


def _with_trials(report: RecompileReport, tried: Sequence[Tried]) -> RecompileReport:
    causes = [
        replace(cause, tried=tuple(one for one in tried if one.is_for(cause.line, cause.cause.value)))
        for cause in report.causes
    ]
    return replace(report, causes=tuple(causes))


def _report(
    home: FunctionName, recompiles: Sequence[Recompile], members: Sequence[Compilation], facts: Facts, whole: _Whole
) -> RecompileReport:
    function = next((author_name(c, facts) for c in members if not c.resumes), home)
    groups: dict[tuple[CauseClass, str], list[Decided]] = {}
    for decided in (decide(recompile, facts) for recompile in recompiles):
        names = facts.names[decided.recompile.compile_id]
        groups.setdefault((decided.failed.cause, phrase(decided.failed.subject, names)), []).append(decided)
    owner = _owner(function, members, {kind for kind, _ in groups}, whole)
    causes = [cause_of(kind, subject, group, function, facts) for (kind, subject), group in groups.items()]
    frames = {facts.epochs.first(recompile.compile_id) for recompile in recompiles}
    ours = [c for c in members if facts.epochs.first(c.compile_id) in frames]
    refused = [c for c in ours if _is_refused(c)]
    name = _name_of_limit(refused)
    causes = [_from_there(_of_limit(cause, name), owner) for cause in _with_all_changes(causes, recompiles)]
    causes = _with_decisions_at_once(causes)
    repeated = 0
    for this in (recompile.compile_id for recompile in recompiles):
        first = facts.epochs.first(this)
        before = {broken_at(b) for b in facts.breaks.get(first, ())} if first != this else set()
        repeated += sum(broken_at(b) in before for b in facts.breaks.get(this, ()))
    made = Counter(facts.epochs.first(c.compile_id) for c in ours if not _is_refused(c))
    return RecompileReport(
        function,
        tuple(sorted(causes, key=lambda cause: (cause.benign, -cause.seconds, -cause.count))),
        len(ours) - len(refused),
        len(frames),
        sum(cause.seconds for cause in causes),
        owner,
        refused[0].compile_id if refused else None,
        bool(refused) and refused[0].outcome is Outcome.FAILED,
        name,
        repeated,
        max(made.values(), default=0),
        _allowed(ours),
        stages({c.compile_id: facts.values[c.compile_id] for c in ours if c.compile_id in facts.values}),
        _also(refused[0].compile_id, made, ours, causes, facts) if refused else (),
    )


def _also(
    refused: CompileId, made: Mapping[CompileId, int], ours: Sequence[Compilation], causes: Sequence[RecompileCause],
    facts: Facts,
) -> tuple[tuple[str, SourceLine | None], ...]:  # fmt: skip
    """Return what else was another value in each compilation, with its line: torch names the first failed guard."""
    first = facts.epochs.first(refused)
    ids = [c.compile_id for c in ours if facts.epochs.first(c.compile_id) == first and c.compile_id != refused]
    entries = [facts.values[one] for one in ids if facts.values.get(one, EntryValues()).values]
    if len(entries) < max(made.get(first, 0), _NEAR + 1):
        return ()
    named, newest = {cause.subject for cause in causes}, entries[-1]
    found: list[tuple[str, SourceLine | None]] = []
    for key in newest.values:
        is_value = " of " not in key and not key.startswith("global ") and authored(key) == key
        values = {entry.values.get(key, "") for entry in entries if key not in entry.varying}
        if is_value and key not in named and "" not in values and len(values) == len(entries):
            at = newest.lines.get(key) or newest.lines.get(key.removeprefix("len(").removesuffix(")"))
            found.append((key, whole_line(at, ids[-1], facts) if at else None))
    return tuple(found)


def _with_all_changes(causes: Sequence[RecompileCause], recompiles: Sequence[Recompile]) -> list[RecompileCause]:
    """Return causes that are about one value with all changes of it, in the order in which they came."""
    numbers = {recompile.compile_id: number for number, recompile in enumerate(recompiles)}
    changes: dict[str, list[Change]] = {}
    for cause in causes:
        changes.setdefault(cause.changed, []).extend(cause.changes)
    for several in changes.values():
        several.sort(key=lambda change: numbers[change.recompile.compile_id])
    return [
        replace(cause, all_changes=tuple(every))
        if cause.changed and len(every := changes[cause.changed]) > cause.count
        else cause
        for cause in causes
    ]


def _with_decisions_at_once(causes: Sequence[RecompileCause]) -> list[RecompileCause]:
    """Return causes with what a line decides on sizes taken together: each time torch may name another condition.

    `self.shape != x.shape` is two ways to go, and as many conditions as there were sizes before.
    """
    lines = Counter[SourceLine | None]()
    for cause in causes:
        if cause.cause is CauseClass.SHAPE_EXPRESSION and cause.line:
            lines[cause.line] += cause.count
    free = fix_table().of_class[CauseClass.SHAPE_EXPRESSION].free
    return [
        replace(cause, benign=False)
        if cause.cause is CauseClass.SHAPE_EXPRESSION and lines[cause.line] > free
        else cause
        for cause in causes
    ]


# What a call brings with it: whoever makes the call can change it.
_BROUGHT = frozenset(CauseClass) - {
    CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL, CauseClass.CLOSURE,
    CauseClass.LIST_LENGTH, CauseClass.DICT_KEYS, CauseClass.OTHER,
}  # fmt: skip
_SIZES = (
    CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE, CauseClass.ZERO_ONE,
    CauseClass.SHAPE_EXPRESSION, CauseClass.INT_ARGUMENT,
)  # fmt: skip


def _owner(
    function: FunctionName, members: Sequence[Compilation], kinds: Collection[CauseClass], whole: _Whole
) -> Owner:
    """Whose recompiles these are: where the user calls a library's function, theirs as far as the call brings them."""
    own, first = whole.own, next((c for c in members if not c.resumes), None)
    if own.owns(function.file) or first is None:
        return Owner()
    owner = owner_of((*first.stack, SourceLine(function.file, function.line, function.name)), own)
    if owner.line is None or owner.whose is not Whose.LIBRARY or not _BROUGHT.issuperset(kinds):
        return owner
    # A compiled function leaves out of the stack what it calls: only a line that is not compiled calls directly.
    if (owner.line.file, owner.line.function) in whole.compiled:
        return owner
    outside = [at for at in first.stack[:-1] if not is_machinery(at.file)]
    return Owner(line=owner.line) if outside[-1:] == [owner.line] else owner


def _from_there(cause: RecompileCause, owner: Owner) -> RecompileCause:
    """Return a cause with what its user can do about it; an optimizer's settings are the user's own."""
    if owner.is_yours or cause.cause is CauseClass.OPTIMIZER:
        return cause
    table, at = fix_table(), cause.follows or owner.line
    text = table.size_in_a_library if cause.cause in _SIZES and not cause.pinned else table.in_a_library
    text = table.follows_in_a_library if cause.follows else text
    line = f"{at.file.rpartition('/')[2]}:{at.line}" if at else "its outermost line"
    is_designed = owner.whose is Whose.BY_DESIGN and not cause.follows
    change = owner.change if is_designed else text.format(owner=owner.label, line=line)
    return replace(cause, fix=replace(cause.fix, change=change))


def _is_refused(compilation: Compilation) -> bool:
    is_error = compilation.outcome is Outcome.FAILED and RAISED_AT_LIMIT in compilation.reason
    return is_error or compilation.outcome is Outcome.RECOMPILE_LIMIT


def _name_of_limit(refused: Sequence[Compilation]) -> str:
    found = _HIT.search(refused[0].reason) if refused else None
    return found[1] if found else "recompile_limit"


def _of_limit(cause: RecompileCause, name: str) -> RecompileCause:
    """Return a cause whose fix names the limit that was hit: to raise another one changes nothing."""
    change = cause.fix.change.replace(_USUAL, f"torch._dynamo.config.{name}`")
    return replace(cause, fix=replace(cause.fix, change=change))


def _allowed(compilations: Sequence[Compilation]) -> int:
    """Return how many compilations of a frame torch keeps, as it was set when the last one began."""
    config = next((c.config for c in reversed(compilations) if c.config is not None), {})
    told = next((value for name, value in config.items() if name.rpartition(".")[2] in _LIMITS), "")
    return int(told) if told.isdigit() else _DEFAULT_LIMIT
