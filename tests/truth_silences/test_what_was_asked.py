"""What is asked of torch.compile beside a call: stances, things that are never called; and calls that only export."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens, explain
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for

X = torch.ones(4)


def screen(lens: Lens) -> str:
    """The first screen without line breaks."""
    return " ".join(lens.report(color=False, width=120).split())


def findings(lens: Lens) -> list[tuple[str, int]]:
    """Rule and line of each that is not benign."""
    found = explain(lens.recording).findings
    return [(each.rule, each.place.line if each.place else 0) for each in found if not each.benign]


def line_of(function: Callable[..., object], words: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if words in line)


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)

    def generate(self, x: Tensor) -> Tensor:
        return self.forward(self.forward(x))


STANCES = {
    "force_eager": "calls of compiled functions run eagerly while it is in force",
    "eager_on_recompile": "calls that fit no compilation so far run eagerly while it is in force",
    "fail_on_recompile": "calls that fit no compilation so far raise while it is in force",
}


@pytest.mark.parametrize("stance", STANCES)
def test_a_stance_under_which_calls_run_eagerly_is_said_with_its_line(stance: str) -> None:
    with Lens(strict=True) as lens:
        model = torch.compile(Language(), backend="aot_eager")
        model(X)
        for _ in range(3):  # said once
            with torch.compiler.set_stance(stance):
                model(X)
    assert findings(lens) == [
        (
            "stance-taken",
            line_of(test_a_stance_under_which_calls_run_eagerly_is_said_with_its_line, "with torch.compiler"),
        )
    ]
    shown = screen(lens)
    assert f"takes the stance `{stance}`: {STANCES[stance]}" in shown
    assert "Nothing to fix" not in shown


def test_a_stance_that_compiles_all_the_same_needs_no_fixing() -> None:
    with Lens(strict=True) as lens, torch.compiler.set_stance("default"):
        torch.compile(Language(), backend="aot_eager")(X)
    assert lens.recording.stances == ()
    assert "Nothing to fix" in screen(lens)


def test_with_every_call_eager_nothing_is_said_to_be_never_called() -> None:
    with Lens(strict=True) as lens:
        torch.compiler.set_stance("force_eager")
        torch.compile(Language(), backend="aot_eager")(X)
        torch.compiler.set_stance("default")
    assert [rule for rule, _ in findings(lens)] == ["stance-taken"]


def test_what_is_compiled_and_never_called_is_named_with_its_line_and_what_bypasses_it() -> None:
    with Lens(strict=True) as lens:
        model = torch.compile(Language(), backend="aot_eager")
        model.generate(X)
    here = line_of(test_what_is_compiled_and_never_called_is_named_with_its_line_and_what_bypasses_it, "model = torch")
    assert findings(lens) == [("never-called", here)]
    shown = screen(lens)
    assert "gives `Language` to torch.compile, and no call of what that made entered the compiler" in shown
    assert "Calls of its methods (`generate`) do not go through it: compile the forward, if they call that" in shown

    with Lens(strict=True) as lens:  # what it advises
        model = Language()
        model.forward = torch.compile(model.forward, backend="aot_eager")  # type: ignore[method-assign]
        model.generate(X)
    assert findings(lens) == []


class Encoder(nn.Module):
    """Whose forward no method calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encode(x).relu()

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def test_a_model_of_which_only_methods_are_called_is_among_what_is_counted() -> None:
    with Lens(strict=True) as lens:
        norm = torch.compile(lambda x: x / x.norm(), backend="aot_eager")
        total = torch.compile(lambda x: x.sum(), backend="aot_eager")
        model = torch.compile(Encoder(), backend="aot_eager")
        total(norm(model.encode(X)))
    shown = " ".join(screen(lens).split())
    assert "2 of 3 functions compiled; 1 never called through torch.compile: Encoder.forward (" in shown
    assert "Both functions compiled" not in shown


