"""Graph breaks, one card for each place in the user's code."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.analysis.coverage import plain_function
from compiler_lens.analysis.places import Place, break_places, is_machinery, own_stack, specific_hints
from compiler_lens.analysis.select import Selection
from compiler_lens.model import BreakCause, GraphBreak, Recording, SourceLine
from compiler_lens.render import words
from compiler_lens.render.console.page import BAD, CODE, DIM, PLACE, WARN, Page, line, paragraph, paragraphs, title
from compiler_lens.render.text import plural, times

_IDS = 8
_DEPTH = 5  # calls shown of a stack's part in libraries
_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


def break_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """Every place with its cause, advice, effect, and the way the program came there."""
    places = [place for place in break_places(recording) if any(selection.has(b) for b in place.breaks)]
    if not places:
        return [line("No graph breaks.")]
    events = sum(len(place.breaks) for place in places)
    lines = [title("Graph breaks", f"{plural(events, 'break')} at {plural(len(places), 'place')}, the costliest first")]
    for place in places:
        lines += [Text(), *_card(place, page)]
    return lines


def _card(place: Place, page: Page) -> list[Text]:
    where = page.at(place.line) if place.line else "unknown place"
    function = f" in {plain_function(place.line.function)}" if place.line and place.line.function else ""
    lines = [line((where, PLACE), function, (f"  {times(len(place.breaks))}", WARN), indent=2)]
    if place.line and place.line.code.strip():
        lines.append(line((place.line.code.strip(), CODE), indent=6))
    for outcome, count in place.outcomes:
        several = f" {times(count)}" if len(place.outcomes) > 1 else ""
        lines.append(line((words.BREAK_OUTCOMES[outcome], WARN), several, indent=4))
    lines += _cause(place.cause, page)
    first = place.breaks[0]
    lines += _inside(place, page)
    for cause in first.causes[1:]:
        lines += paragraph(line(("then: ", DIM), cause.gb_type + _id(cause)), page.width, 4)
    return [*lines, *_way_there(first, page), *_where_seen(place)]


def _cause(cause: BreakCause, page: Page) -> list[Text]:
    lines = paragraph(line((cause.gb_type, BAD), _id(cause)), page.width, 4)
    lines += paragraphs(cause.explanation, page.width, 6)
    hints = specific_hints(cause)
    for hint in hints:
        for i, part in enumerate(paragraph(hint, page.width, 8, CODE)):
            lines.append(line("      - ", part[8:]) if i == 0 else part)
    general = len(cause.hints) - len(hints)
    if general:
        lines.append(line((f"({plural(general, 'general hint')} of torch's in --json)", DIM), indent=6))
    if cause.gbid:
        lines.append(line((f"{_SITE}{cause.gbid.lower()}.html", DIM), indent=6))
    return lines


def _id(cause: BreakCause) -> str:
    return f" ({cause.gbid})" if cause.gbid else ""


def _inside(place: Place, page: Page) -> list[Text]:
    """The calls below the user's own line, in libraries, innermost last."""
    if not place.inside:
        return []
    stack = place.breaks[0].user_stack
    own = [i for i, at in enumerate(stack) if place.line and (at.file, at.line) == (place.line.file, place.line.line)]
    below = stack[own[-1] + 1 :] if own else stack
    below = (*(at for at in below[:-1] if not is_machinery(at.file)), *below[-1:])
    lines = [
        line(("inside " if i == 0 else "       ", DIM), *_call(at, page), indent=4)
        for i, at in enumerate(below[-_DEPTH:])
    ]
    others = len(place.inside) - 1
    return lines + ([line((f"       and {plural(others, 'other line')} in --json", DIM), indent=4)] if others else [])


def _way_there(event: GraphBreak, page: Page) -> list[Text]:
    """The calls in the user's own code, outermost first; without the line of the card itself."""
    stack = own_stack(event.user_stack)[:-1]
    return [
        line(("called from " if i == 0 else "            ", DIM), *_call(at, page), indent=4)
        for i, at in enumerate(stack)
    ]


def _call(at: SourceLine, page: Page) -> tuple[str | tuple[str, str], ...]:
    return (page.at(at), (f" {plain_function(at.function)}", DIM), (f"  {at.code.strip()}", CODE))


def _where_seen(place: Place) -> list[Text]:
    ids = [f"[{i}]" for i in place.compile_ids]
    rest = f" and {len(ids) - _IDS:,} more" if len(ids) > _IDS else ""
    lines = [line(("in compilations ", DIM), ", ".join(ids[:_IDS]), rest, indent=4)]
    resumes = list(dict.fromkeys(b.resume_function for b in place.breaks if b.resume_function))
    if resumes:
        lines.append(line(("goes on in ", DIM), ", ".join(resumes[:3]), indent=4))
    return lines
