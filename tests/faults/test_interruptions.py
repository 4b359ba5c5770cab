"""A compilation that does not come to its end: interrupted, failed, killed."""

import functools
import multiprocessing
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslator

import compiler_lens
from compiler_lens import Lens
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import read_journal

X = torch.ones(4)
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]


def first(x: Tensor) -> Tensor:
    return x.sin() + 1


def second(x: Tensor) -> Tensor:
    return x.cos() * 2


def run(function: Callable[[Tensor], Tensor], backend: Any = "eager", **settings: Any) -> None:
    result = torch.compile(function, backend=backend, **settings)(X)
    assert torch.allclose(result, function(X), atol=1e-6)


def interrupt(*_args: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupt_in_the_backend(functions: Functions) -> None:
    with Lens(strict=True) as lens:
        with pytest.raises(KeyboardInterrupt):
            run(first, interrupt)
        run(second)

    assert functions(lens) == ["second"]
    assert {c.function: c.outcome.value for c in lens.recording.compilations}["first"] == "failed"


def test_an_interrupt_inside_inductor(functions: Functions) -> None:
    lens = Lens(strict=True)
    options = {"post_grad_custom_post_pass": interrupt, "fx_graph_cache": False}
    with torch._functorch.config.patch(enable_autograd_cache=False):
        with pytest.raises(KeyboardInterrupt):
            run(first, lens, options=options)
        run(second, lens)
    lens.close()
    recording = lens.recording

    assert functions(lens) == ["second"]
    (kernel,) = recording.kernels
    assert set(kernel.nodes) == {"cos", "mul"}


TORCH_IS_BROKEN = 77  # an exit code


def test_interrupts_at_any_moment_leave_a_whole_journal_and_a_working_lens(
    functions: Functions, tmp_path: Path
) -> None:
    """In a child: what torch was in the midst of, it does not always put right again, as later tests would see.

    A child in which torch itself no longer compiles, without a lens either, says nothing of ours: another one is tried.
    """
    context = multiprocessing.get_context("fork")
    exit_code: int | None = TORCH_IS_BROKEN
    for attempt in range(5):
        if exit_code == TORCH_IS_BROKEN:
            child = context.Process(target=in_a_child, args=(functions, tmp_path / f"{attempt}.clens"))
            child.start()
            child.join()
            exit_code = child.exitcode
    assert exit_code == 0


def in_a_child(functions: Functions, path: Path) -> None:
    try:
        interrupted_at_any_moment(functions, path)
    except Exception:
        torch._dynamo.reset()
        try:
            run(second, "aot_eager")
        except Exception:  # noqa: BLE001 -- a mode of torch's that stayed on fails in any way
            sys.exit(TORCH_IS_BROKEN)
        raise


def interrupted_at_any_moment(functions: Functions, path: Path) -> None:
    rung: list[int] = []

    def ring(*_args: Any) -> None:
        rung.append(step)
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, ring)
    run(first, "aot_eager")  # imports all that it needs: a half imported module stays one
    with Lens(path) as lens:
        for step in range(25):
            torch._dynamo.reset()
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.001 + step * 0.002)
                    run(first, "aot_eager")
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)  # it may still come here
            except KeyboardInterrupt:
                pass
            except Exception as error:
                # torch's own clean-up may fail after it; ours may not.
                innermost = traceback.extract_tb(error.__traceback__)[-1].filename
                if step not in rung or str(Path(compiler_lens.__file__).parent) in innermost:
                    raise
        assert lens._tap.local.thread.frames == []
        assert lens._tap.local.thread.is_ours is False
        torch._dynamo.reset()
        run(second, "aot_eager")

    assert len(rung) > 3
    recording = lens.recording
    last = next(c.compile_id for c in recording.compilations if c.function == "second")
    assert functions(lens)[-1] == "second"
    assert {g.stage.value for g in recording.graphs if g.compile_id == last} == {"dynamo", "inference"}
    assert compiler_lens.load(path) == recording


