"""The table of modes, its JSON and back, and its chart."""

import json
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from compiler_lens.facts.measured.modes import Comparison, Compiled, Deviation, Row, Timing
from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.model import SourceLine
from compiler_lens.render.chart import Bar, Panel, bar_chart, modes_chart
from compiler_lens.render.console import modes_report
from compiler_lens.render.results import Modes, comparison_of
from compiler_lens.views.text import duration

_SVG = "{http://www.w3.org/2000/svg}"
_EVIL = "max</text><script>alert('1')</script>&\x1b[31m\u202e\uffff\ufffe"


def row(name: str, seconds: float, **more: object) -> Row:
    times = ((seconds, seconds * 1.02), (seconds, seconds * 1.04))
    return Row(name, timings=(Timing("call", times),), **more)


def result(*more: Row, **fields: object) -> Comparison:
    rows = (
        row("eager", 0.0101, deviation=Deviation(5e-3, 0.1), peak_bytes=2**20, cold_seconds=0.0, warm_seconds=0.0),
        row(
            "reduce-overhead", 0.0031, cold_seconds=62.0, warm_seconds=3.0, peak_bytes=3 * 2**20,
            compiled=Compiled(graphs=2, breaks=1, kernels=12, launches=20, captured=1, skipped=("mutated inputs",)),
            deviation=Deviation(4e-3, 0.2), arguments={"mode": "reduce-overhead"},
        ),
        row("max-autotune", 0.00309, cold_seconds=274.0, warm_seconds=9.0),
        Row("default", failure="OutOfMemoryError: no room for 20 GiB", failure_line=SourceLine("/m/net.py", 7)),
        *more,
    )  # fmt: skip
    return Comparison(rows, ("call",), "A100", "2.11", reference="fp64", orders=(("eager",),), **fields)


def modes_json(comparison: Comparison) -> str:
    return Modes.of(comparison, {}, {}).to_json()


def test_the_table_says_what_to_use_last() -> None:
    text = modes_report(result(), width=80, color=False)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "3.26" in text
    assert "net.py:7: OutOfMemoryError: no room for 20 GiB" in text
    assert "1 of 2" in text
    assert "reduce-overhead, no CUDA graph: mutated inputs" in text
    assert " ".join(text.split()).endswith(
        "Use reduce-overhead: 3.26 × eager, earned back after 8,770 calls with empty caches; "  # noqa: RUF001
        "max-autotune is not above noise of it and costs 3 min 32 s more to compile"
    )


def test_a_phase_keeps_the_name_it_was_given() -> None:
    timed = Comparison((Row("eager", timings=(Timing("timeToFirst", ((1.0,),)),)),), ("timeToFirst",))
    assert modes_report(timed, width=80, color=False).startswith("TimeToFirst ")


def test_columns_that_say_nothing_are_left_out() -> None:
    text = modes_report(Comparison((row("eager", 1.0), row("default", 2.0)), ("call",)), width=80, color=False)
    assert "peak memory" not in text
    assert "CUDA" not in text
    assert "tokens/s" not in text


def test_what_others_wrote_cannot_act() -> None:
    shown = result(Row(_EVIL, failure=f"{_EVIL}\nsecond line"), notes=(_EVIL,))
    assert "\x1b" not in modes_report(shown, width=100, color=False)
    assert "\u202e" not in modes_report(shown, width=100, color=False)
    drawn = modes_chart(shown, _EVIL)
    assert "<script" not in drawn
    ET.fromstring(drawn)


def test_json_comes_back_as_it_was() -> None:
    before = result(diffs_told={"max-autotune": ("2 kernels differ",)}, notes=("a note",))
    text = modes_json(before)
    data = json.loads(text)
    assert (data["view"], data["best"], data["best_because"]) == ("modes", "reduce-overhead", "cheapest")
    assert [each["break_even_cold"] for each in data["rows"]] == [None, 8770, 38701, None]
    after = comparison_of(text)
    assert after == before
    assert modes_report(after, width=80, color=False) == modes_report(before, width=80, color=False)
    assert modes_chart(after) == modes_chart(before)


def test_an_infinite_error_survives_json() -> None:
    wrong = row("wrong", 1.0, deviation=Deviation(float("inf"), float("inf")))
    assert comparison_of(modes_json(result(wrong))).row("wrong") == wrong


def test_json_of_the_first_format_is_still_read() -> None:
    data = json.loads(modes_json(result())) | {"format": 1}
    data["rows"][3]["failure_line"] = {"file": "/m/net.py", "line": 7, "function": "", "code": ""}
    assert comparison_of(json.dumps(data)) == result()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"view": "modes", "format": 1}', '{"view": "what_if", "format": 1}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RecordingFileError):
        comparison_of(text)


