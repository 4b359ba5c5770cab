"""What autotuning tried, and what became of CUDA graphs."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.facts.kernels.fusion_templates import asks_for_tuning, template_of
from compiler_lens.facts.kernels.library_calls import Library, library_of
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import run_otherwise
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import AutotuneResult, CudagraphOutcome, CudagraphState, Recording
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, GOOD, PLACE, WARN, Page, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.fusion_words import NO_TEMPLATES
from compiler_lens.views.text import milliseconds, plural, seconds

_CHOICES = 8
_TUNED = (Library.PRODUCT, Library.CONVOLUTION)


def autotune_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC autotune [ID]` shows: for each op its candidates, the fastest first."""
    chosen = {index: result for index, result in enumerate(recording.autotunes) if selection.has(result)}
    results = list(chosen.values())
    if not results:
        return paragraph(f"Nothing was autotuned{_why_not(recording, selection)}.", page.width, 0)
    lines = [title("Autotuning", f"{plural(len(results), 'op')} in {words.tuning_time(results)}")]
    others = run_otherwise(recording, Provenance.of(recording).lineages)
    for index, result in chosen.items():
        lines += [Text(), *_result(result, page)]
        if told := words.runs_otherwise(others.get(index)):
            lines += paragraph(f"the winner is {told}", page.width, 4, WARN)
    return lines


def _why_not(recording: Recording, selection: Selection) -> str:
    """As far as it is known: nobody asked for it, or there is nothing to choose from."""
    compilations = [c for c in recording.compilations if selection.has(c)]
    if not any(asks_for_tuning(c, recording.environment) for c in compilations):
        return ': mode="max-autotune" asks for it' if compilations else ""
    kernels = [kernel for kernel in recording.kernels if selection.has(kernel)]
    known = {template_of(kernel) for kernel in kernels if library_of(kernel, {}) in _TUNED}
    if kernels and not known:
        return ", though it was asked for: there is no matrix product and no convolution that a library computes"
    told = [sentence for template, sentence in NO_TEMPLATES.items() if template in known]
    return ", though it was asked for" + (f": {'; '.join(told)}" if told and known <= NO_TEMPLATES.keys() else "")


def cudagraph_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC cudagraphs [ID]` shows: which compiled graphs run as CUDA graphs, and why not the others."""
    outcomes = [o for o in recording.cudagraphs if selection.has(o)]
    if not outcomes:
        return [line("CUDA graphs: nothing recorded. They are asked for by mode reduce-overhead or max-autotune.")]
    columns = (
        Column("id", style=DIM), Column("pass"), Column("state"), Column("partitions", right=True),
        Column("because", flexible=True), Column("at", style=PLACE, flexible=True),
    )  # fmt: skip
    return [
        title("CUDA graphs", plural(len(outcomes), "graph")),
        *table(columns, [_outcome(o, page) for o in outcomes], page.width),
    ]


def _result(result: AutotuneResult, page: Page) -> list[Text]:
    margin = f", the winner {result.margin:.2f} times faster than the next" if result.margin else ""
    spent = f"{seconds(result.seconds)} to measure, {seconds(result.precompile_seconds)} to compile"
    heading = line((f"[{result.compile_id}] ", DIM), (result.op, PLACE), f"({', '.join(result.inputs)})", indent=2)
    rows = [
        (
            c.name, words.KERNEL_KINDS[c.kind], "failed" if c.milliseconds is None else milliseconds(c.milliseconds),
            line(("winner", GOOD)) if c is result.winner else "", c.detail,
        )
        for c in result.choices[:_CHOICES]
    ]  # fmt: skip
    columns = (
        Column(style=CODE, flexible=True), Column(), Column(right=True), Column(), Column(style=DIM, flexible=True),
    )  # fmt: skip
    more = len(result.choices) - _CHOICES
    hidden = [line((f"… {plural(more, 'more choice')} in --json", DIM), indent=4)] if more > 0 else []
    counted = line((f"{plural(len(result.choices), 'choice')}, {spent}{margin}", DIM), indent=4)
    return [heading, counted, *table(columns, rows, page.width, 4), *hidden]


def _outcome(outcome: CudagraphOutcome, page: Page) -> tuple[str | Text, ...]:
    fine = outcome.state in {CudagraphState.CAPTURED, CudagraphState.PARTITIONED}
    return (
        f"[{outcome.compile_id}]",
        words.PASSES[outcome.direction] if outcome.direction else "",
        line((words.CUDAGRAPHS[outcome.state], GOOD if fine else WARN)),
        f"{outcome.partitions:,}" if outcome.partitions else "",
        outcome.reason,
        page.at(outcome.user_stack[-1]) if outcome.user_stack else "",
    )
