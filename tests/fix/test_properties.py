"""A cached property, which is locked in older versions of Python, as a plain one: the same numbers, no graph break."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.properties import uncached
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

TEXT = """\
from functools import cached_property

import torch


class Padded(torch.nn.Conv1d):
    @cached_property
    def left(self):
        whole = (self.kernel_size[0] - 1) * self.dilation[0] + 1
        return whole - self.stride[0]

    def forward(self, x):
        x = torch.nn.functional.pad(x, (self.left, 0))
        return super().forward(x)


if __name__ == "__main__":
    step = torch.compile(Padded(2, 2, 3))
    for n in (1, 2):
        step(torch.ones(1, 2, 8) * n)
"""
OTHERS = {
    "it is written, too": TEXT.replace("        return super()", "        self.left = 3\n        return super()"),
    "it computes of more than attributes": TEXT.replace("whole - self.stride[0]", "whole - read('stride')"),
    "it does more": TEXT.replace("        return whole", "        self.count += 1\n        return whole"),
    "there is none": TEXT.replace("    @cached_property\n", "    @property\n"),
    "another object's": TEXT.replace("(self.left, 0)", "(self.other.left, 0)"),
    "it is set by a name": TEXT.replace(
        "class Padded",
        "def load(model, state):\n    for name, one in state.items():\n        setattr(model, name, one)\n\n\nclass Padded",
    ),
    "it is set by its name": TEXT.replace(
        "        return super()", "        setattr(self, 'left', 2)\n        return super()"
    ),
    "it is set past the property": TEXT
    + "\n\nclass Warm(Padded):\n    def warm(self):\n        self.__dict__['left'] = 3\n",
    "it is forgotten": TEXT.replace(
        "        return super()", "        self.__dict__.pop('left', None)\n        return super()"
    ),
    "what it returned grows": TEXT + "\n\ndef extend(model, n):\n    model.left.append(n)\n",
    "what it returned is scaled": TEXT + "\n\ndef scale(model):\n    left = model.left\n    left.mul_(2)\n",
    "it is marked twice": TEXT.replace("    @cached_property\n", "    @seen\n    @cached_property\n"),
}


def offered(text: str, kind: str = "Unsupported context manager", **beside: str) -> tuple[str, ...]:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "pad(" in line)
    at = SourceLine("/app/padded.py", number, "forward", text.split("\n")[number - 1].strip())
    lines = uncached(at, BreakCause(kind), Sources({at.file: text, **beside}))
    return (*lines.before, *lines.after) if lines else ()


def test_a_property_of_attributes_is_not_kept() -> None:
    assert offered(TEXT) == ("@cached_property", "@property")
    assert not offered(TEXT, "Data-dependent branching")


def test_what_an_object_of_another_class_writes_is_not_this_one() -> None:
    other = "\n\nclass Cache:\n    def fill(self):\n        self.left = 1\n"
    assert offered(TEXT + other) == ("@cached_property", "@property")
    assert not offered(TEXT + other.replace("Cache", "Cache(Padded)"))
    assert not offered(TEXT + other.replace("self.left", "padded.left"))


@pytest.mark.parametrize(
    "line",
    ["model.left = 3", "del model.left", "model.left += 1", "model.left[0] = 1", "model.left.update(a=1)",
     "setattr(model, 'left', 3)", "vars(model)['left'] = 3", "torch.mul(x, 2, out=model.left)",
     "for one in model.left:\n    one.add_(1)"],
)  # fmt: skip
def test_what_another_file_changes_is_left_alone(line: str) -> None:
    assert not offered(TEXT, tune=f"import torch\n{line}\n")


@pytest.mark.parametrize(
    "line",
    ["print(model.left + 1)", "setattr(model, name, 3)", "left = 3", "class Box:\n    def fill(self):\n        self.left = 3"],
)  # fmt: skip
def test_what_another_file_does_with_something_else_is_not_this_one(line: str) -> None:
    assert offered(TEXT, tune=f"{line}\n") == ("@cached_property", "@property")


def test_a_class_in_another_file_that_is_made_of_this_one_may_write_it() -> None:
    made = "from padded import Padded as Base\n\nclass Warm(Base):\n    def warm(self):\n        self.left = 3\n"
    assert not offered(TEXT, warm=made)
    by_name = "from padded import Padded\n\ndef load(model, state):\n    for name in state:\n        setattr(model, name, 3)\n"
    assert not offered(TEXT, load=by_name)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_any_other_is_left_alone(text: str) -> None:
    assert not offered(text)


@pytest.mark.long
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a cached property has no lock there, and breaks nothing")
def test_no_break_is_left_and_results_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "padded.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "padded.py"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = found["best"]
    assert (best["results"], best["after"]["graph_breaks"], best["after"]["eager_functions"]) == ("equal", 0, 0)
    assert "to assign or delete it raises" in found["tried"][0]["price"]
    assert "-    @cached_property\n+    @property\n" in best["patch"]


@pytest.mark.long
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a cached property has no lock there, and breaks nothing")
def test_a_file_that_is_imported_and_never_compiled_counts_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "padded.py").write_text(TEXT.replace("import torch\n", "import torch\n\nimport tune\n"))
    (tmp_path / "tune.py").write_text("def tuned(model):\n    model.left = 3\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "padded.py"]) == 0
    assert "@property" not in capsys.readouterr().out
