"""Where compile time went: the self time of torch's timed events, gathered into phases that a user knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from compiler_lens.recording.model import CompileId, Span


class Phase(Enum):
    """A stretch of the way from Python to kernels."""

    TRACING = "dynamo_tracing"
    GUARDS = "guards"
    AOT = "aot_autograd"
    PASSES = "graph_passes"
    LOWERING = "inductor_lowering"
    SCHEDULING = "inductor_scheduling"
    CODE_GENERATION = "code_generation"
    KERNEL_COMPILATION = "kernel_compilation"
    AUTOTUNING = "autotuning"
    CACHES = "caches"
    OTHER = "other"


# torch's names for its timed events (dynamo_timed and chromium events, 2.11 to 2.15), whose self time goes to a phase.
_PHASES: Mapping[str, Phase] = {
    "dynamo": Phase.TRACING,
    "entire_frame_compile": Phase.TRACING,
    "bytecode_tracing": Phase.TRACING,
    "compile_inner": Phase.TRACING,
    "fullgraph_capture": Phase.TRACING,
    "insert_deferred_runtime_asserts": Phase.TRACING,
    "build_guards": Phase.GUARDS,
    "precompile_build_guards": Phase.GUARDS,
    "precompile_load_guards": Phase.GUARDS,
    "guard_collective": Phase.GUARDS,
    "backend_compile": Phase.AOT,
    "create_aot_dispatcher_function": Phase.AOT,
    "aot_collect_metadata": Phase.AOT,
    "aot_trace_joint_graph": Phase.AOT,
    "min_cut_rematerialization_partition": Phase.AOT,
    "entire_backward_compile": Phase.AOT,
    "backward": Phase.AOT,
    "_recursive_pre_grad_passes": Phase.PASSES,
    "_recursive_joint_graph_passes": Phase.PASSES,
    "_recursive_post_grad_passes": Phase.PASSES,
    "additional_fake_tensor_prop": Phase.PASSES,
    "convert_conv_weights_to_channels_last": Phase.PASSES,
    "compile_fx.<locals>.fw_compiler_base": Phase.LOWERING,
    "compile_fx.<locals>.bw_compiler": Phase.LOWERING,
    "compile_fx_inner": Phase.LOWERING,
    "inductor_compile": Phase.LOWERING,
    "fx_codegen_and_compile": Phase.LOWERING,
    "GraphLowering.run": Phase.LOWERING,
    "Scheduler.codegen": Phase.CODE_GENERATION,
    "GraphLowering.codegen": Phase.CODE_GENERATION,
    "GraphLowering.codegen_subgraph": Phase.CODE_GENERATION,
    "GraphLowering.compile_to_fn": Phase.CODE_GENERATION,
    "PythonWrapperCodegen.generate": Phase.CODE_GENERATION,
    "CppWrapperCpu.generate": Phase.CODE_GENERATION,
    "CppWrapperGpu.generate": Phase.CODE_GENERATION,
    "code_gen": Phase.CODE_GENERATION,
    "generate_kernel_code_from_nodes": Phase.CODE_GENERATION,
    "PyCodeCache.load_by_key_path": Phase.CODE_GENERATION,
    "compile_file": Phase.KERNEL_COMPILATION,
    "cpp_wrapper_compile": Phase.KERNEL_COMPILATION,
    "AotCodeCompiler.compile": Phase.KERNEL_COMPILATION,
    "reload_kernel_in_parent": Phase.KERNEL_COMPILATION,
    "CachingAutotuner.slow_precompile_config": Phase.KERNEL_COMPILATION,
    "StaticAutotunerFuture.warm_precompile": Phase.KERNEL_COMPILATION,
    "benchmark_fused_nodes": Phase.AUTOTUNING,
    "benchmark_codegened_module": Phase.AUTOTUNING,
    "CachingAutotuner.benchmark_all_configs": Phase.AUTOTUNING,
    "CachingAutotuner.coordinate_descent_tuning": Phase.AUTOTUNING,
    "CachingAutotuner.combo_sequential_autotune": Phase.AUTOTUNING,
    "inductor_codecache_torch_key": Phase.CACHES,
    "CacheBase.get_system.triton_key": Phase.CACHES,
    "remote_fx_graph_cache_get": Phase.CACHES,
    "remote_fx_graph_cache_put": Phase.CACHES,
}

# Names that torch makes up as it goes: `compile_attempt_2`, `pass.joint_graph_passes.…`, `mm_template_autotuning`.
_PREFIXES = (
    ("compile_attempt_", Phase.TRACING),
    ("bytecode_hooks_", Phase.TRACING),
    ("invoke_subgraph_", Phase.TRACING),
    ("pass.", Phase.PASSES),
    ("fx.bucketing", Phase.PASSES),
    ("Scheduler.", Phase.SCHEDULING),
    ("async_compile.", Phase.KERNEL_COMPILATION),
    ("aoti_", Phase.KERNEL_COMPILATION),
    ("AOTAutogradCache.", Phase.CACHES),
    ("FxGraphCache.", Phase.CACHES),
    ("TritonBundler.", Phase.CACHES),
    ("CompiledArtifact.", Phase.CACHES),
    ("GraphPickler.", Phase.CACHES),
    ("pgo.", Phase.CACHES),
    ("cutlass_utils.", Phase.AUTOTUNING),
    ("CUTLASSGemmTemplate.", Phase.AUTOTUNING),
)
_SUFFIXES = (("_template_autotuning", Phase.AUTOTUNING), ("_template_precompiling", Phase.AUTOTUNING))

# The outermost timed event of a backward that is compiled at the first backward call, not together with its forward.
_LAZY_BACKWARD = frozenset({"entire_backward_compile", "backward", "compile_fx.<locals>.bw_compiler"})

# A compiler worker's thread knows no compile id, and nothing is compiled in it but kernels, beside the main thread.
_WORKER = frozenset({"compile_file", "reload_kernel_in_parent"})


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Seconds by phase; forward and backward together make the total."""

    forward: Mapping[Phase, float]
    backward: Mapping[Phase, float]  # only of backwards that were compiled lazily, at their first call
    parallel: float = 0.0  # seconds of compiler workers, which ran beside all this: not in the total
    timed: bool = False  # False: the recording has no timed events, and these times say nothing

    @property
    def forward_seconds(self) -> float:
        """Seconds until the forward was compiled."""
        return sum(self.forward.values())

    @property
    def backward_seconds(self) -> float:
        """Seconds of lazily compiled backwards."""
        return sum(self.backward.values())

    @property
    def total(self) -> float:
        """Seconds of compile time in all."""
        return self.forward_seconds + self.backward_seconds

    @property
    def both(self) -> tuple[tuple[Phase, float], ...]:
        """Seconds per phase, forward and backward together, the longest first."""
        sums = {p: self.forward.get(p, 0.0) + self.backward.get(p, 0.0) for p in Phase}
        return tuple(sorted(((p, s) for p, s in sums.items() if s > 0), key=lambda item: -item[1]))


