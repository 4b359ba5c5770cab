"""Kernels: all of them with where they come from, or one from the user's lines down to its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from compiler_lens.facts.kernels.fusion import UnfusedLaunches, neighbours
from compiler_lens.facts.kernels.kernel_rows import Costs, KernelRow, by_kernel, kernel_rows, lineages_of
from compiler_lens.facts.kernels.kernels import fused_op_count, is_generated
from compiler_lens.facts.kernels.library_calls import Help, computed_ops, helps
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.traffic import Traffic
from compiler_lens.facts.overview.line_story import selected
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection, select_kernels
from compiler_lens.recording.ids import KernelId, LaunchId, SourcePlace
from compiler_lens.recording.model import BufferAccess, Kernel, Recording, Trust
from compiler_lens.render.console.code import code_lines
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import (
    CODE,
    DIM,
    GOOD,
    PLACE,
    WARN,
    Page,
    command,
    joined,
    line,
    paragraph,
    title,
)
from compiler_lens.views import words
from compiler_lens.views.console.fusion import neighbour_lines
from compiler_lens.views.console.lineage import lines_text, modules_text, tree_lines, unlinked
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import flops, microseconds, milliseconds, nbytes, number, plural, times

_LAUNCHES = 12
_BUFFERS = 6
_UNLINKED = 8
_SAME = 6


def kernel_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC kernels [ID | LINE | MODULE]` shows: the slowest first, if measured, else the most fused."""
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    lineages = selected(recording, provenance, selection)
    if not lineages:
        return [line("No kernels.")]
    costs, helping = Costs.of(recording), helps(provenance.lineages)
    rows = kernel_rows(lineages, costs)
    kernels = [kernel for row in rows for kernel in row.group.kernels]
    kinds = words.kind_counts(kernels)
    count = sum(row.launches for row in rows)
    counted = f"{number(len(kernels))} with {plural(count, 'launch', 'launches')}: {kinds}"
    lines = [title("Kernels", counted), *measured_lines(recording, rows, costs, page), *doubt_lines(kernels, page)]
    for row in rows:
        lines += _entry(row, helping, page)
    return [*lines, Text(), command("one of them: ", page.show(f"kernel {rows[0].group.first.name}"))]


