"""What one compilation spends on us: CPU seconds in our hooks, and in texts that torch renders because we listen.

Every call of torch's `trace_structured()` and every step of our own hooks is timed by the thread's CPU clock, the
outermost one counts. A call that nobody wants counts as well, with what it costs to find that out.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from compiler_lens.capture.tap import Tap
from compiler_lens.lens import Lens

clock = time.thread_time


class Ledger:
    """CPU seconds by name, and how many of them were ours."""

    def __init__(self) -> None:
        self._where = threading.local()
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.seconds: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)
        self.ours = 0.0
        self.imports = 0.0  # parts of torch that a hook imports before the compilation does

    def timed(self, name: str, call: Callable[[], Any], *, ours: bool) -> Any:
        """Call, and note the time: under the outermost name, and as ours once."""
        outer = getattr(self._where, "depth", 0)
        inside_ours = getattr(self._where, "ours", False)
        self._where.depth, self._where.ours = outer + 1, ours or inside_ours
        start, imports = clock(), self.imports
        try:
            return call()
        finally:
            spent = clock() - start - (self.imports - imports)
            self._where.depth, self._where.ours = outer, inside_ours
            if ours and not inside_ours:
                self.ours += spent
            if outer == 0:
                self.seconds[name] += spent
                self.counts[name] += 1


def _record_name(name: str, metadata_fn: Callable[[], Any]) -> str:
    return str(metadata_fn()["name"]) if name == "artifact" else name


def _time_trace(ledger: Ledger) -> None:
    """Wrap torch's trace function wherever it was imported to; the lens must be open already, as it looks it up."""
    from torch._logging import _internal

    original = _internal.trace_structured

    def timed(name: str, metadata_fn: Any = dict, **others: Any) -> None:
        label = _record_name(name, metadata_fn)
        ledger.timed(label, lambda: original(name, metadata_fn, **others), ours=False)

    for module in list(sys.modules.values()):
        if getattr(module, "trace_structured", None) is original:
            module.trace_structured = timed


def _time_hooks(ledger: Ledger) -> None:
    safely, install = Tap.safely, Tap.install

    def timed_safely(tap: Tap, where: str, step: Callable[..., object], *arguments: Any) -> None:
        ledger.timed(f"hook: {where}", lambda: safely(tap, where, step, *arguments), ours=True)

    def timed_install(tap: Tap, hooks: Any) -> None:
        start = clock()
        try:
            install(tap, hooks)
        finally:
            ledger.imports += clock() - start

    Tap.safely, Tap.install = timed_safely, timed_install  # type: ignore[method-assign]


def open_accounts() -> Ledger:
    """Begin to time our hooks. To be called before the lens is opened, which puts them in."""
    ledger = Ledger()
    _time_hooks(ledger)
    return ledger


def keep_accounts(ledger: Ledger, lens: Lens, step: Callable[[], None]) -> dict[str, Any]:
    """Compile by calling the step; the figures of that call, and of another after `torch.compiler.reset()`.

    The second compilation finds the caches warm and all of torch imported and awake: the least that ours can hide in.
    """
    import torch

    _time_trace(ledger)
    first = _account(ledger, lens, step)
    torch.compiler.reset()
    return {**first, "again": _account(ledger, lens, step)}


def _account(ledger: Ledger, lens: Lens, step: Callable[[], None]) -> dict[str, Any]:
    ledger.clear()
    told, cpu = lens.overhead_seconds, time.process_time()
    step()
    cpu, told = time.process_time() - cpu, lens.overhead_seconds - told
    total = sum(ledger.seconds.values())
    return {
        "cpu": cpu - total,
        "hooks": ledger.ours,
        "rendering": total - ledger.ours,
        "told": told,
        "early_imports": ledger.imports,
        "names": {name: (ledger.counts[name], seconds) for name, seconds in ledger.seconds.items()},
    }
