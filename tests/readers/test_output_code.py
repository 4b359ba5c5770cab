"""Kernels, launches and buffers out of real output code of three torch versions, CPU and GPU."""

import ast
import re
from pathlib import Path

import pytest

from compiler_lens.decode.inductor_languages import INDUCTOR_LANGUAGES, printed_value
from compiler_lens.decode.op_names import ops_in_kernel_name
from compiler_lens.decode.output_code import aot_id, read_output_code
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    Buffer,
    CompileId,
    Direction,
    Kernel,
    KernelConfig,
    KernelKind,
    OutputCode,
    TensorSpec,
    Trust,
    Unavailable,
)

PAYLOADS = Path(__file__).parent.parent / "payloads"
ALL = sorted(p for p in PAYLOADS.glob("*/output_code/*.txt") if p.stem != "cpp_wrapper")
ID = CompileId(3, 1)

# One line of the wrapper that runs something, by its looks alone.
LAUNCH = re.compile(
    r"^ +(?:\w+ = )?(?:\w+\.run\(.*stream=|cpp_\w+\(|extern_kernels[._]\w|torch\.ops\.\w|aten\.\w|\w+\.copy_\("
    r"|\w+\[.*\)\.sum\()"
)


def read(text, **event):
    return read_output_code(Event("inductor_output_code", 0.0, text=text, **event), ID, {})


def payload(name):
    return (PAYLOADS / name).with_suffix(".txt").read_text()


def kernels(name):
    return {k.name: k for k in read(payload(name)) if isinstance(k, Kernel)}


def code(name):
    found = read(payload(name))[0]
    assert isinstance(found, OutputCode)
    return found


def buffers(name):
    return {b.name: b for b in code(name).buffers}


def launching_lines(text):
    """Numbers of the lines that launch a kernel: a grep that knows nothing of the reader."""
    body = text.split("\ndef get_args")[0].split("\n")
    source = False
    for number, line in enumerate(body, 1):
        if source:
            source = not line.startswith("'''")
        elif "async_compile." in line and line.endswith("'''"):
            source = True
        elif LAUNCH.match(line):
            yield number


