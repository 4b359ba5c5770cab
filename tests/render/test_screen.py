"""What the one screen chooses to show, and that its counts add up: whatever the gold files say."""

from __future__ import annotations

import re

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.overview.source_view import source_view
from compiler_lens.recording.model import (
    AutotuneChoice,
    AutotuneResult,
    CacheLayer,
    CacheOutcome,
    CacheResult,
    CaptureProblem,
    CudagraphOutcome,
    CudagraphState,
    Direction,
    KernelKind,
    Outcome,
    Recording,
    Span,
    Unavailable,
)
from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import Page


def lines(recording: Recording, width: int = 120) -> list[str]:
    return report(recording, width=width, color=False).splitlines()


def section(recording: Recording, name: str) -> list[str]:
    """The lines of one section, its title first; empty without it."""
    found = [block.splitlines() for block in report(recording, width=120, color=False).split("\n\n")]
    return next((block for block in found if block[0].startswith(name)), [])


def more(block: list[str]) -> int:
    """How many the last line of a section says are not shown."""
    counts = [re.search(r"… ([\d,]+) more", line) for line in block]
    return sum(int(count[1].replace(",", "")) for count in counts if count)


def compiled(count: int, **more: object) -> Recording:
    made = tuple(samples.compilation(i, function=f"step_{i}", seconds=float(i + 1)) for i in range(count))
    return Recording(compilations=made, **more)


