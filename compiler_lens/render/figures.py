"""How values are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from compiler_lens.views import text
from compiler_lens.views.parts import Kind

_FORMATS: Mapping[Kind, Callable[[float], str]] = {
    Kind.COUNT: lambda value: text.number(int(value)),
    Kind.TIMES: lambda value: text.times(int(value)) if value != 1 else "",
    Kind.SECONDS: text.seconds,
    Kind.MILLISECONDS: text.milliseconds,
    Kind.MICROSECONDS: text.microseconds,
    Kind.DURATION: text.duration,
    Kind.BYTES: text.nbytes,
    Kind.FLOPS: text.flops,
    Kind.BYTE_RATE: lambda value: text.rate(value, "B/s"),
    Kind.FLOP_RATE: lambda value: text.rate(value, "FLOP/s"),
    Kind.RUNS: text.how_often,
    Kind.SHARE: lambda value: text.percent(value, 1.0),
    Kind.RATIO: lambda value: f"{value:.2f}",
    Kind.RATE: text.per_second,
    Kind.GAIN: lambda value: f"{value:+,.1f} µs".replace("-", "\N{MINUS SIGN}") if value else "noise",
    Kind.ERROR: lambda value: f"{value:.1e}" if isfinite(value) else "not finite",
}


def written(value: float | None, kind: Kind) -> str:
    """Return a value with its unit; empty for None."""
    if value is None:
        return ""
    return _FORMATS[kind](value) if kind in _FORMATS else f"{value:,}"
