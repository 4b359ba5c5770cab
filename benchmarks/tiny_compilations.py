"""What a lens costs where compiling is cheap: many small functions with the eager backend, CPU time of whole processes.

    python benchmarks/tiny_compilations.py [--functions 300] [--rounds 7]

Plain, with one lens open round all, and with a lens for each function; the three take turns. Prints the ratios of the
least CPU seconds, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

WAYS = ("plain", "one lens", "a lens each")


def child(way: str, count: int) -> None:
    """Compile so many functions in one way, and print the CPU seconds that took."""
    import torch

    from compiler_lens import Lens

    exec(compile("\n".join(f"def f{i}(x): return x.sin() + {i}" for i in range(count)), __file__, "exec"), globals())
    functions, x = [globals()[f"f{i}"] for i in range(count)], torch.ones(3)
    torch.compile(lambda x: x + 1, backend="eager")(x)
    with tempfile.TemporaryDirectory() as folder:
        if way != "plain":
            Lens(f"{folder}/first.clens").close()
        start = time.process_time()
        if way == "one lens":
            with Lens(f"{folder}/all.clens"):
                for function in functions:
                    torch.compile(function, backend="eager")(x)
        for number, function in enumerate(functions if way != "one lens" else ()):
            if way == "plain":
                torch.compile(function, backend="eager")(x)
            else:
                with Lens(f"{folder}/{number}.clens"):
                    torch.compile(function, backend="eager")(x)
        print(time.process_time() - start)


def main() -> None:
    """Run the children in turns, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--functions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", choices=WAYS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.functions)
        return
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(asked.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--child", way, "--functions", str(asked.functions)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            taken[way].append(float(done.stdout.split()[-1]))
    least = {way: min(seconds) for way, seconds in taken.items()}
    for way in WAYS:
        print(f"{way:12} {least[way]:7.2f} s CPU   {least[way] / least['plain']:.3f}")


if __name__ == "__main__":
    main()
