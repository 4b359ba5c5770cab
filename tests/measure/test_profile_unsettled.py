"""Profiles of what does not come to rest, or does not compile."""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import compiler_lens
from compiler_lens.measure.profile import record
from compiler_lens.measure.profile import run as runs
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Ceilings, ProfileNote, Remark


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ceilings take seconds to measure; threads wait for one another on a busy machine, where calls are timed again."""
    monkeypatch.setattr(record, "measure_ceilings", lambda device, dtypes: Ceilings("a CPU"))
    monkeypatch.setattr(runs, "_ROUNDS", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def product(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x


class Counting(nn.Linear):
    """Never comes to rest: a number of a module is constant to torch."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


def test_what_goes_on_compiling_is_said_to() -> None:
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=30):
        result = compiler_lens.profile(Counting(8, 4), torch.randn(2, 8), repeats=2)
    assert ProfileNote(Remark.STILL_COMPILING, number=2) in result.profile.notes
    with torch.no_grad(), pytest.raises(UsageError, match="so often that torch gave it up"):
        compiler_lens.profile(Counting(8, 4), torch.randn(2, 8), repeats=8)


def test_what_does_not_compile_is_said_to() -> None:
    with contextlib.closing(compiler_lens.Lens(progress=False)) as lens:
        compiled = torch.compile(product, backend=lens, mode="fast")
        with pytest.raises(UsageError, match="cannot be compiled: RuntimeError: Unrecognized mode=fast"):
            lens.profile(compiled, torch.randn(2, 8))
    with pytest.raises(UsageError, match=r"torch\.compile has no mode fast: it has default, "):
        compiler_lens.profile(product, torch.randn(2, 8), mode="fast")
    with pytest.raises(UsageError, match="repeats is a number of calls, 1 or more, not 0"):
        compiler_lens.profile(product, torch.randn(2, 8), repeats=0)
