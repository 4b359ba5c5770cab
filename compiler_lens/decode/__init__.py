"""From events to values: one reader per kind of event. Reads torch's texts, never torch."""

from __future__ import annotations

# Every event of torch's that a reader reads; others are not asked for.
WANTED = frozenset(
    (
        "str",
        "dynamo_start",
        "dynamo_output_graph",
        "dynamo_graph_break_reason",
        "dynamo_error",
        "dynamo_cpp_guards_str",
        "recompile_reasons",
        "create_symbol",
        "create_unbacked_symbol",
        "symbolic_shape_specialization",
        "aot_joint_graph",
        "aot_forward_graph",
        "aot_backward_graph",
        "aot_inference_graph",
        "inductor_post_grad_graph",
        "inductor_output_code",
        "aotautograd_cache_hit",
        "aotautograd_cache_miss",
        "aotautograd_cache_bypass",
        "fx_graph_cache_hit",
        "fx_graph_cache_miss",
        "fx_graph_cache_bypass",
        "fx_graph_bundled_cache_hit",
        "compilation_metrics",
        "bwd_compilation_metrics",
        "chromium_event",
        "triton_kernel_info",
    )
)

# Nodes of Inductor's scheduler, by their class or that of the IR node, that no kernel computes: memory and views of
# it, parts of a tuple, calls of a subgraph, numbers and checks on the host.
NO_KERNEL = frozenset(
    (
        "NopKernelSchedulerNode",
        "MultiOutput",
        "Conditional",
        "Switch",
        "WhileLoop",
        "InvokeSubgraph",
        "DynamicScalar",
        "DynamicSelectStorageOffset",
        "DynamicSliceSize",
        "AssertScalar",
        "SubgraphBuffer",
        "TMADescriptorExperimental",
        "TMADescriptorStable",
    )
)
