"""The names under which torch reports what it does: its records of graphs, and its timed events (2.11 to 2.15)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from compiler_lens.recording.ids import GraphStage

# The records that hold a graph. Those of both post-grad graphs go by one name: which is the backward's, the output code
# after it says.
GRAPH_RECORDS: Mapping[str, GraphStage] = {
    "dynamo_output_graph": GraphStage.DYNAMO,
    "aot_joint_graph": GraphStage.AOT_JOINT,
    "aot_forward_graph": GraphStage.AOT_FORWARD,
    "aot_backward_graph": GraphStage.AOT_BACKWARD,
    "aot_inference_graph": GraphStage.AOT_INFERENCE,
    "inductor_post_grad_graph": GraphStage.POST_GRAD,
}
OUTPUT_CODE_RECORD = "inductor_output_code"

# AOTAutograd calls the gradients among the inputs of a joint graph or a backward tangents_1, tangents_2 …
GRADIENT_PREFIX = "tangents_"

# A backward that is compiled when it is first called, in a span of its own.
BACKWARD_SPAN = "entire_backward_compile"


def record_stage(stage: GraphStage) -> GraphStage:
    """Return the stage under which torch, and our hooks with it, report a graph of *stage*."""
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
_NAMES: Mapping[Phase, tuple[str, ...]] = {
    Phase.TRACING: (
        "dynamo", "entire_frame_compile", "bytecode_tracing", "compile_inner", "fullgraph_capture",
        "insert_deferred_runtime_asserts",
    ),
    Phase.GUARDS: ("build_guards", "precompile_build_guards", "precompile_load_guards", "guard_collective"),
    Phase.AOT: (
        "backend_compile", "create_aot_dispatcher_function", "aot_collect_metadata", "aot_trace_joint_graph",
        "min_cut_rematerialization_partition", BACKWARD_SPAN, "backward",
    ),
    Phase.PASSES: (
        "_recursive_pre_grad_passes", "_recursive_joint_graph_passes", "_recursive_post_grad_passes",
        "additional_fake_tensor_prop", "convert_conv_weights_to_channels_last",
    ),
    Phase.LOWERING: (
        "compile_fx.<locals>.fw_compiler_base", "compile_fx.<locals>.bw_compiler", "compile_fx_inner",
        "inductor_compile", "fx_codegen_and_compile", "GraphLowering.run",
    ),
    Phase.CODE_GENERATION: (
        "Scheduler.codegen", "GraphLowering.codegen", "GraphLowering.codegen_subgraph", "GraphLowering.compile_to_fn",
        "PythonWrapperCodegen.generate", "CppWrapperCpu.generate", "CppWrapperGpu.generate", "code_gen",
        "generate_kernel_code_from_nodes", "PyCodeCache.load_by_key_path",
    ),
    Phase.KERNEL_COMPILATION: (
        "compile_file", "cpp_wrapper_compile", "AotCodeCompiler.compile", "reload_kernel_in_parent",
        "CachingAutotuner.slow_precompile_config", "StaticAutotunerFuture.warm_precompile",
    ),
    Phase.AUTOTUNING: (
        "benchmark_fused_nodes", "benchmark_codegened_module", "CachingAutotuner.benchmark_all_configs",
        "CachingAutotuner.coordinate_descent_tuning", "CachingAutotuner.combo_sequential_autotune",
    ),
    Phase.CACHES: (
        "inductor_codecache_torch_key", "CacheBase.get_system.triton_key", "remote_fx_graph_cache_get",
        "remote_fx_graph_cache_put",
    ),
}  # fmt: skip
_PHASES: Mapping[str, Phase] = {name: phase for phase, names in _NAMES.items() for name in names}

# Names that torch makes up as it goes: `compile_attempt_2`, `pass.joint_graph_passes.…`, `mm_template_autotuning`.
_PREFIXES: Mapping[Phase, tuple[str, ...]] = {
    Phase.TRACING: ("compile_attempt_", "bytecode_hooks_", "invoke_subgraph_"),
    Phase.PASSES: ("pass.", "fx.bucketing"),
    Phase.SCHEDULING: ("Scheduler.",),
    Phase.KERNEL_COMPILATION: ("async_compile.", "aoti_"),
    Phase.CACHES: (
        "AOTAutogradCache.", "FxGraphCache.", "TritonBundler.", "CompiledArtifact.", "GraphPickler.", "pgo.",
    ),
    Phase.AUTOTUNING: ("cutlass_utils.", "CUTLASSGemmTemplate."),
}  # fmt: skip
_AUTOTUNING_SUFFIXES = ("_template_autotuning", "_template_precompiling")

# The outermost timed event of a backward that is compiled at the first backward call, not together with its forward.
LAZY_BACKWARD_SPANS = frozenset({BACKWARD_SPAN, "backward", "compile_fx.<locals>.bw_compiler"})

# A compiler worker's thread knows no compile id, and nothing is compiled in it but kernels, beside the main thread.
WORKER_SPANS = frozenset({"compile_file", "reload_kernel_in_parent"})


def phase_of(name: str) -> Phase:
    """Return the phase that a timed event of torch's belongs to."""
    if name in _PHASES:
        return _PHASES[name]
    other = Phase.AUTOTUNING if name.endswith(_AUTOTUNING_SUFFIXES) else Phase.OTHER
    return next((phase for phase, prefixes in _PREFIXES.items() if name.startswith(prefixes)), other)


# Texts among the metrics (CompilationMetrics in torch/_dynamo/utils.py): whole configurations, each as JSON, a shape
# for every node, stacks that `dynamo_start` and `dynamo_error` have in full, and versions, which stay as they are.
UNREAD_METRICS = frozenset(("dynamo_config", "inductor_config", "functorch_config", "compiler_config",
                            "graph_node_shapes", "stack_trace", "exception_stack_trace", "pytorch_version",
                            "python_version", "triton_version", "cuda_version", "log_format_version"))  # fmt: skip

# How the error begins that a call at the limit of recompiles raises, with fullgraph=True or fail_on_recompile_limit_hit
# (torch/_dynamo/convert_frame.py): there nothing runs eagerly.
RAISED_AT_LIMIT = "Hard failure due to "
# Why a frame is skipped: torch/_dynamo/convert_frame.py.
TRACING_DISABLED = "Dynamo tracing is disabled"
DISPATCH_MODE = "non-infra torch dispatch mode present, this is not supported today in torch.compile"
