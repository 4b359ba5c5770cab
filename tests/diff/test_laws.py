"""What holds of every diff, on recordings of real compiles."""

from itertools import combinations

import pytest
from msgspec.structs import replace
from two_recordings import CPU_JOURNALS, GPU_JOURNALS, compared, cpu, gpu, mirrored, renumbered, without_labels

from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import RecordingDiff, Verdict
from compiler_lens.recording.model import Recording

ALL = [*(("gpu", name) for name in GPU_JOURNALS), *(("cpu", name) for name in CPU_JOURNALS)]
MODES = ("gpt-default-cold", "gpt-reduce-overhead-cold", "gpt-max-autotune-cold", "resnet-max-autotune-cold")


def recording(where: str, name: str) -> Recording:
    return gpu(name) if where == "gpu" else cpu(name)


def sides(d: RecordingDiff) -> tuple[int, int]:
    """Launches that a diff speaks of."""
    cases = [*d.identical, *(case for change in d.kernels for case in change.cases)]
    return sum(len(case.before) for case in cases), sum(len(case.after) for case in cases)


@pytest.mark.parametrize(("where", "name"), ALL)
def test_a_recording_does_not_differ_from_itself(where: str, name: str) -> None:
    one = recording(where, name)
    d = diff(one, one)

    assert d.is_empty
    assert d.same_kernels
    assert not d.settings
    assert not d.retuned
    assert len(d.identical) == d.before.launches == sum(len(kernel.launches) for kernel in one.kernels)


def test_two_compiles_in_fresh_processes_differ_in_nothing() -> None:
    """The second in another folder, with lines added above."""
    d = compared("base", "twin")

    assert d.is_empty
    assert not d.settings
    assert not d.autotunes
    assert not d.graphs
    assert len(d.identical) == 29


@pytest.mark.parametrize(("where", "name"), ALL)
@pytest.mark.parametrize("seed", [1, 2])
def test_names_numbers_order_and_places_are_no_difference(where: str, name: str, seed: int) -> None:
    one = recording(where, name)
    d = diff(one, renumbered(one, seed))

    assert d.is_empty, [(c.verdict, c.first) for c in d.kernels]
    assert len(d.identical) == d.before.launches
    assert not d.autotunes


@pytest.mark.parametrize(
    ("before", "after"),
    [*combinations(MODES, 2), *((f"cpu:{a}", f"cpu:{b}") for a, b in combinations(CPU_JOURNALS, 2))],
)
def test_swapped_sides_give_the_mirror_image(before: str, after: str) -> None:
    left, right = (cpu(name[4:]) if name.startswith("cpu:") else gpu(name) for name in (before, after))
    there, back = without_labels(diff(left, right)), without_labels(diff(right, left))

    for name in RecordingDiff.__struct_fields__:
        if name in ("before", "after"):
            continue
        expected, found = mirrored(getattr(there, name)), getattr(back, name)
        assert found == expected, name  # in the same order


@pytest.mark.parametrize(("where", "name"), ALL[:9])
def test_every_launch_is_in_exactly_one_case(where: str, name: str) -> None:
    for other in ("gpt-default-cold", "resnet-max-autotune-cold"):
        d = diff(recording(where, name), gpu(other))
        assert sides(d) == (d.before.launches, d.after.launches)


def test_a_warm_run_has_the_kernels_of_the_cold_one() -> None:
    d = diff(gpu("gpt-max-autotune-cold"), gpu("gpt-max-autotune-warm"))

    assert d.is_empty
    # Coordinate descent starts anew in each process, and ends elsewhere: that is timing, not compiling.
    assert d.retuned
    assert all(case.differences for case in d.retuned)


@pytest.mark.parametrize("name", ["gpt-max-autotune-cold", "resnet-max-autotune-cold"])
def test_a_log_has_the_kernels_of_its_own_journal(name: str) -> None:
    journal, log = gpu(name), gpu(f"{name}.trace.log.gz")

    for d in (diff(journal, log), diff(log, journal)):
        assert d.same_kernels
        assert d.is_empty  # what a log does not tell is no difference
        assert len(d.identical) == d.before.launches


def test_cuda_graphs_are_no_other_kernels() -> None:
    d = diff(gpu("gpt-default-cold"), gpu("gpt-reduce-overhead-cold"))

    assert d.same_kernels
    assert not d.is_empty
    assert [c.after and c.after.state.value for c in d.cudagraphs] == ["captured", "captured"]
    assert [(s.name, s.before, s.after) for s in d.settings] == [("mode", "default", "reduce-overhead")]


def test_modes_do_the_same_to_inference_on_a_cpu() -> None:
    d = compared("inference", "inference-max-autotune")

    assert d.is_empty
    assert [s.name for s in d.settings] == ["mode"]


def test_nothing_against_nothing_and_something() -> None:
    one, nothing = cpu("base"), Recording()

    assert diff(nothing, nothing).is_empty
    d = diff(nothing, one)
    assert {change.verdict for change in d.kernels} == {Verdict.ADDED}
    assert sides(d) == (0, 29)
    assert [(f.function, f.outcome_before) for f in d.frames] == [("Model.forward", None)]


def test_kernels_without_their_graphs_are_told_by_their_code() -> None:
    """As in a recording that was cut off, or a log without graphs."""
    one = cpu("base")
    d = diff(one, replace(one, graphs=()))

    assert d.same_kernels
    assert len(d.identical) == d.before.launches
