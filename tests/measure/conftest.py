"""Makes `programs` importable, and holds every test to leaving Dynamo's settings alone."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from compiler_lens.facts.measured.what_if import Trial, WhatIf

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _dynamo_settings() -> Iterator[None]:
    """No test may leave a setting of Dynamo changed."""
    before = torch._dynamo.config.get_config_copy()
    yield
    assert torch._dynamo.config.get_config_copy() == before


@pytest.fixture
def trial() -> Callable[[WhatIf, str], Trial]:
    """One trial by its name."""

    def of(result: WhatIf, name: str) -> Trial:
        found = [trial for trial in result.trials if trial.name == name]
        assert found, [trial.name for trial in result.trials]
        return found[0]

    return of


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """A file with a factory in it."""

    def make(text: str) -> Path:
        path = tmp_path / "made_model.py"
        path.write_text("import torch\nfrom torch import nn\n" + text)
        return path

    return make
