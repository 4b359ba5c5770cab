"""Colours and type of a picture: one sheet of CSS, with a light and a dark half; and how wide text is.

Text is measured without a browser: by the widest of the usual fonts (DejaVu Sans), so that it fits with all.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from compiler_lens.views.picture.tints import Tint

TITLE = 13.0
TEXT = 11.0
_NARROW = frozenset("ijl.,:;'|!()[]{} ftrI/\\·-")
_WIDE = frozenset("mwMW@%—…×→←")  # noqa: RUF001
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


def fill(tint: Tint) -> tuple[str, str]:
    """Return the colours inside and round a box, on a light page."""
    return _COLOURS[tint][0]


def css_class(tint: Tint) -> str:
    """Return the name that a kind of box has in the style sheet."""
    return f"clg-{tint.name.lower()}"


def style_sheet() -> str:
    """Return the style of every picture; its names begin with `clg`, so that they meet no others in a page."""
    light, dark = "".join(_rules(0)), "".join(_rules(1))
    return (
        f".clg text{{font-family:{_FONT};font-size:{TEXT:g}px}}.clg .clg-t{{font-size:13px;font-weight:600}}"
        ".clg .clg-h{font-size:15px;font-weight:600}.clg .clg-s{font-size:11px;font-weight:400}"
        ".clg .clg-l{fill:none;stroke-width:1.2}"
        ".clg .clg-saved path{opacity:.75}.clg .clg-saved .clg-l{stroke-dasharray:4 3}"
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
    yield f".clg .clg-time{{fill:{edge};stroke:none}}"
    yield f".clg .clg-saved .clg-a{{fill:{edge}}}"
    yield f".clg .clg-s{{fill:{quiet}}}.clg .clg-l{{stroke:{line}}}.clg .clg-a{{fill:{line}}}"
    yield ".clg .clg-frame{fill-opacity:.45}"
    for tint, colours in _COLOURS.items():
        inside, edge = colours[mode]
        yield f".clg .{css_class(tint)}{{fill:{inside};stroke:{edge}}}"


def text_width(text: str, size: float) -> float:
    """Return the width of a line in this size, rather more than less, in pixels."""
    return size * fsum(map(_relative, text))


def _relative(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.0
    if character.isascii():
        return 0.72 if character.isupper() else 0.65
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.8


def lines_width(lines: Sequence[str]) -> float:
    """Return the width of lines below one another, the first of them a title, in pixels."""
    return max(text_width(line, TEXT if number else TITLE) for number, line in enumerate(lines))
