"""What differs around the kernels of two recordings: graphs, breaks, tuning, CUDA graphs, times, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from compiler_lens.facts.compare import model
from compiler_lens.facts.compare.model import RecordingDiff, Verdict, sum_times
from compiler_lens.facts.time.caches import cache_counts
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, CudagraphOutcome, GraphStage, Recording
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Column, Gap, Section, Table, line, paragraph
from compiler_lens.views.environment import environment_facts
from compiler_lens.views.parts import At, Cell, Kind, Part, Span, Stacked, Tone, code, quiet, strong
from compiler_lens.views.text import milliseconds, one_line, plural, times

_ARROW = "→"
_NODES = {Verdict.ADDED: Tone.GOOD, Verdict.REMOVED: Tone.BAD}
_NODE_VERDICTS = {**told.VERDICTS, Verdict.IDENTICAL: "moved", Verdict.REMOVED: "gone"}
_SHOWN = 3  # changes of graphs, told in one line
_OPEN = 250  # ops that are listed at once, of several graphs
_COMPARED = 1_500  # lines of a graph's code, where every line may differ by a number
_ROOM = 20_000  # lines of all graphs together
_SIDES = (Column("before", flexible=True), Column("after", flexible=True))
_BOTH = "the same on both sides"


# -- graphs


def graphs(asked: Asked) -> tuple[Block, ...]:
    """Return the ops that were added, went, moved or changed, for each graph."""
    changes = asked.diff.graphs
    counted = plural(len(changes), "graph differs", "graphs differ") if changes else "no graph differs"
    if asked.halves:
        return (Section("Graphs", tuple(_graphs_and_code(asked)), counted),)
    blocks: list[Block] = []
    for change in changes:
        ids = " ".join(dict.fromkeys(f"[{i}]" for i in (change.before, change.after)))
        blocks.append(line(strong(change.function), f"  {ids} {words.STAGES[change.stage]}", indent=2))
        for node in change.nodes:
            many = f" {times(node.times)}" if node.times > 1 else ""
            where: list[Part] = [quiet(f"  {module}")] if (module := _modules(node)) else []
            if node.line:
                where += [quiet(" " if where else "  "), At(node.line, Tone.QUIET)]
            said = Span(node_change(node) + many, _NODES.get(node.verdict, Tone.PLAIN))
            blocks.append(paragraph(said, *where, indent=4))
    return (Section("Graphs", tuple(blocks), counted),)


def _graphs_and_code(asked: Asked) -> Iterator[Block]:
    """Each graph that differs: its ops, and its code before and after."""
    columns = (
        Column("what", choice=True), Column("op", Kind.CODE), Column("times", Kind.TIMES), Column("module"),
        Column("at"),
    )  # fmt: skip
    is_open, room = sum(len(change.nodes) for change in asked.diff.graphs) <= _OPEN, _ROOM
    known = [
        {(g.compile_id, g.stage, g.ordinal): g.code for g in reversed(side.graphs)}
        for side in (asked.before, asked.after)
    ]
    yield paragraph("what differs further down mostly follows from what differs above", tone=Tone.QUIET)
    for place, change in enumerate(asked.diff.graphs, 1):
        texts = [known[0].get((change.before, change.stage, change.ordinal), "")]
        texts.append(known[1].get((change.after, change.stage, change.ordinal), ""))
        # Comments hold paths and line numbers.
        left, right = (
            tuple(one for one in text.splitlines() if one.strip() and not one.lstrip().startswith("#"))
            for text in texts
        )
        longest = max(len(left), len(right))
        room -= longest if longest <= _COMPARED else 0
        number = f", graph {change.ordinal + 1}" if change.ordinal else ""
        ids = f" {_ARROW} ".join(dict.fromkeys(f"[{i}]" for i in (change.before, change.after)))
        name, where = f"{words.STAGES[change.stage]}{number}", f"{ids} {change.function}"
        counts = {v: sum(node.times for node in change.nodes if node.verdict is v) for v in _NODE_VERDICTS}
        note = ", ".join(f"{n:,} {_NODE_VERDICTS[v]}" for v, n in counts.items() if n)
        rows: list[tuple[Cell, ...]] = []
        for node in change.nodes:
            at = At(node.line) if node.line else None
            rows.append((_NODE_VERDICTS[node.verdict], node_change(node), node.times, _modules(node), at))
        blocks: list[Block] = [Table(columns, tuple(rows), title=f"{name} {where}")]
        if left and right and longest <= _COMPARED and room >= 0:
            blocks.append(doc.Aside("code, before and after", (doc.Comparison(left, right),)))
        shown = tuple(blocks) if is_open else (doc.Aside("ops", tuple(blocks)),)
        yield doc.Card(place, (name, quiet(f"  {where}")), shown, note=(note,))


def is_cause(changes: Sequence[model.GraphChange]) -> bool:
    """Return whether the graph that Dynamo traced differs: what the author wrote, or gave it, is another."""
    return any(change.stage is GraphStage.DYNAMO for change in changes)


def graph_lines(changes: Sequence[model.GraphChange]) -> list[str]:
    """Return what differs in the first stage that differs, of all compilations: the later ones follow from it."""
    if not changes:
        return []
    stage = next(stage for stage in GraphStage if any(change.stage is stage for change in changes))
    counts: Counter[str] = Counter()
    for change in changes:
        if change.stage is stage:
            for node in change.nodes:
                counts[node_change(node)] += node.times
    what = [f"{what} {times(n)}" if n > 1 else what for what, n in counts.most_common(_SHOWN)]
    more = f"; {len(counts) - _SHOWN:,} more" if len(counts) > _SHOWN else ""
    return [f"{words.STAGES[stage]}: {'; '.join(what)}{more}"]


def node_change(change: model.NodeChange) -> str:
    """Return `relu f32[8, 64] → gelu f32[8, 64]`, `+ dropout f32[8, 64]`."""
    (target, _, spec), (other, _, other_spec) = change.before.partition(" "), change.after.partition(" ")
    name, other_name = (words.op_name(one) if one else "" for one in (target, other))
    before, after = f"{name} {spec}".rstrip(), f"{other_name} {other_spec}".rstrip()
    if change.verdict is Verdict.CHANGED:
        if spec == other_spec:
            return f"{name} {_ARROW} {other_name} {spec}".rstrip()
        return f"{before} {_ARROW} {other_spec if target == other else after}"
    if change.verdict is Verdict.IDENTICAL:
        return f"moved: {after}"
    return f"+ {after}" if after else f"- {before}"


def _modules(change: model.NodeChange) -> str:
    """Where the nodes are: `blocks.0 … blocks.2`."""
    between = ", " if change.times == 2 else " … "  # noqa: PLR2004 -- both of them
    return between.join(part for part in (change.module, change.last_module) if part)


# -- breaks and what is compiled at all


def breaks(asked: Asked) -> tuple[Block, ...]:
    """Return graph breaks that were fixed or are new; recompiles; frames."""
    d = asked.diff
    found: list[Block] = []
    for change in d.breaks:
        at = At(change.place, Tone.STRONG) if change.place else strong("an unknown place")
        better = Tone.GOOD if change.is_reached else Tone.WARN
        verdict = Span(f"{break_verdict(change):<6}", Tone.BAD if change.after > change.before else better)
        told = f"  {change.gb_type}  {change.before} {_ARROW} {change.after}"
        found.append(paragraph(verdict, at, told, indent=2))
        if source := change.place.code.strip() if change.place else "":
            found.append(paragraph(code(source), indent=8))
        if not change.is_reached:
            found.append(paragraph(UNTRACED.format("BEFORE" if change.after else "AFTER"), indent=8, tone=Tone.WARN))
    counts = Column("before", Kind.COUNT), Column("after", Kind.COUNT)
    columns = Column("function"), Column("changed", flexible=True, missing="unknown"), *counts
    rows = tuple((change.function, change.subject, change.before, change.after) for change in d.recompiles)
    table, frames = (
        Table(columns, rows, title="Recompiles"),
        tuple(line(text, indent=2) for text in frame_lines(d.frames)),
    )
    broken, again = Section("Graph breaks", tuple(found), "" if found else _BOTH), "" if rows else _BOTH
    if asked.halves:
        apart = (Section("Functions", frames),) if frames else ()
        return broken, Section("Recompiles", (table,), again), *apart
    return broken, Section("Recompiles", (table, *frames), again)


def frame_lines(changes: Iterable[model.FrameChange]) -> tuple[str, ...]:
    """Return what became of functions' compilations; of a function that only one side has, all of them at once."""
    counts: dict[tuple[str, str], int] = {}
    for change in changes:
        outcomes = [words.OUTCOMES[o] for o in (change.outcome_before, change.outcome_after) if o]
        told = f" {_ARROW} ".join(outcomes)
        if not change.before or not change.after:
            told = f"only {'after' if change.after else 'before'}"
        key, ids = (change.function, told), change.before or change.after
        counts[key] = counts.get(key, 0) + (len(ids) if told.startswith("only ") else 1)
    return tuple(
        f"{function}{f' {times(n)}' if n > 1 and told.startswith('only ') else ''}: {told}"
        for (function, told), n in counts.items()
    )


