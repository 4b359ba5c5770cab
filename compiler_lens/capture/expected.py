"""Records that torch sends with every compilation that comes so far, and what is missing where one never comes.

Whether it comes so far is seen by a hook, so neither a backend that ends early nor a warm cache raises a false alarm.
"""

from __future__ import annotations

from collections.abc import Mapping

FACTS: Mapping[str, str] = {
    "dynamo_start": "where compiled functions were called",
    "dynamo_cpp_guards_str": "guards",
    "compilation_metrics": "times and counts of compilations",
    "dynamo_output_graph": "Dynamo graphs",
    "aot_joint_graph": "joint graphs",
    "aot_forward_graph": "forward graphs",
    "aot_backward_graph": "backward graphs",
    "aot_inference_graph": "inference graphs",
    "inductor_post_grad_graph": "post-grad graphs",
    "inductor_output_code": "output code, and the kernels in it",
}

# With every frame that got compiled code.
OF_A_FRAME = ("dynamo_start", "dynamo_cpp_guards_str")
# With every frame that no other compilation is around: MetricsContext in torch/_dynamo/metrics_context.py counts what
# compiles within a compilation, compiled autograd's included, as a part of that.
OF_AN_OUTERMOST_FRAME = ("compilation_metrics",)
