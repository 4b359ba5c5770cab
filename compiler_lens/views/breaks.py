"""Graph breaks, one card for each place in the user's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from compiler_lens.facts.breaks.cards import BreakCard, specific_hints
from compiler_lens.facts.breaks.remedies import Remedy
from compiler_lens.facts.breaks.rewrites import Rewrite
from compiler_lens.facts.overview.shared import cards_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import BreakCause, BreakOutcome, CompileId, GraphBreak, Recording, SourceLine
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Excerpt as SourceExcerpt
from compiler_lens.views.advice import effect, link, sentence, setting_of, why
from compiler_lens.views.document import (
    Block,
    Card,
    Change,
    Document,
    Excerpt,
    Field,
    Fields,
    Line,
    Quoted,
    Section,
    line,
    paragraph,
)
from compiler_lens.views.parts import At, Compiled, Part, Parts, Span, Tone, Web, code, quiet, sequence
from compiler_lens.views.text import plural

_IDS = 8
_DEPTH = 6  # lines shown of the calls that lead to a break, and of those inside of a library
_FROM = 13  # column of what stands beside a label


class CardFacts(Struct, frozen=True):
    """All graph breaks of one kind at one line, and those that only follow from them."""

    place: SourceLine | None
    own: bool
    gb_type: str
    cause: BreakCause
    specific_hints: tuple[str, ...]
    count: int
    direct: int
    frames: int
    parts: int
    outcomes: Mapping[BreakOutcome, int]
    compile_ids: tuple[CompileId, ...]
    chain: tuple[SourceLine, ...]
    inside: tuple[SourceLine, ...]
    excerpt: SourceExcerpt | None
    why: str
    effect: str
    remedy: Remedy | None
    rewrite: Rewrite | None
    link: str


class CardWithEvents(CardFacts, frozen=True):
    """The same with every single break."""

    events: tuple[GraphBreak, ...]


class Data(Struct, frozen=True):
    """Graph breaks by place and cause."""

    count: int
    cards: tuple[CardWithEvents, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return every card: the line, why it breaks, what that does, what to change, and how the program came there."""
    every = cards_of(recording, selection)
    cards = [(n, card) for n, card in enumerate(every, 1) if any(selection.has(event) for event in card.events)]
    events = sum(len(card.events) for _, card in cards)
    data = Data(events, tuple(_with_events(card) for _, card in cards))
    if not cards:
        return Document((line("No graph breaks."),), data, count=0)
    summary = f"{plural(events, 'break')} at {plural(len(cards), 'place')}, costliest first"
    blocks = tuple(Section("", (_card(number, card, selection),)) for number, card in cards)
    return Document((Section("Graph breaks", blocks, summary),), data, count=len(cards))


def card_facts(card: BreakCard) -> CardFacts:
    """Return a card for programs, without its single breaks."""
    return CardFacts(
        card.place, card.own, card.gb_type, card.cause, specific_hints(card.cause), len(card.events), card.direct,
        card.frames, card.parts, dict(card.outcomes), card.compile_ids, card.chain, card.inside, card.excerpt,
        why(card), effect(card), card.remedy, card.rewrite, link(card),
    )  # fmt: skip


def _with_events(card: BreakCard) -> CardWithEvents:
    facts = card_facts(card)
    return CardWithEvents(**asdict(facts), events=card.events)


def _card(number: int, card: BreakCard, selection: Selection) -> Card:
    follow = len(card.events) - card.direct
    counted = plural(len(card.events), "break") + (f", {follow:,} of them only follow from it" if follow else "")
    where: Part = At(card.place, Tone.STRONG) if card.place else Span("unknown place", Tone.STRONG)
    function = f" in {plain_function(card.place.function)}" if card.place and card.place.function else ""
    told = (
        Field("why", (paragraph(why(card), indent=_FROM),)),
        Field("effect", (paragraph(sentence(effect(card)), indent=_FROM, tone=Tone.WARN),)),
        *_remedy(card),
        *_torch(card),
        *_way(card, selection),
        Field("in", (_where_seen(card, selection),)),
    )
    note = (Span(f"  {counted}", Tone.WARN),)
    return Card(number, (where, function), (*_excerpt(card), Fields(told)), note=note)


