"""What a kernel's time is spent on, its possible saving, and what to do."""

import pytest
from msgspec.structs import replace

from compiler_lens.facts.kernels.launch_costs import Bound, Doubt, launch_costs
from compiler_lens.facts.kernels.roofline import Advice, call_parts, roofline
from compiler_lens.recording.model import (
    BufferAccess,
    Ceilings,
    Compilation,
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    LaunchTime,
    Node,
    OtherTime,
    Outcome,
    Profile,
    ProfileNote,
    Recording,
    Remark,
    TensorSpec,
)

ID = CompileId(0, 0)
# 1 byte a nanosecond, 1 operation a picosecond: 1,000 bytes and a million operations each take a microsecond.
CEILINGS = Ceilings("a device", 1e9, {"f32": 1e12}, 2.0)


def kernel(
    name: str, *moved: int | None, kind: KernelKind = KernelKind.TRITON, aten: str = "aten.sin", **more: object
) -> Kernel:
    launches = tuple(
        Launch(n, ("a",), reads=(BufferAccess("a", m),), nodes=tuple(more.pop("nodes", ())))
        for n, m in enumerate(moved, 1)
    )
    return Kernel(ID, Direction.INFERENCE, name, kind, launches=launches, aten=(aten,), device="cuda:0", **more)


def timed(name: str, microseconds: float, launch: int = 0, runs: float = 1.0) -> LaunchTime:
    return LaunchTime(ID, Direction.INFERENCE, 0, name, launch, microseconds, 0.0, runs)


def profile(*launches: LaunchTime, total: float = 100.0, **more: object) -> Profile:
    busy = sum(t.microseconds * t.runs for t in launches) + sum(o.microseconds for o in more.get("others", ()))
    return Profile(10, total, 1.0, more.pop("busy", busy), launches, ceilings=CEILINGS, **more)


def product(side: int) -> Graph:
    spec = TensorSpec("f32", (side, side))
    a, b = (Node(name, "placeholder", name, specs=(spec,)) for name in "ab")
    mm = Node("mm", "call_function", "torch.ops.aten.mm.default", specs=(spec,), arguments="a, b")
    return Graph(ID, GraphStage.POST_GRAD, "", (a, b, mm))


def recording(*kernels: Kernel, mode: str = "default", graphs: tuple[Graph, ...] = ()) -> Recording:
    made = Compilation(ID, "f", "f.py", 1, Outcome.COMPILED, mode=mode)
    return Recording(kernels=kernels, compilations=(made,), graphs=graphs)


@pytest.mark.parametrize(
    ("moved", "took", "bound", "floor", "above"),
    [
        (8_000, 10.0, Bound.MEMORY, 8.0, 2.0),
        (8_000, 100.0, Bound.NEITHER, 8.0, 92.0),
        (8_000, 7.0, Bound.MEMORY, 8.0, 0.0),  # a cache served it
        (100, 2.1, Bound.LAUNCH, 2.0, 0.1),
        (100, 4.4, Bound.LAUNCH, 2.0, 2.4),  # the shortest launch twice, and a quarter for noise
        (100, 4.6, Bound.NEITHER, 2.0, 2.6),
        (2_000, 2.1, Bound.LAUNCH, 2.0, 0.1),
        (2_500, 2.75, Bound.MEMORY, 2.5, 0.25),
        (100, 40.0, Bound.NEITHER, 2.0, 38.0),
        (None, 10.0, Bound.UNKNOWN, None, 0.0),
    ],
)
def test_what_bounds_a_launch(moved: int | None, took: float, bound: Bound, floor: float | None, above: float) -> None:
    (cost,) = launch_costs(recording(kernel("k", moved)), profile(timed("k", took)))
    assert (cost.bound, cost.floor) == (bound, floor)
    assert cost.above == pytest.approx(above)


