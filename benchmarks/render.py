"""How long pictures and pages take, and whether that grows with the recording and no faster.

    python benchmarks/render.py [--journals FOLDER] [--only pictures|pages|others]

Recordings are made without generating code, kept in FOLDER and used again:

- pictures: all levels of every graph of training steps, a 12-layer GPT-2's and a 32-layer Llama's, as SVG; and graphs
  of up to 100,000 nodes, made of a small real one and of layers that are all different;
- pages: `compiler-lens report`, loading included, of these steps, of 2,000 compilations and of a graph of more than
  50,000 nodes, each in a process of its own; then its page in Chromium, where there is one;
- others: the same with torch's FxGraphDrawer and Graphviz, and with tlparse, where they are on the PATH.

CPU clock, the least of n; the browser's times are wall time.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from browsing import browsed
from least_cpu import least_cpu
from loading import record_small
from other_tools import flat_drawing, print_logs, ran
from synthetic import journal_of_compilations, journal_of_wide_graphs

from compiler_lens import load
from compiler_lens.facts.graphs.levels import Levels, levels
from compiler_lens.recording.model import CompileId, Graph, GraphStage, Node, Recording, TensorSpec
from compiler_lens.render.picture.svg import to_svg
from compiler_lens.views.picture.picture import picture
from compiler_lens.views.picture.sheet import Panel, Sheet

REPORTS = 2
TARGET = 2.0  # seconds for the training step
SIZES = (1_000, 10_000, 50_000, 100_000)
WIDE = 170_000  # nodes in all of a step of which one graph has more than 50,000
TESTS = Path(__file__).parent.parent / "tests"
SMALL = TESTS / "gpu" / "data" / "gpt-default-cold.clens.gz"
GPU_LOG = TESTS / "gpu" / "data" / "resnet-max-autotune-cold.trace.log.gz"
BROKEN = TESTS / "pictures" / "data" / "broken.clens.gz"
OPS = ("mm", "add", "gelu", "mul", "view", "sum", "permute", "rsqrt", "sub", "exp")


def gpt2() -> Any:
    """Twelve layers, thin."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=12, n_head=4, vocab_size=128, n_positions=64))