def phase_of(name: str) -> Phase:
    """The phase that a timed event of torch's belongs to."""
    if name in _PHASES:
        return _PHASES[name]
    for prefix, phase in _PREFIXES:
        if name.startswith(prefix):
            return phase
    return next((phase for suffix, phase in _SUFFIXES if name.endswith(suffix)), Phase.OTHER)


def phase_times(spans: Iterable[Span]) -> PhaseTimes:
    """Compile seconds by phase, of a whole recording's spans or of some compilations'."""
    forward: dict[Phase, float] = defaultdict(float)
    backward: dict[Phase, float] = defaultdict(float)
    roots: dict[tuple[int, CompileId | None], str] = {}
    latest: dict[int, str] = {}
    parallel, timed = 0.0, False
    for span in sorted(spans, key=lambda s: (s.start, s.depth)):
        owner = (span.thread, span.compile_id)
        if span.depth == 0:
            roots[owner] = latest[span.thread] = span.name
        # In a log all threads look like one, and a worker's event stands, without an id, inside of some compilation.
        root = roots.get(owner) or latest.get(span.thread, "")
        if span.compile_id is None and root in _WORKER:
            parallel += span.self_seconds
            continue
        timed = True
        (backward if root in _LAZY_BACKWARD else forward)[phase_of(span.name)] += span.self_seconds
    return PhaseTimes(dict(forward), dict(backward), parallel, timed)
