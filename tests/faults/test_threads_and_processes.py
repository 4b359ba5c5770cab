"""Compiling in several threads at once, in forked and spawned children, with compile workers."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor

import compiler_lens
from compiler_lens import Lens
from compiler_lens.recording.event import Event

X = torch.ones(4)
PATIENCE = 600  # seconds: only what hangs takes as long, however busy the machine is
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]
Made = Callable[[int], list[Callable[[Tensor], Tensor]]]


@pytest.fixture(autouse=True, scope="module")
def _compiled_before() -> None:
    """torch 2.11 by itself crashes where a process's first compilation is in another thread than the main one."""
    torch.compile(lambda x: x + 1, backend="eager")(X)


def in_threads(steps: list[Callable[[], None]]) -> None:
    """Run all steps at once; raise what any of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(steps))

    def work(step: Callable[[], None]) -> None:
        start.wait()
        try:
            step()
        except BaseException as error:  # noqa: BLE001 -- raised below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it hangs"
    for error in errors:
        raise error


def compile_all(functions: list[Callable[[Tensor], Tensor]], backend: Any) -> Callable[[], None]:
    def step() -> None:
        for function in functions:
            assert torch.equal(torch.compile(function, backend=backend)(X), function(X))

    return step


def test_threads_that_compile_at_once_under_one_lens(functions: Functions, events: Events, made: Made) -> None:
    work = made(12)
    with Lens(strict=True) as lens:
        in_threads([compile_all(work[at::4], "eager") for at in range(4)])
    recording = lens.recording

    assert sorted(functions(lens)) == sorted(f.__name__ for f in work)
    assert len(recording.graphs) == 12
    assert len({e.run for e in events(lens)} - {None}) == 12
    for graph in recording.graphs:
        compilation = next(c for c in recording.compilations if c.compile_id == graph.compile_id)
        number = compilation.function.rpartition("_")[2]
        assert f"+ {number}" in graph.code


def test_threads_with_a_lens_each(functions: Functions, made: Made) -> None:
    work = made(8)
    lenses = [Lens(strict=True) for _ in range(4)]
    for lens in lenses:
        lens._delegates.wrapper = lambda *_args: torch._dynamo.lookup_backend("eager")  # type: ignore[method-assign]
    in_threads([compile_all(work[at::4], lens) for at, lens in enumerate(lenses)])
    for lens in lenses:
        lens.close()

    for at, lens in enumerate(lenses):
        assert functions(lens) == [f.__name__ for f in work[at::4]]


def test_lenses_that_open_and_close_while_others_compile(
    functions: Functions, torch_now: Callable[[], Any], made: Made
) -> None:
    before = torch_now()
    work = made(6)

    def come_and_go() -> None:
        for _ in range(60):
            with Lens(strict=True):
                pass

    in_threads([compile_all(work, "eager"), come_and_go, come_and_go])

    assert torch_now() == before
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compile_all(work[:1], "eager")()
    assert functions(lens) == ["function_0"]


def open_into(lenses: list[Lens]) -> None:
    lenses.append(Lens(strict=True).__enter__())


def test_a_hook_is_put_in_once_however_many_threads_ask(events: Events, made: Made) -> None:
    for _ in range(20):
        torch._dynamo.reset()
        one, other = Lens(strict=True), Lens(strict=True)
        one.close()
        other.close()
        lenses: list[Lens] = []
        in_threads([partial(open_into, lenses)] * 4)
        assert len({id(lens._tap) for lens in lenses}) == 1
        for lens in lenses:
            lens.close()
    with Lens(strict=True) as lens:
        compile_all(made(1), "eager")()

    assert [e.name for e in events(lens)].count("lens.node_facts") == 1


def test_a_recording_asked_for_in_mid_compilation(functions: Functions, made: Made) -> None:
    seen: list[list[Any]] = []

    def backend(gm: Any, _inputs: Any) -> Any:
        ask = threading.Thread(target=lambda: seen.append([c.function for c in lens.recording.compilations]))
        ask.start()
        ask.join(PATIENCE)
        seen.append([c.outcome.value for c in lens.recording.compilations])
        assert lens.report()
        return gm.forward

    with Lens(strict=True) as lens:
        compile_all(made(1), backend)()

    assert seen == [["function_0"], ["unfinished"]]
    assert functions(lens) == ["function_0"]


def test_compile_workers() -> None:
    with torch._inductor.config.patch(compile_threads=2, fx_graph_cache=False):
        lens = Lens(strict=True)

        def two_kernels(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x.sin().sum(), y.cos() + 1

        result = torch.compile(two_kernels, backend=lens)(X, torch.ones(9))
        lens.close()
    recording = lens.recording

    assert torch.allclose(result[0], X.sin().sum())
    assert recording.problems == ()
    assert {"sin", "cos"} <= {node for kernel in recording.kernels for node in kernel.nodes}
    assert [c.outcome.value for c in recording.compilations] == ["compiled"]


CHILDREN = """
import json, multiprocessing, os, sys
import torch
import compiler_lens

