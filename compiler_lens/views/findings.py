"""Everything worth knowing, ranked: what it is, what it costs, what to change."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, convert

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.hints import Hint
from compiler_lens.facts.breaks.ranks import Offered
from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.all_clear import Against, against
from compiler_lens.facts.overview.findings import Basis, Finding, Severity
from compiler_lens.facts.overview.shared import summary_of
from compiler_lens.facts.overview.unintended import Unintended
from compiler_lens.facts.program.coverage import Function, FunctionName, Treatment
from compiler_lens.facts.program.owners import Owner
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.views.advice import advice, spelled
from compiler_lens.views.breaks import CardFacts, card_facts
from compiler_lens.views.document import Command, Document, Section, line
from compiler_lens.views.recompiles import RecompiledFunction
from compiler_lens.views.steps import ABOUT, all_clear, beside, body, severity
from compiler_lens.views.text import plural


class AdviceFacts(Struct, frozen=True):
    """What to look at, what happens there, what to change."""

    subject: str
    code: str
    what: str
    hints: tuple[Hint, ...]  # what torch itself says to do about it
    change: str
    instead: tuple[str, ...]
    setting: str
    offers: tuple[Offered, ...]  # what there is to change, each with its rank
    after: str  # what breaks next, once this does not


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
    | seen.CachedUnder | seen.NothingSeen | seen.StanceTaken | seen.NeverCalled | seen.HookAfterCompile
    | Unintended
)  # fmt: skip


class FindingFacts(Struct, frozen=True):
    """One thing to know, and mostly to do."""

    rule: str  # torch's number of a graph break, or a slug that stays the same
    kind: str
    place: SourceLine | None
    owner: Owner
    severity: Severity
    seconds: float | None
    basis: Basis
    advice: AdviceFacts
    evidence: EvidenceFacts


class Data(Struct, frozen=True):
    """Everything worth knowing, what costs most first."""

    findings: tuple[FindingFacts, ...]
    against: tuple[Against, ...]  # what contradicts "nothing to fix", beside findings that ask for a change


def document(recording: Recording, selection: Selection) -> Document:
    """Return all findings with severity, cost and what to change."""
    summary = summary_of(recording, selection)
    found = summary.findings
    data = Data(finding_facts(found), against(recording, summary))
    if not found:
        return Document((all_clear(recording, summary),), data, count=0)
    worth = sum(not finding.benign for finding in found)
    told = f"{plural(worth, 'thing')} to fix" if worth else "none to fix"
    settings: set[str] = set()
    hints: set[str] = set()
    blocks = []
    for finding in found:
        more = Command("more: ", ABOUT[type(finding.evidence)].view, indent=4)
        said = body(beside(advice(finding), settings), 4, hints)
        blocks.append(Section("", (line(severity(finding), indent=2), *said, more)))
    return Document((Section("Findings", tuple(blocks), f"{told}, {len(found) - worth:,} to know"),), data, worth)


def finding_facts(found: Iterable[Finding]) -> tuple[FindingFacts, ...]:
    """Return findings for programs."""
    facts = []
    for finding in found:
        told = advice(finding)
        spelt = AdviceFacts(
            spelled(told.subject),
            told.code,
            told.what,
            told.hints,
            told.change,
            told.instead,
            told.setting,
            told.offers,
            told.after,
        )
        kind = ABOUT[type(finding.evidence)].kind
        facts.append(
            FindingFacts(
                finding.rule, kind, finding.place, finding.owner, finding.severity, finding.seconds,
                finding.basis, spelt, _evidence(finding.evidence),
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
        case seen.FailureSuppressed(frame, failed):
            return FailedFrame(frame.name, failed.reason, None)
        case seen.HoldsNothing(function) | seen.MarkedAway(function):
            return EagerFunction(function.name, function.treatment, function.reason)
        case seen.Unfinished(frame):
            return UnfinishedFrame(frame.name)
        case seen.TinyGraphs(function, graphs):
            return SmallGraphs(function.name, graphs)
        case _:
            return evidence
