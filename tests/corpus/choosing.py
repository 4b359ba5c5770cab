"""Which of PyTorch's files of tests to run. Of each file the child takes some tests, spread evenly (`child/observing.py`)."""

from __future__ import annotations

import re
from pathlib import Path

# Of PyTorch's folder test/: what tests Dynamo, AOTAutograd and Inductor.
_FILES = (
    "dynamo/test_*.py",
    "inductor/test_*.py",
    "higher_order_ops/test_*.py",
    "functorch/test_aotdispatch.py",
    "functorch/test_control_flow.py",
)


def files_of_tests(sources: Path, match: str = "") -> list[str]:
    """Return the test files of the compiler below a folder; all files of tests where it is no folder of PyTorch's."""
    found = [path for pattern in _FILES for path in sorted(sources.glob(pattern))] or sorted(sources.rglob("test_*.py"))
    names = [str(path.relative_to(sources)) for path in found]
    return [name for name in names if re.search(match, name)]
