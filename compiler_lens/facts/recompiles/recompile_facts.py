"""What reports of recompiles are made from, looked up once: homes, names, values; and the guard that decided."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.program.coverage import Coverage, FunctionName, coverage
from compiler_lens.facts.recompiles.failed_guards import OF_CLASS, Failed, understand
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.guard_values import EntryValues, Names, entry_values, is_wrapper, names_of, readable
from compiler_lens.recording import model
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, GuardFailure, Recompile, Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Sources, sources

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
_ENTRY = re.compile(r"(\d{1,18})/(\d{1,18})\Z")
_COMPARED = 16  # of the entries that did not fit, the newest so many are compared with each other
_UNSEEN = EntryValues()
_IDENTITY = "identity of "

# torch checks these before any guard of the function's own: an entry that failed on another guard has passed them.
_CHECKED_FIRST = frozenset((
    CauseClass.GRAD_MODE, CauseClass.INFERENCE_MODE, CauseClass.TORCH_FUNCTION_MODE, CauseClass.AUTOCAST,
    CauseClass.OTHER_GLOBAL_STATE, CauseClass.BACKEND, CauseClass.ANOTHER_MODULE, CauseClass.DEAD_OBJECT,
))  # fmt: skip


class CompileEpoch(Struct, frozen=True):
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


class Facts(Struct, frozen=True):
    """A recording by what its recompiles ask of it."""

    texts: Sources
    compilations: Mapping[CompileId, Compilation]
    homes: Mapping[CompileId, FunctionName]
    frame_homes: Mapping[CompileId, FunctionName]  # by `CompileId.of_frame`
    breaks: Mapping[CompileId, Sequence[model.GraphBreak]]
    graphs: Mapping[CompileId, Sequence[model.Graph]]  # of Dynamo
    epochs: CompileEpoch
    names: Mapping[CompileId, Names] = field(default_factory=dict)  # of what took part in a recompile
    values: Mapping[CompileId, EntryValues] = field(default_factory=dict)
    torch: str = ""  # its version
    given: frozenset[tuple[str, int]] = frozenset()  # where what torch.compile got is defined; empty: not recorded

    def is_since(self, version: tuple[int, int]) -> bool:
        """Return whether the program ran with a version of torch, or a later one; not where that is not recorded."""
        found = _VERSION.match(self.torch)
        return found is not None and (int(found[1]), int(found[2])) >= version

    def is_within(self, compile_id: CompileId) -> bool:
        """Return whether a compilation is of something that what torch.compile was given calls, or of its rest."""
        compilation = self.compilations.get(compile_id)
        if not self.given or compilation is None or is_wrapper(compilation):  # torch's, of what was given
            return False
        at = compilation.definition or compilation
        return bool(compilation.resumes) or (at.file, at.line) not in self.given

    def home(self, compile_id: CompileId) -> FunctionName:
        """Return the function that a compilation belongs to."""
        compilation = self.compilations.get(compile_id)
        if compilation and not is_wrapper(compilation) and (home := self.homes.get(self.epochs.first(compile_id))):
            return home
        return self.homes.get(compile_id) or self.frame_homes.get(compile_id.of_frame) or FunctionName("?")


class Decided(Struct, frozen=True):
    """Why one recompile happened."""

    recompile: Recompile
    failure: GuardFailure | None  # of the entry that came closest; None: torch gave no reason
    failed: Failed


class _Entry(Struct, frozen=True):
    """A cache entry that did not fit: its failed guard, and what it was made for."""

    made_by: CompileId
    failure: GuardFailure
    failed: Failed
    values: EntryValues

    def is_of_the_class(self, other: _Entry, now: EntryValues) -> bool:
        """Return whether this one is for values of the class that came, where another is not.

        One for a list is not close to None while there is one for None.
        """
        failed = other.failed
        is_asked = failed.cause in OF_CLASS and self.failed.key != failed.key
        return is_asked and self.values.of_one_class(failed.subject, now)

    def fulfils(self, other: _Entry, now: EntryValues) -> bool:
        """Return whether this one takes the value for which another one failed; of an object that is where it lives."""
        key, new = other.failed.key, other.failed.new
        if key.startswith(_IDENTITY):
            at = f"address of {key.removeprefix(_IDENTITY)}"
            new = now.values.get(at, "")
            return self.failed.key != key and bool(new) and self.values.values.get(at) == new
        takes = key in self.values.varying or bool(new and self.values.values.get(key) == new)
        return takes and self.failed.key != key


def recompile_facts(recording: Recording, also: Iterable[CompileId] = (), covered: Coverage | None = None) -> Facts:
    """Return everything that `decide` and the reports look up; names and values also of some other compilations."""
    covered = covered or coverage(recording)
    members = [(f.name, frame) for f in covered.functions for frame in f.frames]
    homes: dict[CompileId, FunctionName] = {}
    frame_homes: dict[CompileId, FunctionName] = {}
    for name, frame in [*members, *((frame.name, frame) for frame in (*covered.library, *covered.kept_out))]:
        frame_homes.setdefault(frame.id, name)
        for compilation in frame.compilations:
            homes.setdefault(compilation.compile_id, name)
    compilations = {c.compile_id: c for c in reversed(recording.compilations)}
    epochs = _epochs(recording)
    wanted = {r.compile_id for r in recording.recompiles} | set(also)
    wanted |= {epochs.entry(r, f) for r in recording.recompiles for f in r.failures}
    breaks = grouped(recording.graph_breaks, lambda event: event.compile_id)
    of_dynamo = (graph for graph in recording.graphs if graph.stage is model.GraphStage.DYNAMO)
    graphs = grouped(of_dynamo, lambda graph: graph.compile_id)
    given = frozenset((site.defined.file, site.defined.line) for site in recording.sites)
    facts = Facts(
        sources(recording),
        compilations,
        homes,
        frame_homes,
        breaks,
        graphs,
        epochs,
        torch=recording.environment.torch,
        given=given,
    )
    names = _names(wanted, facts)
    values = entry_values(recording, frozenset(wanted), lambda i, text: readable(text, names[i]))
    return replace(facts, names=names, values=values)


def decide(recompile: Recompile, facts: Facts) -> Decided:
    """Return the failed guard that made this recompile necessary.

    Of several entries that did not fit, the one that came closest: not one whose wish another entry fulfils; of
    those that are left the newest, since older ones were outgrown before.
    """
    now, names = facts.values.get(recompile.compile_id, _UNSEEN), facts.names.get(recompile.compile_id, Names())
    found: list[_Entry] = []
    for failure in sorted(recompile.failures, key=_number, reverse=True)[:_COMPARED]:
        made_by = facts.epochs.entry(recompile, failure)
        values = facts.values.get(made_by, _UNSEEN)
        found.append(_Entry(made_by, failure, understand(failure, names, values, now), values))
    if not found:
        return Decided(recompile, None, Failed(CauseClass.OTHER, "", ""))
    home = facts.home(recompile.compile_id)
    found = [one for one in found if facts.home(one.made_by) == home] or found  # modules share torch's wrapper's frame
    found = [one for one in found if one.failed.cause not in _CHECKED_FIRST] or found
    found = [one for one in found if not any(other.is_of_the_class(one, now) for other in found)] or found
    closest = [one for one in found if not any(other.fulfils(one, now) for other in found)] or found
    one = closest[0]
    here = facts.compilations.get(recompile.compile_id)
    if here is None or not here.instance or not one.failed.subject.startswith("self."):
        return Decided(recompile, one.failure, one.failed)
    # Of several objects that share the code, the one that was called may have an entry of its own: that shows a change.
    mine = (each for each in found if _instance(each.made_by, facts) == here.instance)
    one = next((each for each in mine if each.failed.subject.startswith("self.")), one)
    if _instance(one.made_by, facts) not in {0, here.instance}:
        other = CauseClass.ANOTHER_MODULE if here.module else CauseClass.ANOTHER_INSTANCE
        return Decided(recompile, one.failure, replace(one.failed, cause=other))
    return Decided(recompile, one.failure, one.failed)


def _instance(compile_id: CompileId, facts: Facts) -> int:
    compilation = facts.compilations.get(compile_id)
    return compilation.instance if compilation else 0


def author_name(compilation: Compilation, facts: Facts) -> FunctionName:
    """Return the function as its author names it: `Model.forward`; for torch's wrapper the forward that it calls."""
    home = facts.home(compilation.compile_id)
    told = compilation.definition
    if is_wrapper(compilation):
        name = f"{home.name}.forward" if compilation.module else home.name
        return replace(home, name=told.function if told else name)
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


