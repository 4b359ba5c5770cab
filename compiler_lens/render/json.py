"""Recordings as JSON: every view that the terminal has, for programs.

Each document is an object with "format", "view" and the keys of its view. Keys are the field names of the types in
`model` and of the analyses; an enum is its value, a compile id its text, a number that JSON cannot write is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from math import isfinite
from typing import Any

from compiler_lens.analysis.caches import cache_summary
from compiler_lens.analysis.compilations import compilation_rows
from compiler_lens.analysis.coverage import Coverage, coverage
from compiler_lens.analysis.findings import Finding
from compiler_lens.analysis.phases import PhaseTimes, phase_times
from compiler_lens.analysis.places import Place, break_places, specific_hints
from compiler_lens.analysis.recompiles import RecompileCause, recompile_causes
from compiler_lens.analysis.select import EVERYTHING, Selection, select_kernels
from compiler_lens.analysis.summary import summarize
from compiler_lens.model import CompileId, Recording

# 1: the first.
FORMAT = 1

Data = dict[str, Any]


def to_json(recording: Recording, view: str = "report", selection: Selection = EVERYTHING) -> str:
    """One view of a recording as a JSON document, in ASCII."""
    data = {"format": FORMAT, "view": view} | _VIEWS[view](recording, selection)
    return json.dumps(plain(data), indent=1, allow_nan=False)


def plain(value: Any) -> Any:
    """A value made of dataclasses, enums and containers as what JSON has."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    return _structure(value)


def _structure(value: Any) -> Any:
    if isinstance(value, CompileId):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def _report(recording: Recording, _: Selection) -> Data:
    summary = summarize(recording)
    return {
        "environment": recording.environment,
        "modes": summary.modes,
        "options": dict(summary.options),
        "coverage": _coverage(summary.coverage),
        "counts": {
            "compilations": len(recording.compilations),
            "graphs": summary.graphs,
            "graph_breaks": len(recording.graph_breaks),
            "recompiles": len(recording.recompiles),
            "kernels": len(recording.kernels),
            "problems": len(recording.problems),
        },
        "seconds": summary.seconds,
        "caches": _cache_counts(recording),
        "phases": _phases(summary.phases),
        "findings": [{"kind": type(f).__name__, "evidence": _evidence(f)} for f in summary.findings],
        "problems": recording.problems,
        "unavailable": recording.unavailable,
    }


def _evidence(finding: Finding) -> Data:
    found = {name: getattr(finding, name) for name in finding.__dataclass_fields__}
    return {name: _told(value) for name, value in found.items()}


def _told(value: Any) -> Any:
    if isinstance(value, Place):
        return _place(value)
    return _cause(value) if isinstance(value, RecompileCause) else value


def _breaks(recording: Recording, selection: Selection) -> Data:
    places = [p for p in break_places(recording) if any(selection.has(b) for b in p.breaks)]
    return {"count": sum(len(p.breaks) for p in places), "places": [_place(p) | {"breaks": p.breaks} for p in places]}


def _place(place: Place) -> Data:
    return {
        "at": place.line,
        "own": place.own,
        "gb_type": place.gb_type,
        "cause": place.cause,
        "specific_hints": specific_hints(place.cause),
        "count": len(place.breaks),
        "outcomes": dict(place.outcomes),
        "compile_ids": place.compile_ids,
        "inside": place.inside,
    }


def _graphs(recording: Recording, selection: Selection) -> Data:
    if selection.ids is None:
        return {"compilations": compilation_rows(recording)}
    wanted = [g for g in recording.graphs if selection.has(g) and selection.stage in {None, g.stage}]
    return {
        "compilations": [r for r in compilation_rows(recording) if r.compile_ids[0] in selection.ids],
        "graphs": wanted,
        "decompositions": [d for d in recording.decompositions if selection.has(d)],
    }


def _kernels(recording: Recording, selection: Selection) -> Data:
    return {"kernels": [k for k in recording.kernels if selection.has(k)]}


def _kernel(recording: Recording, selection: Selection) -> Data:
    return {"kernels": select_kernels(recording, selection.kernel, selection.ids)}


