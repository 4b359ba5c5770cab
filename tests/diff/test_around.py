"""What differs around the kernels: breaks, recompiles, frames, tuning, CUDA graphs, settings, compilations."""

import tempfile
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from two_recordings import cpu, gpu

import compiler_lens
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import Verdict
from compiler_lens.facts.compare.programs import compiled, pair_compilations
from compiler_lens.recording.model import AutotuneChoice, CompileId, KernelKind, Recording
from compiler_lens.views.diff.around import break_verdict
from compiler_lens.views.diff.summary import summary_lines

PLAIN = """
import torch

def model(x):
    y = x.sin()
    {middle}
    return y.cos() + 1
"""


def recorded(tmp_path: Path, middle: str, *sizes: int, above: str = "") -> Recording:
    """A really compiled function, by a backend that generates nothing; each in a folder of its own."""
    file = Path(tempfile.mkdtemp(dir=tmp_path)) / "model.py"
    file.write_text(above + PLAIN.format(middle=middle))
    scope: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    torch._dynamo.reset()
    with compiler_lens.Lens(strict=True) as lens:
        run = torch.compile(scope["model"], backend="eager")
        for size in sizes or (4,):
            run(torch.ones(size))
    return lens.recording


def test_a_break_that_was_fixed_and_one_that_is_new(tmp_path: Path) -> None:
    broken, clean = recorded(tmp_path, "print(y.sum())"), recorded(tmp_path, "y = y + 1")
    d = diff(broken, clean)

    assert [(b.before, b.after) for b in d.breaks] == [(1, 0)]
    assert [(b.before, b.after) for b in diff(clean, broken).breaks] == [(0, 1)]
    assert not d.is_empty
    assert d.breaks[0].place is not None
    assert "print" in d.breaks[0].place.code
    assert [(f.outcome_after, len(f.before)) for f in d.frames] == [(None, 1)]  # the rest behind the break


def test_a_break_of_a_function_that_no_longer_enters_the_compiler_is_not_fixed(tmp_path: Path) -> None:
    broken = recorded(tmp_path, "print(y.sum())")
    try:
        torch.compiler.set_stance("force_eager")
        forced = recorded(tmp_path, "print(y.sum())")
    finally:
        torch.compiler.set_stance("default")
    d, mirrored = diff(broken, forced), diff(forced, broken)
    assert [(b.before, b.after, b.is_reached) for b in d.breaks] == [(1, 0, False)]
    assert [(b.before, b.after, b.is_reached) for b in mirrored.breaks] == [(0, 1, False)]
    assert [(s.name, s.before, s.after) for s in d.settings] == [("stance", "default", "force_eager")]
    said = summary_lines(d)
    assert "Graph breaks: 1 in code that was not traced AFTER" in said
    assert not [line for line in said if "fixed" in line]
    assert "Graph breaks: 1 in code that was not traced BEFORE" in summary_lines(mirrored)


