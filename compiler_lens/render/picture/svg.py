"""A page as an SVG file: no script, no font, no address outside of itself; light and dark as the system is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from compiler_lens.facts.graphs.level_boxes import Box, BoxKind
from compiler_lens.recording.model import Node
from compiler_lens.render.picture.layout import Point
from compiler_lens.render.picture.measure import TEXT, TITLE, text_width
from compiler_lens.render.picture.style import css_class, style_sheet
from compiler_lens.views.picture import labels
from compiler_lens.views.picture.facts import facts
from compiler_lens.views.picture.scene import HEADER, LINE, Drawn, Line, Picture, inside
from compiler_lens.views.picture.sheet import Break, Saved, Sheet, saved_words
from compiler_lens.views.picture.tints import Tint
from compiler_lens.views.text import clean, one_line, times

Href = Callable[[Box], str]

_MARGIN = 18.0
_HEADING = 30.0
_LEGEND_WIDTH = 420.0  # at least
_NAMED = 12  # tensors that a line's tooltip names
_BEND = 6.0
_BAR = "time, beside that of the slowest box"


def to_svg(sheet: Sheet, title: str, *, note: str = "", href: Href | None = None, styled: bool = True) -> str:
    """A whole file. `href` gives where a box links to, "" for nowhere; not styled, the page around it has the sheet."""
    legend, legend_height = _legend(sheet)
    title, note = labels.short(title, 90), labels.short(note, 120)
    heading = text_width(title, 15) + 16 + text_width(note, TEXT)
    width = max(sheet.width, heading, _LEGEND_WIDTH if legend else 0) + 2 * _MARGIN
    height = sheet.height + 2 * _MARGIN + _HEADING + legend_height
    size = f'width="{_n(width)}" height="{_n(height)}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="clg" {size} viewBox="0 0 {_n(width)} {_n(height)}" role="img">'
    )
    told = f'{_text(title)}<tspan class="clg-s" dx="12">{_text(note)}</tspan>'
    parts = (
        head,
        f"<title>{_text(title)}</title>",
        *([f"<style>{style_sheet()}</style>"] if styled else []),
        f'<rect class="clg-back" {size}/>',
        _words(_MARGIN, _MARGIN + 11, told, "clg-h"),
        _moved((width - sheet.width) / 2, _MARGIN + _HEADING, "\n".join(_sheet(sheet, _pen(sheet, href)))),
        _moved(_MARGIN, height - legend_height - 4, legend),
        "</svg>\n",
    )
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Pen:
    """What is the same for all boxes of a page."""

    href: Href | None
    slowest: float  # microseconds of the closed box that took longest


def _pen(sheet: Sheet, href: Href | None) -> _Pen:
    closed = (drawn.box.spent for panel in sheet.panels for _, _, drawn in inside(panel.picture))
    return _Pen(href, max((spent.microseconds for spent in closed if spent), default=0.0))


def _sheet(sheet: Sheet, pen: _Pen) -> Iterator[str]:
    yield from map(_saved, sheet.saved)
    for panel in sheet.panels:
        if panel.title:
            place = (panel.x, 12.0) if sheet.saved else (0.0, panel.y - 12)
            yield _words(*place, _text(panel.title), "clg-t")
        yield _moved(panel.x, panel.y, "\n".join(_picture(panel.picture, pen)))
    for cut in sheet.breaks:
        yield _break(cut, sheet.width)


def _saved(saved: Saved) -> str:
    (x1, y1), (x2, y2) = saved.start, saved.end
    middle = (x1 + x2) / 2
    curve = f"M{_n(x1)} {_n(y1)}C{_n(middle)} {_n(y1)} {_n(middle)} {_n(y2)} {_n(x2)} {_n(y2)}"
    head = f"M{_n(x2)} {_n(y2)}L{_n(x2 - 6.5)} {_n(y2 - 3.2)}L{_n(x2 - 6.5)} {_n(y2 + 3.2)}Z"
    told = _title(f"{saved_words(saved)}: {_tensors(saved.nodes)}")
    return f'<g class="clg-saved"><path class="clg-l" d="{curve}">{told}</path><path class="clg-a" d="{head}"/></g>'


def _break(cut: Break, width: float) -> str:
    lines = (
        _words(14, cut.y + 19 + 17 * number, _text(line), "clg-code" if number else "clg-t")
        for number, line in enumerate(cut.lines)
    )
    return _rect("clg-break", (0, cut.y, width, cut.height), 4) + "".join(lines)


def _legend(sheet: Sheet) -> tuple[str, float]:
    """The colours that are there, in rows; and how tall that is."""
    present = {tint for panel in sheet.panels for tint in _tints(panel.picture)} - {Tint.INPUT, Tint.OUTPUT}
    x, y, parts = 0.0, 10.0, []
    for tint in (tint for tint in Tint if tint in present):
        wide = text_width(tint.value, TEXT) + 34
        if x and x + wide > max(sheet.width, _LEGEND_WIDTH):
            x, y = 0.0, y + 18
        parts.append(_rect(css_class(tint), (x, y - 9, 12, 12), 3) + _words(x + 18, y + 1, _text(tint.value)))
        x += wide
    if _pen(sheet, None).slowest:
        if x + text_width(_BAR, TEXT) + 34 > max(sheet.width, _LEGEND_WIDTH):
            x, y = 0.0, y + 18
        parts.append(_rect("clg-time", (x, y - 4, 18, 3), 1.5) + _words(x + 24, y + 1, _BAR))
    return "".join(parts), y + 12 if parts else 0.0


def _tints(picture: Picture) -> Iterator[Tint]:
    for drawn in picture.boxes:
        yield drawn.tint
        if drawn.inner:
            yield from _tints(drawn.inner)


# -- a picture


def _picture(picture: Picture, pen: _Pen) -> Iterator[str]:
    """Opened boxes below, then the lines, then the closed boxes."""
    for drawn in picture.boxes:
        if drawn.inner:
            yield from _opened(drawn, drawn.inner, pen)
    for line in picture.lines:
        yield from _line(line, picture)
    for caption in picture.captions:
        yield _words(caption.x, caption.y, _text(caption.text))
    for drawn in picture.boxes:
        if not drawn.inner:
            yield _linked(drawn, pen.href, "".join(_closed(drawn, pen)))


def _opened(drawn: Drawn, inner: Picture, pen: _Pen) -> Iterator[str]:
    style = css_class(drawn.tint)
    yield _stack(drawn, style) + _rect(f"{style} clg-frame", (drawn.x, drawn.y, drawn.width, drawn.height), 8)
    words = _words(drawn.x + 12, drawn.y + 19, _text(drawn.lines[0]), "clg-t")
    yield _linked(drawn, pen.href, words + _badge(drawn))
    left = (drawn.width - inner.width) / 2
    yield from _through(drawn, inner, left)
    yield _moved(drawn.x + left, drawn.y + HEADER, "\n".join(_picture(inner, pen)))


def _through(drawn: Drawn, inner: Picture, left: float) -> Iterator[str]:
    """The lines that come in and go out, from the frame to the picture inside; none through the frame's title."""
    above, below = ("out", "in") if inner.up else ("in", "out")
    title = text_width(drawn.lines[0], TITLE) + 16
    for x in dict.fromkeys(left + port for _, port in inner.ports[above]):
        start = drawn.y + (HEADER - 4 if x < title else 0)
        yield f'<path class="clg-l" d="{_path(((drawn.x + x, start), (drawn.x + x, drawn.y + HEADER)))}"/>'
    for x in dict.fromkeys(left + port for _, port in inner.ports[below]):
        start, end = drawn.y + HEADER + inner.height, drawn.y + drawn.height
        yield f'<path class="clg-l" d="{_path(((drawn.x + x, start), (drawn.x + x, end)))}"/>'