def _recompiles(recording: Recording, selection: Selection) -> Data:
    causes = [c for c in recompile_causes(recording) if any(selection.has(r) for r in c.recompiles)]
    return {"count": sum(len(c.recompiles) for c in causes), "causes": [_cause(c) for c in causes]}


def _cause(cause: RecompileCause) -> Data:
    return {
        "function": cause.function,
        "failure": cause.failure,
        "count": len(cause.recompiles),
        "changes": [{"old": old, "new": new} for old, new in cause.changes],
        "recompiles": cause.recompiles,
    }


def _guards(recording: Recording, selection: Selection) -> Data:
    return {
        "guards": [g for g in recording.guards if selection.has(g)],
        "symbols": [s for s in recording.symbols if selection.has(s)],
    }


def _caches(recording: Recording, selection: Selection) -> Data:
    return _cache_counts(recording) | {"lookups": [c for c in recording.caches if selection.has(c)]}


def _cache_counts(recording: Recording) -> Data:
    summary = cache_summary(recording)
    results = [{"layer": layer, "result": result, "count": n} for (layer, result), n in summary.results.items()]
    return {
        "warmth": summary.warmth,
        "warm_compilations": summary.warm,
        "asking_compilations": summary.asked,
        "results": results,
        "seconds_saved": summary.seconds_saved,
    }


def _times(recording: Recording, selection: Selection) -> Data:
    spans = [s for s in recording.spans if selection.has(s)]
    by_id: dict[CompileId, list[Any]] = {}
    for span in spans:
        if span.compile_id is not None:
            by_id.setdefault(span.compile_id, []).append(span)
    each = [
        {"compile_id": c.compile_id, "seconds": c.seconds, "backward_seconds": c.backward_seconds}
        | {"phases": _phases(phase_times(by_id.get(c.compile_id, ())))}
        for c in recording.compilations
        if selection.has(c)
    ]
    return {"phases": _phases(phase_times(spans)), "compilations": each, "spans": spans}


def _phases(phases: PhaseTimes) -> Data:
    return {
        "total_seconds": phases.total if phases.timed else None,
        "forward": phases.forward,
        "backward": phases.backward,
        "parallel_seconds": phases.parallel,
    }


def _frames(recording: Recording, selection: Selection) -> Data:
    return _coverage(coverage(recording), selection)


def _coverage(covered: Coverage, selection: Selection = EVERYTHING) -> Data:
    frames = [f for f in covered.frames if any(selection.has(c) for c in f.compilations)]
    homes = {frame.key: function.name for function in covered.functions for frame in function.frames}
    return {
        "counts": dict(covered.counts),
        "frames": [
            {
                "function": homes.get(f.key, f.name),
                "outcome": f.outcome,
                "reason": f.reason,
                "resumes_at": f.resumes_at,
                "graph_breaks": f.graph_breaks,
                "compile_ids": [c.compile_id for c in f.compilations],
            }
            for f in frames
        ],
        "library_frames": [{"function": f.name, "reason": f.reason} for f in covered.library],
    }


def _autotune(recording: Recording, selection: Selection) -> Data:
    results = [r for r in recording.autotunes if selection.has(r)]
    return {"results": [plain(r) | {"winner": plain(r.winner), "margin": plain(r.margin)} for r in results]}


def _cudagraphs(recording: Recording, selection: Selection) -> Data:
    return {"outcomes": [o for o in recording.cudagraphs if selection.has(o)]}


def _environment(recording: Recording, _: Selection) -> Data:
    return {
        "environment": recording.environment,
        "problems": recording.problems,
        "unavailable": recording.unavailable,
    }


_VIEWS: Mapping[str, Callable[[Recording, Selection], Data]] = {
    "report": _report,
    "breaks": _breaks,
    "graphs": _graphs,
    "kernels": _kernels,
    "kernel": _kernel,
    "recompiles": _recompiles,
    "guards": _guards,
    "caches": _caches,
    "times": _times,
    "frames": _frames,
    "autotune": _autotune,
    "cudagraphs": _cudagraphs,
    "environment": _environment,
}
