"""Everything worth knowing, ranked: what it is, what it costs, what to change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import (
    CacheBypassed,
    CudagraphsSkipped,
    DeviceIdle,
    DisabledOnPurpose,
    Evidence,
    FrameFailed,
    NothingSeen,
    PhaseDominates,
    TinyGraphs,
    Unfinished,
)
from compiler_lens.facts.overview.findings import Basis, Finding, Severity
from compiler_lens.facts.overview.shared import summary_of
from compiler_lens.facts.overview.summary import Summary
from compiler_lens.facts.program.coverage import Function, FunctionName, Treatment
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.views import words
from compiler_lens.views.advice import Advice, advice, spelled
from compiler_lens.views.breaks import CardFacts, card_facts
from compiler_lens.views.document import (
    Aside,
    Block,
    Change,
    Command,
    Document,
    Line,
    Listing,
    Section,
    Step,
    Steps,
    line,
    paragraph,
)
from compiler_lens.views.parts import Parts, Span, Tone, ToView, code, quiet, strong
from compiler_lens.views.recompiles import RecompiledFunction, report_facts
from compiler_lens.views.text import plural, seconds

_MOST = 3  # steps of the first screen
_LINES = 4  # of a suggestion's code
# What the first makes of `.item()`, the second cannot print: together they break the graph anew (GB0296).
_APART = {"capture_scalar_outputs", "reorderable_logging_functions"}
_PROFILE = "compiler-lens profile FILE:FACTORY"
_FACTORY = "FACTORY is a function in FILE: def make(): return model, (x,)"
_TONES = {Severity.HIGH: Tone.BAD, Severity.MEDIUM: Tone.WARN, Severity.LOW: Tone.PLAIN, Severity.INFO: Tone.QUIET}


class About(Struct, frozen=True):
    """What a kind of finding is about."""

    kind: str  # for programs: it stays the same
    words: str  # in a page, where its subject does not say it
    view: str  # with the evidence


_ABOUT: Mapping[type, About] = {
    BreakCard: About("graph-break", "graph break", "breaks"),
    RecompileReport: About("recompiles", "recompiles", "recompiles"),
    FrameFailed: About("frame-failed", "", "frames"),
    Function: About("function-eager", "", "frames"),
    CudagraphsSkipped: About("cudagraphs-skipped", "CUDA graphs", "cudagraphs"),
    CacheBypassed: About("cache-bypassed", "caches", "caches"),
    TinyGraphs: About("tiny-graphs", "", "graphs"),
    PhaseDominates: About("phase-dominates", "compile time", "times"),
    DeviceIdle: About("device-idle", "profile", "profile"),
    DisabledOnPurpose: About("disabled-on-purpose", "", "frames"),
    Unfinished: About("frame-unfinished", "", "frames"),
    NothingSeen: About("nothing-compiled", "", "environment"),
}


class AdviceFacts(Struct, frozen=True):
    """What to look at, what happens there, what to change."""

    subject: str
    code: str
    what: str
    change: str
    instead: tuple[str, ...]
    setting: str


class EagerFunction(Struct, frozen=True):
    """A function that is not compiled."""

    function: FunctionName
    treatment: Treatment
    reason: str


class FailedFrame(Struct, frozen=True):
    """A frame that failed to compile."""

    function: FunctionName
    reason: str
    card: CardFacts | None


class UnfinishedFrame(Struct, frozen=True):
    """A frame that was still being compiled."""

    function: FunctionName


class SmallGraphs(Struct, frozen=True):
    """A function that fell into small graphs."""

    function: FunctionName
    graphs: int


EvidenceFacts = (
    CardFacts
    | RecompiledFunction
    | EagerFunction
    | FailedFrame
    | UnfinishedFrame
    | SmallGraphs
    | CudagraphsSkipped
    | CacheBypassed
    | PhaseDominates
    | DeviceIdle
    | DisabledOnPurpose
    | NothingSeen
)


class FindingFacts(Struct, frozen=True):
    """One thing to know, and mostly to do."""

    rule: str  # torch's number of a graph break, or a slug that stays the same
    kind: str
    place: SourceLine | None
    severity: Severity
    seconds: float | None
    basis: Basis
    advice: AdviceFacts
    evidence: EvidenceFacts


class Data(Struct, frozen=True):
    """Everything worth knowing, what costs most first."""

    findings: tuple[FindingFacts, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return all findings with severity, cost and what to change."""
    found = summary_of(recording, selection).findings
    data = Data(finding_facts(found))
    if not found:
        return Document((_nothing("."),), data, count=0)
    worth = sum(not finding.benign for finding in found)
    told = f"{plural(worth, 'thing')} to fix" if worth else "nothing to fix"
    settings: list[str] = []
    blocks = []
    for finding in found:
        heading = line(Span(_severity(finding), _TONES[finding.severity]), indent=2)
        body = _body(_beside(advice(finding), settings), 4)
        blocks.append(Section("", (heading, *body, Command("more: ", view_of(finding), indent=4))))
    return Document((Section("Findings", tuple(blocks), f"{told}, {len(found) - worth:,} to know"),), data, worth)


