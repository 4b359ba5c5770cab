"""The process's switches that a call may turn: kept and put back. And quiet while trials run."""

from __future__ import annotations

import contextlib
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from compiler_lens.capture.torch_api import dynamo, settings


@contextlib.contextmanager
def kept_settings() -> Iterator[Callable[[], None]]:
    """Put settings and random states back when the block ends. Gives a function that does it in between."""
    steps = [*_random(), *_autograd(), *_autocast(), settings.kept_dynamo_settings(), dynamo.kept_sizes()]

    def restore() -> None:
        for step in steps:
            step()

    try:
        yield restore
    finally:
        restore()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's own warnings and what the program prints: it would come once a trial."""
    loggers = [logging.getLogger(name) for name in dynamo.LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _random() -> Iterator[Callable[[], Any]]:
    python, cpu = random.getstate(), torch.get_rng_state()
    yield lambda: random.setstate(python)
    yield lambda: torch.set_rng_state(cpu)
    for _, module in _accelerators():
        if hasattr(module, "get_rng_state"):
            yield _device_random(module)
    if "numpy.random" in sys.modules:
        numpy = sys.modules["numpy.random"]
        state = numpy.get_state()
        yield lambda: numpy.set_state(state)


def _accelerators() -> Iterator[tuple[str, Any]]:
    """Devices in use, and torch's modules for them: a vendor's own stands in torch, too, when it is registered."""
    here = torch.accelerator.current_accelerator()
    for name in {"cuda", "xpu", "mps", *([here.type] if here else [])}:
        module = getattr(torch, name, None)
        if module is not None and module.is_available() and getattr(module, "is_initialized", lambda: True)():
            yield name, module


def _device_random(module: Any) -> Callable[[], Any]:
    if hasattr(module, "get_rng_state_all"):
        states = module.get_rng_state_all()
        return lambda: module.set_rng_state_all(states)
    state = module.get_rng_state()
    return lambda: module.set_rng_state(state)


def _autograd() -> Iterator[Callable[[], Any]]:
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    algorithms, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    yield lambda: torch.set_grad_enabled(grad)
    yield lambda: torch.set_default_dtype(dtype)
    yield lambda: torch.use_deterministic_algorithms(algorithms, warn_only=warn_only)


def _autocast() -> Iterator[Callable[[], Any]]:
    cache = torch.is_autocast_cache_enabled()
    yield lambda: torch.set_autocast_cache_enabled(cache)
    for device in {"cpu", *(name for name, _ in _accelerators())}:
        yield _device_autocast(device)


def _device_autocast(device: str) -> Callable[[], None]:
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def restore() -> None:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)

    return restore