@pytest.mark.parametrize("path", ALL, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_every_line_that_runs_a_kernel_is_one_launch(path):
    text = path.read_text()
    launches = [launch.line for k in read(text) if isinstance(k, Kernel) for launch in k.launches]
    assert sorted(launches) == list(launching_lines(text))
    assert launches


@pytest.mark.parametrize("path", ALL, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_every_kernel_is_launched_and_has_a_device_and_ops(path):
    for kernel in kernels(path.relative_to(PAYLOADS)).values():
        assert kernel.launches or path.stem == "multik", kernel.name
        assert re.fullmatch(r"cpu|cuda:0", kernel.device), kernel.name
        # torch writes empty lists for a foreach kernel of fused parts, and a plain name for nodes that no op is known of
        assert kernel.aten or re.match(r"Tensor\.|\w+_fused_\d+$", kernel.name), kernel.name
        assert (kernel.compile_id, kernel.meta["aot_id"]) == (ID, aot_id(path.read_text()))


@pytest.mark.parametrize("path", ALL, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_an_argument_that_looks_like_a_buffer_is_a_known_buffer(path):
    found = read(path.read_text())
    known = {b.name for b in found[0].buffers}
    used = {a for k in found[1:] for launch in k.launches for a in launch.arguments if re.fullmatch(r"buf\d+", a)}
    # what a subgraph returns is a buffer under its own name there, true_graph_0_buf0
    assert used - known <= ({"buf3"} if path.stem == "cond_cpu" else set())
    assert all(b.reuses in known for b in found[0].buffers if b.reuses.startswith(("buf", "pool")))


def test_the_pass_is_that_of_the_aot_id():
    assert code("2.13/output_code/block_forward_cpu").direction is Direction.FORWARD
    assert code("2.13/output_code/block_backward_cpu").direction is Direction.BACKWARD
    assert code("2.13/output_code/cond_cpu").direction is Direction.INFERENCE
    assert {k.direction for k in kernels("2.13/output_code/block_backward_cpu").values()} == {Direction.BACKWARD}


def test_the_code_is_kept_whole_with_its_path():
    text = payload("2.13/output_code/cond_cpu")
    found = read(text, meta={"filename": "/tmp/torchinductor_user/ab/cab.py"})[0]
    assert (found.code, found.path) == (text, "/tmp/torchinductor_user/ab/cab.py")


def test_a_triton_kernel_knows_its_shape_source_ops_nodes_and_meta():
    kernel = kernels("2.11/output_code/gpt_forward_h200")["triton_per_fused__to_copy_native_layer_norm_0"]
    assert (kernel.kind, kernel.shape, kernel.device) == (KernelKind.TRITON, "persistent_reduction", "cuda:0")
    assert kernel.source.startswith("from torch._inductor.runtime.hints import")
    assert "@triton_heuristics.persistent_reduction" in kernel.source
    assert kernel.aten == ("aten.native_layer_norm", "aten._to_copy")
    assert kernel.nodes == ("var_mean", "add", "rsqrt", "sub", "mul", "mul_1", "add_1", "convert_element_type_2")
    assert kernel.trust is Trust.TEXT
    assert kernel.meta["source_nodes"]["linear"] == ["convert_element_type_2"]
    assert kernel.meta["size_hints"] == {"x": 2048, "r0_": 512}
    assert (kernel.meta["num_load"], kernel.meta["num_reduction"]) == (3, 4)
    assert (kernel.meta["reduction_hint"], kernel.meta["mutated_arg_names"]) == ("INNER", ["in_out_ptr0"])
    assert kernel.meta["signature"]["in_ptr0"] == "*fp32"


def test_a_launch_keeps_its_arguments_but_not_the_stream():
    kernel = kernels("2.11/output_code/gpt_forward_h200")["triton_per_fused__to_copy_native_layer_norm_0"]
    (launch,) = kernel.launches
    assert launch.arguments == ("buf3", "primals_1", "primals_2", "primals_3", "buf0", "buf4", "2048", "512")
    assert launch.nodes == kernel.nodes
    assert launch.source_nodes == ("layer_norm", "linear")


def test_an_extern_kernel_is_one_kernel_with_all_its_launches_and_what_each_is_for():
    mm = kernels("2.11/output_code/gpt_forward_h200")["extern_kernels.addmm"]
    assert (mm.kind, len(mm.launches), mm.source, mm.trust) == (KernelKind.EXTERN, 4, "", Trust.UNKNOWN)
    assert [launch.source_nodes[-1] for launch in mm.launches] == ["linear", "linear_1", "linear_2", "linear_3"]
    assert mm.launches[0].arguments[-1] == "out=buf7"
    assert mm.launches[0].aten[-1] == "aten.addmm"


def test_a_fallback_is_known_by_its_overload():
    sdpa = kernels("2.11/output_code/gpt_forward_h200")["torch.ops.aten._scaled_dot_product_cudnn_attention.default"]
    assert (sdpa.kind, len(sdpa.launches)) == (KernelKind.FALLBACK, 1)
    scatter = kernels("2.11/output_code/scatter")["aten.scatter_reduce_.two"]
    assert (scatter.kind, scatter.aten) == (KernelKind.FALLBACK, ("aten.scatter_reduce_",))
    assert scatter.launches[0].arguments[-2:] == ("reduce='prod'", "include_self=True")


def test_a_comment_is_for_the_launch_below_it_and_no_other():
    scatter = kernels("2.11/output_code/scatter")["aten.scatter_reduce_.two"]
    assert scatter.launches[0].source_nodes == ()  # the comment above is that of the Triton kernel before


def test_a_template_has_its_config_and_grid():
    found = kernels("2.11/output_code/gpt_max_autotune_forward_h200")
    template = found["triton_tem_fused__to_copy_addmm_native_layer_norm_t_view_3"]
    assert (template.kind, template.shape) == (KernelKind.TEMPLATE, "template")
    (config,) = template.configs
    assert config.chosen
    assert config.values == {
        "EVEN_K": True, "USE_FAST_ACCUM": False, "ACC_TYPE": "tl.float32", "BLOCK_M": 64, "BLOCK_N": 128,
        "BLOCK_K": 64, "GROUP_M": 8, "ALLOW_TF32": False, "num_warps": 4, "num_stages": 3,
    }  # fmt: skip
    (launch,) = template.launches
    assert (launch.grid, launch.arguments) == ("(384, 1, 1)", ("buf6", "buf4", "buf5", "buf7"))
    assert (
        kernels("2.11/output_code/convolution_template")["triton_tem_fused_convolution_relu_2"].kind
        is KernelKind.TEMPLATE
    )


def test_a_users_triton_kernel_is_the_users():
    found = kernels("2.15/output_code/user")
    user = found["add_kernel_0"]
    assert (user.kind, user.shape, user.meta["path"]) == (KernelKind.USER, "", "/home/user/app/ex.py:73")
    assert user.meta["compiled_as"] == "add_kernel"
    assert user.launches[0].arguments == ("buf1", "arg1_1", "buf0", "1000")
    assert user.launches[0].grid == "(8, 1, 1)"
    assert found["torch.ops.mylib.opaque.default"].aten == ("mylib.opaque",)


def test_the_configs_of_a_users_autotuned_kernel_are_those_it_is_tried_with():
    text = payload("2.15/output_code/user").replace(
        "    configs=[],",
        "    configs=[{'BLOCK': 128, 'num_warps': 4, 'num_stages': 3}, {'BLOCK': 256, 'num_warps': 8, 'num_stages': 3}],",
    )
    user = next(k for k in read(text) if isinstance(k, Kernel) and k.name == "add_kernel_0")
    assert [c.values["BLOCK"] for c in user.configs] == [128, 256]
    assert not any(c.chosen for c in user.configs)


def test_a_foreach_kernel_is_of_its_own_kind():
    found = kernels("2.11/output_code/foreach_h200")
    assert {k.kind for k in found.values()} == {KernelKind.FOREACH}
    assert found["triton_for_fused_0"].shape == "foreach"
    assert found["triton_for_fused_0"].aten == ("aten._foreach_add",)  # only the launch's comment tells


def test_a_multi_kernel_is_launched_and_its_choices_are_not():
    found = kernels("2.11/output_code/multik")
    multi = found["multi_kernel_0"]
    assert [len(found[choice].launches) for choice in multi.meta["choices"]] == [0, 0]
    assert [found[choice].shape for choice in multi.meta["choices"]] == ["reduction", "persistent_reduction"]
    assert (len(multi.launches), multi.nodes) == (1, found[multi.meta["choices"][0]].nodes)


@pytest.mark.parametrize("name", ["2.11/output_code/partition_h200", "2.15/output_code/partition"])
def test_launches_inside_a_partition_count_in_the_order_of_running(name):
    found = kernels(name)
    assert found["cpp_fused__to_copy_add_0"].device == "cpu"
    lines = code(name).code.split("\n")
    within = [n for n, line in enumerate(lines, 1) if line.startswith(("def partition_0", "class Runner"))]
    triton = next(k for k in found.values() if k.kind is KernelKind.TRITON)
    assert within[0] < triton.launches[0].line < within[-1]
    # the partition stands above its caller, but what the caller allocates before calling it comes first
    calling = {b.name: n for n, b in enumerate(code(name).buffers)}
    assert (
        calling[found["cpp_fused__to_copy_add_0"].launches[0].arguments[-1]] < calling[triton.launches[0].arguments[-2]]
    )


PARTITIONED = """
def partition_0(args):
    extern_kernels.mm(second)
    return (buf1,)
def branch_0(args):
    extern_kernels.mm(third)
class Runner:
    def call(self, args):
        extern_kernels.mm(first)
        (buf1,) = self.partitions[0](partition0_args)
        buf2 = branch_0(branch_0_args)
        buf3 = branch_0(branch_0_args)
        extern_kernels.mm(fourth)
runner = Runner(partitions=[partition_0,])
"""


def test_launches_are_in_the_order_of_running_wherever_they_stand():
    (kernel,) = read(PARTITIONED)[1:]
    assert [launch.arguments for launch in kernel.launches] == [("first",), ("second",), ("third",), ("fourth",)]


def test_a_kernel_of_a_fixed_config_has_its_shape_and_that_config():
    decorated = re.compile(r"@triton_heuristics.persistent_reduction\(\n    size_hints=.*\n    reduction_hint=.*\n")
    fixed = "@triton_heuristics.fixed_config(\n    config={'XBLOCK': 4, 'num_warps': 2},\n"
    text = decorated.sub(fixed, payload("2.11/output_code/gpt_forward_h200"))
    found = next(k for k in read(text) if isinstance(k, Kernel) and "fixed_config" in k.source)
    assert (found.shape, found.configs) == ("reduction", (KernelConfig({"XBLOCK": 4, "num_warps": 2}, chosen=True),))


def test_launches_in_the_branches_of_a_conditional_count():
    found = kernels("2.13/output_code/cond_cpu")
    assert len(found["cpp_fused_gt_mul_sin_1"].launches) == 1
    assert len(found["cpp_fused_add_cos_gt_2"].launches) == 1
    assert buffers("2.13/output_code/cond_cpu")["true_graph_0_buf0"].spec == TensorSpec("f32", ("s77",), (1,), "cpu")


def test_one_kernel_launched_twice_is_one_kernel():
    gelu = kernels("2.13/output_code/block_forward_cpu")["cpp_fused_gelu_view_2"]
    assert [launch.arguments for launch in gelu.launches] == [("buf15", "buf16"), ("buf33", "buf34")]


def test_a_cpp_kernel_is_a_reduction_if_it_accumulates():
    found = kernels("2.13/output_code/block_forward_cpu")
    assert found["cpp_fused_native_layer_norm_0"].shape == "reduction"
    assert found["cpp_fused_gelu_view_2"].shape == "pointwise"
    assert found["cpp_fused_gelu_view_2"].aten == ("aten.gelu", "aten.view")
    assert found["cpp_fused_gelu_view_2"].source.startswith("#include")


def test_a_cpp_gemm_is_a_template():
    found = kernels("2.13/output_code/cpp_template_cpu")
    assert {(k.kind, k.shape) for k in found.values()} == {(KernelKind.TEMPLATE, "template")}


@pytest.mark.parametrize("version", ["2.11", "2.13", "2.15"])
def test_the_same_program_has_the_same_kernels_on_every_torch(version):
    found = kernels(f"{version}/output_code/block_forward_cpu")
    kinds = sorted((k.kind.value, len(k.launches)) for k in found.values())
    assert kinds == [("cpp", 1)] * 5 + [("cpp", 2), ("extern", 8), ("fallback", 2)]


def test_a_device_copy_is_work_too():
    copy = kernels("2.15/output_code/partition")["Tensor.copy_"]
    assert (copy.kind, copy.device, copy.launches[0].arguments) == (
        KernelKind.FALLBACK,
        "cuda:0",
        ("buf1", "buf0", "False"),
    )


def test_the_last_step_of_a_mix_order_reduction_is_work_too():
    rest = kernels("2.15/output_code/mixorder")["Tensor.sum"]
    (launch,) = rest.launches
    assert launch.arguments[0].startswith("workspace_0[")
    assert launch.arguments[1:] == ("dim=0",)


def test_an_extern_call_wrapped_for_the_profiler_is_that_extern_kernel():
    found = kernels("2.15/output_code/timeline")
    assert {k.kind.value: k.name for k in found.values() if not k.source} == {
        "extern": "extern_kernels.mm",
        "fallback": "torch.ops.aten.topk.default",
    }


def test_a_buffer_has_a_spec_and_the_buffer_whose_memory_it_takes():
    found = buffers("2.13/output_code/block_forward_cpu")
    assert found["buf0"] == Buffer("buf0", TensorSpec("f32", (2, 32, 1), (32, 1, 64), "cpu"))
    assert found["buf1"] == Buffer("buf1", TensorSpec("f32", (2, 32, 1), (32, 1, 64), "cpu"), "buf0")
    assert found["buf3"] == Buffer("buf3", TensorSpec("f32", (2, 32, 1), (32, 1, 1), "cpu"), "buf2")
    assert found["buf36"].reuses == "buf17"
    assert buffers("2.11/output_code/gpt_forward_h200")["buf3"].spec.device == "cuda:0"


def test_what_a_fallback_returns_is_a_buffer_with_the_shape_that_is_asserted():
    found = buffers("2.13/output_code/block_forward_cpu")
    assert found["buf6"] == Buffer("buf6", None)
    assert found["buf7"].spec == TensorSpec("", (2, 4, 32, 16), (2048, 16, 64, 1), "cpu")
    # 2.15 asserts the dtype as well
    assert buffers("2.15/output_code/topk")["buf1"].spec.dtype == "f32"


def test_buffers_of_a_memory_pool_take_the_pools_memory():
    found = buffers("2.11/output_code/pools")
    assert found["pool0"].spec.shape == (64, 64)
    assert (found["buf0"].reuses, found["buf4"].reuses) == ("pool0", "buf0")
    assert found["buf0"].spec == TensorSpec("f32", (64, 64), (64, 1), "cuda:0")


def test_a_buffer_allocated_larger_than_used_has_the_used_shape():
    text = "def call(args):\n    buf0 = empty_strided_cpu((64, 64), (64, 1), torch.bfloat16).as_strided((63, 63), (64, 1))\n"
    assert read(text)[0].buffers == (Buffer("buf0", TensorSpec("bf16", (63, 63), (64, 1), "cpu")),)


def test_a_buffer_says_its_device_and_dtype_by_name_too():
    text = "def call(args):\n    buf0 = torch.empty_strided((4, 8), (8, 1), device='xpu:1', dtype=torch.float16)\n"
    assert read(text)[0].buffers == (Buffer("buf0", TensorSpec("f16", (4, 8), (8, 1), "xpu:1")),)


def test_a_plain_call_function_without_a_runner_is_read_too():
    text = "def call(args):\n    buf0 = extern_kernels.convolution(arg0_1, arg1_1, stride=(1, 1))\n    return (buf0,)\n"
    found, kernel = read(text)
    assert (kernel.kind, kernel.launches[0].line, found.buffers) == (KernelKind.EXTERN, 2, (Buffer("buf0", None),))


def test_a_device_guard_without_a_number_tells_the_kind_of_device():
    text = "def call(args):\n    with torch.cuda._DeviceGuard(device_idx):\n        extern_kernels.mm(a, b, out=buf0)\n"
    assert read(text)[1].device == "cuda"


CUTLASS = """# AOT ID: ['0_inference']
# kernel path: /tmp/torchinductor_user/ab/cab.py
# Topologically Sorted Source Nodes: [mm, relu], Original ATen: [aten.mm, aten.relu]
cutlass_fused_mm_relu_1a2b3c4d = async_compile.cuda(r'''
#include "cutlass/cutlass.h"
''', 'so', aot_compile=False)
cutedsl_fused_mm_5e6f7a8b = async_compile.cutedsl('cutedsl_fused_mm_5e6f7a8b', r'''
import cutlass.cute as cute
''')
halide_kernel_0 = async_compile.halide(HalideMeta(argtypes=[]), '''
import halide as hl
''')
mps_lib_0 = compile_mps_shader('''
kernel void generated_kernel() {}
''')
def call(args):
    with torch.cuda._DeviceGuard(1):
        cutlass_fused_mm_relu_1a2b3c4d.cutlass_fused_mm_relu_1a2b3c4d(arg0_1, buf0, 8, c_void_p(stream1))
        cutedsl_fused_mm_5e6f7a8b.run(arg0_1, buf1, stream=stream1)
    halide_kernel_0(buf1, buf2)
    mps_lib_0.generated_kernel(buf3)
    if buf1.item():
        buf4 = torch.ops.mkldnn._linear_pointwise.default(buf3, arg1_1)
"""


def test_kernels_of_other_backends_are_known_for_what_they_are():
    found = {k.name: k for k in read(CUTLASS) if isinstance(k, Kernel)}
    kinds = [k.kind for k in found.values()]
    assert kinds == [KernelKind.TEMPLATE, KernelKind.TEMPLATE, KernelKind.OTHER, KernelKind.OTHER, KernelKind.EXTERN]
    assert [len(k.launches) for k in found.values()] == [1] * 5
    cutlass = found["cutlass_fused_mm_relu_1a2b3c4d"]
    assert (cutlass.device, cutlass.shape, cutlass.meta["backend"]) == ("cuda:1", "template", "cuda")
    assert found["cutedsl_fused_mm_5e6f7a8b"].aten == ("aten.mm",)
    assert found["mps_lib_0"].meta["backend"] == "metal"


# As codegen/ of torch 2.13 writes them: cutlass/scheduling.py and cutlass/kernel.py, rocm/rocm_kernel.py, pallas.py,
# mps.py, metal_flex_attention_template.py, nv_universal_gemm/, halide.py on a GPU, wrapper.py for all calls.
OTHERS = """async_compile = AsyncCompile()
# kernel path: /tmp/torchinductor_user/ab/cab.py
# Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
# Source node to ATen node mapping:
#   mm => mm
cutlass_fused_mm_1a2b3c4d = async_compile.xpu(r'''
#include "cutlass/cutlass.h"
''', 'so', aot_compile=False)
rocm_fused_mm_0 = async_compile.rocm(r'''
#include "ck/ck.hpp"
''', 'so', aot_compile=False)
nv_universal_gemm_fused_mm_9f8e7d6c = async_compile.nv_universal_gemm('nv_universal_gemm_fused_mm_9f8e7d6c', r'''
import cutlass_api
''', precompile_metadata={'device_index': 0})
# Topologically Sorted Source Nodes: [mul, add], Original ATen: [aten.mul, aten.add]
pallas_fused_add_mul_5e6f7a8b = async_compile.pallas('pallas_fused_add_mul_5e6f7a8b', r'''
import jax
''')
generated_kernel_0 = async_compile.metal('generated_kernel_0', '''
kernel void generated_kernel_0(device float* out_ptr0, constant float* in_ptr0) {}
''', ['utils'])
_mps_flex_lib_1 = compile_mps_shader('''
kernel void flex_attn_fwd() {}
''')
halide_kernel_0 = async_compile.halide(HalideMeta(argtypes=[HalideInputSpec(ctype='float*')]), '''
import halide as hl
''')
zap_0 = async_compile.zap('''
zap
''')
async_compile.wait(globals())
def call(args):
    with torch.xpu._DeviceGuard(0):
        # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
        stream0 = get_raw_stream(0)
        cutlass_fused_mm_1a2b3c4d.cutlass_fused_mm_1a2b3c4d(c_void_p(arg0_1.data_ptr()), c_void_p(buf0.data_ptr()), 8, None, c_void_p(workspace_0.data_ptr()), c_void_p(stream0))
        rocm_fused_mm_0.rocm_fused_mm_0(c_void_p(reinterpret_tensor(buf0, (8, 8), (8, 1), 0).data_ptr()), c_void_p(buf1.data_ptr()), 8, 8, c_void_p(stream0))
        nv_universal_gemm_fused_mm_9f8e7d6c.run(buf1, buf2, stream=stream0)
        halide_kernel_0.halide_kernel_0(buf2, buf3, stream0, c_void_p(stream0))
    pallas_fused_add_mul_5e6f7a8b.run(buf3, buf4)
    generated_kernel_0(buf5, buf4, s0, threads=[8, 4], group_size=[8, 1])
    _mps_flex_lib_1.flex_attn_fwd(buf6, buf5, _flex_params_buf6, threads=[32 * 16, 4, 1], group_size=[16, 1, 1])
    zap_0(buf6)
"""


# Language, kind, shape, lexer, the function of async_compile, and the ops; then arguments and grid of the launch.
TEMPLATE, OTHER = KernelKind.TEMPLATE, KernelKind.OTHER
KNOWN = {
    "cutlass_fused_mm_1a2b3c4d": (
        ("CUTLASS", TEMPLATE, "template", "cpp", "xpu", ("aten.mm",)),
        (("arg0_1", "buf0", "8", "None", "workspace_0"), ""),
    ),
    "rocm_fused_mm_0": (
        ("Composable Kernel", TEMPLATE, "template", "cpp", "rocm", ("aten.mm",)),
        (("reinterpret_tensor(buf0, (8, 8), (8, 1), 0)", "buf1", "8", "8"), ""),
    ),
    "nv_universal_gemm_fused_mm_9f8e7d6c": (
        ("NVIDIA Universal GEMM", TEMPLATE, "template", "python", "nv_universal_gemm", ("aten.mm",)),
        (("buf1", "buf2"), ""),
    ),
    "pallas_fused_add_mul_5e6f7a8b": (
        ("Pallas", OTHER, "", "python", "pallas", ("aten.mul", "aten.add")), (("buf3", "buf4"), "")
    ),
    "generated_kernel_0": (("Metal", OTHER, "", "cpp", "metal", ()), (("buf5", "buf4", "s0"), "[8, 4]")),
    "_mps_flex_lib_1": (
        ("Metal", OTHER, "", "cpp", "metal", ()), (("buf6", "buf5", "_flex_params_buf6"), "[32 * 16, 4, 1]")
    ),
    "halide_kernel_0": (("Halide", OTHER, "", "python", "halide", ()), (("buf2", "buf3"), "")),
    "zap_0": (("", OTHER, "", "python", "zap", ()), (("buf6",), "")),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_kernel_of_another_language_says_which_and_how_it_is_launched(name):
    k = next(k for k in read(OTHERS) if isinstance(k, Kernel) and k.name == name)
    (launch,) = k.launches
    described = (k.language, k.kind, k.shape, k.lexer, k.meta["backend"], k.aten)
    assert (described, (launch.arguments, launch.grid)) == KNOWN[name]


def test_every_language_of_inductors_is_tried_in_the_order_of_what_its_sources_hold():
    languages = [language for language in INDUCTOR_LANGUAGES if language.makers]
    for number, language in enumerate(languages):
        shadowed = [one for one in languages[:number] if not one.holds and set(one.makers) & set(language.makers)]
        assert shadowed == []


def test_a_cpp_wrapper_keeps_its_text_and_says_what_is_missing():
    text = "#include <torch/csrc/inductor/aoti.h>\nvoid f() {}\n"
    found, missing = read(text)
    assert (found.code, found.buffers) == (text, ())
    assert isinstance(missing, Unavailable)
    assert (missing.fact, missing.compile_id) == ("kernels", ID)


def test_what_is_neither_python_nor_cpp_is_a_payload_error():
    with pytest.raises(PayloadError):
        read("this is no code")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("256", 256),
        ("1.5", 1.5),
        ("None", None),
        ("True", True),
        ("'Grid1D'", "Grid1D"),
        ("{'x': 2048, 'r0_': 512}", {"x": 2048, "r0_": 512}),
        ("['in_out_ptr0', 'out_ptr1']", ["in_out_ptr0", "out_ptr1"]),
        ("set()", []),
        ("{<AutotuneHint.ONE_ELEMENT_PER_THREAD: 0>}", ["AutotuneHint.ONE_ELEMENT_PER_THREAD: 0"]),
        ("ReductionHint.INNER", "INNER"),
    ],
)
def test_printed_values_are_read_back(text, value):
    assert printed_value(text) == value


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("cpp_fused_add_native_layer_norm_native_layer_norm_backward_view_3", "add native_layer_norm native_layer_norm_backward view"),
        ("cpp_fused__unsafe_view_add_gelu_2", "_unsafe_view add gelu"),
        ("cpp_fused_add__softmax_1", "add _softmax"),
        ("cpp_fused_add_copy__sin_0", "add copy_ sin"),
        ("cpp_fused_copy__3", "copy_"),
        ("cutlass_fused_mm_relu_1a2b3c4d", "mm relu"),
        ("cpp_fused_0", ""),
        ("kernel_7", ""),
    ],
)  # fmt: skip
def test_a_kernels_name_tells_its_ops(name, ops):
    assert ops_in_kernel_name(name) == tuple(f"aten.{op}" for op in ops.split())


