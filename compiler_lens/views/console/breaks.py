"""Graph breaks, one card for each place in the user's code."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.facts.breaks.cards import BreakCard, break_cards, specific_hints
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import BreakCause, Recording, SourceLine
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.render.console.page import (
    BAD,
    CODE,
    DIM,
    GOOD,
    PLACE,
    WARN,
    Page,
    command,
    line,
    paragraph,
    paragraphs,
    title,
)
from compiler_lens.views.advice import effect, link, sentence, setting_of, why
from compiler_lens.views.text import clean, plural

_IDS = 8
_DEPTH = 6  # lines shown of the calls that lead to a break, and of those inside of a library
_AROUND = 200  # characters of a line of source


def break_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """Every card: the line, why it breaks, what that does, what to change, and the way the program came there."""
    all_cards = break_cards(recording, Ownership.of(selection.user_paths))
    cards = [(n, c) for n, c in enumerate(all_cards, 1) if any(selection.has(event) for event in c.events)]
    if not cards:
        return [line("No graph breaks.")]
    events = sum(len(card.events) for _, card in cards)
    lines = [title("Graph breaks", f"{plural(events, 'break')} at {plural(len(cards), 'place')}, the costliest first")]
    for number, card in cards:
        lines += [Text(), *card_lines(card, page, number)]
    return lines


def card_lines(card: BreakCard, page: Page, number: int) -> list[Text]:
    """One card, with the number that other views call it by."""
    return [
        *_head(card, page, number),
        *_excerpt(card),
        *_words(card, page),
        *_remedy(card, page),
        *_torch(card, page),
        *_way(card, page),
        *_where_seen(card),
    ]


def _head(card: BreakCard, page: Page, number: int) -> list[Text]:
    where = page.at(card.place) if card.place else "unknown place"
    function = f" in {plain_function(card.place.function)}" if card.place and card.place.function else ""
    follow = len(card.events) - card.direct
    counted = plural(len(card.events), "break") + (f", {follow:,} of them only follow from it" if follow else "")
    return [line((f"{number}. ", DIM), (where, PLACE), function, (f"  {counted}", WARN), indent=2)]


def _excerpt(card: BreakCard) -> list[Text]:
    if card.place is None:
        return []
    if card.excerpt is None:
        code = card.place.code.strip()
        return (
            [line((code, CODE), indent=6)]
            if code
            else [line(("its source text is not in the recording", DIM), indent=6)]
        )
    last = card.excerpt.first + len(card.excerpt.lines) - 1
    digits = len(str(last))
    lines: list[Text] = []
    for number, text in enumerate(card.excerpt.lines, card.excerpt.first):
        is_it = number == card.place.line
        shown = clean(text[:_AROUND]).rstrip()
        made = Text(f"    {'>' if is_it else ' '} {number:>{digits}} | ", style=PLACE if is_it else DIM, no_wrap=True)
        lines.append(made.append(shown, style=CODE if is_it else DIM))
        if is_it:
            start = len(shown) - len(shown.lstrip())
            marks = " " * start + "^" * len(shown.strip())
            lines.append(Text(f"      {' ' * digits} | {marks}", style=BAD, no_wrap=True))
    return lines


def _labelled(label: str, text: str, page: Page, style: str = "") -> list[Text]:
    parts = paragraph(text, page.width, 13, style)
    return [line((f"{label:<9}", DIM), part[13:], indent=4) if i == 0 else part for i, part in enumerate(parts)]


def _words(card: BreakCard, page: Page) -> list[Text]:
    return [*_labelled("why", why(card), page), *_labelled("effect", sentence(effect(card)), page, WARN)]


def _remedy(card: BreakCard, page: Page) -> list[Text]:
    remedy, rewrite = card.remedy, card.rewrite
    lines: list[Text] = []
    if remedy:
        lines += _labelled("change", remedy.change, page, GOOD)
    for hint in specific_hints(card.cause) if not remedy else ():
        lines += _labelled("change", hint, page, GOOD)
    if rewrite:
        where = f"in place of {plural(len(rewrite.before), 'line')}" if len(rewrite.before) > 1 else "to"
        lines.append(line((where if rewrite.is_complete else "along the lines of", DIM), indent=13))
        lines += [_code(text) for text in rewrite.after]
        lines += paragraph(f"given that {rewrite.needs}" if rewrite.needs else "", page.width, 13, DIM)
    elif remedy:
        lines.append(line(("as in", DIM), indent=13))
        lines += [_code(f"- {text}") for text in remedy.before.splitlines()]
        lines += [_code(f"+ {text}", GOOD) for text in remedy.after.splitlines()]
    if setting := setting_of(card):
        lines += _labelled("or set", f"{setting.name} = {setting.value}", page, CODE)
        lines += paragraph(setting.price, page.width, 13, DIM)
    if remedy and remedy.leave:
        lines += _labelled("leave it", remedy.leave, page)
    return lines


def _code(text: str, style: str = CODE) -> Text:
    return Text(" " * 15 + clean(text), style=style, no_wrap=True)


def _torch(card: BreakCard, page: Page) -> list[Text]:
    """torch's own words: whole where we have no remedy of our own."""
    cause = card.cause
    lines = _labelled("torch", cause.gb_type + _id(cause), page)
    if card.remedy is None:
        lines += paragraphs(cause.explanation, page.width, 13)
        lines += paragraphs(cause.context, page.width, 13, DIM)
    lines += [command(link(card), "", indent=4)] if link(card) else []
    for then in card.events[0].causes[1:]:
        lines += _labelled("then", then.gb_type + _id(then), page)
    return lines


def _id(cause: BreakCause) -> str:
    return f" ({cause.gbid})" if cause.gbid else ""


def _way(card: BreakCard, page: Page) -> list[Text]:
    """The calls that lead there, outermost first, and those inside of a library."""
    above = card.chain[:-1]
    lines = _calls("called", above[-_DEPTH:], page)
    lines += _calls("inside", card.inside[:_DEPTH], page)
    hidden = max(len(above) - _DEPTH, 0) + max(len(card.inside) - _DEPTH, 0)
    return lines + ([line((f"… and {plural(hidden, 'more line')} in --json", DIM), indent=13)] if hidden else [])


def _calls(label: str, stack: tuple[SourceLine, ...], page: Page) -> list[Text]:
    return [
        line(
            (f"{label if i == 0 else '':<9}", DIM), page.at(at), (f" {plain_function(at.function)}", DIM),
            (f"  {at.code.strip()}", CODE), indent=4,
        )
        for i, at in enumerate(stack)
    ]  # fmt: skip


def _where_seen(card: BreakCard) -> list[Text]:
    ids = [f"[{i}]" for i in card.compile_ids]
    rest = f" and {len(ids) - _IDS:,} more" if len(ids) > _IDS else ""
    return [line((f"{'in':<9}", DIM), ", ".join(ids[:_IDS]), rest, indent=4)]
