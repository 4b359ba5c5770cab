"""What every fault is held to: once all lenses are closed, torch is as it was."""

import gc
import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.backends import registry

import compiler_lens
from compiler_lens.capture import hooks
from compiler_lens.capture.torch_api import dynamo, inductor, structured_trace
from compiler_lens.capture.torch_api.places import Place
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import parse_journal


def places() -> list[Place]:
    """Every function of torch that a hook is for."""
    tables = hooks.DYNAMO_HOOKS, hooks.AOT_HOOKS, hooks.INDUCTOR_HOOKS, hooks.CODEGEN_HOOKS, hooks.RUNTIME_HOOKS
    return [hook.place for table in tables for hook in table]


def state_of_torch() -> dict[str, Any]:
    """All that a lens touches, to be compared by identity."""
    found: dict[str, Any] = {"registered": dynamo._EVERY_LENS in registry._COMPILER_FNS}
    for place in places():
        resolved = place.resolve()
        found[f"{place.module}.{place.name}"] = resolved and inspect.getattr_static(*resolved)
    for logger in (structured_trace.trace_logger(), inductor.cudagraph_logger()):
        settings = {key: vars(logger)[key] for key in ("level", "propagate", "disabled")}
        settings["isEnabledFor"] = getattr(vars(logger).get("isEnabledFor"), "__module__", None)
        # A LazyTraceHandler without a folder takes itself off at its first record, whoever listens.
        handlers = [h for h in logger.handlers if not isinstance(h, logging.StreamHandler)]
        found[logger.name] = settings, handlers, list(logger.filters), type(logger.handlers)
    return found


@pytest.fixture
def torch_now() -> Callable[[], dict[str, Any]]:
    return state_of_torch


@pytest.fixture(autouse=True, scope="package")
def _cache_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Inductor's caches are empty at first, whatever ran before on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(autouse=True)
def _no_trace_left() -> Iterator[None]:
    """The stricter form of the fixture that all other tests have."""
    before = state_of_torch()
    yield
    torch._dynamo.reset()  # torch keeps a backend, and so its lens, until then
    gc.collect()
    gc.freeze()  # what outlives a test need not be looked at after each one
    assert state_of_torch() == before


@pytest.fixture
def made(tmp_path: Path) -> Callable[[int], list[Callable[[torch.Tensor], torch.Tensor]]]:
    """Functions with code of their own, so that each is a frame of its own.

    In a file: torch wraps what is in none, and the wrapper is then the frame.
    """

    def make(count: int) -> list[Callable[[torch.Tensor], torch.Tensor]]:
        found: dict[str, Any] = {}
        source = "".join(f"def function_{number}(x):\n    return x.sin() + {number}\n" for number in range(count))
        (tmp_path / "made.py").write_text(source)
        exec(compile(source, str(tmp_path / "made.py"), "exec"), found)
        return [found[f"function_{number}"] for number in range(count)]

    return make


@pytest.fixture
def events() -> Callable[[compiler_lens.Lens], tuple[Event, ...]]:
    """The events that a lens has kept so far, without a reader between."""

    def of(lens: compiler_lens.Lens) -> tuple[Event, ...]:
        found, problems = parse_journal(lens._session.journal.contents(), "the journal")
        assert not problems
        return found

    return of


@pytest.fixture
def functions() -> Callable[[compiler_lens.Lens], list[str]]:
    """The functions that a lens saw compiled, in order."""

    def of(lens: compiler_lens.Lens) -> list[str]:
        return [c.function for c in lens.recording.compilations if c.outcome.value == "compiled"]

    return of