def _epochs(recording: Recording) -> CompileEpoch:
    times = {c.compile_id: c.started for c in recording.compilations}
    last = 0.0
    for recompile in recording.recompiles:  # they come in order; of a refused compilation a log has no start
        last = times[recompile.compile_id] = times.get(recompile.compile_id) or last
    order = dict.fromkeys(sorted((c.compile_id for c in recording.compilations), key=times.__getitem__))
    ids = grouped(order, lambda one: (one.frame, one.recompile, one.autograd))
    return CompileEpoch({one: place for place, one in enumerate(order)}, ids)


def _names(wanted: Iterable[CompileId], facts: Facts) -> Mapping[CompileId, Names]:
    """Once for all compilations of a frame; but all modules share the frame of torch's wrapper."""
    known: dict[tuple[CompileId, str], Names] = {}
    found: dict[CompileId, Names] = {}
    for compile_id in sorted(wanted, key=str):
        compilation = facts.compilations.get(compile_id)
        key = (facts.epochs.first(compile_id), compilation.module if compilation else "")
        if compilation and key not in known:
            graphs, breaks = facts.graphs.get(compile_id, ()), facts.breaks.get(compile_id, ())
            known[key] = names_of(compilation, graphs, breaks, facts.texts)
        found[compile_id] = known[key] if compilation else Names()
    return found
