"""What the compiler did differently: two recordings side by side, by what is computed."""

from __future__ import annotations

from itertools import zip_longest

from compiler_lens.facts.compare import around
from compiler_lens.facts.compare.graphs import graph_changes
from compiler_lens.facts.compare.kernels import (
    DiffCache,
    MatchResult,
    ProgramPair,
    folded,
    match,
    timed_launches,
    where,
)
from compiler_lens.facts.compare.model import RecordingDiff, Verdict
from compiler_lens.facts.compare.programs import Compiled, Paired, compiled, pair_compilations, pair_programs
from compiler_lens.recording.model import Recording

__all__ = ["RecordingDiff", "diff"]


def diff(before: Recording, after: Recording) -> RecordingDiff:
    """Return what the compiler did differently in `after`. Swapped sides give the same, mirrored."""
    paired = pair_compilations(compiled(before), compiled(after))
    known = DiffCache()
    found = sorted(_launches(before, after, paired, known), key=lambda one: where(one.case))
    return RecordingDiff(
        around.side_of(before),
        around.side_of(after),
        folded(one for one in found if one.verdict is not Verdict.IDENTICAL),
        tuple(one.case for one in found if one.verdict is Verdict.IDENTICAL),
        graph_changes(paired[0], known.aligned),
        around.frame_changes(paired, before, after),
        around.break_changes(before, after),
        around.recompile_changes(before, after),
        around.autotune_changes(before, after, paired[0]),
        around.cudagraph_changes(before, after, paired[0]),
        (*around.setting_changes(before, after), *around.input_changes(paired[0])),
    )


def _launches(before: Recording, after: Recording, paired: Paired, known: DiffCache) -> list[MatchResult]:
    pairs, left, right = paired
    both: list[tuple[Compiled | None, Compiled | None]] = [*pairs, *zip_longest(left, ()), *zip_longest((), right)]
    timed = timed_launches(before), timed_launches(after)
    programs = (each for compilations in both for each in pair_programs(*compilations))
    return [found for each in programs for found in match(ProgramPair.of(each, timed, known))]