def test_an_interrupt_inside_our_own_code_leaves_a_whole_journal(
    monkeypatch: pytest.MonkeyPatch, events: Events, functions: Functions
) -> None:
    with Lens(strict=True) as lens:
        journal = lens._session.journal
        write = journal._write

        def interrupted(data: bytes) -> None:
            if b"lens.node_facts" in data:
                raise KeyboardInterrupt
            write(data)

        monkeypatch.setattr(journal, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(first)
        monkeypatch.undo()
        torch._dynamo.reset()
        run(first)  # tells the same long texts, which were never written

    assert functions(lens) == ["first"]
    assert any(e.name == "lens.node_facts" for e in events(lens))


def test_a_signal_handler_that_compiles_while_we_write_leaves_a_whole_journal(
    monkeypatch: pytest.MonkeyPatch, events: Events, functions: Functions
) -> None:
    with Lens(strict=True) as lens:
        journal = lens._session.journal
        write = journal._write
        handled: list[str] = []

        def interrupted(data: bytes) -> None:
            if b"lens.node_facts" in data and not handled:
                handled.append("once")
                run(second)
            write(data)

        monkeypatch.setattr(journal, "_write", interrupted)
        run(first)
        run(lambda x: x.sin() + 1)

    assert handled
    assert {"first", "second"} <= set(functions(lens))
    codes = {
        c.function: g.code
        for c in lens.recording.compilations
        for g in lens.recording.graphs
        if g.compile_id == c.compile_id
    }
    assert "sin" in codes["first"]
    assert "cos" in codes["second"]


def failure_of(compile_it: Callable[[], None]) -> type[BaseException]:
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- which one is the question
        compile_it()
    return caught.type


def raise_value_error(*_args: Any, **_kwargs: Any) -> Any:
    raise ValueError("not today")


FAILING_BACKENDS: list[tuple[str, Any, dict[str, Any]]] = [
    ("of the user's", raise_value_error, {}),
    (
        "custom pass",
        "inductor",
        {"options": {"post_grad_custom_post_pass": raise_value_error, "fx_graph_cache": False}},
    ),
    ("unknown option", "inductor", {"options": {"no_such_option": 1}}),
    ("unknown mode", "inductor", {"mode": "no-such-mode"}),
]


@pytest.mark.parametrize(("_name", "backend", "settings"), FAILING_BACKENDS, ids=[case[0] for case in FAILING_BACKENDS])
def test_a_failing_backend_raises_what_it_does_without_a_lens(
    _name: str, backend: Any, settings: dict[str, Any]
) -> None:
    with torch._functorch.config.patch(enable_autograd_cache=False):
        plain = failure_of(lambda: run(first, backend, **settings))
        with Lens(strict=True) as lens:
            recorded = failure_of(lambda: run(first, backend, **settings))

    assert recorded is plain
    compiled = [(c.function, c.outcome.value) for c in lens.recording.compilations]
    if "no_such" in str(settings) or "no-such" in str(settings):
        assert compiled == []  # torch.compile() itself refuses
    else:
        assert compiled == [("first", "failed")]
        assert "not today" in lens.recording.compilations[0].reason


def test_a_lens_that_hands_over_to_a_failing_inductor_raises_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", raise_value_error)
    plain = failure_of(lambda: run(first, "inductor"))
    lens = Lens(strict=True)
    recorded = failure_of(lambda: run(first, lens))
    lens.close()

    assert recorded is plain
    assert [(c.function, c.outcome.value) for c in lens.recording.compilations] == [("first", "failed")]


@pytest.mark.parametrize("settings", [{"options": {"no_such_option": 1}}, {"mode": "no-such-mode"}])
def test_what_torch_refuses_for_inductor_a_lens_refuses_at_the_first_call(settings: dict[str, Any]) -> None:
    lens = Lens(strict=True)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"no.such"):
        torch.compile(first, backend=lens, **settings)(X)
    lens.close()

    assert [(c.function, c.outcome.value) for c in lens.recording.compilations] == [("first", "failed")]


def test_suppressed_errors_stay_suppressed(functions: Functions) -> None:
    with torch._dynamo.config.patch(suppress_errors=True), Lens(strict=True) as lens:
        run(first, raise_value_error)
        run(second)

    assert functions(lens) == ["second"]


KILLED = """
import os, signal, sys
import torch
import compiler_lens

def killed(graph):
    os.kill(os.getpid(), signal.SIGKILL)

def whole(x):
    return x.sin() + 1

def half(x):
    return x.cos() * 2

lens = compiler_lens.Lens(sys.argv[1], strict=True).__enter__()
torch.compile(whole, backend="aot_eager")(torch.ones(3))
options = {"post_grad_custom_post_pass": killed, "fx_graph_cache": False}
torch._functorch.config.enable_autograd_cache = False
torch.compile(half, backend=lens, options=options)(torch.ones(3))
"""


def test_after_a_kill_in_mid_compilation_the_file_holds_all_that_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "run.clens"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)

    assert done.returncode == -signal.SIGKILL
    recording = compiler_lens.load(path, strict=True)
    assert recording.unfinished == "it is still being written, or the process ended early"
    assert len(recording.problems) == 1
    assert [(c.function, c.outcome.value) for c in recording.compilations] == [
        ("whole", "compiled"),
        ("half", "unfinished"),
    ]
    assert [g.stage.value for g in recording.graphs] == ["dynamo", "inference", "dynamo", "inference"]


def test_what_waits_is_written_before_anything_of_the_users_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process may be killed, or hang, while a function is traced or in a backend; and once it is done."""
    path = tmp_path / "run.clens"
    seen: dict[str, set[str]] = {}

    def look(when: str) -> None:
        seen[when] = {event.name for event in read_journal(path)[0]} - set().union(*seen.values())

    def backend(graph: Any, _inputs: Any) -> Any:
        look("backend")
        return graph.forward

    trace = InstructionTranslator.run

    def traced(self: Any) -> Any:
        look("trace")
        return trace(self)

    monkeypatch.setattr(InstructionTranslator, "run", traced)
    with Lens(path, strict=True):
        compiled = torch.compile(first, backend=backend)
        compiled(X)
        look("end")

    assert seen["trace"] >= {"lens.compile_site", "lens.environment", "lens.frame_start", "lens.source", "dynamo_start"}
    assert seen["backend"] >= {"dynamo_output_graph", "lens.node_facts"}
    assert seen["end"] >= {"dynamo_cpp_guards_str", "compilation_metrics", "lens.frame_end"}


def test_where_torchs_own_eager_takes_a_graph_nothing_of_the_users_runs_and_it_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "run.clens"
    seen: list[set[str]] = []
    call = OutputGraph.call_user_compiler

    @functools.wraps(call)
    def called(self: Any, *args: Any) -> Any:
        result = call(self, *args)
        seen.append({event.name for event in read_journal(path)[0]})
        return result

    def eager(graph: Any, _inputs: Any) -> Any:  # torch's in name alone
        return graph.forward

    monkeypatch.setattr(OutputGraph, "call_user_compiler", called)
    with Lens(path, strict=True):
        run(first)
        run(second, eager)

    assert ["lens.node_facts" in names for names in seen] == [False, True]
    assert [graph.stage.value for graph in compiler_lens.load(path, strict=True).graphs] == ["dynamo", "dynamo"]
