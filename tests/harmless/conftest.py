"""Each worker compiles C++ once: the runs with a lens find what the runs without it compiled."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

pytest.register_assert_rewrite("laws")

from observation import Folders  # noqa: E402


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The caches of this worker's runs."""
    return Folders(tmp_path_factory.mktemp("caches"))
