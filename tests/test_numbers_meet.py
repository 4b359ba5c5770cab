"""Numbers that stand in several places are the same there, or add up: over every recording of the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler_lens
from compiler_lens import Lens, explain
from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.explanation import Summary, summarize
from compiler_lens.facts.overview.source_view import source_view
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import BreakOutcome, GraphStage, Recording
from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import Page
from compiler_lens.render.json import view_json
from compiler_lens.views.registry import BY_NAME

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("data/*.clens.gz")) + sorted(TESTS.rglob("recordings/*.clens.gz"))
WIDE = Page(width=1000, color=False)
SKIPPED_FRAME, SKIPPED_REST = BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST
_SLACK = 1.01  # seconds are rounded


@cache
def loaded(path: Path) -> Recording:
    return compiler_lens.load(path)


@cache
def summary(path: Path) -> Summary:
    return summarize(loaded(path))


def head(recording: Recording) -> str:
    return " ".join(report(recording, width=1000, color=False).partition("\n\n")[0].split())


def counted(text: str, noun: str) -> int:
    found = re.search(rf"([\d,]+) {noun}s?\b", text)
    return int(found[1].replace(",", "")) if found else 0


def as_json(recording: Recording, name: str) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = json.loads(view_json(recording, name))
    return answer


def compiled_of(text: str) -> tuple[int, int]:
    """How many of how many functions the headline has as compiled."""
    if found := re.search(r"([\d,]+) of ([\d,]+) (?:function|call)s? (?:stays? )?compiled", text):
        return int(found[1].replace(",", "")), int(found[2].replace(",", ""))
    if found := re.search(r"All ([\d,]+) (?:function|call)s compiled", text):
        return int(found[1].replace(",", "")), int(found[1].replace(",", ""))
    assert re.search(r"Both (?:function|call)s compiled", text), text
    return 2, 2


def test_there_are_recordings_of_breaks_recompiles_kernels_and_profiles() -> None:
    assert len(FILES) > 30
    assert any(loaded(path).kernels and loaded(path).recompiles for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_functions_of_the_headline_add_up(path: Path) -> None:
    said, covered = head(loaded(path)), summary(path).coverage
    compiled, total = compiled_of(said)
    assert total == sum(not function.treatment.is_idle for function in covered.functions)
    assert compiled == len(covered.treated(Treatment.WHOLE, Treatment.SPLIT))
    left = [int(n) for n in re.findall(r"; (\d+) (?:runs?|hit|was|failed|unfinished)", said)]
    assert compiled + sum(left) == total
    cut = re.search(r"(\d+|all|both|) ?(?:of them )?cut by graph breaks", said)
    assert bool(cut) == bool(covered.treatments.get(Treatment.SPLIT))
    in_menu = BY_NAME["frames"].document(loaded(path), Selection(for_page=True)).count
    assert in_menu == (sum(not function.treatment.is_idle for function in covered.functions) or None)
    facts = as_json(loaded(path), "frames")
    treated = [function["treatment"] for function in facts["functions"]]
    assert sum(one in {"whole", "split"} for one in treated) == compiled


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_breaks_and_places_are_the_same_everywhere(path: Path) -> None:
    recording, said = loaded(path), head(loaded(path))
    cards, facts = summary(path).cards, as_json(recording, "breaks")
    breaks = len(recording.graph_breaks)
    assert breaks == counted(said, "graph break") == sum(len(card.events) for card in cards) == facts["count"]
    assert len(cards) == len(facts["cards"]) == len({id(card) for card in cards})
    assert sum(card["count"] for card in facts["cards"]) == breaks
    lines = re.search(r"graph breaks? at (\d+) line", said)
    broken = {card.place.place if card.place else number for number, card in enumerate(cards)}
    assert (int(lines[1]) if lines else breaks) == len(broken)
    if breaks:
        shown = view(recording, "breaks", WIDE)
        assert counted(shown, "break") == breaks
        assert (
            f"{breaks} break{'s' if breaks > 1 else ''} at {len(broken)} line{'s' if len(broken) > 1 else ''}," in shown
        )
        assert BY_NAME["breaks"].document(recording, Selection(for_page=True)).count == breaks  # in the page's menu
        files = [file for file in source_view(recording) if file.cards]
        assert sum(file.broken_lines for file in files) == len([at for at in broken if not isinstance(at, int)])
        assert sum(map(int, re.findall(r"^ +\d+\. .*  (\d+) breaks?", shown, re.MULTILINE))) == breaks


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_what_breaks_make_eager_is_what_the_headline_has_as_eager(path: Path) -> None:
    treatments = [function.treatment for function in summary(path).coverage.functions]
    for card in summary(path).cards:
        entirely, partly = (card.functions.get(outcome, 0) for outcome in (SKIPPED_FRAME, SKIPPED_REST))
        others = sum(one in {Treatment.FAILED, Treatment.LIMIT} for one in treatments)
        assert entirely <= treatments.count(Treatment.EAGER) + others
        assert partly <= treatments.count(Treatment.PARTLY_EAGER) + others


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_recompiles_are_the_same_everywhere(path: Path) -> None:
    recording, said = loaded(path), head(loaded(path))
    reports, facts = summary(path).recompiles, as_json(recording, "recompiles")
    recompiles = len(recording.recompiles)
    assert recompiles == counted(said, "recompile") == sum(one.recompiles for one in reports)
    assert recompiles == sum(len(cause.changes) for one in reports for cause in one.causes)
    assert recompiles == sum(len(cause["changes"]) for one in facts["functions"] for cause in one["causes"])
    if recompiles:
        assert BY_NAME["recompiles"].document(recording, Selection(for_page=True)).count == recompiles
        assert counted(view(recording, "recompiles", WIDE), "recompile") == recompiles


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_graphs_and_kernels_are_the_same_everywhere(path: Path) -> None:
    recording, said = loaded(path), head(loaded(path))
    graphs = counted(said, "graph")
    assert graphs == summary(path).graphs <= sum(g.stage is GraphStage.DYNAMO for g in recording.graphs) or not any(
        g.stage is GraphStage.DYNAMO for g in recording.graphs
    )
    assert counted(said, "kernel") == len(recording.kernels) == sum(row.kernels for row in summary(path).rows)
    compiled, _ = compiled_of(said)
    assert graphs >= compiled or not graphs
    assert compiled or not graphs or "in full" in said or "stay" in said
    shown = report(recording, width=1000, color=False)
    if recording.kernels:
        assert counted(shown.partition("\nKernels")[2], "") or f"Kernels  {len(recording.kernels):,} " in shown


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_seconds_of_parts_are_no_more_than_those_of_the_whole(path: Path) -> None:
    one = summary(path)
    whole = one.seconds or 0.0
    assert sum(report.seconds for report in one.recompiles) <= whole * _SLACK
    for told in one.recompiles:
        assert sum(cause.seconds for cause in told.causes) == pytest.approx(told.seconds)
    if one.phases.timed:
        assert sum(row.seconds or 0.0 for row in one.rows) <= whole * _SLACK


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_findings_count_what_the_views_do(path: Path) -> None:
    found = summary(path).findings
    cards = [finding.evidence for finding in found if isinstance(finding.evidence, BreakCard)]
    reports = [finding.evidence for finding in found if isinstance(finding.evidence, RecompileReport)]
    assert all(card in summary(path).cards for card in cards)
    assert all(one in summary(path).recompiles for one in reports)
    facts = as_json(loaded(path), "findings")["findings"]
    assert len(facts) == len(found) == len(explain(loaded(path)).findings)
    worth = sum(not finding.benign for finding in found)
    if found:
        shown = view(loaded(path), "findings", WIDE)
        assert re.search(rf"Findings  {worth or 'none'} (things? )?to fix, {len(found) - worth:,} to know", shown)


def test_graphs_of_a_function_that_is_not_compiled_in_full_do_not_contradict_the_headline() -> None:
    """Rounds of a refinement in graphs, and the last part eager, for what it raises: one read "0 of 1 function" beside "28 graphs"."""
    torch._dynamo.reset()

    def part(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.relu(x + n)

    def rounds(x: torch.Tensor) -> torch.Tensor:
        for n in range(3):
            x = part(x, n)
        torch._dynamo.graph_break()
        x = x * 2
        torch._dynamo.skip_frame()
        return x + 1

    with Lens(strict=True) as lens:
        torch.compile(rounds, backend="eager")(torch.ones(3))
    said, treated = head(lens.recording), explain(lens.recording).coverage.treatments
    compiled, total = compiled_of(said)
    assert (compiled, total) == (0, 1), said
    assert treated.get(Treatment.PARTLY_EAGER), treated
    assert counted(said, "graph") >= 1
    assert "0 of 1 function compiled in full" in said
