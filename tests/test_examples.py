"""The examples run, and print what the documentation quotes of them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_GOES_ON_IN_LOOPS = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="torch compiles the rest of a `for` loop after a break there"
)
STORIES = (
    "graph_breaks",
    pytest.param("recompiles", marks=pytest.mark.long),
    pytest.param("coverage", marks=[_GOES_ON_IN_LOOPS, pytest.mark.long]),
)
RECORDED = ("kernels", "diff")  # pages that quote recordings of tests/gpu/data
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\b\d+(\.\d+)? (s|ms)\b")


def _run(command: str, folder: Path) -> str:
    """What a command of the documentation prints, 80 columns wide."""
    program, *args = command.split()
    if program == "python":
        args[0] = str(ROOT / args[0])
    words = [sys.executable, *(["-m", "compiler_lens"] if program == "compiler-lens" else ["-W", "ignore"]), *args]
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    env.pop("TORCH_TRACE", None)
    ran = subprocess.run(words, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=1800, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stderr[-2000:]}"
    return ran.stdout


def _quotes(page: Path) -> Iterator[tuple[str, str]]:
    """Each stretch of quoted output with the last command above it; `…` on a line of its own leaves something out."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
        quoted = re.sub(r"^\$ .*\n", "", block, flags=re.MULTILINE)
        yield from ((commands[-1], part) for part in re.split(r"^…$", quoted, flags=re.MULTILINE) if part.strip())


def _plain(text: str) -> str:
    """Without times, and without the line breaks that come to stand elsewhere when a time is longer."""
    return " ".join(_TIME.sub("T", " ".join(text.split())).split())


@pytest.fixture(scope="module", params=STORIES)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """An example that was run: its name, the folder with its recordings, what it printed."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, _run(f"python examples/{request.param}.py", folder)


def test_an_example_prints_what_its_page_quotes(story: tuple[str, Path, str]) -> None:
    name, folder, printed = story
    outputs = {f"python examples/{name}.py": printed}
    quotes = list(_quotes(ROOT / "docs" / f"{name}.md"))
    assert len(quotes) >= 3, "the page quotes nothing"
    for command, quoted in quotes:
        if command not in outputs:
            outputs[command] = _run(command, folder)
        assert _plain(quoted) in _plain(outputs[command]), f"`{command}` does not print\n{quoted}"


def test_an_example_is_short_and_leaves_a_recording(story: tuple[str, Path, str]) -> None:
    name, folder, _ = story
    assert len((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 70
    assert (folder / f"{name}.clens").stat().st_size > 0


@pytest.mark.parametrize("name", RECORDED)
def test_a_page_quotes_what_is_printed_of_a_recording_in_the_repository(name: str) -> None:
    outputs: dict[str, str] = {}
    for command, quoted in _quotes(ROOT / "docs" / f"{name}.md"):
        outputs[command] = outputs.get(command) or _run(command, ROOT)
        assert _plain(quoted) in _plain(outputs[command]), f"`{command}` does not print\n{quoted}"
    assert len(outputs) >= 3, "the page quotes nothing"


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_quotes_what_is_printed(tmp_path: Path) -> None:
    outputs: dict[str, str] = {}
    for command, quoted in _quotes(ROOT / "README.md"):
        if not outputs:
            _run("python examples/graph_breaks.py", tmp_path)
        outputs[command] = outputs.get(command) or _run(command, tmp_path)
        assert _plain(quoted) in _plain(outputs[command]), f"`{command}` does not print\n{quoted}"
    assert outputs


def _pasted(command: str, folder: Path) -> str:
    """What a shell shows of lines of the README, where compiler-lens is this one."""
    (folder / "bin").mkdir(exist_ok=True)
    ours = folder / "bin" / "compiler-lens"
    ours.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m compiler_lens "$@"\n')
    ours.chmod(0o755)
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    env["PATH"] = f"{ours.parent}:{env['PATH']}"
    ran = subprocess.run(
        ["bash", "-e"], input=command, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout + ran.stderr


def test_what_the_readme_begins_with_is_pasted_as_it_is(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (kind, command), (_, quoted), (_, snippet) = blocks[:3]
    install, _, rest = command.partition("\n")
    assert (kind, install) == ("sh", "pip install torch compiler_lens")
    printed = _plain(_pasted(rest, tmp_path))
    for part in quoted.split("…\n"):
        assert _plain(part) in printed, part
    (tmp_path / "second.py").write_text(snippet)
    assert "1 function compiled" in _plain(_pasted(f'"{sys.executable}" second.py', tmp_path))
