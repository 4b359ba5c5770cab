"""The words for what became of launches from one recording to the other, and for their times."""

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
)
from compiler_lens.recording.model import KernelKind
from compiler_lens.views import words
from compiler_lens.views.text import plural, times

VERDICTS: Mapping[Verdict, str] = {
    Verdict.IDENTICAL: "identical",
    Verdict.CHANGED: "changed",
    Verdict.SPLIT: "split",
    Verdict.MERGED: "merged",
    Verdict.REGROUPED: "regrouped",
    Verdict.ADDED: "added",
    Verdict.REMOVED: "removed",
}

METHODS: Mapping[MatchMethod, str] = {
    MatchMethod.SOURCE: "same code",
    MatchMethod.ORIGINS: "same nodes of the graph",
    MatchMethod.OVERLAP: "nodes of the graph in common",
    MatchMethod.OPS: "same ops and shapes, other nodes",
}

# In what two launches differ.
ASPECTS: Mapping[Aspect, str] = {
    Aspect.KIND: "kind",
    Aspect.OPS: "ops",
    Aspect.FUSED: "fused with it",
    Aspect.MOVED: "moved",
    Aspect.SIZES: "sizes",
    Aspect.DTYPE: "dtype",
    Aspect.REDUCTION: "loops",
    Aspect.TEMPLATE: "template",
    Aspect.TILING: "tiling",
    Aspect.WARPS: "warps",
    Aspect.ACCESS: "memory accesses",
    Aspect.CODE: "code",
}

CONSTANTS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")  # of a template's constants, those that a reader looks for first
_KINDS = frozenset(kind.value for kind in KernelKind)
_LONGEST = 60  # of a value
NOTHING_ELSE = "nothing else that the compiler did differs"
NO_TIMES = "Kernel times need a profile on both sides: lens.profile(…), or compiler-lens profile"

_SHAPES: Mapping[str, tuple[str, str]] = {
    "pointwise": ("pointwise kernel", "pointwise kernels"),
    "reduction": ("reduction", "reductions"),
    "persistent_reduction": ("persistent reduction", "persistent reductions"),
    "template": ("template", "templates"),
}
_VERDICT = 32  # columns that two lines of names leave for what became of them
_SHOWN = 3  # differences of one change, told in one line
_WHOLE = 100  # microseconds from which on their tenths say nothing
_ARROW = "→"


def kernels_line(d: RecordingDiff) -> str:
    """`No kernel differs: 24 kernels, 31 launches, all identical`, or how many are what."""
    if d.same_kernels:
        if not d.before.launches:
            return "No kernel differs: neither side has one"
        kernels = f"{plural(d.before.kernels, 'kernel')}, {plural(len(d.identical), 'launch', 'launches')}"
        if d.retuned:
            return f"Same kernels{_retuned(d)}: {kernels}"
        return f"No kernel differs: {kernels}, all identical"
    told = ", ".join(f"{n:,} {what}" for what, n in launch_counts(d))
    return f"Kernel launches {d.before.launches:,} {_ARROW} {d.after.launches:,}: {told}{_retuned(d)}"


def launch_counts(d: RecordingDiff) -> list[tuple[str, int]]:
    """How many launches are what: identical, with the same code in another configuration, changed, …"""
    counts: Counter[Verdict] = Counter()
    for change in d.kernels:
        counts[_counted(change)] += max(_launches(change))
    tuned = counts.pop(Verdict.IDENTICAL, 0)
    told = [(VERDICTS[Verdict.IDENTICAL], len(d.identical))]
    told += [("with the same code in another configuration", tuned)] if tuned else []
    return told + [(VERDICTS[v], counts[v]) for v in Verdict if counts[v]]


def verdict(change: KernelChange) -> str:
    """What became of the launches of a change, in a word or two."""
    return "other configuration" if is_configuration(change) else VERDICTS[change.verdict]


def identical(*, is_retuned: bool) -> str:
    """Return what became of launches that do not differ."""
    return f"{VERDICTS[Verdict.IDENTICAL]}, autotuned differently" if is_retuned else VERDICTS[Verdict.IDENTICAL]


def _counted(change: KernelChange) -> Verdict:
    return Verdict.IDENTICAL if is_configuration(change) else change.verdict


def _retuned(d: RecordingDiff) -> str:
    return f"; {len(d.retuned):,} autotuned differently" if d.retuned else ""


def retuned_line(d: RecordingDiff) -> str:
    """Return what `autotuned differently` means."""
    many = plural(len(d.retuned), "identical launch", "identical launches")
    return f"{many} run with another configuration: of the same candidates, timing chose another one"


def _launches(change: KernelChange) -> tuple[int, int]:
    return sum(len(case.before) for case in change.cases), sum(len(case.after) for case in change.cases)


