"""What differs around the kernels: frames, breaks, recompiles, tuning, CUDA graphs, settings, time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.compare import model
from compiler_lens.facts.compare.align import kth
from compiler_lens.facts.compare.programs import Compiled, Paired
from compiler_lens.facts.compare.traced import Traced, traced_on_both_sides
from compiler_lens.facts.kernels.kernels import launch_count
from compiler_lens.facts.kernels.launch_costs import doubts, is_usable
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import Otherwise, run_otherwise
from compiler_lens.facts.program.coverage import coverage
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.facts.time.phases import phase_times
from compiler_lens.recording.model import (
    AutotuneChoice,
    CompileId,
    CudagraphOutcome,
    CudagraphState,
    Direction,
    GraphStage,
    Outcome,
    Recording,
)


def side_of(recording: Recording) -> model.Side:
    """Return a recording in figures."""
    profile = recording.profiles[-1] if recording.profiles else None
    return model.Side(
        kernels=len(recording.kernels),
        launches=launch_count(recording.kernels),
        graphs=len(recording.output_codes),
        phases=phase_times(recording.spans),
        files=sum(span.name == "compile_file" for span in recording.spans),
        microseconds=profile.microseconds if profile else None,
        spread=profile.spread if profile else 0.0,
        busy_microseconds=profile.busy_microseconds if profile else None,
        problems=len(recording.problems),
        unfinished=recording.unfinished,
        children_compiled=_children_compiled(recording),
        is_timed_well=profile is None or is_usable(doubts(profile, ())),
    )


def _children_compiled(recording: Recording) -> bool | None:
    known = {child.compiled for child in recording.children}
    return True if True in known else None if None in known else False


def frame_changes(paired: Paired, before: Recording, after: Recording) -> tuple[model.FrameChange, ...]:
    """Return compilations that only one side has, and those that ended differently; alike ones in one.

    Frames of torch and of other packages that Dynamo passes over are none that anybody waits for.
    """
    pairs, *rests = paired
    found: list[tuple[Compiled | None, Compiled | None]] = [
        pair for pair in pairs if pair[0].compilation.outcome is not pair[1].compilation.outcome
    ]
    for side, (recording, rest) in enumerate(zip((before, after), rests, strict=True)):
        # Frames that Dynamo skipped share the compile id that stands for none.
        covered = coverage(recording)
        library = (*covered.library, *covered.kept_out)
        passed = {(c.compile_id, c.torch_function) for frame in library for c in frame.compilations}
        own = (one for one in rest if (one.compilation.compile_id, one.compilation.torch_function) not in passed)
        found += [(None, one) if side else (one, None) for one in own]
    alike: defaultdict[tuple[str, Outcome | None, Outcome | None], list[list[CompileId]]]
    alike = defaultdict(lambda: [[], []])
    for both in found:
        function = next(one.function for one in both if one)
        old, new = (one.compilation.outcome if one else None for one in both)
        for ids, one in zip(alike[function, old, new], both, strict=True):
            if one:
                ids.append(one.compilation.compile_id)
    changes = [model.FrameChange(f, tuple(b), tuple(a), old, new) for (f, old, new), (b, a) in alike.items()]

    def weight(change: model.FrameChange) -> tuple[str, int, list[str]]:
        outcomes = sorted(map(str, (change.outcome_before, change.outcome_after)))
        return change.function, -len(change.before or change.after), outcomes

    return tuple(sorted(changes, key=weight))


def break_changes(before: Recording, after: Recording) -> tuple[model.BreakChange, ...]:
    """Return breaks that are fixed, new, or happen more or less often: by the text of the line, not by its number."""
    left, right = list(break_cards(before)), list(break_cards(after))
    here, there = traced_on_both_sides(before, after, (left, right))

    def weight(change: model.BreakChange) -> tuple[object, ...]:
        at = change.place
        return -abs(change.before - change.after), change.gb_type, (at.function, at.code) if at else ("", "")

    changes: list[model.BreakChange] = []
    for is_by_line in (True, False):  # a line that was edited and still breaks is not another break
        keys = (_key_of(side, is_by_line=is_by_line) for side in (here, there))
        pairs, left, right = kth(left, right, *keys)
        changes += [model.BreakChange(a.gb_type, a.place, len(b.events), len(a.events)) for b, a in pairs]
    changes += [model.BreakChange(c.gb_type, c.place, len(c.events), 0, there.came_to(c, here)) for c in left]
    changes += [model.BreakChange(c.gb_type, c.place, 0, len(c.events), here.came_to(c, there)) for c in right]
    return tuple(sorted((c for c in changes if c.before != c.after), key=weight))


def _key_of(side: Traced, *, is_by_line: bool) -> Callable[[BreakCard], tuple[str, ...]]:
    def key(card: BreakCard) -> tuple[str, ...]:
        at = card.place
        return card.gb_type, side.function(at) if at else "", at.code.strip() if at and is_by_line else ""

    return key


def recompile_changes(before: Recording, after: Recording) -> tuple[model.RecompileChange, ...]:
    """Return recompiles by function and cause, where there are more or fewer."""
    counts: tuple[Counter[tuple[str, str]], ...] = Counter(), Counter()
    for side, recording in zip(counts, (before, after), strict=True):
        for report in recompile_reports(recording):
            for cause in report.causes:
                side[report.function.name, cause.subject] += cause.count
    left, right = counts
    return tuple(
        model.RecompileChange(*key, left[key], right[key]) for key in sorted({*left, *right}) if left[key] != right[key]
    )


_Won = tuple[AutotuneChoice | None, Otherwise | None]  # what won for an op; launches of it that are no such choice


def autotune_changes(
    before: Recording, after: Recording, pairs: Sequence[tuple[Compiled, Compiled]]
) -> tuple[model.AutotuneChange, ...]:
    """Return ops for which another choice won, and those tuned on one side only."""
    ids = {b.compilation.compile_id: a.compilation.compile_id for b, a in pairs}
    tuned: list[defaultdict[tuple[int, str, tuple[str, ...]], list[_Won]]] = []
    for recording, own in ((before, ids), (after, ids.values())):
        numbers = {compile_id: number for number, compile_id in enumerate(own)}
        others = run_otherwise(recording, Provenance.of(recording).lineages) if recording.autotunes else {}
        tuned.append(defaultdict(list))
        for index, result in enumerate(recording.autotunes):
            key = numbers.get(result.compile_id, -1), result.op, result.inputs
            tuned[-1][key].append((result.winner, others.get(index)))
    found: dict[tuple[object, ...], model.AutotuneChange] = {}
    for key in sorted({*tuned[0], *tuned[1]}, key=repr):
        nothing: _Won = None, None
        for (won, runs), (other, other_runs) in zip_longest(tuned[0][key], tuned[1][key], fillvalue=nothing):
            names = _name(won), _name(other)
            if names[0] == names[1]:
                continue
            alike = (*key[1:], names)
            known = found.get(alike, model.AutotuneChange(*key[1:], won, other, 0))
            known_runs = known.before_runs or runs, known.after_runs or other_runs
            found[alike] = replace(known, times=known.times + 1, before_runs=known_runs[0], after_runs=known_runs[1])
    return tuple(found.values())


def _name(choice: AutotuneChoice | None) -> str:
    """What was chosen: a template's name holds a number, and its constants say which it is."""
    if choice is None:
        return ""
    return choice.name if choice.kind.is_library else f"{choice.kind} {choice.detail}"


