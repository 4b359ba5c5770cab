"""What differs around the kernels: frames, breaks, recompiles, tuning, CUDA graphs, settings, time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.compare.align import kth
from compiler_lens.facts.compare.model import (
    AutotuneChange,
    BreakChange,
    CudagraphChange,
    FrameChange,
    RecompileChange,
    SettingChange,
    Side,
)
from compiler_lens.facts.compare.programs import Compiled, Paired
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
    Graph,
    GraphStage,
    Outcome,
    Recording,
)


def side_of(recording: Recording) -> Side:
    """Return a recording in figures."""
    profile = recording.profiles[-1] if recording.profiles else None
    return Side(
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
        is_timed_well=profile is None or is_usable(doubts(profile, ())),
    )


# -- frames


def _of_own_frames(recording: Recording, side: Sequence[Compiled]) -> list[Compiled]:
    # Frames that Dynamo skipped share the compile id that stands for none.
    passed = {(c.compile_id, c.torch_function) for frame in coverage(recording).library for c in frame.compilations}
    return [one for one in side if (one.compilation.compile_id, one.compilation.torch_function) not in passed]


def frame_changes(paired: Paired, before: Recording, after: Recording) -> tuple[FrameChange, ...]:
    """Return compilations that only one side has, and those that ended differently; alike ones in one.

    Frames of torch and of other packages that Dynamo passes over are none that anybody waits for.
    """
    pairs, *rests = paired
    left, right = (_of_own_frames(*each) for each in zip((before, after), rests, strict=True))
    found: list[tuple[Compiled | None, Compiled | None]] = [
        *(pair for pair in pairs if pair[0].compilation.outcome is not pair[1].compilation.outcome),
        *((one, None) for one in left),
        *((None, one) for one in right),
    ]
    changes: dict[tuple[str, Outcome | None, Outcome | None], FrameChange] = {}
    for both in found:
        function = next(one.function for one in both if one)
        old, new = (one.compilation.outcome if one else None for one in both)
        before_ids, after_ids = ((one.compilation.compile_id,) if one else () for one in both)
        known = changes.setdefault((function, old, new), FrameChange(function, (), (), old, new))
        changes[function, old, new] = replace(
            known, before=(*known.before, *before_ids), after=(*known.after, *after_ids)
        )
    return tuple(sorted(changes.values(), key=_frame_weight))


def _frame_weight(change: FrameChange) -> tuple[str, int, list[str]]:
    outcomes = sorted(map(str, (change.outcome_before, change.outcome_after)))
    return change.function, -len(change.before or change.after), outcomes


# -- graph breaks


def break_changes(before: Recording, after: Recording) -> tuple[BreakChange, ...]:
    """Return breaks that are fixed, new, or happen more or less often: by the text of the line, not by its number."""
    left, right = list(break_cards(before)), list(break_cards(after))
    changes: list[BreakChange] = []
    for key in (_place, _function):  # a line that was edited and still breaks is not another break
        pairs, left, right = kth(left, right, key, key)
        changes += [BreakChange(a.gb_type, a.place, len(b.events), len(a.events)) for b, a in pairs]
    changes += [BreakChange(card.gb_type, card.place, len(card.events), 0) for card in left]
    changes += [BreakChange(card.gb_type, card.place, 0, len(card.events)) for card in right]
    return tuple(sorted((c for c in changes if c.before != c.after), key=_break_weight))


def _function(card: BreakCard) -> tuple[str, str]:
    return card.gb_type, card.place.function if card.place else ""


def _place(card: BreakCard) -> tuple[tuple[str, str], str]:
    return _function(card), card.place.code.strip() if card.place else ""


def _break_weight(change: BreakChange) -> tuple[object, ...]:
    at = change.place
    return -abs(change.before - change.after), change.gb_type, (at.function, at.code) if at else ("", "")


# -- recompiles


def recompile_changes(before: Recording, after: Recording) -> tuple[RecompileChange, ...]:
    """Return recompiles by function and cause, where there are more or fewer."""
    left, right = _recompiles(before), _recompiles(after)
    return tuple(
        RecompileChange(function, subject, left[function, subject], right[function, subject])
        for function, subject in sorted({*left, *right})
        if left[function, subject] != right[function, subject]
    )


def _recompiles(recording: Recording) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for report in recompile_reports(recording):
        for cause in report.causes:
            counts[report.function.name, cause.subject] += len(cause.changes)
    return counts


# -- tuning


def autotune_changes(
    before: Recording, after: Recording, pairs: Sequence[tuple[Compiled, Compiled]]
) -> tuple[AutotuneChange, ...]:
    """Return ops for which another choice won, and those tuned on one side only."""
    ids = {b.compilation.compile_id: a.compilation.compile_id for b, a in pairs}
    left = _tuned(before, {i: n for n, i in enumerate(ids)})
    right = _tuned(after, {i: n for n, i in enumerate(ids.values())})
    found: dict[tuple[object, ...], AutotuneChange] = {}
    for number, op, inputs in sorted({*left, *right}, key=repr):
        key = number, op, inputs
        for one, other in zip_longest(left[key], right[key], fillvalue=_Won()):
            names = _name(one.winner), _name(other.winner)
            if names[0] == names[1]:
                continue
            known = found.get((op, inputs, names))
            if known is None:
                change = AutotuneChange(op, inputs, one.winner, other.winner, 1, one.runs, other.runs)
            else:
                runs = known.before_runs or one.runs, known.after_runs or other.runs
                change = replace(known, times=known.times + 1, before_runs=runs[0], after_runs=runs[1])
            found[op, inputs, names] = change
    return tuple(found.values())


class _Won(Struct, frozen=True):
    winner: AutotuneChoice | None = None
    runs: Otherwise | None = None


_Tuned = defaultdict[tuple[int, str, tuple[str, ...]], list[_Won]]


def _tuned(recording: Recording, numbers: Mapping[CompileId, int]) -> _Tuned:
    made: _Tuned = defaultdict(list)
    others = run_otherwise(recording, Provenance.of(recording).lineages) if recording.autotunes else {}
    for index, result in enumerate(recording.autotunes):
        won = _Won(result.winner, others.get(index))
        made[numbers.get(result.compile_id, -1), result.op, result.inputs].append(won)
    return made


def _name(choice: AutotuneChoice | None) -> str:
    """What was chosen: a template's name holds a number, and its constants say which it is."""
    if choice is None:
        return ""
    return choice.name if choice.kind.is_library else f"{choice.kind} {choice.detail}"


