"""Running a program: as it is, or changed; compiled by a backend that generates nothing, or eagerly."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import logging
import random
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from msgspec import Struct

from compiler_lens import Lens
from compiler_lens.facts.overview.explanation import Explanation, explain
from compiler_lens.recording.model import Recording


class Trial(Struct, frozen=True):
    """What came of a run."""

    results: Any  # what its `main` returned; None where it raised
    recording: Recording
    explained: Explanation
    error: str = ""

    @property
    def events(self) -> int:
        """Return how many breaks and recompiles there were."""
        return len(self.recording.graph_breaks) + len(self.recording.recompiles)

    @property
    def graphs(self) -> int:
        """Return how many graphs Dynamo made."""
        return sum(graph.stage.value == "dynamo" for graph in self.recording.graphs)


def compiled(name: str, source: str, config: Mapping[str, Any] | None = None) -> Trial:
    """Run a program under a lens, compiled for eager execution."""
    results, error = None, ""
    with _alone(), torch._dynamo.config.patch(dict(config or {})), Lens(strict=True) as lens:
        try:
            results = _run(name, source)
        except Exception as raised:  # noqa: BLE001 -- a change of the program may break it
            error = f"{type(raised).__name__}: {raised}"
        recording = lens.recording
    return Trial(results, recording, explain(recording), error)


def eager(name: str, source: str) -> Any:
    """Return what a program's `main` gives where nothing is compiled."""
    with _alone():
        torch.compiler.set_stance("force_eager")
        try:
            return _run(name, source)
        finally:
            torch.compiler.set_stance("default")


def equal(results: Any, reference: Any) -> bool:
    """Return whether two runs gave the same, up to rounding."""
    try:
        torch.testing.assert_close(results, reference, equal_nan=True)
    except AssertionError:
        return False
    return True


def _run(name: str, source: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.main()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    for_eager = functools.partial(torch.compile, backend="eager")
    logging.disable(logging.CRITICAL)
    before = torch._dynamo.config.get_config_copy()  # programs change it
    try:
        with mock.patch.object(torch, "compile", for_eager), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(logging.NOTSET)
        for name, value in torch._dynamo.config.get_config_copy().items():
            if value != before[name]:
                setattr(torch._dynamo.config, name, before[name])
        torch._dynamo.reset()
