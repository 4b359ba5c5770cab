"""The table of a profile: each kernel with what it could gain, what bounds it, and the lines behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.facts.program.select import short_name
from compiler_lens.recording.model import Kernel, Recording, SourceLine
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, PLACE, Page, line
from compiler_lens.views import words
from compiler_lens.views.console.lineage import lines_text
from compiler_lens.views.profile_words import BOUNDS
from compiler_lens.views.text import UNKNOWN, microseconds, percent, plural

_ROWS = 16
_WIDE = 100  # columns: from there on rates have room beside shares
_WIDER = 140  # and ops beside names
_OPS = 4


def table_lines(recording: Recording, groups: Sequence[GroupCost], page: Page, *, usable: bool) -> Iterator[Text]:
    """A row for each kernel, with its lines."""
    if not groups:
        return
    rows = _Rows(recording, page, usable=usable)
    yield from table(rows.columns, [rows.of(group) for group in groups[:_ROWS]], page.width)
    rest = groups[_ROWS:]
    if rest:
        gain, spent = sum(g.above for g in rest), sum(g.total for g in rest)
        above = f", of which {microseconds(gain)} above the floor" if usable else ""
        yield line(
            (f"… {plural(len(rest), 'more kernel')}, {microseconds(spent)}{above}: --json has all", DIM), indent=2
        )


class _Rows:
    """The rows of the table: with rates where there is room, with gains where times are usable."""

    def __init__(self, recording: Recording, page: Page, *, usable: bool) -> None:
        self._page, self._usable = page, usable
        self._wide, self._wider = page.width >= _WIDE, page.width >= _WIDER
        self._places, self._names = _Places(recording), names_in(recording)

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
        rates = [rate(group.bytes_per_second, "B/s"), rate(group.flops_per_second, "FLOP/s")]
        return [
            *([gain_words(group)] if self._usable else []),
            microseconds(group.total),
            how_often(group.runs),
            *(rates if self._wide and self._usable else []),
            *([bound_words(group)] if self._usable else []),
            short_name(kernel.name, self._names) if is_ours else label,
            *([label if is_ours else ""] if self._wider else []),
            lines_text(self._places.of(group), self._page, 3 if self._wide else 1),
        ]


def gain_words(group: GroupCost) -> str:
    """What it takes above the floor."""
    known = any(cost.floor is not None for cost in group.launches)
    return f"{'' if group.is_exact else '~'}{microseconds(group.above)}" if known else UNKNOWN


def names_in(recording: Recording) -> Collection[str]:
    """The names of all kernels, each once."""
    return dict.fromkeys(kernel.name for kernel in recording.kernels)


def bound_words(group: GroupCost) -> str:
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


def how_often(value: float) -> str:
    """How often in a call: whole, unless calls differ."""
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.2f}"  # noqa: PLR2004


def rate(value: float | None, unit: str) -> str:
    """Bytes or operations per second, three digits."""
    if value is None:
        return ""
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value / 1e6:.3g} M{unit}"
