"""How long a diff takes, and how that grows: `python benchmarks/diff.py`.

Recordings are made of real ones, a training step on the CPU, before and after one op was changed in two layers: as many
compilations, as one program of many layers, and as one program whose layers nobody can tell apart by module or line.
"""

import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.compare import diff
from compiler_lens.recording.model import Graph, Kernel, Node, Recording

DATA = Path(__file__).parent.parent / "tests" / "diff" / "data"
KERNELS = (125, 250, 500, 1_000, 2_000)
LIMIT = 2.0  # seconds, for 1,000 kernels


def compilations(recording: Recording, copies: int) -> Recording:
    """The recording's one compilation, many times over."""
    made: dict[str, list] = {"compilations": [], "graphs": [], "kernels": [], "output_codes": []}
    for number in range(copies):
        for name, facts in made.items():
            for fact in getattr(recording, name):
                own = replace(fact.compile_id, frame=number)
                facts.append(replace(fact, compile_id=own))
    return replace(recording, **{name: tuple(facts) for name, facts in made.items()})


def layers(recording: Recording, copies: int) -> Recording:
    """One compilation that holds everything many times: nodes, kernels, launches."""
    return replace(
        recording,
        graphs=tuple(wide_graph(graph, copies, apart=True) for graph in recording.graphs),
        kernels=wide_kernels(recording.kernels, copies),
    )


def alike(recording: Recording, copies: int) -> Recording:
    """The same, without modules and lines."""
    return replace(
        recording,
        graphs=tuple(wide_graph(graph, copies, apart=False) for graph in recording.graphs),
        kernels=wide_kernels(recording.kernels, copies),
    )


def wide_graph(graph: Graph, copies: int, *, apart: bool) -> Graph:
    return replace(graph, nodes=tuple(wide_node(n, i, apart) for i in range(copies) for n in graph.nodes))


def wide_node(node: Node, number: int, apart: bool) -> Node:
    module = f"{number}.{node.module}" if apart else ""
    inputs = tuple(f"{name}_{number}" for name in node.inputs)
    arguments = node.arguments
    for old, new in zip(node.inputs, inputs, strict=True):
        arguments = arguments.replace(old, new)
    source = node.source if apart else ()
    return replace(node, name=f"{node.name}_{number}", inputs=inputs, arguments=arguments, module=module, source=source)


def wide_kernels(kernels: tuple[Kernel, ...], copies: int) -> tuple[Kernel, ...]:
    made = []
    for number in range(copies):
        for kernel in kernels:
            launches = tuple(
                replace(x, line=x.line + 10_000 * number, nodes=tuple(f"{n}_{number}" for n in x.nodes))
                for x in kernel.launches
            )
            name = f"{kernel.name}_{number}"
            source = kernel.source.replace(kernel.name, name)
            made.append(replace(kernel, name=name, source=source, launches=launches))
    return tuple(made)


def seconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def main() -> None:
    before, after = (load(DATA / f"{name}.clens.gz") for name in ("base", "op"))
    print(f"{'':<14}{'kernels':>8}{'launches':>10}{'nodes':>9}{'other op':>11}{'itself':>9}")
    slowest = 0.0
    for make in (compilations, layers, alike):
        for kernels in KERNELS:
            copies = kernels // len(before.kernels) + 1
            left, right = make(before, copies), make(after, copies)
            launches = sum(len(k.launches) for k in left.kernels)
            nodes = sum(len(g.nodes) for g in left.graphs)
            took = seconds(lambda left=left, right=right: diff(left, right))
            itself = seconds(lambda left=left: diff(left, left))
            print(f"{make.__name__:<14}{len(left.kernels):>8,}{launches:>10,}{nodes:>9,}{took:>9.2f} s{itself:>7.2f} s")
            slowest = max(slowest, took if kernels == 1_000 else 0.0)
    print(f"slowest of 1,000 kernels: {slowest:.2f} s, {'under' if slowest < LIMIT else 'OVER'} {LIMIT:.0f} s")


if __name__ == "__main__":
    main()
