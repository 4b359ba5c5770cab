"""Does a call of compiled code cost more when a lens recorded its compilation? It should not: no code of ours runs.

    python benchmarks/steady_state.py [--rounds 300]

Compiles one small function three times in one process: plain, plain again, and through a lens, and calls them in
turn. The second plain one shows what the machine's noise is.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import compiler_lens

CALLS = 50  # in one timing
SOURCE = """
def {name}(x, weight):
    return (torch.relu(x @ weight) * 2).sum()
"""


def compiled_copies(lens: compiler_lens.Lens) -> dict[str, Callable[[], Any]]:
    """The same training step, compiled in each way. Each is a function of its own: Dynamo keeps its cache by code."""
    import torch

    copies: dict[str, Callable[[], Any]] = {}
    for name, backend in (("plain", "inductor"), ("plain_again", "inductor"), ("lens", lens)):
        namespace: dict[str, Any] = {"torch": torch}
        exec(SOURCE.format(name=name), namespace)
        function = torch.compile(namespace[name], backend=backend)
        x, weight = torch.ones(8, 8), torch.ones(8, 8, requires_grad=True)
        copies[name] = lambda function=function, x=x, weight=weight: function(x, weight).backward()
    return copies


def median_seconds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """CPU seconds of one call of each, timed in turn, in an order that changes."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            call = calls[name]
            start = time.process_time()
            for _ in range(CALLS):
                call()
            times[name].append((time.process_time() - start) / CALLS)
    return {name: statistics.median(values) for name, values in times.items()}


def own_frames(call: Callable[[], Any]) -> int:
    """How many functions of compiler_lens one call enters."""
    package = str(Path(compiler_lens.__file__).parent)
    entered = 0

    def look(frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code.co_filename.startswith(package)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    args = parser.parse_args()
    lens = compiler_lens.Lens()
    copies = compiled_copies(lens)
    for call in copies.values():
        for _ in range(CALLS):
            call()
    seconds = median_seconds(copies, args.rounds)
    plain = seconds["plain"]
    print(f"steady state: forward and backward of one small function, {plain * 1e6:.0f} us a call, CPU time,")
    print(f"  median of n={args.rounds} timings of {CALLS} calls each, in turn in one process")
    print(f"  lens / plain        {seconds['lens'] / plain:.3f}")
    print(f"  plain again / plain {seconds['plain_again'] / plain:.3f}   (what noise does)")
    print(f"  functions of compiler_lens entered by one call: {own_frames(copies['lens'])}")


if __name__ == "__main__":
    main()
