"""Why functions were compiled again, as a person would say it: what changed, how often, at what price, what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import broken_at
from compiler_lens.facts.breaks.ranks import Offered, offered
from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import Coverage, FunctionName, resumed_line
from compiler_lens.facts.program.owners import Owner, Whose, owner_of
from compiler_lens.facts.program.ownership import Ownership, innermost_own
from compiler_lens.facts.program.uses import Use, uses
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
from compiler_lens.facts.recompiles.serving import Stage, stages
from compiler_lens.facts.recompiles.written import WORD, entered_from, writing_line
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, Outcome, Recompile, Recording, SourceLine, Tried
from compiler_lens.recording.own_files import is_machinery
from compiler_lens.recording.source_text import Sources

_OF_TENSOR = re.compile(r"(?P<tensor>.+?)\.(?:shape\[|stride\(|dtype|device|dim\(|requires_grad)(?P<axis>\d*)")
_UNNAMED = re.compile(r".* of (?:the )?(?P<what>(?:\w+ argument|value at line \d+))")
_NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?\Z")
_ATTRIBUTE = re.compile(r"\.(\w+)")
_NEAR = 2  # of 8 compilations that torch keeps
_LIMITS = ("recompile_limit", "cache_size_limit")  # its names in torch._dynamo.config, and before 2.6
_DEFAULT_LIMIT = 8
_OF_ANOTHER = frozenset((CauseClass.ANOTHER_MODULE, CauseClass.ANOTHER_INSTANCE, CauseClass.DEAD_OBJECT))
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
    follows: SourceLine | None = None  # the line of the graph break that hands the value over, if one does
    objects: int = 0  # that share the code, of recompiles for another one
    is_serving: bool = False  # what tells a call for the prompt (prefill) from one for a token after it (decode)
    tried: tuple[Tried, ...] = ()  # offers for it, each made in a copy of the program by itself
    all_changes: tuple[
        Change, ...
    ] = ()  # of what changed, for this and for other causes; empty if this is the only one
    pinned: SourceLine | None = None  # of a size: the line that needs it as a number whenever it is compiled, a loop's

    @property
    def changed(self) -> str:
        """What changed; empty where nobody knows, and where nothing did: another object has another value."""
        return "" if self.cause in _OF_ANOTHER else self.subject

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


class RecompileReport(Struct, frozen=True):
    """Everything about the recompiles of one function."""

    function: FunctionName  # as its author names it: "Model.forward"
    causes: tuple[RecompileCause, ...]  # those that something is to be done about first, then by seconds
    compilations: int  # how many times it was really compiled, the first times included
    parts: int  # frames that were recompiled: the function itself, and the rests of it after graph breaks
    seconds: float  # of all recompiles
    owner: Owner = Owner()  # whose the function is, or the call that brings what changed
    limit: CompileId | None = None  # where the recompile limit was hit: it runs eagerly since
    repeats_breaks: int = 0  # graph breaks of recompilations at lines where the first compilation broke too
    entries: int = 0  # compilations of the frame that has most of them
    allowed: int = 0  # how many torch keeps of a frame, as it was set
    stages: tuple[tuple[CompileId, Stage], ...] = ()  # of a model that serves: which compilation is for what

    @property
    def is_near_limit(self) -> bool:
        """Whether few more compilations, or none, are kept before calls run eagerly."""
        return self.limit is None and self.entries >= max(self.allowed - _NEAR, _NEAR)

    @property
    def subjects(self) -> tuple[tuple[RecompileCause, ...], ...]:
        """The causes by what changed; each of those that torch gave no reason for is by itself."""
        return tuple(map(tuple, grouped(self.causes, lambda cause: cause.changed or id(cause)).values()))

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
    causes = [_cause(kind, subject, group, function, facts) for (kind, subject), group in groups.items()]
    causes = [_from_there(cause, owner) for cause in _with_all_changes(causes, recompiles)]
    frames = {facts.epochs.first(recompile.compile_id) for recompile in recompiles}
    ours = [c for c in members if facts.epochs.first(c.compile_id) in frames]
    refused = [c.compile_id for c in ours if c.outcome is Outcome.RECOMPILE_LIMIT]
    repeated = 0
    for this in (recompile.compile_id for recompile in recompiles):
        first = facts.epochs.first(this)
        before = {broken_at(b) for b in facts.breaks.get(first, ())} if first != this else set()
        repeated += sum(broken_at(b) in before for b in facts.breaks.get(this, ()))
    made = Counter(facts.epochs.first(c.compile_id) for c in ours if c.outcome is not Outcome.RECOMPILE_LIMIT)
    return RecompileReport(
        function,
        tuple(sorted(causes, key=lambda cause: (cause.benign, -cause.seconds, -cause.count))),
        len(ours) - len(refused),
        len(frames),
        sum(cause.seconds for cause in causes),
        owner,
        refused[0] if refused else None,
        repeated,
        max(made.values(), default=0),
        _allowed(ours),
        stages({c.compile_id: facts.values[c.compile_id] for c in ours if c.compile_id in facts.values}),
    )


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


# What a call brings with it: whoever makes the call can change it.
_BROUGHT = frozenset(CauseClass) - {
    CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL, CauseClass.CLOSURE,
    CauseClass.LIST_LENGTH, CauseClass.DICT_KEYS, CauseClass.OTHER,
}  # fmt: skip
_LOOP = ": compile the body of the loop, and loop over that"
_PINNED = (CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE, CauseClass.INT_ARGUMENT)
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


def _allowed(compilations: Sequence[Compilation]) -> int:
    """Return how many compilations of a frame torch keeps, as it was set when the last one began."""
    config = next((c.config for c in reversed(compilations) if c.config is not None), {})
    told = next((config[name] for name in _LIMITS if name in config), "")
    return int(told) if told.isdigit() else _DEFAULT_LIMIT


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
    writes, used = None, None
    if line and kind in {*_WRITTEN, *_HELD}:
        compilation = facts.compilations.get(group[0].recompile.compile_id)
        start = compilation.definition or compilation if compilation else line
        entered = entered_from(facts.texts, line.file, start.line) if start.file == line.file else ()
        writes = writing_line(facts.texts, line, subject, entered) if kind in _WRITTEN else None
        name = subject.removeprefix("global ")
        used = uses(facts.texts, line.file, line.line, name, entered) if kind in _HELD else None
    follows = _follows(group, facts)
    crossed = _crosses(group, facts)
    pinned = _pinned(group, facts) if kind in _PINNED else None
    fix = _fix(kind, group, changes, facts, used or frozenset(), is_written=writes is not None)
    if pinned:
        fix = fix_table().others["pinned"]
    if follows:
        fix = fix_table().others["after_a_break"]
    elif subject.startswith("len(self.state[") and _OPTIMIZERS.search(function.file):
        fix = fix_table().others["optimizer_state"]
    elif crossed:
        fix = fix_table().others["prefill_and_decode"]
    known = facts.values.get(changes[0].frame, EntryValues()).values.get(group[0].failed.key, "")
    first = known if _NUMBER.match(known) else next((change.old for change in changes if change.old), "0")
    words = {
        "value": first,
        "uses": " and ".join(sorted(use.value for use in used or ())),
        "line": str(at.line) if (at := follows or pinned) else "",
        "loop": f"{_LOOP}{_masked(kind, subject)}" if Use.LOOP in (used or ()) else "",
        "masked": _masked(kind, subject),
    }
    if not all(change.old.lstrip("-").isdigit() for change in changes):
        fix = replace(fix, setting=None)
    words["setting"] = fix.setting.code if fix.setting else ""
    words["unspec"] = fix_table().unspec.format(setting=words["setting"]) if fix.setting else ""
    fix = replace(
        fix,
        why=_worded(fix.why, subject, function, changes, words),
        change=_worded(fix.change, subject, function, changes, words),
        leave=_worded(fix.leave, subject, function, changes, words),
    )
    benign = max(frames.values()) <= fix.free
    objects = _objects(group, facts) if kind in {CauseClass.ANOTHER_MODULE, CauseClass.ANOTHER_INSTANCE} else 0
    line = writes or pinned or line
    return RecompileCause(
        kind, subject, tuple(changes), fix, line, total, benign, follows, objects, crossed, pinned=pinned
    )


def _pinned(group: Sequence[Decided], facts: Facts) -> SourceLine | None:
    """Return the line that needs a size as a number in each of these recompiles; None where any is free of it."""
    found: list[SourceLine | None] = []
    for decided in group:
        values = facts.values.get(decided.recompile.compile_id, EntryValues())
        found.append(values.pins.get(decided.failed.key))
    return found[-1] if found and None not in found else None


def _masked(kind: CauseClass, subject: str) -> str:
    """What else to do where a number is how often a loop runs: what is handed in may be a tensor if no loop asks it."""
    if kind is not CauseClass.INT_ARGUMENT:
        return ""
    return f"; or run the largest count, mask what is too much by `torch.tensor({subject})`, and hand that in"


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
    root = next(iter(WORD.findall(subject.removeprefix("len("))), "")
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

_HELD = (
    CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL, CauseClass.CLOSURE,
    CauseClass.INT_ARGUMENT, CauseClass.FLOAT_ARGUMENT,
)  # fmt: skip
_WRITTEN = (*_HELD[:4], CauseClass.LIST_LENGTH, CauseClass.DICT_KEYS)
_OPTIMIZERS = re.compile(r"(?:^|/)torch/optim/\w+\.py\Z")
_PLAIN_KINDS = frozenset(("plain", "Conjugate", "Negative", "Conjugate, Negative"))
_LEARNING_RATE = re.compile(r"\blr\b")


def _fix(  # noqa: PLR0911, PLR0913 -- one for each thing that is known of a cause
    kind: CauseClass,
    group: Sequence[Decided],
    changes: Sequence[Change],
    facts: Facts,
    used: frozenset[Use],
    *,
    is_written: bool,
) -> Fix:
    """The fix of a class, but for what its values are, what they are used for, and what the function writes itself."""
    table = fix_table()
    fix, others = table.of_class[kind], table.others
    values = {value for change in changes for value in (change.old, change.new) if value}
    if kind is CauseClass.INFERENCE_MODE and not values:
        return others["inference_of_which"]
    if kind is CauseClass.DISPATCH_KEYS and not values <= _PLAIN_KINDS:
        return others["another_kind"]
    if kind is CauseClass.OPTIMIZER:
        return fix if _LEARNING_RATE.search(group[0].failed.subject) else others["not_lr"]
    if kind not in _HELD:
        return fix
    if not values or not all(map(_NUMBER.match, values)):
        return others["no_number"]
    is_int = all(value.lstrip("-").isdigit() for value in values)
    if used & {Use.LOOP, Use.TEXT, Use.KEY}:
        may_vary = is_int and kind is CauseClass.MODULE_ATTRIBUTE and Use.LOOP not in used
        return others["unrolled_in_module" if may_vary else "unrolled"]
    if used:
        kept = "int_in_module" if kind is CauseClass.MODULE_ATTRIBUTE else "int_elsewhere"
        return others[kept if is_int else "no_number"]
    varies = any(d.failed.key in facts.values.get(d.recompile.compile_id, EntryValues()).varying for d in group)
    if varies or not is_written:
        return fix
    return others["counted_in_module" if kind is CauseClass.MODULE_ATTRIBUTE else "counted"]


def _came_and_went(changes: Sequence[Change]) -> str:
    """Return the keywords that not every call had."""
    sets = [frozenset(text.split(", ")) for change in changes for text in (change.old, change.new) if text]
    some = sorted(
        {keyword for each in sets for keyword in each if any(keyword not in other for other in sets)} - {"none"}
    )
    return f", {', '.join(f'`{keyword}`' for keyword in some)} among them" if some else ""


def _worded(
    text: str, subject: str, function: FunctionName, changes: Sequence[Change], words: Mapping[str, str]
) -> str:
    """Return what a fix says, with the names of this cause filled in."""
    name = tensor = subject.removeprefix("global ") or "the value"
    axis = "0"
    if found := _OF_TENSOR.match(subject):
        tensor, axis = found["tensor"], found["axis"]
    if unnamed := _UNNAMED.match(subject):
        tensor = f"<{unnamed['what']}>"
        axis = next(iter(re.findall(r"\d+", subject)), axis)
    classes = list(dict.fromkeys(value for change in changes for value in (change.old, change.new) if value))
    return text.format(
        **words,
        name=name,
        tensor=tensor,
        axis=axis,
        list=name.removeprefix("len(").removesuffix(")"),
        attribute=next(reversed(WORD.findall(name)), name),
        function=function.name,
        keywords=_came_and_went(changes),
        classes=f": it was {' and '.join(classes)}" if len(classes) > 1 else "",
    )
