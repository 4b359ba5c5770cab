"""Measured times in pictures of kernels."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import made
import pytest
from msgspec.structs import replace

from compiler_lens import draw
from compiler_lens.facts.graphs.graph_choice import choose
from compiler_lens.facts.graphs.levels import levels
from compiler_lens.recording.model import CompileId
from compiler_lens.views.picture import labels
from compiler_lens.views.text import microseconds, percent

NAMES = ["gpt-default-profiled", "resnet-default-profiled"]


@pytest.fixture(params=NAMES)
def profiled(request):
    return made.recorded(request.param)


def known(recording, stage="kernels"):
    return levels(recording, choose(recording, stage).graph, kernels=True)


def boxes(found):
    return [box for group in found.groups() for box in found.level(group).boxes if box.group]


def test_boxes_have_what_their_launches_took(profiled):
    found = known(profiled)
    graph = found.flow.graph
    for box in boxes(found):
        if box.group.kernel and box.repeats == 1:
            assert box.group.kernel in [cost.kernel for cost in box.spent.launches]
            times = [cost.time.microseconds * cost.time.runs for cost in box.spent.launches]
            assert box.spent.microseconds == pytest.approx(sum(times))
    times = [
        t
        for t in profiled.profiles[-1].launches
        if t.compile_id == graph.compile_id and t.direction.value != "backward"
    ]
    assert boxes(found)[0].spent.whole == pytest.approx(sum(t.microseconds * t.runs for t in times))


@pytest.mark.parametrize("stage", ["kernels", "kernels_backward"])
def test_every_launch_is_in_a_box(stage):
    """Also the second half of a reduction, whose ops stand in the first, and a product that reads a later one's view."""
    for name in NAMES[:1] if stage == "kernels_backward" else NAMES:
        found = known(made.recorded(name), stage)
        spent = found.spent(0, len(found.flow.steps))
        assert spent.microseconds == pytest.approx(spent.whole)
        assert len(spent.launches) == len(found.costs)


def test_a_product_stands_in_its_own_launch():
    found = known(made.recorded("gpt-default-profiled"), "kernels_backward")
    for group in found.groups():
        names = {node.target for step in found.flow.steps[group.first : group.last] for node in step.nodes}
        if group.kernel and group.kernel.name.startswith("triton"):
            assert "torch.ops.aten.mm.default" not in names


def test_a_box_has_the_sum_of_those_inside(profiled):
    found = known(profiled)
    for box in boxes(found):
        inner = [each.spent for each in found.level(box.group).boxes if each.group and each.spent]
        if inner and box.repeats == 1 and not box.group.kernel:
            assert box.spent.microseconds == pytest.approx(sum(each.microseconds for each in inner))


def test_the_time_and_its_part_stand_in_the_box():
    recording = made.recorded("gpt-default-profiled")
    found, svg = known(recording), draw(recording, "kernels").svg
    by_name = {box.group.kernel.name if box.group.kernel else box.group.label: box for box in boxes(found)}
    box = by_name["triton_poi_fused_gelu_view_8"]
    (cost,) = box.spent.launches
    took = f"{microseconds(cost.total)}, {percent(cost.total, box.spent.whole)}"
    assert f">{took}<" in svg
    assert f">{len(found.flow.graph.ops)} ops, {microseconds(box.spent.whole)} per call<" in svg
    assert f">up · Linear · {labels.time_words(by_name['up'])}<" in svg
    told = re.search(r"<title>kernel triton_poi_fused_gelu_view_8\n(.*?)</title>", svg, re.DOTALL)[1]
    assert (
        f"{microseconds(cost.total)} per call, {percent(cost.total, box.spent.whole)} of the graph&#39;s kernels"
        in told
    )
    moved = re.search(r"\nmoves 16.0 MiB, ([\d.]+) TB/s, (\d+) % of what the device copies\nbound by memory", told)
    assert float(moved[1]) == pytest.approx(16 * 2**20 / cost.total / 1e6, rel=0.01)
    assert float(moved[2]) == pytest.approx(100 * cost.memory_share, abs=0.6)


def test_the_slowest_box_has_the_longest_bar():
    root = ET.fromstring(draw(made.recorded("gpt-default-profiled"), "kernels").svg)
    bars = {}
    for element in root.iter():
        own = list(element)
        found = [each for each in own if each.get("class") == "clg-time"]
        if found and own[0].tag.endswith("title"):
            outer = next(each for each in own if each.get("class", "").startswith("clg-kernel"))
            text = [each.text for each in own if each.tag.endswith("text")]
            bars[float(text[-1].split()[0])] = float(found[0].get("width")) / (float(outer.get("width")) - 12)
    assert len(bars) > 5
    slowest = max(bars)
    assert bars[slowest] == pytest.approx(1, abs=0.01)
    assert all(bars[took] == pytest.approx(took / slowest, abs=0.03) for took in bars)


def test_no_times_from_a_profile_that_measured_a_busy_machine():
    recording = made.recorded("gpt-default-profiled")
    profile = replace(recording.profiles[-1], spread=10 * recording.profiles[-1].microseconds)
    svg = draw(replace(recording, profiles=(profile,)), "kernels").svg
    assert "µs" not in svg
    assert "clg-time" not in svg.partition("</style>")[2]


def test_other_stages_have_no_times():
    svg = draw(made.recorded("gpt-default-profiled"), "post_grad").svg
    assert "µs" not in svg


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, True), (3, True)])
def test_boxes_that_are_alike_have_their_time_together(count, told):
    found = known(made.recorded("gpt-default-profiled"))
    box = next(box for box in boxes(found) if box.spent)
    assert labels.time_words(replace(box, members=box.members * count)).endswith(" together") == told


def test_kernels_of_what_was_measured_are_shown_first():
    recording = made.recorded("gpt-default-profiled")
    graph = next(graph for graph in recording.graphs if graph.stage.value == "post_grad")
    larger = replace(graph, compile_id=CompileId(7, 0), nodes=graph.nodes * 2)
    both = replace(recording, graphs=(*recording.graphs, larger))
    assert choose(both, "kernels").graph.compile_id == graph.compile_id
    assert choose(both, "post_grad").graph.compile_id == CompileId(7, 0)
