"""What became of a line or a module: its launches, what shares them, and why there may be none."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.kernels import Costs, kernel_rows
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.line_story import Fate, line_rows, line_story, selected
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection, select_kernels
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    Node,
    Recording,
    SourceFile,
    SourceLine,
    Trust,
)

DATA = Path(__file__).parent.parent / "gpu/data"
ID = CompileId(0, 0)
FILE = "/home/user/app/net.py"


@cache
def gpt() -> tuple[Recording, Provenance]:
    recording = load(DATA / "gpt-default-profiled.clens.gz", strict=True)
    return recording, Provenance.of(recording)


def story(text: str, recording: Recording | None = None):
    recording, provenance = (recording, Provenance.of(recording)) if recording else gpt()
    return line_story(recording, provenance, text)


def op(name: str, number: int, target: str = "torch.ops.aten.sin.default", **more) -> Node:
    return Node(name, "call_function", target, source=(SourceLine(FILE, number, "forward", f"line {number}"),), **more)


def program(*lowered: Node, launches: tuple[tuple[str, ...], ...] = (), backend: bool = True) -> Recording:
    """A function of four lines; the ops of it are x1, x2, x3 on lines 1 to 3."""
    dynamo = Graph(ID, GraphStage.DYNAMO, "", tuple(op(f"x{n}", n) for n in (1, 2, 3)), origins=Trust.EXACT)
    post_grad = Graph(ID, GraphStage.POST_GRAD, "", lowered, origins=Trust.EXACT)
    made = tuple(Launch(i, (), names) for i, names in enumerate(launches))
    nodes = tuple(name for names in launches for name in names)
    other = Kernel(ID, Direction.FORWARD, "k", KernelKind.CPP, nodes=nodes, trust=Trust.EXACT, launches=made)
    source = SourceFile(FILE, "line 1\nline 2\nline 3\nline 4\n")
    return Recording(graphs=(dynamo, post_grad), kernels=(other,) if backend else (), sources=(source,))


# -- finding it


def test_a_line_is_found_by_any_ending_of_its_path():
    whole = story("models.py:25")
    assert whole.asked.line == 25
    assert whole.code == "return x + self.down(F.gelu(self.up(self.norm_2(x))))"
    assert story("gpu/models.py:25").launches == whole.launches


def test_a_module_is_found_by_its_path_by_self_and_by_its_ending():
    whole = story("net.norm_1")
    assert whole.asked.module == "net.norm_1"
    for text in ("self.net.norm_1", "norm_1", " net.norm_1 "):
        assert story(text).ops == whole.ops
    assert set(whole.ops) < set(story("net").ops)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("models.py", "which line of it? models.py:2"),
        ("net.qkw", "Did you mean net.qkv?"),
        ("nowhere.py:3", "no file 'nowhere.py' in this recording"),
        ("\x1b[2J", "no line and no module"),
        ("", "no line and no module"),
        ("24", "a line is named with its file: models.py:24"),
        ("models.py:999", "models.py:999: the file has "),
    ],
)
def test_what_is_not_there_is_told_with_what_is(text, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        story(text)


# -- what it says


def test_launches_of_a_line_are_told_by_pass_with_their_share():
    found = story("models.py:25")
    forward, backward = found.of_pass(backward=False), found.of_pass(backward=True)
    assert len(forward) + len(backward) == len(found.launches)
    assert {match.lineage.kernel.direction for match in backward} == {Direction.BACKWARD}
    assert found.fate is Fate.KERNELS
    shared = {at.line: count for at, count in found.shares}
    assert set(shared) == {22, 24}
    for match in found.launches:
        assert {traced.name for traced in match.nodes} <= {traced.name for traced in match.lineage.nodes}


def test_a_line_that_calls_has_what_it_calls():
    calls = op("x1", 2)
    calls = replace(calls, source=(SourceLine(FILE, 1), *calls.source))
    recording = program(op("a", 2, origins=("x1",)), launches=(("a",),))
    dynamo = replace(recording.graphs[0], nodes=(calls,))
    recording = replace(recording, graphs=(dynamo, recording.graphs[1]))
    outer, inner = story("net.py:1", recording), story("net.py:2", recording)
    assert outer.launches == inner.launches
    assert (outer.asked.found.direct, outer.inside) == ((), ())


def test_what_is_called_on_a_line_with_ops_of_its_own_stays_apart():
    called = replace(op("x2", 2), source=(SourceLine(FILE, 1), SourceLine(FILE, 2)))
    recording = program(op("a", 1, origins=("x1",)), op("b", 2, origins=("x2",)), launches=(("a",), ("b",), ("a", "b")))
    dynamo = replace(recording.graphs[0], nodes=(op("x1", 1), called))
    found = story("net.py:1", replace(recording, graphs=(dynamo, recording.graphs[1])))
    assert [match.lineage.launch for match in found.launches] == [0, 2]
    assert [match.lineage.launch for match in found.inside] == [1]


def test_what_only_looks_at_memory_shares_nothing():
    view = op("v", 2, "torch.ops.aten.permute.default", origins=("x2",))
    recording = program(op("a", 1, origins=("x1",)), view, launches=(("a", "v"),))
    assert story("net.py:2", recording).shares == ()
    assert [at.line for at, _ in story("net.py:1", recording).shares] == [2]


# -- why there is no kernel


def test_each_fate_is_told():
    view = op("v", 2, "torch.ops.aten.permute.default", origins=("x2",))
    computed = op("a", 1, origins=("x1",))
    recording = program(computed, view, launches=(("a", "v"),))
    assert story("net.py:1", recording).fate is Fate.KERNELS
    assert story("net.py:2", recording).fate is Fate.VIEWS
    assert story("net.py:3", recording).fate is Fate.FOLDED
    assert story("net.py:4", recording).fate is Fate.UNSEEN
    assert story("net.py:1", program(computed, launches=(("b",),))).fate is Fate.UNNAMED
    assert story("net.py:1", program(computed, backend=False)).fate is Fate.NO_KERNELS


def test_a_line_that_runs_eagerly_breaks_or_failed_says_so():
    sys.path.insert(0, str(Path(__file__).parent.parent / "gold"))
    import sample_recordings as samples

    broken = samples.broken()
    fates = {}
    for place in {(event.location.file, event.location.line) for event in broken.graph_breaks if event.location}:
        if Ownership().owns(place[0]):
            fates[place] = story(f"{place[0]}:{place[1]}", broken).fate
    assert Fate.BREAKS in fates.values()
    assert set(fates.values()) <= {Fate.BREAKS, Fate.EAGER, Fate.KERNELS, Fate.NO_KERNELS, Fate.FOLDED}


# -- lists


def test_every_line_with_launches_is_listed_with_how_many():
    _, provenance = gpt()
    rows = {row.line.line: (row.forward, row.backward) for row in line_rows(provenance)}
    for number, counts in rows.items():
        lineages = [one for one in provenance.lineages if number in {at.line for at in one.lines}]
        backward = sum(one.kernel.direction is Direction.BACKWARD for one in lineages)
        assert counts == (len(lineages) - backward, backward)
    assert set(rows) >= {22, 23, 24, 25}


def test_kernels_of_a_module_are_those_of_its_launches_alone():
    recording, provenance = gpt()
    everything = selected(recording, provenance, Selection())
    assert len(everything) == sum(len(kernel.launches) for kernel in recording.kernels)
    rows = kernel_rows(selected(recording, provenance, Selection(place="net.qkv")), Costs.of(recording))
    launches = {row.group.first.name: row.launches for row in rows}
    assert launches["extern_kernels.mm"] == 2
    assert launches["extern_kernels.addmm"] == 1


def test_measured_kernels_come_by_time_and_the_others_by_ops():
    recording, provenance = gpt()
    rows = kernel_rows(provenance.lineages, Costs.of(recording))
    times = [row.facts.microseconds or 0 for row in rows]
    assert times == sorted(times, reverse=True)
    assert times[0] > 0
    profile = recording.profiles[-1]
    whole = sum(time.microseconds * time.runs for time in profile.launches)
    assert sum(times) == pytest.approx(whole)
    bare = replace(recording, profiles=())
    ops = [row.group.op_count for row in kernel_rows(provenance.lineages, Costs.of(bare)) if row.group.first.source]
    assert ops == sorted(ops, reverse=True)


def test_memory_that_is_not_known_of_every_launch_is_not_summed():
    recording, provenance = gpt()
    costs = Costs.of(recording)
    whole = costs.traffic(provenance.lineages)
    assert whole is not None
    assert whole.trust is Trust.EXACT
    bare = Costs(dict(list(costs.moved.items())[1:]), costs.work, costs.measured)
    assert bare.traffic(provenance.lineages) is None
    assert Costs({}, {}, {}).traffic(provenance.lineages) is None


# -- names


def test_a_part_of_a_kernels_name_will_do_if_only_one_has_it():
    recording, _ = gpt()
    for text in ("triton_poi_fused_gelu_view_8", "triton_poi_fused_gelu_view", "gelu_view_8", "gelu_view"):
        assert {k.name for k in select_kernels(recording, text, None)} == {"triton_poi_fused_gelu_view_8"}


@pytest.mark.parametrize("text", ["triton_", "_1", "gelu_backward"])
def test_a_part_that_several_have_is_not_guessed(text):
    recording, _ = gpt()
    with pytest.raises(UsageError, match=r"is part of several names: \w+"):
        select_kernels(recording, text, None)


def test_what_stands_behind_the_last_dot_wins_over_names_that_it_is_a_part_of():
    recording, _ = gpt()
    assert {kernel.name for kernel in select_kernels(recording, "mm", None)} == {"extern_kernels.mm"}
    assert {kernel.name for kernel in select_kernels(recording, "addmm", None)} == {"extern_kernels.addmm"}


def test_an_empty_name_is_nobodys():
    with pytest.raises(UsageError, match="no kernel ''"):
        select_kernels(gpt()[0], "", None)
