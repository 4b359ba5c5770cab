"""A function that `torch.compiler.disable(recursive=False)` keeps in Python is so on purpose, as with `disable`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.overview.all_clear import Contradiction, against
from compiler_lens.facts.overview.eager import Extent, Reason, eager
from compiler_lens.facts.overview.explanation import explain, summarize
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.recording.model import Recording
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json

pytestmark = pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 says nothing of such a frame")
TEXT = """
import torch

class Top(torch.nn.Module):
    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        return inner(x)

def inner(x):
    return x.sin()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.top = Top()

    def forward(self, x):
        return self.top(x.cos()) + 1
"""


@pytest.fixture(params=["Top", "Net"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    path = tmp_path / "marked.py"
    path.write_text(TEXT)
    namespace: dict[str, object] = {"__name__": "marked"}
    exec(compile(TEXT, str(path), "exec"), namespace)
    made = namespace[request.param]
    assert isinstance(made, type)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(made(), backend="eager")(torch.ones(3))
    return lens.recording


def test_what_a_mark_keeps_out_is_no_finding_and_is_told_of(recording: Recording) -> None:
    """Nobody is told to do something about it; but that it does not run compiled is said where nothing else is."""
    explained = explain(recording)
    assert [frame.name.name for frame in explained.coverage.kept_out] == ["Top.forward"]
    assert {one.treatment for one in explained.coverage.functions} <= {Treatment.WHOLE, Treatment.SPLIT}
    assert "inner" in {one.name.name for one in explained.coverage.functions}
    assert not [one for one in explained.findings if not one.benign]
    assert {one.what: one.said for one in against(recording, explained)}[Contradiction.NOT_WHOLE] == "Top.forward"
    parts = [part for part in eager(recording, summarize(recording)).parts if part.function]
    kept = [(part.reason, part.extent) for part in parts if part.function and part.function.name == "Top.forward"]
    assert kept == [(Reason.DISABLED, Extent.EVERY_CALL)]


def test_the_frames_have_it_by_name(recording: Recording) -> None:
    written = json.loads(view_json(recording, "frames"))
    assert [one["function"]["function"] for one in written["kept_out"]] == ["Top.forward"]
    assert "Kept out on purpose" in view(recording, "frames", page_for(recording, width=100))
