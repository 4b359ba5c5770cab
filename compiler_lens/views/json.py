"""Recordings as JSON: every view that the terminal has, for programs.

Each document is an object with "format", "view" and the keys of its view. Keys are the field names of the types in
`model` and of the analyses; an enum is its value, a compile id its text, a number that JSON cannot write is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.kernels.kernel_rows import Costs, by_kernel, kernel_rows, lineages_of
from compiler_lens.facts.kernels.kernels import fused_op_count, unusual_language
from compiler_lens.facts.kernels.lineage import Lineage, NodeProvenance, Origin
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.evidence import FrameFailed, TinyGraphs, Unfinished
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.overview.line_story import selected
from compiler_lens.facts.overview.source_view import FileView, select_file, source_view
from compiler_lens.facts.overview.summary import summarize
from compiler_lens.facts.program.coverage import Function
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import EVERYTHING, Selection, select_kernels
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.codec import plain
from compiler_lens.recording.model import Recording
from compiler_lens.views.advice import advice
from compiler_lens.views.breaks import card_facts
from compiler_lens.views.caches import cache_counts
from compiler_lens.views.frames import coverage_data
from compiler_lens.views.profile_data import profile_data
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


def _kernels(recording: Recording, selection: Selection) -> Data:
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    costs = Costs.of(recording)
    rows = kernel_rows(selected(recording, provenance, selection), costs)
    each = [_kernel_row(costs, one) for row in rows for one in by_kernel(row.lineages)]
    return {"kernels": each, "times_are_usable": costs.is_usable}


def _kernel_row(costs: Costs, lineages: Sequence[Lineage]) -> Data:
    kernel = dict(plain(lineages[0].kernel))
    del kernel["lexer"]
    if not unusual_language(lineages[0].kernel):
        del kernel["language"]
    return kernel | {
        "ops": fused_op_count(lineages[0].kernel, costs.views),
        "microseconds": costs.microseconds(lineages),
        "traffic": costs.traffic(lineages),
        "flops": costs.flops(lineages),
        "lines": list({at.place: plain(at) for one in lineages for at in one.lines}.values()),
        "modules": list(dict.fromkeys(module for one in lineages for module in one.modules)),
    }


def _kernel(recording: Recording, selection: Selection) -> Data:
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    costs = Costs.of(recording)
    kernels = select_kernels(recording, selection.kernel, selection.ids)
    each = by_kernel(lineages_of(recording, provenance, kernels))
    rows = [_kernel_row(costs, own) | {"lineages": [_lineage(one) for one in own]} for own in each]
    return {"kernels": rows, "times_are_usable": costs.is_usable}


def _lineage(lineage: Lineage) -> Data:
    return {
        "launch": lineage.launch,
        "trust": lineage.trust,
        "lines": lineage.lines,
        "modules": lineage.modules,
        "nodes": [_traced(traced) for traced in lineage.nodes],
        "lost": lineage.lost,
    }


def _traced(traced: NodeProvenance) -> Data:
    return {
        "name": traced.name,
        "target": traced.node.target if traced.node else None,
        "aten_node": traced.aten or None,
        "original_aten": traced.node.original_aten if traced.node else None,
        "role": traced.role,
        "trust": traced.trust,
        "origins": [_origin(origin) for origin in traced.origins],
    }


def _origin(origin: Origin) -> Data:
    return {
        "compile_id": origin.compile_id,
        "node": origin.name or None,
        "target": origin.target,
        "module": origin.module,
        "module_type": origin.module_type,
        "line": origin.line,
        "stack": origin.stack,
    }


def _source(recording: Recording, selection: Selection) -> Data:
    views = source_view(recording, Ownership.of(selection.user_paths))
    number = None
    if selection.file:
        view, number = select_file(views, selection.file)
        views = (view,)
    return {"line": number, "files": [_file(view) for view in views if view.facts or selection.file]}


def _file(view: FileView) -> Data:
    return {
        "file": view.file,
        "own": view.own,
        "has_text": bool(view.text),
        "functions": [{"name": d.name, "first": d.first, "last": d.last} for d in view.seen],
        "lines": [
            {
                "line": one.number,
                "code": view.text[one.number - 1] if one.number <= len(view.text) else one.code,
                "graphs": one.graphs,
                "calls": one.calls,
                "cards": [card.number for card in one.cards],
                "follows": one.follows,
                "calls_break": one.calls_break,
                "failures": one.failures,
                "uncompiled": one.uncompiled,
                "guards": [cause.subject for cause in one.guards],
            }
            for one in view.facts.values()
        ],
    }


_VIEWS: Mapping[str, Callable[[Recording, Selection], Data]] = {
    "report": _report,
    "kernels": _kernels,
    "kernel": _kernel,
    "source": _source,
    "findings": _findings,
    "profile": profile_data,
}
