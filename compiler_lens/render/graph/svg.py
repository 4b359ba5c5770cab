"""A picture as an SVG file: no script, no font, no address outside of itself; light and dark as the reader's system is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from compiler_lens.analysis.levels import Box, BoxKind
from compiler_lens.render.graph import labels
from compiler_lens.render.graph.labels import Tint
from compiler_lens.render.graph.layout import Point
from compiler_lens.render.graph.measure import TEXT, text_width
from compiler_lens.render.graph.scene import HEADER, LINE, Drawn, Line, Picture
from compiler_lens.render.graph.sheet import Break, Saved, Sheet, saved_words
from compiler_lens.render.text import clean

Href = Callable[[Box], str]

_MARGIN = 18.0
_ROUND = 8.0
_TITLE_HEIGHT = 30.0
_LEGEND_HEIGHT = 30.0
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"

# Fill and edge, light and dark.
_COLOURS: Mapping[Tint, tuple[tuple[str, str], tuple[str, str]]] = {
    Tint.MATRIX: (("#fdf0e0", "#d9822b"), ("#3a2a18", "#e09a4f")),
    Tint.REDUCTION: (("#efe9fb", "#7c5cc4"), ("#2c2440", "#a48be0")),
    Tint.POINTWISE: (("#e6f4ea", "#4a9a62"), ("#1c3324", "#6fbf86")),
    Tint.VIEW: (("#f5f5f6", "#b4b8be"), ("#26282c", "#6a7078")),
    Tint.COPY: (("#e4f1f8", "#4a90b8"), ("#1a3040", "#6cb0d6")),
    Tint.RANDOM: (("#fce8ef", "#c45c86"), ("#3c1f2c", "#dd86a8")),
    Tint.OTHER: (("#fbf6d8", "#b09a2a"), ("#35301a", "#cdb84e")),
    Tint.MODULE: (("#ffffff", "#5b6b80"), ("#1d222a", "#8fa0b8")),
    Tint.KERNEL: (("#fffaf3", "#a05a2c"), ("#241d17", "#d09468")),
    Tint.INPUT: (("#ffffff", "#9aa4b0"), ("#181b20", "#7a8490")),
    Tint.OUTPUT: (("#ffffff", "#9aa4b0"), ("#181b20", "#7a8490")),
}


def to_svg(sheet: Sheet, title: str, *, note: str = "", href: Href | None = None) -> str:
    """A whole file. `href` gives where a box links to, "" for nowhere."""
    present = {tint for panel in sheet.panels for tint in _tints(panel.picture)}
    tints = [tint for tint in Tint if tint in present and tint not in {Tint.INPUT, Tint.OUTPUT}]
    legend, legend_height = _legend(tints, max(sheet.width, 420.0))
    title, note = labels.short(title, 90), labels.short(note, 120)
    heading = text_width(title, 15) + 16 + text_width(note, TEXT)
    width = max(sheet.width, heading, 420.0 if tints else 0) + 2 * _MARGIN
    height = sheet.height + 2 * _MARGIN + _TITLE_HEIGHT + legend_height
    left = (width - sheet.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="clg" width="{_n(width)}" height="{_n(height)}"'
        f' viewBox="0 0 {_n(width)} {_n(height)}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_style()}</style>",
        f'<rect class="clg-back" width="{_n(width)}" height="{_n(height)}"/>',
        f'<text class="clg-h" x="{_n(_MARGIN)}" y="{_n(_MARGIN + 11)}">{_text(title)}'
        f'<tspan class="clg-s" dx="12">{_text(note)}</tspan></text>',
        f'<g transform="translate({_n(left)} {_n(_MARGIN + _TITLE_HEIGHT)})">',
        *_sheet(sheet, href),
        "</g>",
        f'<g transform="translate({_n(_MARGIN)} {_n(height - legend_height - 4)})">{legend}</g>',
        "</svg>\n",
    ]
    return "\n".join(parts)


def _sheet(sheet: Sheet, href: Href | None) -> Iterator[str]:
    for saved in sheet.saved:
        yield _saved(saved)
    for panel in sheet.panels:
        if panel.title:
            x = panel.x if len(sheet.saved) else 0.0
            y = 12.0 if sheet.saved else panel.y - 12
            yield f'<text class="clg-t" x="{_n(x)}" y="{_n(y)}">{_text(panel.title)}</text>'
        yield from _picture(panel.picture, panel.x, panel.y, href)
    for cut in sheet.breaks:
        yield from _break(cut, sheet.width)


def _saved(saved: Saved) -> str:
    (x1, y1), (x2, y2) = saved.start, saved.end
    middle = (x1 + x2) / 2
    names = ", ".join(f"{node.name} {' '.join(map(str, node.specs))}".strip() for node in saved.nodes[:12])
    title = f"<title>{_text(labels.one_line(f'{saved_words(saved)}: {names}'))}</title>"
    curve = f"M{_n(x1)} {_n(y1)}C{_n(middle)} {_n(y1)} {_n(middle)} {_n(y2)} {_n(x2)} {_n(y2)}"
    head = f"M{_n(x2)} {_n(y2)}L{_n(x2 - 6.5)} {_n(y2 - 3.2)}L{_n(x2 - 6.5)} {_n(y2 + 3.2)}Z"
    return f'<g class="clg-saved"><path class="clg-l" d="{curve}">{title}</path><path class="clg-a" d="{head}"/></g>'


def _break(cut: Break, width: float) -> Iterator[str]:
    yield f'<rect class="clg-break" x="0" y="{_n(cut.y)}" width="{_n(width)}" height="{_n(cut.height)}" rx="4"/>'
    for number, line in enumerate(cut.lines):
        style = "clg-t" if not number else "clg-code"
        y = cut.y + 19 + 17 * number
        yield f'<text class="{style}" x="14" y="{_n(y)}">{_text(line)}</text>'


def fill(tint: Tint) -> tuple[str, str]:
    """The colours inside and round a box, on a light page."""
    return _COLOURS[tint][0]


def _style() -> str:
    light = "".join(_rules(0))
    dark = "".join(_rules(1))
    return (
        f".clg text{{font-family:{_FONT};font-size:{TEXT:g}px}}.clg .clg-t{{font-size:13px;font-weight:600}}"
        ".clg .clg-h{font-size:15px;font-weight:600}.clg .clg-s{font-size:11px;font-weight:400}"
        ".clg .clg-l{fill:none;stroke-width:1.2}.clg .clg-saved path{opacity:.75}.clg .clg-saved .clg-l{stroke-dasharray:4 3}"
        ".clg .clg-break{stroke-dasharray:6 4}.clg .clg-code{font-family:ui-monospace,'DejaVu Sans Mono',monospace}"
        ".clg a{cursor:pointer}.clg rect{stroke-width:1}"
        f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    )


def _rules(mode: int) -> Iterator[str]:
    back, ink, quiet, line = (
        ("#ffffff", "#1c2430", "#5c6878", "#93a0b0"),
        ("#14171c", "#e6eaf0", "#9aa6b6", "#667488"),
    )[mode]
    yield f".clg .clg-back{{fill:{back};stroke:none}}.clg text{{fill:{quiet}}}.clg .clg-t,.clg .clg-h{{fill:{ink}}}"
    cut, edge = (("#fdecec", "#cc4444"), ("#3a1d1f", "#e07070"))[mode]
    yield f".clg .clg-break{{fill:{cut};stroke:{edge}}}.clg .clg-saved .clg-l{{stroke:{edge}}}"
    yield f".clg .clg-saved .clg-a{{fill:{edge}}}"
    yield f".clg .clg-s{{fill:{quiet}}}.clg .clg-l{{stroke:{line}}}.clg .clg-a{{fill:{line}}}"
    yield f".clg .clg-frame{{fill-opacity:.45}}.clg .clg-halo{{stroke:{back}}}"
    for tint, colours in _COLOURS.items():
        fill, edge = colours[mode]
        yield f".clg .clg-{tint.name.lower()}{{fill:{fill};stroke:{edge}}}"


def _tints(picture: Picture) -> Iterator[Tint]:
    for drawn in picture.boxes:
        yield drawn.tint
        if drawn.inner:
            yield from _tints(drawn.inner)


def _picture(picture: Picture, x: float, y: float, href: Href | None) -> Iterator[str]:
    yield f'<g transform="translate({_n(x)} {_n(y)})">'
    for drawn in picture.boxes:
        if drawn.inner:
            yield from _frame(drawn, href)
    for line in picture.lines:
        yield from _line(line, picture)
    for caption in picture.captions:
        yield f'<text x="{_n(caption.x)}" y="{_n(caption.y)}">{_text(caption.text)}</text>'
    for drawn in picture.boxes:
        if not drawn.inner:
            yield _linked(drawn, href, "".join(_closed(drawn)))
    yield "</g>"


def _line(line: Line, picture: Picture) -> Iterator[str]:
    names = ", ".join(f"{node.name} {' '.join(map(str, node.specs))}".strip() for node in line.values[:12])
    path = _bezier(line.points) if picture.curved else _path(line.points)
    yield f'<path class="clg-l" d="{path}"><title>{_text(labels.one_line(names))}</title></path>'
    if line.arrow:
        yield f'<path class="clg-a" d="{_arrow(line.points[-1], -1 if picture.up else 1)}"/>'


def _frame(drawn: Drawn, href: Href | None) -> Iterator[str]:
    inner = drawn.inner
    if inner is None:
        return
    style = f"clg-{drawn.tint.name.lower()}"
    yield "".join(_stack(drawn, style))
    yield f'<rect class="{style} clg-frame" {_rect(drawn)} rx="{_n(_ROUND)}"/>'
    words = f'<text class="clg-t" x="{_n(drawn.x + 12)}" y="{_n(drawn.y + 19)}">{_text(drawn.lines[0])}</text>'
    yield _linked(drawn, href, words + "".join(_badge(drawn)))
    left = drawn.x + (drawn.width - inner.width) / 2
    title = text_width(drawn.lines[0], 13.0) + 16
    top, bottom = ("out", "in") if inner.up else ("in", "out")
    spans = ((top, drawn.y, drawn.y + HEADER), (bottom, drawn.y + HEADER + inner.height, drawn.y + drawn.height))
    for way, start, end in spans:
        for x in dict.fromkeys(left + port for _, port in inner.ports[way]):
            behind_title = way == top and x < drawn.x + title
            told = _path(((x, start + 26 if behind_title else start), (x, end)))
            yield f'<path class="clg-l" d="{told}"/>'
    yield from _picture(inner, left, drawn.y + HEADER, href)


def _closed(drawn: Drawn) -> Iterator[str]:
    box, style = drawn.box, f"clg-{drawn.tint.name.lower()}"
    pill = box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}
    yield from _stack(drawn, style)
    yield f'<rect class="{style}" {_rect(drawn)} rx="{_n(min(drawn.height / 2, 14) if pill else 5)}"/>'
    if box.group:
        yield f'<rect class="{style}" x="{_n(drawn.x + 3)}" y="{_n(drawn.y + 3)}" width="{_n(drawn.width - 6)}" height="{_n(drawn.height - 6)}" rx="3"/>'
    centre = drawn.x + drawn.width / 2
    for number, line in enumerate(drawn.lines):
        style = ' class="clg-t"' if not number else ""
        y = drawn.y + LINE * (number + 1) + (1 if not pill else 0)
        yield f'<text{style} x="{_n(centre)}" y="{_n(y)}" text-anchor="middle">{_text(line)}</text>'
    yield from _badge(drawn)


def _stack(drawn: Drawn, style: str) -> Iterator[str]:
    """Two more sheets behind a box that stands for several."""
    if drawn.box.repeats > 1:
        for off in (6.0, 3.0):
            moved = (
                f'x="{_n(drawn.x + off)}" y="{_n(drawn.y + off)}" width="{_n(drawn.width)}" height="{_n(drawn.height)}"'
            )
            yield f'<rect class="{style}" {moved} rx="6"/>'


def _badge(drawn: Drawn) -> Iterator[str]:
    if drawn.box.repeats > 1:
        x, y = drawn.x + drawn.width - 10, drawn.y + (19 if drawn.inner else 16)
        yield f'<text class="clg-t" x="{_n(x)}" y="{_n(y)}" text-anchor="end">\N{MULTIPLICATION SIGN}{drawn.box.repeats}</text>'


def _linked(drawn: Drawn, href: Href | None, inside: str) -> str:
    told = f"<title>{_text(labels.facts(drawn.box))}</title>"
    target = href(drawn.box) if href else ""
    if target:
        return f'<a href="{_attribute(target)}">{told}{inside}</a>'
    return f"<g>{told}{inside}</g>"


def _legend(tints: Sequence[Tint], width: float) -> tuple[str, float]:
    x, y, parts = 0.0, 10.0, []
    for tint in tints:
        wide = text_width(tint.value, TEXT) + 34
        if x and x + wide > width:
            x, y = 0.0, y + 18
        parts.append(
            f'<rect class="clg-{tint.name.lower()}" x="{_n(x)}" y="{_n(y - 9)}" width="12" height="12" rx="3"/>'
        )
        parts.append(f'<text x="{_n(x + 18)}" y="{_n(y + 1)}">{_text(tint.value)}</text>')
        x += wide
    return "".join(parts), y + 12 if tints else 0.0


# -- lines


def _path(points: Sequence[Point]) -> str:
    """A line through its points that leaves and arrives from above; corners round where it runs straight."""
    told = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    corner = 6.0
    for (x1, y1), (x2, y2) in pairwise(points):
        if math.isclose(x1, x2, abs_tol=0.5) or math.isclose(y1, y2, abs_tol=0.5):
            told.append(f"L{_n(x2)} {_n(y2)}")
        else:
            bend = math.copysign(min(abs(y2 - y1) / 2, max(corner, abs(x2 - x1) / 2)), y2 - y1)
            told.append(f"C{_n(x1)} {_n(y1 + bend)} {_n(x2)} {_n(y2 - bend)} {_n(x2)} {_n(y2)}")
    return "".join(told)


def _bezier(points: Sequence[Point]) -> str:
    told = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for start in range(1, len(points) - 2, 3):
        told.append("C" + " ".join(f"{_n(x)} {_n(y)}" for x, y in points[start : start + 3]))
    return "".join(told)


def _arrow(end: Point, way: int) -> str:
    x, y = end
    return f"M{_n(x)} {_n(y)}L{_n(x - 3.2)} {_n(y - 6.5 * way)}L{_n(x + 3.2)} {_n(y - 6.5 * way)}Z"


# -- text


def _rect(drawn: Drawn) -> str:
    return f'x="{_n(drawn.x)}" y="{_n(drawn.y)}" width="{_n(drawn.width)}" height="{_n(drawn.height)}"'


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0").replace("-0", "0") if text in {"-0.0"} else text.removesuffix(".0")


def _text(text: str) -> str:
    return escape(_allowed(clean(text)))


def _attribute(text: str) -> str:
    return escape(_allowed(clean(text)), {'"': "&quot;", "'": "&#39;"})


def _allowed(text: str) -> str:
    """Without the few characters that XML cannot hold."""
    return "".join(_xml(text))


def _xml(text: str) -> Iterable[str]:
    return (each if each not in "\ufffe\uffff" else "\ufffd" for each in text)