def cudagraph_changes(
    before: Recording, after: Recording, pairs: Sequence[tuple[Compiled, Compiled]]
) -> tuple[model.CudagraphChange, ...]:
    """Return compiled graphs for which CUDA graphs ended differently."""

    def state(outcome: CudagraphOutcome | None) -> object:
        is_asked = outcome is not None and outcome.state is not CudagraphState.NOT_REQUESTED
        return (outcome.state, outcome.partitions) if outcome and is_asked else None

    known: tuple[dict[tuple[CompileId, Direction | None], CudagraphOutcome], ...] = tuple(
        {(one.compile_id, one.direction): one for one in side.cudagraphs} for side in (before, after)
    )
    if not all(known):  # a log does not have them
        return ()
    changes: list[model.CudagraphChange] = []
    for b, a in pairs:
        for direction in (None, *Direction):
            one = known[0].get((b.compilation.compile_id, direction))
            other = known[1].get((a.compilation.compile_id, direction))
            if state(one) != state(other):
                changes.append(model.CudagraphChange(b.function, direction, one, other))
    return tuple(sorted(changes, key=lambda c: (c.function, str(c.direction))))


# As Dynamo names what a graph is given: L_x_, L_kwargs_input_ids_, and what a module holds.
_INPUT = re.compile(r"L_(?!self_)(?:kwargs_)?(\w+?)_$")
_HELD = re.compile(r"_(?:parameters|buffers)_")


