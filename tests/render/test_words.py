"""Every fact has words."""

import pytest

from compiler_lens.facts.overview.findings import Basis, Severity
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.time.caches import Warmth
from compiler_lens.recording.model import CudagraphState, Direction, GraphStage, KernelKind, Outcome, Trust
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
