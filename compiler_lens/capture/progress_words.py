"""What the live line calls things: frames, and what torch is doing to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.resume_names import resumed

# torch's timed spans, in a user's words. A span that is not here belongs to the one around it.
PHASES: Mapping[str, str] = {
    "dynamo": "tracing",
    "compiled_autograd": "tracing the backward",
    "bytecode_tracing": "tracing",
    "build_guards": "building guards",
    "AOTAutogradCache.inductor_load": "loading from the cache",
    "create_aot_dispatcher_function": "autograd",
    "aot_trace_joint_graph": "autograd",
    "min_cut_rematerialization_partition": "autograd",
    "_recursive_pre_grad_passes": "rewriting the graph",
    "_recursive_joint_graph_passes": "rewriting the graph",
    "_recursive_post_grad_passes": "rewriting the graph",
    "fx_codegen_and_compile": "lowering",
    "GraphLowering.run": "lowering",
    "Scheduler.__init__": "fusing",
    "code_gen": "generating code",
    "Scheduler.codegen": "generating code",
    "PythonWrapperCodegen.generate": "generating code",
    "compile_file": "compiling C++",
    "async_compile.wait": "compiling kernels",
    "async_compile.precompile": "compiling kernels",
    "CachingAutotuner.benchmark_all_configs": "autotuning",
    "CachingAutotuner.coordinate_descent_tuning": "autotuning",
    "CachingAutotuner.combo_sequential_autotune": "autotuning",
    "benchmark_fused_nodes": "autotuning",
}
# Autotuning an op of the user's: mm_template_autotuning (AlgorithmSelectorCache in _inductor/select_algorithm.py).
_PHASE_ENDINGS = (("_template_precompiling", "compiling choices for "), ("_template_autotuning", "autotuning "))

_WRAPPER = "a module"


def phase_words(span: str) -> str | None:
    """What torch does during a timed span; None for a span that says no more than the one around it."""
    words = PHASES.get(span)
    if words is None and "_template_" in span:
        words = next((f"{w}{span.removesuffix(ending)}" for ending, w in _PHASE_ENDINGS if span.endswith(ending)), None)
    return words


def frame_label(meta: Mapping[str, Any]) -> str:
    """A frame, from what `lens.frame_start` tells of it: `step (train.py:41)`."""
    file = meta.get("file") or ""
    function = meta.get("module") or meta.get("function") or "a function"
    if file.endswith(WRAPPER_FILE):
        return str(meta.get("module") or _WRAPPER)
    rest = resumed(function)
    return _placed(f"rest of {rest.function}" if rest else function, file, meta.get("line"))


def is_torchs_wrapper(label: str) -> bool:
    """Whether a frame's label says nothing yet."""
    return label == _WRAPPER


def caller_label(stack: Iterable[Mapping[str, Any]], files: Mapping[int, str]) -> str | None:
    """A module, by the user's line that calls it; None if torch's stack does not show one."""
    places = ((files.get(frame.get("filename", -1), ""), frame.get("line")) for frame in stack)
    users = [(file, line) for file, line in places if file and "/torch/" not in file]
    return _placed("module", *users[-1]) if users else None


def _placed(name: str, file: str, line: int | None) -> str:
    return f"{name} ({file.rpartition('/')[2]}:{line})" if file else name
