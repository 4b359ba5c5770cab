"""What is printed: as in gold files, bounded, harmless; the command line; JSON."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from two_recordings import CPU, GPU, compared, cpu, gpu

import compiler_lens
from compiler_lens import UsageError
from compiler_lens.cli import main
from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import BreakChange
from compiler_lens.recording.model import ChildProcess
from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.page import Page
from compiler_lens.views.diff.summary import summary, summary_lines
from compiler_lens.views.diff.words import change_line, idle
from compiler_lens.views.text import times

GOLD = Path(__file__).parent / "gold"
DEFAULT, TUNED = "gpt-default-profiled", "gpt-max-autotune-profiled"


def printed(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["diff", *arguments.split(), "--no-color"])
    out, err = capsys.readouterr()
    return status, out, err


def of_gpu(before: str, after: str, rest: str = "") -> str:
    return f"{GPU / before}.clens.gz {GPU / after}.clens.gz {rest}"


def of_cpu(before: str, after: str, rest: str = "") -> str:
    return f"{CPU / before}.clens.gz {CPU / after}.clens.gz {rest}"


@pytest.mark.parametrize(
    ("gold", "arguments"),
    [
        ("modes-80", of_gpu(DEFAULT, TUNED, "--width 80")),
        ("modes-120", of_gpu(DEFAULT, TUNED, "--width 120")),
        ("modes-kernels", of_gpu(DEFAULT, TUNED, "kernels --width 100")),
        ("modes-times", of_gpu(DEFAULT, TUNED, "times --width 80")),
        ("modes-autotune", of_gpu("gpt-default-cold", "gpt-max-autotune-cold", "autotune --width 80")),
        ("same-kernels", of_gpu(DEFAULT, "gpt-reduce-overhead-profiled", "--width 80")),
        ("op-80", of_cpu("base", "op", "--width 80")),
        ("op-graphs", of_cpu("base", "op", "graphs --width 80")),
        ("op-code", of_cpu("base", "op", "kernel cpp_fused_silu_1 --width 140")),
        ("op-unified", of_cpu("base", "op", "kernel cpp_fused_silu_1 --width 80")),
        ("shape-80", of_cpu("base", "shape", "--width 80")),
        ("option-environment", of_cpu("base", "option", "environment --width 80")),
        ("twin", of_cpu("base", "twin", "--width 80")),
    ],
    ids=lambda value: value if "/" not in value else "",
)
def test_a_view_is_as_in_its_gold_file(
    gold: str, arguments: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, text, _ = printed(arguments, capsys)
    text = text.replace(f"{GPU}/", "").replace(f"{CPU}/", "")
    file = GOLD / f"{gold}.txt"
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        new = tmp_path / file.name
        new.write_text(text, encoding="utf-8")
        pytest.fail(f"differs from {file}; if it is better now: cp {new} {file}\n{text}")


def test_kernels_of_several_names_do_not_pass_for_one_that_is_launched_often() -> None:
    one = cpu("base")
    nothing = replace(one, kernels=(), output_codes=(), compilations=(), graphs=())

    assert [change_line(change) for change in diff(nothing, one).kernels] == [
        f"{times(10)} added extern_kernels.mm",
        "added cpp_fused_sum_1 and 7 more",
        "added cpp_fused__log_softmax_backward_data_0 and 5 more",
        f"{times(5)} added extern_kernels.addmm",
    ]
    assert "cpp_fused_sum_1 and 7 more: sizes 8 → 24" in map(change_line, compared("base", "shape").kernels)
    happened_twice = f"{times(2)} cpp_fused_relu_1 → cpp_fused_silu_1: relu → silu"
    assert happened_twice in map(change_line, compared("base", "op").kernels)


def test_a_call_that_waits_less_names_cuda_graphs_where_only_one_side_has_them() -> None:
    graphs, tuned = "gpt-reduce-overhead-profiled", TUNED
    waits = {DEFAULT: 1800.0, graphs: 900.0, tuned: 600.0}

    def told(before: str, after: str) -> str:
        d = diff(gpu(before), gpu(after))
        sides = [
            replace(side, microseconds=waits.get(name, 0.0) + 200.0, busy_microseconds=200.0, spread=50.0)
            for side, name in ((d.before, before), (d.after, after))
        ]
        return idle(replace(d, before=sides[0], after=sides[1]))

    assert told(DEFAULT, graphs) == "; idle 1,800 → 900 µs, as CUDA graphs launch the kernels"
    assert told(graphs, DEFAULT) == "; idle 900 → 1,800 µs, as CUDA graphs no longer launch the kernels"
    assert told(graphs, tuned) == "; idle 900 → 600 µs"  # both have them
    assert not told(DEFAULT, DEFAULT)
    assert not idle(diff(gpu("gpt-default-cold"), gpu("gpt-reduce-overhead-cold")))  # no profile


def test_compile_time_that_an_earlier_run_spared_is_seen_from_the_files_compiled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = cpu("base")
    compiled = [span for span in one.spans if span.name == "compile_file"]
    kept = {id(span) for span in compiled[:3]}
    rest = (span for span in one.spans if span.name not in {"compile_file", "async_compile.wait"} or id(span) in kept)
    text = compiler_lens.diff(one, replace(one, spans=tuple(rest))).report(width=120)

    assert " for 20 → 3 C++ files" in text
    assert "C++ files" not in printed(of_cpu("base", "twin"), capsys)[1]


def test_no_kernel_differs_is_one_line() -> None:
    assert summary_lines(compared("inference", "inference-max-autotune")) == [
        "No kernel differs: 6 kernels, 11 launches, all identical"
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("pair", [("gpt-default-cold", "gpt-max-autotune-cold"), (DEFAULT, "resnet-default-profiled")])
def test_a_summary_is_a_screen(width: int, pair: tuple[str, str]) -> None:
    lines = block_lines(summary(diff(gpu(pair[0]), gpu(pair[1])), width // 2 - 6), Page(width))

    assert len(lines) <= 22
    assert all(one.cell_len <= width for one in lines)


@pytest.mark.parametrize("view", ["kernels", "graphs", "breaks", "autotune", "times", "environment"])
@pytest.mark.parametrize("pair", [("base", "op"), ("base", "inference"), ("base", "dtype")])
def test_every_view_of_every_pair_says_something(
    view: str, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = printed(of_cpu(*pair, view), capsys)

    assert (status, err) == (0, "")
    assert out.strip()


def test_the_exit_code_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(of_cpu("base", "twin", "--exit-code"), capsys)[0] == 0
    assert printed(of_cpu("base", "op", "--exit-code"), capsys)[0] == 1
    assert printed(of_cpu("base", "op"), capsys)[0] == 0
    assert printed(of_cpu("inference", "inference-max-autotune", "--exit-code"), capsys)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nothing.clens nothing.clens", "no such file: nothing.clens"),
        (f"{CPU / 'base.clens.gz'} {Path(__file__)}", "is not a recording"),
        (of_cpu("base", "op", "kernls"), "Did you mean kernels?"),
        (of_cpu("base", "op", "kernel"), "which kernel?"),
        (of_cpu("base", "op", "graphs x"), "too much: x"),
        (of_cpu("base", "op", "kernel cpp_fused_sil_1"), "Did you mean cpp_fused_silu_1?"),
        (of_cpu("base", "op", "kernel sum"), "'sum' is part of several names: "),
        (of_cpu("base", "op", "graphs --code"), "--code is a view of its own"),
        (of_cpu("base", "op", "--width 3"), "too narrow"),
    ],
    ids=range(9),
)
def test_bad_input_is_one_clear_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = printed(arguments, capsys)

    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_part_of_a_kernels_name_will_do_as_it_does_in_show(capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(of_cpu("base", "op", "kernel cpp_fused_silu_1"), capsys)

    assert printed(of_cpu("base", "op", "kernel silu_1"), capsys) == whole
    assert whole[0] == 0
    assert "cpp_fused_relu_1 → cpp_fused_silu_1" in whole[1]


def test_code_of_all_that_changed(capsys: pytest.CaptureFixture[str]) -> None:
    _, wide, _ = printed(of_cpu("base", "op", "--code --width 130"), capsys)
    _, narrow, _ = printed(of_cpu("base", "op", "--code --width 80"), capsys)

    assert " | " in wide
    assert "+++ after" in narrow
    assert "--- before" not in wide
    for text in (wide, narrow):
        assert "cpp_fused_relu_1 → cpp_fused_silu_1" in text


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = printed(of_gpu(DEFAULT, TUNED, "--json"), capsys)
    data = json.loads(out)

    assert data["view"] == "diff"
    assert data["is_empty"] is data["same_kernels"] is False
    assert {change["verdict"] for change in data["kernels"]} == {"changed", "merged"}
    made = diff(gpu(DEFAULT), gpu(TUNED))
    assert len(data["identical"]) == len(made.identical) > 4
    assert data["kernel_times"]["before"] == made.kernel_times.before > made.kernel_times.after
    assert data["timed_launches"] == {"before": [47, 47], "after": [43, 43]}
    assert {"name": "mode", "before": "default", "after": "max-autotune"} in data["settings"]


# -- from Python


def test_paths_recordings_and_lenses_are_the_same() -> None:
    class Lens:
        recording = cpu("op")

    by_path = compiler_lens.diff(CPU / "base.clens.gz", str(CPU / "op.clens.gz"))
    by_value = compiler_lens.diff(cpu("base"), Lens())

    assert by_path.result == by_value.result == compared("base", "op")
    assert not by_path.is_empty
    assert not by_path.same_kernels
    assert str(by_value).splitlines()[-1].endswith("compiler-lens diff BEFORE AFTER kernels")
    assert str(CPU / "base.clens.gz") in str(by_path)


def test_anything_else_is_refused() -> None:
    with pytest.raises(UsageError, match="before is a int: give a path, a Lens or a Recording"):
        compiler_lens.diff(3, cpu("base"))  # type: ignore[arg-type]


def test_what_a_user_wrote_cannot_steer_a_terminal() -> None:
    one = cpu("base")
    evil = "\x1b]0;owned\x07\x1b[31m"
    kernels = tuple(
        replace(k, name=f"{k.name}{evil}", source=k.source.replace("tmp", f"{evil}tmp")) for k in one.kernels
    )
    breaking = replace(one, kernels=kernels, environment=replace(one.environment, torch=f"2{evil}"))
    made = compiler_lens.diff(one, breaking)

    for view in ("summary", "kernels", "code", "graphs", "environment", "times"):
        assert "\x1b" not in made.report(view, color=False)
        assert "\x07" not in made.report(view, color=False)
    assert "\x1b]0" not in made.report("kernels", color=True)


def test_a_damaged_side_is_said_to_be_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.clens.gz"
    cut.write_bytes((CPU / "base.clens.gz").read_bytes()[:9000])
    status, text, _ = printed(f"{cut} {CPU / 'base.clens.gz'} --exit-code", capsys)
    assert status == 1
    assert "BEFORE has gaps, which may be what differs: 2 problems while it was" in text
    assert "AFTER has gaps" not in text
    _, text, _ = printed(f"{cut} {CPU / 'base.clens.gz'} --json", capsys)
    assert [json.loads(text)[side]["problems"] for side in ("before", "after")] == [2, 0]


@pytest.mark.parametrize(
    ("compiled", "said"), [(True, "have compiled, too"), (None, "may compile, too"), (False, None)]
)
def test_processes_that_compiled_and_are_not_recorded_are_said_for_each_side(
    compiled: bool | None, said: str | None
) -> None:
    base = cpu("base")
    children = (ChildProcess(compiled=False), ChildProcess(compiled=compiled), ChildProcess(compiled=compiled))
    with_children = replace(base, children=children)
    for name, before, after in (("BEFORE", with_children, base), ("AFTER", base, with_children)):
        result = compiler_lens.diff(before, after)
        lines = [
            line
            for line in result.report(color=False, width=200).splitlines()
            if "processes that this one started" in line
        ]
        assert [line.split(":")[0].strip() for line in lines] == ([name] if said else [])
        assert all(said in line for line in lines if said)
        sides = json.loads(result.to_json())
        assert sides[name.lower()]["children_compiled"] is compiled


def test_breaks_are_counted_as_fixed_as_new_and_as_more_or_less_often() -> None:
    def told(*pairs: tuple[int, int]) -> list[str]:
        changes = tuple(BreakChange("a", None, before, after) for before, after in pairs)
        d = replace(compared("inference", "inference-max-autotune"), breaks=changes)
        return [line for line in summary_lines(d) if line.startswith("Graph breaks")]

    assert told((2, 0), (0, 3), (0, 1)) == ["Graph breaks: 1 fixed, 2 new"]
    assert told((2, 1), (5, 0)) == ["Graph breaks: 1 fixed, 1 at a place that breaks more or less often"]
    assert told() == []