def finding_facts(found: Iterable[Finding]) -> tuple[FindingFacts, ...]:
    """Return findings for programs."""
    facts = []
    for finding in found:
        told = advice(finding)
        spelt = AdviceFacts(spelled(told.subject), told.code, told.what, told.change, told.instead, told.setting)
        kind = _ABOUT[type(finding.evidence)].kind
        facts.append(
            FindingFacts(
                finding.rule, kind, finding.place, finding.severity, finding.seconds, finding.basis, spelt,
                _evidence(finding.evidence),
            )
        )  # fmt: skip
    return tuple(facts)


def _evidence(evidence: Evidence) -> EvidenceFacts:  # noqa: PLR0911 -- one for each kind
    match evidence:
        case BreakCard():
            return card_facts(evidence)
        case RecompileReport():
            return report_facts(evidence)
        case Function(name=name):
            return EagerFunction(name, evidence.treatment, evidence.reason)
        case FrameFailed(frame, card):
            return FailedFrame(frame.name, frame.reason, card_facts(card) if card else None)
        case Unfinished(frame):
            return UnfinishedFrame(frame.name)
        case TinyGraphs(function, graphs):
            return SmallGraphs(function.name, graphs)
        case _:
            return evidence


def view_of(finding: Finding) -> str:
    """Return the view with the evidence."""
    return _ABOUT[type(finding.evidence)].view


def _severity(finding: Finding) -> str:
    cost = f", {seconds(finding.seconds)} {words.BASES[finding.basis]}" if finding.seconds else ""
    return f"{words.SEVERITIES[finding.severity]}{cost}"


def _beside(told: Advice, settings: list[str]) -> Advice:
    """Without a setting that does not go with one given before; `settings` grows by what is given."""
    name = told.setting.partition(" ")[0].rpartition(".")[2]
    if any({name, before} == _APART for before in settings):
        return replace(told, setting="")
    settings.append(name)
    return told


def _body(told: Advice, indent: int, *, change: bool = True) -> list[Block]:
    blocks: list[Block]
    if told.code:
        blocks = [
            line(*told.subject, "  ", code(told.code), indent=indent), paragraph(told.what, indent=indent, limit=3)
        ]  # fmt: skip
    else:
        blocks = [paragraph(*told.subject, f" {told.what}", indent=indent, limit=4)]
    if not change:
        return blocks
    if told.change:
        blocks.append(paragraph(told.change, indent=indent, tone=Tone.DO, limit=6))
    if told.instead:
        blocks.append(Change(after=told.instead[:_LINES], indent=indent + 2))
    if len(told.instead) > _LINES:
        blocks.append(line(quiet("…"), indent=indent + 2))
    if told.setting:
        blocks.append(line(quiet("or set "), code(told.setting), indent=indent))
    return blocks


# -- of the first screen


def next_steps(recording: Recording, summary: Summary, hints: int) -> Section:
    """Return what to do next, the one to three things that cost most; the first `hints` come with what to change."""
    worth = [finding for finding in summary.findings if not finding.benign]
    if not worth:
        return Section("Next", nothing_to_fix(recording, summary))
    steps = []
    given: set[str] = set()
    settings: list[str] = []
    for i, finding in enumerate(worth[:_MOST], 1):
        told = _beside(advice(finding), settings)
        if told.change in given:  # said once, it need not be said for each line
            told = replace(told, change="", setting="")
        steps.append(Step(tuple(_body(told, 5, change=i <= hints)), _TONES[finding.severity]))
        given.add(told.change)
    hidden = len(worth) - _MOST
    more = Command(f"{plural(hidden, 'more finding')}: ", "findings")
    return Section("Next", (Steps(tuple(steps)), more if hidden > 0 else Command("All details: ", view_of(worth[0]))))