def breaking(places: int, times: int = 1) -> Recording:
    """Breaks at several lines, each in functions of its own."""
    breaks = [
        samples.graph_break(i, samples.PRINTING, 20 + i // times, f"print({i // times})") for i in range(places * times)
    ]
    return compiled(places * times, graph_breaks=tuple(breaks))


def test_the_headline_counts_what_there_is_and_leaves_out_what_there_is_not():
    assert lines(compiled(2))[1] == "Both functions compiled."
    assert lines(compiled(3))[1:3] == ["All 3 functions compiled.", "0 graphs, 0 kernels, 6.00 s spent compiling."]
    owner = samples.compile_id(0)
    one = compiled(
        1, graphs=(samples.graph(owner, samples.GraphStage.DYNAMO, 4),), kernels=(samples.kernel(owner, "k"),),
        graph_breaks=(samples.graph_break(0, samples.PRINTING, 20, "print()"),),
        recompiles=(samples.recompile(0, 1, "8", "4"),),
    )  # fmt: skip
    assert lines(one)[2].startswith("1 graph, 1 graph break, 1 recompile, 1 kernel, ")


@pytest.mark.parametrize(("places", "times", "told"), [(2, 1, "2 graph breaks,"), (2, 3, "6 graph breaks at 2 lines,")])
def test_places_are_counted_where_there_are_fewer_than_breaks(places, times, told):
    assert told in " ".join(lines(breaking(places, times))[1:5])


def test_a_line_with_two_causes_is_one_line_wherever_lines_are_counted():
    breaks = [
        samples.graph_break(i, cause, 20, "f(x)") for i, cause in enumerate((samples.PRINTING, samples.BRANCHING))
    ]
    twice = compiled(2, graph_breaks=tuple(breaks))
    assert "2 graph breaks at 1 line," in lines(twice)[2]
    assert section(twice, "Graph breaks")[0] == "Graph breaks  2 breaks at 1 line"
    assert view(twice, "breaks", Page(120)).startswith("Graph breaks  2 breaks at 1 line, costliest first")
    (file,) = [one for one in source_view(twice) if one.cards]
    assert (len(file.cards), file.broken_lines) == (2, 1)
    assert "2 graph breaks at 1 line," in view(twice, "source", Page(120))


@pytest.mark.parametrize(
    ("hits", "told"), [((0, 0), "(cold)"), ((1, 1), "(warm)"), ((1, 0), "(partly warm: 1 of 2 from cache)")]
)
def test_the_headline_says_how_much_came_from_caches(hits, told):
    found = tuple(
        CacheOutcome(samples.compile_id(i), CacheLayer.FX_GRAPH, CacheResult.HIT if hit else CacheResult.MISS)
        for i, hit in enumerate(hits)
    )
    assert lines(compiled(2, caches=found))[2].endswith(f"spent compiling {told}.")


def test_lookups_are_counted_by_layer_with_those_that_no_cache_took():
    asked = [
        (CacheLayer.FX_GRAPH, CacheResult.HIT), (CacheLayer.FX_GRAPH, CacheResult.MISS),
        (CacheLayer.FX_GRAPH, CacheResult.BYPASS), (CacheLayer.AOT_AUTOGRAD, CacheResult.MISS),
    ]  # fmt: skip
    found = tuple(CacheOutcome(samples.compile_id(0), *one) for one in asked)
    block = section(replace(samples.clean(), caches=found), "Compile time")
    assert "  cache lookups: AOTAutograd 0 of 1 hit, FX graph 1 of 3 hit (1 bypassed)" in block
    assert not any("lookups" in line for line in section(replace(samples.clean(), caches=()), "Compile time"))


def test_what_there_is_nothing_of_has_no_section():
    titles = [block.split()[0] for block in report(compiled(3), width=120, color=False).split("\n\n")]
    assert titles == ["compiler_lens", "Compilations", "Next"]
    untimed = Span(samples.compile_id(0), "dynamo", 0.0, 0.0)
    assert not section(compiled(3, spans=(untimed,)), "Compile time")


def test_a_screen_shows_as_many_places_as_it_has_room_for_and_counts_the_rest():
    few = section(breaking(4), "Graph breaks")
    assert few[0] == "Graph breaks  4 breaks at 4 lines"
    assert [f"print({i})" in "\n".join(few) for i in range(4)] == [True] * 4
    assert more(few) == 0
    many = section(breaking(30), "Graph breaks")
    shown = sum("in step" in line for line in many)
    assert 0 < shown < 30
    assert shown + more(many) == 30
    assert many[-1].endswith(f"… {30 - shown} more lines: compiler-lens show REC breaks")


def test_of_many_compilations_those_that_failed_and_the_slowest_are_shown_in_the_order_of_their_ids():
    made = [samples.compilation(i, function=f"step_{i}", seconds=float(i % 50)) for i in range(200)]
    made[3] = replace(made[3], outcome=Outcome.FAILED, seconds=0.01, reason="no")
    made[70] = replace(made[70], seconds=500.0)
    block = section(Recording(compilations=tuple(made)), "Compilations")
    assert block[0] == "Compilations  200, with ops per graph"
    ids = [line.split()[0] for line in block if line.strip().startswith("[")]
    assert ids[:1] == ["[3/0]"]
    assert "[70/0]" in ids
    assert ids == sorted(ids, key=lambda one: int(one[1:].partition("/")[0]))
    assert len(ids) + more(block) == 200
    slowest = sorted(range(200), key=lambda i: (i in {3, 70}, i % 50), reverse=True)
    assert sorted(ids) == sorted(f"[{i}/0]" for i in slowest[: len(ids)]), "then the slowest"


def test_kernels_that_fuse_are_shown_and_the_others_counted():
    owner = samples.compile_id(0)
    kernels = (
        samples.kernel(owner, "one_op", ("aten.add.Tensor",)),
        samples.kernel(owner, "two_ops", ("aten.add.Tensor", "aten.mul.Tensor")),
        samples.kernel(owner, "library", ("aten.mm.default", "aten.add.Tensor"), KernelKind.EXTERN),
        *(samples.kernel(owner, "again", ("aten.add.Tensor", "aten.sin.default", "aten.mul.Tensor")) for _ in range(3)),
    )
    block = section(compiled(1, kernels=kernels), "Kernels")
    assert block[0] == "Kernels  6 with 6 launches: 5 C++, 1 extern"
    assert [line.split()[0] for line in block[1:3]] == ["again", "two_ops"]
    assert block[1].split()[-1] == "\u00d73"
    assert "3 ops  add, sin, mul" in block[1]
    assert "\u00d7" not in block[2]
    assert more(block) == 2
    assert more(section(compiled(1, kernels=kernels[:2]), "Kernels")) == 1
    assert not any("one_op" in line or "library" in line for line in block)


def test_cuda_graphs_and_autotuning_are_told_below_the_kernels():
    owner = samples.compile_id(0)
    states = (CudagraphState.CAPTURED, CudagraphState.CAPTURED, CudagraphState.SKIPPED)
    mm = AutotuneChoice("mm", KernelKind.EXTERN, 0.5)
    tuned = AutotuneChoice("triton_mm_1", KernelKind.TEMPLATE, 0.25)
    failed = AutotuneResult(owner, "bmm", (), (AutotuneChoice("bmm", KernelKind.EXTERN, None),), 0.5)
    recording = compiled(
        1, kernels=(samples.kernel(owner, "k"),),
        cudagraphs=tuple(CudagraphOutcome(owner, Direction.FORWARD, state) for state in states),
        autotunes=(AutotuneResult(owner, "mm", (), (tuned, mm), 1.5, 1.0), AutotuneResult(owner, "mm", (), (mm,), 0.5), failed),
    )  # fmt: skip
    block = section(recording, "Kernels")
    assert "  CUDA graphs: 2 captured, 1 skipped" in block
    assert "  Autotuning: 4 choices for 3 ops in 3.50 s, won by template \u00d71, extern \u00d71" in block
    lost = section(replace(recording, autotunes=(failed,)), "Kernels")
    assert "  Autotuning: 1 choice for 1 op in 0.50 s, won by none" in lost


def test_gaps_are_counted_once_for_each_kind_the_most_frequent_first():
    problems = [*[CaptureProblem("guards", "odd")], *[CaptureProblem("graphs", "odd")] * 3]
    missing = [Unavailable("configs", "a cache hit")] * 2
    block = section(compiled(1, problems=tuple(problems), unavailable=tuple(missing)), "Gaps")
    assert [re.sub(r"\s+", " ", line) for line in block[1:]] == [
        " could not read graphs: odd \u00d73", " could not read guards: odd", " configs: a cache hit \u00d72",
    ]  # fmt: skip
    many = tuple(CaptureProblem(f"event_{i}", "odd") for i in range(40))
    lost = tuple(Unavailable(f"fact_{i}", "no") for i in range(30))
    block = section(compiled(1, problems=many, unavailable=lost), "Gaps")
    shown = sum("event_" in line or "fact_" in line for line in block)
    assert {"event_" in "".join(block), "fact_" in "".join(block)} == {True}
    assert shown + more(block) == 70


def test_the_phases_that_have_no_room_are_one_line_and_nothing_is_lost():
    block = section(samples.many(300), "Compile time")
    shares = [int(found[1]) for line in block if (found := re.search(r"(\d+) %", line))]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert any(re.match(r"\s+\d+ more ", line) for line in block)


def test_a_screen_that_is_full_gives_up_rows_before_the_advice():
    """The steps of what to do next come last, and are there however much there is to list."""
    text = lines(samples.many(500), width=80)
    assert len(text) <= 60
    steps = text[text.index("Next") :]
    assert [line for line in steps if re.match(r"  \d\. ", line)][2].startswith("  3. ")
    roomy = lines(breaking(5), width=120)
    assert sum(line.lstrip().startswith("\u00d71") for line in roomy) == 5
