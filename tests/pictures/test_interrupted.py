"""Pictures of what was not finished, was compiled again, is in partitions, or is much at once."""

from __future__ import annotations

import made
import pytest
from msgspec.structs import replace

from compiler_lens import UsageError, draw
from compiler_lens.facts.graphs.frame_graphs import frame_pieces
from compiler_lens.facts.graphs.levels import levels
from compiler_lens.recording.model import (
    THE_END,
    CaptureProblem,
    Compilation,
    CompileId,
    GraphStage,
    Node,
    Outcome,
    Recording,
    SavedTensor,
    TensorSpec,
)
from compiler_lens.views.picture.labels import amount, kept_words

AGAIN = CompileId(0, 1)


def twice() -> Recording:
    """A training that was compiled a second time, and then interrupted before its backward."""
    one = made.recorded("trig")
    first = one.compilations[0].compile_id
    rest = tuple(
        replace(graph, compile_id=AGAIN, nodes=(*graph.nodes, made.op("more", "x")))
        for graph in one.graphs
        if graph.compile_id == first and graph.stage in {GraphStage.DYNAMO, GraphStage.AOT_FORWARD}
    )
    assert len(rest) == 2
    again = replace(one.compilations[0], compile_id=AGAIN)
    return replace(one, compilations=(*one.compilations, again), graphs=(*one.graphs, *rest))


def test_forward_beside_backward_is_drawn_of_what_has_both() -> None:
    recording = twice()
    assert "[0/0]" in draw(recording, "forward").title
    assert "; also there: [0/1]<" in draw(recording, "forward").svg
    assert "also there" not in draw(recording, "forward", "0/1").svg
    assert "[0/0]" in draw(recording, "training").title
    with pytest.raises(UsageError, match="no 'training' graph of 0/1: it has dynamo, forward, frame"):
        draw(recording, "training", "0/1")


@pytest.mark.parametrize("stage", ["forward", "training", "frame"])
def test_a_picture_of_a_recording_without_an_end_says_so(stage: str) -> None:
    recording = made.recorded("trig")
    cut = replace(recording, problems=(CaptureProblem(THE_END, "cut short"),))
    assert cut.unfinished
    assert "; the recording is not finished<" in draw(cut, stage).svg
    assert "not finished" not in draw(recording, stage).svg


def test_a_recompile_is_drawn_only_where_it_is_much_larger() -> None:
    recording = twice()
    more = tuple(made.op(f"more{k}", "x") for k in range(30))
    graphs = (replace(g, nodes=(*g.nodes, *more)) if g.compile_id == AGAIN else g for g in recording.graphs)
    assert "[0/1]" in draw(replace(recording, graphs=tuple(graphs)), "forward").title


def test_kernels_are_drawn_of_what_has_them() -> None:
    recording = made.recorded("oddities-reduce-overhead-cold")
    largest = draw(recording, "kernels")
    kept = tuple(kernel for kernel in recording.kernels if f"[{kernel.compile_id}]" not in largest.title)
    assert 0 < len(kept) < len(recording.kernels)
    other = draw(replace(recording, kernels=kept), "kernels")
    assert other.title.partition("[")[2] != largest.title.partition("[")[2]


def test_a_function_that_was_compiled_again_shows_the_compilation_that_was_asked_for() -> None:
    recording = twice()
    assert [piece.compile_id for piece in frame_pieces(recording, AGAIN).pieces] == [AGAIN]
    assert "graph [0/1]" in draw(recording, "frame", "0/1").svg
    assert "graph [0/0]" in draw(recording, "frame", "0/0").svg


def test_a_function_whose_first_compilation_has_no_graph_shows_the_next() -> None:
    recording = twice()
    first = recording.compilations[0]
    later = replace(
        recording,
        compilations=(replace(first, outcome=Outcome.FAILED), *recording.compilations[1:]),
        graphs=tuple(graph for graph in recording.graphs if graph.compile_id != first.compile_id),
    )
    assert [piece.compile_id for piece in frame_pieces(later, first.compile_id).pieces] == [AGAIN]


@pytest.mark.parametrize("name", ["oddities-reduce-overhead-cold", "oddities-reduce-overhead-warm"])
def test_launches_of_a_partition_stand_where_it_runs(name: str) -> None:
    recording = made.recorded(name)
    graph = next(g for g in recording.graphs if g.stage is GraphStage.POST_GRAD)
    known = levels(recording, graph, kernels=True)
    shown = {
        step.node.name: launch[1].name for step, launch in zip(known.flow.steps, known.launched, strict=True) if launch
    }
    assert shown == {
        "add": "cpp_fused__to_copy_add_0",
        "device_put_1": "cpp_fused__to_copy_add_0",
        "mul": "triton_poi_fused_mul_1",  # its partition stands above the call that runs it
    }


class Name(str):
    """A node's name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def compared(count: int) -> int:
    """How many names are looked at to draw an op with so many results: a compiled optimizer's, say."""
    parts = [made.op(Name(f"part{n}"), "many", target="operator.getitem") for n in range(count)]
    many = made.op("many", "x", target="torch._foreach_mul", specs=made.SPEC * count)
    last = made.op("last", *(str(part.name) for part in parts), target="torch._foreach_sqrt")
    graph = made.graph_of([many, *parts, last])
    one = Compilation(graph.compile_id, "step", "x.py", 1, Outcome.COMPILED)
    Name.compared = 0
    draw(Recording(compilations=(one,), graphs=(graph,)))
    return Name.compared


def test_an_op_with_thousands_of_results_is_drawn_in_linear_time() -> None:
    assert compared(800) < 5 * compared(200)


def test_memory_is_told_where_all_of_it_is_known() -> None:
    known, free = TensorSpec("f32", (256,)), TensorSpec("f32", ("s0", 256))
    assert amount([Node("a", "call_function", "f", specs=(known, known))]) == " · 2.0 KiB"
    assert amount(Node(name, "call_function", "f", specs=(spec,)) for name, spec in (("a", known), ("b", free))) == ""
    assert amount([]) == ""


def test_an_op_without_a_name_has_a_box() -> None:
    graph = made.graph_of([made.op("a", target="\u200b", specs=())])
    assert "call_function" in draw(Recording(graphs=(graph,))).svg


def test_inputs_are_not_counted_to_what_is_saved() -> None:
    spec = TensorSpec("f32", (256,))
    made_, given = SavedTensor("a", spec, is_input=False), SavedTensor("b", spec, is_input=True)
    assert kept_words([made_, made_, given]) == "2 tensors saved for the backward, 2.0 KiB; 1 input kept alive"
    assert kept_words([made_, replace(made_, spec=None)]) == "2 tensors saved for the backward"


def test_a_joint_graph_with_fewer_results_than_inputs_is_drawn() -> None:
    one = made.recorded("trig")

    def without_results(node: Node) -> Node:
        return replace(node, inputs=(), arguments="()") if node.op == "output" else node

    graphs = tuple(replace(graph, nodes=tuple(map(without_results, graph.nodes))) for graph in one.graphs)
    assert draw(replace(one, graphs=graphs), "joint").svg
