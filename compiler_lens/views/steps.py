"""What to do: the steps that the first screen ends with, those that a page begins with, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.ranks import Offered
from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.all_clear import Against, against
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.overview.findings import Finding, Severity
from compiler_lens.facts.overview.unintended import Unintended
from compiler_lens.facts.program.coverage import Function, FunctionName
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.advice import Advice, advice, hinted, tried_sentence
from compiler_lens.views.document import line, paragraph
from compiler_lens.views.doubts import contradicted
from compiler_lens.views.parts import Parts, Span, Tone, ToView, code, quiet, strong
from compiler_lens.views.text import one_line, plural, seconds

_MOST = 3  # steps of the first screen
_LINES = 4  # of a suggestion's code
# What the first makes of `.item()`, the second cannot print: together they break the graph anew (GB0296).
_APART = {"capture_scalar_outputs", "reorderable_logging_functions"}
_TORCHS = quiet("torch's hint: ")
_PROFILE = "compiler-lens profile FILE:FACTORY"
_FACTORY = "FACTORY is a function in FILE: def make(): return model, (x,)"
NOTHING_READ = paragraph("No finding, as far as the recording could be read: record again.", indent=2, tone=Tone.WARN)
_TONES = {Severity.HIGH: Tone.BAD, Severity.MEDIUM: Tone.WARN, Severity.LOW: Tone.PLAIN, Severity.INFO: Tone.QUIET}


class About(Struct, frozen=True):
    """What a kind of finding is about."""

    kind: str  # for programs: it stays the same
    words: str  # in a page, where its subject does not say it
    view: str  # with the evidence


ABOUT: Mapping[type, About] = {
    BreakCard: About("graph-break", "graph break", "breaks"),
    RecompileReport: About("recompiles", "recompiles", "recompiles"),
    seen.FrameFailed: About("frame-failed", "", "frames"),
    seen.StanceTaken: About("stance-taken", "stance", "eager"),
    seen.NeverCalled: About("never-called", "", "eager"),
    seen.HookAfterCompile: About("hook-after-compile", "", "guards"),
    seen.FailureSuppressed: About("failure-suppressed", "", "frames"),
    seen.HoldsNothing: About("wrapper-holds-nothing", "", "frames"),
    seen.MarkedAway: About("all-disabled", "", "frames"),
    Function: About("function-eager", "", "frames"),
    seen.CudagraphsSkipped: About("cudagraphs-skipped", "CUDA graphs", "cudagraphs"),
    seen.CacheBypassed: About("cache-bypassed", "caches", "caches"),
    seen.CachedUnder: About("cached-under-other-settings", "caches", "caches"),
    seen.TinyGraphs: About("tiny-graphs", "", "graphs"),
    seen.PhaseDominates: About("phase-dominates", "compile time", "times"),
    seen.DeviceIdle: About("device-idle", "profile", "profile"),
    seen.DisabledOnPurpose: About("disabled-on-purpose", "", "frames"),
    seen.Unfinished: About("frame-unfinished", "", "frames"),
    Unintended: About("unintended", "probably not meant", "graphs"),
    seen.NothingSeen: About("nothing-compiled", "", "environment"),
}


def severity(finding: Finding) -> Span:
    """Return how much a finding matters, and what it costs."""
    cost = f", {seconds(finding.seconds)} {words.BASES[finding.basis]}" if finding.seconds else ""
    return Span(f"{words.SEVERITIES[finding.severity]}{cost}", _TONES[finding.severity])


def beside(told: Advice, settings: set[str]) -> Advice:
    """Return advice without a setting that does not go with one given before; `settings` grows by what is given."""
    name = told.setting.partition(" ")[0].rpartition(".")[2]
    if name in _APART and settings & (_APART - {name}):
        return replace(told, setting="", hints=tuple(hint for hint in told.hints if not hint.is_setting))
    settings.add(name)
    return told


def hints_of(told: Advice, said: set[str]) -> tuple[Parts, ...]:
    """Return torch's hints on a finding; of those that were said above that alone. `said` grows by what is said."""
    if not told.hints:
        return ()
    new = [hint for hint in told.hints if hint.text not in said]
    said.update(hint.text for hint in new)
    again = () if len(new) == len(told.hints) else (" As above." if new else "as above.",)
    return ((_TORCHS, *hinted(new), *again),)


