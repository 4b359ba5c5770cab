"""Recordings as JSON: every view that the terminal has, for programs.

Each document is an object with "format", "view" and the keys of its view. Keys are the field names of the types in
`model` and of the analyses; an enum is its value, a compile id its text, a number that JSON cannot write is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import FrameFailed, TinyGraphs, Unfinished
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.overview.summary import summarize
from compiler_lens.facts.program.coverage import Function
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.codec import plain
from compiler_lens.recording.model import Recording
from compiler_lens.views.advice import advice
from compiler_lens.views.breaks import card_facts
from compiler_lens.views.caches import cache_counts
from compiler_lens.views.frames import coverage_data
from compiler_lens.views.recompiles import report_facts
from compiler_lens.views.registry import FORMAT
from compiler_lens.views.times import phase_seconds

Data = dict[str, Any]


def to_json(recording: Recording, view: str = "report", selection: Selection = EVERYTHING) -> str:
    """One view of a recording as a JSON document, in ASCII."""
    data = {"format": FORMAT, "view": view} | _VIEWS[view](recording, selection)
    return json.dumps(plain(data), indent=1, allow_nan=False)


def _report(recording: Recording, selection: Selection) -> Data:
    summary = summarize(recording, selection.user_paths)
    return {
        "environment": recording.environment,
        "modes": summary.modes,
        "options": dict(summary.options),
        "coverage": coverage_data(summary.coverage),
        "counts": {
            "compilations": len(recording.compilations),
            "graphs": summary.graphs,
            "graph_breaks": len(recording.graph_breaks),
            "kernels": len(recording.kernels),
            "problems": len(recording.problems),
        },
        "seconds": summary.seconds,
        "caches": cache_counts(recording),
        "phases": phase_seconds(summary.phases),
        "findings": [_finding(f) for f in summary.findings],
        "problems": recording.problems,
        "unavailable": recording.unavailable,
    }


def _findings(recording: Recording, selection: Selection) -> Data:
    return {"findings": [_finding(f) for f in summarize(recording, selection.user_paths).findings]}


def _finding(finding: Finding) -> Data:
    told = advice(finding, lambda place: f"{place.file}:{place.line}")
    return {
        "kind": type(finding.evidence).__name__,
        "severity": finding.severity,
        "seconds": finding.seconds,
        "basis": finding.basis,
        "advice": told,
        "evidence": _evidence(finding.evidence),
    }


def _evidence(evidence: Any) -> Any:  # noqa: PLR0911 -- one for each kind
    match evidence:
        case BreakCard():
            return card_facts(evidence)
        case RecompileReport():
            return report_facts(evidence)
        case Function(name=name):
            return {"function": name, "treatment": evidence.treatment, "reason": evidence.reason}
        case FrameFailed(frame, card):
            return {"function": frame.name, "reason": frame.reason, "card": card_facts(card) if card else None}
        case Unfinished(frame):
            return {"function": frame.name}
        case TinyGraphs(function, graphs):
            return {"function": function.name, "graphs": graphs}
    return evidence


_VIEWS: Mapping[str, Callable[[Recording, Selection], Data]] = {
    "report": _report,
    "findings": _findings,
}