def test_a_function_that_was_compiled_and_then_failed_stays_not_compiled() -> None:
    """Its graphs are counted beside that, so it is not said that nothing of it was compiled."""

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(x: torch.Tensor, tells: bool) -> torch.Tensor:
        if tells:
            torch._dynamo.graph_break()
        return x + 1

    with Lens(strict=True) as lens:
        step(X, False)
        with pytest.raises(RuntimeError):
            step(X, True)
    shown = " ".join(screen(lens).split())
    assert "0 of 1 function stays compiled" in shown
    assert "1 graph," in shown


def test_forward_is_advised_only_where_a_method_calls_it() -> None:
    told = {}
    for made, method in ((Encoder, "encode"), (Language, "generate")):
        with Lens(strict=True) as lens:
            torch.compile(lambda x: x.sum(), backend="aot_eager")(X)  # so that the text of this file is known
            getattr(torch.compile(made(), backend="aot_eager"), method)(X)
        told[made] = " ".join(screen(lens).split())
        assert f"as by `model.{method} = torch.compile(model.{method})`" in told[made]
    assert ["model.forward" in told[made] for made in (Encoder, Language)] == [False, True]
    with Lens(strict=True) as lens:  # without a text it is said under its condition
        torch.compile(Encoder(), backend="aot_eager").encode(X)
    assert "compile the forward, if they call that, by `model.forward" in " ".join(screen(lens).split())


def test_in_place_the_advice_is_what_can_be_done_and_names_no_method_of_torchs() -> None:
    with Lens(strict=True) as lens:
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        net.compile(backend="aot_eager")
        net(X)
    (site,) = lens.recording.sites
    assert (site.in_place, site.methods) == (True, ())
    shown = screen(lens)
    assert "Write `model = torch.compile(model)` in place of `model.compile()`" in shown
    assert "what torch.compile returned" not in shown
    assert "Calls of its methods" not in shown


def dropped_beside_in_place() -> None:
    other, model = Encoder(), Encoder()
    torch.compile(
        other,
        backend="aot_eager",
    )
    other(X)
    model.compile(backend="aot_eager")
    model(X)


def dropped_beside_another() -> None:
    other, model = Encoder(), Encoder()
    torch.compile(other, backend="aot_eager"), torch.compile(model, backend="aot_eager")(X)  # the former is a tuple's
    torch.compile(other, backend="aot_eager")
    other(X)


def dropped_alone() -> None:
    model = Encoder()
    torch.compile(model, backend="aot_eager")
    model(X)


def dropped_function() -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2

    torch.compile(double, backend="aot_eager")
    torch.compile(double, backend="aot_eager")(double(X))


@pytest.mark.parametrize(
    ("program", "line", "name", "entered"),
    [
        (dropped_beside_in_place, "    torch.compile(", "Encoder", True),
        (dropped_beside_another, '    torch.compile(other, backend="aot_eager")\n', "Encoder", True),
        (dropped_alone, "    torch.compile(model", "Encoder", False),
        (dropped_function, '    torch.compile(double, backend="aot_eager")\n', "test", True),
    ],
)
def test_a_call_of_torch_compile_whose_result_nobody_keeps_is_told(
    program: Callable[[], None], line: str, name: str, entered: bool
) -> None:
    with Lens(strict=True) as lens:
        program()
    lines, first = inspect.getsourcelines(program)
    at = first + next(n for n, text in enumerate(lines) if text.startswith(line))
    (found,) = [one for one in explain(lens.recording).findings if one.rule == "never-called"]
    assert found.place is not None
    assert found.place.line == at
    shown = " ".join(screen(lens).split())
    assert "to torch.compile and does nothing with what that returns" in shown
    assert ("Compiled is what another line gave to torch.compile" in shown) == entered
    assert "Nothing to fix" not in shown
    eager = " ".join(view(lens.recording, "eager", page_for(lens.recording, width=120, color=False)).split())
    assert ("calls of what that line gave" in eager, "every call" in eager) == (entered, not entered)
    assert ("1 never called through torch.compile" in shown) == (not entered and program is not dropped_alone)