def change_line(change: KernelChange, room: int = 999) -> str:
    """One change: how often, of what, into what, and in what they differ; names cut to the room that there is."""
    return f"{change_words(change, room)}{microseconds(change.times)}"


def change_words(change: KernelChange, room: int = 999) -> str:
    """The same without its time."""
    return f"{_often(change, _what(change, room))}{_why(change)}"


def _often(change: KernelChange, what: str) -> str:
    """How often the same happened; where one name is all that is told, the others are counted, not multiplied."""
    cases = change.cases
    if len(cases) == 1:
        return what
    of_several = _ARROW not in what and not is_configuration(change)
    if of_several and len({joined_names(case.before or case.after) for case in cases}) > 1:
        return f"{what} and {len(cases) - 1:,} more"
    return f"{times(len(cases))} {what}"


def _what(change: KernelChange, room: int) -> str:
    case = change.first
    if change.verdict in (Verdict.ADDED, Verdict.REMOVED):
        return f"{VERDICTS[change.verdict]} {joined_names(case.before or case.after, room)}"
    if len(change.cases) > 1 and is_configuration(change):
        return _shape(change)
    return names(case, room)


def names(case: Case, room: int = 999) -> str:
    """What a case has before and after; one name, if it kept it. Of many names each has less room."""
    shown = min(len(case.before), _SHOWN) + min(len(case.after), _SHOWN)
    room = min(room, (4 * room - _VERDICT) // shown)
    sides = [joined_names(side, room) for side in (case.before, case.after) if side]
    if len(case.before) == len(case.after) == 1:
        stems = [one.kernel.rpartition("_") for one in (case.before[0], case.after[0])]
        if stems[0][0] == stems[1][0] and stems[0][2].isdigit() and stems[0][2] != stems[1][2]:
            return f"{sides[0]} {_ARROW} _{stems[1][2]}"
    return f" {_ARROW} ".join(dict.fromkeys(sides))


def _shape(change: KernelChange) -> str:
    one = change.first.before[0]
    return _SHAPES.get(one.shape, ("kernel", f"{words.KERNEL_KINDS[one.kind]} kernels"))[1]


def joined_names(side: Sequence[LaunchRef], room: int = 999) -> str:
    """`extern_kernels.mm + triton_poi_fused_add_3`; a long name is cut in the middle, its number tells it apart."""
    return " + ".join(_cut(one.kernel, room) for one in side[:_SHOWN]) + (" + …" if len(side) > _SHOWN else "")


def _cut(name: str, room: int) -> str:
    tail = room // 4
    return name if len(name) <= room else f"{name[: room - tail - 1]}…{name[-tail:]}"


def is_configuration(change: KernelChange) -> bool:
    """Whether the code is the same, run with another configuration."""
    return change.method is MatchMethod.SOURCE and set(change.aspects) <= {Aspect.TILING, Aspect.WARPS}


def _why(change: KernelChange) -> str:
    if is_configuration(change):
        if len(change.cases) == 1:
            return f": {differences(change.differences)}"
        listed = {(list(Aspect).index(d.aspect), d.name) for case in change.cases for d in case.differences}
        return f": same code, other {', '.join(name for _, name in sorted(listed))}"
    if change.verdict in (Verdict.SPLIT, Verdict.MERGED, Verdict.REGROUPED):
        moved = op_names(sorted({d.name for d in change.first.differences if d.aspect is Aspect.MOVED}))
        return f" ({VERDICTS[change.verdict]}{f': {moved} moved' if moved else ''})"
    if told := sizes(change):
        return f": {told}"
    found = change.differences or tuple(d for d in change.first.differences if d.aspect is Aspect.KIND)
    told = differences(found)
    return f": {told}" if told else ""


def grouping(case: Case) -> str:
    """What became of kernels that are others in number, by their ops: `_log_softmax + sum → one kernel`."""
    if len(case.before) == len(case.after) or not (case.before and case.after):
        return ""
    return f" {_ARROW} ".join(_grouped(side) for side in (case.before, case.after))


def _grouped(side: Sequence[LaunchRef]) -> str:
    return " + ".join(op_names(one.ops) or one.kernel for one in side) if len(side) > 1 else "one kernel"


def microseconds(t: Times | None) -> str:
    """`; 40.1 → 31.2 µs`, and if that is no more than noise."""
    return f"; {spent(t)}{'' if t.above_noise else ' (not above noise)'}" if t else ""


def spent(t: Times) -> str:
    """`40.1 → 31.2 µs`."""
    before, after = amounts(t)
    return f"{before} {_ARROW} {after} µs"


def amounts(t: Times) -> tuple[str, str]:
    """Both times in microseconds, written alike."""
    digits = 0 if min(t.before, t.after) >= _WHOLE else 1
    return f"{t.before:,.{digits}f}", f"{t.after:,.{digits}f}"


def gain(t: Times) -> str:
    """`21 % less`; nothing is said that noise could say."""
    if not t.above_noise:
        return "not above noise"
    if not t.before:
        return "none before"
    share = abs(t.gain) / t.before * 100
    return f"{share:.0f} % {'less' if t.gain > 0 else 'more'}"


def timed_words(d: RecordingDiff) -> str:
    """Return which launches these times are of, where not all were timed on both sides."""
    if all(timed == there for timed, there in d.timed_launches):
        return ""
    before, after = (f"{timed:,} of {there:,}" for timed, there in d.timed_launches)
    return f"; only of launches timed on both sides, {before} {_ARROW} {after}"


def idle(d: RecordingDiff) -> str:
    """`; idle 1,802 → 629 µs, as CUDA graphs launch the kernels`: what the kernels do not explain of a call's time."""
    waited = d.idle_times
    if not (waited and waited.above_noise):
        return ""
    why = idle_reason(d)
    return f"; idle {spent(waited)}{f', {why}' if why else ''}"


def idle_reason(d: RecordingDiff) -> str:
    """Why the device waits less, or more, where that is known."""
    waited = d.idle_times
    if not (waited and waited.above_noise):
        return ""
    before, after = d.captured
    if before < after and waited.gain > 0:
        return "as CUDA graphs launch the kernels"
    return "as CUDA graphs no longer launch the kernels" if before > after and waited.gain < 0 else ""


def case_names(case: Case) -> str:
    """Where a case stands: its compilation and pass on each side."""
    first = (case.before or case.after)[0]
    return f"[{first.compile_id}] {words.PASSES[first.direction]}"


# -- in what launches differ


def sizes(change: KernelChange) -> str:
    """`sizes 8 → 24`, where all that differs follows from that."""
    shapes = [d for case in change.cases for d in case.differences if d.aspect is Aspect.SIZES]
    if not shapes or not set(change.aspects) <= {Aspect.SIZES, Aspect.ACCESS, Aspect.TILING, Aspect.WARPS}:
        return ""
    dims: dict[tuple[str, str], None] = {}
    for d in shapes:
        before, after = (value.strip("[]").split(", ") for value in (d.before, d.after))
        if len(before) == len(after):
            dims.update(dict.fromkeys(pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]))
    told = [f"{before} {_ARROW} {after}" for before, after in dims]
    return f"sizes {', '.join(told[:_SHOWN])}{', …' if len(told) > _SHOWN else ''}" if told else "other sizes"


