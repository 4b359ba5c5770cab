"""The words for facts: literal tables from enums to what a user reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from compiler_lens.facts.kernels.kernels import kernel_kinds, unusual_language
from compiler_lens.facts.overview.findings import Basis, Severity
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.time.caches import Warmth
from compiler_lens.recording.model import (
    DAMAGE,
    AutotuneResult,
    CudagraphState,
    Direction,
    GraphStage,
    Kernel,
    KernelKind,
    Outcome,
    Trust,
)
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views.text import one_line, plural, seconds

if TYPE_CHECKING:
    from compiler_lens.facts.kernels.tuned import Otherwise

OUTCOMES: Mapping[Outcome, str] = {
    Outcome.COMPILED: "compiled",
    Outcome.TRACED: "traced",
    Outcome.EMPTY: "empty",
    Outcome.SKIPPED: "skipped",
    Outcome.FAILED: "failed",
    Outcome.RECOMPILE_LIMIT: "limit hit",
    Outcome.UNFINISHED: "unfinished",
}

# Nothing of a call is recorded that does not come to the compiler, also not that it was made.
ALL_CLEAR = "no graph breaks, no recompiles in what came to the compiler."
NOT_SEEN = "Calls of a model as it was before torch.compile are not seen."
NOT_RUN = (
    "Graphs ran as Dynamo captured them: what the program's own backend makes of them, and of a backward, was not"
    " tried, nor what a backend that is made anew for each call has compiled again."
)
# What is said of one function, and of several, that are not compiled whole; worst first.
TREATMENTS_COUNTED: Mapping[Treatment, tuple[str, str]] = {
    Treatment.FAILED: ("failed", "failed"),
    Treatment.LIMIT: (
        "hit the recompile limit, and runs eagerly for anything new",
        "hit the recompile limit, and run eagerly for anything new",
    ),
    Treatment.PASSED_OVER: (
        "was compiled, and runs eagerly since torch passed over it",
        "were compiled, and run eagerly since torch passed over them",
    ),
    Treatment.EAGER: ("runs eagerly", "run eagerly"),
    Treatment.PARTLY_EAGER: ("runs partly in eager", "run partly in eager"),
    Treatment.UNFINISHED: ("unfinished", "unfinished"),
}
# Of what nobody asked to be compiled, where there is nothing else.
TRACED_COUNTED = ("call only traced a graph", "calls only traced graphs")

TREATMENTS: Mapping[Treatment, str] = {
    Treatment.WHOLE: "one graph, no breaks",
    Treatment.SPLIT: "compiled in parts",
    Treatment.PARTLY_EAGER: "partly eager",
    Treatment.EAGER: "eager",
    Treatment.LIMIT: "recompile limit hit: eager for anything new",
    Treatment.PASSED_OVER: "compiled, then passed over: eager since",
    Treatment.FAILED: "failed",
    Treatment.TRACED: "traced, not compiled",
    Treatment.EMPTY: "nothing to compile",
    Treatment.UNFINISHED: "unfinished",
}


def on_stack(names: Sequence[str], broken: int | None) -> str:
    """Return what torch's names of values on the stack stand for, such as `___stack0` in guards of a resume function.

    `broken` is the line of the graph break after which it resumes.
    """
    told, line = ", ".join(f"`{name}`" for name in names), f"line {broken}" if broken else "the line of a graph break"
    what = "is a value" if len(names) == 1 else "are values"
    return f"{told} {what} that {line} had computed when the graph broke there, handed to what goes on after that."


SEVERITIES: Mapping[Severity, str] = {
    Severity.HIGH: "fix first",
    Severity.MEDIUM: "worth fixing",
    Severity.LOW: "minor",
    Severity.INFO: "good to know",
}

BASES: Mapping[Basis, str] = {Basis.MEASURED: "as recorded", Basis.COUNTED: "estimated"}

STAGES: Mapping[GraphStage, str] = {
    GraphStage.DYNAMO: "Dynamo graph",
    GraphStage.AOT_JOINT: "AOT joint graph",
    GraphStage.AOT_FORWARD: "AOT forward graph",
    GraphStage.AOT_BACKWARD: "AOT backward graph",
    GraphStage.AOT_INFERENCE: "AOT inference graph",
    GraphStage.POST_GRAD: "post-grad graph",
    GraphStage.POST_GRAD_BACKWARD: "post-grad graph of the backward",
}

PASSES: Mapping[Direction, str] = {
    Direction.FORWARD: "forward",
    Direction.BACKWARD: "backward",
    Direction.INFERENCE: "inference",
}

KERNEL_KINDS: Mapping[KernelKind, str] = {
    KernelKind.TRITON: "Triton",
    KernelKind.CPP: "C++",
    KernelKind.TEMPLATE: "template",
    KernelKind.FOREACH: "foreach",
    KernelKind.EXTERN: "extern",
    KernelKind.FALLBACK: "ATen fallback",
    KernelKind.USER: "your Triton",
    KernelKind.OTHER: "other",
}

TRUST: Mapping[Trust, str] = {
    Trust.EXACT: "known from the compiler itself",
    Trust.TEXT: "approximate: read from comments in the generated code",
    Trust.UNKNOWN: "not known",
}

CUDAGRAPHS: Mapping[CudagraphState, str] = {
    CudagraphState.CAPTURED: "captured",
    CudagraphState.PARTITIONED: "partitioned",
    CudagraphState.SKIPPED: "skipped",
    CudagraphState.NOT_REQUESTED: "not requested",
}

PHASES: Mapping[Phase, str] = {
    Phase.TRACING: "Dynamo tracing",
    Phase.GUARDS: "guards",
    Phase.AOT: "AOTAutograd",
    Phase.PASSES: "graph passes",
    Phase.LOWERING: "Inductor lowering",
    Phase.SCHEDULING: "Inductor scheduling",
    Phase.CODE_GENERATION: "Inductor code generation",
    Phase.KERNEL_COMPILATION: "C++/Triton compilation",
    Phase.AUTOTUNING: "autotuning",
    Phase.CACHES: "caches",
    Phase.OTHER: "other",
}

WARMTH: Mapping[Warmth, str] = {
    Warmth.COLD: "cold",
    Warmth.WARM: "warm",
    Warmth.PARTLY: "partly warm",
    Warmth.UNKNOWN: "",
}


CHILDREN: Mapping[bool | None, str] = {
    True: "processes that this one started have compiled, too, and are not recorded",
    None: "processes that this one started are not recorded, and may compile, too",
}


def unfinished(why: str, name: str = "This recording") -> str:
    """That a recording has no end; nothing where it has one."""
    return f"{name} is not finished: {one_line(why)}" if why else ""


def damaged(why: str) -> str:
    """That bytes of a recording could not be read; nothing where all could."""
    return f"What follows is not all: {one_line(why, 300)}" if why else ""


def gap(where: str, why: str) -> str:
    """Something that is not in a recording; of its file it is told already what could not be done."""
    return why if where in {"journal", DAMAGE} else f"could not read {where}: {why}"


def kernel_kind(kernel: Kernel) -> str:
    """Who wrote a kernel and what shape it has: `C++ reduction`, `Triton persistent`, `extern`."""
    shape = kernel.shape.replace("_", " ").replace("persistent reduction", "persistent")
    kind = _kind(kernel.kind, unusual_language(kernel))
    return kind + (f" {shape}" if shape and shape != kernel.kind.value else "")


def kind_counts(kernels: Iterable[Kernel]) -> str:
    """Return `3 Triton, 2 extern, 1 Halide`."""
    return ", ".join(f"{count:,} {_kind(kind, language)}" for kind, language, count in kernel_kinds(kernels))


def _kind(kind: KernelKind, language: str) -> str:
    known = "" if language and kind is KernelKind.OTHER else KERNEL_KINDS[kind]
    return f"{language} {known}".strip()


def tuning_time(results: Iterable[AutotuneResult]) -> str:
    """`5.75 s`, `5.14 s of an earlier run`: what came out of a cache took no time in this one."""
    spent = {False: 0.0, True: 0.0}
    for result in results:
        spent[result.cached] += (result.seconds or 0.0) + (result.precompile_seconds or 0.0)
    earlier = f"{seconds(spent[True])} of an earlier run" if spent[True] else ""
    return ", and ".join(filter(None, (seconds(spent[False]) if spent[False] or not earlier else "", earlier)))


def runs_otherwise(found: Otherwise | None) -> str:
    """That what won is not what runs, where it is not."""
    if found is None:
        return ""
    more = f" and {len(found.kernels) - 1:,} more" if len(found.kernels) > 1 else ""
    are = plural(found.launches, "launch is", "launches are")
    return (
        f"not what runs: {are} {found.kernels[0]}{more} ({KERNEL_KINDS[found.kind]}). "
        "Where work round a product can be fused into it, torch chooses again"
    )


def op_name(target: str) -> str:
    """An op without what every op has: `torch.ops.aten.add.Tensor` is add, `torch.nn.functional.gelu` is gelu."""
    parts = target.removeprefix("torch.ops.").split(".")
    if parts[0] in {"aten", "prims"} and len(parts) > 1:
        return parts[1]
    if target.startswith("torch.ops.") or len(parts) == 1:
        return ".".join(parts[:2])
    return parts[-1] if parts[0] in {"torch", "operator", "_operator"} else ".".join(parts[:2])
