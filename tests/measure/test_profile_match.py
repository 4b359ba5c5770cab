"""Whose time is it: real traces of an H200 with the recordings of what ran, and what they do not show."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.launches import running_order
from compiler_lens.measure.profile.match import Matched, Sample, match, with_keys
from compiler_lens.measure.profile.record import launch_times, median_and_spread, other_times
from compiler_lens.measure.profile.trace import Op, Ran, Range, Trace, read_trace
from compiler_lens.recording.ids import CodeId, LaunchId
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Kernel,
    KernelKind,
    Launch,
    OutputCode,
    ProfileNote,
    Recording,
    Remark,
    Trust,
)

DATA = Path(__file__).parent / "data"
GPU = Path(__file__).parent.parent / "gpu" / "data"
TRACES = {
    "gpt-default": GPU / "gpt-default-cold.clens.gz",
    "gpt-reduce-overhead": GPU / "gpt-reduce-overhead-cold.clens.gz",
    "resnet-default": DATA / "resnet-default.clens.gz",
    "resnet-reduce-overhead": DATA / "resnet-reduce-overhead.clens.gz",
    "resnet-max-autotune": DATA / "resnet-max-autotune.clens.gz",
}
CALLS = 2
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


def events(name: str) -> list[dict]:
    with gzip.open(DATA / f"{name}.trace.json.gz") as file:
        return json.load(file)["traceEvents"]


@cache
def recording(name: str) -> Recording:
    return load(TRACES[name], strict=True)


@cache
def matched(name: str) -> tuple[Trace, Matched]:
    found, trace = recording(name), read_trace(events(name))
    return trace, match(trace.ranges, with_keys(found), found.kernels)


def launches(found: Recording) -> set[LaunchId]:
    return {k.launch_id(index) for k in found.kernels for index in range(len(k.launches))}


@pytest.mark.parametrize("name", TRACES)
def test_every_launch_has_a_time_and_nothing_is_lost(name: str) -> None:
    trace, found = matched(name)
    assert found.samples.keys() == launches(recording(name))
    assert {len(samples) for samples in found.samples.values()} == {CALLS}
    assert not found.notes
    seen = [e["dur"] for e in events(name) if e["cat"] in DEVICE]
    told = [s.microseconds for samples in found.samples.values() for s in samples]
    told += [op.microseconds for op in (*found.others, *trace.others)]
    assert sum(told) == pytest.approx(sum(seen))
    assert trace.device_events == len(seen)


@pytest.mark.parametrize("name", TRACES)
def test_a_kernel_is_given_to_the_launch_of_its_name(name: str) -> None:
    _, found = matched(name)
    generated = {k.name for k in recording(name).kernels if k.kind in (KernelKind.TRITON, KernelKind.TEMPLATE)}
    for launch, samples in found.samples.items():
        if launch.kernel in generated:
            assert {sample.device_kernels for sample in samples} == {(launch.kernel[:100],)}
        else:
            assert not any("triton" in kernel for sample in samples for kernel in sample.device_kernels)


@pytest.mark.parametrize("name", TRACES)
def test_without_keys_graphs_are_known_by_their_kernels(name: str) -> None:
    found, (trace, by_key) = recording(name), matched(name)
    keyless = [replace(code, key="") for code in found.output_codes]
    by_names = match(trace.ranges, keyless, found.kernels)
    assert by_names.samples == by_key.samples
    assert {note.remark for note in by_names.notes} == {Remark.BY_NAMES}


def test_times_are_sure_where_ops_launched_the_kernels() -> None:
    for name in ("gpt-default", "resnet-default"):
        _, found = matched(name)
        assert {s.trust for samples in found.samples.values() for s in samples} == {Trust.EXACT}, name


def test_in_a_replay_two_library_calls_in_a_row_are_told_by_place() -> None:
    _, found = matched("gpt-reduce-overhead")
    doubtful = {launch.kernel for launch, samples in found.samples.items() if samples[0].trust is Trust.TEXT}
    assert doubtful == {
        "extern_kernels.mm", "extern_kernels.addmm", "torch.ops.aten._scaled_dot_product_cudnn_attention.default"
    }  # fmt: skip


def test_a_replay_gives_the_same_kernels_to_the_same_launches() -> None:
    def kernels(name: str) -> dict[tuple[object, ...], tuple[str, ...]]:
        _, found = matched(name)
        return {
            (s.code.direction, s.kernel, s.launch): tuple(k for k in samples[0].device_kernels if "emset" not in k)
            for s, samples in found.samples.items()
        }

    assert kernels("gpt-reduce-overhead") == kernels("gpt-default")


def test_copies_of_a_replays_inputs_are_no_kernels_of_the_graph() -> None:
    _, found = matched("resnet-reduce-overhead")
    assert Counter(op.name for op in found.others) == {"aten::_foreach_copy_": CALLS}


def test_a_backward_in_another_thread_is_found() -> None:
    trace, found = matched("gpt-default")
    assert Counter(one.region for one in trace.ranges) == {"0/0": CALLS, "": CALLS}
    assert {launch.code.direction for launch in found.samples} == {Direction.FORWARD, Direction.BACKWARD}


def test_other_work_goes_by_the_op_that_made_it() -> None:
    trace, _ = matched("gpt-default")
    assert {"aten::mean", "aten::square", "aten::ones_like"} <= {op.name for op in trace.others}


# -- what the traces do not show

ID = CompileId(0, 0)


def kernel(
    name: str, *lines: int, kind: KernelKind = KernelKind.TRITON, compile_id: CompileId = ID, **more: object
) -> Kernel:
    launches = tuple(Launch(line, ()) for line in lines)
    return Kernel(compile_id, Direction.INFERENCE, name, kind, launches=launches, **{"device": "cuda:0", **more})


def code(text: str = "", key: str = "k", compile_id: CompileId = ID) -> OutputCode:
    return OutputCode(compile_id, Direction.INFERENCE, text, key=key)


def library(name: str, *lines: int) -> Kernel:
    return kernel(name, *lines, kind=KernelKind.EXTERN)


def replay(*names: str, key: str = "k", region: str = "") -> Range:
    return Range(key, tuple(Ran(name, float(n)) for n, name in enumerate(names, 1)), region=region)


def launched(*pairs: tuple[str, tuple[str, ...]], key: str = "k") -> Range:
    ran = [Ran(name, 1.0, op) for op, (_, names) in enumerate(pairs) for name in names]
    return Range(key, tuple(ran), tuple(Op(op, 9.0) for op, _ in pairs))


def times(found: Matched) -> dict[tuple[str, int], list[float]]:
    return {(s.kernel, s.launch): [x.microseconds for x in samples] for s, samples in found.samples.items()}


def trusts(found: Matched) -> dict[tuple[str, int], Trust]:
    return {(s.kernel, s.launch): samples[-1].trust for s, samples in found.samples.items()}


def test_the_second_time_is_the_second_launch() -> None:
    found = match([replay("a", "b", "a")], [code()], [kernel("a", 1, 3), kernel("b", 2)])
    assert times(found) == {("a", 0): [1.0], ("b", 0): [2.0], ("a", 1): [3.0]}


def test_all_between_two_kernels_is_of_the_only_library_call_there() -> None:
    found = match(
        [replay("a", "Memset", "x", "y", "b")],
        [code()],
        [kernel("a", 1), library("extern_kernels.mm", 2), kernel("b", 3)],
    )
    assert times(found)["extern_kernels.mm", 0] == [9.0]
    assert trusts(found)["extern_kernels.mm", 0] is Trust.EXACT


def test_more_kernels_than_calls_are_shared_out_with_a_word_on_it() -> None:
    found = match(
        [replay("a", "x", "y", "z", "b")],
        [code()],
        [kernel("a", 1), library("extern_kernels.mm", 2, 3), kernel("b", 4)],
    )
    assert sum(sum(values) for values in times(found).values()) == 15.0
    assert trusts(found)["extern_kernels.mm", 1] is Trust.TEXT
    assert [note.remark for note in found.notes] == [Remark.BY_PLACE]


def test_fewer_kernels_than_calls_are_given_to_nobody() -> None:
    found = match(
        [replay("a", "x", "b")], [code()], [kernel("a", 1), library("extern_kernels.mm", 2, 3), kernel("b", 4)]
    )
    assert set(times(found)) == {("a", 0), ("b", 0)}
    assert [op.name for op in found.others] == ["x"]
    assert [note.remark for note in found.notes] == [Remark.TOO_FEW]


def test_parts_of_a_product_belong_to_it() -> None:
    ran = ("Memset (Device)", "gemm", "splitKreduce_kernel", "gemm")
    found = match([replay(*ran)], [code()], [library("extern_kernels.mm", 1, 2)])
    assert times(found) == {("extern_kernels.mm", 0): [6.0], ("extern_kernels.mm", 1): [4.0]}


def test_what_is_cleared_before_a_reduction_begins_a_call_of_its_own() -> None:
    # The reduction behind a cleared workspace is not the last part of the product before.
    ran = ("gemm", "Memset (Device)", "splitKreduce_kernel")
    found = match([replay(*ran)], [code()], [library("extern_kernels.mm", 1, 2)])
    assert times(found) == {("extern_kernels.mm", 0): [1.0], ("extern_kernels.mm", 1): [5.0]}


def test_a_reduction_before_any_product_and_a_clearing_behind_the_last_are_somebodys() -> None:
    ran = ("splitKreduce_kernel", "gemm", "Memset (Device)")
    found = match([replay(*ran)], [code()], [library("extern_kernels.mm", 1, 2, 3)])
    assert times(found) == {("extern_kernels.mm", n): [n + 1.0] for n in range(3)}


def test_library_calls_are_known_by_the_names_of_their_ops() -> None:
    one = launched(("aten::fill_", ("fill",)), ("aten::addmm", ("gemm", "reduce")), ("aten::topk", ("sort",)))
    found = match([one], [code()], [library("extern_kernels.bias_addmm", 1), library("torch.ops.aten.topk.default", 2)])
    assert times(found) == {("extern_kernels.bias_addmm", 0): [2.0], ("torch.ops.aten.topk.default", 0): [1.0]}
    assert set(trusts(found).values()) == {Trust.EXACT}
    assert [op.name for op in found.others] == ["aten::fill_"]


def test_ops_of_other_names_are_paired_in_order_if_there_are_as_many() -> None:
    found = match(
        [launched(("mine::a", ("x",)), ("mine::b", ("y",)))],
        [code()],
        [library("inductor_ops.one", 1), library("inductor_ops.two", 2)],
    )
    assert set(times(found)) == {("inductor_ops.one", 0), ("inductor_ops.two", 0)}


def test_between_replays_of_partitions_ops_are_known_by_name() -> None:
    one = Range(
        "k",
        (Ran("copy", 1.0, 0), Ran("a", 1.0), Ran("sort", 5.0, 1), Ran("gemm", 7.0), Ran("b", 1.0)),
        (Op("aten::_foreach_copy_", 9.0), Op("aten::sort", 9.0)),
    )
    kernels = [
        kernel("a", 1),
        library("torch.ops.aten.sort.default", 2),
        library("extern_kernels.mm", 3),
        kernel("b", 4),
    ]
    found = match([one], [code()], kernels)
    assert times(found)["torch.ops.aten.sort.default", 0] == [5.0]
    assert times(found)["extern_kernels.mm", 0] == [7.0]
    assert [op.name for op in found.others] == ["aten::_foreach_copy_"]


def test_two_graphs_in_one_call_and_one_of_them_twice() -> None:
    other = CompileId(1, 0)
    codes = [code(key="k"), code(key="other", compile_id=other)]
    found = match(
        [replay("a"), replay("a", key="other"), replay("a")], codes, [kernel("a", 1), kernel("a", 1, compile_id=other)]
    )
    runs = {time.compile_id: time.runs for time in launch_times(found, 1)}
    assert runs == {ID: 2.0, other: 1.0}


def test_of_two_compilations_with_one_code_the_region_decides() -> None:
    later = CompileId(0, 1)
    codes, kernels = [code(), code(compile_id=later)], [kernel("a", 1), kernel("a", 1, compile_id=later)]
    assert {s.code.compile_id for s in match([replay("a", region="0/0")], codes, kernels).samples} == {ID}
    assert {s.code.compile_id for s in match([replay("a", region="0/1")], codes, kernels).samples} == {later}
    for one in (replay("a", region="7/7"), replay("a")):
        assert {s.code.compile_id for s in match([one], codes, kernels).samples} == {later}
    doubtful = match([replay("a")], codes, kernels)
    assert Remark.BY_NAMES not in {n.remark for n in match([replay("a", region="7/7")], codes, kernels).notes}
    assert {s.code.compile_id for s in doubtful.samples} == {later}
    assert [note.remark for note in doubtful.notes] == [Remark.SAME_CODE]


def test_a_graph_of_somebody_else_belongs_to_nobody() -> None:
    found = match([replay("z", key="unknown")], [code()], [kernel("a", 1)])
    assert not found.samples
    assert [op.name for op in found.others] == ["z"]
    assert [note.remark for note in found.notes] == [Remark.UNKNOWN_GRAPH]


def test_a_users_triton_kernel_goes_by_its_own_name_on_the_device() -> None:
    source = "import triton\n@triton.jit\ndef scale(x):\n    pass\n"
    found = match([replay("scale")], [code()], [kernel("scale_0", 1, kind=KernelKind.USER, source=source)])
    assert times(found) == {("scale_0", 0): [1.0]}


def test_of_a_multi_kernel_the_chosen_one_runs() -> None:
    choices = [kernel("triton_red_fused_0"), kernel("triton_per_fused_0")]
    multi = kernel("multi_kernel_0", 1, meta={"choices": ["triton_red_fused_0", "triton_per_fused_0"]})
    found = match([replay("triton_per_fused_0")], [code()], [*choices, multi])
    assert times(found) == {("multi_kernel_0", 0): [1.0]}


def test_foreach_kernels_are_known_by_name() -> None:
    found = match([replay("triton_for_fused_0")], [code()], [kernel("triton_for_fused_0", 1, kind=KernelKind.FOREACH)])
    assert times(found) == {("triton_for_fused_0", 0): [1.0]}


def test_a_loop_runs_a_launch_more_often_than_it_stands_there() -> None:
    found = match([replay("a", "b", "a", "b")], [code()], [kernel("a", 1), kernel("b", 2)])
    assert times(found) == {("a", 0): [1.0, 3.0], ("b", 0): [2.0, 4.0]}
    assert set(trusts(found).values()) == {Trust.TEXT}
    assert ProfileNote(Remark.OTHER_COUNT, "a", 2, 1) in found.notes


def test_ops_of_the_cpu_count_where_no_device_is() -> None:
    kernels = [
        kernel("cpp_fused_0", 1, kind=KernelKind.CPP, device="cpu"),
        replace(library("extern_kernels.mm", 2), device="cpu"),
    ]
    one = Range("k", (), (Op("cpp_fused_0", 3.0), Op("aten::mm", 4.0), Op("aten::view", 0.5)))
    found = match([one], [code()], kernels)
    assert times(found) == {("cpp_fused_0", 0): [3.0], ("extern_kernels.mm", 0): [4.0]}
    assert [op.name for op in found.others] == ["aten::view"]


def test_beside_a_device_the_cpu_has_no_time_of_its_own() -> None:
    one = launched(("aten::empty", ()), ("a", ("a",)))
    found = match([one], [code()], [kernel("a", 1)])
    assert not found.others


def test_effort_grows_with_the_launches(calls_of: Callable[[Callable[[], object]], int]) -> None:
    def step(count: int, unknown: str = "") -> Callable[[], object]:
        kernels = [library(f"torch.ops.mine.op_{n}{unknown}.default", n) for n in range(count)]
        kernels += [kernel(f"k_{n}", count + n) for n in range(count)]
        ran = [(f"mine::op_{n}", ("x",)) for n in range(count)] + [(f"k_{n}", (f"k_{n}",)) for n in range(count)]
        one = launched(*ran)
        return lambda: match([one], [code()], kernels)

    for unknown in ("", "_other"):
        assert calls_of(step(400, unknown)) < 2.4 * calls_of(step(200, unknown))


def test_partitions_run_where_they_are_called() -> None:
    text = """\
