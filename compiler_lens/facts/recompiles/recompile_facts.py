"""What reports of recompiles are made from, looked up once: homes, names, values; and the guard that decided."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from compiler_lens.facts.program.coverage import Coverage, FunctionName, coverage
from compiler_lens.facts.recompiles.argument_names import Names, is_wrapper, names_of, readable
from compiler_lens.facts.recompiles.failed_guards import OF_CLASS, Failed, understand
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.guard_values import EntryValues, entry_values
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    Graph,
    GraphBreak,
    GraphStage,
    GuardFailure,
    Recompile,
    Recording,
    SourceLine,
)
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Sources, sources

_ENTRY = re.compile(r"(\d+)/(\d+)\Z")
_COMPARED = 16  # of the entries that did not fit, the newest so many are compared with each other
_UNSEEN = EntryValues()
_Told = tuple[GuardFailure, Failed, CompileId]  # a failure, understood, and the entry that it is of
_T = TypeVar("_T")

# torch checks these before any guard of the function's own: an entry that failed on another guard has passed them.
_CHECKED_FIRST = frozenset((
    CauseClass.GRAD_MODE, CauseClass.AUTOCAST, CauseClass.OTHER_GLOBAL_STATE,
    CauseClass.BACKEND, CauseClass.ANOTHER_MODULE, CauseClass.DEAD_OBJECT,
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompileEpoch:
    """Which compilations belong together where torch counted from zero again, by their order."""

    places: Mapping[CompileId, int]
    ids: Mapping[tuple[int | None, int | None, int | None], Sequence[CompileId]]

    def before(self, compile_id: CompileId, frame: int | None, recompile: int) -> CompileId:
        """Return the last compilation with these numbers that there was before another one."""
        known = self.ids.get((frame, recompile, compile_id.autograd), ())
        last = bisect_left(known, self.places.get(compile_id, 0), key=lambda one: self.places[one])
        return known[last - 1] if last else replace(compile_id, frame=frame, recompile=recompile)

    def first(self, compile_id: CompileId) -> CompileId:
        """Return the first compilation of a compilation's frame."""
        return self.before(compile_id, compile_id.frame, 0) if compile_id.recompile else compile_id

    def entry(self, recompile: Recompile, failure: GuardFailure) -> CompileId:
        """Return the compilation that made the entry that a failure is of."""
        found, own = _ENTRY.search(failure.entry), recompile.compile_id
        return self.before(own, int(found[1]), int(found[2])) if found else own


@dataclass(frozen=True, slots=True)
class Facts:
    """A recording by what its recompiles ask of it."""

    texts: Sources
    compilations: Mapping[CompileId, Compilation]
    homes: Mapping[CompileId, FunctionName]
    frame_homes: Mapping[CompileId, FunctionName]  # by `CompileId.of_frame`
    breaks: Mapping[CompileId, Sequence[GraphBreak]]
    graphs: Mapping[CompileId, Sequence[Graph]]  # of Dynamo
    epochs: CompileEpoch
    names: Mapping[CompileId, Names] = field(default_factory=dict)  # of what took part in a recompile
    values: Mapping[CompileId, EntryValues] = field(default_factory=dict)

    def home(self, compile_id: CompileId) -> FunctionName:
        """Return the function that a compilation belongs to."""
        compilation = self.compilations.get(compile_id)
        if compilation and not is_wrapper(compilation) and (home := self.homes.get(self.epochs.first(compile_id))):
            return home
        return self.homes.get(compile_id) or self.frame_homes.get(compile_id.of_frame) or FunctionName("?")


@dataclass(frozen=True, slots=True)
class Decided:
    """Why one recompile happened."""

    recompile: Recompile
    failure: GuardFailure | None  # of the entry that came closest; None: torch gave no reason
    failed: Failed


def recompile_facts(recording: Recording, also: Iterable[CompileId] = (), covered: Coverage | None = None) -> Facts:
    """Return everything that `decide` and the reports look up; names and values also of some other compilations."""
    homes, frame_homes = _homes(covered or coverage(recording))
    compilations = {c.compile_id: c for c in reversed(recording.compilations)}
    epochs = _epochs(recording)
    wanted = {r.compile_id for r in recording.recompiles} | set(also)
    wanted |= {epochs.entry(r, f) for r in recording.recompiles for f in r.failures}
    breaks = _by_id(recording.graph_breaks, lambda b: b.compile_id)
    texts = sources(recording)
    dynamo = (g for g in recording.graphs if g.stage is GraphStage.DYNAMO)
    graphs = _by_id(dynamo, lambda g: g.compile_id)
    facts = Facts(texts, compilations, homes, frame_homes, breaks, graphs, epochs)
    names = _names(wanted, facts)
    values = entry_values(recording, frozenset(wanted), lambda i, text: readable(text, names[i]))
    return replace(facts, names=names, values=values)


