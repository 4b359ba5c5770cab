"""What the compiler did differently: two recordings side by side, by what is computed."""

from __future__ import annotations

from compiler_lens.facts.compare.around import (
    autotune_changes,
    break_changes,
    cudagraph_changes,
    frame_changes,
    input_changes,
    recompile_changes,
    setting_changes,
    side_of,
)
from compiler_lens.facts.compare.folding import folded, where
from compiler_lens.facts.compare.graphs import graph_changes
from compiler_lens.facts.compare.kernels import DiffCache, MatchResult, ProgramPair, match, timed_launches
from compiler_lens.facts.compare.model import RecordingDiff, Verdict
from compiler_lens.facts.compare.programs import Compiled, Paired, compiled, pair_compilations, pair_programs
from compiler_lens.recording.model import Recording

__all__ = ["RecordingDiff", "diff"]


def diff(before: Recording, after: Recording) -> RecordingDiff:
    """Return what the compiler did differently in `after`. Swapped sides give the same, mirrored."""
    paired = pair_compilations(compiled(before), compiled(after))
    known = DiffCache()
    found = sorted(_launches(before, after, paired, known), key=lambda one: where(one.case))
    same = [one for one in found if one.verdict is Verdict.IDENTICAL]
    return RecordingDiff(
        side_of(before),
        side_of(after),
        folded(one for one in found if one.verdict is not Verdict.IDENTICAL),
        tuple(one.case for one in same),
        tuple(one.case for one in same if one.retuned),
        graph_changes(paired[0], known.aligned),
        frame_changes(paired, before, after),
        break_changes(before, after),
        recompile_changes(before, after),
        autotune_changes(before, after, paired[0]),
        cudagraph_changes(before, after, paired[0]),
        (*setting_changes(before, after), *input_changes(paired[0])),
    )


def _launches(before: Recording, after: Recording, paired: Paired, known: DiffCache) -> list[MatchResult]:
    pairs, left, right = paired
    both: list[tuple[Compiled | None, Compiled | None]] = [*pairs]
    both += [(one, None) for one in left]
    both += [(None, one) for one in right]
    timed = timed_launches(before), timed_launches(after)
    found: list[MatchResult] = []
    for compilations in both:
        for programs in pair_programs(*compilations):
            found += match(ProgramPair.of(programs, timed, known))
    return found
