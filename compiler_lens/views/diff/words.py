"""The words for what became of launches from one recording to the other, in what they differ, and for their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compiler_lens.facts.compare.model import (
    Aspect,
    Case,
    Difference,
    KernelChange,
    LaunchRef,
    MatchMethod,
    RecordingDiff,
    Times,
    Verdict,
)  # fmt: skip
from compiler_lens.recording.model import KernelKind
from compiler_lens.views import words
from compiler_lens.views.text import plural, times

VERDICTS: Mapping[Verdict, str] = {verdict: verdict.value for verdict in Verdict}

METHODS: Mapping[MatchMethod | None, str] = {
    MatchMethod.SOURCE: "same code",
    MatchMethod.ORIGINS: "same nodes of the graph",
    MatchMethod.OVERLAP: "nodes of the graph in common",
    MatchMethod.OPS: "same ops and shapes, other nodes",
    None: "",
}

# In what two launches differ.
ASPECTS: Mapping[Aspect, str] = {
    **{aspect: aspect.value for aspect in Aspect},
    Aspect.FUSED: "fused with it",
    Aspect.REDUCTION: "loops",
    Aspect.ACCESS: "memory accesses",
}

CONSTANTS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")  # of a template's constants, those that a reader looks for first
NOTHING_ELSE = "nothing else that the compiler did differs"
NO_TIMES = "Kernel times need a profile on both sides: lens.profile(…), or compiler-lens profile"

_SHAPES: Mapping[str, str] = {
    "pointwise": "pointwise kernels",
    "reduction": "reductions",
    "persistent_reduction": "persistent reductions",
    "template": "templates",
}
_KINDS = frozenset(kind.value for kind in KernelKind)
_LONGEST = 60  # of a value
_VERDICT = 32  # columns that two lines of names leave for what became of them
_SHOWN = 3  # differences of one change, told in one line
_WHOLE = 100  # microseconds from which on their tenths say nothing
_ARROW = "→"


def kernels_line(d: RecordingDiff) -> str:
    """Return `No kernel differs: 24 kernels, 31 launches, all identical`, or how many are what."""
    retuned = f"; {len(d.retuned):,} autotuned differently" if d.retuned else ""
    if d.kernels:
        counts = ", ".join(f"{n:,} {what}" for what, n in launch_counts(d))
        return f"Kernel launches {d.before.launches:,} {_ARROW} {d.after.launches:,}: {counts}{retuned}"
    if not d.before.launches:
        return "No kernel differs: neither side has one"
    kernels = f"{plural(d.before.kernels, 'kernel')}, {plural(len(d.identical), 'launch', 'launches')}"
    return f"Same kernels{retuned}: {kernels}" if retuned else f"No kernel differs: {kernels}, all identical"


def launch_counts(d: RecordingDiff) -> list[tuple[str, int]]:
    """Return how many launches are what: identical, with the same code in another configuration, changed, …"""
    counts: Counter[Verdict] = Counter()
    for change in d.kernels:
        launches = (sum(len(case.before) for case in change.cases), sum(len(case.after) for case in change.cases))
        counts[Verdict.IDENTICAL if is_configuration(change) else change.verdict] += max(launches)
    tuned = counts.pop(Verdict.IDENTICAL, 0)
    listed = [(VERDICTS[Verdict.IDENTICAL], len(d.identical))]
    listed += [("with the same code in another configuration", tuned)] if tuned else []
    return listed + [(VERDICTS[v], counts[v]) for v in Verdict if counts[v]]


def verdict(change: KernelChange) -> str:
    """Return what became of the launches of a change, in a word or two."""
    return "other configuration" if is_configuration(change) else VERDICTS[change.verdict]


def retuned_line(d: RecordingDiff) -> str:
    """Return what `autotuned differently` means."""
    many = plural(len(d.retuned), "identical launch", "identical launches")
    return f"{many} run with another configuration: of the same candidates, timing chose another one"


def change_line(change: KernelChange, room: int = 999) -> str:
    """Return one change: how often, of what, into what, and in what they differ; names have the room that there is."""
    return f"{change_words(change, room)}{microseconds(change.times)}"


def change_words(change: KernelChange, room: int = 999) -> str:
    """Return the same without its time."""
    case, many = change.first, len(change.cases)
    one_side = case.before or case.after
    if change.verdict in (Verdict.ADDED, Verdict.REMOVED):
        what = f"{VERDICTS[change.verdict]} {_joined(one_side, room)}"
    elif many > 1 and is_configuration(change):
        what = _SHAPES.get(one_side[0].shape, f"{words.KERNEL_KINDS[one_side[0].kind]} kernels")
    else:
        what = names(case, room)
    # Where one name is all that is told, the others are counted, not multiplied.
    of_several = _ARROW not in what and not is_configuration(change)
    if of_several and len({_joined(case.before or case.after) for case in change.cases}) > 1:
        what = f"{what} and {many - 1:,} more"
    elif many > 1:
        what = f"{times(many)} {what}"
    return f"{what}{_why(change)}"


def _why(change: KernelChange) -> str:
    if is_configuration(change):
        if len(change.cases) == 1:
            return f": {differences(change.differences)}"
        listed = {(list(Aspect).index(d.aspect), d.name) for case in change.cases for d in case.differences}
        return f": same code, other {', '.join(name for _, name in sorted(listed))}"
    if change.verdict in (Verdict.SPLIT, Verdict.MERGED, Verdict.REGROUPED):
        moved = _ops(sorted({d.name for d in change.first.differences if d.aspect is Aspect.MOVED}))
        return f" ({VERDICTS[change.verdict]}{f': {moved} moved' if moved else ''})"
    found = change.differences or tuple(d for d in change.first.differences if d.aspect is Aspect.KIND)
    why = _sizes(change) or differences(found)
    return f": {why}" if why else ""


def names(case: Case, room: int = 999) -> str:
    """Return what a case has before and after; one name, if it kept it. Of many names each has less room."""
    shown = min(len(case.before), _SHOWN) + min(len(case.after), _SHOWN)
    room = min(room, (4 * room - _VERDICT) // shown)
    sides = [_joined(side, room) for side in (case.before, case.after) if side]
    if len(case.before) == len(case.after) == 1:
        (stem, _, number), (other, _, other_number) = (
            one.kernel.rpartition("_") for one in (case.before[0], case.after[0])
        )
        if stem == other and number.isdigit() and number != other_number:
            return f"{sides[0]} {_ARROW} _{other_number}"
    return f" {_ARROW} ".join(dict.fromkeys(sides))


def _joined(side: Sequence[LaunchRef], room: int = 999) -> str:
    """`extern_kernels.mm + triton_poi_fused_add_3`; a long name is cut in the middle, its number tells it apart."""
    tail = room // 4
    cut = (
        one.kernel if len(one.kernel) <= room else f"{one.kernel[: room - tail - 1]}…{one.kernel[-tail:]}"
        for one in side[:_SHOWN]
    )  # fmt: skip
    return " + ".join(cut) + (" + …" if len(side) > _SHOWN else "")


def is_configuration(change: KernelChange) -> bool:
    """Return whether the code is the same, run with another configuration."""
    return change.method is MatchMethod.SOURCE and set(change.aspects) <= {Aspect.TILING, Aspect.WARPS}


def grouping(case: Case) -> str:
    """Return what became of kernels that are others in number, by their ops: `_log_softmax + sum → one kernel`."""
    if len(case.before) == len(case.after) or not (case.before and case.after):
        return ""
    return f" {_ARROW} ".join(
        " + ".join(_ops(one.ops) or one.kernel for one in side) if len(side) > 1 else "one kernel"
        for side in (case.before, case.after)
    )


def case_names(case: Case) -> str:
    """Return where a case stands: its compilation and pass on each side."""
    first = (case.before or case.after)[0]
    return f"[{first.compile_id}] {words.PASSES[first.direction]}"


# -- times


def microseconds(t: Times | None) -> str:
    """Return `; 40.1 → 31.2 µs`, and if that is no more than noise."""
    return f"; {spent(t)}{'' if t.above_noise else ' (not above noise)'}" if t else ""


def spent(t: Times) -> str:
    """Return `40.1 → 31.2 µs`."""
    before, after = amounts(t)
    return f"{before} {_ARROW} {after} µs"


def amounts(t: Times) -> tuple[str, str]:
    """Return both times in microseconds, written alike."""
    digits = 0 if min(t.before, t.after) >= _WHOLE else 1
    return f"{t.before:,.{digits}f}", f"{t.after:,.{digits}f}"


def gain(t: Times) -> str:
    """Return `21 % less`; nothing is said that noise could say."""
    if not t.above_noise:
        return "not above noise"
    if not t.before:
        return "none before"
    return f"{abs(t.gain) / t.before * 100:.0f} % {'less' if t.gain > 0 else 'more'}"


def timed_words(d: RecordingDiff) -> str:
    """Return which launches these times are of, where not all were timed on both sides."""
    if all(timed == there for timed, there in d.timed_launches):
        return ""
    before, after = (f"{timed:,} of {there:,}" for timed, there in d.timed_launches)
    return f"; only of launches timed on both sides, {before} {_ARROW} {after}"


def idle(d: RecordingDiff) -> str:
    """Return `; idle 1,802 → 629 µs, as CUDA graphs launch the kernels`: what the kernels do not explain of a call."""
    waited = d.idle_times
    if not (waited and waited.above_noise):
        return ""
    before, after = d.captured
    why = ""
    if before < after and waited.gain > 0:
        why = ", as CUDA graphs launch the kernels"
    elif before > after and waited.gain < 0:
        why = ", as CUDA graphs no longer launch the kernels"
    return f"; idle {spent(waited)}{why}"


# -- in what launches differ


def _sizes(change: KernelChange) -> str:
    """`sizes 8 → 24`, where all that differs follows from that."""
    shapes = [d for case in change.cases for d in case.differences if d.aspect is Aspect.SIZES]
    if not shapes or not set(change.aspects) <= {Aspect.SIZES, Aspect.ACCESS, Aspect.TILING, Aspect.WARPS}:
        return ""
    dims: dict[str, None] = {}
    for d in shapes:
        before, after = (value.strip("[]").split(", ") for value in (d.before, d.after))
        if len(before) == len(after):
            pairs = zip(before, after, strict=True)
            dims.update(dict.fromkeys(f"{one} {_ARROW} {other}" for one, other in pairs if one != other))
    return f"sizes {_first(dims)}" if dims else "other sizes"


def differences(found: Iterable[Difference], most: int = _SHOWN) -> str:
    """Return `XBLOCK 512 → 128, num_warps 4 → 8`: the telling ones first."""
    listed = [d for d in found if d.aspect is not Aspect.TEMPLATE or (d.before and d.after) or d.name in CONSTANTS]
    if any(d.aspect is Aspect.KIND for d in listed):
        listed = [d for d in listed if d.aspect in (Aspect.KIND, Aspect.FUSED, Aspect.TEMPLATE, Aspect.DTYPE)]
    listed.sort(key=lambda d: (list(Aspect).index(d.aspect), d.name not in CONSTANTS or CONSTANTS.index(d.name) - 9))
    return _first(dict.fromkeys(filter(None, map(difference, listed))), most)


def difference(d: Difference) -> str:
    """Return one difference in words."""
    before, after = (_value(d, value) for value in (d.before, d.after))
    match d.aspect:
        case Aspect.FUSED:
            parts = [f"no longer {before}" if before else "", f"also {after}" if after else ""]
            return ", ".join(filter(None, parts))
        case Aspect.MOVED:
            return f"{words.op_name(d.name)} moved from {d.before} to {d.after}"
        case Aspect.KIND if "." in d.before and "." in d.after:
            return ""  # two functions of a library: their names say it
        case Aspect.CODE:
            return "other code"
        case Aspect.ACCESS if not d.name:
            return "other memory accesses"
    name = f"{d.name} " if d.name else ""
    return f"{name}{before} {_ARROW} {after}" if before and after else f"{name}{before or after}"


def _value(d: Difference, value: str) -> str:
    if d.aspect in (Aspect.OPS, Aspect.FUSED):
        return _ops(value.split())
    if d.aspect is Aspect.KIND:
        if value in _KINDS:
            return words.KERNEL_KINDS[KernelKind(value)]
        return words.KERNEL_KINDS[KernelKind.EXTERN] if "." in value else value  # a function's name, or a language's
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def _ops(targets: Iterable[str]) -> str:
    """Ops by their short names, each once."""
    counts = Counter(words.op_name(target) for target in targets)
    return _first(f"{op} {times(n)}" if n > 1 else op for op, n in counts.items())


def _first(items: Iterable[str], most: int = _SHOWN) -> str:
    listed = list(items)
    return ", ".join(listed[:most]) + (", …" if len(listed) > most else "")
