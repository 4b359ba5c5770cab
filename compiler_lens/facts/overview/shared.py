"""What several views of one recording ask for, found out once where their selection keeps it."""

from __future__ import annotations

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.kernels.kernels import Costs, KernelRow, kernel_rows
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.explanation import Explanation, Summary, summarize
from compiler_lens.facts.overview.findings import findings
from compiler_lens.facts.overview.source_view import FileView, source_view
from compiler_lens.facts.program.coverage import Coverage, coverage
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport, recompile_reports
from compiler_lens.recording.model import Recording


def coverage_of(recording: Recording, selection: Selection) -> Coverage:
    """Return what became of every frame and function."""
    return selection.once("coverage", lambda: coverage(recording, Ownership.of(selection.user_paths)))


def cards_of(recording: Recording, selection: Selection) -> tuple[BreakCard, ...]:
    """Return the graph breaks by place and cause."""
    own, covered = Ownership.of(selection.user_paths), coverage_of(recording, selection)
    return selection.once("cards", lambda: break_cards(recording, own, covered))


def reports_of(recording: Recording, selection: Selection) -> tuple[RecompileReport, ...]:
    """Return the recompiles by function."""
    return selection.once("reports", lambda: recompile_reports(recording, coverage_of(recording, selection)))


def summary_of(recording: Recording, selection: Selection) -> Summary:
    """Return what the first screen says."""
    return selection.once("summary", lambda: summarize(recording, _explained(recording, selection)))


def provenance_of(recording: Recording, selection: Selection) -> Provenance:
    """Return which lines each kernel computes."""
    return selection.once("provenance", lambda: Provenance.of(recording, Ownership.of(selection.user_paths)))


def costs_of(recording: Recording, selection: Selection) -> Costs:
    """Return what launches cost."""
    return selection.once("costs", lambda: Costs.of(recording))


def rows_of(recording: Recording, selection: Selection) -> tuple[KernelRow, ...]:
    """Return the kernels, those that compute the same as one, the slowest first."""
    lineages, costs = provenance_of(recording, selection).lineages, costs_of(recording, selection)
    return selection.once("rows", lambda: kernel_rows(lineages, costs))


def files_of(recording: Recording, selection: Selection) -> tuple[FileView, ...]:
    """Return every file with what became of its lines."""
    own, explained = Ownership.of(selection.user_paths), _explained(recording, selection)
    return selection.once("files", lambda: source_view(recording, own, explained))


def _explained(recording: Recording, selection: Selection) -> Explanation:
    covered, cards = coverage_of(recording, selection), cards_of(recording, selection)
    reports = reports_of(recording, selection)
    made = selection.once("findings", lambda: findings(recording, covered, cards, reports))
    return Explanation(covered, cards, reports, made)
