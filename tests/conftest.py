"""What every test is held to: it leaves torch as it found it."""

import logging
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_trace_left() -> Iterator[None]:
    """No handler, no hook and no compiled code stays behind a test."""
    yield
    torch = sys.modules.get("torch")
    if torch is None or "torch._dynamo" not in sys.modules:
        return
    import gc

    torch._dynamo.reset()
    gc.collect()
    if not gc.get_freeze_count():  # torch itself is a million objects, which need not be looked at after every test
        gc.freeze()
    left = [h for h in logging.getLogger("torch.__trace").handlers if type(h).__module__.startswith("compiler_lens")]
    assert not left, "a lens is still open: close it, or use it as a context manager"
    assert not hasattr(torch._dynamo.convert_frame.CatchErrorsWrapper.__call__, "__wrapped__"), "a hook is still there"


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
