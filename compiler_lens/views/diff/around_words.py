"""The words for what differs around kernels: graphs, frames, breaks, CUDA graphs, autotuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compiler_lens.facts.compare.model import (
    AutotuneChange,
    BreakChange,
    CudagraphChange,
    FrameChange,
    GraphChange,
    NodeChange,
    Verdict,
)
from compiler_lens.recording.model import AutotuneChoice, CudagraphOutcome, GraphStage
from compiler_lens.views import words
from compiler_lens.views.diff.difference_words import CONSTANTS
from compiler_lens.views.text import plural, times

_SHOWN = 3  # changes of graphs, told in one line
_ARROW = "→"


def is_cause(changes: Sequence[GraphChange]) -> bool:
    """Whether the graph that Dynamo traced differs: what the author wrote, or gave it, is another."""
    return any(change.stage is GraphStage.DYNAMO for change in changes)


def graph_lines(changes: Sequence[GraphChange]) -> list[str]:
    """What differs in the first stage that differs, of all compilations: the later ones follow from it."""
    if not changes:
        return []
    stage = next(stage for stage in GraphStage if any(change.stage is stage for change in changes))
    counts: Counter[str] = Counter()
    for change in changes:
        if change.stage is stage:
            for node in change.nodes:
                counts[node_change(node)] += node.times
    told = [f"{what} {times(n)}" if n > 1 else what for what, n in counts.most_common(_SHOWN)]
    more = f"; {len(counts) - _SHOWN:,} more" if len(counts) > _SHOWN else ""
    return [f"{words.STAGES[stage]}: {'; '.join(told)}{more}"]


def node_change(change: NodeChange) -> str:
    """`relu f32[8, 64] → gelu f32[8, 64]`, `+ dropout f32[8, 64]`."""
    before, after = node(change.before), node(change.after)
    if change.verdict is Verdict.CHANGED:
        old, new = change.before.partition(" "), change.after.partition(" ")
        if old[2] == new[2]:
            return f"{words.op_name(old[0])} {_ARROW} {words.op_name(new[0])} {new[2]}".rstrip()
        if old[0] == new[0]:
            return f"{words.op_name(old[0])} {old[2]} {_ARROW} {new[2]}"
        return f"{before} {_ARROW} {after}"
    if change.verdict is Verdict.IDENTICAL:
        return f"moved: {after}"
    return f"+ {after}" if after else f"- {before}"


def node_modules(change: NodeChange) -> str:
    """Where the nodes are: `blocks.0 … blocks.2`."""
    between = ", " if change.times == 2 else " … "  # noqa: PLR2004 -- both of them
    return between.join(part for part in (change.module, change.last_module) if part)


def node(told: str) -> str:
    """The op by its short name, and its result."""
    target, _, spec = told.partition(" ")
    return f"{words.op_name(target)} {spec}".rstrip() if target else ""


def frame_line(change: FrameChange) -> str:
    """What became of a function's compilations."""
    if not change.before or not change.after:
        side, ids = ("after", change.after) if change.after else ("before", change.before)
        many = f" {times(len(ids))}" if len(ids) > 1 else ""
        return f"{change.function}{many}: only {side}"
    outcomes = [words.OUTCOMES[o] for o in (change.outcome_before, change.outcome_after) if o]
    return f"{change.function}: {f' {_ARROW} '.join(outcomes)}"


def break_verdict(change: BreakChange) -> str:
    """What became of a graph break."""
    if not change.after:
        return "fixed"
    if not change.before:
        return "new"
    return "more" if change.after > change.before else "fewer"


def cudagraph_line(changes: Sequence[CudagraphChange]) -> str:
    """How CUDA graphs ended before and after, counted."""
    counts = Counter((cudagraph_state(c.before), cudagraph_state(c.after)) for c in changes)
    told = [f"{before} {_ARROW} {after}" + (f" {times(n)}" if n > 1 else "") for (before, after), n in counts.items()]
    return f"CUDA graphs: {'; '.join(told)}"


def cudagraph_state(outcome: CudagraphOutcome | None) -> str:
    """How CUDA graphs ended for one compiled graph."""
    if outcome is None:
        return "none"
    parts = f" in {outcome.partitions:,} partitions" if outcome.partitions > 1 else ""
    return words.CUDAGRAPHS[outcome.state] + parts


def autotune_line(changes: Sequence[AutotuneChange]) -> str:
    """How many ops autotuning decides otherwise."""
    only = {
        "before": sum(c.times for c in changes if c.before and not c.after),
        "after": sum(c.times for c in changes if c.after and not c.before),
    }
    other = sum(c.times for c in changes if c.before and c.after)
    told = [f"{plural(other, 'op')} with another winner"] if other else []
    told += [f"{plural(n, 'op')} tuned only {side}" for side, n in only.items() if n]
    return f"Autotuning: {', '.join(told)}"


def choice(chosen: AutotuneChoice | None) -> str:
    """A winner with what tells it from others."""
    if chosen is None:
        return "not tuned"
    if chosen.kind.is_library:
        return chosen.name
    values = dict(part.partition("=")[::2] for part in chosen.detail.split(", "))
    told = [f"{name} {values[name]}" for name in (*CONSTANTS, "num_warps", "num_stages") if name in values]
    return f"{words.KERNEL_KINDS[chosen.kind]} {', '.join(told)}".rstrip()