def _excerpt(card: BreakCard) -> tuple[Block, ...]:
    if card.place is None:
        return ()
    if card.excerpt is not None:
        return (Excerpt(card.excerpt.lines, card.excerpt.first, card.place.line),)
    source = card.place.code.strip()
    return (line(code(source) if source else quiet("its source text is not in the recording"), indent=6),)


def _remedy(card: BreakCard) -> list[Field]:
    remedy = card.remedy
    changes = (remedy.change,) if remedy else specific_hints(card.cause)
    told = [Field("change", (paragraph(change, indent=_FROM, tone=Tone.DO),), is_action=True) for change in changes]
    if how := _how(card):
        told.append(Field("", how, is_action=True))
    if setting := setting_of(card):
        typed = paragraph(code(f"{setting.name} = {setting.value}"), indent=_FROM)
        told.append(Field("or set", (typed, paragraph(setting.price, indent=_FROM, tone=Tone.QUIET))))
    if remedy and remedy.leave:
        told.append(Field("leave it", (paragraph(remedy.leave, indent=_FROM),)))
    return told


def _how(card: BreakCard) -> tuple[Block, ...]:
    """The code to write: for this very line, else an example."""
    rewrite, remedy = card.rewrite, card.remedy
    if rewrite:
        where = f"in place of {plural(len(rewrite.before), 'line')}" if len(rewrite.before) > 1 else "to"
        told = line(quiet(where if rewrite.is_complete else "along the lines of"), indent=_FROM)
        needs = (paragraph(f"given that {rewrite.needs}", indent=_FROM, tone=Tone.QUIET),) if rewrite.needs else ()
        return told, Change(after=rewrite.after), *needs
    if remedy:
        before, after = tuple(remedy.before.splitlines()), tuple(remedy.after.splitlines())
        return line(quiet("as in"), indent=_FROM), Change(before, after)
    return ()


def _torch(card: BreakCard) -> list[Field]:
    """torch's own message: whole where we have no remedy of our own."""
    cause = card.cause
    blocks: list[Block] = [paragraph(_named(cause), indent=_FROM)]
    if card.remedy is None:
        blocks += [Quoted(cause.explanation, _FROM), Quoted(cause.context, _FROM, Tone.QUIET)]
    if address := link(card):
        blocks.append(line(Web("torch's page on it", address), indent=4, whole=True))
    then = [Field("then", (paragraph(_named(cause), indent=_FROM),)) for cause in card.events[0].causes[1:]]
    return [Field("torch", tuple(blocks)), *then]


def _named(cause: BreakCause) -> str:
    return cause.gb_type + (f" ({cause.gbid})" if cause.gbid else "")


def _way(card: BreakCard, selection: Selection) -> list[Field]:
    """The calls that lead there, outermost first, and those inside of a library."""
    above, inside = card.chain[:-1], card.inside
    hidden = 0
    if not selection.folds_nothing:
        hidden = max(len(above) - _DEPTH, 0) + max(len(inside) - _DEPTH, 0)
        above, inside = above[-_DEPTH:], inside[:_DEPTH]
    told = [Field(label, _calls(stack)) for label, stack in (("called", above), ("inside", inside)) if stack]
    if hidden:
        more = quiet(f"… and {plural(hidden, 'more line')} in --json")
        told.append(Field("", (line(more, indent=_FROM),)))
    return told


def _calls(stack: Sequence[SourceLine]) -> tuple[Line, ...]:
    return tuple(
        line(At(at), quiet(f" {plain_function(at.function)}"), "  ", code(at.code.strip()), indent=_FROM)
        for at in stack
    )


def _where_seen(card: BreakCard, selection: Selection) -> Line:
    ids = card.compile_ids if selection.folds_nothing else card.compile_ids[:_IDS]
    hidden = len(card.compile_ids) - len(ids)
    seen: Parts = sequence([Compiled(compile_id, Tone.PLAIN) for compile_id in ids])
    return line(*seen, f" and {hidden:,} more" if hidden else "", indent=_FROM)
