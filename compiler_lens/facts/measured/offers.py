"""What a recording offers to change so that more of the program compiles, as edits that can be tried."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler_lens.facts.breaks.cards import specific_hints
from compiler_lens.facts.breaks.remedies import Remedy, Rewrite, Setting, remedy_for
from compiler_lens.facts.breaks.rewrites import rewrite, shown_at
from compiler_lens.facts.measured import edits
from compiler_lens.facts.measured.fix import NotTried, NotTriedBecause, Observed, Offer, Target
from compiler_lens.facts.measured.what_if import count
from compiler_lens.facts.overview.explanation import Explanation, explain
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.reports import RecompileCause
from compiler_lens.recording.model import BreakCause, Figures, Outcome, Recording, SourceLine
from compiler_lens.recording.source_text import sources

_NOT_COMPILED = (Treatment.EAGER, Treatment.PARTLY_EAGER, Treatment.LIMIT, Treatment.FAILED)
_NAMED_SETTING = re.compile(r"`(torch\._dynamo\.config\.\w+ = [^`]+)`")
_IMPORT = "`import torch`"  # among what a rewrite needs


def observed(recording: Recording, own: Ownership) -> Observed:
    """Return what a recording says of a run, and what it offers."""
    explained = explain(recording, user_paths=own.paths)
    figures = Figures(
        len(recording.graph_breaks),
        len(recording.recompiles),
        sum(
            function.treatment in _NOT_COMPILED and not function.generator for function in explained.coverage.functions
        ),
    )
    found = list(_offered(recording, explained, own))
    offers: dict[edits.Edit, Offer] = {}  # one edit may be for several breaks
    for one in found:
        if isinstance(one, Offer):
            offers.setdefault(one.edit, one)
    others = tuple(dict.fromkeys(one for one in found if isinstance(one, NotTried)))
    broken = frozenset(one.target.key for one in found)
    every = explained.findings
    return Observed(figures, count(recording), tuple(offers.values()), others, broken, findings=every)


def _offered(recording: Recording, explained: Explanation, own: Ownership) -> Iterator[Offer | NotTried]:
    known = sources(recording)
    for card in explained.cards:
        if not card.disabled:
            target = Target(card.place, card.gb_type)
            yield from _of_break(target, card.cause, card.remedy, card.setting, card.rewrite, is_own=card.own)
    for compilation in recording.compilations:
        at, cause = compilation.failure_line, compilation.failure
        if compilation.outcome is Outcome.FAILED and at and cause:
            remedy, is_own = remedy_for(cause, shown_at(known, at)), own.owns(at.file)
            found = rewrite(cause, known, at) if is_own else None
            setting = remedy.setting if remedy else None
            yield from _of_break(Target(at, cause.gb_type), cause, remedy, setting, found, is_own=is_own)
    for report in explained.recompiles:
        for changed in report.causes if not report.benign else ():
            yield from _of_recompile(changed)


def _of_break(  # noqa: PLR0913 -- what is known of a break
    target: Target,
    cause: BreakCause,
    remedy: Remedy | None,
    setting: Setting | None,
    found: Rewrite | None,
    *,
    is_own: bool,
) -> Iterator[Offer | NotTried]:
    """Give the rewrite of the line and the setting; if there is neither, why not."""
    at = target.at
    if found and found.is_complete and at and is_own:
        yield Offer(target, _lines(at, found), found.needs)
    if setting:
        yield Offer(target, edits.Setting(f"{setting.name} = {setting.value}"), setting.price)
    elif not (found and found.is_complete and is_own):
        reason = NotTriedBecause.SKETCH if found and is_own else NotTriedBecause.NO_EDIT
        change = remedy.change if remedy else next(iter(specific_hints(cause)), "")
        yield NotTried(target, change, reason if is_own else NotTriedBecause.NOT_OWN)


def _lines(at: SourceLine, found: Rewrite) -> edits.Lines:
    return edits.Lines(at.file, at.line, found.before, found.after, imports_torch=_IMPORT in found.needs)


def _of_recompile(cause: RecompileCause) -> Iterator[Offer | NotTried]:
    if cause.benign:
        return
    target = Target(cause.line, cause.cause.value)
    named = _NAMED_SETTING.findall(cause.fix.change)
    for code in named:
        yield Offer(target, edits.Setting(code), "")
    if not named:
        yield NotTried(target, cause.fix.change, NotTriedBecause.NO_EDIT)
