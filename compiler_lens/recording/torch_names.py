"""The names under which torch tells what it does: its records of graphs, and its timed events (2.11 to 2.15)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from compiler_lens.recording.ids import GraphStage

# The records that hold a graph. Those of both post-grad graphs go by one name: which is the backward's, the output code
# behind it says.
GRAPH_RECORDS: Mapping[str, GraphStage] = {
    "dynamo_output_graph": GraphStage.DYNAMO,
    "aot_joint_graph": GraphStage.AOT_JOINT,
    "aot_forward_graph": GraphStage.AOT_FORWARD,
    "aot_backward_graph": GraphStage.AOT_BACKWARD,
    "aot_inference_graph": GraphStage.AOT_INFERENCE,
    "inductor_post_grad_graph": GraphStage.POST_GRAD,
}
OUTPUT_CODE_RECORD = "inductor_output_code"

# A backward that is compiled when it is first called, in a span of its own.
BACKWARD_SPAN = "entire_backward_compile"


def record_stage(stage: GraphStage) -> GraphStage:
    """Return the stage under which torch, and our hooks with it, tell of a graph of *stage*."""
    return GraphStage.POST_GRAD if stage is GraphStage.POST_GRAD_BACKWARD else stage


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
    BACKWARD_SPAN: Phase.AOT,
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
LAZY_BACKWARD_SPANS = frozenset({BACKWARD_SPAN, "backward", "compile_fx.<locals>.bw_compiler"})

# A compiler worker's thread knows no compile id, and nothing is compiled in it but kernels, beside the main thread.
WORKER_SPANS = frozenset({"compile_file", "reload_kernel_in_parent"})


def phase_of(name: str) -> Phase:
    """Return the phase that a timed event of torch's belongs to."""
    if name in _PHASES:
        return _PHASES[name]
    for prefix, phase in _PREFIXES:
        if name.startswith(prefix):
            return phase
    return next((phase for suffix, phase in _SUFFIXES if name.endswith(suffix)), Phase.OTHER)
