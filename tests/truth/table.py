"""The table in docs/truth.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.truth.verdict import Verdict

PAGE = Path(__file__).parents[2] / "docs" / "truth.md"
_HEAD = "| program | shape of | kind | line named | cause right | offered | works |\n|---|---|---|---|---|---|---|\n"
_BEGIN, _END = "<!-- made by python -m tests.truth -->\n", "<!-- end -->\n"


def row(verdict: Verdict) -> str:
    """Return a program's row."""
    case = verdict.case
    cells = [
        f"[{case.name}](../tests/truth/programs/{case.name}.py)",
        case.issue,
        case.truth.kind,
        _yes(verdict.line),
        _yes(verdict.cause),
        verdict.offered or "no",
        _yes(verdict.works),
    ]
    return f"| {' | '.join(cells)} |"


def made(verdicts: Sequence[Verdict]) -> str:
    """Return the table with its totals."""
    totals = [sum(column) for column in zip(*(verdict.score for verdict in verdicts), strict=True)]
    last = f"| **of {len(verdicts)}** | | | {' | '.join(f'**{total}**' for total in totals)} |"
    return _HEAD + "\n".join([*map(row, verdicts), last]) + "\n"


def write(verdicts: Sequence[Verdict]) -> None:
    """Put the table into its page."""
    text = PAGE.read_text()
    before, after = text[: text.index(_BEGIN) + len(_BEGIN)], text[text.index(_END) :]
    PAGE.write_text(f"{before}\n{made(verdicts)}\n{after}")


def _yes(does: bool) -> str:
    return "yes" if does else "no"
