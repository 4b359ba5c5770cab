"""Everything worth knowing, ranked: what it is, what it costs, what to change."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, convert

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.findings import Basis, Finding, Severity
from compiler_lens.facts.overview.shared import summary_of
from compiler_lens.facts.program.coverage import Function, FunctionName, Treatment
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.views.advice import advice, spelled
from compiler_lens.views.breaks import CardFacts, card_facts
from compiler_lens.views.document import Command, Document, Section, line
from compiler_lens.views.parts import Span, Tone
from compiler_lens.views.recompiles import RecompiledFunction
from compiler_lens.views.steps import ABOUT, NOTHING_READ, beside, body, severity
from compiler_lens.views.text import plural


class AdviceFacts(Struct, frozen=True):
    """What to look at, what happens there, what to change."""

    subject: str
    code: str
    what: str
    change: str
    instead: tuple[str, ...]
    setting: str
    rank: str


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
    CardFacts | RecompiledFunction | EagerFunction | FailedFrame | UnfinishedFrame | SmallGraphs
    | seen.CudagraphsSkipped | seen.CacheBypassed | seen.PhaseDominates | seen.DeviceIdle | seen.DisabledOnPurpose
    | seen.NothingSeen | seen.StanceTaken | seen.NeverCalled
)  # fmt: skip


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
        nothing = NOTHING_READ if recording.damage else line(Span("Nothing to fix", Tone.GOOD), ".", indent=2)
        return Document((nothing,), data, count=0)
    worth = sum(not finding.benign for finding in found)
    told = f"{plural(worth, 'thing')} to fix" if worth else "nothing to fix"
    settings: set[str] = set()
    blocks = []
    for finding in found:
        more = Command("more: ", ABOUT[type(finding.evidence)].view, indent=4)
        said = body(beside(advice(finding), settings), 4)
        blocks.append(Section("", (line(severity(finding), indent=2), *said, more)))
    return Document((Section("Findings", tuple(blocks), f"{told}, {len(found) - worth:,} to know"),), data, worth)


def finding_facts(found: Iterable[Finding]) -> tuple[FindingFacts, ...]:
    """Return findings for programs."""
    facts = []
    for finding in found:
        told = advice(finding)
        spelt = AdviceFacts(
            spelled(told.subject), told.code, told.what, told.change, told.instead, told.setting, told.rank
        )
        kind = ABOUT[type(finding.evidence)].kind
        facts.append(
            FindingFacts(
                finding.rule, kind, finding.place, finding.severity, finding.seconds, finding.basis, spelt,
                _evidence(finding.evidence),
            )
        )  # fmt: skip
    return tuple(facts)


def _evidence(evidence: seen.Evidence) -> EvidenceFacts:  # noqa: PLR0911 -- one for each kind
    match evidence:
        case BreakCard():
            return card_facts(evidence)
        case RecompileReport():
            return convert(evidence, RecompiledFunction, from_attributes=True)
        case Function(name=name):
            return EagerFunction(name, evidence.treatment, evidence.reason)
        case seen.FrameFailed(frame, card):
            return FailedFrame(frame.name, frame.reason, card_facts(card) if card else None)
        case seen.FailureSuppressed(frame, reason):
            return FailedFrame(frame.name, reason, None)
        case seen.HoldsNothing(function):
            return EagerFunction(function.name, function.treatment, function.reason)
        case seen.Unfinished(frame):
            return UnfinishedFrame(frame.name)
        case seen.TinyGraphs(function, graphs):
            return SmallGraphs(function.name, graphs)
        case _:
            return evidence
