"""What we say of a program beside what is true of it."""

from __future__ import annotations

import ast
import re
from typing import Any

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.views.advice import advice, spelled
from tests.truth.case import Case
from tests.truth.trial import Trial, compiled, equal


class Verdict(Struct, frozen=True):
    """A row of the table."""

    case: Case
    line: bool  # the first thing to do names the root line
    cause: bool
    offered: str  # "rewrite", "setting", "words"; empty: nothing
    works: bool

    @property
    def score(self) -> tuple[bool, bool, bool, bool]:
        """Return the four columns."""
        return self.line, self.cause, bool(self.offered), self.works


def verdict(case: Case, before: Trial, reference: Any) -> Verdict:
    """Read what we say first of a run, and try what we offer: the results should be those of the reference."""
    first = next((finding for finding in before.explained.findings if not finding.benign), None)
    if first is None or case.truth.kind == "fine":  # a false all-clear, or the right one
        right = first is None and case.truth.kind == "fine"
        return Verdict(case, line=right, cause=right, offered="nothing" if right else "", works=right)
    words = said(first)
    cause = re.search(case.truth.cause, words, re.IGNORECASE) is not None
    right = re.search(case.truth.change, words, re.IGNORECASE) is not None
    harms = bool(case.truth.never) and re.search(case.truth.never, words, re.IGNORECASE) is not None
    card = first.evidence if isinstance(first.evidence, BreakCard) else None
    if card and card.rewrite and card.rewrite.is_complete:
        after = compiled(case.name, applied(case, card.rewrite))
        return Verdict(case, _names(first, case), cause, "rewrite", _works(before, after, reference) and not harms)
    if card and (setting := card.setting):
        config = {setting.name.removeprefix("torch._dynamo.config."): _value(setting.value)}
        after = compiled(case.name, case.source, config)
        harms |= bool(after.error) or not equal(after.results, reference)
        if not right:
            return Verdict(case, _names(first, case), cause, "setting", _works(before, after, reference) and not harms)
    offered = "words" if advice(first).change else ""
    return Verdict(case, _names(first, case), cause, offered, right and not harms)


def said(finding: Finding) -> str:
    """Return all words on a finding: what it is, what to change."""
    told = advice(finding)
    words = [
        spelled(told.subject),
        told.what,
        *(hint.text for hint in told.hints),
        told.change,
        *told.instead,
        told.setting,
    ]
    match finding.evidence:
        case BreakCard() as card:
            words += [card.remedy.leave] if card.remedy else []
        case RecompileReport() as report:
            top = report.causes[0]
            words += [top.cause.value, top.subject, top.fix.why, top.fix.change]
    return "\n".join(words)


def applied(case: Case, rewrite: Rewrite) -> str:
    """Return the program with the rewrite's lines in place of its own."""
    lines, before = case.source.splitlines(), [line.strip() for line in rewrite.before]
    for start in range(len(lines)):
        found = [line.strip() for line in lines[start : start + len(before)]]
        if found == before and start < case.root <= start + len(before):
            indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
            lines[start : start + len(before)] = [f"{indent}{line}" for line in rewrite.after]
            return "\n".join(lines) + "\n"
    return case.source


def _names(finding: Finding, case: Case) -> bool:
    evidence = finding.evidence
    at = evidence.causes[0].line if isinstance(evidence, RecompileReport) else finding.place
    return at is not None and at.line == case.root


def _works(before: Trial, after: Trial, reference: Any) -> bool:
    return not after.error and equal(after.results, reference) and after.events < before.events


def _value(text: str) -> Any:
    if text.startswith("{"):
        import logging
        import warnings

        known = {"logging": logging, "warnings": warnings, "print": print}
        return eval(text, known)
    return ast.literal_eval(text)
