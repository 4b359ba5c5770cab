"""How values are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from compiler_lens.views.parts import Kind
from compiler_lens.views.text import (
    duration,
    flops,
    how_often,
    microseconds,
    milliseconds,
    nbytes,
    number,
    per_second,
    percent,
    rate,
    seconds,
    times,
)

_FORMATS: Mapping[Kind, Callable[[float], str]] = {
    Kind.COUNT: lambda value: number(int(value)),
    Kind.TIMES: lambda value: times(int(value)) if value != 1 else "",
    Kind.SECONDS: seconds,
    Kind.MILLISECONDS: milliseconds,
    Kind.MICROSECONDS: microseconds,
    Kind.DURATION: duration,
    Kind.BYTES: nbytes,
    Kind.FLOPS: flops,
    Kind.BYTE_RATE: lambda value: rate(value, "B/s"),
    Kind.FLOP_RATE: lambda value: rate(value, "FLOP/s"),
    Kind.RUNS: how_often,
    Kind.SHARE: lambda value: percent(value, 1.0),
    Kind.RATIO: lambda value: f"{value:.2f}",
    Kind.RATE: per_second,
    Kind.GAIN: lambda value: f"{value:+,.1f} µs".replace("-", "\N{MINUS SIGN}") if value else "noise",
    Kind.ERROR: lambda value: f"{value:.1e}" if isfinite(value) else "not finite",
}


def written(value: float | None, kind: Kind) -> str:
    """Return a value with its unit; empty for None."""
    if value is None:
        return ""
    return _FORMATS[kind](value) if kind in _FORMATS else f"{value:,}"
