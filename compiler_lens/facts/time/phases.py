"""Where compile time went: the self time of torch's timed events, gathered into phases that a user knows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from compiler_lens.recording.model import CompileId, Span
from compiler_lens.recording.torch_names import LAZY_BACKWARD_SPANS, WORKER_SPANS, Phase, phase_of


class PhaseSeconds(Struct, frozen=True):
    """Compile time by phase; the total is that of forward and backward."""

    total_seconds: float | None  # None: the recording has no timed events, and these times say nothing
    forward: Mapping[Phase, float]
    backward: Mapping[Phase, float]  # only of backwards that were compiled lazily, at their first call
    parallel_seconds: float  # of compiler workers, which ran beside all this: not in the total

    @property
    def timed(self) -> bool:
        """Whether the recording has timed events."""
        return self.total_seconds is not None

    @property
    def forward_seconds(self) -> float:
        """Seconds until the forward was compiled."""
        return sum(self.forward.values())

    @property
    def backward_seconds(self) -> float:
        """Seconds of lazily compiled backwards."""
        return sum(self.backward.values())

    @property
    def total(self) -> float:
        """Seconds of compile time in all."""
        return self.total_seconds or 0.0

    @property
    def both(self) -> tuple[tuple[Phase, float], ...]:
        """Seconds per phase, forward and backward together, the longest first."""
        sums = {p: self.forward.get(p, 0.0) + self.backward.get(p, 0.0) for p in Phase}
        return tuple(sorted(((p, s) for p, s in sums.items() if s > 0), key=lambda item: -item[1]))


def phase_times(spans: Iterable[Span]) -> PhaseSeconds:
    """Return compile seconds by phase, of a whole recording's spans or of some compilations'."""
    forward: dict[Phase, float] = defaultdict(float)
    backward: dict[Phase, float] = defaultdict(float)
    roots: dict[tuple[int, CompileId | None], str] = {}
    latest: dict[int, str] = {}
    parallel, timed = 0.0, False
    for span in sorted(spans, key=lambda s: (s.start, s.depth)):
        owner = (span.thread, span.compile_id)
        if span.depth == 0:
            roots[owner] = latest[span.thread] = span.name
        # In a log all threads look like one, and a worker's event stands, without an id, inside of some compilation.
        root = roots.get(owner) or latest.get(span.thread, "")
        if span.compile_id is None and root in WORKER_SPANS:
            parallel += span.self_seconds
            continue
        timed = True
        (backward if root in LAZY_BACKWARD_SPANS else forward)[phase_of(span.name)] += span.self_seconds
    total = sum(forward.values()) + sum(backward.values()) if timed else None
    return PhaseSeconds(total, dict(forward), dict(backward), parallel)
