"""What a run says last: what it did not try."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).with_name("conftest.py")
TESTS = """
import pytest

@pytest.mark.browser
@pytest.mark.parametrize("page", range(3))
def test_page(page):
    pytest.skip("no Chromium on the PATH")

@pytest.mark.gpu
@pytest.mark.skipif(True, reason="needs a CUDA device")
def test_kernel():
    pass

@pytest.mark.skipif(True, reason="no /dev/full on this system")
def test_disk():
    pass

def test_all_else():
    pass
"""


def last_line(folder: Path, text: str, *options: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_made.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser\n    gpu\n")
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    ran = subprocess.run(words, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout.splitlines()[-1]


def test_the_last_line_counts_what_was_skipped_and_says_how_to_get_it(tmp_path: Path) -> None:
    expected = (
        "not tested: 3 browser tests: apt-get install chromium; 1 GPU tests: need a CUDA device; "
        "1 test: no /dev/full on this system"
    )
    assert last_line(tmp_path, TESTS) == expected
    assert last_line(tmp_path, TESTS, "-n", "2") == expected


def test_a_module_that_cannot_be_imported_counts_too(tmp_path: Path) -> None:
    missing = "import pytest\n\npytest.importorskip('nowhere')\n"
    (tmp_path / "test_missing.py").write_text(missing)
    line = last_line(tmp_path, "def test_all():\n    pass\n")
    assert line == "not tested: 1 module: could not import 'nowhere': No module named 'nowhere'"


def test_a_run_without_skips_says_nothing_of_it(tmp_path: Path) -> None:
    assert "1 passed" in last_line(tmp_path, "def test_all():\n    pass\n")
