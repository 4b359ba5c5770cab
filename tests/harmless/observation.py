"""What a model's run with one backend looks like from outside: found without the lens, for any backend.

`observe` runs in a process of its own, forked from one that has imported torch and compiled nothing, so that no
two runs share any state but the caches on disk.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

TESTS = Path(__file__).parents[1]
SECONDS = 300  # no specimen takes a tenth of it

# Where torch, and we, keep what a later process finds again. Compiled C++ lies beside them, under its text's hash.
CACHES = ("fxgraph", "aotautograd")

# Counters of benchmarks: their results lie in a cache of their own beside the compiled code, which all runs share.
BENCHMARKS = ("benchmarking.", "select_algorithm_autotune")

Tensor = tuple[str, tuple[int, ...], tuple[int, ...], bytes]  # type, shape, strides, bits


@dataclass
class Observation:
    """One run, seen from outside."""

    values: list[Tensor] = field(default_factory=list)  # outputs, parameters, buffers, gradients
    codes: list[str] = field(default_factory=list)  # output codes, in order
    counters: dict[str, dict[str, int]] = field(default_factory=dict)  # all of torch's
    compilations: list[tuple[Any, ...]] = field(default_factory=list)  # id and sizes of each, from torch's metrics
    entries: list[tuple[str, int]] = field(default_factory=list)  # code objects, and how often each is compiled
    guards: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # of the entries in torch's caches
    breaks: int = 0  # calls of log_graph_break that torch did not ignore
    printed: str = ""
    called: int = 0  # Python functions that later calls entered
    entered: list[str] = field(default_factory=list)  # those of them that are ours
    grown: int = 0  # entries that later calls added
    recording: Any = None  # of the lens, if there was one


class Folders:
    """One folder for compiled C++, which takes minutes, and one set of caches for each kind of run."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.inductor = self._root / "inductor"
        self.inductor.mkdir(parents=True, exist_ok=True)

    def use(self, label: str) -> None:
        """Have Inductor's folder hold the caches of this label."""
        for name in CACHES:
            (self._root / label / name).mkdir(parents=True, exist_ok=True)
            link = self.inductor / name
            link.unlink(missing_ok=True)
            link.symlink_to(self._root / label / name)

    def keys(self, label: str) -> list[str]:
        """The keys of all entries that the runs under a label left in torch's caches."""
        graphs, programs = (self._root / label / name for name in CACHES)
        # A graph's folder has two characters of its key; ours beside them is "compiler_lens".
        return sorted(path.name for path in (*graphs.glob("??/*"), *programs.glob("*")))


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["preloaded"])
    path = os.pathsep.join((str(TESTS / "harmless"), str(TESTS), os.environ.get("PYTHONPATH", "")))
    with mock.patch.dict(os.environ, {"PYTHONPATH": path}), ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result(SECONDS)


def observe(
    name: str, backend: str, folders: Folders, label: str, settings: Mapping[str, Any] | None = None
) -> Observation:
    """Run a specimen of the zoo, with other settings than its own if there are any.

    `backend` is "inductor", "lens" (a lens as backend) or "with" (a lens open round Inductor).
    """
    import zoo

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folders.inductor)
    folders.use(label)
    specimen = next(s for s in zoo.SPECIMENS if s.name == name)
    settings = specimen.settings if settings is None else settings
    seen = Observation()
    with contextlib.redirect_stdout(io.StringIO()) as printed, _watching(seen), _backend(backend, seen) as compiler:
        _exercise(specimen, {"backend": compiler, **settings}, seen)
    seen.printed = printed.getvalue()
    seen.keys = folders.keys(label)
    return seen


@contextlib.contextmanager
def _backend(kind: str, seen: Observation) -> Iterator[Any]:
    if kind == "inductor":
        yield "inductor"
        return
    from compiler_lens import Lens

    with contextlib.ExitStack() as stack:
        lens = Lens(strict=True)
        stack.callback(lens.close)
        if kind == "with":
            stack.enter_context(lens)
        yield lens if kind == "lens" else "inductor"
        seen.recording = lens.recording


