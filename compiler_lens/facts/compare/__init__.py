"""What the compiler did differently: two recordings side by side, by what is computed."""

from __future__ import annotations

from itertools import zip_longest

from compiler_lens.facts.compare import around
from compiler_lens.facts.compare import kernels as launches
from compiler_lens.facts.compare.graphs import graph_changes
from compiler_lens.facts.compare.model import RecordingDiff, Verdict
from compiler_lens.facts.compare.programs import Compiled, compiled, pair_compilations, pair_programs
from compiler_lens.recording.model import Recording

__all__ = ["RecordingDiff", "diff"]


def diff(before: Recording, after: Recording) -> RecordingDiff:
    """Return what the compiler did differently in `after`. Swapped sides give the same, mirrored."""
    paired = pair_compilations(compiled(before), compiled(after))
    pairs, left, right = paired
    both: list[tuple[Compiled | None, Compiled | None]] = [*pairs, *zip_longest(left, ()), *zip_longest((), right)]
    known, timed = launches.DiffCache(), (launches.timed_launches(before), launches.timed_launches(after))
    programs = (each for compilations in both for each in pair_programs(*compilations))
    matched = (one for each in programs for one in launches.match(launches.ProgramPair.of(each, timed, known)))
    found = sorted(matched, key=lambda one: launches.where(one.first))
    return RecordingDiff(
        around.side_of(before),
        around.side_of(after),
        launches.folded(one for one in found if one.verdict is not Verdict.IDENTICAL),
        tuple(one.first for one in found if one.verdict is Verdict.IDENTICAL),
        graph_changes(pairs, known.aligned),
        around.frame_changes(paired, before, after),
        around.break_changes(before, after),
        around.recompile_changes(before, after),
        around.autotune_changes(before, after, pairs),
        around.cudagraph_changes(before, after, pairs),
        (*around.setting_changes(before, after), *around.input_changes(pairs)),
    )
