"""Every fact has words."""

import pytest

from compiler_lens.facts.overview.findings import Basis, Severity
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.time.caches import Warmth
from compiler_lens.recording.model import (
    CompileId,
    CudagraphState,
    Direction,
    GraphStage,
    Kernel,
    KernelKind,
    Outcome,
    Trust,
)
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views import words


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (Outcome, words.OUTCOMES),
        (Treatment, words.TREATMENTS),
        (Severity, words.SEVERITIES),
        (Basis, words.BASES),
        (GraphStage, words.STAGES),
        (Direction, words.PASSES),
        (KernelKind, words.KERNEL_KINDS),
        (Trust, words.TRUST),
        (CudagraphState, words.CUDAGRAPHS),
        (Phase, words.PHASES),
        (Warmth, words.WARMTH),
    ],
)
def test_every_member_of_an_enum_has_a_word(kind, table):
    assert set(table) == set(kind)


@pytest.mark.parametrize(
    ("kind", "language", "shape", "word"),
    [
        (KernelKind.TRITON, "Triton", "persistent_reduction", "Triton persistent"),
        (KernelKind.TEMPLATE, "C++", "template", "template"),
        (KernelKind.TEMPLATE, "CUTLASS", "template", "CUTLASS template"),
        (KernelKind.OTHER, "Halide", "", "Halide"),
        (KernelKind.OTHER, "Toy", "pointwise", "Toy pointwise"),
        (KernelKind.OTHER, "", "", "other"),
        (KernelKind.EXTERN, "Toy", "", "Toy extern"),
    ],
)
def test_a_kernel_goes_by_its_language_where_its_kind_does_not_say_it(kind, language, shape, word):
    kernel = Kernel(CompileId(0, 0), Direction.FORWARD, "k", kind, shape, language=language)
    assert words.kernel_kind(kernel) == word


def test_kernels_are_counted_by_kind_and_language():
    kinds = [(KernelKind.OTHER, "Halide"), (KernelKind.TRITON, "Triton"), (KernelKind.OTHER, "Toy")]
    kernels = [Kernel(CompileId(0, 0), Direction.FORWARD, "k", kind, language=name) for kind, name in kinds]
    assert words.kind_counts([*kernels, kernels[1]]) == "2 Triton, 1 Halide, 1 Toy"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("torch.ops.aten.add.Tensor", "add"),
        ("aten.native_layer_norm", "native_layer_norm"),
        ("prims.convert_element_type.default", "convert_element_type"),
        ("torch.nn.functional.layer_norm", "layer_norm"),
        ("torch._C._nn.gelu", "gelu"),
        ("operator.add", "add"),
        ("torch.ops.mylib.rope.default", "mylib.rope"),
        ("view", "view"),
        ("", ""),
    ],
)
def test_an_op_goes_by_its_shortest_clear_name(target, name):
    assert words.op_name(target) == name