def partition_0(args):
    a

def partition_1(args):
    b

class Runner:
    def call(self, args):
        self.partitions[0](x)
        c
        self.partitions[1](y)
"""
    order = running_order(text)
    assert sorted((2, 5, 10), key=order) == [2, 10, 5]


def test_keys_that_the_cache_was_asked_for() -> None:
    found = with_keys(recording("gpt-default"))
    trace, _ = matched("gpt-default")
    assert {one.key for one in trace.ranges} == {c.key for c in found}


def test_medians_and_quartiles() -> None:
    assert median_and_spread([]) == (0.0, 0.0)
    assert median_and_spread([3.0]) == (3.0, 0.0)
    assert median_and_spread([1.0, 2.0, 3.0, 4.0, 100.0]) == (3.0, 2.0)


def test_one_call_that_was_held_up_is_no_others_time() -> None:
    (time,) = other_times([Op("a", 1.0), Op("a", 1.0), Op("a", 500.0)], 3)
    assert (time.microseconds, time.runs) == (1.0, 1.0)


def test_work_of_one_name_and_several_sizes_adds_up() -> None:
    ops = [Op("aten::mm", us) for us in (1.0, 90.0, 2.0) * 3]
    (time,) = other_times(ops, 3)
    assert (time.microseconds, time.runs) == (93.0, 3.0)
    (time,) = other_times(ops, 9, rounds=3)  # three calls that differ, thrice each
    assert (time.microseconds, time.runs) == (31.0, 1.0)
    (time,) = other_times(ops[:4], 3)
    assert time.microseconds == pytest.approx(94 / 3)


def test_a_launch_that_is_of_another_size_in_each_call_takes_their_mean() -> None:
    launch = LaunchId(CodeId(ID, Direction.INFERENCE), "k", 0)
    samples = tuple(Sample(us, ("k",), Trust.EXACT) for us in (1.0, 90.0, 2.0) * 3)
    (time,) = launch_times(Matched({launch: samples}), 9, rounds=3)
    assert (time.microseconds, time.runs) == (31.0, 1.0)


# -- traces


def event(cat: str, name: str, ts: float, dur: float, **arguments: object) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": arguments}


CALL = "## Call CompiledFxGraph {} ##"


def test_a_kernel_is_in_the_range_that_launched_it_whenever_it_ran() -> None:
    trace = read_trace([
        event("cpu_op", CALL.format("one"), 0, 10, **{"External id": 1}),
        event("cuda_runtime", "launch", 2, 1, correlation=7),
        event("cpu_op", CALL.format("two"), 20, 10, **{"External id": 2}),
        event("kernel", "k", 25, 3, correlation=7),
    ])  # fmt: skip
    assert [(one.key, len(one.ran)) for one in trace.ranges] == [("one", 1), ("two", 0)]


def test_kernels_of_a_replay_are_told_apart_whatever_is_around_it() -> None:
    trace = read_trace([
        event("cpu_op", CALL.format("one"), 0, 10),
        event("user_annotation", "replay", 1, 8),
        event("cpu_op", "mine::replay", 2, 6),
        event("cuda_runtime", "cudaGraphLaunch", 3, 1, correlation=7),
        event("kernel", "k", 25, 3, correlation=7),
        event("kernel", "l", 29, 3, correlation=7),
    ])  # fmt: skip
    assert trace.ranges[0].ran == (Ran("k", 3.0), Ran("l", 3.0))


def test_on_newer_torch_a_range_is_an_annotation() -> None:
    trace = read_trace([event("user_annotation", CALL.format("one"), 0, 10)])
    assert [one.key for one in trace.ranges] == ["one"]


def test_a_launch_without_its_call_is_known_by_the_op() -> None:
    trace = read_trace([
        event("cpu_op", CALL.format("one"), 0, 10, **{"External id": 1}),
        event("cpu_op", "aten::mm", 1, 5, **{"External id": 2}),
        event("cpu_op", "aten::empty", 2, 1, **{"External id": 3}),
        event("kernel", "k", 25, 3, **{"External id": 3}),
        event("kernel", "lost", 29, 3),
    ])  # fmt: skip
    (one,) = trace.ranges
    assert one.ops == (Op("aten::mm", 5.0),)
    assert one.ran == (Ran("k", 3.0, 0),)
    assert trace.others == (Op("lost", 3.0),)


def test_of_two_that_begin_together_the_longer_is_around_the_other() -> None:
    trace = read_trace([event("cpu_op", "aten::mm", 0, 5), event("cpu_op", CALL.format("one"), 0, 10)])
    assert trace.ranges[0].ops == (Op("aten::mm", 5.0),)


def test_what_runs_at_the_same_time_is_busy_once() -> None:
    trace = read_trace([event("kernel", "k", 0, 10), event("kernel", "l", 5, 10), event("kernel", "m", 20, 1)])
    assert trace.busy_microseconds == 16.0


def test_on_a_cpu_the_outermost_ops_are_the_work() -> None:
    trace = read_trace(
        [
            event("cpu_op", "autograd::engine::evaluate_function: X", 0, 20),
            event("cpu_op", "aten::sum", 1, 10),
            event("cpu_op", "aten::copy_", 2, 3),
            event("user_annotation", "ProfilerStep#1", 0, 30),
        ],
        on_cpu=True,
    )
    assert trace.others == (Op("aten::sum", 10.0),)
    assert trace.busy_microseconds == 10.0