def parents(x):
    return x.sin() + 1

def childs(x):
    return x.cos() * 2

def in_child(path):
    # The eager backend: Inductor itself hangs in a child that was forked after a compilation.
    assert torch.equal(torch.compile(childs, backend="eager")(torch.ones(3)), childs(torch.ones(3)))
    with compiler_lens.Lens(path, strict=True) as own:
        torch._dynamo.reset()
        torch.compile(childs, backend="eager")(torch.ones(3))
    assert [c.function for c in own.recording.compilations] == ["childs"]

if __name__ == "__main__":
    path, own = sys.argv[1:]
    lens = compiler_lens.Lens(path, strict=True).__enter__()
    torch.compile(parents, backend="eager")(torch.ones(3))
    size = os.path.getsize(path)

    child = os.fork()  # one that leaves by the front door: atexit, finalizers
    if child == 0:
        in_child(own + ".forked")
        lens.close()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    child = os.fork()  # one that does not close it
    if child == 0:
        torch.compile(childs, backend="eager")(torch.ones(3))
        sys.exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8

    for how in ("fork", "spawn"):
        process = multiprocessing.get_context(how).Process(target=in_child, args=(own + "." + how,))
        process.start()
        process.join(600)
        assert process.exitcode == 0, how

    with open(path) as file:  # The parent itself notes, once, each line that starts processes.
        file.seek(size)
        assert [json.loads(line)["e"] for line in file if line.strip()] == ["lens.child"] * 3
    torch._dynamo.reset()
    torch.compile(parents, backend="eager")(torch.ones(3))
    lens.__exit__(None, None, None)
    print(json.dumps([str(c.compile_id) + c.function for c in lens.recording.compilations]))
"""


def test_children_write_nothing_and_close_nothing_of_their_parents(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CHILDREN)
    path = tmp_path / "run.clens"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(path), str(tmp_path / "own")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # which a process that was forked cannot use
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == ["0/0parents", "0/0@1parents"]
    recording = compiler_lens.load(path, strict=True)
    assert [c.function for c in recording.compilations] == ["parents", "parents"]
    assert recording.problems == ()
    for how in ("forked", "fork", "spawn"):
        own = compiler_lens.load(tmp_path / f"own.{how}", strict=True)
        assert [c.function for c in own.compilations] == ["childs"]
        assert own.environment.pid != recording.environment.pid


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_the_journal_is_locked_can_still_ask(tmp_path: Path) -> None:
    with Lens(tmp_path / "run.clens", strict=True) as lens, lens._session.journal._lock:
        child = os.fork()
        if child == 0:
            thread = threading.Thread(target=lambda: (lens.recording, lens.close()), daemon=True)
            thread.start()
            thread.join(PATIENCE)
            os._exit(1 if thread.is_alive() else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
