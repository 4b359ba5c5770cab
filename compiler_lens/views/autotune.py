"""What autotuning tried for each op, and what won."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from compiler_lens.facts.kernels.library_calls import asks_for_tuning, library_of, template_of
from compiler_lens.facts.kernels.tuned import run_otherwise
from compiler_lens.facts.overview.shared import provenance_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, Recording
from compiler_lens.views import words
from compiler_lens.views.document import Block, Column, Document, Fold, Section, Table, paragraph
from compiler_lens.views.fusion import NO_TEMPLATES, TEMPLATED
from compiler_lens.views.parts import Cell, Compiled, Kind, Span, Tone, strong
from compiler_lens.views.text import plural, seconds

_CHOICES = 8


class Tuned(AutotuneResult, frozen=True, kw_only=True):
    """One op that was tuned: all choices, and the one that won."""

    winner: AutotuneChoice | None
    margin: float | None  # how many times faster the winner is than the next
    runs_otherwise: str  # why what won is not what runs; empty where it is

    @classmethod
    def of(cls, result: AutotuneResult, runs_otherwise: str) -> Tuned:
        """Return a result with what follows from it."""
        return cls(**asdict(result), winner=result.winner, margin=result.margin, runs_otherwise=runs_otherwise)


class Data(Struct, frozen=True):
    """What autotuning tried."""

    results: tuple[Tuned, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return for each op its candidates, the fastest first."""
    results = [(index, result) for index, result in enumerate(recording.autotunes) if selection.has(result)]
    if not results:
        told = f"Nothing was autotuned{_why_not(recording, selection)}."
        return Document((paragraph(told),), Data(()), count=0)
    others = run_otherwise(recording, provenance_of(recording, selection).lineages)
    tuned = tuple(Tuned.of(result, words.runs_otherwise(others.get(index))) for index, result in results)
    blocks: list[Block] = [_overview(tuned)] if selection.folds_nothing else []
    most = 0 if selection.folds_nothing else _CHOICES
    blocks += [Section("", (tried(one, most),)) for one in tuned]
    told = f"{plural(len(tuned), 'op')} in {words.tuning_time(tuned)}"
    return Document((Section("Autotuning", tuple(blocks), told),), Data(tuned), count=len(tuned))


def _why_not(recording: Recording, selection: Selection) -> str:
    """As far as it is known: nobody asked for it, or there is nothing to choose from."""
    compilations = [compilation for compilation in recording.compilations if selection.has(compilation)]
    if not any(asks_for_tuning(compilation, recording.environment) for compilation in compilations):
        return ': mode="max-autotune" asks for it' if compilations else ""
    kernels = [kernel for kernel in recording.kernels if selection.has(kernel)]
    known = {template_of(kernel) for kernel in kernels if library_of(kernel, {}) in TEMPLATED}
    if kernels and not known:
        return ", though it was asked for: there is no matrix product and no convolution that a library computes"
    told = [sentence for template, sentence in NO_TEMPLATES.items() if template in known]
    return ", though it was asked for" + (f": {'; '.join(told)}" if told and known <= NO_TEMPLATES.keys() else "")


def _overview(tuned: Sequence[Tuned]) -> Table:
    """Every op that was tuned, with its winner."""
    columns = (
        Column("id", choice=True),
        Column("op"),
        Column("inputs", Kind.CODE),
        Column("winner", Kind.CODE),
        Column("kind", choice=True),
        Column("time", Kind.MILLISECONDS),
        Column("next best", Kind.MILLISECONDS),
        Column("choices", Kind.COUNT),
        Column("spent", Kind.SECONDS),
        Column("the winner is"),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in tuned:
        winner, after = one.winner, one.choices[1] if len(one.choices) > 1 else None
        rows.append(
            (
                Compiled(one.compile_id),
                one.op,
                ", ".join(one.inputs),
                winner.name if winner else "",
                words.KERNEL_KINDS[winner.kind] if winner else "",
                winner.milliseconds if winner else None,
                after.milliseconds if winner and after else None,
                len(one.choices),
                (one.seconds or 0.0) + (one.precompile_seconds or 0.0),
                one.runs_otherwise,
            )
        )
    return Table(columns, tuple(rows))


def tried(tuned: Tuned, most: int = 0) -> Fold:
    """Return all that was tried for an op, or the fastest `most` of it."""
    margin = f", the winner {tuned.margin:.2f} times faster than the next" if tuned.margin else ""
    spent = f"{seconds(tuned.seconds)} to measure, {seconds(tuned.precompile_seconds)} to compile"
    columns = (
        Column("choice", tone=Tone.CODE, flexible=True, headless=True),
        Column("kind", headless=True),
        Column("time", Kind.MILLISECONDS, headless=True, missing="failed"),
        Column("won", headless=True),
        Column("detail", tone=Tone.QUIET, flexible=True, headless=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for choice in tuned.choices:
        won = Span("winner", Tone.GOOD) if choice is tuned.winner else None
        rows.append((choice.name, words.KERNEL_KINDS[choice.kind], choice.milliseconds, won, choice.detail))
    blocks: list[Block] = [Table(columns, tuple(rows), indent=4, most=most, noun="choice")]
    if tuned.runs_otherwise:
        blocks.append(paragraph(f"the winner is {tuned.runs_otherwise}", indent=4, tone=Tone.WARN))
    head = (Compiled(tuned.compile_id), " ", strong(tuned.op), f"({', '.join(tuned.inputs)})")
    return Fold(head, f"{plural(len(tuned.choices), 'choice')}, {spent}{margin}", tuple(blocks))