def decide(recompile: Recompile, facts: Facts) -> Decided:
    """Return the failed guard that made this recompile necessary.

    Of several entries that did not fit, the one that came closest: not one whose wish another entry fulfils; of
    those that are left the newest, since older ones were outgrown before.
    """
    newest = sorted(recompile.failures, key=_number, reverse=True)[:_COMPARED]
    if not newest:
        return Decided(recompile, None, Failed(CauseClass.OTHER, "", ""))
    now, names = facts.values.get(recompile.compile_id, _UNSEEN), facts.names.get(recompile.compile_id, Names())
    told: list[_Told] = []
    for failure in newest:
        entry = facts.epochs.entry(recompile, failure)
        told.append((failure, understand(failure, names, facts.values.get(entry, _UNSEEN), now), entry))
    home = facts.home(recompile.compile_id)
    told = [one for one in told if facts.home(one[2]) == home] or told  # modules share the frame of torch's wrapper
    left = [one for one in told if one[1].cause not in _CHECKED_FIRST] or told
    left = _of_the_same_classes(left, now, facts)
    values = [(failed.key, facts.values.get(entry, _UNSEEN)) for _, failed, entry in left]
    closest = (one for one in left if not any(key != one[1].key and _passes(v, one[1]) for key, v in values))
    failure, failed, _ = next(closest, left[0])
    return Decided(recompile, failure, failed)


def author_name(compilation: Compilation, facts: Facts) -> FunctionName:
    """Return the function as its author names it: `Model.forward`; for torch's wrapper the forward that it calls."""
    home = facts.home(compilation.compile_id)
    told = compilation.definition
    if is_wrapper(compilation):
        name = told.function if told else f"{home.name}.forward" if compilation.module else home.name
        return replace(home, name=name)
    if told:
        return FunctionName(told.function, told.file, told.line)
    defined = facts.texts.function_at(compilation.file, compilation.line)
    if defined and compilation.line in {defined.line, defined.first}:
        return replace(home, name=defined.name)
    return replace(home, name=f"{compilation.module}.{home.name}") if compilation.module else home


def whole_line(at: SourceLine, entry: CompileId, facts: Facts) -> SourceLine | None:
    """Return a line of the user's with its whole path: of a guard's line, torch gives the end of the path."""
    if at.file.startswith(("/", "<")):
        return at if is_own(at.file) else None
    compilation = facts.compilations.get(entry)
    if compilation and compilation.file.endswith(at.file) and is_own(compilation.file):
        return replace(at, file=compilation.file)
    files = (s.file for graph in facts.graphs.get(entry, ()) for node in graph.nodes for s in node.source)
    file = next((file for file in files if file.endswith(at.file) and is_own(file)), None)
    return replace(at, file=file) if file else None


def _number(failure: GuardFailure) -> tuple[int, int]:
    found = _ENTRY.search(failure.entry)
    return (int(found[1]), int(found[2])) if found else (-1, -1)


def _of_the_same_classes(told: list[_Told], now: EntryValues, facts: Facts) -> list[_Told]:
    """Entries for values of the classes that came: one for a list is not close to None while another is for None."""
    entries = [(failed.key, facts.values.get(entry, _UNSEEN)) for _, failed, entry in told]

    def is_outdone(failed: Failed) -> bool:
        subject = failed.subject
        others = (values for key, values in entries if key != failed.key)
        return failed.cause in OF_CLASS and any(values.of_one_class(subject, now) for values in others)

    return [one for one in told if not is_outdone(one[1])] or told


def _passes(values: EntryValues, failed: Failed) -> bool:
    return failed.key in values.varying or bool(failed.new and values.values.get(failed.key) == failed.new)


def _homes(covered: Coverage) -> tuple[dict[CompileId, FunctionName], dict[CompileId, FunctionName]]:
    members = [(f.name, frame) for f in covered.functions for frame in f.frames]
    homes: dict[CompileId, FunctionName] = {}
    frames: dict[CompileId, FunctionName] = {}
    for name, frame in [*members, *((frame.name, frame) for frame in covered.library)]:
        frames.setdefault(frame.id, name)
        for compilation in frame.compilations:
            homes.setdefault(compilation.compile_id, name)
    return homes, frames


def _epochs(recording: Recording) -> CompileEpoch:
    times = {c.compile_id: c.started for c in recording.compilations}
    last = 0.0
    for recompile in recording.recompiles:  # they come in order; of a refused compilation a log has no start
        last = times[recompile.compile_id] = times.get(recompile.compile_id) or last
    order = sorted(range(len(recording.compilations)), key=lambda i: (times[recording.compilations[i].compile_id], i))
    places: dict[CompileId, int] = {}
    ids: dict[tuple[int | None, int | None, int | None], list[CompileId]] = defaultdict(list)
    for place, index in enumerate(order):
        one = recording.compilations[index].compile_id
        if places.setdefault(one, place) == place:
            ids[one.frame, one.recompile, one.autograd].append(one)
    return CompileEpoch(places, ids)


def _by_id(items: Iterable[_T], compile_id: Callable[[_T], CompileId]) -> Mapping[CompileId, Sequence[_T]]:
    found: dict[CompileId, list[_T]] = defaultdict(list)
    for item in items:
        found[compile_id(item)].append(item)
    return found


def _names(wanted: Iterable[CompileId], facts: Facts) -> Mapping[CompileId, Names]:
    """Once for all compilations of a frame; but all modules share the frame of torch's wrapper."""
    known: dict[tuple[CompileId, str], Names] = {}
    found: dict[CompileId, Names] = {}
    for compile_id in sorted(wanted, key=str):
        compilation = facts.compilations.get(compile_id)
        if compilation is None:
            found[compile_id] = Names()
            continue
        key = (facts.epochs.first(compile_id), compilation.module)
        if key not in known:
            graphs, breaks = facts.graphs.get(compile_id, ()), facts.breaks.get(compile_id, ())
            known[key] = names_of(compilation, graphs, breaks, facts.texts)
        found[compile_id] = known[key]
    return found
