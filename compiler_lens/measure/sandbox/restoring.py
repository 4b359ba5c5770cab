"""The user's program while it is called: everything that a call may change is kept, and put back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.torch_api import dynamo
from compiler_lens.measure.sandbox.settings import kept_settings
from compiler_lens.measure.sandbox.state import State


class Kept(Struct, frozen=True):
    """What is kept of a program and of torch."""

    state: State
    restore: Callable[[], None]  # go back to the start

    @property
    def device(self) -> torch.device | None:
        """Where the program's tensors are: the first device that is not the CPU. None of a program without tensors."""
        devices = [tensor.device for tensor in self.state.tensors if tensor.device.type not in {"cpu", "meta"}]
        return devices[0] if devices else torch.device("cpu") if self.state.tensors else None


@contextlib.contextmanager
def restoring_state(*roots: Any) -> Iterator[Kept]:
    """Put back after the block what can be reached from the roots, torch's settings and its counts."""
    with kept_settings() as settings:
        state = State(*roots, *dynamo.counts())

        def restore() -> None:
            state.restore()
            settings()

        try:
            yield Kept(state, restore)
        finally:
            state.restore()  # once more: Ctrl-C may come while it is put back


@contextlib.contextmanager
def code_caches_apart() -> Iterator[None]:
    """Run the block without compiled code of before, and leave none: it would count for torch's limit of recompiles.

    Within `restoring_state`: torch forgets with its code which sizes vary, and that is put back there.
    """
    dynamo.forget_compiled_code()
    try:
        yield
    finally:
        dynamo.forget_compiled_code()
