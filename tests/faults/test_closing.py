"""Closing, being collected, leaving: torch is as it was, and what was compiled goes on."""

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import convert_frame
from torch._dynamo.backends.debugging import aot_eager

from compiler_lens import Lens
from compiler_lens import lens as door
from compiler_lens.capture import hooks
from compiler_lens.capture.doors import DOOR_HOOKS
from compiler_lens.capture.hooks import DYNAMO_HOOKS
from compiler_lens.capture.torch_api import dynamo, structured_trace
from compiler_lens.recording.event import Event

X = torch.ones(4)
Now = Callable[[], dict[str, Any]]
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]


def first(x: Tensor) -> Tensor:
    return x.sin() + 1


def second(x: Tensor) -> Tensor:
    return x.cos() * 2


def with_fast_backend(**settings: Any) -> Lens:
    """A lens that hands over to AOTAutograd alone: no C++ is compiled."""
    lens = Lens(strict=True, **settings)
    lens._delegates.wrapper = lambda *_args: aot_eager  # type: ignore[method-assign]
    return lens


def run(function: Callable[[Tensor], Tensor], backend: Any = "eager") -> None:
    assert torch.allclose(torch.compile(function, backend=backend)(X), function(X), atol=1e-6)


def test_close_leaves_torch_as_it_was(torch_now: Now) -> None:
    before = torch_now()
    lens = Lens(strict=True)
    run(first, lens)  # Inductor: all hooks are in
    assert torch_now() != before
    lens.close()

    assert torch_now() == before


@pytest.mark.parametrize("table", ["DYNAMO_HOOKS", "AOT_HOOKS", "SETTING_HOOKS", "INDUCTOR_HOOKS", "CODEGEN_HOOKS"])
def test_a_function_that_goes_in_keeps_nothing_of_one_tap_but_its_place(table: str) -> None:
    """The next lens has the same one: it is told another tap, and of torch nothing else may have changed."""
    for hook in (*getattr(hooks, table), *DOOR_HOOKS):
        hooked = hook.make(None, None, torch.nn.Module.forward)  # nothing is asked of the tap
        kept = dict(zip(hooked.__code__.co_freevars, hooked.__closure__, strict=True))
        assert kept["tap"].cell_contents is None


def test_a_tap_is_gone_once_its_lens_is_closed() -> None:
    """Else the collector would find it, with what logging knows of it, in the middle of a later compilation."""
    lens = with_fast_backend()
    run(first, lens)
    known = weakref.ref(lens._tap)
    lens.close()
    del lens
    torch._dynamo.reset()
    gc.collect()
    assert known() is None


def test_a_lens_that_opens_after_another_one_hears_all() -> None:
    recordings = []
    for _ in range(2):
        torch._dynamo.reset()
        lens = with_fast_backend()
        run(first, lens)
        lens.close()
        recordings.append(lens.recording)
    one, other = recordings
    assert [graph.stage for graph in one.graphs] == [graph.stage for graph in other.graphs]
    assert len(one.graphs) > 1
    assert [of.function for of in other.compilations] == ["first"]


def test_a_hook_goes_by_the_name_and_the_signature_of_what_it_goes_round() -> None:
    def shown() -> list[Any]:
        places = [hook.place.find() for hook in (*DYNAMO_HOOKS, *DOOR_HOOKS)]
        found = [getattr(place.holder, place.attribute) for place in places]
        names = [(one.__name__, one.__qualname__, one.__module__, one.__doc__) for one in found]
        return [*names, *map(inspect.signature, found)]

    before = shown()
    with Lens(strict=True):
        assert hasattr(convert_frame.CatchErrorsWrapper.__call__, "_torchdynamo_inline")
        assert shown() == before


def test_leaving_a_with_by_an_error_leaves_torch_as_it_was(torch_now: Now) -> None:
    before = torch_now()
    with pytest.raises(ZeroDivisionError), Lens(strict=True):
        run(lambda x: x.sin() + 1 / 0)

    assert torch_now() == before


