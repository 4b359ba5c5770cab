"""Graph breaks, one card for each place in the user's code."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from compiler_lens.facts.breaks.cards import BreakCard, lines_of
from compiler_lens.facts.breaks.following import Following
from compiler_lens.facts.breaks.hints import Hint, specific_hints
from compiler_lens.facts.breaks.ranks import Offered, OfferKind
from compiler_lens.facts.breaks.remedies import Remedy, Rewrite
from compiler_lens.facts.overview.shared import cards_of
from compiler_lens.facts.program.coverage import Lines
from compiler_lens.facts.program.owners import Owner
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import BreakCause, BreakOutcome, CompileId, GraphBreak, Recording, SourceLine
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Excerpt
from compiler_lens.views import document as doc
from compiler_lens.views.advice import belongs, effect, following, hinted, leading, link, ranked, sentence, why
from compiler_lens.views.document import Block, Document, Field, Section, line, paragraph
from compiler_lens.views.parts import At, Compiled, Part, Parts, Span, Tone, ToView, Web, code, quiet, sequence
from compiler_lens.views.text import plural

_IDS = 8
_DEPTH = 6  # lines shown of the calls that lead to a break, and of those inside of a library
_FROM = 13  # column of what stands beside a label


class CardFacts(Struct, frozen=True):
    """All graph breaks of one kind at one line, and those that only follow from them."""

    place: SourceLine | None
    own: bool
    owner: Owner
    gb_type: str
    cause: BreakCause
    specific_hints: tuple[str, ...]
    hints: tuple[Hint, ...]  # of these what is about this line, with what comes of it
    count: int
    direct: int
    frames: int
    parts: int
    outcomes: Mapping[BreakOutcome, int]
    compile_ids: tuple[CompileId, ...]
    chain: tuple[SourceLine, ...]
    inside: tuple[SourceLine, ...]
    columns: tuple[int, int] | None
    excerpt: Excerpt | None
    why: str
    effect: str
    remedy: Remedy | None
    rewrite: Rewrite | None
    link: str
    offers: tuple[Offered, ...]  # what there is to change, the first first, each with its rank
    following: tuple[Following, ...]  # what breaks next in the same function, once this does not
    unseen: Lines | None  # of the function, after the break, where Dynamo never came


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
    data = Data(events, tuple(CardWithEvents(**asdict(card_facts(card)), events=card.events) for _, card in cards))
    if not cards:
        return Document((line("No graph breaks."),), data, count=0)
    lines = lines_of(card for _, card in cards)
    summary = f"{plural(events, 'break')} at {plural(lines, 'line')}, costliest first"
    said: dict[str, int] = {}
    blocks = tuple(Section("", (_card(number, card, selection, said),)) for number, card in cards)
    return Document((Section("Graph breaks", blocks, summary),), data, count=events)


def card_facts(card: BreakCard) -> CardFacts:
    """Return a card for programs, without its single breaks."""
    return CardFacts(
        card.place, card.own, card.owner, card.gb_type, card.cause, specific_hints(card.cause), card.hints,
        len(card.events), card.direct, card.frames, card.parts, dict(card.outcomes), card.compile_ids, card.chain,
        card.inside, card.columns, card.excerpt, why(card), effect(card), card.remedy, card.rewrite, link(card),
        card.offers, card.following, card.unseen,
    )  # fmt: skip


def _card(number: int, card: BreakCard, selection: Selection, said: dict[str, int]) -> doc.Card:
    """A card. `said` has which of torch's hints stands in which card above, and grows by those of this one."""
    place, follow = card.place, len(card.events) - card.direct
    counted = plural(len(card.events), "break") + (f", {follow:,} of them only follow from it" if follow else "")
    where: Part = At(place, Tone.STRONG) if place else Span("unknown place", Tone.STRONG)
    function = f" in {plain_function(place.function)}" if place and place.function else ""
    shown: tuple[Block, ...] = ()
    if place and card.excerpt:
        shown = (doc.Excerpt(card.excerpt.lines, card.excerpt.first, place.line, card.columns),)
    elif place:
        source = place.code.strip()
        shown = (line(code(source) if source else quiet("its source text is not in the recording"), indent=6),)
    ids = card.compile_ids if selection.for_page else card.compile_ids[:_IDS]
    seen = sequence([Compiled(compile_id, Tone.PLAIN) for compile_id in ids])
    more = f" and {len(card.compile_ids) - len(ids):,} more" if len(card.compile_ids) > len(ids) else ""
    told = (
        *([] if card.owner.is_yours else [_owner(card)]),
        _field("why", why(card)),
        _field("effect", sentence(effect(card)), Tone.WARN),
        *_remedy(card, number, said),
        *_torch(card),
        *_way(card, selection),
        Field("in", (line(*seen, more, indent=_FROM),)),
    )
    note = (Span(f"  {counted}", Tone.WARN),)
    return doc.Card(number, (where, function), (*shown, doc.Fields(told)), note=note)


def _owner(card: BreakCard) -> Field:
    """Whose it is, and the user's line that leads there where that is another."""
    led, said = card.owner.line, f"{belongs(card.owner)}, not your code"
    if led is None or led == card.place:
        return _field("whose", f"{said}.")
    parts = (f"{said}; you come there from ", At(led), "  ", code(led.code.strip()))
    return Field("whose", (paragraph(*parts, indent=_FROM),))


