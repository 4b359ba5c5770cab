"""A clean start for each row: no compiled code, no graphs, no memory of the last; caches of its own on disk."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from compiler_lens.capture.tap import ANCHOR
from compiler_lens.capture.torch_api import compat
from compiler_lens.lens import Lens
from compiler_lens.measure.modes.wanted import Wanted

# Caches on other machines, and what was learned of sizes: a cold compile must find none of it.
_APART = (
    ("torch._inductor.config", ("fx_graph_remote_cache", "autotune_remote_cache", "bundled_autotune_remote_cache")),
    ("torch._functorch.config", ("enable_remote_autograd_cache",)),
    ("torch._dynamo.config", ("automatic_dynamic_local_pgo", "automatic_dynamic_remote_pgo")),
)


def clean(device: torch.device) -> None:
    """Drop what the row before left: compiled code, CUDA graphs, unused memory."""
    torch._dynamo.reset_code_caches()  # noqa: SLF001
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None and device.type == "cuda":
        trees.reset_cudagraph_trees()
    gc.collect()
    if device.type != "cpu":
        with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):  # not every vendor's has it
            torch.accelerator.empty_cache()


@contextlib.contextmanager
def caches_in(folder: Path) -> Iterator[None]:
    """torch's caches on disk in a folder, those in memory empty; afterwards where they were."""
    from torch._inductor import utils

    place: Any = utils._set_env  # noqa: SLF001 -- what its fresh_cache uses, which knows no folder that is there already
    with place("TORCHINDUCTOR_CACHE_DIR", str(folder)), place("TRITON_CACHE_DIR", str(folder / "triton")):
        utils.clear_caches()
        try:
            yield
        finally:
            utils.clear_caches()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Without caches on other machines."""
    import importlib

    with contextlib.ExitStack() as stack:
        for module, names in _APART:
            config: Any = importlib.import_module(module)
            there = {name: False for name in names if hasattr(config, name)}
            stack.enter_context(config.patch(there))
        yield


@contextlib.contextmanager
def recorded(path: Path | None) -> Iterator[Lens]:
    """A lens that hears all that the block compiles, and no other lens does."""
    lens = Lens(path, progress=False)
    tap, session = lens._tap, lens._session  # noqa: SLF001 -- no user of a lens needs this
    with contextlib.closing(lens), lens, tap.alone(session):
        yield lens


@contextlib.contextmanager
def no_active_lens() -> Iterator[None]:
    """Whatever the block compiles, no lens of the user's hears of it."""
    tap = vars(compat.trace_logger()).get(ANCHOR)
    with recorded(None) if tap is not None and tap.sessions else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def as_is() -> Iterator[None]:
    """Nothing is compiled, nor does compiled code run: parts of the program that the user compiled run as written."""
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
    with recorded(None):
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
