"""`python -m tests.truth`: run every program, and make the table in docs/truth.md; with names, print their rows alone."""

import sys
import time

from tests.truth.case import case, every_case
from tests.truth.table import made, row, write
from tests.truth.trial import compiled, eager
from tests.truth.verdict import verdict


def main(names: list[str]) -> None:
    """Judge some programs, or all."""
    began, verdicts = time.process_time(), []
    for one in map(case, names) if names else every_case():
        verdicts.append(verdict(one, compiled(one.name, one.source), eager(one.name, one.source)))
        print(row(verdicts[-1]), flush=True)
    print(made(verdicts).splitlines()[-1], f"{time.process_time() - began:.0f} s of CPU")
    if not names:
        write(verdicts)


if __name__ == "__main__":
    main(sys.argv[1:])
