"""Makes `sample_recordings` importable: recordings built by hand, shared by the tests of several rooms."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "gold"))


@pytest.fixture
def lines_of_the_test() -> Iterator[None]:
    """Take away what `tests.alike.loaded` put where torch looks for lines and modules."""
    yield
    from tests.alike import forget_loaded  # late: not every test here needs torch

    forget_loaded()