def differences(found: Iterable[Difference], most: int = _SHOWN) -> str:
    """`XBLOCK 512 → 128, num_warps 4 → 8`: the telling ones first."""
    listed = [d for d in found if not _is_detail(d)]
    if any(d.aspect is Aspect.KIND for d in listed):
        listed = [d for d in listed if d.aspect in (Aspect.KIND, Aspect.FUSED, Aspect.TEMPLATE, Aspect.DTYPE)]
    listed.sort(key=lambda d: (list(Aspect).index(d.aspect), d.name not in CONSTANTS or CONSTANTS.index(d.name) - 9))
    told = list(dict.fromkeys(filter(None, map(difference, listed))))
    return ", ".join(told[:most]) + (", …" if len(told) > most else "")


def _is_detail(d: Difference) -> bool:
    return d.aspect is Aspect.TEMPLATE and not (d.before and d.after) and d.name not in CONSTANTS


def difference(d: Difference) -> str:
    """One difference in words."""
    before, after = (_value(d, value) for value in (d.before, d.after))
    if d.aspect is Aspect.FUSED:
        parts = [f"no longer {before}" if before else "", f"also {after}" if after else ""]
        return ", ".join(part for part in parts if part)
    if d.aspect is Aspect.MOVED:
        return f"{words.op_name(d.name)} moved from {d.before} to {d.after}"
    if d.aspect is Aspect.KIND and "." in d.before and "." in d.after:
        return ""  # two functions of a library: their names say it
    if d.aspect is Aspect.CODE:
        return "other code"
    if d.aspect is Aspect.ACCESS and not d.name:
        return "other memory accesses"
    name = f"{d.name} " if d.name else ""
    return f"{name}{before} {_ARROW} {after}" if before and after else f"{name}{before or after}"


def _value(d: Difference, value: str) -> str:
    if d.aspect in (Aspect.OPS, Aspect.FUSED):
        return op_names(value.split())
    if d.aspect is Aspect.KIND:
        if value in _KINDS:
            return words.KERNEL_KINDS[KernelKind(value)]
        return words.KERNEL_KINDS[KernelKind.EXTERN] if "." in value else value  # a function's name, or a language's
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def op_names(targets: Iterable[str]) -> str:
    """Ops by their short names, each once."""
    counts = Counter(words.op_name(target) for target in targets)
    told = [f"{op} {times(n)}" if n > 1 else op for op, n in counts.items()]
    return ", ".join(told[:_SHOWN]) + (", …" if len(told) > _SHOWN else "")