def _field(label: str, text: str, tone: Tone = Tone.PLAIN, *, is_action: bool = False) -> Field:
    return Field(label, (paragraph(text, indent=_FROM, tone=tone),), is_action)


def _remedy(card: BreakCard, number: int, said: dict[str, int]) -> list[Field]:
    """What to change; the code to write is for this very line, else an example."""
    remedy, rewrite = card.remedy, card.rewrite
    told, leads = [], leading(card.offers)
    if leads:
        blocks = (*_code(leads), paragraph(ranked(leads), indent=_FROM, tone=Tone.QUIET))
        told.append(Field("tried", blocks, is_action=True))
    told += _hints(card, number, said)
    change = remedy.change if remedy else card.owner.change
    told += [_field("change", change, Tone.DO, is_action=True)] if change else []
    if rewrite:
        where = f"in place of {plural(len(rewrite.before), 'line')}" if len(rewrite.before) > 1 else "to"
        head = line(quiet(where if rewrite.is_complete else "along the lines of"), indent=_FROM)
        told.append(Field("", (head, doc.Change(after=rewrite.after)), is_action=True))
    elif remedy:
        example = doc.Change(tuple(remedy.before.splitlines()), tuple(remedy.after.splitlines()))
        told.append(Field("", (line(quiet("as in"), indent=_FROM), example), is_action=True))
    is_hinted = any(hint.is_setting for hint in card.hints)
    for place, offer in enumerate(card.offers):
        if offer == leads or (is_hinted and card.setting and offer.change == card.setting.code):
            continue  # it stands above, among torch's hints
        blocks = (*(_code(offer) if place else ()), paragraph(ranked(offer), indent=_FROM, tone=Tone.QUIET))
        label = "" if not place else "or set" if offer.kind is OfferKind.SETTING else "or"
        told.append(Field(label, blocks))
    if after := following(card):
        told.append(_field("next", after))
    if remedy and remedy.leave:
        told.append(_field("leave it", remedy.leave))
    return told


def _code(offer: Offered) -> tuple[Block, ...]:
    """What an offer writes."""
    if offer.kind is OfferKind.SETTING:
        return (paragraph(code(offer.change), indent=_FROM),)
    return (doc.Change(after=tuple(offer.change.splitlines())),)


def _hints(card: BreakCard, number: int, said: dict[str, int]) -> list[Field]:
    """What torch says of this event, in its words; of a setting that is offered, how much is known of it.

    What stands in a card above, word for word, is not repeated.
    """
    blocks: list[Block] = []
    tone = Tone.PLAIN if card.remedy or not card.owner.is_yours else Tone.DO
    above = {hint.text: said.setdefault(hint.text, number) for hint in card.hints}
    above = {text: before for text, before in above.items() if before != number}
    plain = [hint for hint in card.hints if not hint.is_setting]
    if words := hinted([hint for hint in plain if hint.text not in above]):
        to = () if card.owner.is_yours else (quiet("To whoever can change that code: "),)
        blocks.append(paragraph(*to, *words, indent=_FROM, tone=tone))
    again = [_as_for(above[hint.text]) for hint in plain if hint.text in above]
    blocks += [paragraph("As for ", one, ".", indent=_FROM, tone=tone) for one in dict.fromkeys(again)]
    for hint in (hint for hint in card.hints if hint.is_setting):
        as_for: Parts = (", as for ", _as_for(above[hint.text])) if hint.text in above else ()
        blocks.append(paragraph(*hinted([hint]), *as_for, indent=_FROM, tone=tone))
        offers = [offer for offer in card.offers if offer.change == hint.text and (offer.tried or not as_for)]
        known = [ranked(offer) for offer in offers]
        blocks += [paragraph(words, indent=_FROM, tone=Tone.QUIET) for words in known]
    return [Field("hint", tuple(blocks), is_action=True)] if blocks else []


def _as_for(number: int) -> ToView:
    return ToView(f"break {number}", "breaks", number)


def _torch(card: BreakCard) -> list[Field]:
    """torch's own message: whole where we have no remedy of our own."""
    cause, causes = card.cause, (card.cause, *card.events[0].causes[1:])
    named = [each.gb_type + (f" ({each.gbid})" if each.gbid else "") for each in causes]
    blocks: list[Block] = [paragraph(named[0], indent=_FROM)]
    if card.remedy is None:
        blocks += [doc.Quoted(cause.explanation, _FROM), doc.Quoted(cause.context, _FROM, Tone.QUIET)]
    if address := link(card):
        blocks.append(line(Web("torch's page on it", address), indent=4, whole=True))
    return [Field("torch", tuple(blocks)), *(_field("then", name) for name in named[1:])]


def _way(card: BreakCard, selection: Selection) -> list[Field]:
    """The calls that lead there, outermost first, and those inside of a library."""
    above, inside = card.chain[:-1], card.inside
    hidden = 0
    if not selection.for_page:
        hidden = max(len(above) - _DEPTH, 0) + max(len(inside) - _DEPTH, 0)
        above, inside = above[-_DEPTH:], inside[:_DEPTH]
    told: list[Field] = []
    for label, stack in (("called", above), ("inside", inside)):
        calls = [(At(at), quiet(f" {plain_function(at.function)}"), "  ", code(at.code.strip())) for at in stack]
        told += [Field(label, tuple(line(*call, indent=_FROM) for call in calls))] if calls else []
    if hidden:
        told.append(Field("", (line(quiet(f"… and {plural(hidden, 'more line')} in --json"), indent=_FROM),)))
    return told
