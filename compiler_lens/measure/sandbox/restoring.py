"""The user's program while it is called: everything that a call may change is kept, and put back."""

from __future__ import annotations

import contextlib
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.torch_api import dynamo, settings
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
    with kept_settings() as restore_settings:
        state = State(*roots, *dynamo.counts())

        def restore() -> None:
            state.restore()
            restore_settings()

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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's own warnings and what the program prints: it would come once a trial."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in dynamo.LOGGERS}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


# -- the process's switches that a call may turn


@contextlib.contextmanager
def kept_settings() -> Iterator[Callable[[], None]]:
    """Put settings and random states back when the block ends. Gives a function that does it in between."""
    steps = [*_switches(), settings.kept_dynamo_settings(), dynamo.kept_sizes()]

    def restore() -> None:
        for step in steps:
            step()

    try:
        yield restore
    finally:
        restore()


def _switches() -> Iterator[Callable[[], Any]]:
    """Give for each switch, and each source of random numbers, a function that puts it back as it is now."""
    yield partial(random.setstate, random.getstate())
    yield partial(torch.set_rng_state, torch.get_rng_state())
    if numpy := sys.modules.get("numpy.random"):
        yield partial(numpy.set_state, numpy.get_state())
    yield partial(torch.set_grad_enabled, torch.is_grad_enabled())
    yield partial(torch.set_default_dtype, torch.get_default_dtype())
    is_warning_only = torch.is_deterministic_algorithms_warn_only_enabled()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    yield partial(torch.use_deterministic_algorithms, is_deterministic, warn_only=is_warning_only)
    yield partial(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
    devices = _devices_in_use()
    for device in {"cpu", *devices}:
        yield partial(torch.set_autocast_enabled, device, torch.is_autocast_enabled(device))
        yield partial(torch.set_autocast_dtype, device, torch.get_autocast_dtype(device))
    for module in devices.values():
        if hasattr(module, "get_rng_state_all"):
            yield partial(module.set_rng_state_all, module.get_rng_state_all())
        elif hasattr(module, "get_rng_state"):
            yield partial(module.set_rng_state, module.get_rng_state())


def _devices_in_use() -> dict[str, Any]:
    """Accelerators with torch's modules for them: a vendor's own stands in torch, too, when it is registered."""
    here = torch.accelerator.current_accelerator()
    names = {"cuda", "xpu", "mps", *([here.type] if here else [])}
    modules = {name: module for name in names if (module := getattr(torch, name, None)) is not None}
    return {
        name: module
        for name, module in modules.items()
        if module.is_available() and getattr(module, "is_initialized", lambda: True)()
    }
