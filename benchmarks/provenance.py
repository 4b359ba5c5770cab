"""How long it takes to follow every kernel to the user's lines and back, and whether that grows with the size.

    python benchmarks/provenance.py [--quick]

Makes recordings of a transformer-like training step with more and more equal layers, and of shapes that tempt an
algorithm to be quadratic, and times `Provenance.of` by CPU clock, the least of n; then asks for every line and every
module once. Nodes are those of all graphs together. Needs neither torch nor a recording.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from least_cpu import REPEATS, least_cpu

from compiler_lens.facts.kernels.provenance import Provenance
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
    SourceLine,
    Trust,
)

SIZES = (1_000, 10_000, 50_000, 200_000)
OPS = 24  # torch ops of a layer
DEPTH = 8  # calls that lead to an op
ID = CompileId(0, 0)
FILE = "/home/user/app/model.py"
ADD, SIN = "torch.ops.aten.add.Tensor", "torch.ops.aten.sin.default"
PER_OP = 7  # nodes in all graphs that an op of the user's comes to below


def node(name: str, line: int, *inputs: str, target: str = SIN, **more: object) -> Node:
    """A node that stands on a line."""
    source = (SourceLine(FILE, line),) if line else ()
    return Node(name, "call_function", target, inputs, **{"source": source, **more})


def graph(stage: GraphStage, nodes: Sequence[Node]) -> Graph:
    """A graph whose origins are known."""
    return Graph(ID, stage, "", tuple(nodes), origins=Trust.EXACT)


def kernel(name: str, part: Direction, launches: Sequence[Sequence[str]]) -> Kernel:
    """A kernel with these launches."""
    made = tuple(Launch(i, (), tuple(names)) for i, names in enumerate(launches))
    nodes = tuple(dict.fromkeys(name for names in launches for name in names))
    return Kernel(ID, part, name, KernelKind.TRITON, nodes=nodes, trust=Trust.EXACT, launches=made)


def equal_layers(nodes: int) -> Recording:
    """A training step: each op of each layer is two nodes forward and two backward; kernels fuse four ops."""
    ops = [(layer, i, f"op_{layer}_{i}") for layer in range(nodes // (PER_OP * OPS)) for i in range(OPS)]
    calls = tuple(SourceLine(FILE, 1_000 + i) for i in range(DEPTH - 1))
    dynamo = [
        node(name, 0, source=(*calls, SourceLine(FILE, i)), module=f"layers.{layer}.part_{i // 4}")
        for layer, i, name in ops
    ]
    forward = [node(f"{name}_f", i, f"{ops[at - 1][2]}_f", origins=(name,)) for at, (_, i, name) in enumerate(ops)]
    backward = [
        made
        for at, (_, i, name) in enumerate(reversed(ops))
        for made in (
            node(f"{name}_b", i, f"{ops[-at][2]}_s", origins=(name,), backward=True),
            node(f"{name}_s", 0, f"{name}_b", f"{name}_f", target=ADD, backward=True),
        )
    ]
    fused: dict[int, list[list[str]]] = {i: [] for i in range(0, OPS, 4)}
    for start in range(0, len(ops), 4):
        fused[ops[start][1]].append([name for _, _, name in ops[start : start + 4]])
    kernels = [
        kernel(f"fused_{i}", Direction.FORWARD, [[f"{n}_f" for n in ns] for ns in each]) for i, each in fused.items()
    ]
    ends = ("_b", "_s", "_f")
    kernels += [
        kernel(f"fused_{i}_backward", Direction.BACKWARD, [[f"{n}{end}" for n in ns for end in ends] for ns in each])
        for i, each in fused.items()
    ]
    stages = (GraphStage.AOT_FORWARD, GraphStage.POST_GRAD), (GraphStage.AOT_BACKWARD, GraphStage.POST_GRAD_BACKWARD)
    graphs = [graph(stage, made) for made, both in zip((forward, backward), stages, strict=True) for stage in both]
    return Recording(graphs=(graph(GraphStage.DYNAMO, dynamo), *graphs), kernels=tuple(kernels))


def one_constant(nodes: int) -> Recording:
    """A value without an origin that everything reads, through a long chain of others such."""
    half = nodes // 3
    chain = [node(f"c{i}", 0, f"c{i - 1}") for i in range(half)]
    users = [node(f"u{i}", i, f"c{half - 1}", "c0", origins=(f"x{i}",)) for i in range(half)]
    dynamo = [node(f"x{i}", i) for i in range(half)]
    launches = [kernel(f"k{i}", Direction.FORWARD, [[f"c{i}", f"u{i}"]]) for i in range(half)]
    return Recording(
        graphs=(graph(GraphStage.DYNAMO, dynamo), graph(GraphStage.POST_GRAD, [*chain, *users])),
        kernels=tuple(launches),
    )


def one_line(nodes: int) -> Recording:
    """A loop: all ops stand on one line, and one kernel is launched for each."""
    half = nodes // 2
    dynamo = [node(f"x{i}", 7, module=f"layers.{i}") for i in range(half)]
    lowered = [node(f"a{i}", 7, origins=(f"x{i}",)) for i in range(half)]
    each = kernel("k", Direction.FORWARD, [[f"a{i}"] for i in range(half)])
    return Recording(graphs=(graph(GraphStage.DYNAMO, dynamo), graph(GraphStage.POST_GRAD, lowered)), kernels=(each,))


SHAPES: Sequence[tuple[str, Callable[[int], Recording]]] = (
    ("Equal layers, trained", equal_layers),
    ("A constant that everything reads", one_constant),
    ("One line, one kernel, many launches", one_line),
)


def ask_everything(provenance: Provenance) -> None:
    """Every module and every line once."""
    for module in provenance.modules:
        provenance.launches_of(provenance.in_module(module).direct)
    for at in {(o.line.file, o.line.line) for o in provenance.origins if o.line}:
        provenance.launches_of(provenance.at_line(*at).direct)


def print_growth(make: Callable[[int], Recording], sizes: Sequence[int]) -> None:
    """One line for each size; growth is the time per node over that of the smallest size, 1.0 if linear."""
    heads = ("nodes", 10), ("launches", 10), ("build s", 10), ("us each", 10), ("growth", 8), ("every question s", 18)
    print("".join(f"{head:>{width}}" for head, width in (*heads, ("growth", 8), ("n", 4))))
    first: tuple[float, float] | None = None
    for size in sizes:
        recording = make(size)
        nodes = sum(len(each.nodes) for each in recording.graphs)
        provenance = Provenance.of(recording)
        build, ask = least_cpu(partial(Provenance.of, recording)), least_cpu(partial(ask_everything, provenance))
        each = build / nodes * 1e6, ask / nodes * 1e6
        first = first or each
        print(
            f"{nodes:>10,}{len(provenance.lineages):>10,}{build:>10.3f}{each[0]:>10.1f}{each[0] / first[0]:>8.2f}"
            f"{ask:>18.3f}{each[1] / first[1]:>8.2f}{REPEATS:>4}",
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the largest sizes")
    args = parser.parse_args()
    for title, make in SHAPES:
        print(f"\n{title}")
        print_growth(make, SIZES[: 2 if args.quick else None])


if __name__ == "__main__":
    main()
