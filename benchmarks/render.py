"""How long pictures of graphs take, and whether that grows with the graph and no faster.

    python benchmarks/render.py [--journals FOLDER]

All levels of every graph of a 12-layer GPT-2's training step as SVG (recorded into FOLDER without generating code, and
used again); graphs of up to 100,000 nodes, made of a small real one and of layers that are all different. Beside them
torch's FxGraphDrawer with Graphviz and a time limit, where a `dot` is on the PATH. CPU clock, the least of n.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from synthetic import journal_of_wide_graphs

from compiler_lens import load
from compiler_lens.analysis.levels import Levels, levels
from compiler_lens.model import CompileId, Graph, GraphStage, Node, Recording, TensorSpec
from compiler_lens.render.graph.scene import picture
from compiler_lens.render.graph.sheet import single
from compiler_lens.render.graph.svg import to_svg

REPEATS = 3
TARGET = 2.0  # seconds for the training step
SIZES = (1_000, 10_000, 50_000, 100_000)
LIMIT = 60  # seconds that Graphviz gets
SMALL = Path(__file__).parent.parent / "tests" / "gpu" / "data" / "gpt-default-cold.clens.gz"
OPS = ("mm", "add", "gelu", "mul", "view", "sum", "permute", "rsqrt", "sub", "exp")


def record(path: Path) -> None:
    """A training step of a 12-layer GPT-2; the AOT graphs need no code to be generated."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import compiler_lens

    ids = torch.randint(0, 90, (2, 16))
    model = GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=12, n_head=4, vocab_size=128, n_positions=64))
    with compiler_lens.Lens(path):
        torch.compile(model, backend="aot_eager")(input_ids=ids, labels=ids).loss.backward()


def svgs(known: Levels) -> list[str]:
    """Every level of a graph, each by itself."""
    return [to_svg(single(picture(known, group, 0)), group.label) for group in known.groups()]


def cpu(step: Callable[[], object]) -> float:
    """Seconds of CPU time, the least of some."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def layered(count: int) -> Recording:
    """A graph of so many nodes, in layers of modules that are all different, with long lines across."""
    nodes = [Node("x", "placeholder", "L_x_", specs=(TensorSpec("f32", (8, 16)),))]
    for number in range(count):
        layer, inner = divmod(number, 40)
        read = {f"n{number - 1}" if number else "x", f"n{max(number - 1 - number % 7, 0)}" if number > 9 else "x"}
        module = f"stage.{layer // 25}.block.{layer}.part{inner // 8}"
        target = f"torch.ops.aten.{OPS[(number * number + layer) % len(OPS)]}.default"
        spec = (TensorSpec("f32", (8, 16 + layer)),)
        nodes.append(Node(f"n{number}", "call_function", target, tuple(sorted(read)), spec, module=module))
    nodes.append(Node("output", "output", "output", (f"n{count - 1}",), arguments=f"(n{count - 1},)"))
    return Recording(graphs=(Graph(CompileId(0, 0), GraphStage.DYNAMO, "", tuple(nodes)),))


def training(recording: Recording) -> None:
    print("| graph of GPT-2, 12 layers | nodes | levels | boxes, at most | all SVGs | KiB |\n|---|---|---|---|---|---|")
    total = 0.0
    for graph in recording.graphs:
        if len(graph.nodes) < 100:
            continue
        known = levels(recording, graph)
        made, seconds = svgs(known), cpu(lambda graph=graph: svgs(levels(recording, graph)))
        most = max(len(known.level(group).boxes) for group in known.groups())
        size = sum(map(len, made)) / 1024
        print(f"| {graph.stage.value} | {len(graph.nodes):,} | {len(made)} | {most} | {seconds:.3f} s | {size:,.0f} |")
        total += seconds
    print(f"\nTogether {total:.2f} s: {total / TARGET:.2f} of the target of {TARGET:.0f} s.\n")


def growth(title: str, make: Callable[[int], Recording]) -> None:
    print(f"| {title} | levels | tree | all SVGs | each node | growth |\n|---|---|---|---|---|---|")
    first = None
    for size in SIZES:
        recording = make(size)
        nodes = sum(len(graph.nodes) for graph in recording.graphs)
        tree = cpu(lambda recording=recording: [levels(recording, graph) for graph in recording.graphs])
        known = [levels(recording, graph) for graph in recording.graphs]
        count = sum(1 for each in known for _ in each.groups())
        drawn = cpu(lambda known=known: [svgs(each) for each in known])
        each = (tree + drawn) / nodes
        first = first or each
        figures = f"{tree:.2f} s | {drawn:.2f} s | {each * 1e6:.0f} µs | {each / first:.2f}"
        print(f"| {nodes:,} | {count:,} | {figures} |", flush=True)
    print()


def graphviz(recording: Recording) -> None:
    """A flat drawing of the Dynamo graph, as Graphviz gets it from other tools."""
    dot = shutil.which("dot")
    if dot is None:
        print("No `dot` on the PATH: nothing to compare with.")
        return
    from torch import fx
    from torch.fx.passes.graph_drawer import FxGraphDrawer

    graph = max((g for g in recording.graphs if g.stage is GraphStage.DYNAMO), key=lambda g: len(g.nodes))
    copy, values = fx.Graph(), {}
    for node in graph.nodes:
        inputs = tuple(values[name] for name in node.inputs if name in values)
        values[node.name] = copy.create_node(
            "placeholder" if not inputs else "call_function", len, inputs, name=node.name
        )
    text = FxGraphDrawer(fx.GraphModule({}, copy), "flat").get_dot_graph().to_string()
    start = time.perf_counter()
    try:
        subprocess.run([dot, "-Tsvg"], input=text.encode(), capture_output=True, timeout=LIMIT, check=False)
        told = f"{time.perf_counter() - start:.1f} s"
    except subprocess.TimeoutExpired:
        told = f"not done after {LIMIT} s"
    print(f"FxGraphDrawer and dot, the Dynamo graph alone, flat, {len(graph.nodes):,} nodes: {told}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journals", type=Path, help="where recordings are kept")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        record(args.record)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.journals or Path(temporary)
        path = folder / "gpt2_12-aot.clens"
        if not path.exists():
            subprocess.run([sys.executable, __file__, "--record", path], check=True, capture_output=True)
        recording = load(path)
        training(recording)
        growth("nodes in layers that all differ", layered)
        wide = journal_of_wide_graphs(SMALL, folder / "wide.clens")
        growth("nodes, each copied many times side by side", lambda nodes: load(wide(nodes)))
        graphviz(recording)


if __name__ == "__main__":
    main()
