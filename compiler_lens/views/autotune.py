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
from compiler_lens.views.document import Block, Column, Document, Fold, Section, Table, paragraph, table
from compiler_lens.views.fusion import NO_TEMPLATES, TEMPLATED
from compiler_lens.views.parts import Compiled, Kind, Span, Tone, strong
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
    blocks: list[Block] = [_overview(tuned)] if selection.for_page else []
    most = 0 if selection.for_page else _CHOICES
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
    return table(
        tuned,
        (Column("id", choice=True), lambda one: Compiled(one.compile_id)),
        (Column("op"), lambda one: one.op),
        (Column("inputs", Kind.CODE), lambda one: ", ".join(one.inputs)),
        (Column("winner", Kind.CODE), lambda one: one.winner.name if one.winner else ""),
        (Column("kind", choice=True), lambda one: words.KERNEL_KINDS[one.winner.kind] if one.winner else ""),
        (Column("time", Kind.MILLISECONDS), lambda one: one.winner.milliseconds if one.winner else None),
        (Column("next best", Kind.MILLISECONDS), _next_best),
        (Column("choices", Kind.COUNT), lambda one: len(one.choices)),
        (Column("spent", Kind.SECONDS), lambda one: (one.seconds or 0.0) + (one.precompile_seconds or 0.0)),
        (Column("the winner is"), lambda one: one.runs_otherwise),
    )


def _next_best(tuned: Tuned) -> float | None:
    return tuned.choices[1].milliseconds if tuned.winner and len(tuned.choices) > 1 else None


def tried(tuned: Tuned, most: int = 0) -> Fold:
    """Return all that was tried for an op, or the fastest `most` of it."""
    margin = f", the winner {tuned.margin:.2f} times faster than the next" if tuned.margin else ""
    spent = f"{seconds(tuned.seconds)} to measure, {seconds(tuned.precompile_seconds)} to compile"
    choices = table(
        tuned.choices,
        (Column("choice", tone=Tone.CODE, flexible=True, headless=True), lambda one: one.name),
        (Column("kind", headless=True), lambda one: words.KERNEL_KINDS[one.kind]),
        (Column("time", Kind.MILLISECONDS, headless=True, missing="failed"), lambda one: one.milliseconds),
        (Column("won", headless=True), lambda one: Span("winner", Tone.GOOD) if one is tuned.winner else None),
        (Column("detail", tone=Tone.QUIET, flexible=True, headless=True), lambda one: one.detail),
        indent=4, most=most, noun="choice",
    )  # fmt: skip
    blocks: list[Block] = [choices]
    if tuned.runs_otherwise:
        blocks.append(paragraph(f"the winner is {tuned.runs_otherwise}", indent=4, tone=Tone.WARN))
    head = (Compiled(tuned.compile_id), " ", strong(tuned.op), f"({', '.join(tuned.inputs)})")
    return Fold(head, f"{plural(len(tuned.choices), 'choice')}, {spent}{margin}", tuple(blocks))
