"""What several tests of `fix` set up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package in a folder, with `train.py`, which uses it, and `own.py`, which has the same as its own."""

    def installed(name: str, library: str, *, train: str, own: str) -> None:
        folder = tmp_path / "lib" / "site-packages"
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(library)
        (tmp_path / "train.py").write_text(train)
        (tmp_path / "own.py").write_text(own)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))

    return installed