def handed_on(module: nn.Module) -> Callable[..., object]:
    return torch.compile(module, backend="aot_eager")


def kept() -> None:
    made = []
    made.append(torch.compile(Encoder(), backend="aot_eager"))
    made[0](X)
    if (model := torch.compile(Encoder(), backend="aot_eager")) is not None:
        model(X)
    handed_on(Encoder())(X)
    torch.compile(Encoder().encode, backend="aot_eager")(X)
    Encoder().compile(backend="aot_eager")


def test_what_is_kept_in_any_way_is_not_said_to_be_dropped() -> None:
    with Lens(strict=True) as lens:
        kept()
    assert len(lens.recording.sites) == 5
    assert not [site for site in lens.recording.sites if site.is_dropped]


@torch.compile(backend="aot_eager")
def scaled(x: Tensor) -> Tensor:
    return x * 3


def test_what_is_called_by_whatever_way_is_not_said_to_be_never_called() -> None:
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x

    with Lens(strict=True) as lens:
        in_place = Language()
        in_place.compile(backend="aot_eager")
        in_place(X)
        inner = torch.compile(Square().forward, backend="aot_eager")
        torch.compile(lambda x: inner(x) + 1, backend="aot_eager")(X)  # a part of what calls it
        torch.compile(nn.Linear(4, 4), backend="aot_eager")(X)
        torch.export.export(Square(), (X,), strict=True)  # asks for itself
    assert len(lens.recording.sites) == 4
    assert "never-called" not in [finding.rule for finding in explain(lens.recording).findings]


def counted(x: Tensor) -> Tensor:
    return x * 5


@torch._dynamo.decorators.skip  # type: ignore[attr-defined]
def counts(x: Tensor) -> Tensor:
    return counted(x)


def test_one_that_hands_on_to_what_is_compiled_is_not_said_to_be_never_called() -> None:
    with Lens(strict=True) as lens:
        torch.compile(counts, backend="aot_eager")(X)
    assert [one.function for one in lens.recording.compilations] == ["counted"]
    assert "never-called" not in [finding.rule for finding in explain(lens.recording).findings]


def test_one_that_is_not_called_beside_others_that_are_is_minor() -> None:
    def idle(x: Tensor) -> Tensor:
        return x + 1

    with Lens(strict=True) as lens:
        torch.compile(idle, backend="aot_eager")
        torch.compile(Language(), backend="aot_eager")(X)
    (finding,) = (each for each in explain(lens.recording).findings if not each.benign)
    assert (finding.rule, finding.severity.value) == ("never-called", "low")
    assert "Nothing to fix" not in screen(lens)


_SCRIPT = """
import torch

def pick(x):
    return x + 1 if x.sum() > 0 else x

class Picks(torch.nn.Module):
    def forward(self, x):
        return pick(x) * 2

try:
    torch.export.export(Picks(), (torch.ones(4),), strict={})
except Exception:
    pass
"""


@pytest.mark.parametrize(
    ("strict", "said"), [(True, "Data-dependent branching"), (False, "GuardOnDataDependentSymNode")]
)
def test_an_export_that_fails_says_where_also_if_it_is_what_imports_the_compiler(
    *, strict: bool, said: str, tmp_path: Path
) -> None:
    script = tmp_path / "picks.py"
    script.write_text(_SCRIPT.format(strict))
    done = subprocess.run(
        [sys.executable, "-m", "compiler_lens", "run", "-o", str(tmp_path / "x.clens"), "--strict", str(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    shown = " ".join(done.stderr.split())
    assert f"1. {_short(script)}:5 return x + 1 if x.sum() > 0 else x `torch.export` failed: {said}" in shown
    if strict:
        assert "torch.where" in shown


def _short(script: Path) -> str:
    return script.name