def body(told: Advice, indent: int, said: set[str] | None = None, *, change: bool = True) -> list[doc.Block]:
    """Return what a finding says on a terminal, torch's hints that are `said` above shortly; and what to do."""
    blocks: list[doc.Block] = []
    if told.code:
        blocks.append(paragraph(*told.subject, "  ", code(told.code), indent=indent, limit=2))
        blocks.append(paragraph(told.what, indent=indent, limit=3))
    else:
        blocks.append(paragraph(*told.subject, f" {told.what}", indent=indent, limit=4))
    if not change:
        return blocks
    if told.leads:
        blocks.append(paragraph(_other(told.leads, told), indent=indent, tone=Tone.DO, limit=4))
    blocks += [paragraph(*parts, indent=indent, limit=5) for parts in hints_of(told, set() if said is None else said)]
    if told.change:
        rank = () if told.instead or not told.offers else (quiet(f" {told.first}"),)
        blocks.append(paragraph(told.change, *rank, indent=indent, tone=Tone.DO, limit=6))
    if told.instead:
        blocks.append(doc.Change(after=told.instead[:_LINES], indent=indent + 2))
    if len(told.instead) > _LINES:
        blocks.append(line(quiet("…"), indent=indent + 2))
    if told.instead and told.offers:
        blocks.append(paragraph(told.first, indent=indent, tone=Tone.QUIET, limit=4))
    if told.setting and not told.is_hinted:
        blocks.append(paragraph(quiet("or set "), code(told.setting), indent=indent, limit=3))
    blocks += [paragraph(_other(offer, told), indent=indent, tone=Tone.QUIET, limit=3) for offer in told.others]
    if told.after:
        blocks.append(paragraph(told.after, indent=indent, tone=Tone.QUIET, limit=4))
    return blocks


def _other(offer: Offered, told: Advice) -> str:
    """What another offer did; what it is, where that does not stand right above."""
    is_above = offer.change == told.setting and not told.is_hinted
    code = "" if is_above else f"`{one_line(offer.change, 100).rstrip(':')}`: "
    return f"{code}{tried_sentence(offer.tried) if offer.tried else ''}"


def next_steps(recording: Recording, summary: Summary, hints: int) -> doc.Section:
    """Return what to do next, the one to three things that cost most; the first `hints` come with what to change."""
    worth = [finding for finding in summary.findings if not finding.benign]
    if not worth:
        return doc.Section("Next", nothing_to_fix(recording, summary))
    steps = []
    given: set[str] = set()
    settings: set[str] = set()
    said: set[str] = set()
    for i, finding in enumerate(_of_each_owner(worth)[:_MOST], 1):
        told = beside(advice(finding), settings)
        if told.change in given:  # said once, it need not be said for each line
            told = replace(told, change="", setting="", offers=told.offers if told.instead else ())
        steps.append(doc.Step(tuple(body(told, 5, said, change=i <= hints)), _TONES[finding.severity]))
        given.add(told.change)
    hidden = len(worth) - len(steps)
    more = doc.Command("All details: ", ABOUT[type(worth[0].evidence)].view)
    if hidden > 0:
        more = doc.Command(f"{plural(hidden, 'more finding')}: ", "findings")
    return doc.Section(
        "Next", (doc.Steps(tuple(steps)), *(_trying(recording, worth[:_MOST]) if hints > 1 else ()), more)
    )


def _trying(recording: Recording, shown: Sequence[Finding]) -> tuple[doc.Block, ...]:
    """Return how to have it tried, where some of it is code and has not been."""
    offers = [offer for finding in shown for offer in advice(finding).offers]
    argv = recording.environment.argv
    if not argv or not argv[0].endswith(".py") or not any(offer.can_be_tried for offer in offers):
        return ()
    script = f"{argv[0].rpartition('/')[2]}{' …' if argv[1:] else ''}"
    return (doc.Command("Try these on a copy, and compare results: ", script, verb="fix --beside"),)


def _of_each_owner(found: Sequence[Finding]) -> list[Finding]:
    """Return findings without those that ask of the same wrapper what one before them does."""
    apart: dict[object, Finding] = {}
    for finding in found:
        apart.setdefault(finding.owner.change or id(finding), finding)
    return list(apart.values())


def all_clear(recording: Recording, summary: Summary) -> doc.Block:
    """Return "nothing to fix", or what there is all the same, where no finding asks for anything."""
    doubts = against(recording, summary)
    if not doubts:
        told = f": {words.ALL_CLEAR} {words.NOT_SEEN}" if recording.sites else f": {words.ALL_CLEAR}"
        return paragraph(Span("Nothing to fix", Tone.GOOD), told, indent=2)
    if recording.damage:
        return NOTHING_READ
    if unfinished := sum(isinstance(finding.evidence, seen.Unfinished) for finding in summary.findings):
        ends = f"The recording ends while {plural(unfinished, 'frame')} was being compiled: record again to the end."
        return line(ends, indent=2)
    return but_there_is(doubts, indent=2)


