"""How good each kernel is: the call, the kernels by what they could gain, what else ran, what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from compiler_lens.analysis.kernels import is_generated
from compiler_lens.analysis.lineage import is_view
from compiler_lens.analysis.profile_doubts import Doubt
from compiler_lens.analysis.profile_part import ProfilePart, profile_part
from compiler_lens.analysis.provenance import Provenance
from compiler_lens.analysis.roofline import Bound, GroupCost, Roofline, roofline, shares_by_bound
from compiler_lens.analysis.select import EVERYTHING, Selection, select_launches, short_name
from compiler_lens.model import Kernel, Recording, SourceLine
from compiler_lens.render import words
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.lineage import lines_text
from compiler_lens.render.console.open_page import page_for
from compiler_lens.render.console.page import (
    CODE,
    DIM,
    GOOD,
    PLACE,
    WARN,
    Page,
    command,
    line,
    paragraph,
    render,
    title,
)
from compiler_lens.render.profile_words import BOUNDS, CEILING_TOO_LOW, DOUBTS, TO_DO, note_words
from compiler_lens.render.text import UNKNOWN, milliseconds, number, percent, plural

_ROWS = 16
_OTHERS = 4
_WIDE = 100  # columns: from there on rates have room beside shares
_WIDER = 140  # and ops beside names
_OPS = 4

_TIMES = "\N{MULTIPLICATION SIGN}"


def profile_report(
    recording: Recording, *, width: int | None = None, color: bool | None = None, path: str = "", part: str = ""
) -> str:
    """The last profile of a recording as text, or a part of it by name.

    `path` is where it can be asked for more, if it is in a file.
    """
    page = page_for(recording, width=width, color=color, path=path)
    return render(profile_lines(recording, select_launches(recording, part) if part else EVERYTHING, page), page)


def profile_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC profile [ID | LINE | MODULE | KERNEL]` shows: the last profile, all kernels or those launches."""
    if not recording.profiles:
        return [
            *paragraph("No profile in this recording: nothing was timed.", page.width, 0),
            *paragraph("in Python: lens.profile(model, x)", page.width, 2, DIM),
            *paragraph("or: compiler-lens profile FILE:FACTORY -o REC", page.width, 2, DIM),
            *paragraph("where FACTORY is a function in FILE: def make(): return model, (x,)", page.width, 2, DIM),
        ]
    found = roofline(recording, recording.profiles[-1])
    part = profile_part(recording, found, selection)
    groups = part.groups if found.is_usable else sorted(part.groups, key=lambda group: -group.total)
    return [
        *_call(found, page),
        *_doubts(found, page),
        *_ceilings(found, page),
        *_bounds(found, groups, page),
        Text(),
        *_named(part, found, page),
        *_table(recording, groups, page, usable=found.is_usable),
        *([] if part.named else _others(found, page)),
        *_notes(found, len(recording.profiles), page),
        *_next(found, recording, part, page),
    ]


def _call(found: Roofline, page: Page) -> Iterator[Text]:
    profile, parts = found.profile, found.parts
    what = "training step" if profile.training else "call"
    median = f"median of {number(profile.calls)}, quartiles {_us(profile.spread)} apart"
    yield title("Profile", f"{_us(profile.microseconds)} a {what}, {median}")
    on_cpu = all(group.group.first.device.startswith("cpu") for group in found.groups)
    names = ("kernels", "other ops", "between them") if on_cpu else ("kernels", "other device work", "idle")
    split = zip(names, (parts.kernels, parts.other, parts.idle), strict=True)
    fits = parts.kernels <= parts.total  # else the profiler, or a busy machine, held the kernels up
    shares = ", ".join(f"{name} {_us(value)}{_of(value, parts.total) if fits else ''}" for name, value in split)
    launches = f"{_count(parts.launches)} {'launch' if parts.launches == 1 else 'launches'}"
    told = f"{launches}; {'' if on_cpu else 'device '}busy {percent(parts.busy_share, 1)}: {shares}"
    yield from paragraph(told, page.width, 2)


def _doubts(found: Roofline, page: Page) -> Iterator[Text]:
    reasons = [DOUBTS[doubt] for doubt in found.doubts if doubt.is_fatal]
    if reasons:
        told = f"These times are not usable: measure again on a quiet machine ({'; '.join(reasons)})"
        yield from paragraph(told, page.width, 2, WARN)
    elif Doubt.CEILING in found.doubts:
        yield from paragraph(CEILING_TOO_LOW, page.width, 2, WARN)


