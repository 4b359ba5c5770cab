"""What is left to mend once the best change is made: what is known of it, and what became of the offers for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.measured.fix import Fix, NotTried, Observed, Offer, Target, Trial, as_it_was
from compiler_lens.facts.overview.evidence import FrameFailed
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Results, SourceLine
from compiler_lens.recording.own_files import slashed

_LINE = re.compile(r"(\bline |\.py:)(\d{1,9})")  # in what is said of recompiles


class Came(Enum):
    """What came of an offer that ended nothing."""

    RAISES = "raises"
    DIFFERS = "differs"  # results do
    STAYS = "stays"  # what it is for is still there
    NO_GAIN = "no_gain"  # what it is for is gone, and no more compiles
    IS_LEFT_OUT = "is_left_out"  # it helps by itself, and not beside the others


class Left(Struct, frozen=True):
    """Something that is still to be mended."""

    target: Target  # in the file as it is without any change
    finding: Finding | None = None  # what the recording of the best trial says of it
    cause: RecompileCause | None = None  # of recompiles, this one
    not_tried: NotTried | None = None  # why no edit was tried
    offers: tuple[tuple[Offer, Came], ...] = ()  # those that were tried for it


def what_is_left(fix: Fix) -> tuple[Left, ...]:
    """Return what breaks, fails or is compiled again with the best change; without one, in the program as it is."""
    last = fix.best.observed if fix.best else fix.first
    found: dict[tuple[object, ...], Left] = {}
    for target in dict.fromkeys((*last.targets, *(one.target for one in fix.not_tried))):
        at = fix.as_it_was(target.at)
        finding, cause = _as_it_was(*_known(target, last.findings), fix)
        why = next((one for one in fix.not_tried if (one.target.at, one.target.kind) == (at, target.kind)), None)
        this = Left(replace(target, at=at), finding, cause, why, _offers(target, fix))
        found.setdefault((at and at.place, target.kind), this)
    return tuple(found.values())


def _known(target: Target, findings: Sequence[Finding]) -> tuple[Finding | None, RecompileCause | None]:
    for finding in findings:
        evidence = finding.evidence
        if isinstance(evidence, RecompileReport):
            for cause in evidence.causes:
                if (cause.line, cause.cause.value) == (target.at, target.kind):
                    return finding, cause
        elif _is_about(evidence, target):
            return finding, None
    return None, None


def _as_it_was(
    finding: Finding | None, cause: RecompileCause | None, fix: Fix
) -> tuple[Finding | None, RecompileCause | None]:
    """Return what is known of a line with the lines that the user's file has, not the copy with the changes."""
    if finding and isinstance(card := finding.evidence, BreakCard):
        place, computed = fix.as_it_was(card.place), fix.as_it_was(card.computed)
        taken = tuple(as_it_was(at, fix.texts) for at in card.taken)
        finding = replace(finding, evidence=replace(card, place=place, computed=computed, taken=taken))
    if finding and isinstance(report := finding.evidence, RecompileReport):
        also = tuple((name, fix.as_it_was(at)) for name, at in report.also)
        finding = replace(finding, evidence=replace(report, also=also))
    if cause and cause.line:
        subject, change = (_renumbered(text, cause.line.file, fix) for text in (cause.subject, cause.fix.change))
        cause = replace(cause, subject=subject, fix=replace(cause.fix, change=change))
    return finding, cause


def _renumbered(text: str, file: str, fix: Fix) -> str:
    if not fix.best or file not in fix.changed:
        return text
    after, name = fix.best.texts[file].split("\n"), slashed(file).rpartition("/")[2]

    def numbered(found: re.Match[str]) -> str:
        number, is_here = int(found[2]), found[1] == "line " or text[: found.end(1) - 1].endswith(name)
        if not is_here or not 0 < number <= len(after):
            return found[0]
        known = fix.as_it_was(SourceLine(file, number, code=after[number - 1]))
        return f"{found[1]}{known.line if known else number}"

    return _LINE.sub(numbered, text)


def _is_about(evidence: object, target: Target) -> bool:
    match evidence:
        case BreakCard(place=place, cause=cause):
            return (place, cause.gb_type) == (target.at, target.kind)
        case FrameFailed(failed=failed) if failed.failure:
            return (failed.failure_line, failed.failure.gb_type) == (target.at, target.kind)
    return False


def _offers(target: Target, fix: Fix) -> tuple[tuple[Offer, Came], ...]:
    """Return the offers for a target, each with the first thing that came of it."""
    best = fix.best.offers if fix.best else ()
    found: dict[object, tuple[Offer, Came]] = {}
    for trial in sorted(fix.tried, key=lambda one: one.new):
        is_clear = trial.new == 1 or not (trial.observed.error or trial.observed.results is Results.DIFFER)
        for offer in trial.last if is_clear else ():
            if offer.target.key == target.key:
                found.setdefault(offer.edit, (offer, _came(trial, target, fix.first, is_made=offer in best)))
    return tuple(found.values())


def _came(trial: Trial, target: Target, first: Observed, *, is_made: bool) -> Came:
    seen = trial.observed
    if seen.error:
        return Came.RAISES
    if seen.results is Results.DIFFER:
        return Came.DIFFERS
    if is_made or target.key in seen.broken:
        return Came.STAYS
    compiles_more = trial.helps and seen.cost < first.cost and seen.figures != first.figures
    return Came.IS_LEFT_OUT if compiles_more else Came.NO_GAIN
