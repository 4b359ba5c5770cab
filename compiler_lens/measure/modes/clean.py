"""A clean start for each row: no compiled code, no graphs, no memory of the last; caches of its own on disk."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator

import torch

from compiler_lens.capture.recorder import is_anybody_recording, recorded
from compiler_lens.capture.torch_api import cudagraphs, dynamo
from compiler_lens.measure.modes.wanted import Wanted


def clean(device: torch.device) -> None:
    """Drop what the row before left: compiled code, CUDA graphs, unused memory."""
    dynamo.forget_compiled_code()
    if device.type == "cuda":
        cudagraphs.forget_recorded()
    gc.collect()
    if device.type != "cpu":
        with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):  # not every vendor's has it
            torch.accelerator.empty_cache()


@contextlib.contextmanager
def no_active_lens() -> Iterator[None]:
    """Keep what the block compiles from all lenses of the user."""
    with recorded() if is_anybody_recording() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def as_is() -> Iterator[None]:
    """Compile nothing in the block, and run what the user compiled as it is written."""
    with torch.compiler.set_stance("force_eager"):
        yield


def compile_first(rows: Iterable[Wanted], device: torch.device, *, training: bool) -> None:
    """Compile next to nothing, as each row will: what a process pays once is then paid, and no row's.

    Imports, the start of workers, the search for a compiler and its precompiled headers.
    """
    for row in rows:
        if not row.is_eager:
            with contextlib.suppress(Exception):  # the row itself will say it
                _compile_tiny(row, device, training=training)
            clean(device)


def _compile_tiny(row: Wanted, device: torch.device, *, training: bool) -> None:
    with recorded():
        tiny = row.compile(_tiny, None)
        for _ in range(3):  # CUDA graphs are recorded at the second call and run at the third
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.ones(8, device=device, requires_grad=training)
            with torch.set_grad_enabled(training):
                y = tiny(x)
                if training:
                    y.backward()


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sum()