def llama() -> Any:
    """Thirty-two layers, thin."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=32, vocab_size=128, max_position_embeddings=64, **width))


MODELS: Mapping[str, Callable[[], Any]] = {"gpt2_12": gpt2, "llama_32": llama}


def train(model: str, path: Path | None) -> None:
    """A training step, recorded where a path is given; the AOT graphs need no code to be generated."""
    import torch

    import compiler_lens

    ids = torch.randint(0, 90, (2, 16))
    with compiler_lens.Lens(path) if path else contextlib.nullcontext():
        torch.compile(MODELS[model](), backend="aot_eager")(input_ids=ids, labels=ids).loss.backward()


def recorded(model: str, folder: Path) -> Path:
    """The recording of a training step."""
    path = folder / f"{model}-aot.clens"
    if not path.exists():
        subprocess.run([sys.executable, __file__, "--train", model, "--to", path], check=True, capture_output=True)
    return path


def logged(model: str, folder: Path) -> Path:
    """The log that torch writes of a training step."""
    traces = folder / f"{model}-trace"
    if not traces.exists():
        environment = {**os.environ, "TORCH_TRACE": str(traces)}
        subprocess.run([sys.executable, __file__, "--train", model], env=environment, check=True, capture_output=True)
    return next(traces.glob("*.log"))


def svgs(known: Levels) -> list[str]:
    """Every level of a graph, each by itself."""
    return [to_svg(Sheet(group.label, parts=(Panel(picture(known, group, 0)),))) for group in known.groups()]


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


def training(model: str, recording: Recording) -> None:
    print(f"| graph of {model} | nodes | levels | boxes, at most | all SVGs | KiB |\n|---|---|---|---|---|---|")
    total = 0.0
    for graph in recording.graphs:
        if len(graph.nodes) < 100:
            continue
        known = levels(recording, graph)
        made, seconds = svgs(known), least_cpu(lambda graph=graph: svgs(levels(recording, graph)))
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
        tree = least_cpu(lambda recording=recording: [levels(recording, graph) for graph in recording.graphs])
        known = [levels(recording, graph) for graph in recording.graphs]
        count = sum(1 for each in known for _ in each.groups())
        drawn = least_cpu(lambda known=known: [svgs(each) for each in known])
        each = (tree + drawn) / nodes
        first = first or each
        figures = f"{tree:.2f} s | {drawn:.2f} s | {each * 1e6:.0f} µs | {each / first:.2f}"
        print(f"| {nodes:,} | {count:,} | {figures} |", flush=True)
    print()


def pictures(folder: Path) -> None:
    for model in MODELS:
        training(model, load(recorded(model, folder)))
    growth("nodes in layers that all differ", layered)
    wide = journal_of_wide_graphs(SMALL, folder / "wide.clens")
    growth("nodes, each copied many times side by side", lambda nodes: load(wide(nodes)))


def pages(folder: Path) -> None:
    """One row for each recording, and what was slowest to answer a click."""
    heads = ("report of", "MB", "CPU", "memory", "page", "first paint", "a click: median, most", "which")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, path in large_recordings(folder):
        page = path.with_suffix(".html")
        command = [sys.executable, "-m", "compiler_lens", "report", path, "-o", page]
        took = [ran(command) for _ in range(REPORTS)]
        seconds = min(each[0] for each in took if each)
        size, memory = page.stat().st_size / 1e6, max(each[1] for each in took if each)
        seen = browsed(page)
        told = f"| {name} | {path.stat().st_size / 1e6:.1f} | {seconds:.1f} s | {memory} MiB | {size:.1f} MB |"
        seen = browsed(page)
        if seen:
            paint, clicks = seen
            most = max(clicks, key=lambda each: clicks[each])
            told += f" {paint:.0f} ms | {statistics.median(clicks.values()):.0f}, {clicks[most]:.0f} ms | {most} |"
        print(told, flush=True)
    print("\nTargets: 10 s, 1,000 MiB, first paint 2,000 ms, a click 100 ms.\n")


def large_recordings(folder: Path) -> Iterator[tuple[str, Path]]:
    """What reports are made of, with its name."""
    for model in MODELS:
        yield f"{model}, a training step", recorded(model, folder)
    small = folder / "small.clens"
    if not small.exists():
        record_small(small)
    yield "2,000 compilations", journal_of_compilations(small, folder / "many.clens")(2_000)
    yield "2,000 compilations with graph breaks", journal_of_compilations(BROKEN, folder / "broken.clens")(2_000)
    wide = journal_of_wide_graphs(SMALL, folder / "wide.clens")(WIDE)
    largest = max(len(graph.nodes) for graph in load(wide).graphs)
    yield f"a graph of {largest:,} nodes, {WIDE:,} in all", wide


def others(folder: Path) -> None:
    """Other tools, on the same step and on a log of a GPU's."""
    print(flat_drawing(load(recorded("gpt2_12", folder))))
    gpu = folder / "resnet-gpu.log"
    gpu.write_bytes(gzip.decompress(GPU_LOG.read_bytes()))
    print_logs([(model, logged(model, folder)) for model in MODELS] + [("a ResNet on a GPU, max-autotune", gpu)])


def main() -> None:
    parts = {"pictures": pictures, "pages": pages, "others": others}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journals", type=Path, help="where recordings are kept")
    parser.add_argument("--only", choices=parts, help="one part")
    parser.add_argument("--train", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args.train, args.to)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.journals or Path(temporary)
        folder.mkdir(exist_ok=True)
        for name, part in parts.items():
            if args.only in {None, name}:
                part(folder)


if __name__ == "__main__":
    main()
