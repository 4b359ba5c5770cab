"""How good each kernel is: the call, the kernels by their possible saving, what else ran, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from compiler_lens.facts.kernels.launch_costs import Bound, Doubt, LaunchCost
from compiler_lens.facts.kernels.lineage import is_generated, is_view
from compiler_lens.facts.kernels.roofline import Advice, GroupCost, Roofline, roofline, shares_by_bound
from compiler_lens.facts.overview.line_story import ProfilePart, profile_part
from compiler_lens.facts.overview.shared import provenance_of
from compiler_lens.facts.program.select import EVERYTHING, Selection, short_name
from compiler_lens.recording import model
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import Kernel, KernelKind, Recording, SourceLine, Trust
from compiler_lens.views import words
from compiler_lens.views.document import Block, Column, Command, Document, Gap, Line, Paragraph, Table, line, paragraph
from compiler_lens.views.lineage import first
from compiler_lens.views.parts import Cell, Figure, KernelName, Kind, Places, Tone, quiet, strong
from compiler_lens.views.profile_words import BOUNDS, CEILING_TOO_LOW, DOUBTS, NO_BOUND, TO_DO, note_words
from compiler_lens.views.text import UNKNOWN, how_often, microseconds, number, percent, plural, rate

_ROWS = 16
_OPS = 4
_OTHERS = 4
_WIDE = 100  # columns: from there on rates have room beside shares
_WIDER = 140  # and ops beside names

_NOTHING = (
    paragraph("No profile in this recording: nothing was timed."),
    paragraph("in Python: lens.profile(model, x)", indent=2, tone=Tone.QUIET),
    paragraph("or: compiler-lens profile FILE:FACTORY -o REC", indent=2, tone=Tone.QUIET),
    paragraph("where FACTORY is a function in FILE: def make(): return model, (x,)", indent=2, tone=Tone.QUIET),
)
_TO_KEEP = "to go on from here, to one kernel with its source, keep the recording: -o REC, in Python path="


class TimedLaunch(model.LaunchTime, frozen=True, kw_only=True):
    """One launch with its time, its work, and the least time for that work."""

    line: int | None  # of the output code
    bytes_read: int | None
    bytes_written: int | None
    bytes_trust: Trust | None
    flops: int | None
    dtype: str | None
    floor_microseconds: float | None
    above_floor_microseconds: float
    memory_share: float | None
    compute_share: float | None
    bound: Bound

    @classmethod
    def of(cls, cost: LaunchCost) -> TimedLaunch:
        """Return the data of a launch."""
        time, traffic, launches = cost.time, cost.traffic, cost.kernel.launches
        more = asdict(cost.work) if cost.work else {"flops": None, "dtype": None}
        return cls(
            **asdict(time), **more,
            line=launches[time.launch].line if time.launch < len(launches) else None,
            bytes_read=traffic.read if traffic else None,
            bytes_written=traffic.written if traffic else None,
            bytes_trust=traffic.trust if traffic else None,
            floor_microseconds=cost.floor, above_floor_microseconds=cost.above,
            memory_share=cost.memory_share, compute_share=cost.compute_share, bound=cost.bound,
        )  # fmt: skip


class TimedKernel(Struct, frozen=True):
    """Kernels that compute the same, with every launch."""

    names: tuple[str, ...]
    kind: KernelKind
    aten: tuple[str, ...]
    ops: int
    microseconds_above_floor: float
    microseconds: float
    runs: float
    bytes_per_second: float | None
    flops_per_second: float | None
    bound: Bound
    launches: tuple[TimedLaunch, ...]

    @classmethod
    def of(cls, cost: GroupCost) -> TimedKernel:
        """Return the data of kernels."""
        group, names = cost.group, dict.fromkeys(kernel.name for kernel in cost.group.kernels)
        launches = tuple(map(TimedLaunch.of, cost.launches))
        return cls(
            tuple(names), group.first.kind, group.first.aten, group.op_count, cost.above, cost.total, cost.runs,
            cost.bytes_per_second, cost.flops_per_second, cost.bound, launches,
        )  # fmt: skip


class ProfileRemark(model.ProfileNote, frozen=True, kw_only=True):
    """What is to be said of a profile, as a kind and as a sentence."""

    words: str


class Measured(Struct, frozen=True):
    """A profile, and what it means."""

    timer: str
    training: bool
    calls: int
    microseconds: float
    spread: float
    busy_microseconds: float
    busy_share: float
    kernel_microseconds: float
    other_microseconds: float
    idle_microseconds: float
    launches_per_call: float
    ceilings: model.Ceilings
    kernels: tuple[TimedKernel, ...]
    launches_without_time: int | None
    others: tuple[model.OtherTime, ...]
    notes: tuple[ProfileRemark, ...]
    advice: tuple[Advice, ...]
    doubts: tuple[Doubt, ...]
    is_usable: bool

    @classmethod
    def of(cls, found: Roofline, part: ProfilePart) -> Measured:
        """Return the data of a profile, or of a part of it."""
        known, parts = asdict(found.profile), found.parts
        del known["launches"]
        known["notes"] = tuple(ProfileRemark(**asdict(note), words=note_words(note)) for note in found.profile.notes)
        known |= {"advice": found.advice, "doubts": found.doubts, "is_usable": found.is_usable}
        return cls(
            **known,
            busy_share=parts.busy_share, kernel_microseconds=parts.kernels, other_microseconds=parts.other,
            idle_microseconds=parts.idle, launches_per_call=parts.launches,
            kernels=tuple(map(TimedKernel.of, part.groups)),
            launches_without_time=part.untimed if part.named else None,
        )  # fmt: skip


class Data(Struct, frozen=True):
    """The last profile of a recording."""

    profile: Measured | None  # None: nothing was timed


def document(recording: Recording, selection: Selection = EVERYTHING, *, kept: bool = True) -> Document:
    """Return the last profile: all kernels, or those launches that were asked for.

    Unless the recording is `kept` in a file, nothing can be typed to see more of it.
    """
    if not recording.profiles:
        return Document(_NOTHING, Data(None), count=0)
    found = roofline(recording, recording.profiles[-1])
    part = profile_part(recording, found, selection)
    groups = part.groups if found.is_usable else sorted(part.groups, key=lambda group: -group.total)
    blocks: list[Block] = [*_call(found, groups), Gap(), *_named(part, found)]
    if groups:
        blocks += _table(recording, groups, selection, usable=found.is_usable)
    if not part.named:
        blocks += _others(found)
    blocks += [*_notes(found, len(recording.profiles)), *_next(found, recording, part, kept=kept)]
    return Document(tuple(blocks), Data(Measured.of(found, part)), count=len(part.groups))


def head(recording: Recording) -> tuple[Block, ...]:
    """Return what is said of the last profile beside its table: the call, the device, what to do."""
    if not recording.profiles:
        return ()
    found = roofline(recording, recording.profiles[-1])
    notes = _notes(found, len(recording.profiles))
    return (*_call(found, found.groups), *_others(found), *notes, *map(_to_do, found.advice))


def _call(found: Roofline, groups: Sequence[GroupCost]) -> Iterator[Block]:
    """What speaks against the times, what a call consists of, what the device can do and what kernels are bound by."""
    reasons = [DOUBTS[doubt] for doubt in found.doubts if doubt.is_fatal]
    if reasons:
        told = f"These times are not usable: measure again on a quiet machine ({'; '.join(reasons)})"
        yield paragraph(told, tone=Tone.WARN)
    elif Doubt.CEILING in found.doubts:
        yield paragraph(CEILING_TOO_LOW, tone=Tone.WARN)
    profile, parts = found.profile, found.parts
    what = "training step" if profile.training else "call"
    median = f"median of {number(profile.calls)}, quartiles {microseconds(profile.spread)} apart"
    yield line(strong("Profile"), quiet(f"  {microseconds(profile.microseconds)} a {what}, {median}"))
    on_cpu = all(group.group.first.device.startswith("cpu") for group in found.groups)
    names = ("kernels", "other ops", "between them") if on_cpu else ("kernels", "other device work", "idle")
    fits = parts.kernels <= parts.total  # else the profiler, or a busy machine, held the kernels up
    split = []
    for name, value in zip(names, (parts.kernels, parts.other, parts.idle), strict=True):
        share = f" ({percent(value, parts.total)})" if fits else ""
        split.append(f"{name} {microseconds(value)}{share}")
    launches = f"{how_often(parts.launches)} {'launch' if parts.launches == 1 else 'launches'}"
    busy = f"{'' if on_cpu else 'device '}busy {percent(parts.busy_share, 1)}"
    yield paragraph(f"{launches}; {busy}: {', '.join(split)}", indent=2)
    yield from _ceilings(profile.ceilings)
    spent = sorted(shares_by_bound(groups).items(), key=lambda pair: -pair[1])
    own = [f"{BOUNDS[bound]} {microseconds(value)}" for bound, value in spent if bound not in NO_BOUND]
    bounds = [f"kernels are bound by: {', '.join(own)}"] if own else []
    bounds += [f"{NO_BOUND[bound]}: {microseconds(value)}" for bound, value in spent if NO_BOUND.get(bound)]
    if bounds and found.is_usable:
        yield paragraph("; ".join(bounds), indent=2)


def _ceilings(ceilings: model.Ceilings) -> Iterator[Paragraph]:
    known = []
    if ceilings.bytes_per_second:
        known.append(f"{rate(ceilings.bytes_per_second, 'B/s')} copying")
    known += [f"{rate(most, 'FLOP/s')} {dtype}" for dtype, most in ceilings.flops_per_second.items()]
    if ceilings.launch_microseconds:
        known.append(f"{microseconds(ceilings.launch_microseconds)} the shortest launch")
    if known:
        told = f"{ceilings.device} can do, as measured: {', '.join(known)}"
        yield paragraph(told, indent=2, tone=Tone.QUIET)


def _named(part: ProfilePart, found: Roofline) -> Iterator[Line | Paragraph]:
    """What the table is of, where that is not all."""
    if not part.named:
        return
    spent = sum(group.total for group in part.groups)
    above = _above(part.groups) if found.is_usable and part.groups else ""
    untimed = f"; {plural(part.untimed, 'launch', 'launches')} without a time" if part.untimed else ""
    counted = f"{plural(len(part.groups), 'kernel')} with {plural(part.launches, 'launch', 'launches')}"
    yield line(strong(part.named))
    share = percent(spent, found.parts.kernels)
    yield paragraph(f"{counted}, {microseconds(spent)} ({share}) of kernels{above}{untimed}", indent=2)


def _above(groups: Sequence[GroupCost]) -> str:
    return f", of which {microseconds(sum(group.above for group in groups))} above the floor"


def _others(found: Roofline) -> Iterator[Paragraph]:
    others = found.profile.others
    if not others:
        return
    listed = []
    for other in others[:_OTHERS]:
        often = "" if other.runs == 1 else f" \N{MULTIPLICATION SIGN}{how_often(other.runs)}"
        listed.append(f"{other.name} {microseconds(other.microseconds)}{often}")
    more = f", {plural(len(others) - _OTHERS, 'more name')}" if len(others) > _OTHERS else ""
    whole = microseconds(sum(other.microseconds for other in others))
    told = f"Not of a kernel: {whole} a call: {', '.join(listed)}{more}"
    yield paragraph(told, indent=2, tone=Tone.QUIET, limit=3)


def _notes(found: Roofline, profiles: int) -> Iterator[Paragraph]:
    notes = [note_words(note) for note in found.profile.notes]
    if not all(group.is_exact for group in found.groups):
        notes.append("~ where times are known by place between neighbours, or bytes by arguments, not by the compiler")
    if profiles > 1:
        notes.append(f"the last of {profiles} profiles in this recording")
    for note in notes:
        yield paragraph(note, indent=2, tone=Tone.QUIET, limit=2)


def _next(found: Roofline, recording: Recording, part: ProfilePart, *, kept: bool) -> Iterator[Block]:
    """What to do: of a part only where to go on, advice is on the whole."""
    advised = () if part.named and found.is_usable else found.advice
    if advised or not part.named:
        yield line(strong("Next"))
    yield from map(_to_do, advised)
    with_source = [group.worst.kernel for group in part.groups if is_generated(group.worst.kernel)]
    if not kept and not part.named:
        yield paragraph(_TO_KEEP, indent=2)
    elif kept and with_source:
        name = short_name(with_source[0].name, {kernel.name for kernel in recording.kernels})
        yield Command("one kernel, with its source: ", f"kernel {name}")


def _to_do(advice: Advice) -> Paragraph:
    return paragraph(f"{TO_DO[advice]}.", indent=2, tone=Tone.GOOD)


_FROM_TIMES = frozenset(("possible saving", "bytes/s", "FLOP/s", "bound by"))


def _table(
    recording: Recording, groups: Sequence[GroupCost], selection: Selection, *, usable: bool
) -> Iterator[Table | Line]:
    """A row for each kernel, with its lines; with savings where times are usable."""
    columns = [
        Column("possible saving", Kind.MICROSECONDS, Tone.STRONG, missing=UNKNOWN, short="saving"),
        Column("time", Kind.MICROSECONDS),
        Column("runs", Kind.RUNS),
        Column("bytes/s", Kind.BYTE_RATE, Tone.QUIET, room=_WIDE),
        Column("FLOP/s", Kind.FLOP_RATE, Tone.QUIET, room=_WIDE),
        Column("bound by"),
        Column("kernel", tone=Tone.CODE, flexible=True, middle=True),
        Column("computes", flexible=True, middle=True, room=_WIDER),
        Column("at", tone=Tone.STRONG, flexible=True),
    ]
    kept = [number for number, one in enumerate(columns) if usable or one.name not in _FROM_TIMES]
    shown = groups if selection.for_page else groups[:_ROWS]
    names, provenance = {kernel.name for kernel in recording.kernels}, provenance_of(recording, selection)
    indices = {kernel.id: index for index, kernel in enumerate(recording.kernels)}
    rows: list[tuple[Cell, ...]] = []
    for group in shown:
        kernel = group.worst.kernel
        label, is_ours = kernel_label(kernel), is_generated(kernel)
        lines: dict[SourcePlace, SourceLine] = {}  # those of the launch with the largest saving first
        for cost in sorted(group.launches, key=lambda cost: cost is not group.worst):
            for lineage in provenance.of_kernel(indices[cost.kernel.id]):
                for at in lineage.lines if lineage.launch in {None, cost.time.launch} else ():
                    lines.setdefault(at.place, at)
        # What is generated has a name by which `show REC kernel` finds it.
        name = short_name(kernel.name, names) if is_ours else label
        cells: tuple[Cell, ...] = (
            saving(group),
            group.total,
            group.runs,
            group.bytes_per_second,
            group.flops_per_second,
            bound_words(group),
            KernelName(name, indices[kernel.id], Tone.PLAIN),
            label if is_ours else None,
            Places(tuple(lines.values()), narrow=1),
        )
        rows.append(tuple(cells[n] for n in kept))
    yield Table(tuple(columns[n] for n in kept), tuple(rows))
    rest = groups[len(shown) :]
    if rest:
        above = _above(rest) if usable else ""
        spent = microseconds(sum(group.total for group in rest))
        yield line(quiet(f"… {plural(len(rest), 'more kernel')}, {spent}{above}: --json has all"), indent=2)


def saving(cost: GroupCost) -> Figure | None:
    """Return what a kernel takes above the floor; None where that is not known."""
    known = any(one.floor is not None for one in cost.launches)
    return Figure(cost.above, Kind.MICROSECONDS, about=not cost.is_exact) if known else None


def bound_words(cost: GroupCost) -> str:
    """Return what bounds a kernel, with the share of that ceiling; of the nearer one, where neither bounds it."""
    near = [share for of in (Bound.MEMORY, Bound.COMPUTE) if (share := cost.share(of)) is not None]
    own = [cost.share(cost.bound)] if cost.bound in {Bound.MEMORY, Bound.COMPUTE} else near
    share = max((share for share in own if share is not None), default=None)
    shown = share is not None and cost.bound is not Bound.LAUNCH
    return f"{BOUNDS[cost.bound]} {percent(share or 0, 1)}" if shown else BOUNDS[cost.bound]


def kernel_label(kernel: Kernel) -> str:
    """Return what a kernel does, in short: the ops that it fuses, or the library's op."""
    if not is_generated(kernel):
        return words.op_name(kernel.name.removeprefix("extern_kernels."))
    aten = [op for op in kernel.aten if not is_view(op)] or kernel.aten
    ops = list(dict.fromkeys(words.op_name(op) for op in sorted(aten, key=lambda op: op == "aten._to_copy")))
    return first(ops, _OPS) or kernel.name