def test_closing_twice_is_closing_once(torch_now: Now, functions: Functions) -> None:
    before = torch_now()
    lens = Lens(strict=True)
    with lens:
        run(first)
        lens.close()
        run(second)
        lens.close()
    lens.close()

    assert torch_now() == before
    assert functions(lens) == ["first"]


def test_closing_one_of_two_keeps_the_other_one_listening(functions: Functions) -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    with other:
        one.close()
        run(first)

    assert functions(other) == ["first"]


def test_a_lens_that_is_collected_takes_its_hooks_along(torch_now: Now) -> None:
    before = torch_now()
    lens = with_fast_backend()
    model = torch.compile(first, backend=lens)
    model(X)
    dead = weakref.ref(lens)
    del lens, model
    torch._dynamo.reset()  # torch itself keeps every backend until then
    gc.collect()

    assert dead() is None
    assert torch_now() == before


def test_a_lens_that_nobody_compiled_with_is_collected_at_once(torch_now: Now) -> None:
    before = torch_now()
    Lens(strict=True)
    Lens(strict=True).__enter__()

    assert torch_now() == before


def test_a_lens_collected_in_mid_compilation_does_not_disturb(torch_now: Now) -> None:
    before = torch_now()
    holder = [Lens(strict=True)]
    holder[0].__enter__()

    def backend(gm: Any, _inputs: Any) -> Any:
        holder.clear()
        gc.collect()
        return gm.forward

    run(first, backend)

    assert holder == []
    assert torch_now() == before


def test_a_lens_closed_in_mid_compilation_puts_no_hook_in_again(torch_now: Now) -> None:
    before = torch_now()
    lens = Lens(strict=True)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        options = {"joint_custom_post_pass": lambda _graph: lens.close(), "fx_graph_cache": False}
        result = torch.compile(first, options=options)(X)

    assert torch.allclose(result, first(X), atol=1e-6)
    assert torch_now() == before


def test_a_closed_lens_still_compiles_and_records_nothing(functions: Functions, events: Events) -> None:
    lens = with_fast_backend()
    run(first, lens)
    lens.close()
    so_far = events(lens)
    run(second, lens)

    assert events(lens) == so_far
    assert functions(lens) == ["first"]


def test_somebody_who_wrapped_our_hook_is_not_undone_and_nothing_comes_back(
    monkeypatch: pytest.MonkeyPatch, events: Events
) -> None:
    calls: list[str] = []
    original = convert_frame.CatchErrorsWrapper.__call__
    with Lens(strict=True) as lens:
        ours = convert_frame.CatchErrorsWrapper.__call__

        def theirs(*args: Any) -> Any:
            calls.append(args[1].f_code.co_name)
            return ours(*args)

        convert_frame.CatchErrorsWrapper.__call__ = theirs
    try:
        so_far = events(lens)
        run(first)
        handlers = structured_trace.trace_logger().handlers
        assert not any(type(h).__module__.startswith("compiler_lens") for h in handlers)
    finally:
        convert_frame.CatchErrorsWrapper.__call__ = original

    assert "first" in calls
    assert events(lens) == so_far


@pytest.mark.parametrize("stderr", ["none", "closed", "no terminal"])
def test_any_standard_error_will_do(
    stderr: str, monkeypatch: pytest.MonkeyPatch, functions: Functions, tmp_path: Path
) -> None:
    file = (tmp_path / "err").open("w")
    if stderr == "closed":
        file.close()
    monkeypatch.setattr(sys, "stderr", {"none": None, "closed": file, "no terminal": object()}[stderr])
    with Lens(strict=True) as lens:
        run(first)
    monkeypatch.undo()
    file.close()

    assert functions(lens) == ["first"]


def backend_of(model: Any) -> Any:
    return dynamo.innermost_backend(model.dynamo_ctx.callback).compiler_fn