def _line(line: Line, picture: Picture) -> Iterator[str]:
    yield f'<path class="clg-l" d="{_path(line.points)}">{_title(_tensors(line.values))}</path>'
    if line.arrow:
        yield f'<path class="clg-a" d="{_arrow(line.points[-1], -1 if picture.up else 1)}"/>'


def _closed(drawn: Drawn, pen: _Pen) -> Iterator[str]:
    style, pill = css_class(drawn.tint), drawn.box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}
    yield _stack(drawn, style)
    yield _rect(style, (drawn.x, drawn.y, drawn.width, drawn.height), min(drawn.height / 2, 14) if pill else 5)
    if drawn.box.group:
        yield _rect(style, (drawn.x + 3, drawn.y + 3, drawn.width - 6, drawn.height - 6), 3)
    yield _time(drawn, pen)
    for number, line in enumerate(drawn.lines):
        place = (drawn.x + drawn.width / 2, drawn.y + 2 + LINE * (number + 1))
        yield _words(*place, _text(line), "" if number else "clg-t", "middle")
    yield _badge(drawn)


def _time(drawn: Drawn, pen: _Pen) -> str:
    """A bar along the foot of a box, the whole way for what takes longest."""
    if drawn.box.spent is None or not pen.slowest:
        return ""
    wide = (drawn.width - 12) * drawn.box.spent.microseconds / pen.slowest
    return _rect("clg-time", (drawn.x + 6, drawn.y + drawn.height - 9, max(wide, 1.0), 3), 1.5)