TWO = """
def stats(x):
    m = x.mean().item()
    return x - m

def clipped(x, on):
    if on:
        x = x * 2
        print(x.sum())
    return x.cos()

def early(x, on):
    if on:
        return x + 2
    print(x.mean())
    return x + 3
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = stats(y)", "y = y - 1"),  # the call was removed
        ("y = clipped(y, True)", "y = clipped(y, False)"),  # its branch is not taken
        ("y = early(y, False)", "y = early(y, True)"),  # it returns before
        ("y = early(y, False)", "print(y); y = stats(early(y, True)); y = y * stats(y)"),
        # Who gives up on a loop never comes to what stands below it.
        ("m = y.mean().item()", "for i in range(3):\n        print(i)\n    m = y.mean().item()"),
    ],
)
def test_a_break_in_code_that_was_not_traced_is_neither_fixed_nor_new(tmp_path: Path, before: str, after: str) -> None:
    broken, other = recorded(tmp_path, before, above=TWO), recorded(tmp_path, after, above=TWO)
    lost = {c.place.code for c in break_cards(broken) if c.place} - {
        c.place.code for c in break_cards(other) if c.place
    }
    ways = ((broken, other, "gone", "AFTER"), (other, broken, "come", "BEFORE"))
    for one, two, verdict, side in ways:
        d = diff(one, two)
        told = {b.place.code: b for b in d.breaks if b.place and b.place.code in lost}
        assert told.keys() == lost
        assert {break_verdict(change) for change in told.values()} == {verdict}
        assert any(f"1 in code that was not traced {side}" in line for line in summary_lines(d))


@pytest.mark.parametrize(
    ("before", "after", "settings"),
    [
        ("y = stats(y)", "y = stats(y)", {"capture_scalar_outputs": True}),  # the same line, by a setting
        ("y = clipped(y, True)", "y = clipped(y, True)", {"reorderable_logging_functions": {print}}),
        ("y = stats(y)", "y = stats(y) + 1", {}),  # what it calls has another text
        ("k = y.sum()\n    y = y + 1 if k else y", "k = 3\n    y = y + 1 if k else y", {}),  # other values
    ],
)
def test_a_break_in_code_that_is_traced_without_it_is_fixed(
    tmp_path: Path, before: str, after: str, settings: dict[str, object]
) -> None:
    broken = recorded(tmp_path, before, above=TWO)
    above = TWO.replace(".item()", "") if before != after else TWO
    with torch._dynamo.config.patch(settings):
        mended = recorded(tmp_path, after, above=above)
    assert [break_verdict(b) for b in diff(broken, mended).breaks] == ["fixed"]
    assert [break_verdict(b) for b in diff(mended, broken).breaks] == ["new"]


def test_breaks_of_methods_of_one_name_in_two_classes_are_two(tmp_path: Path) -> None:
    above = "class A:\n    def run(self, x):\n        return x * x.sum().item()\n"
    above += "class B:\n    def run(self, x):\n        return x + x.mean().item()\n"
    d = diff(recorded(tmp_path, "y = A().run(y)", above=above), recorded(tmp_path, "y = B().run(y)", above=above))
    assert sorted(break_verdict(b) for b in d.breaks) == ["come", "gone"]


def test_a_break_at_another_line_of_another_file_is_the_same(tmp_path: Path) -> None:
    here = recorded(tmp_path, "print(y.sum())")
    there = recorded(tmp_path, "print(y.sum())", above="\n# more\n# lines\n")

    assert diff(here, there).is_empty
    assert diff(there, here).is_empty


def test_a_line_that_was_edited_and_still_breaks_is_the_same_break(tmp_path: Path) -> None:
    d = diff(recorded(tmp_path, "print(y.sum())"), recorded(tmp_path, "print(y.mean())"))

    assert not d.breaks
    assert d.graphs  # it computes something else, though


def test_recompiles_by_cause(tmp_path: Path) -> None:
    once, thrice = recorded(tmp_path, "y = y * 2"), recorded(tmp_path, "y = y * 2", 4, 8)
    d = diff(once, thrice)

    assert [(r.function, r.subject, r.before, r.after) for r in d.recompiles] == [("model", "x.shape[0]", 0, 1)]
    assert not d.is_empty
    assert [(f.function, f.outcome_before) for f in d.frames] == [("model", None)]
    assert diff(thrice, thrice).is_empty


def test_an_op_added_is_told_once(tmp_path: Path) -> None:
    d = diff(recorded(tmp_path, "pass"), recorded(tmp_path, "y = y.tanh()"))

    ((change,),) = [g.nodes for g in d.graphs]
    assert (change.verdict, change.before, change.after) == (Verdict.ADDED, "", "tanh f32[4]")
    assert change.line is not None
    assert change.line.code == "y = y.tanh()"
    assert not d.frames


def test_a_function_that_was_renamed_is_found_by_its_ops() -> None:
    one = cpu("base")
    renamed = replace(
        one,
        compilations=tuple(
            replace(c, definition=c.definition and replace(c.definition, function="Net.forward"), module="Net")
            for c in one.compilations
        ),
    )
    d = diff(one, renamed)

    assert d.is_empty
    assert len(d.identical) == d.before.launches


def test_compilations_of_one_function_are_told_apart_by_their_shapes() -> None:
    """One more in front shifts the others' numbers, and nothing else."""
    base, wide = cpu("base"), cpu("shape")

    def numbered(recording: Recording, number: int) -> Recording:
        def own(fact: object) -> object:
            return replace(fact, compile_id=CompileId(0, number))  # type: ignore[type-var]

        names = ("compilations", "graphs", "kernels", "output_codes")
        return replace(recording, **{name: tuple(map(own, getattr(recording, name))) for name in names})

    def joined(*recordings: Recording) -> Recording:
        parts = [numbered(r, n) for n, r in enumerate(recordings)]
        names = ("compilations", "graphs", "kernels", "output_codes")
        return replace(base, **{name: sum((getattr(p, name) for p in parts), ()) for name in names})

    one, two = joined(base), joined(wide, base)
    pairs, left, right = pair_compilations(compiled(one), compiled(two))

    assert [(str(b.compilation.compile_id), str(a.compilation.compile_id)) for b, a in pairs] == [("0/0", "0/1")]
    assert (left, [str(c.compilation.compile_id) for c in right]) == ([], ["0/0"])
    d = diff(one, two)
    assert {c.verdict for c in d.kernels} == {Verdict.ADDED}
    assert len(d.identical) == 29