UNTRACED = "not traced {}: not called there, or on a branch that was not taken"


def break_verdict(change: model.BreakChange) -> str:
    """Return what became of a graph break; in code that one side never came to, it is neither fixed nor new."""
    if not change.after:
        return "fixed" if change.is_reached else "gone"
    if not change.before:
        return "new" if change.is_reached else "come"
    return "more" if change.after > change.before else "fewer"


# -- CUDA graphs


def cudagraphs(asked: Asked) -> tuple[Block, ...]:
    """Return how CUDA graphs ended for each compiled graph, where they ended differently."""
    rows: list[tuple[Cell, ...]] = []
    for change in asked.diff.cudagraphs:
        sides = (change.before, change.after)
        ended = (Stacked(_state(side), one_line(side.reason) if side else "") for side in sides)
        rows.append((change.function, words.PASSES[change.direction] if change.direction else "", *ended))
    summary = cudagraph_line(asked.diff.cudagraphs).partition(": ")[2] if rows else _BOTH
    return (Section("CUDA graphs", (Table((Column("function"), Column("pass"), *_SIDES), tuple(rows)),), summary),)


def cudagraph_line(changes: Sequence[model.CudagraphChange]) -> str:
    """Return how CUDA graphs ended before and after, counted."""
    counts = Counter((_state(c.before), _state(c.after)) for c in changes)
    ended = [f"{before} {_ARROW} {after}" + (f" {times(n)}" if n > 1 else "") for (before, after), n in counts.items()]
    return f"CUDA graphs: {'; '.join(ended)}"


