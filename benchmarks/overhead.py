"""What looking on costs: the lens, torch's own traces and depyf, on one GPT-2 training step.

    python benchmarks/overhead.py            12 layers, about 8 minutes on two quiet cores
    python benchmarks/overhead.py --quick    2 layers, one round

Every run is a whole process, the tools take turns. All share one folder of compiled C++, which a first run that is
not counted fills; the FX graph and AOTAutograd caches are emptied before each. So compile time is Python's alone,
without g++, which would hide what a tool adds. One thread, no compile workers. Needs torch, transformers, a C++
compiler; depyf is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CHILD = HERE / "training_step.py"
EMPTIED = ("fxgraph", "aotautograd")  # of Inductor's cache folder, so that a run is cold
SHOWN = 14  # names in the accounts


@dataclass(frozen=True)
class Tool:
    """A way to look on: what the child is told, and its environment."""

    label: str
    name: str
    environment: Callable[[Path], Mapping[str, str]]


PLAIN = Tool("plain Inductor", "none", lambda _: {})
LENS = Tool("compiler_lens", "lens", lambda _: {})
OTHERS = (
    Tool("TORCH_TRACE", "none", lambda folder: {"TORCH_TRACE": str(folder)}),
    Tool(
        "TORCH_COMPILE_DEBUG",
        "none",
        lambda folder: {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder)},
    ),
    Tool("depyf", "depyf", lambda _: {}),
)


@dataclass(frozen=True)
class Run:
    """Figures of one child, and what it left."""

    figures: Mapping[str, Any]
    files: int
    size: int
    compiled: int  # C++ libraries that were not there before


class Bench:
    """A folder with the shared caches, and the children run in it."""

    def __init__(self, folder: Path, layers: int) -> None:
        self._folder = folder
        self._cache = folder / "cache"
        self._layers = layers
        self._count = 0

    def cold(self, tool: Tool) -> Run | None:
        """Run with nothing in the caches but compiled C++; again if g++ ran after all. None if the tool crashes."""
        for _ in range(2):
            for name in EMPTIED:
                shutil.rmtree(self._cache / name, ignore_errors=True)
            run = self.warm(tool)
            if run is None or not run.compiled:
                break
        return run

    def warm(self, tool: Tool) -> Run | None:
        """Run with the caches as they are."""
        self._count += 1
        folder = self._folder / f"run{self._count}"
        folder.mkdir()
        before = self._libraries()
        process = subprocess.run(
            (sys.executable, CHILD, f"--tool={tool.name}", f"--folder={folder}", f"--layers={self._layers}"),
            env={**os.environ, **self._environment(), **tool.environment(folder)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            print(f"{tool.label} failed:\n{process.stderr[-1500:]}", file=sys.stderr)
            return None
        parts = (folder, self._cache / "fxgraph" / "compiler_lens")
        kept = [path for part in parts for path in part.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in kept)
        shutil.rmtree(folder)
        figures = json.loads(process.stdout.splitlines()[-1])
        return Run(figures, len(kept), size, self._libraries() - before)

    def _libraries(self) -> int:
        return sum(1 for _ in self._cache.rglob("*.so"))

    def _environment(self) -> dict[str, str]:
        return {
            "TORCHINDUCTOR_CACHE_DIR": str(self._cache),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            **python_path(),
        }


def python_path() -> dict[str, str]:
    """The environment in which a child imports this compiler_lens."""
    return {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}


def take_turns(bench: Bench, rounds: int, others: int) -> dict[Tool, list[Run]]:
    """Runs by tool; the plain one and the lens in every round, first the one and then the other."""
    runs: dict[Tool, list[Run]] = {PLAIN: [], LENS: []}
    for number in range(rounds):
        pair = (PLAIN, LENS) if number % 2 == 0 else (LENS, PLAIN)
        for tool in (*pair, *(OTHERS if number < others else ())):
            if tool.name == "depyf" and importlib.util.find_spec("depyf") is None:
                continue
            known = runs.setdefault(tool, [])
            if number and not known:
                continue  # it crashed in the first round
            if run := bench.cold(tool):
                known.append(run)
    return runs


def print_table(runs: Mapping[Tool, Sequence[Run]]) -> None:
    """One line a tool, times as multiples of plain Inductor's: the least of each."""
    plain = runs[PLAIN]
    print(f"{'':22}{'n':>3}{'compile':>10}{'compile':>10}{'steady':>9}{'files':>8}{'written':>10}{'memory':>9}")
    print(f"{'':22}{'':>3}{'wall':>10}{'CPU':>10}{'call CPU':>9}{'':>8}{'MB':>10}{'MiB':>9}")
    for tool, own in runs.items():
        if not own:
            print(f"{tool.label:22}{0:>3}   crashes on this model")
            continue
        ratios = [_least(own, key) / _least(plain, key) for key in ("wall", "cpu", "call")]
        memory = _median(own, "peak_mib") - _median(plain, "peak_mib")
        print(
            f"{tool.label:22}{len(own):>3}{ratios[0]:>9.3f}x{ratios[1]:>9.3f}x{ratios[2]:>8.2f}x"
            f"{own[-1].files:>8}{own[-1].size / 1e6:>10.1f}{memory:>+9.0f}"
        )
    spread = ", ".join(f"{run.figures['cpu']:.1f}" for run in plain)
    print(
        f"plain: {_least(plain, 'wall'):.1f} s wall, {_least(plain, 'cpu'):.1f} s CPU (its runs: {spread}), "
        f"{_least(plain, 'call') * 1e3:.1f} ms a step, {_median(plain, 'peak_mib'):.0f} MiB at most"
    )


