"""What was run and what became of it in one sentence, for the first screen and for the page; and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.cards import lines_of
from compiler_lens.facts.overview.evidence import NeverCalled
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.program.coverage import Coverage, Function, Treatment
from compiler_lens.facts.time.caches import Warmth
from compiler_lens.recording.model import DAMAGE, THE_END, CompileSite, Environment, Outcome, Recording
from compiler_lens.views import words
from compiler_lens.views.advice import often
from compiler_lens.views.document import Block, Command, KeyFigures, Section, Verdict, paragraph
from compiler_lens.views.parts import At, Part, Parts, RecordingName, Span, Tone, quiet, sequence, strong
from compiler_lens.views.text import joined, plural, seconds, times


def setting(environment: Environment, summary: Summary) -> Parts:
    """Return what was run, and with what."""
    parts: list[Part] = [quiet(environment.argv[0].rsplit("/", 1)[-1]) if environment.argv else RecordingName()]
    if environment.rank is not None:
        parts.append(quiet(f"rank {environment.rank}"))
    if environment.torch:
        parts.append(quiet(f"torch {environment.torch}"))
    if environment.device:
        parts.append(quiet(environment.device))
    if summary.modes:
        parts.append(quiet(f"mode {joined(summary.modes, 3)}"))
    if summary.options:
        parts.append(quiet(f"options {joined([f'{name}={value}' for name, value in summary.options], 3)}"))
    return sequence(parts, quiet(" · "))


def not_whole(recording: Recording) -> Iterator[Block]:
    """Say that a recording has no end, or could not be read whole: before anything of it is read as the whole."""
    for warning in (words.unfinished(recording.unfinished), words.damaged(recording.damage)):
        if warning:
            yield paragraph(warning, tone=Tone.WARN)


def headline(recording: Recording, summary: Summary) -> list[Block]:
    """Return what became of what was run, and what can be counted of it."""
    blocks: list[Block] = [*not_whole(recording)]
    is_whole = all(problem.where == THE_END for problem in recording.problems)
    nothing = "Nothing was compiled" if is_whole else "Nothing that can be read was compiled"
    uncalled = (one.evidence for one in summary.findings if isinstance(one.evidence, NeverCalled))
    unheard = tuple(one.site for one in uncalled if not one.is_entered)
    blocks.append(_verdict(summary, nothing, recording.damage, unheard))
    blocks += _children(recording)
    if not summary.coverage.frames and not recording.graph_breaks:
        return blocks
    figures: list[Part] = [plural(summary.graphs, "graph")]
    if recording.graph_breaks:
        breaks, lines = len(recording.graph_breaks), lines_of(summary.cards)
        where = f" at {plural(lines, 'line')}" if lines < breaks else ""
        figures.append(Span(plural(breaks, "graph break") + where, Tone.WARN))
    if recording.recompiles:
        figures.append(Span(plural(len(recording.recompiles), "recompile"), Tone.WARN))
    figures.append(plural(len(recording.kernels), "kernel"))
    if summary.seconds is not None:
        caches = summary.caches
        warmth = words.WARMTH[caches.warmth]
        if caches.warmth is Warmth.PARTLY:
            warmth = f"partly warm: {caches.warm_compilations:,} of {caches.asking_compilations:,} from cache"
        figures.append(f"{seconds(summary.seconds)} spent compiling" + (f" ({warmth})" if warmth else ""))
    return [*blocks, KeyFigures(tuple(figures)), *_taken(recording)]


def _children(recording: Recording) -> Iterator[Block]:
    """Where processes were started; of forks it is known whether they compiled."""
    for compiled, words_on in words.CHILDREN.items():
        children = [child for child in recording.children if child.compiled is compiled]
        places = [At(child.place) for child in children if child.place]
        told: Parts = (": ", *sequence(places[:3], ", ")) if places else ()
        if children:
            yield paragraph(words_on, *told, tone=Tone.WARN)


def _taken(recording: Recording) -> Iterator[Block]:
    """Of a log's recording: which files of the reader's its source text was taken from."""
    files = sorted(source.read_from for source in recording.sources if source.read_from)
    if files:
        yield paragraph("source text was taken from ", joined(files, 3), tone=Tone.QUIET)
        yield from more(len(files) - 3, "file", "environment")


def _verdict(summary: Summary, nothing: str, damage: str, unheard: Sequence[CompileSite]) -> Verdict:
    """`3 of 5 functions compiled; 2 run eagerly: MoE.forward (model.py:41), …`.

    What was given to torch.compile and never called is one of them: a model, say, of which only methods are called.
    """
    covered = summary.coverage
    if not covered.frames:
        return Verdict(f"{nothing}: no frame entered the compiler.", (), Tone.BAD)
    counted = [f for f in covered.functions if not f.treatment.is_idle]
    if not counted:
        if traced := covered.treated(Treatment.TRACED):
            return Verdict("Nothing was compiled", ("; ", *_named(traced, words.TRACED_COUNTED), "."), Tone.BAD)
        rest = f": {plural(len(covered.frames), 'frame')} with nothing to compile."
        return Verdict(nothing, (rest,), Tone.BAD)
    compiled, total = sum(f.treatment.is_compiled for f in counted), len(counted) + len(unheard)
    noun = "call" if all(f.is_call for f in counted) else "function"
    others = _others(covered, compiled, damage, unheard)
    if not compiled and not covered.treatments.get(Treatment.PARTLY_EAGER):
        # No function is compiled for all of its calls: graphs there may be all the same.
        news = _compiled(0, total, noun, summary.graphs, damage)
        if not summary.graphs:
            news = nothing
        elif covered.treatments.get(Treatment.LIMIT) or any(map(_was_compiled, counted)):
            news = f"0 of {plural(total, noun)} {'stays' if total == 1 else 'stay'} compiled"
        return Verdict(news, others, Tone.BAD)
    news = _compiled(compiled, total, noun, summary.graphs, damage)
    is_whole = covered.treatments.get(Treatment.WHOLE, 0) == total
    return Verdict(news, others, Tone.GOOD if is_whole and not damage else Tone.WARN)


def _was_compiled(function: Function) -> bool:
    """Whether there are graphs of a function that is not compiled any more, as one that failed when it came again."""
    return any(one.outcome is Outcome.COMPILED for frame in function.frames for one in frame.compilations)


def _others(covered: Coverage, compiled: int, damage: str, unheard: Sequence[CompileSite]) -> Parts:
    """Return what became of the functions that are not compiled whole."""
    others: list[Part] = [", as far as the recording could be read"] if damage else []
    if cut := len(covered.treated(Treatment.SPLIT)):
        others.append(_cut(cut, compiled))
    for kind in words.TREATMENTS_COUNTED:
        found = covered.treated(kind)
        if found:
            others += ["; ", *_named(found, words.TREATMENTS_COUNTED[kind])]
    if unheard:
        others += ["; ", *_never_called(unheard)]
    return (*others, ".")


def _compiled(compiled: int, total: int, noun: str, graphs: int, damage: str) -> str:
    if not compiled and graphs:  # parts of them are, and are counted as graphs beside this
        return f"0 of {plural(total, noun)} compiled in full"
    if damage and compiled == total:  # of those that are known
        return f"{plural(total, noun)} compiled"
    if 1 < compiled == total:
        return f"Both {noun}s compiled" if total == 2 else f"All {total:,} {noun}s compiled"  # noqa: PLR2004
    return f"{compiled:,} of {plural(total, noun)} compiled"


def _cut(cut: int, compiled: int) -> str:
    """Return how many of the compiled functions are in several pieces."""
    which = f"{cut:,} of them"
    if cut == compiled:
        which = {1: "but", 2: "but both"}.get(cut, "but all of them")
    return f", {which} cut by graph breaks"


def _named(functions: tuple[Function, ...], counted: tuple[str, str]) -> Parts:
    """What became of functions; of a single one that hit the limit also after how many compilations."""
    one, several = counted
    told = one if len(functions) == 1 else several
    if len(functions) == 1 and functions[0].treatment is Treatment.LIMIT:
        limited = (frame.compilations for frame in functions[0].frames if frame.outcome is Outcome.RECOMPILE_LIMIT)
        made = max((sum(c.outcome is Outcome.COMPILED for c in compilations) for compilations in limited), default=0)
        told = f"was compiled {often(made)}, then {one}" if made else one
    parts: list[Part] = [f"{len(functions):,} {told}: "]
    for i, function in enumerate(functions[:3]):
        parts.append(strong(f", {function.name.name}" if i else function.name.name))
        if function.name.file:
            parts += [strong(" ("), At(function.name, Tone.STRONG), strong(")")]
    return (*parts, strong(", …")) if len(functions) > 3 else tuple(parts)  # noqa: PLR2004


def _never_called(sites: Sequence[CompileSite]) -> Parts:
    parts: list[Part] = [f"{len(sites):,} never called through torch.compile: "]
    for i, site in enumerate(sites[:3]):
        parts.append(strong(f"{', ' if i else ''}{site.defined.function} ("))
        parts += [At(site.place or site.defined, Tone.STRONG), strong(")")]
    return (*parts, strong(", …")) if len(sites) > 3 else tuple(parts)  # noqa: PLR2004


def gaps(recording: Recording, most: int) -> Iterator[Section]:
    """Yield what is not in the recording, at most so many problems and so many facts of it."""
    problems = Counter((p.where, p.message) for p in recording.problems).most_common()
    problems.sort(key=lambda counted: counted[0][0] != DAMAGE)  # what is lost for all views comes first
    missing = Counter((u.fact, u.reason) for u in recording.unavailable).most_common()
    if not problems and not missing:
        return
    told = [(Span(words.gap(what, why), Tone.BAD), n) for (what, why), n in problems[:most]]
    told += [(Span(f"{what}: {why}", Tone.PLAIN), n) for (what, why), n in missing[:most]]
    blocks: list[Block] = [paragraph(text, f" {times(n)}" if n > 1 else "", indent=2, limit=5) for text, n in told]
    hidden = max(len(problems) - most, 0) + max(len(missing) - most, 0)
    blocks += more(hidden, "gap", "environment")
    yield Section("Gaps", tuple(blocks), "not in this recording, though it may have happened")


def more(count: int, noun: str, view: str) -> tuple[Command, ...]:
    """What there is no room for, and how to see it."""
    return (Command(f"… {plural(count, f'more {noun}')}: ", view),) if count > 0 else ()