@pytest.mark.parametrize("path", [p for p in ALL if "h200" in p.stem], ids=lambda p: p.stem)
def test_the_ops_in_a_name_are_those_of_torchs_own_comment(path):
    for kernel in kernels(path.relative_to(PAYLOADS)).values():
        if kernel.source and kernel.trust is Trust.TEXT and kernel.kind is not KernelKind.FOREACH:
            assert {op.split(".")[1] for op in ops_in_kernel_name(kernel.name)} == {
                op.split(".")[1] for op in kernel.aten
            }


def large(copies):
    """An output code with the kernels and launches of a real one, several times over."""
    text = payload("2.11/output_code/gpt_forward_h200").split("\ndef get_args")[0]
    head, rest = text.split("# kernel path", 1)
    defined, calling = ("# kernel path" + rest).split("async_compile.wait(globals())")
    start = calling.index("            torch.cuda.set_device(0)\n")
    body = calling[start : calling.index("        return (")]
    renamed = re.compile(r"\b(triton_\w+_\d+)\b")
    parts = [renamed.sub(rf"\1_{n}", defined) for n in range(copies)]
    bodies = [renamed.sub(rf"\1_{n}", body) for n in range(copies)]
    return (
        head
        + "".join(parts)
        + "async_compile.wait(globals())"
        + calling[:start]
        + "".join(bodies)
        + "        return ()\n"
    )


def test_reading_is_linear_in_the_text(calls_of):
    small, big = large(3), large(24)
    ast.parse(big)
    assert sum(len(k.launches) for k in read(big)[1:]) == 24 * sum(
        len(k.launches) for k in kernels("2.11/output_code/gpt_forward_h200").values()
    )
    assert calls_of(lambda: read(big)) < 1.2 * 8 * calls_of(lambda: read(small))