def input_changes(pairs: Sequence[tuple[Compiled, Compiled]]) -> tuple[model.SettingChange, ...]:
    """Return what the first graph is given, where that has other shapes or dtypes: the cause of all that follows."""
    key = GraphStage.DYNAMO, 0
    traced = [both for both in pairs if all(key in one.graphs for one in both)]
    first = min(traced, key=lambda both: sorted(str(one.compilation.compile_id) for one in both), default=())
    sides: list[dict[str, str]] = []
    for one in first:
        given = (node for node in one.graphs[key].nodes if node.op == "placeholder" and node.specs)
        named = ((_INPUT.match(node.target), node.specs) for node in given if not _HELD.search(node.target))
        sides.append({found[1]: ", ".join(map(str, specs)) for found, specs in named if found})
    if not sides:
        return ()
    left, right = sides
    shared = sorted(left.keys() & right.keys())
    return tuple(model.SettingChange(f"input {n}", left[n], right[n]) for n in shared if left[n] != right[n])


# What is named first; then packages, then torch's settings, which have a dot in their names.
_FIRST = (
    "stance",
    "mode",
    "options",
    "backend",
    "dynamic",
    "torch",
    "triton",
    "device",
    "threads",
    "python",
    "platform",
)


def setting_changes(before: Recording, after: Recording) -> tuple[model.SettingChange, ...]:
    """Return what the compiler was asked for, and where it ran, as far as both sides say and that differs."""

    def telling(name: str) -> tuple[int, bool, str]:
        return _FIRST.index(name) if name in _FIRST else len(_FIRST), "." in name, name

    changes: list[model.SettingChange] = []
    for facts in (_stances, _asked, _environment):
        left, right = facts(before), facts(after)
        for name in sorted({*left, *right}, key=telling) if left and right else ():
            one, other = left.get(name, ""), right.get(name, "")
            if one != other and (name != "threads" or (one and other)):
                changes.append(model.SettingChange(name, one, other))
    return tuple(changes)


def _stances(recording: Recording) -> dict[str, str]:
    """Those that were taken. A log tells of none; where nothing entered the compiler, there is no environment."""
    is_told = bool(recording.stances or recording.environment.torch)
    names = sorted({stance.name for stance in recording.stances})
    return {"stance": ", ".join(names) or "default"} if is_told else {}


def _asked(recording: Recording) -> dict[str, str]:
    """Of a log nobody knows the mode."""
    told = [c for c in recording.compilations if c.backend or c.mode != "default"]
    values = {
        "mode": {c.mode for c in told},
        "options": {f"{name}={value}" for c in told for name, value in c.options.items()},
        "backend": {c.backend for c in told if c.backend},
        "dynamic": {str(c.dynamic) for c in told if c.dynamic is not None},
    }
    return {name: ", ".join(sorted(value)) for name, value in values.items() if value}


def _environment(recording: Recording) -> dict[str, str]:
    environment = recording.environment
    if not environment.torch:
        return {}
    facts = {name: getattr(environment, name) for name in ("torch", "triton", "device", "python", "platform")}
    facts["threads"] = "" if environment.threads is None else str(environment.threads)
    packages = {name: v for name, v in sorted(environment.versions.items()) if name not in facts}
    return {name: v for name, v in {**facts, **packages, **dict(sorted(environment.config.items()))}.items() if v}
