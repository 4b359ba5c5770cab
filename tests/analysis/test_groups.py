"""Compilations and kernels that are the same, caches, and the choice of one of them."""

import json
import re
from pathlib import Path

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.kernels import (
    Costs,
    fused_op_count,
    kernel_groups,
    kernel_kinds,
    kernel_rows,
    launch_count,
)
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.compilations import compilation_rows, folded
from compiler_lens.facts.program.select import Selection, select_ids, select_kernels, select_stage
from compiler_lens.facts.time.caches import Warmth, cache_counts
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import (
    CacheLayer,
    CacheOutcome,
    CacheResult,
    CompileId,
    GraphStage,
    KernelKind,
    Recording,
)
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.render.page.context import PageContext
from compiler_lens.views.document import Section
from compiler_lens.views.registry import VIEWS

HIT, MISS, BYPASS = CacheResult.HIT, CacheResult.MISS, CacheResult.BYPASS


def test_a_row_counts_the_ops_of_each_graph_of_its_compilation():
    (row,) = compilation_rows(samples.clean())
    assert (row.dynamo_ops, row.forward_ops, row.backward_ops, row.kernels, row.seconds) == (34, 61, 97, 4, 16.875)


def test_a_compilation_without_graphs_has_the_op_count_that_torch_gave_and_no_others():
    (row,) = compilation_rows(Recording(compilations=(samples.compilation(0, op_count=7),)))
    assert (row.dynamo_ops, row.forward_ops, row.backward_ops) == (7, None, None)


def test_equal_rows_are_one_row_with_all_ids_and_all_seconds():
    rows = folded(compilation_rows(samples.broken()))
    schedule = next(row for row in rows if row.times == 8)
    assert schedule.seconds == 12.0
    assert sum(row.times for row in rows) == len(samples.broken().compilations)


def test_kernels_that_compute_the_same_are_one_group_and_the_largest_comes_first():
    groups = kernel_groups(samples.many(26).kernels)
    assert [group.op_count for group in groups] == sorted((group.op_count for group in groups), reverse=True)
    assert sum(len(group.kernels) for group in groups) == 78
    assert launch_count(samples.clean().kernels) == 4
    assert kernel_kinds(samples.clean().kernels) == ((KernelKind.CPP, "", 3), (KernelKind.EXTERN, "", 1))


def asked(*results):
    return Recording(
        caches=tuple(CacheOutcome(samples.compile_id(frame), layer, result) for frame, layer, result in results)
    )


AOT, FX = CacheLayer.AOT_AUTOGRAD, CacheLayer.FX_GRAPH


@pytest.mark.parametrize(
    ("lookups", "warmth"),
    [
        ([], Warmth.UNKNOWN),
        ([(0, AOT, MISS), (0, FX, MISS)], Warmth.COLD),
        ([(0, AOT, HIT)], Warmth.WARM),
        ([(0, AOT, MISS), (0, FX, HIT), (0, FX, HIT)], Warmth.WARM),
        ([(0, AOT, BYPASS), (0, FX, HIT), (0, FX, MISS)], Warmth.COLD),
        ([(0, AOT, HIT), (1, AOT, MISS)], Warmth.PARTLY),
    ],
)
def test_cold_or_warm_is_decided_per_compilation(lookups, warmth):
    assert cache_counts(asked(*lookups)).warmth is warmth


def test_a_compilation_is_chosen_by_its_id_or_all_of_a_frame_by_its_number():
    recording = samples.broken()
    assert select_ids(recording, "[0/1]") == {samples.compile_id(0, 1)}
    assert select_ids(recording, "0") == {samples.compile_id(0), samples.compile_id(0, 1)}


def test_what_is_not_there_is_an_error_that_says_what_is():
    recording = samples.clean()
    with pytest.raises(UsageError, match=r"no compilation '9/9' .*0/0"):
        select_ids(recording, "9/9")
    with pytest.raises(UsageError, match=r"dynamo, joint, forward, backward, post_grad. Did you mean forward"):
        select_stage(recording, select_ids(recording, "0/0"), "fordward")
    with pytest.raises(UsageError, match="Did you mean cpp_fused_add_mul_1"):
        select_kernels(recording, "cpp_fused_add_mul_7", None)