def test_a_product_is_bound_by_what_it_computes() -> None:
    found = recording(kernel("extern_kernels.mm", 1_000, kind=KernelKind.EXTERN, nodes=("mm",)), graphs=(product(100),))
    (cost,) = launch_costs(found, profile(timed("extern_kernels.mm", 2.5)))
    assert cost.work is not None
    assert cost.work.flops == 2_000_000
    assert cost.bound is Bound.LAUNCH  # 2 microseconds of work, and no launch is shorter
    found = recording(kernel("extern_kernels.mm", 1_000, kind=KernelKind.EXTERN, nodes=("mm",)), graphs=(product(200),))
    (cost,) = launch_costs(found, profile(timed("extern_kernels.mm", 20.0)))
    assert cost.bound is Bound.COMPUTE
    assert cost.floor == 16.0
    assert cost.compute_share == pytest.approx(0.8)
    assert cost.memory_share == pytest.approx(0.05)


def test_without_a_ceiling_for_its_type_a_product_is_not_judged() -> None:
    found = recording(kernel("extern_kernels.mm", 1_000, kind=KernelKind.EXTERN, nodes=("mm",)), graphs=(product(100),))
    unlike = Profile(
        1, 9.0, 0.0, 9.0, (timed("extern_kernels.mm", 9.0),), ceilings=Ceilings("d", 1e9, {"bf16": 1e12}, 2.0)
    )
    (cost,) = launch_costs(found, unlike)
    assert (cost.bound, cost.above) == (Bound.UNKNOWN, 0.0)


def test_the_most_to_gain_comes_first_and_equal_kernels_are_one_row() -> None:
    found = recording(kernel("few", 30_000, aten="aten.cos"), kernel("a", 4_000), kernel("b", 4_000, 4_000))
    result = roofline(
        found, profile(timed("few", 31.0), timed("a", 6.0), timed("b", 6.0), timed("b", 8.0, 1, runs=2.0))
    )
    first, second = result.groups
    assert {k.name for k in first.group.kernels} == {"a", "b"}
    assert first.above == pytest.approx(2 + 2 + 2 * 4)
    assert (first.total, first.runs) == (28.0, 4.0)
    assert first.bytes_per_second == pytest.approx(4 * 4_000 / 28.0 * 1e6)
    assert first.worst.time == timed("b", 8.0, 1, runs=2.0)
    assert second.above == pytest.approx(1.0)
    assert second.total > first.total
    assert first.flops_per_second is None


def test_a_time_of_a_kernel_that_is_not_here_is_left_out() -> None:
    assert launch_costs(recording(), profile(timed("gone", 1.0))) == ()


def test_the_parts_of_a_call() -> None:
    parts = call_parts(profile(timed("k", 10.0, runs=3.0), total=100.0, others=(OtherTime("aten::sum", 20.0, 1.0),)))
    assert (parts.kernels, parts.other, parts.idle, parts.launches) == (30.0, 20.0, 50.0, 3.0)
    assert parts.busy_share == 0.5


def test_a_device_that_was_busier_under_the_profiler_is_fully_busy() -> None:
    parts = call_parts(profile(timed("k", 120.0), total=100.0))
    assert (parts.idle, parts.busy_share) == (0.0, 1.0)


def advised(found: Recording, one: Profile) -> set[Advice]:
    return set(roofline(found, one).advice)


def test_launches_are_to_be_replayed_where_the_device_waits_for_them() -> None:
    waiting, busy = profile(timed("k", 10.0)), profile(timed("k", 90.0))
    assert Advice.REDUCE_OVERHEAD in advised(recording(kernel("k", 8_000)), waiting)
    assert Advice.REDUCE_OVERHEAD not in advised(recording(kernel("k", 8_000)), busy)
    assert advised(recording(kernel("k", 8_000), mode="reduce-overhead"), waiting) == {Advice.HOST}
    assert Advice.HOST not in advised(recording(kernel("k", 8_000), mode="reduce-overhead"), busy)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_where_torch_replays_nothing_nobody_is_told_to(mode: str) -> None:
    on_xpu = recording(replace(kernel("k", 8_000), device="xpu:0"), mode=mode)
    assert not {Advice.REDUCE_OVERHEAD, Advice.HOST} & advised(on_xpu, profile(timed("k", 10.0)))


