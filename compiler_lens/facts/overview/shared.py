"""What several views of one recording ask for, found out once where their selection keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.kernels.kernels import Costs, KernelRow, kernel_rows
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.explanation import Explanation, Summary, summarize
from compiler_lens.facts.overview.findings import findings
from compiler_lens.facts.program.coverage import Coverage, coverage
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport, recompile_reports
from compiler_lens.recording.model import Recording

if TYPE_CHECKING:
    from compiler_lens.facts.overview.source_view import FileView


def coverage_of(recording: Recording, selection: Selection) -> Coverage:
    """Return what became of every frame and function."""
    return selection.once("coverage", lambda: coverage(recording, Ownership.of(selection.user_paths)))


def cards_of(recording: Recording, selection: Selection) -> tuple[BreakCard, ...]:
    """Return the graph breaks by place and cause."""
    own, covered = Ownership.of(selection.user_paths), coverage_of(recording, selection)
    return selection.once("cards", lambda: break_cards(recording, own, covered))


def reports_of(recording: Recording, selection: Selection) -> tuple[RecompileReport, ...]:
    """Return the recompiles by function."""
    return selection.once(
        "reports",
        lambda: recompile_reports(recording, coverage_of(recording, selection), Ownership.of(selection.user_paths)),
    )


def summary_of(recording: Recording, selection: Selection) -> Summary:
    """Return what the first screen says."""

    def made() -> Summary:
        covered, cards = coverage_of(recording, selection), cards_of(recording, selection)
        reports = reports_of(recording, selection)
        found = findings(recording, covered, cards, reports, Ownership.of(selection.user_paths))
        return summarize(recording, Explanation(covered, cards, reports, found))

    return selection.once("summary", made)


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
    from compiler_lens.facts.overview.source_view import source_view  # the first screen does without

    own, explained = Ownership.of(selection.user_paths), summary_of(recording, selection)
    return selection.once("files", lambda: source_view(recording, own, explained))
