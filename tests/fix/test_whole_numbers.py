"""A whole number that NumPy computed is computed by Python: the same number, and no graph break at a branch on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.whole_numbers import by_python
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/chunks.py"
TEXT = """\
import numpy as np
import torch


def whole(sizes):
    return np.lcm(sizes[0], sizes[1])


def f(x):
    if x.shape[-1] % whole((4, 6)) != 0:
        x = x + 1
    return x * 2


if __name__ == "__main__":
    step = torch.compile(f)
    for n in (1, 2):
        step(torch.ones(10) * n)
"""
TOLD = f"""\
Detected data-dependent branching. The branch condition involves a tensor computed as follows:
    # File "{FILE}", line 6, in whole, code: return np.lcm(sizes[0], sizes[1])
    whole = wrapped_lcm(4, 6)

    # File "{FILE}", line 10, in f, code: if x.shape[-1] % whole((4, 6)) != 0:
    wrapped_mod = wrapped_mod(10, whole)
"""
OTHERS = {
    "of an array": (TEXT, TOLD.replace("(4, 6)\n\n", "(array, 6)\n\n")),
    "of fractions": (TEXT, TOLD.replace("(4, 6)\n\n", "(4.5, 6)\n\n")),
    "in another file": (TEXT, TOLD.replace(FILE, "/app/others.py")),
    "Python has no such function": (TEXT.replace("lcm", "hypot"), TOLD.replace("lcm", "hypot")),
    "it writes its result somewhere": (TEXT.replace("sizes[1])", "sizes[1], out=there)"), TOLD),
    "the name is another module's": (TEXT.replace("import torch\n", "from torch import math, ones\n"), TOLD),
    "the name is another thing's": (f"{TEXT}math = 3\n", TOLD),
}


def offered(text: str, told: str, context: str = "attempted to jump with NumpyNdarrayVariable()") -> list[str]:
    at = SourceLine(FILE, 10, "f", text.split("\n")[9].strip())
    found = by_python(
        at, BreakCause("Data-dependent branching", explanation=told, context=context), Sources({FILE: text})
    )
    return [made[FILE] for one in found if (made := edited(one, {FILE: text}, FILE))]


def test_the_function_of_python_is_written_and_imported_once() -> None:
    after = TEXT.replace("np.lcm", "math.lcm")
    assert offered(TEXT, TOLD) == [f"import math\n{after}"]
    assert offered(f"import math\n{TEXT}", TOLD.replace("line 6", "line 7")) == [f"import math\n{after}"]
    assert not offered(TEXT, TOLD, "attempted to jump with TensorVariable()")


@pytest.mark.parametrize(("text", "told"), OTHERS.values(), ids=OTHERS)
def test_any_other_is_left_alone(text: str, told: str) -> None:
    assert not offered(text, told)


@pytest.mark.long
def test_no_break_is_left_and_results_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chunks.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "chunks.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert best["before"]["graph_breaks"] == 1
    assert (best["results"], best["after"]["graph_breaks"]) == ("equal", 0)
