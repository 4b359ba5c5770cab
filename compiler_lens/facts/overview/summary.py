"""What one screen says about a recording, in one value."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.kernels.kernels import KernelGroup, kernel_groups, view_nodes
from compiler_lens.facts.overview.explanation import Explanation, explain
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.compilations import CompilationRow, compilation_rows
from compiler_lens.facts.program.coverage import Coverage
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.time.caches import CacheSummary, cache_summary
from compiler_lens.facts.time.phases import PhaseTimes, phase_times
from compiler_lens.recording.model import Recording


class Summary(Struct, frozen=True):
    """Everything that the one-screen report shows."""

    coverage: Coverage
    cards: tuple[BreakCard, ...]
    reports: tuple[RecompileReport, ...]
    rows: tuple[CompilationRow, ...]
    kernels: tuple[KernelGroup, ...]
    phases: PhaseTimes
    caches: CacheSummary
    findings: tuple[Finding, ...]
    modes: tuple[str, ...]  # every mode in use, the most frequent first
    options: tuple[tuple[str, str], ...]  # every option given to any compilation

    @property
    def graphs(self) -> int:
        """How many graphs were compiled."""
        return sum(row.graphs for row in self.rows)

    @property
    def seconds(self) -> float | None:
        """Compile seconds in all: from torch's timed events, or without them the sum over compilations."""
        known = [row.seconds for row in self.rows if row.seconds is not None]
        if self.phases.timed:
            return self.phases.total
        return sum(known) if known else None


def summarize(recording: Recording, explained: Explanation | None = None) -> Summary:
    """Draw a recording together for one screen. `explained` is what it means, if that is known."""
    explained = explained or explain(recording)
    # A log that we did not write knows no backend, and so no mode either: "default" would be made up there.
    told = [c for c in recording.compilations if c.backend or c.mode != "default"]
    return Summary(
        coverage=explained.coverage,
        cards=explained.cards,
        reports=explained.recompiles,
        rows=compilation_rows(recording),
        kernels=kernel_groups(recording.kernels, view_nodes(recording.graphs)),
        phases=phase_times(recording.spans),
        caches=cache_summary(recording),
        findings=explained.findings,
        modes=tuple(mode for mode, _ in Counter(c.mode for c in told).most_common()),
        options=tuple(sorted({item for c in recording.compilations for item in c.options.items()})),
    )