# -- CUDA graphs


def cudagraph_changes(
    before: Recording, after: Recording, pairs: Sequence[tuple[Compiled, Compiled]]
) -> tuple[CudagraphChange, ...]:
    """Return compiled graphs for which CUDA graphs ended differently."""
    left, right = _outcomes(before), _outcomes(after)
    if not (left and right):  # a log does not have them
        return ()
    changes = []
    for b, a in pairs:
        ours, theirs = left[b.compilation.compile_id], right[a.compilation.compile_id]
        for direction in sorted({*ours, *theirs}, key=str):
            one, other = ours.get(direction), theirs.get(direction)
            if _state(one) != _state(other):
                changes.append(CudagraphChange(b.function, direction, one, other))
    return tuple(sorted(changes, key=lambda c: (c.function, str(c.direction))))


def _outcomes(recording: Recording) -> defaultdict[CompileId, dict[Direction | None, CudagraphOutcome]]:
    made: defaultdict[CompileId, dict[Direction | None, CudagraphOutcome]] = defaultdict(dict)
    for outcome in recording.cudagraphs:
        made[outcome.compile_id][outcome.direction] = outcome
    return made


def _state(outcome: CudagraphOutcome | None) -> object:
    if outcome is None or outcome.state is CudagraphState.NOT_REQUESTED:
        return None
    return outcome.state, outcome.partitions


# -- settings


def input_changes(pairs: Sequence[tuple[Compiled, Compiled]]) -> tuple[SettingChange, ...]:
    """Return what the first graph is given, where that has other shapes or dtypes: the cause of all that follows."""
    key = GraphStage.DYNAMO, 0
    traced = [both for both in pairs if all(key in one.graphs for one in both)]
    first = min(traced, key=lambda both: sorted(str(one.compilation.compile_id) for one in both), default=())
    if not first:
        return ()
    left, right = (_inputs(one.graphs[key]) for one in first)
    return tuple(
        SettingChange(f"input {n}", left[n], right[n]) for n in sorted({*left} & {*right}) if left[n] != right[n]
    )


# As Dynamo names what a graph is given: L_x_, L_kwargs_input_ids_, and what a module holds.
_INPUT = re.compile(r"L_(?!self_)(?:kwargs_)?(\w+?)_$")
_HELD = re.compile(r"_(?:parameters|buffers)_")


def _inputs(graph: Graph) -> dict[str, str]:
    given = [node for node in graph.nodes if node.op == "placeholder" and node.specs and not _HELD.search(node.target)]
    return {found[1]: ", ".join(map(str, node.specs)) for node in given if (found := _INPUT.match(node.target))}


def setting_changes(before: Recording, after: Recording) -> tuple[SettingChange, ...]:
    """Return what the compiler was asked for, and where it ran, as far as both sides say and that differs."""
    changes: list[SettingChange] = []
    for facts in (_asked, _environment):
        left, right = facts(before), facts(after)
        for name in sorted({*left, *right}, key=_telling) if left and right else ():
            one, other = left.get(name, ""), right.get(name, "")
            if one != other and (name != "threads" or (one and other)):
                changes.append(SettingChange(name, one, other))
    return tuple(changes)


# What is named first; then packages, then torch's settings, which have a dot in their names.
_FIRST = ("mode", "options", "backend", "dynamic", "torch", "triton", "device", "threads", "python", "platform")


def _telling(name: str) -> tuple[int, bool, str]:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), "." in name, name


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