def test_a_copy_of_a_compiled_model_is_recorded_by_the_same_lens(functions: Functions) -> None:
    lens = with_fast_backend()
    model = torch.compile(nn.Linear(4, 4), backend=lens)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(X), model(X))
    lens.close()

    assert functions(lens)
    assert backend_of(model) is backend_of(twin) is lens


def test_a_compiled_model_can_be_pickled_and_what_is_loaded_compiles(torch_now: Now) -> None:
    before = torch_now()
    lens = with_fast_backend()
    model = torch.compile(nn.Linear(4, 4), backend=lens)
    lens.close()
    loaded = pickle.loads(pickle.dumps(model))

    assert torch_now() == before
    assert torch.equal(loaded._orig_mod(X), model._orig_mod(X))
    assert isinstance(backend_of(loaded), Lens)
    assert "closed" in repr(backend_of(loaded))


LEAVES = """
import inspect, json, sys
import torch
import compiler_lens
from compiler_lens.capture import hooks

def doubled(x):
    return x.sin() * 2

how, path = sys.argv[1:]
lens = compiler_lens.Lens(path, strict=True)
torch._inductor.config.force_disable_caches = True  # for the hooks of code generation
if how == "open":
    lens._delegates.wrapper = lambda *_args: torch._dynamo.lookup_backend("aot_eager")
torch.compile(doubled, backend=lens)(torch.ones(3))
kept = lens.__enter__()
if how == "closed":
    lens.close()
    assert lens.recording.kernels[0].nodes
    tables = hooks.DYNAMO_HOOKS, hooks.AOT_HOOKS, hooks.INDUCTOR_HOOKS, hooks.CODEGEN_HOOKS, hooks.RUNTIME_HOOKS
    for place in [hook.place for table in tables for hook in table]:
        if place.module in sys.modules:
            found = inspect.getattr_static(*place.resolve())
            found = getattr(found, "__func__", found)
            assert not hasattr(found, "__wrapped__") or "compiler_lens" not in str(found.__globals__["__name__"]), place
            assert "compiler_lens" not in found.__globals__["__name__"], place
if how == "open":
    sys.exit("the user's message")
"""


@pytest.mark.parametrize("how", [pytest.param("open", marks=pytest.mark.long), "closed"])
def test_a_program_leaves_without_a_word_of_ours(how: str, tmp_path: Path) -> None:
    # -X dev shows files that nobody closed. A fresh process has imported nothing of Inductor's before our hooks.
    flags = ["-X", "dev"] if how == "open" else []
    done = subprocess.run(
        [sys.executable, *flags, "-W", "ignore::DeprecationWarning", "-c", LEAVES, how, str(tmp_path / "run.clens")],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if "compiler_lens" in line or "run.clens" in line]

    assert done.returncode == (1 if how == "open" else 0), done.stderr
    assert said == []
    assert ("the user's message" in done.stderr) is (how == "open")


NAMED = """
import os, sys
import torch
from compiler_lens import lens as door

def doubled(x):
    return x.sin() * 2

lens = door.compiler_lens  # as torch's entry point loads it
lens._delegates.wrapper = lambda *_args: torch._dynamo.lookup_backend("aot_eager")
torch.compile(doubled, backend=lens)(torch.ones(3))
if os.fork() == 0:
    sys.exit(0)
os.wait()
"""


def test_the_report_of_a_lens_by_name_comes_once_and_not_from_a_child() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", NAMED], capture_output=True, text=True, check=True)

    assert done.stderr.count("1 of 1 function compiled") == 1
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize("stderr", ["none", "closed"])
def test_the_report_of_a_lens_by_name_needs_no_standard_error(
    stderr: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Lens(strict=True) as lens:
        run(first)
    file = (tmp_path / "err").open("w")
    file.close()
    monkeypatch.setattr(sys, "stderr", None if stderr == "none" else file)
    door._report_at_exit(lens, os.getpid())
