"""What is left to mend once the best change is made: what is known of it, and what became of the offers for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.raised import failure_of
from compiler_lens.facts.measured.edits import Edit
from compiler_lens.facts.measured.enough import not_worth
from compiler_lens.facts.measured.fix import RECOMPILES, Fix, NotTried, Observed, Offer, Target, Trial, as_it_was
from compiler_lens.facts.overview.evidence import FrameFailed
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Results, SourceLine
from compiler_lens.recording.own_files import slashed

_LINE = re.compile(r"(\bline |\.py:)(\d{1,9})")  # in what is said of recompiles


class Came(Enum):
    """What came of an offer that ended nothing, or is not built upon."""

    RAISES = "raises"
    TAKES_TOO_LONG = "takes_too_long"  # it was ended
    RAISES_IN_BACKEND = "raises_in_backend"  # past Dynamo: AOTAutograd, or the program's own backend
    RAISES_WITHOUT = "raises_without_compile"
    RAISES_WITH_OTHERS = "raises_with_other_inputs"
    DIFFERS = "differs"  # results do
    PRINTS_OTHERS = "prints_others"  # the program prints other words
    ONE_SIDED = "one_sided"  # its test went one way only, so it was not compared
    NOT_COMPARED = "not_compared"  # results could not be
    STAYS = "stays"  # what it is for is still there
    TAKES_TOO_MUCH = "takes_too_much"  # out of graphs
    RUNS_LESS = "runs_less"  # in graphs
    ENDS_TOO_LITTLE = "ends_too_little"  # for a function that then stays Python for good
    MORE_OF_ELSE = "more_of_else"  # there are fewer graph breaks or recompiles, and more of something else that hurts
    HITS_LIMIT = "hits_limit"  # of recompiles, in a function that did not
    ENDS_EXPECTED = "ends_expected"  # there are fewer recompiles, and all of these were as expected
    NO_GAIN = "no_gain"  # what it is for is gone, and no more compiles
    IS_NEEDLESS = "is_needless"  # beside others; without it as much compiles
    HELPS_BESIDE = "helps_beside"  # others, with which alone it was run, and the best is without it
    IS_LEFT_OUT = "is_left_out"  # it helps by itself, and not beside the others


class TriedFor(Struct, frozen=True):
    """An offer that was tried for something that is left."""

    offer: Offer
    came: Came
    trial: Trial  # which shows it
    before: Observed  # without what is new in that
    error: str = ""  # what is raised


class Left(Struct, frozen=True):
    """Something that is still to be mended."""

    target: Target  # in the file as it is without any change
    finding: Finding | None = None  # what the recording of the best trial says of it
    cause: RecompileCause | None = None  # of recompiles, this one
    not_tried: NotTried | None = None  # why no edit was tried
    offers: tuple[TriedFor, ...] = ()  # those that were tried for it
    is_written: bool = False  # by the changes: the line is none of the user's


def what_is_left(fix: Fix) -> tuple[Left, ...]:
    """Return what breaks, fails or is compiled again with the best change; without one, in the program as it is."""
    last = fix.best.observed if fix.best else fix.first
    found: dict[tuple[object, ...], Left] = {}
    for target in dict.fromkeys((*last.targets, *(one.target for one in fix.not_tried))):
        at = fix.as_it_was(target.at)
        finding, cause = _as_it_was(*_known(target, last.findings), fix)
        why = next((one for one in fix.not_tried if (one.target.at, one.target.kind) == (at, target.kind)), None)
        this = Left(replace(target, at=at), finding, cause, why, _offers(target, fix), _is_written(target, fix))
        found.setdefault((at and at.place, target.kind), this)
    return tuple(found.values())


def behind(fix: Fix) -> tuple[SourceLine, ...]:
    """Return the lines at which graphs broke in trials that came past what is left now: there they break next."""
    last = fix.best.observed if fix.best else fix.first
    made = {one.target.at for one in fix.best.offers} if fix.best else set()
    known = {fix.as_it_was(one.at) for one in (*last.targets, *fix.first.targets)} | set(map(fix.as_it_was, made))
    written = {(file, line.strip()) for file, text in fix.texts.items() for line in text.split("\n")}
    trials = (one.observed for one in fix.tried if not one.observed.error)
    targets = (target for seen in trials if seen.results is not Results.DIFFER for target in seen.targets)
    broken = {fix.as_it_was(one.at) for one in targets if one.kind not in RECOMPILES} - known
    found = {at.place: at for at in broken if at and (at.file, at.code.strip()) in written - last.computed}
    return tuple(sorted(found.values(), key=lambda one: (one.file, one.line)))


def _is_written(target: Target, fix: Fix) -> bool:
    """Return whether a change has written the line: it is in the file with the changes, and not in the user's."""
    at, after = target.at, fix.best.texts if fix.best else {}
    if at is None or at.file not in fix.changed:
        return False
    was, now = ({one.strip() for one in texts[at.file].split("\n")} for texts in (fix.texts, after))
    return at.code.strip() in now - was


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
        case FrameFailed(failed=failed) if failure := failure_of(failed):
            return (failed.failure_line, failure.gb_type) == (target.at, target.kind)
    return False


