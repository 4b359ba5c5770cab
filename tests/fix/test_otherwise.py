"""What compiled code computes otherwise than the same lines without torch.compile is told, and is no all-clear."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.enums import Member, compared_with_members
from compiler_lens.recording.model import SourceLine

PROGRAM = """\
    import enum
    import torch

    class Kind(enum.{base}):
        NORMAL = 0
        WALL = 1

    def step(x, kinds):
        wall = kinds == {member}
        y = x.clone()
        y[wall] = 0
        {said}
        return y * 2

    model = torch.compile(step, backend="eager")
    for _ in range(3):
        model(torch.randn(6), torch.tensor([0, 1, 0, 1, 0, 0]))
    """
IS_ONE_BOOL = pytest.mark.skipif(torch.__version__ < "2.13", reason="this torch compares each element")


def _said(capsys: pytest.CaptureFixture[str], *options: str, **parts: str) -> str:
    given = {"base": "IntEnum", "member": "Kind.WALL", "said": "pass"} | parts
    Path("train.py").write_text(dedent(PROGRAM).format(**given))
    assert main(["fix", "--own-inputs", *options, "train.py"]) == 0
    return " ".join(capsys.readouterr().out.split())


@IS_ONE_BOOL
@pytest.mark.parametrize("said", [pytest.param("pass", marks=pytest.mark.long), "print('x')"])
def test_a_program_that_is_wrong_when_compiled_is_told_so(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = _said(capsys, "--width", "200", said=said)
    assert "Nothing to fix" not in text
    assert "Results may be wrong: compiled, the program as it is computes something else than without" in text
    assert "(result 1 of call 1 differs by " in text
    assert "train.py:9 wall = kinds == Kind.WALL — torch takes a comparison of a tensor with Kind.WALL for one" in text
    assert "write int(Kind.WALL)." in text
    facts = json.loads(_said(capsys, "--json", said=said))
    assert facts["computed_otherwise"].startswith("result 1 of call 1 differs by ")


@pytest.mark.long
def test_one_that_is_right_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Nothing to fix" in _said(capsys, member="int(Kind.WALL)")
    assert json.loads(_said(capsys, "--json", member="int(Kind.WALL)"))["computed_otherwise"] == ""


@pytest.mark.parametrize(("base", "asked"), [("IntEnum", "=="), ("enum.IntFlag", "!=")])
def test_a_comparison_with_a_member_is_found(base: str, asked: str) -> None:
    text = f"class Kind({base}):\n    A = 0\n\n\ndef f(x):\n    return Kind.A {asked} x\n"
    (found,) = compared_with_members({"/app/a.py": text})
    assert found == Member(SourceLine("/app/a.py", 6, "f", f"return Kind.A {asked} x"), "Kind.A")


@pytest.mark.parametrize("text", ["class Kind(Enum):\n    A = 0\n\n\ndef f(x):\n    return x == Kind.A\n", "def f(:\n"])
def test_another_comparison_is_not(text: str) -> None:
    assert not list(compared_with_members({"/app/a.py": text}))
    assert not list(compared_with_members({"/app/a.py": text.replace("Enum", "IntEnum").replace("==", "<")}))
