"""What the page says first: the verdict, what to do about it, and where the rest is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import (
    CacheBypassed,
    CudagraphsSkipped,
    DeviceIdle,
    DisabledOnPurpose,
    FrameFailed,
    PhaseDominates,
    TinyGraphs,
    Unfinished,
)
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.coverage import Function
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.ink import mood, plain
from compiler_lens.views import words
from compiler_lens.views.advice import Advice, advice
from compiler_lens.views.console.next_steps import nothing_to_fix
from compiler_lens.views.console.screen import figures, setting, verdict
from compiler_lens.views.console.times import total_words, worker_lines
from compiler_lens.views.environment import environment_facts
from compiler_lens.views.frames import WORST_FIRST, treated
from compiler_lens.views.text import one_line

_KERNELS = 6
_KINDS: Mapping[type, str] = {
    BreakCard: "graph break",
    RecompileReport: "recompiles",
    CudagraphsSkipped: "CUDA graphs",
    CacheBypassed: "caches",
    PhaseDominates: "compile time",
    DeviceIdle: "profile",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A finding as the page shows it."""

    finding: Finding
    told: Advice
    kind: str  # what it is about, in a word
    href: str  # its line in the source view
    more: str  # the view with its evidence
    before: tuple[str, ...]  # the lines that the suggestion is instead of
    again: bool  # its change stands above already


def overview(matter: PageContext) -> dict[str, Any]:
    """What the templates of the page's own text need."""
    recording, summary, page = matter.recording, matter.summary, matter.ink.page
    said = verdict(summary, page)
    steps = _steps(matter)
    return {
        "setting": [one_line(part, 200) for part in setting(recording.environment, summary, page)],
        "unfinished": words.unfinished(recording.unfinished),
        "verdict": said.plain,
        "mood": mood(said),
        "figures": [part if isinstance(part, tuple) else (str(part), "") for part in figures(recording, summary)],
        "steps": [step for step in steps if not step.finding.benign],
        "benign": [step for step in steps if step.finding.benign],
        "clean": plain(nothing_to_fix(recording, summary, page)[1:2]),
        "functions": _functions(matter),
        "treatments": [(t, n) for t in WORST_FIRST if (n := summary.coverage.treatments.get(t, 0))],
        "phases": summary.phases,
        "phases_told": ", ".join((total_words(summary.phases), *plain(worker_lines(summary.phases)))),
        "kernels": [(row, matter.ink.kernel(row.group.first)) for row in matter.rows[:_KERNELS]],
        "facts": environment_facts(recording.environment),
        "problems": Counter((p.where, p.message) for p in recording.problems).most_common(),
        "missing": Counter((u.fact, u.reason) for u in recording.unavailable).most_common(),
    }


def _steps(matter: PageContext) -> list[Step]:
    steps: list[Step] = []
    given: set[str] = set()
    for finding in matter.summary.findings:
        told = advice(finding, matter.ink.page.at)
        again = bool(told.change) and told.change in given
        before, more = _before(finding, told), _more(finding, matter)
        kind = _KINDS.get(type(finding.evidence), "")
        steps.append(
            Step(finding, told, kind, matter.ink.href(finding.place) if finding.place else "", more, before, again)
        )
        given.add(told.change)
    return steps


def _before(finding: Finding, told: Advice) -> tuple[str, ...]:
    evidence = finding.evidence.card if isinstance(finding.evidence, FrameFailed) else finding.evidence
    rewrite = evidence.rewrite if isinstance(evidence, BreakCard) else None
    return rewrite.before if rewrite else (told.code,) if told.code else ()


def _more(finding: Finding, matter: PageContext) -> str:
    evidence = finding.evidence
    if isinstance(evidence, FrameFailed):
        evidence = evidence.card or evidence
    if isinstance(evidence, BreakCard):
        return f"#/breaks/{1 + next(i for i, card in enumerate(matter.summary.cards) if card is evidence)}"
    if isinstance(evidence, RecompileReport):
        return f"#/recompiles/{1 + next(i for i, report in enumerate(matter.summary.reports) if report is evidence)}"
    views: dict[type, str] = {
        CudagraphsSkipped: "cudagraphs", CacheBypassed: "caches", TinyGraphs: "graphs", PhaseDominates: "times",
        DeviceIdle: "kernels", DisabledOnPurpose: "source",
        FrameFailed: "functions", Function: "functions", Unfinished: "functions",
    }  # fmt: skip
    return f"#/{views.get(type(evidence), 'environment')}"


def _functions(matter: PageContext) -> list[dict[str, Any]]:
    """Every function, the user's own and the worst first."""
    ink = matter.ink
    ranked = sorted(matter.summary.coverage.functions, key=lambda f: (not f.own, WORST_FIRST.index(f.treatment)))
    return [
        {"function": each, "href": ink.href(each.name) if each.name.file else "", "treated": treated(each)}
        for each in ranked
    ]