def _offers(target: Target, fix: Fix) -> tuple[TriedFor, ...]:
    """Return the offers for a target, each with the first thing that came of it."""
    found: dict[Edit, TriedFor] = {}
    for trial in sorted(fix.tried, key=lambda one: one.new):
        is_clear = trial.new == 1 or not (trial.observed.error or trial.observed.results is Results.DIFFER)
        for offer in trial.last if is_clear else ():
            if offer.target.key == target.key and offer.edit not in found:
                found[offer.edit] = _tried(offer, trial, fix)
    return tuple(found.values())


def not_built_upon(fix: Fix) -> tuple[TriedFor, ...]:
    """Return what left fewer graph breaks or recompiles, computed the same, and is refused for something else."""
    known = (Came.TAKES_TOO_MUCH, Came.RUNS_LESS, Came.ENDS_TOO_LITTLE, Came.MORE_OF_ELSE, Came.HITS_LIMIT)
    found: list[TriedFor] = []
    for trial in sorted(fix.tried, key=lambda one: (one.observed.whole_cost, len(one.offers))):
        before = _before(trial, fix)
        is_needless = any(set(one.trial.offers) <= set(trial.offers) for one in found)  # these do as well
        is_limited = not trial.observed.at_limit <= fix.first.at_limit
        stands = trial.helps and not is_limited
        if not (stands or is_needless or _refused(trial.observed)[0]) and _is_less(trial.observed, before):
            came = Came.HITS_LIMIT if trial.helps else _not_helping(trial, before)
            one = TriedFor(trial.offers[-1], came, trial, before)
            found += [one] if one.came in known else []
    return tuple(found)


def _is_less(seen: Observed, before: Observed) -> bool:
    """Whether there are fewer graph breaks or recompiles than before."""
    now, then = seen.figures, before.figures
    return bool(now and then and (now.graph_breaks < then.graph_breaks or now.recompiles < then.recompiles))


def _tried(offer: Offer, trial: Trial, fix: Fix) -> TriedFor:
    before = _before(trial, fix)
    refused, error = _refused(trial.observed)
    came = refused or _came(offer, trial, before, fix)
    if came is Came.RAISES_IN_BACKEND:
        error = error or _of_backend(fix)
    return TriedFor(offer, came, trial, before, error)


def _before(trial: Trial, fix: Fix) -> Observed:
    """Return what the program showed without what is new in a trial."""
    others = trial.offers[: -trial.new]
    return next((one.observed for one in fix.tried if one.offers == others), fix.first)


def _refused(seen: Observed) -> tuple[Came | None, str]:  # noqa: PLR0911 -- one for each thing that may
    """Return what speaks against a change, as the run showed it, and what that raised."""
    found = seen.difference
    if seen.error:
        return (Came.TAKES_TOO_LONG if seen.took_too_long else Came.RAISES), seen.error
    if seen.results is not Results.DIFFER:
        return None, ""
    if found and found.in_backend:
        return Came.RAISES_IN_BACKEND, found.in_backend
    if found and found.without:
        return Came.RAISES_WITHOUT, found.without
    if seen.refuted_by and seen.refuted_by.error:
        return Came.RAISES_WITH_OTHERS, seen.refuted_by.error
    if seen.is_one_sided and not seen.refuted_by:
        return Came.ONE_SIDED, ""
    return (Came.PRINTS_OTHERS if seen.printed and not (found or seen.refuted_by) else Came.DIFFERS), ""


def _of_backend(fix: Fix) -> str:
    """Return what the program's own backend raised for settings that give unknown numbers: with it, all are refused."""
    others = (one for one in fix.tried if one.gives_unknown)
    raised = (one.observed.difference.in_backend for one in others if one.observed.difference)
    return next(filter(None, raised), "")


def _came(offer: Offer, trial: Trial, before: Observed, fix: Fix) -> Came:
    """Return what came of an offer that nothing of its run speaks against."""
    seen, best = trial.observed, fix.best
    if offer.target.key in seen.broken or (best and offer in best.offers):
        return Came.STAYS
    if not trial.helps:
        return _not_helping(trial, before)
    if not seen.at_limit <= fix.first.at_limit:
        return Came.HITS_LIMIT
    if not (seen.cost < fix.first.cost and seen.figures != fix.first.figures):
        return Came.NO_GAIN
    if len(trial.offers) == 1:
        return Came.IS_LEFT_OUT
    rest = [one for one in trial.offers if one is not offer]
    is_needless = best and all(one in rest for one in best.offers) and best.observed.whole_cost <= seen.whole_cost
    return Came.IS_NEEDLESS if is_needless else Came.HELPS_BESIDE


def _not_helping(trial: Trial, before: Observed) -> Came:
    seen, is_cheaper = trial.observed, trial.observed.cost < before.cost
    less = _is_less(seen, before)
    if less and not is_cheaper:
        return Came.MORE_OF_ELSE if seen.cost > before.cost else Came.ENDS_EXPECTED
    why = not_worth(trial.last, seen, before) if less or is_cheaper else None
    if why is not None:
        return Came(why.value)
    if is_cheaper and trial.gives_unknown:
        return Came.RAISES_IN_BACKEND  # in the last run: with what was tried there, the others are refused, too
    return Came.NOT_COMPARED if is_cheaper and seen.results is Results.UNKNOWN else Came.NO_GAIN
