"""What is told of the scheduler's nodes, with stand-ins for torch's classes: no compilation."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from compiler_lens.capture.fusion import describe


@dataclass(frozen=True)
class MemoryDep:
    name: str
    bytes: int = 64
    start: int = 0

    @property
    def index(self):
        return SimpleNamespace(as_coeff_Add=lambda: (self.start, None))

    def numbytes_hint(self):
        return self.bytes


class WeakDep(MemoryDep):
    pass


@dataclass
class SchedulerNode:
    op: str
    reads: list = field(default_factory=list)
    writes: list = field(default_factory=list)
    renamed: dict = field(default_factory=dict)
    node: object = None

    @property
    def read_writes(self):
        return SimpleNamespace(reads=self.reads, writes=self.writes)

    @property
    def scheduler(self):
        return SimpleNamespace(mutation_real_name=self.renamed)

    def get_nodes(self):
        return [SimpleNamespace(get_name=lambda op=op: op) for op in self.op.split()]

    def get_buffer_names(self):
        return [dep.name for dep in self.writes]

    def is_template(self):
        return False

    def get_read_write_buffer_accesses(self, *, include_reads, include_writes):
        assert include_reads
        assert include_writes
        return {dep.name: dep.bytes for dep in (*self.reads, *self.writes)}


class NopKernelSchedulerNode(SchedulerNode):
    pass


class Template(SchedulerNode):
    def is_template(self):
        return True

    def get_read_write_buffer_accesses(self, **which):
        written = sum(dep.bytes for dep in self.writes)
        return {name: min(size, written) for name, size in super().get_read_write_buffer_accesses(**which).items()}


def multi_output(op, reads, writes):
    class ExternKernelSchedulerNode(SchedulerNode):
        pass

    class MultiOutput:
        pass

    return ExternKernelSchedulerNode(op, reads, writes, node=MultiOutput())


def node(op, reads="", writes="", kind=SchedulerNode):
    return kind(op, [MemoryDep(name) for name in reads.split()], [MemoryDep(name) for name in writes.split()])


def pairs(nodes, told=None, outputs=()):
    return {(first, second): (why, shared) for first, second, why, shared in describe(nodes, told or {}, outputs)["refusals"]}  # fmt: skip


def test_a_producer_and_its_only_consumer_would_save_the_write_and_the_read():
    nodes = [node("op0", "x", "buf0"), node("op1", "buf0", "buf1")]
    assert pairs(nodes) == {("op0", "op1"): ("", [("buf0", 128)])}
    assert pairs(nodes, outputs=["buf0"]) == {("op0", "op1"): ("", [("buf0", 64)])}


def test_readers_of_one_buffer_make_pairs_of_neighbours_not_of_all():
    nodes = [node(f"op{n}", "x", f"buf{n}") for n in range(300)]
    assert list(pairs(nodes)) == [(f"op{n}", f"op{n + 1}") for n in range(299)]


def test_other_readers_are_a_pair_where_torch_refused_them():
    nodes = [node(f"op{n}", "x", f"buf{n}") for n in range(4)]
    found = pairs(nodes, {("op0", "op3"): ("exceeds max fusion", ())})
    assert found["op0", "op3"] == ("exceeds max fusion", [("x", 64)])
    assert len(found) == 4


def test_the_last_word_on_the_nodes_as_they_ended_is_the_reason():
    nodes = [node("op0 op1", "x", "buf0"), node("op2 op3", "x", "buf1")]
    told = {
        ("op0", "op2"): ("of parts", ()),
        ("op0_op1", "op2_op3"): ("numel %s and %s", (8, 64)),
        ("op1", "op3"): ("of parts again", ()),
        ("op2_op3", "op0_op1"): ("node1 must go before node2", ()),
        ("op0", "op1"): ("fused in the end", ()),
        ("op0_op1", "op9"): ("with one that is gone", ()),
    }
    assert pairs(nodes, told) == {("op0", "op2"): ("numel 8 and 64", [("x", 64)])}
    del told["op0_op1", "op2_op3"]
    assert pairs(nodes, told)["op0", "op2"][0] == "of parts again"


def test_names_of_subgraphs_hold_what_looks_like_an_op():
    nodes = [node("loop1_body_0_op0 loop1_body_0_op1", "x", "b0"), node("loop1_body_0_op2", "x", "b1")]
    told = {("loop1_body_0_op0_loop1_body_0_op1", "loop1_body_0_op2"): ("why", ())}
    assert pairs(nodes, told)["loop1_body_0_op0", "loop1_body_0_op2"][0] == "why"


def test_a_sentence_that_does_not_fit_its_arguments_is_kept_as_it_is():
    nodes = [node("op0", "x", "b0"), node("op1", "x", "b1")]
    assert pairs(nodes, {("op0", "op1"): ("%s and %s", ("a",))})["op0", "op1"][0] == "%s and %s"
    assert len(pairs(nodes, {("op0", "op1"): ("x" * 9999, ())})["op0", "op1"][0]) == 300


def test_two_halves_of_a_buffer_are_not_shared():
    def reader(op, start, size=32):
        return SchedulerNode(op, [MemoryDep("x", size, start)], [MemoryDep(f"b{op}")])

    assert pairs([reader("op0", 0), reader("op1", 32)]) == {}
    assert list(pairs([reader("op0", 0), reader("op1", 0)])) == [("op0", "op1")]
    assert pairs([reader("op0", 0, 64), reader("op1", 32)])["op0", "op1"] == ("", [("x", 32)])


def test_what_only_orders_two_nodes_moves_nothing():
    later = SchedulerNode("op1", [WeakDep("buf0")], [MemoryDep("buf1")])
    told = describe([node("op0", "x", "buf0"), later], {}, ())
    assert told["refusals"] == []
    assert told["nodes"][1] == [["op1"], "SchedulerNode", [], [("buf1", 64)]]


def test_buffers_that_are_mutated_go_by_the_name_that_the_output_code_knows():
    nodes = [node("op0", "x", "buf0"), node("op1", "buf0 x", "buf1"), node("op2", "buf1", "buf2")]
    nodes[0].renamed = {"buf1": "x"}
    told = describe(nodes, {}, ())
    assert told["nodes"][1] == [["op1"], "SchedulerNode", [("buf0", 64), ("x", 64)], [("x", 64)]]
    assert told["refusals"][-1] == ["op1", "op2", "", [("x", 128)]]


def test_the_kernels_of_a_concatenation_share_its_parts_with_its_first_reader():
    nodes = [
        node("op0", "x", "buf0"),
        node("op1", "y", "buf1"),
        node("op2", "buf0 buf1", "buf2", NopKernelSchedulerNode),
        node("op3", "buf2", "buf3"),
        node("op4", "buf2", "buf4"),
    ]
    assert pairs(nodes) == {
        ("op0", "op3"): ("", [("buf0", 128)]),
        ("op1", "op3"): ("", [("buf1", 128)]),
        ("op3", "op4"): ("", [("buf2", 64)]),
    }


def test_the_parts_of_a_tuple_are_written_by_the_call_that_returns_it():
    nodes = [
        node("op0", "x", "buf0"),
        node("op1", "buf0 w", "buf1"),
        node("op2", "buf1", "buf2", multi_output),
        node("op3", "buf1", "buf3", multi_output),
        node("op4", "buf3", "buf4", multi_output),  # a tuple in a tuple
        node("op5", "buf2 buf4", "buf5"),
    ]
    told = describe(nodes, {}, ())
    assert [writes for _, _, _, writes in told["nodes"]] == [
        [("buf0", 64)],
        [("buf2", 64), ("buf4", 64)],
        [("buf2", 64)],
        [("buf3", 64)],
        [("buf4", 64)],
        [("buf5", 64)],
    ]
    assert pairs(nodes) == {
        ("op0", "op1"): ("", [("buf0", 128)]),
        ("op1", "op5"): ("", [("buf2", 128), ("buf4", 128)]),
    }


def test_the_work_grows_with_the_graph_and_not_faster(calls_of):
    def chain(count):
        return [node(f"op{n}", f"buf{n - 1} w", f"buf{n}") for n in range(count)]

    small, large = chain(200), chain(800)
    assert calls_of(lambda: describe(large, {}, ())) < 5 * calls_of(lambda: describe(small, {}, ()))


def test_a_template_reads_all_of_its_inputs_however_small_its_result_is():
    product = Template("op0", [MemoryDep("x", 4096), MemoryDep("w", 1024)], [MemoryDep("buf0", 512)])
    assert describe([product], {}, ())["nodes"] == [
        [["op0"], "Template", [("x", 4096), ("w", 1024)], [("buf0", 512)]],
    ]  # fmt: skip


def test_a_template_reads_an_input_once_that_it_multiplies_with_itself():
    product = Template("op0", [MemoryDep("x", 64), MemoryDep("x", 64)], [MemoryDep("buf0", 512)])
    parts = Template("op1", [MemoryDep("qkv", 64), MemoryDep("qkv", 64, start=16)], [MemoryDep("buf1", 512)])
    told = describe([product, parts], {}, ())["nodes"]
    assert [reads for _, _, reads, _ in told] == [[("x", 64)], [("qkv", 128)]]
