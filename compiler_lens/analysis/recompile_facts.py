"""What stories of recompiles are told from, looked up once: homes, names, values; and the guard that decided."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from compiler_lens.analysis.argument_names import Names, names_of, readable
from compiler_lens.analysis.coverage import FrameKey, FunctionName, coverage, frame_key
from compiler_lens.analysis.failed_guards import Failed, understand
from compiler_lens.analysis.guard_values import EntryValues, entry_values
from compiler_lens.analysis.recompile_fixes import CauseClass
from compiler_lens.analysis.source import Sources, sources
from compiler_lens.model import (
    Compilation,
    CompileId,
    Graph,
    GraphBreak,
    GraphStage,
    GuardFailure,
    Recompile,
    Recording,
)

_ENTRY = re.compile(r"(\d+)/(\d+)\Z")
_COMPARED = 16  # of the entries that did not fit, the newest so many are compared with each other
_UNSEEN = EntryValues()
_T = TypeVar("_T")

# torch checks these before any guard of the function's own: an entry that failed on another guard has passed them.
_CHECKED_FIRST = frozenset(
    (
        CauseClass.GRAD_MODE,
        CauseClass.AUTOCAST,
        CauseClass.OTHER_GLOBAL_STATE,
        CauseClass.BACKEND,
        CauseClass.ANOTHER_MODULE,
        CauseClass.DEAD_OBJECT,
    )
)


@dataclass(frozen=True, slots=True)
class Facts:
    """A recording by what its recompiles ask of it."""

    texts: Sources
    compilations: Mapping[CompileId, Compilation]
    homes: Mapping[CompileId, FunctionName]
    frame_homes: Mapping[FrameKey, FunctionName]
    breaks: Mapping[CompileId, Sequence[GraphBreak]]
    graphs: Mapping[CompileId, Sequence[Graph]]  # of Dynamo
    names: Mapping[CompileId, Names]
    values: Mapping[CompileId, EntryValues]

    def home(self, compile_id: CompileId) -> FunctionName:
        """The function that a compilation belongs to."""
        return self.homes.get(compile_id) or self.frame_homes.get(frame_key(compile_id)) or FunctionName("?")


@dataclass(frozen=True, slots=True)
class Decided:
    """Why one recompile happened."""

    recompile: Recompile
    failure: GuardFailure | None  # of the entry that came closest; None: torch gave no reason
    failed: Failed


def recompile_facts(recording: Recording) -> Facts:
    """Everything that `decide` and the stories look up."""
    homes, frame_homes = _homes(recording)
    compilations = {c.compile_id: c for c in reversed(recording.compilations)}
    wanted = {r.compile_id for r in recording.recompiles}
    wanted |= {entry_id(r, f) for r in recording.recompiles for f in r.failures}
    breaks = _by_id(recording.graph_breaks, lambda b: b.compile_id)
    texts = sources(recording)
    dynamo = (g for g in recording.graphs if g.stage is GraphStage.DYNAMO)
    graphs = _by_id(dynamo, lambda g: g.compile_id)
    names = _names(wanted, compilations, graphs, breaks, texts)
    values = entry_values(recording, frozenset(wanted), lambda i, text: readable(text, names[i]))
    return Facts(texts, compilations, homes, frame_homes, breaks, graphs, names, values)


def decide(recompile: Recompile, facts: Facts) -> Decided:
    """The failed guard that made this recompile necessary.

    Of several entries that did not fit, the one that came closest: not one whose wish another entry fulfils; of
    those that are left the newest, since older ones were outgrown before.
    """
    newest = sorted(recompile.failures, key=_number, reverse=True)[:_COMPARED]
    told = [(f, _understood(recompile, f, facts), entry_id(recompile, f)) for f in newest]
    if not told:
        return Decided(recompile, None, Failed(CauseClass.OTHER, "", ""))
    home = facts.home(recompile.compile_id)
    told = [one for one in told if facts.home(one[2]) == home] or told  # modules share the frame of torch's wrapper
    left = [one for one in told if one[1].cause not in _CHECKED_FIRST] or told
    values = [(failed.key, facts.values.get(entry, _UNSEEN)) for _, failed, entry in left]
    closest = (one for one in left if not any(key != one[1].key and _passes(v, one[1]) for key, v in values))
    failure, failed, _ = next(closest, left[0])
    return Decided(recompile, failure, failed)


def entry_id(recompile: Recompile, failure: GuardFailure) -> CompileId:
    """The compilation that made the entry that a failure is of."""
    found = _ENTRY.search(failure.entry)
    return (
        replace(recompile.compile_id, frame=int(found[1]), recompile=int(found[2])) if found else recompile.compile_id
    )


def _number(failure: GuardFailure) -> tuple[int, int]:
    found = _ENTRY.search(failure.entry)
    return (int(found[1]), int(found[2])) if found else (-1, -1)


def _understood(recompile: Recompile, failure: GuardFailure, facts: Facts) -> Failed:
    entry = facts.values.get(entry_id(recompile, failure), _UNSEEN)
    now = facts.values.get(recompile.compile_id, _UNSEEN)
    return understand(failure, facts.names.get(recompile.compile_id, Names()), entry, now)


def _passes(values: EntryValues, failed: Failed) -> bool:
    return failed.key in values.varying or bool(failed.new and values.values.get(failed.key) == failed.new)


def _homes(recording: Recording) -> tuple[dict[CompileId, FunctionName], dict[FrameKey, FunctionName]]:
    covered = coverage(recording)
    members = [(f.name, frame) for f in covered.functions for frame in f.frames]
    homes: dict[CompileId, FunctionName] = {}
    frames: dict[FrameKey, FunctionName] = {}
    for name, frame in [*members, *((frame.name, frame) for frame in covered.library)]:
        frames.setdefault(frame.key, name)
        for compilation in frame.compilations:
            homes.setdefault(compilation.compile_id, name)
    return homes, frames


def _by_id(items: Iterable[_T], compile_id: Callable[[_T], CompileId]) -> Mapping[CompileId, Sequence[_T]]:
    found: dict[CompileId, list[_T]] = defaultdict(list)
    for item in items:
        found[compile_id(item)].append(item)
    return found


def _names(
    wanted: Iterable[CompileId],
    compilations: Mapping[CompileId, Compilation],
    graphs: Mapping[CompileId, Sequence[Graph]],
    breaks: Mapping[CompileId, Sequence[GraphBreak]],
    texts: Sources,
) -> Mapping[CompileId, Names]:
    """Once for all compilations of a frame; but all modules share the frame of torch's wrapper."""
    known: dict[tuple[FrameKey, str], Names] = {}
    found: dict[CompileId, Names] = {}
    for compile_id in sorted(wanted, key=str):
        compilation = compilations.get(compile_id)
        if compilation is None:
            found[compile_id] = Names()
            continue
        key = (frame_key(compile_id), compilation.module)
        if key not in known:
            known[key] = names_of(compilation, graphs.get(compile_id, ()), breaks.get(compile_id, ()), texts)
        found[compile_id] = known[key]
    return found