def test_another_winner_counts_and_a_table_on_one_side_does_not() -> None:
    one = gpu("gpt-max-autotune-cold")
    first = one.autotunes[0]
    other = AutotuneChoice("bias_addmm", KernelKind.EXTERN, 0.001)
    d = diff(one, replace(one, autotunes=(replace(first, choices=(other, *first.choices)), *one.autotunes[1:])))

    ((change),) = d.autotunes
    assert (change.before, change.after) == (first.winner, other)
    assert not d.is_empty

    untold = diff(one, replace(one, autotunes=()))
    assert sum(c.times for c in untold.autotunes) == 12
    assert untold.is_empty


def test_a_templates_number_is_no_other_winner() -> None:
    one = gpu("gpt-max-autotune-cold")
    renamed = tuple(
        replace(a, choices=tuple(replace(c, name=f"{c.name}9" if "triton" in c.name else c.name) for c in a.choices))
        for a in one.autotunes
    )
    assert not diff(one, replace(one, autotunes=renamed)).autotunes


def test_settings_and_versions_are_told_and_are_no_result() -> None:
    one = cpu("base")
    environment = replace(one.environment, torch="2.99.0", config={"inductor.max_fusion_size": "8"}, argv=("other.py",))
    d = diff(one, replace(one, environment=environment))

    assert d.is_empty
    assert [(s.name, s.after) for s in d.settings] == [("torch", "2.99.0"), ("inductor.max_fusion_size", "8")]


def test_another_number_of_threads_is_told_where_both_sides_know_theirs() -> None:
    one = cpu("base")
    unknown, two, four = (replace(one, environment=replace(one.environment, threads=n)) for n in (None, 2, 4))

    assert [(s.name, s.before, s.after) for s in diff(two, four).settings] == [("threads", "2", "4")]
    assert not diff(unknown, four).settings
    assert not diff(two, unknown).settings


def test_settings_come_in_one_order_whichever_side_has_them() -> None:
    one = cpu("base")
    left = replace(one, environment=replace(one.environment, versions={"a": "1", "c": "1"}, config={"x.b": "1"}))
    right = replace(one, environment=replace(one.environment, versions={"b": "1"}, config={"x.a": "1"}))
    for d in (diff(left, right), diff(right, left)):
        assert [s.name for s in d.settings if s.name in {"a", "b", "c", "x.a", "x.b"}] == ["a", "b", "c", "x.a", "x.b"]


@pytest.mark.parametrize("name", ["oddities-reduce-overhead-cold", "gpt-reduce-overhead-cold"])
def test_a_cuda_graph_that_is_not_captured_any_more(name: str) -> None:
    one = gpu(name)
    d = diff(one, replace(one, cudagraphs=one.cudagraphs[1:]))

    assert len(d.cudagraphs) == 1
    assert d.cudagraphs[0].after is None
    assert d.same_kernels