def _state(outcome: CudagraphOutcome | None) -> str:
    if outcome is None:
        return "none"
    parts = f" in {outcome.partitions:,} partitions" if outcome.partitions > 1 else ""
    return words.CUDAGRAPHS[outcome.state] + parts


# -- autotuning


def autotune(asked: Asked) -> tuple[Block, ...]:
    """Return the ops for which another choice won; all that was tried for them, where there is room."""
    changes = asked.diff.autotunes
    blocks: list[Block] = []
    if asked.halves:
        summary = autotune_line(changes).partition(": ")[2]
        return (Section("Autotuning", tuple(_winners_and_losers(asked)), summary),)
    for change in changes:
        many = f" {times(change.times)}" if change.times > 1 else ""
        blocks.append(line(strong(f"{change.op}{many}"), f"  {' '.join(change.inputs)}", indent=2))
        for side, chosen, won in zip(("before", "after"), (change.before, change.after), _won(change), strict=True):
            took = f"{milliseconds(chosen.milliseconds)}  " if chosen else ""
            blocks.append(paragraph(quiet(f"{side:<7}"), f"{took}{won}", indent=4))
    return (Section("Autotuning", tuple(blocks), "" if blocks else "the same winners on both sides"),)


def _winners_and_losers(asked: Asked) -> Iterator[Block]:
    columns = (
        Column("op", Kind.CODE), Column("inputs", Kind.CODE), Column("times", Kind.TIMES), Column("before"),
        Column("took before", Kind.MILLISECONDS), Column("after"), Column("took after", Kind.MILLISECONDS),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for change in asked.diff.autotunes:
        took = [chosen.milliseconds if chosen else None for chosen in (change.before, change.after)]
        before, after = _won(change)
        rows.append((change.op, " ".join(change.inputs), change.times, before, took[0], after, took[1]))
    yield Table(columns, tuple(rows), title="Autotuning")
    results: list[dict[object, AutotuneResult]] = [{}, {}]
    for known, side in zip(results, (asked.before, asked.after), strict=True):
        for result in side.autotunes:
            known.setdefault((result.op, result.inputs, result.winner), result)
    for change in asked.diff.autotunes:
        winners = zip(results, (change.before, change.after), strict=True)
        yield tried([known.get((change.op, change.inputs, won)) for known, won in winners])


def _won(change: model.AutotuneChange) -> tuple[str, str]:
    sides = ((change.before, change.before_runs), (change.after, change.after_runs))
    before, after = (choice(won) + (f", {words.runs_otherwise(runs)}" if runs else "") for won, runs in sides)
    return before, after


def tried(results: Sequence[AutotuneResult | None], head: str = "") -> doc.Fold:
    """Return the candidates of both sides, each once; a template's name has a number that says nothing."""
    sides: list[dict[tuple[str, str], AutotuneChoice]] = [{}, {}]
    for side, result in zip(sides, results, strict=True):
        for one in result.choices if result else ():
            side.setdefault((choice(one), one.detail), one)
    rows: list[tuple[Cell, ...]] = []
    for key in dict.fromkeys((*sides[1], *sides[0])):
        took: list[Cell] = []
        won: list[str] = []
        for name, side, result in zip(("before", "after"), sides, results, strict=True):
            found = side.get(key)
            took.append(None if found is None else "failed" if found.milliseconds is None else found.milliseconds)
            if found is not None and result is not None and found == result.winner:
                won.append(name)
        rows.append((key[0], *took, ", ".join(won), key[1]))
    columns = (
        Column("choice", Kind.CODE), Column("before", Kind.MILLISECONDS), Column("after", Kind.MILLISECONDS),
        Column("won"), Column("detail", Kind.CODE),
    )  # fmt: skip
    last = results[1] or results[0]
    name = f"{last.op}({', '.join(last.inputs)})" if last else "nothing was tried"
    return doc.Fold((head, strong(name)), plural(len(rows), "choice"), (Table(columns, tuple(rows), title=name),))


def autotune_line(changes: Sequence[model.AutotuneChange]) -> str:
    """Return how many ops autotuning decides otherwise."""
    other = sum(c.times for c in changes if c.before and c.after)
    before = sum(c.times for c in changes if c.before and not c.after)
    after = sum(c.times for c in changes if c.after and not c.before)
    counts = ((other, "with another winner"), (before, "tuned only before"), (after, "tuned only after"))
    return "Autotuning: " + ", ".join(f"{plural(n, 'op')} {what}" for n, what in counts if n)


def choice(chosen: AutotuneChoice | None) -> str:
    """Return a winner with what tells it from others."""
    if chosen is None:
        return "not tuned"
    if chosen.kind.is_library:
        return chosen.name
    values = dict(part.partition("=")[::2] for part in chosen.detail.split(", "))
    names = (name for name in (*told.CONSTANTS, "num_warps", "num_stages") if name in values)
    return f"{words.KERNEL_KINDS[chosen.kind]} {', '.join(f'{name} {values[name]}' for name in names)}".rstrip()


# -- times


def compile_times(asked: Asked) -> Iterator[Block]:
    """Yield compile time by phase; kernel times, where both sides were profiled."""
    d = asked.diff
    before, after = d.before.phases.total, d.after.phases.total
    phases = phase_table(d, ("total", before, after, None))
    if asked.halves:
        is_timed = d.before.phases.timed and d.after.phases.timed
        yield Section("Compile time", (key(asked), *([phases] if is_timed else [])))
        cached = tuple(_caches(side) for side in (asked.before, asked.after))
        if is_timed and any(cached):
            rows = (tuple(one or "none was asked" for one in cached),)
            yield Section("Caches", (Table((Column("before"), Column("after")), rows, is_short=True),))
        yield Section("One call of the model", tuple(call_blocks(d)) or (line(told.NO_TIMES),))
    else:
        yield Section("Compile time", (phases,))
    if (kernel_time := d.kernel_times) is None:
        yield from () if asked.halves else (Gap(), line(told.NO_TIMES))
        return
    blocks = [paragraph(told.change_line(change), indent=2) for change in d.kernels if change.times]
    if same := sum_times(d.identical):
        blocks.append(paragraph(f"identical launches{told.microseconds(same)}", indent=2))
    yield Section("Kernels in one call", tuple(blocks), f"{told.spent(kernel_time)} ({told.gain(kernel_time)})")


def key(asked: Asked) -> Block:
    """Return what the two are called."""
    before, after = asked.names
    return paragraph(strong("before"), f" {before}   ", strong("after"), f" {after}")


def phase_rows(d: RecordingDiff) -> list[tuple[Phase, tuple[float, float]]]:
    """Return the seconds of each phase on both sides, those that differ most first."""
    before, after = dict(d.before.phases.both), dict(d.after.phases.both)
    pairs = [(phase, (before.get(phase, 0.0), after.get(phase, 0.0))) for phase in Phase]
    return sorted((pair for pair in pairs if any(pair[1])), key=lambda pair: -abs(pair[1][0] - pair[1][1]))


def phase_table(d: RecordingDiff, *more: tuple[Cell, ...]) -> Table:
    """Return the seconds of each phase on both sides, with bars, and what stands below them."""
    columns = (
        Column(unseen="phase"),
        Column("before", Kind.SECONDS),
        Column("after", Kind.SECONDS),
        Column("", Kind.BAR),
    )
    rows = [(words.PHASES[phase], *both, Stacked(*both)) for phase, both in phase_rows(d)]
    return Table(columns, (*rows, *more), is_short=True)


def call_blocks(d: RecordingDiff) -> Iterator[Block]:
    """Yield what one call of the model consists of; nothing where a side was not profiled."""
    spans = (("one call of the model", d.call_times), ("kernels", d.kernel_times), ("idle", d.idle_times))
    rows: list[tuple[Cell, ...]] = []
    for name, took in spans:
        if took:
            tone = Tone.QUIET if not took.above_noise else Tone.GOOD if took.gain > 0 else Tone.BAD
            amounts = (f"{one} µs" for one in told.amounts(took))
            rows.append((name, *amounts, Span(told.gain(took), tone), Stacked(took.before, took.after)))
    if rows:
        sides = Column("before", Kind.MICROSECONDS), Column("after", Kind.MICROSECONDS)
        yield Table(
            (Column(unseen="time"), *sides, Column(unseen="difference"), Column("", Kind.BAR)),
            tuple(rows),
            is_short=True,
        )
        for text in (told.timed_words(d), told.idle(d)) if d.kernel_times else ():
            if text:
                yield paragraph(text.removeprefix("; "), tone=Tone.QUIET)


def _caches(recording: Recording) -> str:
    found = cache_counts(recording)
    if not found.asking_compilations:
        return ""
    asking = plural(found.asking_compilations, "compilation")
    return f"{words.WARMTH[found.warmth]}: {found.warm_compilations:,} of {asking} from cache"


# -- settings


def environment(asked: Asked) -> Iterator[Block]:
    """Yield the versions and settings that differ; where each side was recorded, where there is room."""
    table = setting_table(asked.diff)
    none = "no setting differs" if asked.halves else "no difference"
    yield Section("Settings", (table,), "" if table.rows else none)
    if asked.halves:
        before, after = (dict(environment_facts(side.environment)) for side in (asked.before, asked.after))
        rows: list[tuple[Cell, ...]] = []
        for name in dict.fromkeys((*before, *after)):
            tone = Tone.PLAIN if before.get(name) == after.get(name) else Tone.WARN
            rows.append((name, *(Span(side.get(name, "-"), tone) for side in (before, after))))
        if rows:
            facts = Table((Column(tone=Tone.STRONG, unseen="fact"), *_SIDES), tuple(rows), is_short=True)
            yield Section("Where they were recorded", (facts,))


def setting_table(d: RecordingDiff, most: int | None = None) -> Table:
    """Return the settings that differ, or the first of them."""
    rows = tuple((one.name, one.before or "-", one.after or "-") for one in d.settings[:most])
    return Table((Column(tone=Tone.STRONG, unseen="setting"), *_SIDES), rows, is_short=True)
