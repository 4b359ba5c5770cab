"""How long recordings take to open, and whether that grows with their size and no faster.

    python benchmarks/loading.py [--quick] [--journals FOLDER]

Records three programs (kept in FOLDER and used again, where one is given), makes large journals of their events,
and opens each in a process of its own. Opening is timed by CPU clock, the least of n. Needs torch, transformers and
a C++ compiler for recording.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from synthetic import journal_of_compilations, journal_of_wide_graphs

HERE = Path(__file__).parent
LAYERS = {"gpt2_12.clens": 12, "gpt2_2.clens": 2}
SMALL = "small.clens"
COMPILATIONS = (100, 1_000, 10_000)
NODES = (1_000, 10_000, 50_000, 200_000)
REPEATS = 3
ENOUGH = 15.0  # seconds, after which a journal is not opened again
SHOWS = 7

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
}


def record(folder: Path) -> None:
    """Record what is not there yet."""
    for name, layers in LAYERS.items():
        if not (folder / name).exists():
            command = [sys.executable, HERE / "training_step.py", "--tool=lens", f"--folder={folder}"]
            subprocess.run([*command, f"--layers={layers}"], env=ENVIRONMENT, check=True, capture_output=True)
            (folder / "run.clens").rename(folder / name)
    if not (folder / SMALL).exists():
        subprocess.run([sys.executable, __file__, "--record-small", folder / SMALL], env=ENVIRONMENT, check=True)


def record_small(path: Path) -> None:
    """One compilation of a few nodes, forward and backward."""
    import torch

    import compiler_lens

    def small(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x @ weight) * 2).sum()

    with compiler_lens.Lens(path) as lens:
        torch.compile(small, backend=lens)(torch.ones(8, 8), torch.ones(8, 8, requires_grad=True)).backward()


def measure(path: Path) -> dict[str, float]:
    """Open a recording some times, and say what it took."""
    from compiler_lens.decode.recording_file import load

    before, times = _peak_mib(), []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        start = time.process_time()
        recording = load(path)
        times.append(time.process_time() - start)
        if len(times) == 1:
            peak = _peak_mib() - before
    sizes = [len(graph.nodes) for graph in recording.graphs]
    return {
        "seconds": min(times),
        "n": len(times),
        "mib": peak,
        "compilations": len(recording.compilations),
        "nodes": sum(sizes),
        "largest": max(sizes, default=0),
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def opened(path: Path) -> dict[str, Any]:
    """The figures of `measure`, in a process of its own."""
    command = [sys.executable, __file__, "--measure", path]
    answer = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer), megabytes=path.stat().st_size / 1e6)


def print_growth(unit: str, sizes: Iterable[int], make: Callable[[int], Path]) -> None:
    """One line for each size; growth is the time per unit over that of the smallest size, 1.0 if linear."""
    heads = ("file MB", 9), ("largest graph", 15), ("load s", 9), ("us each", 9), ("growth", 8)
    print(f"{unit:>14}" + "".join(f"{head:>{width}}" for head, width in (*heads, ("memory MiB", 12), ("n", 4))))
    smallest = None
    for size in sizes:
        path = make(size)
        figures = opened(path)
        path.unlink()
        each = figures["seconds"] / figures[unit] * 1e6
        smallest = smallest or each
        print(
            f"{figures[unit]:>14,}{figures['megabytes']:>9.1f}{figures['largest']:>15,}{figures['seconds']:>9.2f}"
            f"{each:>9.0f}{each / smallest:>8.2f}{figures['mib']:>12.0f}{figures['n']:>4}",
            flush=True,
        )


def print_command(title: str, command: Sequence[str | Path]) -> None:
    """Wall and CPU time of a whole process, some times over."""
    walls, cpus = [], []
    subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)  # writes Python's bytecode files
    for _ in range(SHOWS):
        wall, cpu = time.perf_counter(), _children_cpu()
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
        walls.append(time.perf_counter() - wall)
        cpus.append(_children_cpu() - cpu)
    print(
        f"{title:34} wall {min(walls):.2f} s least, {statistics.median(walls):.2f} s median;"
        f" CPU {min(cpus):.2f} s least; n={SHOWS}"
    )


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(folder: Path, journals: Path, *, quick: bool) -> None:
    """Record, make, open and print."""
    ENVIRONMENT["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    record(journals)
    target = folder / "large.clens"
    print("A compilation of a few nodes, many times")
    largest = 2 if quick else None
    print_growth("compilations", COMPILATIONS[:largest], journal_of_compilations(journals / SMALL, target))
    print("\nA GPT-2 training step, its graphs made wider")
    print_growth("nodes", NODES[:largest], journal_of_wide_graphs(journals / "gpt2_2.clens", target))
    real = journals / "gpt2_12.clens"
    print(f"\nThe journal of a 12-layer GPT-2 training step, {real.stat().st_size / 1e6:.1f} MB (target 1 s)")
    python = sys.executable
    print_command("compiler-lens show", [python, "-m", "compiler_lens", "show", real])
    print_command("compiler-lens show … kernels", [python, "-m", "compiler_lens", "show", real, "kernels"])
    code = "import compiler_lens, sys; compiler_lens.load(sys.argv[1])"
    print_command("compiler_lens.load", [python, "-c", code, real])
    print_command("python, doing nothing", [python, "-c", ""])


def main() -> None:
    """Run the benchmark, or one of its children."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the largest sizes")
    parser.add_argument("--journals", type=Path, metavar="FOLDER", help="keep the three real journals here")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--record-small", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
    elif args.record_small:
        record_small(args.record_small)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), args.journals or Path(folder), quick=args.quick)


if __name__ == "__main__":
    main()