def _least(runs: Sequence[Run], key: str) -> float:
    return min(float(run.figures[key]) for run in runs)


def _median(runs: Sequence[Run], key: str) -> float:
    return statistics.median(float(run.figures[key]) for run in runs)


def print_accounts(title: str, figures: Mapping[str, Any], shown: int = 0) -> None:
    """What one compilation spent on us, as a share of its own CPU seconds; the dearest names below."""
    ours = figures["hooks"] + figures["rendering"]
    print(
        f"{title:44}{ours / figures['cpu']:>7.4f}   ({figures['hooks'] * 1e3:.0f} ms in hooks + "
        f"{figures['rendering'] * 1e3:.0f} ms rendering) / {figures['cpu']:.1f} s"
        f"; the lens itself says {figures['told'] * 1e3:.0f} ms"
    )
    names = sorted(figures["names"].items(), key=lambda item: -item[1][1])
    for name, (count, seconds) in names[:shown]:
        print(f"    {name:40}{count:>6} times{seconds * 1e3:>9.1f} ms")


def main() -> None:
    """Run the children and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 layers, one round")
    parser.add_argument("--rounds", type=int, default=3, help="of the plain run and the lens")
    parser.add_argument("--others", type=int, default=2, help="rounds in which the other tools run too")
    args = parser.parse_args()
    layers, rounds, others = (2, 1, 1) if args.quick else (12, args.rounds, args.others)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), layers)
        bench.warm(PLAIN)  # compiles the C++
        runs = take_turns(bench, rounds, others)
        accounts = Tool("accounts", "accounts", lambda _: {})
        cold, warm = bench.cold(accounts), bench.warm(accounts)
    print(f"GPT-2, {layers} layers, one training step; FX and AOTAutograd caches empty, C++ compiled before")
    print_table(runs)
    print("\nDirect account: CPU seconds in our hooks and in texts that torch renders for us / the compilation's own")
    if cold and warm:
        print_accounts("cold (target 0.03)", cold.figures, SHOWN)
        print_accounts("warm, second process (target 0.05)", warm.figures, SHOWN)
        print_accounts("warm, again in that process after a reset", warm.figures["again"])
    print(flush=True)
    steady = [sys.executable, HERE / "steady_state.py", "--rounds", "30" if args.quick else "300"]
    subprocess.run(steady, env={**os.environ, **python_path()}, check=False)


if __name__ == "__main__":
    main()