def _ceilings(found: Roofline, page: Page) -> Iterator[Text]:
    ceilings = found.profile.ceilings
    known = []
    if ceilings.bytes_per_second:
        known.append(f"{_rate(ceilings.bytes_per_second, 'B/s')} copying")
    known += [f"{_rate(rate, 'FLOP/s')} {dtype}" for dtype, rate in ceilings.flops_per_second.items()]
    if ceilings.launch_microseconds:
        known.append(f"{_us(ceilings.launch_microseconds)} the shortest launch")
    if known:
        yield from paragraph(f"{ceilings.device} can do, as measured: {', '.join(known)}", page.width, 2, DIM)


def _bounds(found: Roofline, groups: Sequence[GroupCost], page: Page) -> Iterator[Text]:
    spent = sorted(shares_by_bound(groups).items(), key=lambda pair: -pair[1])
    bounds = ", ".join(f"{BOUNDS[bound]} {_us(value)}" for bound, value in spent if bound is not Bound.UNKNOWN)
    if bounds and found.is_usable:
        yield from paragraph(f"kernels are bound by: {bounds}", page.width, 2)


def _named(part: ProfilePart, found: Roofline, page: Page) -> Iterator[Text]:
    """What the table is of, where that is not all."""
    if not part.named:
        return
    spent, gain = sum(g.total for g in part.groups), sum(g.above for g in part.groups)
    above = f", of which {_us(gain)} above the floor" if found.is_usable and part.groups else ""
    untimed = f"; {plural(part.untimed, 'launch', 'launches')} without a time" if part.untimed else ""
    counted = f"{plural(len(part.groups), 'kernel')} with {plural(part.launches, 'launch', 'launches')}"
    yield line((part.named, PLACE))
    yield from paragraph(
        f"{counted}, {_us(spent)}{_of(spent, found.parts.kernels)} of kernels{above}{untimed}", page.width, 2
    )


def _table(recording: Recording, groups: Sequence[GroupCost], page: Page, *, usable: bool) -> Iterator[Text]:
    if not groups:
        return
    rows = _Rows(recording, page, usable=usable)
    yield from table(rows.columns, [rows.of(group) for group in groups[:_ROWS]], page.width)
    rest = groups[_ROWS:]
    if rest:
        gain, spent = sum(g.above for g in rest), sum(g.total for g in rest)
        above = f", of which {_us(gain)} above the floor" if usable else ""
        yield line((f"… {plural(len(rest), 'more kernel')}, {_us(spent)}{above}: --json has all", DIM), indent=2)


class _Rows:
    """The rows of the table: with rates where there is room, with gains where times are usable."""

    def __init__(self, recording: Recording, page: Page, *, usable: bool) -> None:
        self._page, self._usable = page, usable
        self._wide, self._wider = page.width >= _WIDE, page.width >= _WIDER
        self._places, self._names = _Places(recording), _names(recording)

    @property
    def columns(self) -> list[Column]:
        """All that there is room for."""
        rates = [Column("bytes/s", right=True, style=DIM), Column("FLOP/s", right=True, style=DIM)]
        return [
            *([Column("could gain", right=True, style=PLACE)] if self._usable else []),
            Column("time", right=True),
            Column("runs", right=True),
            *(rates if self._wide and self._usable else []),
            *([Column("bound by")] if self._usable else []),
            Column("kernel", flexible=True, style=CODE, middle=True),
            *([Column("computes", flexible=True, middle=True)] if self._wider else []),
            Column("at", flexible=True, style=PLACE),
        ]

    def of(self, group: GroupCost) -> list[str]:
        """One kernel; what is generated has a name by which `show REC kernel` finds it."""
        kernel = group.worst.kernel
        label, is_ours = kernel_label(kernel), is_generated(kernel)
        rates = [_rate(group.bytes_per_second, "B/s"), _rate(group.flops_per_second, "FLOP/s")]
        return [
            *([_gain(group)] if self._usable else []),
            _us(group.total),
            _count(group.runs),
            *(rates if self._wide and self._usable else []),
            *([_bound(group)] if self._usable else []),
            short_name(kernel.name, self._names) if is_ours else label,
            *([label if is_ours else ""] if self._wider else []),
            lines_text(self._places.of(group), self._page, 3 if self._wide else 1),
        ]


def _gain(group: GroupCost) -> str:
    known = any(cost.floor is not None for cost in group.launches)
    return f"{'' if group.is_exact else '~'}{_us(group.above)}" if known else UNKNOWN