def one_kernel_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC kernel NAME` shows: lines, modules, ops, launches, memory, configs, times, source."""
    kernels = select_kernels(recording, selection.kernel, selection.ids)
    provenance, costs = Provenance.of(recording, Ownership.of(selection.user_paths)), Costs.of(recording)
    lines: list[Text] = []
    found, helping = by_kernel(lineages_of(recording, provenance, kernels)), helps(provenance.lineages)
    pairs = neighbours(recording, [lineages[0].index for lineages in found])
    for lineages in found:
        lines += [*([Text()] if lines else []), *_one(lineages, costs, pairs[lineages[0].index], helping, page)]
    return lines


def measured_lines(recording: Recording, rows: Sequence[KernelRow], costs: Costs, page: Page) -> list[Text]:
    """What was measured of them together."""
    known = [row.microseconds for row in rows if row.microseconds is not None]
    if not known:
        return []
    whole = recording.profiles[-1]
    told = f"{microseconds(sum(known))} of the {microseconds(whole.busy_microseconds)} that the device works in a call"
    return [line((told, DIM), indent=2), *([] if costs.is_usable else paragraph(UNUSABLE, page.width, 2, WARN))]


def doubt_lines(kernels: list[Kernel], page: Page) -> list[Text]:
    """A word on what is fused, where nobody but the generated code tells it: a TORCH_TRACE log, a foreign cache."""
    doubtful = sum(kernel.trust is Trust.TEXT for kernel in kernels)
    whose = "their ops" if doubtful == sum(bool(kernel.nodes) for kernel in kernels) else f"the ops of {doubtful:,}"
    return paragraph(f"{whose} are {words.TRUST[Trust.TEXT]}", page.width, 2, DIM) if doubtful else []


def _entry(row: KernelRow, helping: Mapping[LaunchId | KernelId, Help], page: Page) -> list[Text]:
    """A name must stand there whole, to be asked for."""
    group = row.group
    several = f"  {times(len(group.kernels))}" if len(group.kernels) > 1 else ""
    name = line((group.first.name, PLACE), (several, DIM), indent=2)
    name.overflow = "ignore"
    return [name, *paragraph(_figures(row), page.width, 6, "", 2), *_from(row, helping, page)]


def _figures(row: KernelRow) -> Text:
    group = row.group
    ids = joined([f"[{i}]" for i in dict.fromkeys(k.compile_id for k in group.kernels)], 3)
    facts = [
        "" if row.microseconds is None else microseconds(row.microseconds),
        words.kernel_kind(group.first),
        plural(group.op_count, "op"),
        plural(row.launches, "launch", "launches"),
        moved(row.traffic),
        "" if row.flops is None else flops(row.flops),
        "approximate" if any(kernel.trust is Trust.TEXT for kernel in group.kernels) else "",
    ]
    return line((f"{ids} {words.PASSES[group.first.direction]}  ", DIM), ", ".join(filter(None, facts)))


def moved(traffic: Traffic | None) -> str:
    """The memory that is read and written; `~` where that is told by arguments, each counted whole."""
    if traffic is None:
        return ""
    return f"{'' if traffic.trust is Trust.EXACT else '~'}{nbytes(traffic.bytes)}"


def _from(row: KernelRow, helping: Mapping[LaunchId | KernelId, Help], page: Page) -> list[Text]:
    """The lines and modules that it is for, then its ops; then the others that compute the same."""
    places = {at.place: at for one in row.lineages for at in one.lines}
    modules = modules_text(module for one in row.lineages for module in one.modules)
    where = line((lines_text([places[key] for key in sorted(places)], page), PLACE), modules and f" of {modules}")
    computed = () if is_generated(row.group.first) else computed_ops(row.lineages)
    ops = ", ".join(words.op_name(op) for op in computed or row.group.first.aten)
    helped = next((helping[one.id] for one in row.lineages if one.id in helping), None)
    told = line(where, "  " if where.plain and ops else "", (ops, CODE), f": {_helped_words(helped)}" if helped else "")
    same = [kernel.name for kernel in row.group.kernels if kernel.name != row.group.first.name]
    named = line(("the same: ", DIM), joined(list(dict.fromkeys(same)), _SAME)) if same else Text()
    return [*paragraph(told, page.width, 6, "", 3 if helped else 2), *paragraph(named, page.width, 6, "", 2)]


def _one(
    lineages: Sequence[Lineage],
    costs: Costs,
    pairs: Sequence[UnfusedLaunches],
    helping: Mapping[LaunchId | KernelId, Help],
    page: Page,
) -> list[Text]:
    kernel = lineages[0].kernel
    where = [f"[{kernel.compile_id}]", words.PASSES[kernel.direction], words.kernel_kind(kernel), kernel.device]
    name = line((kernel.name, PLACE))
    name.overflow = "ignore"
    lines = [name, line((", ".join(part for part in where if part), DIM), indent=2)]
    lines += _comes_from(kernel, lineages, costs, page)
    helped = next((helping[one.id] for one in lineages if one.id in helping), None)
    lines += paragraph(_helped_words(helped), page.width, 4) if helped else []
    lines += _launches(kernel, lineages, costs, page)
    lines += memory_lines(lineages, costs, page)
    lines += cost_lines(lineages, costs, page)
    lines += neighbour_lines(pairs, lineages[0].index, page)
    lines += _configs(kernel, page)
    if not kernel.source:
        return [*lines, line(("no source: a library has it", DIM), indent=2)]
    return [*lines, Text(), *code_lines(kernel.source, page, kernel.lexer)]


def computes(kernel: Kernel, costs: Costs) -> str:
    """How many ops a kernel computes."""
    each = " in each launch" if len(kernel.launches) > 1 and kernel.nodes else ""
    return f"computes {plural(fused_op_count(kernel, costs.views), 'op')}{each}"


def _comes_from(kernel: Kernel, lineages: Sequence[Lineage], costs: Costs, page: Page) -> list[Text]:
    lines = [line((computes(kernel, costs), PLACE), (f", {words.TRUST[kernel.trust]}", DIM), indent=2)]
    linked = [one for one in lineages if one.lines]
    if kernel.trust is Trust.EXACT and any(one.trust is Trust.TEXT for one in linked):
        lines += paragraph(f"their lines are {words.TRUST[Trust.TEXT]}", page.width, 2, DIM)
    tree = tree_lines(linked, page)
    if not tree:
        lines += paragraph(", ".join(words.op_name(op) for op in kernel.aten), page.width, 4, CODE)
    lost = unlinked(lineages)
    if lost:
        told = line(("from no line that is known: ", DIM), joined(lost, _UNLINKED))
        tree += paragraph(told, page.width, 4, "", 2)
    return lines + tree


def _helped_words(helped: Help) -> str:
    """What a launch does for an op that a library computes after it."""
    if helped.whole:
        return f"copies what {helped.call.name} reads into the layout that it wants"
    return f"also makes ready what {helped.call.name} reads"


def _launches(kernel: Kernel, lineages: Sequence[Lineage], costs: Costs, page: Page) -> list[Text]:
    """The launches; those for other layers of the same lines folded."""
    if not kernel.launches:
        return []
    heading = line((plural(len(kernel.launches), "launch", "launches"), PLACE), indent=2)
    heading.append_text(line((" in the output code", DIM)))
    if len(kernel.launches) == 1 or lineages[0].launch is None:
        return [heading, *_each_launch(kernel)]
    folds: dict[tuple[object, ...], list[Lineage]] = {}
    for one in lineages:
        folds.setdefault((_places(one), modules_text(one.modules) if not one.lines else ""), []).append(one)
    columns = (
        Column(right=True),
        Column(flexible=True),
        Column(style=PLACE),
        Column(right=True),
        Column(style=DIM, flexible=True),
    )
    rows = [_fold(members, costs, page) for members in folds.values()]
    more = len(rows) - _LAUNCHES
    lines = [heading, *table(columns, rows[:_LAUNCHES], page.width, 4)]
    return lines + ([line((f"… {more:,} more in --json", DIM), indent=4)] if more > 0 else [])


def _places(lineage: Lineage) -> tuple[SourcePlace, ...]:
    return tuple(at.place for at in lineage.lines)


def _fold(members: Sequence[Lineage], costs: Costs, page: Page) -> tuple[str, ...]:
    modules = modules_text((module for one in members for module in one.modules), 3)
    numbers = [str(one.called.line) for one in members if one.called]
    took = costs.microseconds(members)
    return (
        times(len(members)),
        modules,
        lines_text(members[0].lines, page, 1),
        "" if took is None else microseconds(took),
        f"output code line {joined(numbers, 3)}" if len(numbers) == 1 else f"output code lines {joined(numbers, 3)}",
    )


def _each_launch(kernel: Kernel) -> list[Text]:
    lines = []
    for launch in kernel.launches[:_LAUNCHES]:
        grid = f"  grid {launch.grid}" if launch.grid else ""
        lines.append(line((f"line {launch.line}: ", DIM), f"({', '.join(launch.arguments)})", (grid, DIM), indent=4))
    more = len(kernel.launches) - _LAUNCHES
    return lines + ([line((f"… {more:,} more in --json", DIM), indent=4)] if more > 0 else [])


def memory_lines(lineages: Sequence[Lineage], costs: Costs, page: Page) -> list[Text]:
    """What one launch reads, writes and computes; of several the first."""
    kernel, count = lineages[0].kernel, costs.flops(lineages)
    lines = access_lines(kernel, page)
    all_of = f" in {plural(len(kernel.launches), 'launch', 'launches')}" if len(kernel.launches) > 1 else ""
    return lines + ([line(("multiplies ", PLACE), f"{flops(count)}{all_of}", indent=2)] if count else [])


def access_lines(kernel: Kernel, page: Page) -> list[Text]:
    """What the first launch reads and writes."""
    lines = list[Text]()
    launch = kernel.launches[0] if kernel.launches else None
    which = "the first " if len(kernel.launches) > 1 else ""
    for verb, accesses in (("reads ", launch.reads), ("writes ", launch.writes)) if launch else ():
        if accesses:
            lines += paragraph(line((which + verb, PLACE), *_buffers(accesses)), page.width, 2, "", 3)
    return lines


def _buffers(accesses: Sequence[BufferAccess]) -> tuple[str, tuple[str, str]]:
    ranked = sorted(accesses, key=lambda access: -(access.bytes or 0))
    sizes = [access.bytes for access in accesses if access.bytes is not None]
    whole = nbytes(sum(sizes) if len(sizes) == len(accesses) else None)
    each = joined([f"{access.name} {nbytes(access.bytes)}" for access in ranked], _BUFFERS)
    return f"{whole} in {plural(len(accesses), 'buffer')}: ", (each, DIM)


def cost_lines(lineages: Sequence[Lineage], costs: Costs, page: Page) -> list[Text]:
    """What it took, and how much of that this device could do without: of times that are not usable nothing follows."""
    known = costs.launches(lineages)
    if not known:
        return []
    runs = sum(cost.time.runs for cost in known)
    above = sum(cost.above for cost in known if cost.floor is not None)
    is_known = costs.is_usable and any(cost.floor is not None for cost in known)
    floor = f", {microseconds(above)} more than this device needs" if is_known else ""
    often = f"{runs:,.4g} {'run' if runs == 1 else 'runs'}"
    told = f"{microseconds(sum(cost.total for cost in known))} a call, in {often}{floor}"
    doubt = [] if costs.is_usable else paragraph(UNUSABLE, page.width, 4, WARN)
    return [*paragraph(line(("takes ", PLACE), told), page.width, 2), *doubt]


def _configs(kernel: Kernel, page: Page) -> list[Text]:
    if not kernel.configs:
        return []
    columns = (
        Column("config", flexible=True),
        Column("time", right=True),
        Column("registers", right=True),
        Column("spills", right=True),
        Column("shared memory", right=True),
        Column(style=GOOD),
    )
    rows = config_rows(kernel)
    return [line((plural(len(rows), "config"), PLACE), indent=2), *table(columns, rows, page.width, 4)]


def config_rows(kernel: Kernel) -> list[tuple[str, ...]]:
    """Each way to run it that was tried: what it is, how long that took, what it needs."""
    return [
        (
            ", ".join(f"{name}={value}" for name, value in config.values.items()),
            "" if config.milliseconds is None else milliseconds(config.milliseconds),
            "" if config.registers is None else number(config.registers),
            "" if config.spills is None else number(config.spills),
            "" if config.shared_bytes is None else nbytes(config.shared_bytes),
            "chosen" if config.chosen else "",
        )
        for config in kernel.configs
    ]
