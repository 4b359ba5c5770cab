"""What the live line calls things: frames, and what torch is doing to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.resume_names import resumed
from compiler_lens.recording.torch_names import Phase, phase_of

_PHASES: Mapping[Phase, str] = {
    Phase.TRACING: "tracing",
    Phase.GUARDS: "building guards",
    Phase.AOT: "autograd",
    Phase.PASSES: "rewriting the graph",
    Phase.LOWERING: "lowering",
    Phase.SCHEDULING: "fusing",
    Phase.CODE_GENERATION: "generating code",
    Phase.KERNEL_COMPILATION: "compiling kernels",
    Phase.AUTOTUNING: "autotuning",
}
_SPANS: Mapping[str, str] = {
    "compiled_autograd": "tracing the backward",
    "AOTAutogradCache.inductor_load": "loading from the cache",
    "compile_file": "compiling C++",
}
# Autotuning an op of the user's: mm_template_autotuning (AlgorithmSelectorCache in _inductor/select_algorithm.py).
_ENDINGS = (("_template_precompiling", "compiling choices for "), ("_template_autotuning", "autotuning "))

_WRAPPER = "a module"


def phase_words(span: str) -> str | None:
    """Return what torch does during a timed span; None for a span that says no more than the one around it."""
    for ending, words in _ENDINGS:
        if span.endswith(ending):
            return words + span.removesuffix(ending)
    return _SPANS.get(span) or _PHASES.get(phase_of(span))


def frame_label(meta: Mapping[str, Any]) -> str:
    """Return the label of a frame, from the meta of `lens.frame_start`: `step (train.py:41)`."""
    file = meta.get("file") or ""
    function = meta.get("module") or meta.get("function") or "a function"
    if file.endswith(WRAPPER_FILE):
        return str(meta.get("module") or _WRAPPER)
    rest = resumed(function)
    return _placed(f"rest of {rest.function}" if rest else function, file, meta.get("line"))


def is_torchs_wrapper(label: str) -> bool:
    """Return whether a frame's label says nothing yet."""
    return label == _WRAPPER


def caller_label(stack: Iterable[Mapping[str, Any]], files: Mapping[int, str]) -> str | None:
    """Return the label of a module, by the user's line that calls it; None if torch's stack does not show one."""
    places = ((files.get(frame.get("filename", -1), ""), frame.get("line")) for frame in stack)
    users = [(file, line) for file, line in places if file and "/torch/" not in file]
    return _placed("module", *users[-1]) if users else None


def _placed(name: str, file: str, line: int | None) -> str:
    return f"{name} ({file.rpartition('/')[2]}:{line})" if file else name
