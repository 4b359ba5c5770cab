"""What is said of autotuning where there was none."""

import pytest

from compiler_lens.facts.program.select import EVERYTHING
from compiler_lens.recording.model import (
    AutotuneResult,
    Compilation,
    CompileId,
    Direction,
    Kernel,
    KernelKind,
    Outcome,
    Recording,
)
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.views.words import tuning_time

ID = CompileId(0, 0)


@pytest.mark.parametrize(
    ("mode", "called", "device", "told"),
    [
        ("default", "addmm", "cpu", 'Nothing was autotuned: mode="max-autotune" asks for it.'),
        (
            "max-autotune",
            "addmm",
            "cpu",
            "though it was asked for: on a CPU Inductor has matrix products of its own only",
        ),
        ("max-autotune", "convolution", "cpu", "though it was asked for: on a CPU Inductor has no convolution"),
        ("max-autotune", "topk", "cpu", "though it was asked for: there is no matrix product and no convolution"),
        ("max-autotune", "addmm", "cuda", "Nothing was autotuned, though it was asked for."),
        ("max-autotune", "bmm", "cpu", "Nothing was autotuned, though it was asked for."),
    ],
)
def test_where_nothing_was_autotuned_it_says_why(mode, called, device, told):
    compilation = Compilation(ID, "forward", "model.py", 1, Outcome.COMPILED, mode=mode)
    kernel = Kernel(ID, Direction.FORWARD, f"extern_kernels.{called}", KernelKind.EXTERN, device=device)
    recording = Recording(compilations=(compilation,), kernels=(kernel,))
    text = view(recording, "autotune", page_for(recording, width=100, color=False), EVERYTHING)
    assert told in " ".join(text.split())


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([(5.0, 0.75, False)], "5.75 s"),
        ([(5.0, 0.75, True)], "5.75 s of an earlier run"),
        ([(5.0, None, True), (2.0, None, False)], "2.00 s, and 5.00 s of an earlier run"),
        ([(None, None, False)], "0 ms"),
    ],
)
def test_time_that_an_earlier_run_spent_is_not_of_this_one(results, told):
    tuned = [AutotuneResult(ID, "mm", (), (), seconds, precompile, cached) for seconds, precompile, cached in results]
    assert tuning_time(tuned) == told
    recording = Recording(autotunes=tuple(tuned))
    assert f" in {told}\n" in view(recording, "autotune", page_for(recording, width=100, color=False), EVERYTHING)
