"""What settings of torch.compile do with a program: the trials, what still breaks, and what to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.measured.what_if import Left, NotTried, Trial, WhatIf
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Stance
from compiler_lens.views.advice import STANCE_CHANGE, taken
from compiler_lens.views.document import Block, Column, Gap, Line, Section, Table, line, paragraph
from compiler_lens.views.parts import At, Cell, Kind, Span, Tone, coded, quiet, strong
from compiler_lens.views.text import UNKNOWN, number, plural

_LEFT = 3  # places that still break, shown
_NOT_ASKED_FOR = "no "  # how such a reason begins

_COLUMNS = (
    Column(tone=Tone.GOOD),
    Column("trial", flexible=True, folds=True),
    Column("eager", Kind.COUNT, missing=UNKNOWN),
    Column("breaks", Kind.COUNT, missing=UNKNOWN),
    Column("recompiles", Kind.COUNT, missing=UNKNOWN),
    Column("graphs", Kind.COUNT, missing=UNKNOWN),
    Column("Dynamo", Kind.SECONDS, tone=Tone.QUIET, missing=UNKNOWN),
)
_FIGURES: Mapping[str, str] = {
    "eager_frames": "frames that run eagerly",
    "breaks": "breaks",
    "recompiles": "recompiles",
    "graphs": "graphs",
}


class TrialFacts(Trial, frozen=True):
    """One configuration, tried on the program, and whether it helps."""

    helps: bool = False


class Data(Struct, frozen=True):
    """What every configuration that could matter does with a program. The first trial is the program as it is."""

    calls: int  # made in each trial
    stance: Stance | None  # that the program has taken; the trials are made without it
    best: str | None  # the trial that helps most, of those that end the worst
    worst: Left | None  # of the program as it is
    trials: tuple[TrialFacts, ...]
    not_tried: tuple[NotTried, ...]


def data(result: WhatIf) -> Data:
    """Return the facts of the trials for programs."""
    trials = tuple(
        TrialFacts(**{name: getattr(trial, name) for name in Trial.__struct_fields__}, helps=trial.helps)
        for trial in result.trials
    )
    best = result.best.name if result.best else None
    return Data(result.calls, result.stance, best, result.worst, trials, result.not_tried)


def blocks(result: WhatIf) -> tuple[Block, ...]:
    """Return the trials as a table, what still breaks, and what to do."""
    counts = result.baseline.after
    if result.is_clean and counts and not counts.has_frames:
        told = paragraph("Nothing entered the compiler, so nothing could be tried.", tone=Tone.WARN)
        return *_stance(result), told, *_problems(result)
    if result.is_clean:
        clean = "nothing was compiled, there are no tensor ops"
        if counts and counts.graphs:
            benign = counts.benign_recompiles
            calls = plural(result.calls, "call")
            recompiles = f"{plural(benign, 'recompile')} in {calls}, as expected" if benign else "no recompiles"
            clean = f"{plural(counts.graphs, 'graph')}, no breaks, {recompiles}"
        head = "Nothing else to try: " if result.stance else Span("Nothing to try: ", Tone.GOOD)
        return *_stance(result), line(head, clean), *_problems(result)
    rows: list[tuple[Cell, ...]] = []
    errors: list[tuple[Block, ...]] = []
    for trial in result.trials:
        is_best = trial is result.best
        figures = (getattr(trial.after, name, None) for name in (*_FIGURES, "seconds"))
        rows.append(("*" if is_best else None, strong(trial.name) if is_best else trial.name, *figures))
        at = (At(trial.error_line), ": ") if trial.error_line else ()
        error = paragraph(*at, trial.error, indent=6, tone=Tone.BAD, limit=2)
        errors.append((error,) if trial.error else ())
    table = Table(_COLUMNS, tuple(rows), beneath=tuple(errors))
    summary = f"{plural(result.calls, 'call')} in each trial; graphs as Dynamo captures them"
    below = (*_left(result), *_not_tried(result.not_tried), *_problems(result), *_to_do(result))
    return *_stance(result), Section("What if", (table,), summary), Gap(), *below


def _stance(result: WhatIf) -> Iterator[Block]:
    """What is tried is not what the program does while it has taken a stance."""
    if result.stance:
        yield paragraph(f"The program {taken(result.stance)} Here it was tried without.", tone=Tone.WARN)
        yield paragraph(*coded(STANCE_CHANGE), indent=2)


def _problems(result: WhatIf) -> Iterator[Block]:
    """Figures that cannot be trusted must not look as if they could."""
    found = [problem for trial in result.trials for problem in trial.problems]
    if found:
        said = f"{plural(len(found), 'thing')} could not be recorded, figures may be too low: {found[0].message}"
        yield paragraph(said, tone=Tone.BAD, limit=2)


def _left(result: WhatIf) -> Iterator[Block]:
    """Where graphs break even in the best trial; if none helps, also what would break next."""
    if result.best:
        yield from _places(f"Still breaks, {result.best.name}:", result.best.left)
        return
    known = set(result.baseline.left)
    yield from _places("Breaks, or recompiles, at:", result.baseline.left)
    for trial in result.trials[1:]:
        if new := tuple(left for left in trial.left if left not in known):
            yield from _places(f"{trial.name} only leads to:", new)
            known |= set(new)


def _places(title: str, places: Sequence[Left]) -> Iterator[Block]:
    if places:
        yield line(quiet(title))
    for left in places[:_LEFT]:
        at = At(left.line, Tone.STRONG) if left.line else strong("an unknown place")
        yield line(at, f"  {left.gb_type}", indent=2)
    if len(places) > _LEFT:
        yield line(quiet(f"… {plural(len(places) - _LEFT, 'more place')}"), indent=2)


def _not_tried(not_tried: Sequence[NotTried]) -> Iterator[Block]:
    others = [one for one in not_tried if not one.reason.startswith(_NOT_ASKED_FOR)]
    reasons = grouped(others, lambda one: one.reason)
    told = [f"{', '.join(one.name for one in group)} ({reason})" for reason, group in reasons.items()]
    if unasked := len(not_tried) - len(others):
        told.append(f"{plural(unasked, 'setting')} that nothing here asks for (in --json)")
    if told:
        yield paragraph(f"Not tried: {'; '.join(told)}", tone=Tone.QUIET)


def _to_do(result: WhatIf) -> Iterator[Block]:
    best, counts = result.best, result.baseline.after
    if best is None:
        told = "Nothing that was tried here makes it compile."
        if counts:
            what = "the breaks need" if counts.breaks else "this needs"
            head = "Nothing tried here helps" if len(result.trials) > 1 else "No setting could help"
            how = "`compiler-lens fix` tries such changes, and lens.report() says what to change"
            told = f"{head}: {what} a change in the code. {how}"
        if result.worst and result.beside:
            told = "Nothing tried here ends what hurts most, "
            at = At(result.worst.line, Tone.STRONG) if result.worst.line else ""
            yield paragraph(told, at, f" ({result.worst.gb_type}): that needs a change in the code.")
            yield from _gain(result.beside, "Beside that, ")
            return
        yield paragraph(told)
        return
    yield from _gain(best)


def _gain(best: Trial, head: str = "") -> Iterator[Block]:
    yield paragraph(f"Price of {best.name}: {best.price}", tone=Tone.QUIET)
    gain = "It compiles"
    if best.before and best.after:
        figures = [(words, getattr(best.before, name), getattr(best.after, name)) for name, words in _FIGURES.items()]
        gain = ", ".join(f"{words} {number(was)} → {number(now)}" for words, was, now in figures if was != now)
    said = f"{head}{gain}"
    yield paragraph(f"{said[:1].upper()}{said[1:]}, with", tone=Tone.PLAIN if head else Tone.GOOD)
    yield from (Line((strong(code),), indent=4, whole=True) for code in best.code)
