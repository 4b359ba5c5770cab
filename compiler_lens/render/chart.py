"""Bar charts as SVG: one text without script, font or file of somebody else's, the same for the same values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from msgspec import Struct

from compiler_lens.facts.measured.modes import Comparison, choose, speedup
from compiler_lens.views.text import number, one_line

_WIDTH = 760
_MARGIN = 24
_LETTER = 7.4  # of the labels' font, on average: labels are cut by it, not measured
_LONGEST = 34  # letters of a label
_BAR, _STEP = 18, 30
_HEAD, _AXIS = 34, 26  # above and below the bars of a panel
_TICKS = 5
_VALUE = 150  # room after the longest bar

_NOT_XML = dict.fromkeys((0xFFFE, 0xFFFF))  # no document may have them, not even escaped

_STYLE = """\
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.page{fill:#fff}.title{font-size:16px;font-weight:600}.panel{font-weight:600}.dim{fill:#59636e;font-size:12px}
.grid{stroke:#d9dee3}.bar{fill:#6b9bd1}.best{fill:#1f7a4d}.eager{fill:#a3abb4}.spread{stroke:#1f2328;stroke-width:1.5}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.dim{fill:#9198a1}.grid{stroke:#30363d}
.bar{fill:#4a7fbd}.best{fill:#3fb579}.eager{fill:#6e7681}.spread{stroke:#e6edf3}}"""


class Bar(Struct, frozen=True):
    """One bar, with what is written beside it."""

    label: str
    value: float | None  # None: there is none, `words` say why
    words: str
    low: float = 0.0  # of the spread
    high: float = 0.0
    kind: str = "bar"  # its class in the style


class Panel(Struct, frozen=True):
    """Bars on one scale."""

    title: str
    bars: Sequence[Bar]


def bar_chart(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """Return the chart as SVG."""
    left = _MARGIN + 12 + _LETTER * max((len(_label(bar)) for panel in panels for bar in panel.bars), default=0)
    drawn, top = [], 72.0
    for panel in panels:
        drawn += _panel(panel, left, top)
        top += _HEAD + _STEP * len(panel.bars) + _AXIS + 16
    heads = [_text(_MARGIN, 34, title, "title"), _text(_MARGIN, 54, subtitle, "dim")]
    body = "\n".join([f'<rect class="page" width="{_WIDTH}" height="{top:.0f}"/>', *heads, *drawn])
    size = f'width="{_WIDTH}" height="{top:.0f}" viewBox="0 0 {_WIDTH} {top:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="clg-chart" {size} role="img" aria-label="{_safe(title)}">'
    return f"{head}\n<style>{_STYLE}</style>\n{body}\n</svg>\n"


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    ends = [max(bar.value, bar.high) for bar in panel.bars if bar.value is not None]
    step, count = _scale(max(ends, default=0.0))
    unit = (_WIDTH - _MARGIN - _VALUE - left) / (step * count)
    bottom = top + _HEAD + _STEP * len(panel.bars)
    drawn = [_text(_MARGIN, top + 18, panel.title, "panel")]
    for tick in range(count + 1):
        x = left + tick * step * unit
        drawn.append(_line("grid", x, top + _HEAD - 4, x, bottom))
        drawn.append(_text(x, bottom + 16, f"{tick * step:.6g}", "dim", "middle"))
    for place, bar in enumerate(panel.bars):
        drawn += _bar(bar, left, top + _HEAD + _STEP * place, unit)
    return drawn


def _bar(bar: Bar, left: float, top: float, unit: float) -> list[str]:
    middle = top + _BAR / 2
    drawn = [_text(left - 10, middle + 4.5, _label(bar), "", "end")]
    if bar.value is None:
        return [*drawn, _text(left + 8, middle + 4.5, one_line(bar.words, 60), "dim")]
    end = left + max(bar.value * unit, 1.0)
    drawn.append(f'<rect class="{bar.kind}" x="{left:.1f}" y="{top:.1f}" width="{end - left:.1f}" height="{_BAR}"/>')
    if bar.high > bar.low:
        first, last = left + bar.low * unit, left + bar.high * unit
        drawn.append(_line("spread", first, middle, last, middle))
        drawn += [_line("spread", x, middle - 4, x, middle + 4) for x in (first, last)]
        end = max(end, last)
    return [*drawn, _text(end + 8, middle + 4.5, bar.words, "")]


def _label(bar: Bar) -> str:
    return one_line(bar.label, _LONGEST)


def _scale(highest: float) -> tuple[float, int]:
    """A round distance between ticks, and how many of them reach the highest value."""
    if not highest > 0 or not math.isfinite(highest):
        return 1.0, 1
    raw = highest / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    return step, math.ceil(highest / step)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(one_line(text).translate(_NOT_XML))


# -- modes


def modes_chart(comparison: Comparison, title: str = "") -> str:
    """Return the times of all rows as SVG, a panel for each phase."""
    best = choose(comparison)
    where = ", ".join(part for part in (comparison.device, f"torch {comparison.torch}") if part)
    panels = [_of_phase(comparison, phase, best.row.name if best else "") for phase in comparison.phases]
    green = "; green: the one to use" if best else ""
    subtitle = f"{where}. Bars: medians; lines on them: quartiles{green}."
    return bar_chart(title or "Modes of torch.compile", subtitle, panels)


def _of_phase(comparison: Comparison, phase: str, best: str) -> Panel:
    timings = [timing for row in comparison.rows if (timing := row.timing(phase)) and not row.failure]
    longest = max((timing.median for timing in timings), default=0.0)
    factor, unit = next(((f, u) for f, u in ((1.0, "s"), (1e3, "ms")) if longest * f >= 1), (1e6, "µs"))
    title = f"{phase}, {unit}, shorter is faster"
    if any(timing.tokens for timing in timings):
        title = f"{phase}, tokens/s, longer is faster"
    bars = []
    for row in comparison.rows:
        kind = "best" if row.name == best else "eager" if row.is_eager else "bar"
        timing = row.timing(phase)
        if timing is None or row.failure:
            bars.append(Bar(row.name, None, f"failed: {row.failure}" if row.failure else "not measured"))
            continue
        low, median, high = (seconds * factor for seconds in timing.quartiles)
        words = f" {unit}"
        if timing.tokens:
            low, median, high = (timing.tokens / seconds for seconds in reversed(timing.quartiles))
            words = ""
        gain = None if row.is_eager else speedup(row, comparison.eager, phase)
        if gain:
            words += f" · {gain:.2f} × eager"  # noqa: RUF001
        value = number(round(median)) if median >= 1000 else f"{median:.3g}"  # noqa: PLR2004
        bars.append(Bar(row.name, median, f"{value}{words}", low, high, kind))
    return Panel(title, bars)