def _stack(drawn: Drawn, style: str) -> str:
    """Two more sheets behind a box that stands for several."""
    if drawn.box.repeats == 1:
        return ""
    return "".join(_rect(style, (drawn.x + off, drawn.y + off, drawn.width, drawn.height), 6) for off in (6, 3))


def _badge(drawn: Drawn) -> str:
    if drawn.box.repeats == 1:
        return ""
    place = (drawn.x + drawn.width - 10, drawn.y + (19 if drawn.inner else 17))
    return _words(*place, times(drawn.box.repeats), "clg-t", "end")


def _linked(drawn: Drawn, href: Href | None, inside: str) -> str:
    told = _title(facts(drawn.box))
    target = href(drawn.box) if href else ""
    return f'<a href="{_text(target)}">{told}{inside}</a>' if target else f"<g>{told}{inside}</g>"


def _tensors(nodes: Sequence[Node]) -> str:
    named = [f"{node.name} {' '.join(map(str, node.specs))}".strip() for node in nodes[:_NAMED]]
    more = [f"{len(nodes) - _NAMED} more"] if len(nodes) > _NAMED else []
    return one_line(", ".join(named + more))


# -- lines


def _path(points: Sequence[Point]) -> str:
    """A line through its points: straight where they are in line, else leaving and arriving upright."""
    told = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        if math.isclose(x1, x2, abs_tol=0.5) or math.isclose(y1, y2, abs_tol=0.5):
            told.append(f"L{_n(x2)} {_n(y2)}")
        else:
            bend = math.copysign(min(abs(y2 - y1) / 2, max(_BEND, abs(x2 - x1) / 2)), y2 - y1)
            told.append(f"C{_n(x1)} {_n(y1 + bend)} {_n(x2)} {_n(y2 - bend)} {_n(x2)} {_n(y2)}")
    return "".join(told)


def _arrow(end: Point, way: int) -> str:
    x, y = end
    return f"M{_n(x)} {_n(y)}L{_n(x - 3.2)} {_n(y - 6.5 * way)}L{_n(x + 3.2)} {_n(y - 6.5 * way)}Z"


# -- elements


def _moved(x: float, y: float, inside: str) -> str:
    return f'<g transform="translate({_n(x)} {_n(y)})">\n{inside}\n</g>'


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