def but_there_is(doubts: Sequence[Against], *, indent: int = 0) -> doc.Block:
    """Return what contradicts "nothing to fix", in place of that."""
    told = [part for doubt in doubts for part in ("; ", *contradicted(doubt))]
    return paragraph("Nothing must be changed, but there is: ", *told[1:], ".", indent=indent, tone=Tone.WARN)


def nothing_to_fix(recording: Recording, summary: Summary) -> tuple[doc.Block, ...]:
    """Return what is said where no finding asks for anything, and where to look closer."""
    said = all_clear(recording, summary)
    if said is NOTHING_READ:
        return (said,)
    if not recording.kernels:
        return said, doc.Command("Look closer: ", "graphs")
    lines = doc.Command("The kernels of your lines: ", "line")
    if recording.profiles:
        return said, doc.Command("What each kernel takes: ", "profile"), lines
    typed = line(quiet("What each kernel takes: "), strong(_PROFILE), indent=2, whole=True)
    return said, typed, line(quiet(_FACTORY), indent=4), lines


# -- of a page


def page_steps(recording: Recording, summary: Summary) -> tuple[doc.Block, ...]:
    """Return every finding with what to write instead of what, and where its evidence is."""
    cards = {(card.place, card.gb_type): number for number, card in enumerate(summary.cards, 1)}
    reports = {report.function: number for number, report in enumerate(summary.recompiles, 1)}
    steps, benign = [], []
    given: set[str] = set()
    said: set[str] = set()
    for finding in summary.findings:
        told = advice(finding)
        more = _more(finding, cards, reports)
        if finding.benign:
            change = (paragraph(told.change, tone=Tone.QUIET),) if told.change else ()
            benign.append(doc.Step((paragraph(*told.subject, f" {told.what} ", more), *change), Tone.QUIET))
        else:
            steps.append(_to_do(finding, told, more, said, is_again=told.change in given))
        given.add(told.change)
    blocks: list[doc.Block] = [doc.Section("What to do first", (doc.Steps(tuple(steps)),))] if steps else []
    if not steps:
        blocks.append(nothing_to_fix(recording, summary)[0])
    if benign:
        known = f"{plural(len(benign), 'thing')} to know, nothing to fix"
        blocks.append(doc.Aside(known, (doc.Steps(tuple(benign), is_counted=False),)))
    return tuple(blocks)


def _to_do(finding: Finding, told: Advice, more: ToView, said: set[str], *, is_again: bool) -> doc.Step:
    about = ABOUT[type(finding.evidence)].words
    chip = (strong(about), " · ") if about else ()
    blocks: list[doc.Block] = [doc.Line(told.subject, note=(*chip, severity(finding).text))]
    if told.leads:
        blocks.append(paragraph(_other(told.leads, told), tone=Tone.DO))
    blocks += [paragraph(*parts) for parts in hints_of(told, said)]
    if told.change:
        blocks.append(paragraph(told.change, tone=Tone.QUIET if is_again else Tone.DO))
    evidence = finding.evidence.card if isinstance(finding.evidence, seen.FrameFailed) else finding.evidence
    before: tuple[str, ...] = (told.code,) if told.code else ()
    if isinstance(evidence, BreakCard) and evidence.rewrite:
        before = evidence.rewrite.before
    if told.instead:
        blocks.append(doc.Change(before, told.instead))
    elif before:
        blocks.append(doc.Listing("\n".join(before)))
    if told.offers:
        blocks.append(paragraph(told.first, tone=Tone.QUIET))
    if told.setting and not told.is_hinted:
        blocks.append(paragraph("or set ", code(told.setting), tone=Tone.QUIET))
    blocks += [paragraph(_other(offer, told), tone=Tone.QUIET) for offer in told.others]
    if told.after:
        blocks.append(paragraph(told.after, tone=Tone.QUIET))
    if told.what:
        blocks.append(paragraph(f"{told.what} ", more, tone=Tone.QUIET))
    return doc.Step(tuple(blocks), _TONES[finding.severity])


def _more(
    finding: Finding, cards: Mapping[tuple[SourceLine | None, str], int], reports: Mapping[FunctionName, int]
) -> ToView:
    evidence = finding.evidence
    if isinstance(evidence, seen.FrameFailed) and evidence.card:
        evidence = evidence.card
    view = ABOUT[type(evidence)].view.replace("profile", "kernels")  # in a page the figures stand there
    if isinstance(evidence, BreakCard):
        return ToView("more", view, cards[evidence.place, evidence.gb_type])
    if isinstance(evidence, RecompileReport):
        return ToView("more", view, reports[evidence.function])
    return ToView("more", view)
