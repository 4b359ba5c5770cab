"""Programs that a debugger, a tracer or a profiler follows: Dynamo does the same under a lens as without one."""

import bdb
import cProfile
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from compiler_lens import Lens, load

X = torch.ones(3)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y + 1


def compiled() -> list[float]:
    result: list[float] = torch.compile(broken, backend="aot_eager")(X).tolist()
    return result


class Steps(bdb.Bdb):
    """A debugger that stops at each line."""

    def user_line(self, frame: FrameType) -> None:
        self.set_step()


def traced(run: Callable[[], Any]) -> Any:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        return run()
    finally:
        sys.settrace(before)


def profiled(run: Callable[[], Any]) -> Any:
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        return run()
    finally:
        sys.setprofile(before)


FOLLOWERS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "a debugger": lambda run: Steps().runcall(run),
    "a trace function": traced,
    "a profile function": profiled,
    "cProfile": lambda run: cProfile.Profile().runcall(run),
}


@pytest.mark.parametrize("name", FOLLOWERS)
def test_a_program_that_is_followed_is_compiled_and_recorded_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.clens"
    seen = []
    for lens in (nullcontext(), Lens(path, strict=True)):
        torch._dynamo.reset()
        counters.clear()
        with lens:
            result = FOLLOWERS[name](compiled)
        seen.append((result, {kind: dict(counters[kind]) for kind in ("frames", "stats", "graph_break")}))
    assert seen[0] == seen[1]
    recording = load(path, strict=True)
    assert recording.problems == ()
    assert len(recording.graph_breaks) == sum(seen[0][1]["graph_break"].values())
    assert bool(recording.compilations) == bool(seen[0][1]["frames"])
