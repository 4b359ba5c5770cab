"""A sheet as an SVG file: no script, no font, no address outside of itself; light and dark as the system is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from xml.sax.saxutils import escape

from msgspec import Struct

from compiler_lens.facts.graphs.levels import Box, BoxKind
from compiler_lens.render.picture.layout import Point
from compiler_lens.render.picture.placing import HEADER, LINE, PlacedBox, PlacedPicture, placed, upwards
from compiler_lens.render.picture.style import TEXT, TITLE, css_class, lines_width, style_sheet, text_width
from compiler_lens.views.picture.labels import short
from compiler_lens.views.picture.picture import PictureEdge
from compiler_lens.views.picture.sheet import Break, Panel, Sheet
from compiler_lens.views.picture.tints import Tint
from compiler_lens.views.text import clean, times

Href = Callable[[Box], str]

_MARGIN = 18.0
_HEADING = 30.0
_LEGEND_WIDTH = 420.0  # at least
_BEND = 6.0
_BAR = "time, beside that of the slowest box"
_BETWEEN = 150.0  # a forward and its backward: room for the saved tensors' lines
_HEAD = 26.0  # above a picture with a title
_BREAK_GAP = 12.0
_BREAK_LINE = 17.0
_NARROWEST = 300.0


def to_svg(sheet: Sheet, *, href: Href | None = None, styled: bool = True) -> str:
    """Return a whole file.

    Args:
        href: where a box links to, "" for nowhere.
        styled: with the style sheet; a page that has it once for all its pictures wants them without.
    """
    panels = sheet.beside or tuple(part for part in sheet.parts if isinstance(part, Panel))
    every = [box for panel in panels for box in panel.picture.every_box()]
    slowest = max((box.box.spent.microseconds for box in every if box.box.spent and not box.inner), default=0.0)
    pen = _Pen(href, slowest)
    inside, wide, tall = _beside(sheet.beside, sheet.saved, pen) if sheet.beside else _below(sheet.parts, pen)
    legend, legend_height = _legend({box.tint for box in every}, slowest, wide)
    title, note = short(sheet.title, 90), short(sheet.note, 120)
    heading = text_width(title, 15) + 16 + text_width(note, TEXT)
    width = max(wide, heading, _LEGEND_WIDTH if legend else 0) + 2 * _MARGIN
    height = tall + 2 * _MARGIN + _HEADING + legend_height
    size = f'width="{_n(width)}" height="{_n(height)}"'
    box = f'viewBox="0 0 {_n(width)} {_n(height)}"'
    words = f'{_text(title)}<tspan class="clg-s" dx="12">{_text(note)}</tspan>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" class="clg" {size} {box} role="img">', _title(title)]
    if styled:
        parts.append(f"<style>{style_sheet()}</style>")
    parts += [
        f'<rect class="clg-back" {size}/>',
        _words(_MARGIN, _MARGIN + 11, words, "clg-h"),
        _moved((width - wide) / 2, _MARGIN + _HEADING, inside),
        _moved(_MARGIN, height - legend_height - 4, [legend]),
        "</svg>\n",
    ]
    return "\n".join(parts)


class _Pen(Struct, frozen=True):
    """What is the same for all boxes of a sheet."""

    href: Href | None
    slowest: float  # microseconds of the closed box that took longest


def _beside(panels: tuple[Panel, Panel], saved: Sequence[PictureEdge], pen: _Pen) -> tuple[list[str], float, float]:
    """The forward from top to bottom, the backward upwards beside it, each in one column; how wide and tall that is."""
    first, second = placed(panels[0].picture, inf), upwards(placed(panels[1].picture, inf))
    height, far = max(first.height, second.height), first.width + _BETWEEN
    pictures, boxes = [], []
    for panel, picture, left in zip(panels, (first, second), (0, far), strict=True):
        top = _HEAD + (height - picture.height) / 2
        pictures += [_words(left, 12, _text(panel.title), "clg-t"), _moved(left, top, _picture(picture, pen))]
        boxes.append(list(picture.closed(left, top)))
    lines = []
    for edge in saved:
        source, target = boxes[0][edge.source], boxes[1][edge.target]
        x1, y1, x2, y2 = source.x + source.width, source.y + source.height / 2, target.x, target.y + target.height / 2
        middle = (x1 + x2) / 2
        curve = f"M{_n(x1)} {_n(y1)}C{_n(middle)} {_n(y1)} {_n(middle)} {_n(y2)} {_n(x2)} {_n(y2)}"
        head = f"M{_n(x2)} {_n(y2)}L{_n(x2 - 6.5)} {_n(y2 - 3.2)}L{_n(x2 - 6.5)} {_n(y2 + 3.2)}Z"
        path = f'<path class="clg-l" d="{curve}">{_title(edge.tooltip)}</path>'
        lines.append(f'<g class="clg-saved">{path}<path class="clg-a" d="{head}"/></g>')
    return [*lines, *pictures], far + second.width, height + _HEAD


def _below(parts: Sequence[Panel | Break], pen: _Pen) -> tuple[list[str], float, float]:
    """Pictures and breaks one below the other, in the middle of the widest; how wide and tall that is."""
    pictures = {number: placed(part.picture) for number, part in enumerate(parts) if isinstance(part, Panel)}
    width = max((each.width for each in pictures.values()), default=_NARROWEST)
    width = max(width, *(lines_width(part) + 40 for part in parts if not isinstance(part, Panel)), 0)
    drawn, breaks, y = [], [], 0.0
    for number, part in enumerate(parts):
        if isinstance(part, Panel):
            picture = pictures[number]
            if part.title:
                y += _HEAD
                drawn.append(_words(0, y - 12, _text(part.title), "clg-t"))
            drawn.append(_moved((width - picture.width) / 2, y, _picture(picture, pen)))
            y += picture.height + (_BREAK_GAP if part.title else 0.0)
        else:
            height = _BREAK_LINE * len(part) + 14
            lines = [_rect("clg-break", (0, y, width, height), 4)]
            for place, line in enumerate(part):
                lines.append(_words(14, y + 19 + 17 * place, _text(line), "clg-code" if place else "clg-t"))
            breaks.append("".join(lines))
            y += height + _BREAK_GAP
    return [*drawn, *breaks], width, y


def _legend(tints: Collection[Tint], slowest: float, width: float) -> tuple[str, float]:
    """The colours that are there, in rows; and how tall that is."""
    x, y, parts = 0.0, 10.0, []
    shown = [tint for tint in Tint if tint in tints and tint not in {Tint.INPUT, Tint.OUTPUT}]
    for words, style in [*((tint.value, css_class(tint)) for tint in shown), *([(_BAR, "")] if slowest else [])]:
        wide = text_width(words, TEXT) + 34
        if x and x + wide > max(width, _LEGEND_WIDTH):
            x, y = 0.0, y + 18
        if style:
            parts.append(_rect(style, (x, y - 9, 12, 12), 3) + _words(x + 18, y + 1, _text(words)))
        else:
            parts.append(_rect("clg-time", (x, y - 4, 18, 3), 1.5) + _words(x + 24, y + 1, words))
        x += wide
    return "".join(parts), y + 12 if parts else 0.0


# -- a picture


def _picture(picture: PlacedPicture, pen: _Pen) -> Iterator[str]:
    """Opened boxes below, then the lines, then the closed boxes."""
    for box in picture.boxes:
        if box.inner:
            yield from _opened(box, box.inner, pen)
    for line in picture.lines:
        yield f'<path class="clg-l" d="{_path(line.points)}">{_title(line.tooltip)}</path>'
        if line.has_arrow:
            x, y = line.points[-1]
            wing = y + (6.5 if picture.is_upwards else -6.5)
            yield f'<path class="clg-a" d="M{_n(x)} {_n(y)}L{_n(x - 3.2)} {_n(wing)}L{_n(x + 3.2)} {_n(wing)}Z"/>'
    for caption in picture.captions:
        yield _words(caption.x, caption.y, _text(caption.text))
    for box in picture.boxes:
        if not box.inner:
            yield _linked(box, pen, _closed(box, pen))


def _opened(box: PlacedBox, inner: PlacedPicture, pen: _Pen) -> Iterator[str]:
    style, title = css_class(box.drawn.tint), box.drawn.lines[0]
    sheets, badge = _repeats(box, style)
    yield sheets + _rect(f"{style} clg-frame", (box.x, box.y, box.width, box.height), 8)
    yield _linked(box, pen, _words(box.x + 12, box.y + 19, _text(title), "clg-t") + badge)
    # Lines come in and go out from the frame to the picture inside; none through the frame's title.
    above, below = (inner.exits, inner.entries) if inner.is_upwards else (inner.entries, inner.exits)
    top, written = box.y + HEADER, text_width(title, TITLE) + 16
    ends = [(x, box.y + (HEADER - 4 if x < written else 0), top) for x in (box.left + port for port in above.values())]
    ends += [(box.left + port, top + inner.height, box.y + box.height) for port in below.values()]
    for x, start, end in ends:
        yield f'<path class="clg-l" d="{_path(((box.x + x, start), (box.x + x, end)))}"/>'
    yield _moved(box.x + box.left, top, _picture(inner, pen))


def _closed(box: PlacedBox, pen: _Pen) -> str:
    style, of = css_class(box.drawn.tint), box.drawn.box
    x, y, width, height = box.x, box.y, box.width, box.height
    is_pill = of.kind in {BoxKind.INPUT, BoxKind.OUTPUT}
    sheets, badge = _repeats(box, style)
    parts = [sheets, _rect(style, (x, y, width, height), min(height / 2, 14) if is_pill else 5)]
    if of.group:
        parts.append(_rect(style, (x + 3, y + 3, width - 6, height - 6), 3))
    if of.spent and pen.slowest:  # a bar along the foot, the whole way for what takes longest
        wide = (width - 12) * of.spent.microseconds / pen.slowest
        parts.append(_rect("clg-time", (x + 6, y + height - 9, max(wide, 1.0), 3), 1.5))
    for number, line in enumerate(box.drawn.lines):
        style = "" if number else "clg-t"
        parts.append(_words(x + width / 2, y + 2 + LINE * (number + 1), _text(line), style, "middle"))
    return "".join(parts) + badge


def _repeats(box: PlacedBox, style: str) -> tuple[str, str]:
    """Two more sheets under a box that stands for several, and how many they are."""
    repeats = box.drawn.box.repeats
    if repeats == 1:
        return "", ""
    sheets = [_rect(style, (box.x + off, box.y + off, box.width, box.height), 6) for off in (6, 3)]
    at = (box.x + box.width - 10, box.y + (19 if box.inner else 17))
    return "".join(sheets), _words(*at, times(repeats), "clg-t", "end")


def _linked(box: PlacedBox, pen: _Pen, inside: str) -> str:
    target = pen.href(box.drawn.box) if pen.href else ""
    content = _title(box.drawn.tooltip) + inside
    return f'<a href="{_text(target)}">{content}</a>' if target else f"<g>{content}</g>"


def _path(points: Sequence[Point]) -> str:
    """A line through its points: straight where they are in line, else leaving and arriving upright."""
    steps = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        if math.isclose(x1, x2, abs_tol=0.5) or math.isclose(y1, y2, abs_tol=0.5):
            steps.append(f"L{_n(x2)} {_n(y2)}")
        else:
            bend = math.copysign(min(abs(y2 - y1) / 2, max(_BEND, abs(x2 - x1) / 2)), y2 - y1)
            steps.append(f"C{_n(x1)} {_n(y1 + bend)} {_n(x2)} {_n(y2 - bend)} {_n(x2)} {_n(y2)}")
    return "".join(steps)


def _moved(x: float, y: float, inside: Iterable[str]) -> str:
    content = "\n".join(inside)
    return f'<g transform="translate({_n(x)} {_n(y)})">\n{content}\n</g>'


def _rect(style: str, place: tuple[float, float, float, float], corner: float) -> str:
    x, y, width, height = map(_n, place)
    return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{_n(corner)}"/>'


def _words(x: float, y: float, inside: str, style: str = "", anchor: str = "") -> str:
    more = (f' class="{style}"' if style else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{_n(x)}" y="{_n(y)}"{more}>{inside}</text>'


def _title(text: str) -> str:
    return f"<title>{_text(text)}</title>"


def _n(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _text(text: str) -> str:
    """Text of anybody's, for between tags and for between quotes."""
    plain = clean(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")  # XML cannot hold these two
    return escape(plain, {'"': "&quot;", "'": "&#39;"})