def test_a_cpu_waits_for_nobody() -> None:
    on_cpu = recording(replace(kernel("k", 8_000), device="cpu"))
    assert Advice.REDUCE_OVERHEAD not in advised(on_cpu, profile(timed("k", 10.0)))


def test_other_advice_comes_where_it_applies() -> None:
    found = recording(kernel("k", 8_000))
    assert advised(found, profile(timed("k", 90.0))) == set()
    assert advised(found, profile(timed("k", 10.0), total=11.0)) == {Advice.FUSION}
    outside = profile(timed("k", 10.0), others=(OtherTime("aten::sum", 80.0, 1.0),))
    assert Advice.OUTSIDE in advised(found, outside)
    copies = profile(timed("k", 80.0), others=(OtherTime("aten::_foreach_copy_", 10.0, 1.0),))
    assert Advice.COPIES in advised(found, copies)
    slow = recording(kernel("extern_kernels.mm", 1_000, kind=KernelKind.EXTERN, nodes=("mm",)), graphs=(product(200),))
    assert Advice.MAX_AUTOTUNE in advised(slow, profile(timed("extern_kernels.mm", 90.0)))
    on_cpu = replace(slow, kernels=tuple(replace(k, device="cpu") for k in slow.kernels))
    assert advised(on_cpu, profile(timed("extern_kernels.mm", 90.0))) == set(), "there is nothing to tune there"


@pytest.mark.parametrize(
    ("one", "doubted"),
    [
        (profile(timed("a", 9.0), timed("b", 9.0)), ()),
        (replace(profile(timed("a", 9.0), timed("b", 9.0)), spread=60.0), (Doubt.SPREAD,)),
        (replace(profile(timed("a", 9.0)), notes=(ProfileNote(Remark.KEPT_WAITING, number=0.25),)), (Doubt.WAITED,)),
        (replace(profile(timed("a", 9.0)), notes=(ProfileNote(Remark.UNEVEN, number=9.0),)), (Doubt.UNEVEN,)),
        (profile(timed("a", 80.0), timed("b", 80.0)), (Doubt.HELD_UP,)),
        (profile(timed("a", 80.0), timed("b", 80.0), busy=90.0), ()),  # at the same time, on two streams
        (profile(timed("a", 60.0), timed("b", 50.0)), ()),
        (profile(timed("a", 900.0), timed("b", 900.0), total=2000.0), (Doubt.FAR_BELOW,)),
        (profile(timed("a", 900.0), timed("b", 9.0), total=2000.0), ()),  # one that is bad may well be
        (profile(timed("a", 900.0), total=2000.0), ()),
    ],
)
def test_times_that_cannot_be_right_give_no_advice(one: Profile, doubted: tuple[Doubt, ...]) -> None:
    found = roofline(recording(kernel("a", 8_000), kernel("b", 8_000)), one)
    assert found.doubts == doubted
    assert found.is_usable is not bool(doubted)
    assert (found.advice == (Advice.MEASURE_AGAIN,)) is bool(doubted)


def test_a_product_faster_than_the_ceiling_says_that_the_ceiling_is_wrong() -> None:
    found = recording(kernel("extern_kernels.mm", 1_000, kind=KernelKind.EXTERN, nodes=("mm",)), graphs=(product(200),))
    too_fast = roofline(found, profile(timed("extern_kernels.mm", 8.0)))
    assert too_fast.doubts == (Doubt.CEILING,)
    assert too_fast.is_usable
    assert roofline(found, profile(timed("extern_kernels.mm", 15.9))).doubts == ()
    cached = roofline(recording(kernel("k", 8_000)), profile(timed("k", 2.5)))
    assert cached.doubts == (), "a cache moves bytes faster than memory"
