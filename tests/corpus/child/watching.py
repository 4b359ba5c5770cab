"""What torch's compiler does while a test runs, seen without a lens: graphs, output codes, graph breaks, counters."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Counters of benchmarks: what is measured varies, and so does what is looked up.
_UNSTEADY = ("benchmarking.", "select_algorithm_autotune")
_AOT_IDS = re.compile(
    r"'\d+_(forward|backward|inference)'"
)  # counted in a process: of what earlier tests compiled, too
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\b\d{9,}\b|\b[0-9a-f]{32,}\b")


@dataclass
class Seen:
    """What one test made of torch's compiler."""

    graphs: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)


class KeptCounters(defaultdict[str, Any]):
    """torch's table of counters, which tests clear when they like: what was cleared is kept."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.kept: Counter[str] = Counter()

    def clear(self) -> None:
        self.kept.update(self._flat())
        super().clear()

    def taken(self) -> dict[str, int]:
        """Return all that was counted since the last call, and begin anew."""
        self.clear()
        kept, self.kept = self.kept, Counter()
        return {name: count for name, count in sorted(kept.items()) if count}

    def _flat(self) -> dict[str, int]:
        return {
            normal(f"{kind}: {name}"): count
            for kind, counts in self.items()
            for name, count in counts.items()
            if not str(name).startswith(_UNSTEADY) and isinstance(count, int)
        }


class Watch:
    """Wraps three functions of torch and replaces its counters, for the life of the process."""

    def __init__(self) -> None:
        import torch._dynamo
        from torch._dynamo.output_graph import OutputGraph
        from torch._dynamo.symbolic_convert import InstructionTranslatorBase
        from torch._inductor.graph import GraphLowering

        self.seen = Seen()
        self.counters = _replaced_counters(torch._dynamo.utils.counters)
        _wrap(OutputGraph, "call_user_compiler", self._note_graph)
        _wrap(InstructionTranslatorBase, "log_graph_break", self._note_break)
        original = GraphLowering.save_output_code

        def save_output_code(code: str) -> None:
            self.seen.codes.append(digest(code))
            original(code)

        GraphLowering.save_output_code = staticmethod(save_output_code)

    def begin(self) -> Seen:
        """Begin to watch a test."""
        self.counters.taken()
        self.seen = Seen()
        return self.seen

    def _note_graph(self, _output: Any, gm: Any, *_others: Any, **_named: Any) -> None:
        self.seen.graphs.append(digest(str(gm.graph)))

    def _note_break(self, _translator: Any, _options: Any, reason: str = "", exc: Any = None, **_named: Any) -> None:
        # The first thing that torch asks itself: an exception on its way through callers comes by again.
        if not getattr(exc, "logged", False):
            self.seen.breaks.append(normal(str(getattr(exc, "gb_type", None) or reason)))


def normal(text: str) -> str:
    """Return a text as another process would write it: no addresses, no temporary paths, no hashes."""
    folders = {tempfile.gettempdir(), os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()}
    for folder in folders:
        text = re.sub(re.escape(folder) + r"[\w./+-]*", "TMP", text)
    return _NUMBERS.sub("#", _AOT_IDS.sub(r"'#_\1'", text))


def digest(text: str) -> str:
    """Return a short name of a text: the same for what another process would write alike."""
    return hashlib.sha256(normal(text).encode()).hexdigest()[:16]


def _replaced_counters(old: defaultdict[str, Any]) -> KeptCounters:
    new = KeptCounters(old.default_factory, old)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("counters") is old:
            module.counters = new  # type: ignore[attr-defined]
    return new


def _wrap(holder: type, name: str, note: Callable[..., None]) -> None:
    """Call `note` before each call of a method. Dynamo, which is at work there, sees neither."""
    from torch._dynamo.eval_frame import skip_code

    original = getattr(holder, name)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return original(*args, **kwargs)

    for function in (watched, note, normal, digest):
        skip_code(getattr(function, "__func__", function).__code__)
    setattr(holder, name, watched)
