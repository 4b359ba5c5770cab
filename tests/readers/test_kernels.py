"""Which nodes each kernel computes, in our hook's words."""

import json
from pathlib import Path

import pytest

from compiler_lens.errors import PayloadError
from compiler_lens.event import Event
from compiler_lens.model import CompileId, Pass
from compiler_lens.readers.kernels import read_kernel_nodes

PAYLOADS = Path(__file__).parent.parent / "payloads"
ID = CompileId(0, 0)


def read(meta, **event):
    (nodes,) = read_kernel_nodes(Event("lens.kernel_nodes", 0.0, meta=meta, **event), ID, {})
    return nodes


def test_every_code_generation_call_is_one_entry_in_order():
    calls = [["extern_kernels.mm", ["mm"]], ["cpp_fused_add_0", ["add", "view"]], ["extern_kernels.mm", ["mm_1"]]]
    nodes = read({"part": "backward", "kernels": calls}, cached=True)
    assert nodes.kernels == (
        ("extern_kernels.mm", ("mm",)),
        ("cpp_fused_add_0", ("add", "view")),
        ("extern_kernels.mm", ("mm_1",)),
    )
    assert (nodes.compile_id, nodes.part, nodes.cached) == (ID, Pass.BACKWARD, True)


def test_a_real_event_has_as_many_entries_as_the_output_code_has_launches():
    nodes = read(json.loads((PAYLOADS / "2.11/output_code/gpt_forward_h200.nodes.json").read_text()))
    assert (nodes.part, len(nodes.kernels)) == (Pass.FORWARD, 17)


@pytest.mark.parametrize(
    "meta", [{}, {"part": "forward"}, {"part": "sideways", "kernels": []}, {"part": "forward", "kernels": [1]}]
)
def test_an_event_of_another_form_is_a_payload_error(meta):
    with pytest.raises(PayloadError):
        read(meta)
