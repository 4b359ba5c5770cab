"""What a lens costs where compiling is cheap: small functions with the eager backend.

    python benchmarks/tiny_compilations.py [--functions 20] [--rounds 30] [--operations 2]

Plain, with one lens open, and with a lens opened and closed for each function: so many functions in each of the three
ways make a round, and who begins changes. Each round gives a ratio to its own plain functions; printed are the median
of these and the ratio of the least times, which other work on the machine disturbs less, of processor time and of time
on the clock. How many functions of compiler_lens a compilation enters is free of such noise.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from steady_state import own_frames

from compiler_lens import Lens

Functions = Sequence[Callable[[Any], Any]]
Seconds = tuple[float, float]  # of processor time, of time on the clock
COUNTED = 10  # functions whose calls are counted


def small_functions(operations: int = 2) -> Iterator[Callable[[Any], Any]]:
    """Functions of so many operations that Dynamo has not seen: it keeps what it compiled by code."""
    steps = "".join("    x = x * 0.5\n" if at % 2 else "    x = x.cos()\n" for at in range(operations - 2))
    for number in itertools.count():
        namespace: dict[str, Any] = {}
        code = f"def f{number}(x):\n{steps}    return x.sin() + {number}"
        exec(compile(code, __file__, "exec"), namespace)
        yield namespace[f"f{number}"]


def compile_all(functions: Functions) -> None:
    """Compile functions by calling them."""
    x = torch.ones(3)
    for function in functions:
        torch.compile(function, backend="eager")(x)


def timed(step: Callable[[], None]) -> Seconds:
    """What a step takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return time.process_time() - cpu, time.perf_counter() - wall


class Ways:
    """The ways to compile, each with what it takes."""

    def __init__(self, folder: str) -> None:
        # A file for each lens: one that is written over is put on the disk as it is closed, by some file systems.
        self._files = (f"{folder}/{number}.clens" for number in itertools.count())

    def plain(self, functions: Functions) -> Seconds:
        """With no lens open."""
        return timed(lambda: compile_all(functions))

    def one_lens(self, functions: Functions) -> Seconds:
        """With one lens open, which was opened before."""
        with Lens(next(self._files)):
            return timed(lambda: compile_all(functions))

    def a_lens_each(self, functions: Functions) -> Seconds:
        """With a lens that is opened and closed for each function."""

        def each() -> None:
            for function in functions:
                with Lens(next(self._files)):
                    compile_all([function])

        return timed(each)

    def opening(self, _functions: Functions) -> Seconds:
        """Opening and closing a lens that nothing is compiled under."""
        return timed(lambda: Lens(next(self._files)).close())


def in_turns(ways: Ways, source: Iterator[Any], count: int, rounds: int) -> dict[str, list[Seconds]]:
    """What each way takes in each round."""
    names = ["plain", "one_lens", "a_lens_each", "opening"]
    taken: dict[str, list[Seconds]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            functions = list(itertools.islice(source, count))
            gc.collect()
            gc.freeze()  # a pass over all of torch takes longer than some compilations, and comes at any moment
            taken[name].append(getattr(ways, name)(functions))
    return taken


def print_ratios(taken: dict[str, list[Seconds]], count: int) -> None:
    """A line for each way."""
    for clock, title in enumerate(("processor time", "time on the clock")):
        plain = [seconds[clock] for seconds in taken["plain"]]
        print(f"{title:20} plain {min(plain) / count * 1e3:.2f} ms a function, the least of {len(plain)} rounds")
        for name in ("one_lens", "a_lens_each"):
            own = [seconds[clock] for seconds in taken[name]]
            median = statistics.median(one / other for one, other in zip(own, plain, strict=True))
            least = min(own) / min(plain)
            print(f"  {name.replace('_', ' '):18} {median:.3f} median of rounds   {least:.3f} of the least")
    opened = [seconds[0] * 1e3 for seconds in taken["opening"]]
    print(f"opening and closing a lens: {statistics.median(opened):.2f} ms median, {min(opened):.2f} ms the least")


def main() -> None:
    """Take turns, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", type=int, default=20, help="in each way of a round")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--operations", type=int, default=2, help="of a function, 2 or more")
    asked = parser.parse_args()
    source = small_functions(asked.operations)
    with tempfile.TemporaryDirectory() as folder:
        ways = Ways(folder)
        in_turns(ways, source, 3, 1)  # imports what there is to import
        print_ratios(in_turns(ways, source, asked.functions, asked.rounds), asked.functions)
        for name in ("one_lens", "a_lens_each"):
            functions = list(itertools.islice(source, COUNTED))
            entered = own_frames(lambda name=name, functions=functions: getattr(ways, name)(functions))
            print(f"{name.replace('_', ' ')}: a compilation enters {entered / COUNTED:.0f} functions of compiler_lens")


if __name__ == "__main__":
    main()
