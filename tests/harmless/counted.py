"""What torch counts while programs run, with a lens open or without."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import tempfile
from pathlib import Path

import torch
from counted_programs import kinds

Counts = dict[str, dict[str, int]]
_ADDRESS = re.compile(r" at 0x\w+")  # in a break's text


def counted(kind: str, backend: str, *, recorded: bool, calls: int = 2) -> dict[str, Counts]:
    """What torch counts of each program of a kind, one after the other in this process, on empty caches.

    `backend` is one of torch's, or "static": "aot_eager" with `dynamic=False`.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    return {name: _counts(kind, name, backend, recorded=recorded, calls=calls) for name in kinds()[kind]}


def _counts(kind: str, name: str, backend: str, *, recorded: bool, calls: int) -> Counts:
    import compiler_lens

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    settings = {"backend": "aot_eager", "dynamic": False} if backend == "static" else {"backend": backend}
    # torch has dictionaries of weak references of its own, whose callbacks are counted where the collector happens to
    # run: these programs run it where they want it.
    gc.collect()
    gc.disable()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.ExitStack() as stack:
        stack.callback(gc.enable)
        if recorded:
            stack.enter_context(compiler_lens.Lens(Path(tempfile.mkdtemp(), "run.clens"), strict=True))
        step = kinds()[kind][name](lambda function, **others: torch.compile(function, **settings, **others))
        for _ in range(calls):
            step()
    return {
        group: {_ADDRESS.sub("", what): count for what, count in counts.items()}
        for group, counts in sorted(torch._dynamo.utils.counters.items())
    }
