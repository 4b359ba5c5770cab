"""What was decided about CUDA graphs when they were compiled, joined with what happened when they came to run."""

from __future__ import annotations

from msgspec.structs import replace

from compiler_lens.decode.cudagraphs import join_cudagraphs
from compiler_lens.recording.model import (
    CompileId,
    CudagraphOutcome,
    CudagraphState,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    Node,
    OutputCode,
    SourceLine,
)

ONE, TWO = CompileId(0, 0), CompileId(1, 0)
NOWHERE = CompileId(None, None)
LINE = SourceLine("model.py", 12, "forward", "self.cache[i] = k")
CAPTURED, SKIPPED, PARTITIONED = CudagraphState.CAPTURED, CudagraphState.SKIPPED, CudagraphState.PARTITIONED
PARTITIONED_CODE = """\
def partition_0(args):
    kernel_a(args)

class Runner:
    def call(self, args):
        self.partitions[0](args)
        kernel_b(args)

runner = Runner(partitions=[partition_0])
"""


def captured(owner: CompileId, direction: Direction = Direction.FORWARD) -> CudagraphOutcome:
    return CudagraphOutcome(owner, direction, CAPTURED, partitions=2)


def skip(*lines: SourceLine, reason: str = "mutated inputs") -> CudagraphOutcome:
    return CudagraphOutcome(NOWHERE, None, SKIPPED, reason, user_stack=lines)


def graph(owner: CompileId, *lines: SourceLine, stage: GraphStage = GraphStage.DYNAMO) -> Graph:
    return Graph(owner, stage, "", (Node("copy", "call_function", "copy_", source=lines),))


def joined(*outcomes: CudagraphOutcome, graphs: tuple[Graph, ...] = ()) -> list[CudagraphOutcome]:
    return list(join_cudagraphs(outcomes, graphs, (), ()))


def test_a_skip_belongs_to_the_graph_with_the_line_that_torch_gives_as_the_reason():
    found = joined(captured(ONE), captured(TWO), skip(LINE), graphs=(graph(TWO, LINE),))
    assert found == [captured(ONE), replace(skip(LINE), compile_id=TWO, direction=Direction.FORWARD, partitions=0)]


def test_the_innermost_line_decides():
    caller = replace(LINE, line=40)
    found = joined(captured(ONE), captured(TWO), skip(caller, LINE), graphs=(graph(ONE, caller), graph(TWO, LINE)))
    assert [outcome.state for outcome in found] == [CAPTURED, SKIPPED]


def test_a_skip_that_may_be_of_two_graphs_is_given_to_neither():
    graphs = graph(ONE, LINE), graph(TWO, LINE)
    found = joined(captured(ONE), captured(TWO), skip(LINE), graphs=graphs)
    assert found == [captured(ONE), captured(TWO), skip(LINE)]


def test_forward_and_backward_of_one_compilation_are_two_graphs():
    backward = captured(ONE, Direction.BACKWARD)
    assert joined(captured(ONE), backward, skip(LINE), graphs=(graph(ONE, LINE),)) == [
        captured(ONE),
        backward,
        skip(LINE),
    ]


def test_what_was_not_captured_cannot_be_skipped_so_the_other_one_was():
    refused = CudagraphOutcome(ONE, Direction.FORWARD, SKIPPED, "cpu device")
    found = joined(refused, captured(TWO), skip(LINE), graphs=(graph(ONE, LINE), graph(TWO, LINE)))
    assert [(outcome.compile_id, outcome.reason) for outcome in found] == [(ONE, "cpu device"), (TWO, "mutated inputs")]


def test_two_skips_of_one_line_are_of_the_two_graphs_with_it_only_where_one_is_left_each_time():
    graphs = graph(ONE, LINE), graph(TWO, LINE)
    found = joined(captured(ONE), captured(TWO), skip(LINE), skip(LINE), graphs=graphs)
    assert found == [captured(ONE), captured(TWO), skip(LINE)], "an ambiguous reason is said once"
    other = skip(LINE, reason="multiple devices")
    assert joined(captured(ONE), captured(TWO), skip(LINE), other, graphs=graphs)[2:] == [skip(LINE), other]


def test_a_skip_of_a_line_that_no_graph_has_stands_for_itself_each_time():
    assert joined(captured(ONE), skip(LINE), skip()) == [captured(ONE), skip(LINE), skip()]
    later = graph(ONE, LINE, stage=GraphStage.POST_GRAD)
    assert joined(captured(ONE), skip(LINE), graphs=(later,)) == [captured(ONE), skip(LINE)]


def kernel(name: str, line: int, owner: CompileId = ONE) -> Kernel:
    return Kernel(owner, Direction.FORWARD, name, KernelKind.TRITON, launches=(Launch(line, ("a",)),))


def partitioned(outcome: CudagraphOutcome, *kernels: Kernel, code: str = PARTITIONED_CODE) -> CudagraphOutcome:
    (found,) = join_cudagraphs((outcome,), (), (OutputCode(ONE, Direction.FORWARD, code),), kernels)
    return found


def test_a_graph_whose_kernels_run_outside_of_its_partitions_is_partitioned():
    found = partitioned(captured(ONE), kernel("kernel_a", 2), kernel("kernel_b", 7))
    assert (found.state, found.reason) == (PARTITIONED, "outside of the CUDA graphs: kernel_b")
    said = replace(captured(ONE), reason="dynamic shapes")
    assert partitioned(said, kernel("kernel_b", 7)).reason == "dynamic shapes"


def test_one_whose_kernels_are_all_inside_stays_captured():
    assert partitioned(captured(ONE), kernel("kernel_a", 2)) == captured(ONE)
    assert partitioned(captured(ONE), kernel("kernel_b", 7, TWO)) == captured(ONE)
    assert partitioned(captured(ONE), kernel("kernel_b", 9)) == captured(ONE)
    whole = PARTITIONED_CODE.replace("self.partitions[0](args)", "kernel_a(args)")
    assert partitioned(captured(ONE), kernel("kernel_b", 7), code=whole) == captured(ONE)
    refused = CudagraphOutcome(ONE, Direction.FORWARD, SKIPPED, "cpu device")
    assert partitioned(refused, kernel("kernel_b", 7)) == refused
