"""Everything that a recording means, as one value: what the console, the page and JSON show."""

from __future__ import annotations

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.overview.findings import Finding, findings
from compiler_lens.facts.program.coverage import Coverage, coverage
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.facts.recompiles.reports import RecompileReport, recompile_reports
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
    reports = recompile_reports(recording, covered)
    return Explanation(covered, cards, reports, findings(recording, covered, cards, reports))
