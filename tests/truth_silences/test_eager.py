"""What runs eagerly, why, and how often as far as anybody can know: nothing of ours runs in a compiled call."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import eval_frame

import compiler_lens
from compiler_lens import Lens, UsageError
from compiler_lens.capture import session
from compiler_lens.capture.recorder import Recorder, recorded
from compiler_lens.facts.overview.eager import Extent, Reason, Runs, eager
from compiler_lens.facts.overview.explanation import summarize
from compiler_lens.recording.event import Event
from compiler_lens.render.console import page_for, view

X = torch.ones(3)


class Tower(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def scale(x: Tensor) -> Tensor:
    return x * 2


def noisy(x: Tensor) -> Tensor:
    y = x + 1
    print(y.shape)
    return y * 2


def skipped(x: Tensor) -> Tensor:
    for _ in range(2):
        x = x + 1
        print("again")
    return x


@torch.compiler.disable
def kept_out(x: Tensor) -> Tensor:
    return x + 3


def calls_it(x: Tensor) -> Tensor:
    return kept_out(x + 1) * 2


def powered(x: Tensor, by: object) -> Tensor:
    return x * 2 if by else x


def yields(x: Tensor) -> Iterator[Tensor]:
    yield x + 1


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(function, backend="eager")


def parts(lens: Lens) -> dict[tuple[str, Reason], tuple[Extent, int | None]]:
    found = eager(lens.recording, summarize(lens.recording))
    return {
        (each.function.name if each.function else "", each.reason): (each.extent, each.calls) for each in found.parts
    }


def shown(lens: Lens) -> str:
    return " ".join(view(lens.recording, "eager", page_for(lens.recording, width=100, color=False)).split())


@pytest.fixture(autouse=True)
def anew() -> None:
    torch._dynamo.reset()


def test_what_is_all_compiled_says_so_and_that_its_calls_are_not_counted() -> None:
    with Lens(strict=True) as lens:
        tower = compiled(Tower())
        for _ in range(5):
            tower(X)
    assert parts(lens) == {}
    assert "1 function entered the compiler, and runs compiled." in shown(lens)
    assert "Known: 1 call that code was compiled for, and 0 calls that ran eagerly." in shown(lens)
    assert "no share of all calls is known" in shown(lens)


def test_each_reason_has_its_extent_and_its_line() -> None:
    with Lens(strict=True) as lens, torch._dynamo.config.patch(recompile_limit=2):
        for function in (scale, noisy, skipped, calls_it):
            compiled(function)(X)
        list(compiled(yields)(X))  # type: ignore[call-overload]
        power = compiled(powered)
        for by in ("a", 2.5, None, [1]):
            power(X, by)
        compiled(Tower())
        found = eager(lens.recording, summarize(lens.recording))
    assert parts(lens) == {
        ("skipped", Reason.GRAPH_BREAK): (Extent.EVERY_CALL, None),
        ("yields", Reason.GENERATOR): (Extent.EVERY_CALL, None),
        ("Tower.forward", Reason.NEVER_CALLED): (Extent.EVERY_CALL, None),
        ("powered", Reason.LIMIT): (Extent.UNFIT, None),
        ("noisy", Reason.GRAPH_BREAK): (Extent.BETWEEN, None),
        ("calls_it", Reason.DISABLED): (Extent.BETWEEN, None),
    }
    refused = int(torch.__version__ > "2.12")  # before, torch says nothing of generators
    assert found.functions == {Runs.COMPILED: 1, Runs.PARTLY: 3, Runs.EAGERLY: 1 + refused}
    places = {each.place.code for each in found.parts if each.place}
    assert {"print(y.shape)", 'print("again")', "return kept_out(x + 1) * 2"} < places
    counted = (
        f"Of {5 + refused} functions that entered the compiler 1 runs compiled, 3 in part, {1 + refused} not at all."
    )
    assert counted in shown(lens)


def test_what_goes_on_after_a_break_has_the_reason_that_it_is_eager_for() -> None:
    """The rest of a function breaks for good, or was compiled too often: it was not simply passed over."""

    def broken(x: Tensor) -> Tensor:
        y = x + 1
        print(y.shape)
        return skipped(y)

    def recompiled(x: Tensor, by: object) -> Tensor:
        print(x.shape)
        return x * 2 if by else x

    with Lens(strict=True) as lens, torch._dynamo.config.patch(recompile_limit=2):
        compiled(broken)(X)
        again = compiled(recompiled)
        for by in ("a", 2.5, None, [1]):
            again(X, by)
    found = {(each.reason, each.extent): each for each in eager(lens.recording, summarize(lens.recording)).parts}
    assert found[Reason.LIMIT, Extent.UNFIT].lines[0].first > 0
    place = found[Reason.GRAPH_BREAK, Extent.EVERY_CALL].place
    assert place is not None
    assert place.code == 'print("again")'
    assert not [reason for reason, _ in found if reason is Reason.SKIPPED]


def test_calls_that_a_stance_makes_eager_are_counted_by_function() -> None:
    before = eval_frame._callback_from_stance
    with Lens(strict=True) as lens:
        tower, scaled, in_place = compiled(Tower()), compiled(scale), Tower()
        in_place.compile(backend="eager")
        tower(X), scaled(X)
        with torch.compiler.set_stance("force_eager"):
            for _ in range(5):
                tower(X), kept_out(X)
            scaled(X), in_place(X)
        assert eval_frame._callback_from_stance is before  # nothing of ours is in a compiled call
        tower(X)
        assert parts(lens)["Tower.forward", Reason.STANCE] == (Extent.IN_FORCE, 6)
        torch.compiler.set_stance("force_eager")
        scaled(X)
    assert eval_frame._callback_from_stance is before  # nor is it left behind
    torch.compiler.set_stance("default")
    assert parts(lens) == {
        ("Tower.forward", Reason.STANCE): (Extent.IN_FORCE, 6),
        ("scale", Reason.STANCE): (Extent.IN_FORCE, 2),
    }
    assert "8 calls that ran eagerly" in shown(lens)


def test_the_first_screen_counts_the_calls_of_a_stance() -> None:
    with Lens(strict=True) as lens, torch.compiler.set_stance("force_eager"):
        scaled = compiled(scale)
        for _ in range(3):
            scaled(X)
        compiled(Tower())
    said = " ".join(lens.report(color=False, width=120).split())
    assert "calls of compiled functions run eagerly while it is in force. So ran 3 calls." in said
    assert ("Tower.forward", Reason.NEVER_CALLED) in parts(lens)
    assert ("scale", Reason.NEVER_CALLED) not in parts(lens)


def test_calls_are_told_before_too_many_wait_and_by_what_interrupts_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MOST_CALLS", 4)
    with Lens(strict=True) as lens, torch.compiler.set_stance("force_eager"):
        scaled, tower = compiled(scale), compiled(Tower())
        for _ in range(10):
            scaled(X)
        assert len(lens._session._eager) == 2
        take, called = lens._session.take, []

        def take_and_call(event: Event) -> None:  # as a handler of a signal may
            if not called:
                called.append(tower(X))
            take(event)

        monkeypatch.setattr(lens._session, "take", take_and_call)
        assert parts(lens)["scale", Reason.STANCE] == (Extent.IN_FORCE, 10)
        assert parts(lens)["Tower.forward", Reason.STANCE] == (Extent.IN_FORCE, 1)


def test_only_the_lens_that_is_asked_counts() -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    scaled = torch.compile(scale, backend=one)
    with torch.compiler.set_stance("force_eager"):
        scaled(X)
    assert [each.calls for each in one.recording.eager_calls] == [1]
    assert other.recording.eager_calls == ()
    one.close()
    other.close()


def test_calls_that_run_what_is_there_are_not_counted_under_a_stance_that_only_compiles_nothing_new() -> None:
    with Lens(strict=True) as lens:
        scaled = compiled(scale)
        scaled(X)
        with torch.compiler.set_stance("eager_on_recompile"):
            scaled(X)
            scaled(torch.ones(3, 4))
    assert parts(lens) == {("", Reason.STANCE): (Extent.UNFIT, None)}
    assert "every function calls that fit no compilation" in shown(lens)


def test_a_stance_that_is_refused_counts_nothing() -> None:
    """Nor is anything of ours in a compiled call afterwards."""
    before = eval_frame._callback_from_stance

    with Lens(strict=True) as lens:
        torch.compile(scale, backend="eager")(X)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("torch._C._dynamo.eval_frame.get_eval_frame_callback", lambda: True)
            with pytest.raises(RuntimeError, match=r"in a torch\.compile region"):
                torch.compiler.set_stance("force_eager")
        assert eval_frame._callback_from_stance is before
        torch.compile(scale, backend="eager")(X)
    assert lens.recording.eager_calls == ()
    assert lens.recording.stances == ()


def test_a_stance_from_before_the_lens_is_known_to_every_lens() -> None:
    try:
        torch.compiler.set_stance("force_eager")
        lens = Lens(strict=True)  # no block: what it compiles itself
        torch.compile(scale, backend=lens)(X)
        lens.close()
    finally:
        torch.compiler.set_stance("default")
    assert [(stance.name, stance.place) for stance in lens.recording.stances] == [("force_eager", None)]
    assert [each.calls for each in lens.recording.eager_calls] == [1]


def test_a_function_that_raised_while_it_was_compiled_is_not_left_out() -> None:
    def refused(x: Tensor) -> Tensor:
        return x @ torch.ones(7, 7)

    with Lens(strict=True) as lens:
        compiled(scale)(X)
        with pytest.raises(Exception, match="fake tensor"):
            compiled(refused)(X)
    assert eager(lens.recording, summarize(lens.recording)).functions == {Runs.COMPILED: 1, Runs.FAILED: 1}
    assert "Of 2 functions that entered the compiler 1 runs compiled, 1 raised while it was compiled." in shown(lens)


def captured(graph_module: torch.fx.GraphModule, _inputs: object) -> object:
    return graph_module.forward


def refused(x: Tensor) -> Tensor:
    raise ValueError(x.shape)


def stances(lens: Recorder) -> list[str]:
    return [stance.name for stance in lens.recording.stances]


def test_stances_of_what_measures_are_none_of_the_programs() -> None:
    with Lens(strict=True) as lens:
        compiler_lens.what_if(scale, X)
        compiler_lens.compare_modes(Tower(), X, modes=("eager",), seconds=0.01)
        with pytest.raises(UsageError):
            lens.profile(torch.compile(refused, backend=lens), X)
    assert stances(lens) == []


def test_what_records_alone_hears_of_no_stance_from_before_a_lens_of_the_program() -> None:
    """As `fix` runs a program: under a stance of its own, and the program may open lenses."""
    with torch.compiler.set_stance("default", force_backend=captured), recorded(notes_stance=False) as ours:
        with Lens(strict=True) as lens:
            torch.compile(scale)(X)
        compiler_lens.what_if(scale, X)
        assert stances(ours) == stances(lens) == []
        with torch.compiler.set_stance("eager_on_recompile"):
            assert stances(ours) == ["eager_on_recompile"]


def test_a_lens_that_opens_tells_no_other_of_the_stance_in_force() -> None:
    with Lens(strict=True) as lens:
        try:
            torch.compiler.set_stance("force_eager")
            other = Lens(strict=True)
            other.close()
        finally:
            torch.compiler.set_stance("default")
    assert [stance.place is not None for stance in lens.recording.stances] == [True]
    assert stances(other) == ["force_eager"]


def test_a_generator_in_a_file_where_nothing_is_compiled_has_torchs_words_and_hint(tmp_path: Path) -> None:
    """All that torch hands over is that "an error was suppressed": the file's text tells what it is about."""
    file = tmp_path / "rows.py"
    file.write_text("def rows(x):\n    for row in x:\n        yield row * 2\n")
    with Lens(strict=True) as lens:
        list(compiled(runpy.run_path(str(file))["rows"])(X))  # type: ignore[call-overload]
    assert parts(lens) == {("rows", Reason.GENERATOR): (Extent.EVERY_CALL, None)}
    overview = " ".join(view(lens.recording, "findings", page_for(lens.recording, width=200, color=False)).split())
    assert "Generators cannot be compiled directly with `torch.compile`. Call a generator from inside of" in overview
    assert "suppressed" not in overview