def _names(recording: Recording) -> Collection[str]:
    return dict.fromkeys(kernel.name for kernel in recording.kernels)


def _bound(group: GroupCost) -> str:
    """With the share of that ceiling; of the nearer one, where neither bounds it."""
    near = [share for of in (Bound.MEMORY, Bound.COMPUTE) if (share := group.share(of)) is not None]
    own = [group.share(group.bound)] if group.bound in {Bound.MEMORY, Bound.COMPUTE} else near
    share = max((share for share in own if share is not None), default=None)
    shown = share is not None and group.bound is not Bound.LAUNCH
    return f"{BOUNDS[group.bound]} {percent(share or 0, 1)}" if shown else BOUNDS[group.bound]


def kernel_label(kernel: Kernel) -> str:
    """What a kernel does, in short: the ops that it fuses, or the library's op."""
    if not is_generated(kernel):
        return words.op_name(kernel.name.removeprefix("extern_kernels."))
    aten = [op for op in kernel.aten if not is_view(op)] or kernel.aten
    ops = list(dict.fromkeys(words.op_name(op) for op in sorted(aten, key=_is_cast)))
    more = f" +{len(ops) - _OPS}" if len(ops) > _OPS else ""
    return ", ".join(ops[:_OPS]) + more if ops else kernel.name


def _is_cast(op: str) -> bool:
    return op == "aten._to_copy"


class _Places:
    """The user's lines behind kernels."""

    def __init__(self, recording: Recording) -> None:
        self._index = {id(kernel): index for index, kernel in enumerate(recording.kernels)}
        self._provenance = Provenance.of(recording)

    def of(self, group: GroupCost) -> list[SourceLine]:
        """Each line once; those of the launch that could gain most first."""
        launches = sorted(group.launches, key=lambda cost: cost is not group.worst)
        found: dict[tuple[str, int], SourceLine] = {}
        for cost in launches:
            lineages = self._provenance.of_kernel(self._index[id(cost.kernel)])
            for lineage in lineages:
                if lineage.launch in {None, cost.time.launch}:
                    found.update({(at.file, at.line): at for at in lineage.lines if (at.file, at.line) not in found})
        return list(found.values())


def _others(found: Roofline, page: Page) -> Iterator[Text]:
    others = found.others
    if not others:
        return
    listed = ", ".join(f"{o.name} {_us(o.microseconds)}{_times(o.runs)}" for o in others[:_OTHERS])
    more = f", {plural(len(others) - _OTHERS, 'more name')}" if len(others) > _OTHERS else ""
    told = f"Not of a kernel: {_us(sum(o.microseconds for o in others))} a call: {listed}{more}"
    yield from paragraph(told, page.width, 2, DIM, 3)


def _notes(found: Roofline, profiles: int, page: Page) -> Iterator[Text]:
    notes = [note_words(note) for note in found.profile.notes]
    if not all(group.is_exact for group in found.groups):
        notes.append("~ where times are told by place between neighbours, or bytes by arguments, not by the compiler")
    if profiles > 1:
        notes.append(f"the last of {profiles} profiles in this recording")
    for note in notes:
        yield from paragraph(note, page.width, 2, DIM, 2)


def _next(found: Roofline, recording: Recording, part: ProfilePart, page: Page) -> Iterator[Text]:
    """What to do: of a part only where to go on, advice is on the whole."""
    advised = () if part.named and found.is_usable else found.advice
    yield from [title("Next")] if advised or not part.named else []
    for advice in advised:
        yield from paragraph(f"{TO_DO[advice]}.", page.width, 2, GOOD)
    if not page.target:
        if part.named:
            return
        told = "to go on from here, to one kernel with its source, keep the recording: -o REC, in Python path="
        yield from paragraph(told, page.width, 2)
        return
    with_source = [group.worst.kernel for group in part.groups if is_generated(group.worst.kernel)]
    if with_source:
        yield command(
            "one kernel, with its source: ", page.show(f"kernel {short_name(with_source[0].name, _names(recording))}")
        )


# -- figures


def _us(value: float | None) -> str:
    return milliseconds(None if value is None else value / 1000)


def _count(value: float) -> str:
    """How often in a call: whole, unless calls differ."""
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.2f}"  # noqa: PLR2004


def _of(value: float, whole: float) -> str:
    return f" ({percent(value, whole)})"


def _times(runs: float) -> str:
    return "" if runs == 1 else f" {_TIMES}{_count(runs)}"


def _rate(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value / 1e6:.3g} M{unit}"
