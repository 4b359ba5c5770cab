"""Everything that a recording means, as one value: what the console, the page and JSON show; and for one screen."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.kernels.kernels import KernelGroup, kernel_groups, view_nodes
from compiler_lens.facts.overview.findings import Finding, findings
from compiler_lens.facts.program.compilations import CompilationRow, compilation_rows
from compiler_lens.facts.program.coverage import Coverage, coverage
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.facts.recompiles.reports import RecompileReport, recompile_reports
from compiler_lens.facts.time.caches import CacheCounts, cache_counts
from compiler_lens.facts.time.phases import PhaseSeconds, phase_times
from compiler_lens.recording.model import Recording


class Explanation(Struct, frozen=True):
    """What was compiled and what was not, why, and what to change."""

    coverage: Coverage
    cards: tuple[BreakCard, ...]  # graph breaks, by place in the user's code and root cause; the costliest first
    recompiles: tuple[RecompileReport, ...]  # one for each function that was recompiled
    findings: tuple[Finding, ...]  # all of it ranked; above INFO there is something to fix

    def __repr__(self) -> str:
        """What it has, by the names of its parts, and not all of it."""
        parts = {"coverage.functions": self.coverage.functions, "cards": self.cards}
        parts |= {"recompiles": self.recompiles, "findings": self.findings}
        return f"<Explanation {', '.join(f'{name}: {len(part):,}' for name, part in parts.items())}>"


def explain(recording: Recording, *, user_paths: UserPaths = ()) -> Explanation:
    """Return what a recording means, computed from it alone.

        explanation = compiler_lens.explain(compiler_lens.load("run.clens"))
        for card in explanation.cards:
            print(card.place.file, card.place.line, card.cause.gb_type, len(card.events))

    Args:
        recording: a loaded one, or `lens.recording`.
        user_paths: files, folders or packages to count as the user's own, where breaks are placed: by default all
            that is not installed. `user_paths=["transformers"]` places breaks inside of that library.
    """
    own = Ownership.of(user_paths)
    covered = coverage(recording, own)
    cards = break_cards(recording, own, covered)
    reports = recompile_reports(recording, covered, own)
    return Explanation(covered, cards, reports, findings(recording, covered, cards, reports, own))


class Summary(Explanation, frozen=True):
    """What a recording means, and all else that one screen says of it."""

    rows: tuple[CompilationRow, ...]
    kernels: tuple[KernelGroup, ...]
    phases: PhaseSeconds
    caches: CacheCounts
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
        explained.coverage,
        explained.cards,
        explained.recompiles,
        explained.findings,
        rows=compilation_rows(recording),
        kernels=kernel_groups(recording.kernels, view_nodes(recording.graphs)),
        phases=phase_times(recording.spans),
        caches=cache_counts(recording),
        modes=tuple(mode for mode, _ in Counter(c.mode for c in told).most_common()),
        options=tuple(sorted({item for c in recording.compilations for item in c.options.items()})),
    )