def test_a_chart_has_a_bar_for_each_row_that_ran() -> None:
    drawn = ET.fromstring(modes_chart(result()))
    kinds = [rect.get("class") for rect in drawn.iter(f"{_SVG}rect")]
    assert kinds == ["page", "eager", "best", "bar"]
    texts = [text.text for text in drawn.iter(f"{_SVG}text")]
    assert "call, ms, shorter is faster" in texts
    assert any(text.startswith("failed: OutOfMemoryError") for text in texts if text)
    lengths = [float(rect.get("width", "")) for rect in drawn.iter(f"{_SVG}rect")][1:]
    assert lengths[0] / lengths[1] == pytest.approx(0.0101 / 0.0031, rel=0.02)


def test_rates_have_three_digits_and_a_speedup_says_of_what() -> None:
    def phases(factor: float) -> tuple[Timing, ...]:
        return Timing("prefill", ((factor, factor),), tokens=9263), Timing("decode", ((3.0, 3.0),), tokens=64)

    rows = (Row("eager", timings=phases(9.0)), Row("default", timings=phases(1.0), cold_seconds=1.0))
    told = modes_report(Comparison(rows, ("prefill", "decode")), width=120, color=False)
    assert "1,030" in told
    assert "9,260" in told
    assert "21.3" in told
    assert "Use default: 3.00 × eager over prefill and decode together, 12.0 s → 4.00 s, earned" in told  # noqa: RUF001


def test_a_phase_with_tokens_is_drawn_by_its_rate() -> None:
    timing = Timing("decode", ((0.5, 0.5),), tokens=64)
    drawn = modes_chart(Comparison((Row("eager", timings=(timing,)),), ("decode",)))
    assert "decode, tokens/s, longer is faster" in drawn
    assert ">128<" in drawn


@pytest.mark.parametrize("bars", [[], [Bar("none", None, "not measured")], [Bar("zero", 0.0, "0")]])
def test_a_chart_of_nothing_is_a_chart(bars: list[Bar]) -> None:
    ET.fromstring(bar_chart("title", "", [Panel("panel", bars)]))


def test_bars_stay_on_the_page() -> None:
    for highest in (1e-9, 0.3, 1.0, 7.7, 999.9, 1e12):
        drawn = ET.fromstring(bar_chart("t", "", [Panel("p", [Bar("b", highest, "v", highest * 0.9, highest * 1.1)])]))
        ends = [float(r.get("x", "0")) + float(r.get("width", "")) for r in drawn.iter(f"{_SVG}rect")]
        ends += [float(line.get("x2", "")) for line in drawn.iter(f"{_SVG}line")]
        assert max(ends) <= float(drawn.get("width", "")), highest


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (8.21e-6, "8.21 µs"),
        (1.24e-4, "0.124 ms"),
        (0.0124, "12.4 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1.00 s"),
        (75.0, "75.0 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_rows_that_are_default_by_another_name_are_told() -> None:
    same = Compiled(graphs=1, breaks=0, kernels=2, launches=2, same_as_default=True)
    rows = (row("eager", 1.0), row("default", 0.5, cold_seconds=9.0), row("max-autotune", 0.4, compiled=same))
    told = modes_report(Comparison(rows, ("call",)), width=100, color=False)
    assert "Use default: 2.00 × eager" in told  # noqa: RUF001
    assert " ".join(told.split()).endswith("; max-autotune: the same kernels as default")
    assert comparison_of(modes_json(Comparison(rows, ("call",)))).rows == rows


def test_passes_that_disagree_give_no_verdict() -> None:
    wild = replace(row("default", 1.0), timings=(Timing("call", ((1.0, 1.0), (1742.0, 1742.0))),))
    found = Comparison((row("eager", 2.0), wild), ("call",))
    told = modes_report(found, width=200, color=False)
    assert told.splitlines()[-1].startswith("No verdict: passes over the same row disagree 1,742 times. Measure again")
    assert "*" not in told
    assert "Use " not in told
    data = json.loads(modes_json(found))
    assert (data["best"], data["best_because"]) == (None, "unsteady")
    assert "the one to use" not in modes_chart(found)


def test_passes_that_differ_are_told() -> None:
    uneven = replace(row("eager", 1.0), timings=(Timing("call", ((1.0,), (4.0,))),))
    told = modes_report(Comparison((uneven,), ("call",)), width=100, color=False)
    assert "eager: up to 4 times slower in one pass than in another" in told
