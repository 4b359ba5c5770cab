"""One GPT-2 training step, compiled in a fresh process while somebody looks on: a child of overhead.py.

    python benchmarks/training_step.py --layers 2 --tool lens --folder /tmp/out

Prints one line of JSON. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCKS, CALLS = 10, 10  # compiled steps after the first, timed ten by ten

Step = Callable[[], None]


def training_step(layers: int, backend: Any) -> Step:
    """A function that runs forward and backward of a small GPT-2, compiled at its first call."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=64, n_layer=layers, n_head=4, vocab_size=128, n_positions=64)
    model = torch.compile(transformers.GPT2LMHeadModel(config).eval(), backend=backend)
    ids = torch.randint(0, 90, (2, 16))

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()

    return step


def cpu_seconds() -> float:
    """Of this process and of children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(step: Step) -> dict[str, float]:
    """Seconds of the first call, which compiles, and of the later ones."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    step()
    figures = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    step()  # a step that compiles nothing may still fill caches of torch's
    calls = [_cpu_seconds_a_call(step) for _ in range(BLOCKS)]
    return {**figures, "call": min(calls), "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _cpu_seconds_a_call(step: Step) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        step()
    return (time.process_time() - start) / CALLS


def main() -> None:
    """Compile and run as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tool", choices=("none", "lens", "depyf", "accounts"), default="none")
    parser.add_argument("--folder", type=Path, required=True, help="where the tool may write")
    args = parser.parse_args()
    # Loading Inductor is no part of compiling, and a tool that loads it early would look quicker.
    import torch._inductor.compile_fx  # noqa: F401

    figures = (_accounted if args.tool == "accounts" else _measured)(args.tool, args.layers, args.folder)
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


def _measured(tool: str, layers: int, folder: Path) -> dict[str, Any]:
    backend: Any = "inductor"
    around: Any = contextlib.nullcontext()
    if tool == "lens":
        import compiler_lens

        backend = compiler_lens.Lens(folder / "run.clens")
    if tool == "depyf":
        import depyf

        around = depyf.prepare_debug(str(folder))
    step = training_step(layers, backend)
    with around:
        return measure(step)


def _accounted(_tool: str, layers: int, folder: Path) -> dict[str, Any]:
    from accounts import keep_accounts, open_accounts

    import compiler_lens

    ledger = open_accounts()
    lens = compiler_lens.Lens(folder / "run.clens")
    return keep_accounts(ledger, lens, training_step(layers, lens))


if __name__ == "__main__":
    main()
