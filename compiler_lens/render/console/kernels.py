"""Kernels: all of them with what they fuse, or one down to its source."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.analysis.kernels import fused_op_count, is_generated, kernel_kinds, launch_count
from compiler_lens.analysis.ownership import innermost_own
from compiler_lens.analysis.select import Selection, select_kernels
from compiler_lens.model import GraphStage, Kernel, Node, Pass, Recording, SourceLine, Trust
from compiler_lens.render import words
from compiler_lens.render.console.code import code_lines, language_of
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, GOOD, PLACE, Page, command, line, paragraph, title
from compiler_lens.render.text import milliseconds, nbytes, number, plural

_LAUNCHES = 12

# The graph whose nodes a kernel of each pass computes.
_LOWERED = {
    Pass.FORWARD: GraphStage.POST_GRAD,
    Pass.INFERENCE: GraphStage.POST_GRAD,
    Pass.BACKWARD: GraphStage.POST_GRAD_BACKWARD,
}


def kernel_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC kernels [ID]` shows: every kernel, the one that fuses most first."""
    kernels = [k for k in recording.kernels if selection.has(k)]
    if not kernels:
        return [line("No kernels.")]
    kinds = ", ".join(f"{n:,} {words.KERNEL_KINDS[kind]}" for kind, n in kernel_kinds(kernels))
    counted = f"{number(len(kernels))} with {plural(launch_count(kernels), 'launch', 'launches')}: {kinds}"
    ranked = sorted(kernels, key=lambda k: (not is_generated(k), -fused_op_count(k), k.name))
    lines = [title("Kernels", counted), *_doubt(kernels, page)]
    for kernel in ranked:
        lines += _entry(kernel, page)
    return [*lines, Text(), command("source of one: ", page.show(f"kernel {ranked[0].name}"))]


def one_kernel_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC kernel NAME` shows: what it fuses, from which lines, its launches, configs and source."""
    lines: list[Text] = []
    for kernel in select_kernels(recording, selection.kernel, selection.ids):
        lines += [*([Text()] if lines else []), *_one(recording, kernel, page)]
    return lines


def _doubt(kernels: list[Kernel], page: Page) -> list[Text]:
    """A word on what is fused, where nobody but the generated code tells it: a TORCH_TRACE log, a foreign cache."""
    doubtful = sum(kernel.trust is Trust.TEXT for kernel in kernels)
    whose = "their ops" if doubtful == sum(bool(kernel.nodes) for kernel in kernels) else f"the ops of {doubtful:,}"
    return paragraph(f"{whose} are {words.TRUST[Trust.TEXT]}", page.width, 2, DIM) if doubtful else []


def _entry(kernel: Kernel, page: Page) -> list[Text]:
    """Two lines: a name must stand there whole, to be asked for."""
    ops = ", ".join(words.op_name(op) for op in kernel.aten)
    counts = f"{plural(fused_op_count(kernel), 'op')}, {plural(len(kernel.launches), 'launch', 'launches')}"
    where = f"[{kernel.compile_id}] {words.PASSES[kernel.part]}  "
    doubt = ", approximate" if kernel.trust is Trust.TEXT else ""
    told = line((where, DIM), f"{words.kernel_kind(kernel)}, {counts}{doubt}", (f": {ops}" if ops else "", CODE))
    name = line((kernel.name, PLACE), indent=2)
    name.overflow = "ignore"
    return [name, *paragraph(told, page.width, 6, "", 2)]


def _one(recording: Recording, kernel: Kernel, page: Page) -> list[Text]:
    where = [f"[{kernel.compile_id}]", words.PASSES[kernel.part], words.kernel_kind(kernel), kernel.device]
    lines = [line((kernel.name, PLACE)), line((", ".join(part for part in where if part), DIM), indent=2)]
    lines += _fuses(recording, kernel, page)
    lines += _launches(kernel)
    lines += _configs(kernel, page)
    if not kernel.source:
        return [*lines, line(("no source: a library has it", DIM), indent=2)]
    return [*lines, Text(), *code_lines(kernel.source, page, language_of(kernel.source))]


def _fuses(recording: Recording, kernel: Kernel, page: Page) -> list[Text]:
    nodes = _nodes(recording, kernel)
    each = f" in each of {len(kernel.launches):,} launches" if len(kernel.launches) > 1 and kernel.nodes else ""
    computes = f"computes {plural(fused_op_count(kernel), 'op')}{each}"
    heading = line((computes, PLACE), (f", {words.TRUST[kernel.trust]}", DIM), indent=2)
    if not nodes:
        return [heading, *paragraph(", ".join(words.op_name(op) for op in kernel.aten), page.width, 4, CODE)]
    columns = (
        Column(style=DIM, flexible=True),
        Column(style=CODE),
        Column(flexible=True),
        Column(style=PLACE),
        Column(style=DIM, flexible=True),
    )
    return [heading, *table(columns, [_node(n, page) for n in nodes], page.width, 4)]


def _nodes(recording: Recording, kernel: Kernel) -> list[Node]:
    """The post-grad nodes that the kernel computes, as far as their graph is recorded."""
    names = set(kernel.nodes)
    graphs = (g for g in recording.graphs if g.compile_id == kernel.compile_id and g.stage is _LOWERED[kernel.part])
    return [node for graph in graphs for node in graph.nodes if node.name in names]


def _node(node: Node, page: Page) -> tuple[str, ...]:
    at = innermost_own(node.source) or (node.source[-1] if node.source else SourceLine("", 0))
    spec = str(node.specs[0]) if node.specs else ""
    return (
        node.name,
        f"{words.op_name(node.target)} {spec}".rstrip(),
        node.module,
        page.at(at) if at.file else "",
        at.code.strip(),
    )


def _launches(kernel: Kernel) -> list[Text]:
    if not kernel.launches:
        return []
    lines = [line((plural(len(kernel.launches), "launch", "launches"), PLACE), (" in the output code", DIM), indent=2)]
    for launch in kernel.launches[:_LAUNCHES]:
        grid = f"  grid {launch.grid}" if launch.grid else ""
        lines.append(line((f"line {launch.line}: ", DIM), f"({', '.join(launch.arguments)})", (grid, DIM), indent=4))
    more = len(kernel.launches) - _LAUNCHES
    return lines + ([line((f"… {more:,} more in --json", DIM), indent=4)] if more > 0 else [])


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
    rows = [
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
    return [line((plural(len(rows), "config"), PLACE), indent=2), *table(columns, rows, page.width, 4)]
