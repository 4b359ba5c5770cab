"""What differs around the kernels of two recordings: graphs, breaks, recompiles, tuning, times, settings."""

from __future__ import annotations

from compiler_lens.facts.compare.model import AutotuneChange, BreakChange, NodeChange, Verdict, sum_times
from compiler_lens.views import words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.around_words import break_verdict, choice, frame_line, node_change, node_modules
from compiler_lens.views.diff.summary import phase_rows
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Column, Gap, Paragraph, Section, Table, line, paragraph
from compiler_lens.views.parts import At, Kind, Span, Tone, code, quiet, strong
from compiler_lens.views.text import milliseconds, plural, times

_ARROW = "→"
_NODES = {Verdict.ADDED: Tone.GOOD, Verdict.REMOVED: Tone.BAD}


def graphs(asked: Asked) -> tuple[Block, ...]:
    """Return the ops that were added, went, moved or changed, for each graph."""
    d = asked.diff
    blocks: list[Block] = []
    for change in d.graphs:
        ids = " ".join(dict.fromkeys(f"[{i}]" for i in (change.before, change.after)))
        blocks.append(line(strong(change.function), f"  {ids} {words.STAGES[change.stage]}", indent=2))
        blocks += [_node(node) for node in change.nodes]
    counted = f"{plural(len(d.graphs), 'graph')} differ" if blocks else "no graph differs"
    return (Section("Graphs", tuple(blocks), counted),)


def _node(node: NodeChange) -> Paragraph:
    many = f" {times(node.times)}" if node.times > 1 else ""
    where: list[Span | At] = [quiet(f"  {module}")] if (module := node_modules(node)) else []
    if node.line:
        where += [quiet(" " if where else "  "), At(node.line, Tone.QUIET)]
    return paragraph(Span(node_change(node) + many, _NODES.get(node.verdict, Tone.PLAIN)), *where, indent=4)


def breaks(asked: Asked) -> tuple[Block, ...]:
    """Return graph breaks that were fixed or are new; recompiles; frames."""
    d = asked.diff
    found = tuple(block for change in d.breaks for block in _break(change))
    columns = (
        Column("function"),
        Column("changed", flexible=True),
        Column("before", Kind.COUNT),
        Column("after", Kind.COUNT),
    )
    rows = tuple((change.function, change.subject, change.before, change.after) for change in d.recompiles)
    frames = tuple(line(frame_line(frame), indent=2) for frame in d.frames)
    same = "the same on both sides"
    return (
        Section("Graph breaks", found, "" if found else same),
        Section("Recompiles", (Table(columns, rows), *frames), "" if rows else same),
    )


def _break(change: BreakChange) -> tuple[Block, ...]:
    at = At(change.place, Tone.STRONG) if change.place else strong("an unknown place")
    verdict = Span(f"{break_verdict(change):<6}", Tone.BAD if change.after > change.before else Tone.GOOD)
    head = line(verdict, at, f"  {change.gb_type}  {change.before} {_ARROW} {change.after}", indent=2)
    source = change.place.code.strip() if change.place else ""
    return (head, line(code(source), indent=8)) if source else (head,)


def autotune(asked: Asked) -> tuple[Block, ...]:
    """Return the ops for which another choice won."""
    d = asked.diff
    found = tuple(block for change in d.autotunes for block in _tuned(change))
    return (Section("Autotuning", found, "" if found else "the same winners on both sides"),)


def _tuned(change: AutotuneChange) -> tuple[Block, ...]:
    many = f" {times(change.times)}" if change.times > 1 else ""
    blocks: list[Block] = [line(strong(f"{change.op}{many}"), f"  {' '.join(change.inputs)}", indent=2)]
    sides = (("before", change.before, change.before_runs), ("after", change.after, change.after_runs))
    for side, chosen, runs in sides:
        took = f"{milliseconds(chosen.milliseconds)}  " if chosen else ""
        other = f", {words.runs_otherwise(runs)}" if runs else ""
        blocks.append(paragraph(quiet(f"{side:<7}"), f"{took}{choice(chosen)}{other}", indent=4))
    return tuple(blocks)


def compile_times(asked: Asked) -> tuple[Block, ...]:
    """Return compile time by phase; kernel times, where both sides were profiled."""
    d = asked.diff
    rows = [(words.PHASES[phase], before, after) for phase, (before, after) in phase_rows(d)]
    rows.append(("total", d.before.phases.total, d.after.phases.total))
    columns = (Column(), Column("before", Kind.SECONDS), Column("after", Kind.SECONDS))
    compiling = Section("Compile time", (Table(columns, tuple(rows)),))
    if (kernel_time := d.kernel_times) is None:
        return compiling, Gap(), line(told.NO_TIMES)
    blocks = [paragraph(told.change_line(change), indent=2) for change in d.kernels if change.times]
    if same := sum_times(d.identical):
        blocks.append(paragraph(f"identical launches{told.microseconds(same)}", indent=2))
    spent = f"{told.spent(kernel_time)} ({told.gain(kernel_time)})"
    return compiling, Section("Kernels in one call", tuple(blocks), spent)


def environment(asked: Asked) -> tuple[Block, ...]:
    """Return the versions and settings that differ."""
    d = asked.diff
    rows = tuple((one.name, one.before or "-", one.after or "-") for one in d.settings)
    columns = (Column(tone=Tone.STRONG), Column("before", flexible=True), Column("after", flexible=True))
    return (Section("Settings", (Table(columns, rows),), "" if rows else "no difference"),)
