"""How wide text is, without a browser: by the widest of the usual fonts (DejaVu Sans), so that it fits with all."""

from __future__ import annotations

import unicodedata
from math import fsum

TITLE = 13.0
TEXT = 11.0

_NARROW = frozenset("ijl.,:;'|!()[]{} ftrI/\\·-")
_WIDE = frozenset("mwMW@%—…×→←")  # noqa: RUF001


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
