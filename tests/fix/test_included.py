"""`fix --include PACKAGE`: what breaks in an installed package is tried on copies of its files, and only for a patch."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compiler_lens.cli import main

PARTS = """
    def bounded(x):
        if x.sum() > 0:
            x = x * 2
        else:
            x = x - 1
        return x
"""
NET = """
    import torch

    from leaky import parts


    class Net(torch.nn.Module):
        def forward(self, x):
            return parts.bounded(x.sin()).cos()
"""
TRAIN = """
    import torch
    from leaky.net import Net

    net = torch.compile(Net())
    for _ in range(2):
        net(torch.randn(4))
"""
MODEL = """
    import torch
    from leaky.net import Net

    def make():
        return Net(), torch.randn(4)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as it is installed, beside two programs that use it."""
    installed = tmp_path / "lib" / "site-packages"
    for name, text in (("__init__.py", ""), ("parts.py", PARTS), ("net.py", NET)):
        (installed / "leaky").mkdir(parents=True, exist_ok=True)
        (installed / "leaky" / name).write_text(dedent(text).lstrip())
    app = tmp_path / "app"
    app.mkdir()
    (app / "train.py").write_text(dedent(TRAIN))
    (app / "model.py").write_text(dedent(MODEL))
    monkeypatch.chdir(app)
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setenv("PYTHONPATH", str(installed))
    return installed / "leaky"


def fixed(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(["fix", "--own-inputs", "--json", *args]) == 0
    return json.loads(capsys.readouterr().out)


LOGS = """
    import logging

    class OnceLogger(logging.Logger):
        def warning_once(self, *args):
            self.warning(*args)

    logger = OnceLogger("leaky")

    def bounded(x):
        logger.warning_once(
            f"of {len(x)} sizes"
        )
        return x.cos()
"""


def test_a_logger_with_a_method_of_its_own_is_not_told_to_ignore_another(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (package / "parts.py").write_text(dedent(LOGS))
    found = fixed(capsys, "--include", "leaky", "model.py:make")
    assert not any("ignore_logging" in trial["offer"] for trial in found["tried"])
    assert found["best"]["after"]["graph_breaks"] == 0


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
@pytest.mark.parametrize("program", ["train.py", pytest.param("model.py:make", marks=pytest.mark.long)])
def test_a_break_in_a_package_is_mended_in_a_patch_and_nowhere_else(
    program: str, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in package.rglob("*.py")}
    found = fixed(capsys, "--include", "leaky", "--patch", "leaky.patch", program)
    assert found["best"]["before"]["graph_breaks"] == 2
    assert found["best"]["after"]["graph_breaks"] == 0
    assert found["best"]["results"] == "equal"
    assert found["best"]["files"] == [str(package / "parts.py")]
    assert {file: file.read_bytes() for file in package.rglob("*.py")} == before
    assert Path("leaky.patch").read_text().startswith("--- leaky/parts.py\n+++ leaky/parts.py\n")
    done = subprocess.run(["patch", "-p0", "-d", package.parent, "-i", Path("leaky.patch").absolute()], check=False)
    assert done.returncode == 0
    assert "torch.where(x.sum() > 0" in (package / "parts.py").read_text()


def test_without_the_word_a_package_stays_as_it_is(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = fixed(capsys, "train.py")
    assert found["best"] is None
    assert all(str(package) not in trial["offer"] for trial in found["tried"])
    assert main(["fix", "--own-inputs", "--width", "100", "train.py"]) == 0
    assert "--include leaky" in capsys.readouterr().out


@pytest.mark.long
def test_a_part_of_a_package_can_be_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fixed(capsys, "--include", "leaky.net", "train.py")["best"] is None
    assert fixed(capsys, "--include", "leaky.parts", "train.py")["best"]["after"]["graph_breaks"] == 0


@pytest.mark.long
def test_it_is_said_whose_code_the_patch_changes(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "--own-inputs", "--include", "leaky", "--width", "200", "train.py"]) == 0
    said = capsys.readouterr().out
    assert "It changes code of leaky: a patch to send to its authors. Nothing installed is changed." in said
    assert "To have it written: patch -p0 -d " in said
    assert "--apply" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--apply", "--include", "leaky"], "use --patch FILE"),
        (["--include", "no_such_package"], "no such package"),
        (["--include", "leaky.none"], "no such part"),
        (["--include", "torch"], "runs the trials"),
        (["--include", "json"], "runs the trials"),
        (["--include", "../x"], "no such package"),
    ],
)
def test_what_cannot_be_included_is_one_line(
    options: list[str], said: str, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fix", *options, "train.py"]) == 2
    assert said in capsys.readouterr().err
