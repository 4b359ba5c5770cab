"""What is uploaded: the long description, the version, the data files."""

import re
import subprocess
from pathlib import Path

import pytest

import compiler_lens
from compiler_lens.facts.data_file import read_data

ROOT = Path(__file__).parent.parent
PROJECT = read_data(ROOT / "pyproject.toml")


def long_description() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text


def test_the_long_description_points_to_nothing_that_a_package_index_has_not() -> None:
    text = long_description()
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith(("https://", "http://"))] == []
    assert "![" not in text
    assert "what do I change? (`docs/graph_breaks.md`) | `show REC breaks` |" in text
    assert "(`docs/kernels.md`)." in text


def test_what_the_readme_points_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    missing = [link for link in links if not link.startswith("http") and not (ROOT / link).exists()]
    assert not missing


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "compiler_lens/__init__.py"
    assert f"## {compiler_lens.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_nothing_that_is_kept_is_ignored_and_so_left_out_of_the_sdist() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only in a checkout")
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout == ""


def test_what_is_held_by_a_test_has_that_test() -> None:
    table = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    named = [line.split("|")[-2].strip(" `").partition("::") for line in table[2:]]
    missing = [file + test for file, _, test in named if f"def {test}" not in (ROOT / file).read_text(encoding="utf-8")]
    assert not missing
    assert len(named) > 15
