"""Which nodes each kernel computes, in our hook's words."""

import json
from pathlib import Path

import pytest

from compiler_lens.decode.fusion import read_fusion
from compiler_lens.decode.kernels import read_kernel_nodes
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import BufferAccess, CompileId, Direction

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
    assert (nodes.compile_id, nodes.direction, nodes.cached) == (ID, Direction.BACKWARD, True)


def test_a_real_event_has_as_many_entries_as_the_output_code_has_launches():
    nodes = read(json.loads((PAYLOADS / "2.11/output_code/gpt_forward_h200.nodes.json").read_text()))
    assert (nodes.direction, len(nodes.kernels)) == (Direction.FORWARD, 17)


@pytest.mark.parametrize(
    "meta", [{}, {"part": "forward"}, {"part": "sideways", "kernels": []}, {"part": "forward", "kernels": [1]}]
)
def test_an_event_of_another_form_is_a_payload_error(meta):
    with pytest.raises(PayloadError):
        read(meta)


@pytest.mark.parametrize("version", ["2.11", "2.13", "2.15"])
def test_what_launches_read_and_write_is_read_from_each_torch(version):
    told = json.loads((PAYLOADS / version / "fusion/train.json").read_text())
    events = [Event(entry["name"], 0.0, meta=entry["meta"]) for entry in told]
    fusions = [f for event in events if event.name == "lens.fusion" for f in read_fusion(event, ID, {})]
    calls = [c for event in events if event.name == "lens.kernel_nodes" for c in read_kernel_nodes(event, ID, {})]
    assert [f.direction for f in fusions] == [c.direction for c in calls] == [Direction.FORWARD, Direction.BACKWARD]
    for fusion, call in zip(fusions, calls, strict=True):
        assert sorted(op for ops in call.ops for op in ops) == sorted(op for node in fusion.nodes for op in node.ops)
        assert all(access.bytes for node in fusion.nodes for access in (*node.reads, *node.writes))
    (product,) = [node for node in fusions[0].nodes if node.kind == "ExternKernelOut"]
    assert product.reads[1:] == (BufferAccess("buf0", 32 * 64 * 4), BufferAccess("primals_2", 64 * 64 * 4))
    assert [(first, second) for first, second, _, _ in fusions[0].unfused][:2] == [("op0", "op1"), ("op1", "op2")]
    assert "no shared data" in {reason for _, _, reason, _ in fusions[1].unfused}


def test_recordings_of_before_ops_were_told_are_read():
    assert read({"part": "forward", "kernels": [["k", ["mm"]]]}).ops == ()


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"part": "forward", "nodes": []},
        {"part": "forward", "nodes": [[["op0"], "SchedulerNode", []]], "refusals": []},
        {"part": "forward", "nodes": [[["op0"], "SchedulerNode", [["buf0", "much"]], []]], "refusals": []},
        {"part": "forward", "nodes": [], "refusals": [["op0", "op1", ""]]},
    ],
)
def test_fusion_of_another_form_is_a_payload_error(meta):
    with pytest.raises(PayloadError):
        read_fusion(Event("lens.fusion", 0.0, meta=meta), ID, {})