def nothing_to_fix(recording: Recording, summary: Summary) -> tuple[Block, ...]:
    """Return what is said where no finding asks for anything, and where to look closer."""
    unfinished = sum(isinstance(finding.evidence, Unfinished) for finding in summary.findings)
    if unfinished:
        ends = f"The recording ends while {plural(unfinished, 'frame')} was being compiled: record again to the end."
        return (line(ends, indent=2),)
    recompiles = f"{plural(len(recording.recompiles), 'recompile')}, as expected"
    known = [
        "graphs are cut on purpose only" if recording.graph_breaks else "no graph breaks",
        recompiles if recording.recompiles else "no recompiles",
    ]
    return _nothing(f": {', '.join(known)}."), *_closer(recording)


def _nothing(rest: str) -> Line:
    return line(Span("Nothing to fix", Tone.GOOD), rest, indent=2)


def _closer(recording: Recording) -> tuple[Block, ...]:
    """Where to look in what compiles as it should: from lines to kernels, and what these take."""
    if not recording.kernels:
        return (Command("Look closer: ", "graphs"),)
    lines = Command("The kernels of your lines: ", "line")
    if recording.profiles:
        return Command("What each kernel takes: ", "profile"), lines
    typed = line(quiet("What each kernel takes: "), strong(_PROFILE), indent=2, whole=True)
    return typed, line(quiet(_FACTORY), indent=4), lines


# -- of the page


def page_steps(recording: Recording, summary: Summary) -> tuple[Block, ...]:
    """Return every finding with what to write instead of what, and where its evidence is."""
    cards = {(card.place, card.gb_type): number for number, card in enumerate(summary.cards, 1)}
    reports = {report.function: number for number, report in enumerate(summary.reports, 1)}
    steps, benign = [], []
    given: set[str] = set()
    for finding in summary.findings:
        told = advice(finding)
        more = _more(finding, cards, reports)
        if finding.benign:
            benign.append(_to_know(told, more))
        else:
            steps.append(_to_do(finding, told, more, is_again=told.change in given))
        given.add(told.change)
    blocks: list[Block] = [Section("What to do first", (Steps(tuple(steps)),))] if steps else []
    if not steps:
        blocks.append(nothing_to_fix(recording, summary)[0])
    if benign:
        known = f"{plural(len(benign), 'thing')} to know, nothing to fix"
        blocks.append(Aside(known, (Steps(tuple(benign), is_counted=False),)))
    return tuple(blocks)


def _to_know(told: Advice, more: ToView) -> Step:
    head = paragraph(*told.subject, f" {told.what} ", more)
    change = (paragraph(told.change, tone=Tone.QUIET),) if told.change else ()
    return Step((head, *change), Tone.QUIET)


def _to_do(finding: Finding, told: Advice, more: ToView, *, is_again: bool) -> Step:
    about = _ABOUT[type(finding.evidence)].words
    chip: Parts = (strong(about), " · ") if about else ()
    blocks: list[Block] = [Line(told.subject, note=(*chip, _severity(finding)))]
    if told.change:
        blocks.append(paragraph(told.change, tone=Tone.QUIET if is_again else Tone.DO))
    before = _before(finding, told)
    if told.instead:
        blocks.append(Change(before, told.instead))
    elif before:
        blocks.append(Listing("\n".join(before)))
    if told.setting:
        blocks.append(paragraph("or set ", code(told.setting), tone=Tone.QUIET))
    if told.what:
        blocks.append(paragraph(f"{told.what} ", more, tone=Tone.QUIET))
    return Step(tuple(blocks), _TONES[finding.severity])


def _before(finding: Finding, told: Advice) -> tuple[str, ...]:
    evidence = finding.evidence.card if isinstance(finding.evidence, FrameFailed) else finding.evidence
    rewrite = evidence.rewrite if isinstance(evidence, BreakCard) else None
    return rewrite.before if rewrite else (told.code,) if told.code else ()


def _more(
    finding: Finding,
    cards: Mapping[tuple[SourceLine | None, str], int],
    reports: Mapping[FunctionName, int],
) -> ToView:
    evidence = finding.evidence
    if isinstance(evidence, FrameFailed) and evidence.card:
        evidence = evidence.card
    view = _ABOUT[type(evidence)].view.replace("profile", "kernels")  # in a page the figures stand there
    if isinstance(evidence, BreakCard):
        return ToView("more", view, cards[evidence.place, evidence.gb_type])
    if isinstance(evidence, RecompileReport):
        return ToView("more", view, reports[evidence.function])
    return ToView("more", view)
