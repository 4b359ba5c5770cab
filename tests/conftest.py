"""What every test is held to: it leaves torch as it found it. And what the run says last: what it did not try."""

import contextlib
import gc
import importlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import pytest

# torch would compile a program for each extension of the processor, in every process with caches of its own: 5 s.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")  # what the processor says of itself is enough

# How to get what the tests of a marker need.
_NEEDS = {"browser": "browser tests: apt-get install chromium", "gpu": "GPU tests: need a CUDA device"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Say after pytest's own last line what was skipped, and how to get it."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and (skipped := reporter.stats.get("skipped")):
        reporter.write_line(not_tested(skipped))


def not_tested(skipped: Iterable[pytest.CollectReport | pytest.TestReport]) -> str:
    """Return one line on skipped tests, the kinds that a machine can be made to run first."""
    kinds = Counter(_kind(report) for report in skipped)
    known = [kind for kind in _NEEDS.values() if kind in kinds]
    others = sorted(kind for kind in kinds if kind not in known)
    return "not tested: " + "; ".join(f"{kinds[kind]} {kind}" for kind in known + others)


def _kind(report: pytest.CollectReport | pytest.TestReport) -> str:
    unit = "module"
    if isinstance(report, pytest.TestReport):
        unit = "test"
        for marker, kind in _NEEDS.items():
            if marker in report.keywords:
                return kind
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return f"{unit}: {reason.removeprefix('Skipped: ')}"


@pytest.fixture(autouse=True)
def _no_trace_left() -> Iterator[None]:
    """No handler, no hook and no compiled code stays behind a test."""
    with _guards_untimed():
        yield
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or not hasattr(dynamo, "reset"):
        return
    if _has_compiled(dynamo) or _lenses_heard() or _is_hooked(dynamo):
        dynamo.reset()
        gc.collect()
        gc.freeze()  # what outlives a test, torch's million objects above all, need not be looked at after each one
    assert not _lenses_heard(), "a lens is still open: close it, or use it as a context manager"
    assert not _is_hooked(dynamo), "a hook is still there"


def _guards_untimed() -> contextlib.AbstractContextManager[None]:
    """Two thirds of a small function's compilation; imports no torch where no test has so far."""
    if "torch._dynamo.guards" not in sys.modules:
        return contextlib.nullcontext()
    untimed: contextlib.AbstractContextManager[None] = importlib.import_module(
        "compiler_lens.capture.torch_api.measuring"
    ).guards_untimed()
    return untimed


def _has_compiled(dynamo: ModuleType) -> bool:
    """Whether torch.compile was called, or any frame looked at, since the last reset, which clears all three."""
    frames = dynamo.convert_frame
    return bool(dynamo.eval_frame.cached_backends or frames.input_codes.seen or frames.FRAME_COUNTER)


def _lenses_heard() -> list[logging.Handler]:
    """The handlers of lenses that are open, or that nobody has collected yet."""
    handlers = logging.getLogger("torch.__trace").handlers
    return [handler for handler in handlers if type(handler).__module__.startswith("compiler_lens")]


def _is_hooked(dynamo: ModuleType) -> bool:
    return hasattr(dynamo.convert_frame.CatchErrorsWrapper.__call__, "__wrapped__")


@pytest.fixture
def calls_of() -> Callable[[Callable[[], object]], int]:
    """Counts the calls that a step makes, of Python and of built-in functions: growth without a clock."""

    def count(step: Callable[[], object]) -> int:
        calls = 0

        def watch(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(watch)
        try:
            step()
        finally:
            sys.setprofile(before)
        return calls

    return count