def test_a_name_that_is_the_last_one_left_out_is_not_left_out():
    kernels = tuple(samples.kernel(samples.compile_id(0), f"triton_{'fused_' * 9}{n}", ()) for n in range(2))
    with pytest.raises(UsageError, match=r"several names: it has triton_(fused_)*0, triton_(fused_)*1$"):
        select_kernels(Recording(kernels=kernels), "triton", None)


@pytest.mark.parametrize("name", ["gpt-default-profiled.clens.gz", "resnet-max-autotune-cold.trace.log.gz"])
def test_a_kernel_has_as_many_ops_wherever_they_are_counted(name):
    """Views are none, as in what is said of a line: nothing computes them."""
    told = load(Path(__file__).parent.parent / "gpu/data" / name, strict=True)
    matter = PageContext.of(told, (), "REC")
    lineages, costs = Provenance.of(told).lineages, Costs.of(told)
    page = page_for(told, width=100, color=False)
    told_of = {
        "report": {k.name: group.op_count for group in matter.summary.kernels for k in group.kernels},
        "kernels": {k.name: row.group.op_count for row in kernel_rows(lineages, costs) for k in row.group.kernels},
        "JSON": {row["name"]: row["ops"] for row in json.loads(view_json(told, "kernels"))["kernels"]},
        "kernel": {k.name: _ops(view(told, "kernel", page, Selection(kernel=k.name))) for k in told.kernels},
        "page": _ops_of_page(told),
    }
    if told.profiles:
        rows = json.loads(view_json(told, "profile"))["profile"]["kernels"]
        told_of["profile"] = {name: row["ops"] for row in rows for name in row["names"]}
    counts = told_of["report"]
    assert told_of == dict.fromkeys(told_of, counts)
    assert len(counts) > 10
    views = [k for k in told.kernels if fused_op_count(k) > counts[k.name]]
    assert views, "some have views among their nodes"


def _ops_of_page(told):
    documents = {view.name: view for view in VIEWS}["kernel"].documents(told, Selection(for_page=True))
    sections = [[block for block in each.blocks if isinstance(block, Section)] for each in documents]
    named = [next(one for one in each if one.title == "From your lines") for each in sections]
    return {kernel.name: _ops(one.summary) for kernel, one in zip(told.kernels, named, strict=True)}


def _ops(text):
    return int(re.search(r"computes ([\d,]+) op", text)[1])


def test_a_message_lists_compilations_by_number_and_no_more_names_than_a_line_holds():
    ids = [CompileId(f, r) for f in (10, 2) for r in (11, 3)] + [CompileId(0, 0, 1), CompileId(None, None)]
    recording = Recording(compilations=tuple(replace(samples.compilation(0), compile_id=i) for i in ids))
    with pytest.raises(UsageError, match=r"it has 2/3, 2/11, 10/3, 10/11, 0/0@1(\.|$)"):
        select_ids(recording, "9/9")
    long = tuple(samples.kernel(samples.compile_id(0), f"triton_{'fused_' * 20}{n}", ()) for n in range(3))
    with pytest.raises(UsageError, match=r"it has triton_(fused_)*0 and 2 more(\.|$)"):
        select_kernels(Recording(kernels=long), "9", None)
    many = tuple(replace(samples.compilation(0), compile_id=CompileId(n, 0)) for n in range(40))
    with pytest.raises(UsageError, match=r"it has 0/0, .*, 10/0 and 29 more") as told:
        select_ids(Recording(compilations=many), "99")
    assert len(str(told.value)) < 140


def test_a_stage_is_named_as_torch_or_as_a_person_writes_it():
    recording = samples.clean()
    assert select_stage(recording, select_ids(recording, "0/0"), "Post-Grad") is GraphStage.POST_GRAD