@contextlib.contextmanager
def _watching(seen: Observation) -> Iterator[None]:
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase
    from torch._inductor.graph import GraphLowering

    original = InstructionTranslatorBase.log_graph_break

    def count(self: Any, code_options: Any, reason: str, exc: Any) -> None:
        seen.breaks += not exc.logged  # the first thing that torch asks: an exception on its way comes by again
        original(self, code_options, reason, exc)

    with (
        mock.patch.object(InstructionTranslatorBase, "log_graph_break", count),
        mock.patch.object(GraphLowering, "save_output_code", seen.codes.append),
    ):
        yield


def _exercise(specimen: Any, settings: Mapping[str, Any], seen: Observation) -> None:
    import torch

    torch.manual_seed(0)
    model = specimen.make()
    if specimen.training:
        model.train()
    calls = specimen.calls()
    compiled = torch.compile(model, **settings)

    def step(call: Any) -> list[Any]:
        torch.manual_seed(1)  # for dropout
        with torch.set_grad_enabled(specimen.training):
            outputs = tensors(compiled(**call))
            if specimen.training:
                sum(o.float().sum() for o in outputs if o.requires_grad).backward()
        return [output.detach() for output in outputs]

    results = [output for call in calls for output in step(call)]
    seen.values = [bits(tensor) for tensor in (*results, *state(model))]
    _note_compilations(seen)
    seen.called, seen.entered = note_calls(lambda: [step(call) for call in calls])
    later = Observation()
    _note_compilations(later)
    seen.grown = sum(count for _, count in later.entries) - sum(count for _, count in seen.entries)


def tensors(value: Any) -> list[Any]:
    """The tensors in a model's output, in order. Caches of keys and values are left out: they hold no new ones."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(value)) if hasattr(value, "to_tuple") else tree_leaves(value)
    nested = [tensors(leaf) if hasattr(leaf, "to_tuple") else [leaf] for leaf in leaves]
    return [leaf for inner in nested for leaf in inner if isinstance(leaf, torch.Tensor)]


def state(model: Any) -> list[Any]:
    """Parameters, buffers and gradients."""
    import torch

    module = model if isinstance(model, torch.nn.Module) else model.net
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return [t.detach() for t in (*module.parameters(), *module.buffers(), *gradients)]


def bits(tensor: Any) -> Tensor:
    """A tensor as plain values that are equal only if every bit is."""
    import torch

    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(tensor.dtype), tuple(tensor.shape), tensor.stride(), data


def _note_compilations(seen: Observation) -> None:
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._dynamo import convert_frame
    from torch._dynamo.utils import counters, get_compilation_metrics

    seen.counters = {
        kind: {name: n for name, n in sorted(counts.items()) if not name.startswith(BENCHMARKS)}
        for kind, counts in counters.items()
        if counts
    }
    seen.compilations = [
        (m.compile_id, m.is_forward, m.graph_op_count, m.graph_node_count, m.guard_count, m.fail_type)
        for m in get_compilation_metrics()
    ]
    for code in (reference() for reference in convert_frame.input_codes.seen):
        if code is not None:
            entries = _debug_get_cache_entry_list(code)
            seen.entries.append((f"{code.co_name} {code.co_filename}:{code.co_firstlineno}", len(entries)))
            seen.guards += [without_addresses(str(entry.guard_manager)) for entry in entries]


def without_addresses(text: str) -> str:
    """A text that another process would write alike."""
    return re.sub(r"0x[0-9a-f]{6,}|\d{9,}", "#", text)


def note_calls(action: Callable[[], Any]) -> tuple[int, list[str]]:
    """How many Python functions an action enters, in this thread and in those it starts, and which of them are ours."""
    import compiler_lens

    ours = str(Path(compiler_lens.__file__).parent) + os.sep
    called, entered = 0, []

    def note(frame: Any, event: str, _argument: Any) -> None:
        nonlocal called
        if event == "call":
            called += 1
            if frame.f_code.co_filename.startswith(ours):
                entered.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called, entered
