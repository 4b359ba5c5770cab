"""Programs whose clock jumps, that share a path."""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from compiler_lens import Lens, load

X = torch.ones(4)


def first(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def second(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x.cos() * 2


@pytest.mark.parametrize("jump", [-3600.0, 86400.0 * 400])
def test_a_clock_that_jumps_makes_no_time_negative(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: Callable[[Lens], list[str]]
) -> None:
    now, now_ns, reads = time.time, time.time_ns, itertools.count()
    monkeypatch.setattr(time, "time", lambda: now() + jump * (next(reads) // 10))
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(jump * 1e9) * (next(reads) // 10))
    with Lens(tmp_path / "run.clens", strict=True) as lens:
        for function in (first, second):
            torch.compile(function, backend="aot_eager")(X)
    assert next(reads) > 50
    assert set(functions(lens)) >= {"first"}
    recording = load(tmp_path / "run.clens", strict=True)
    assert recording == lens.recording
    assert min(span.seconds for span in recording.spans) >= 0
    assert min(span.self_seconds for span in recording.spans) >= 0
    assert min(c.seconds or 0 for c in recording.compilations) >= 0
    assert lens.report()


def test_a_path_is_free_again_though_a_child_still_runs(tmp_path: Path) -> None:
    # A lock belongs to an open file, which a child shares: worker processes live long.
    reader, writer = os.pipe()
    lens = Lens(tmp_path / "run.clens", strict=True)
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    lens.close()
    with Lens(tmp_path / "run.clens", strict=True) as again:
        assert again.path == lens.path
    os.write(writer, b".")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)
    os.close(writer)
