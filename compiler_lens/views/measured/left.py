"""What is still to mend after the best change, in words: each line with its cause, what was tried, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.each_call import AtEachCall
from compiler_lens.facts.measured.edits import Edit
from compiler_lens.facts.measured.fix import Fix, NotTriedBecause, Observed, StillEager, together
from compiler_lens.facts.measured.in_python import function_of
from compiler_lens.facts.measured.left import Came, Left, TriedFor, behind
from compiler_lens.facts.overview.eager import Extent, Reason
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.groups import grouped
from compiler_lens.views.advice import advice, also, changed, limit, often, sentence, what_changed, why
from compiler_lens.views.document import Block, Change, Gap, line, paragraph
from compiler_lens.views.parts import At, Part, Span, Tone, code, coded, quiet, strong
from compiler_lens.views.text import joined, one_line, plural

_SHOWN = 8  # of what is left, and of functions
_NEXT = 6  # lines behind them
_CAUSES = 4  # of recompiles, for one function
_LINES = 4  # of a sketch
_REASONS: Mapping[NotTriedBecause, str] = {
    NotTriedBecause.NO_EDIT: "",  # said once, above all of them
    NotTriedBecause.SKETCH: "A part of it is left to you:",
    NotTriedBecause.NOT_OWN: "The line is not yours.",
    NotTriedBecause.NOT_THERE: "The line cannot be changed as the file is.",
    NotTriedBecause.LIMIT: "Not tried: enough was.",
}
_CAME: Mapping[Came, str] = {
    Came.RAISES: "raises",
    Came.TAKES_TOO_LONG: "was {error}, and ended: with a longer --within it may do",
    Came.RAISES_IN_BACKEND: "raises {error} past Dynamo, in what compiles its graphs",
    Came.RAISES_WITHOUT: "raises {error} without torch.compile",
    Came.RAISES_WITH_OTHERS: "raises {error} with other inputs",
    Came.DIFFERS: "gives other results",
    Came.PRINTS_OTHERS: "has the program print something else",
    Came.ONE_SIDED: "was not compared, as its test went one way only",
    Came.NOT_COMPARED: "gives results that could not be compared",
    Came.STAYS: "does not end it",
    Came.TAKES_TOO_MUCH: "takes more out of graphs than {which}",
    Came.RUNS_LESS: "leaves functions to Python, with less in graphs than before, or nothing",
    Came.ENDS_TOO_LITTLE: "leaves more than half of what hurts: too much for {which} to stay Python for good",
    Came.MORE_OF_ELSE: "leaves {both}",
    Came.HITS_LIMIT: "has {limited} hit the recompile limit, which runs eagerly since, with all it calls",
    Came.ENDS_EXPECTED: "ends only recompiles that are as expected",
    Came.NO_GAIN: "makes nothing more compile",
    Came.IS_NEEDLESS: "brings nothing beside the others",
    Came.HELPS_BESIDE: "helps together with others, and the best is without it",
    Came.IS_LEFT_OUT: "helps by itself, but not beside the others",
}
# What came of a change that is wrong here.
_REFUSED = frozenset((
    Came.RAISES, Came.TAKES_TOO_LONG, Came.RAISES_IN_BACKEND,
    Came.RAISES_WITHOUT, Came.RAISES_WITH_OTHERS, Came.DIFFERS, Came.PRINTS_OTHERS,
))  # fmt: skip
_OF_TORCH = re.compile(r"\btorch(?:\.\w+)+")
_DYNAMIC = "dynamic=True"
_FIGURES: Mapping[str, str] = {"graph_breaks": "graph breaks", "recompiles": "recompiles"}
_EAGER: Mapping[Reason, str] = {
    Reason.SKIPPED: "Dynamo passed over it",
    Reason.SUPPRESSED: "compiling it failed, and `suppress_errors` hides that",
    Reason.LIMIT: "it hit the recompile limit: what fits no compilation runs eagerly since",
    Reason.GENERATOR: "a generator is compiled only where a compiled function runs it",
    Reason.STANCE: "a stance makes its calls eager",
    Reason.DISABLED: "it is kept out of the compiler",
    Reason.NEVER_CALLED: "it was never called through torch.compile",
    Reason.WRAPPER: "no graph holds what it wraps",
}


def left_blocks(fix: Fix, left: tuple[Left, ...], numbers: Mapping[Edit, int]) -> Iterator[Block]:
    """Yield what is still to mend, each with its cause and what to do; `numbers` are those of changes in the table."""
    for one in left:
        if one.is_written:
            line_written = one_line(one.target.at.code, 80) if one.target.at else ""
            said = f"A line that the changes write, `{line_written}`: {cause(one)}"
            yield paragraph(*coded(said), tone=Tone.WARN, limit=4)
    left = tuple(one for one in left if not one.is_written)
    if not left:
        return
    places = list(grouped(enumerate(left), _line_of).values())
    yield Gap()
    shown = [one for several in places[:_SHOWN] for _, one in several]
    yield paragraph(_heading(fix, shown), tone=Tone.WARN)
    for several in places[:_SHOWN]:
        yield from _of_one_line([one for _, one in several], numbers)
    if len(places) > _SHOWN:
        yield line(quiet(f"… {plural(len(places) - _SHOWN, 'more place')}"), indent=2)
    if any(one.cause is None for one in left):
        yield from _behind(fix)
    for package in dict.fromkeys(one.not_tried.package for one in left if one.not_tried and one.not_tried.package):
        yield paragraph(f"To try changes of copies of {package}, for a patch: --include {package}", tone=Tone.QUIET)


def _behind(fix: Fix) -> Iterator[Block]:
    """Name the lines at which graphs break once the others are mended, as far as trials came."""
    found = behind(fix)
    if found:
        yield paragraph("Once these are mended, graphs break next, as trials show, at:")
    for at in found[:_NEXT]:
        yield line(At(at, Tone.STRONG), "  ", code(one_line(at.code, 120)), indent=2)
    if len(found) > _NEXT:
        yield line(quiet(f"… {plural(len(found) - _NEXT, 'more line')}"), indent=2)


def _line_of(numbered: tuple[int, Left]) -> object:
    """Return what is the same for all that is left at one line; what has none stands by itself."""
    number, one = numbered
    return one.target.at.place if one.target.at else number


def _heading(fix: Fix, left: Sequence[Left]) -> str:
    """Return the line above all: also that fix has no edit, for all of them or for those that say nothing else."""
    has_none = [one.not_tried is not None and one.not_tried.reason is NotTriedBecause.NO_EDIT for one in left]
    which = "" if all(has_none) else "where nothing else is said, "
    why = f" ({which}fix has no edit for it)" if any(has_none) else ""
    if fix.is_unfinished:
        return f"Not mended yet ({'not all was tried' if fix.is_hurried else 'it was ended before all was tried'}):"
    if fix.best is None:
        return f"To mend by hand{why}:"
    return f"Still to mend by hand{why}; then run fix again, as it may mend more:"


def _elsewhere(one: Left) -> str:
    """Return where something is that no line is known of: in a function, as a rule."""
    return f"in {one.target.frame}" if one.target.frame else "an unknown place"


def _of_one_line(left: Sequence[Left], numbers: Mapping[Edit, int]) -> Iterator[Block]:
    """Yield a line, and below it all that is left there, each once: torch has a kind for each expression in it."""
    at = left[0].target.at
    yield line(
        At(at, Tone.STRONG) if at else strong(_elsewhere(left[0])), "  ", code(one_line(at.code, 120) if at else ""),
        indent=2,
    )  # fmt: skip
    told = list(grouped(left, lambda one: (cause(one), to_do(one))).values())
    for first, *others in told[:_SHOWN]:
        offers = {tried.offer.edit: tried for one in (first, *others) for tried in one.offers}
        yield from _one(replace(first, offers=tuple(offers.values())), numbers)
    if len(told) > _SHOWN:
        yield line(quiet(f"… {plural(len(told) - _SHOWN, 'more cause')}"), indent=6)


def _one(one: Left, numbers: Mapping[Edit, int]) -> Iterator[Block]:
    yield paragraph(cause(one), indent=6, limit=3)
    if tried := _tried(one, numbers):
        yield paragraph(*coded(tried), indent=6, tone=Tone.QUIET, limit=4)
    change, instead = to_do(one), _sketch(one)
    reason = _REASONS[one.not_tried.reason] if one.not_tried else ""
    untried: Part = quiet(f"{reason} ") if reason else ""
    if untried or change:
        yield paragraph(untried, Span(change, Tone.DO), indent=6, limit=5)
    if instead:
        yield Change(after=instead[:_LINES], indent=8)


def cause(one: Left) -> str:
    """Return why a line breaks its graph, or is compiled again, in one sentence."""
    if one.cause:
        report = one.finding.evidence if one.finding else None
        more = sentence(also(report)) if isinstance(report, RecompileReport) else ""
        return f"Compiled again {often(one.cause.count)}: {sentence(changed(one.cause))} {more}".rstrip()
    if one.finding is None:
        return sentence(one_line(one.target.kind, 200))
    evidence = one.finding.evidence
    return why(evidence) if isinstance(evidence, BreakCard) else advice(one.finding).what


def to_do(one: Left) -> str:
    """Return what to do about it: the first advice for it; empty where there is none, and where it was just tried."""
    told = advice(one.finding).change if one.finding and not one.cause else ""
    change = one.cause.fix.change if one.cause else told or (one.not_tried.change if one.not_tried else "")
    return "" if any(_is_advised(tried, change) for tried in one.offers) else change


def _is_advised(tried: TriedFor, change: str) -> bool:
    """Return whether an advice is to do what a trial did, or was refused for: `torch.where` in other words."""
    is_refused = tried.came in _REFUSED and bool({*_OF_TORCH.findall(change)} & {*_OF_TORCH.findall(tried.offer.code)})
    is_dynamic = _DYNAMIC in tried.offer.code and _DYNAMIC in change
    return is_refused or is_dynamic or tried.offer.code in change


def _sketch(one: Left) -> tuple[str, ...]:
    is_sketch = one.not_tried and one.not_tried.reason is NotTriedBecause.SKETCH
    return advice(one.finding).instead if one.finding and is_sketch else ()


def _tried(one: Left, numbers: Mapping[Edit, int]) -> str:
    alike = grouped([tried for tried in one.offers if tried.offer.edit in numbers], came)
    said = [_alike([numbers[tried.offer.edit] for tried in several], text) for text, several in alike.items()]
    return sentence(f"tried: {'; '.join(said)}") if said else ""


def _alike(made: Sequence[int], text: str) -> str:
    first, *others = made
    return f"change {first} {text}{f' (likewise {together(others)})' if others else ''}"


def came(tried: TriedFor) -> str:
    """Return what came of an offer, in words that go on from what it is."""
    both = for_and_against(tried, has_figures=False) if tried.came is Came.MORE_OF_ELSE else ""
    return _CAME[tried.came].format(
        error=tried.error.partition(":")[0], both=both, which=_kept_in_python(tried), limited=_limited(tried)
    )


def _limited(tried: TriedFor) -> str:
    """Return the names of the functions that hit the recompile limit with a change, and not without it."""
    new = tried.trial.observed.at_limit - tried.before.at_limit
    return joined(sorted(f"`{name}`" for name in new), 3) or "a function"


def _kept_in_python(tried: TriedFor) -> str:
    """Return the names of the functions that changes keep in Python."""
    made = tried.trial.last or (tried.offer,)
    names = dict.fromkeys(filter(None, (function_of(offer.edit) for offer in made if offer.keeps_computed)))
    return joined([f"`{name}`" for name in names], 3) or "the function that it keeps in Python"


def for_and_against(tried: TriedFor, *, has_figures: bool = True) -> str:
    """Return what there is less of with an offer, and why it is not built upon all the same."""
    seen, before = tried.trial.observed, tried.before
    less = [(words, f" ({was} → {now})") for words, was, now in _changed(seen, before) if now < was]
    fewer = " and ".join(words + figures if has_figures else words for words, figures in less)
    against = _more(seen, before) if tried.came is Came.MORE_OF_ELSE else f"it {came(tried)}"
    return f"fewer {fewer}, but {against}" if fewer else against


def _more(seen: Observed, before: Observed) -> str:
    """Return what there is more of, that which hurts most: functions that run eagerly by their names."""
    eager, known = seen.figures.eager_functions if seen.figures else 0, {_of(one) for one in before.eager}
    more = eager - (before.figures.eager_functions if before.figures else 0)
    if more > 0:
        new = [one for one in seen.eager if _of(one) not in known]
        which = " and ".join(f"`{one.function.name}`{_at_the_limit(one)}" for one in new)
        runs = f"{plural(more, 'more function')} {'runs' if more == 1 else 'run'} eagerly"
        return f"{runs}: {which}" if which else runs
    if again := [one for one in seen.at_each_call if one.name not in {known.name for known in before.at_each_call}]:
        return compiled_again(again[0])
    said = [f"more {words} ({was} → {now})" for words, was, now in _changed(seen, before) if now > was]
    return said[0] if said else "more of what runs eagerly"


def compiled_again(one: AtEachCall) -> str:
    """Return that each call compiles a function again, and what comes of that."""
    begins = f"from call {one.limit + 1:,} on all of it runs eagerly (torch's limit is {one.limit:,})"
    return f"`{one.name}` compiles again at each call: {begins}"


def _of(one: StillEager) -> tuple[str, str]:
    """Return what stays the same where a change moves lines, or makes the function two."""
    return one.function.file, one.function.name.removesuffix(INNER)


def _at_the_limit(one: StillEager) -> str:
    return ", which hits the recompile limit" if any(part.reason is Reason.LIMIT for part in one.parts) else ""


def _changed(seen: Observed, before: Observed) -> Iterator[tuple[str, int, int]]:
    for name, words in _FIGURES.items():
        if seen.figures and before.figures:
            yield words, getattr(before.figures, name), getattr(seen.figures, name)


# -- what runs eagerly


def eager_blocks(fix: Fix, seen: Observed) -> Iterator[Block]:
    """Yield why each function still runs eagerly, by its name."""
    for one in seen.eager[:_SHOWN]:
        yield paragraph(strong(f"`{one.function.name}`"), ": ", *_why(one, fix), indent=2, limit=6)
    if len(seen.eager) > _SHOWN:
        yield line(quiet(f"… {plural(len(seen.eager) - _SHOWN, 'more function')}"), indent=2)
    for again in seen.at_each_call:
        yield paragraph(*coded(sentence(compiled_again(again))), tone=Tone.WARN)


def _why(one: StillEager, fix: Fix) -> tuple[Part, ...]:
    if one.report and any(part.reason is Reason.LIMIT for part in one.parts):
        what = "; ".join(what_changed(*causes) for causes in one.report.subjects[:_CAUSES])
        more = sentence(also(one.report))
        told = f"{limit(one.report)}. Recompiled {often(one.report.recompiles)}: {what}. {more}".rstrip()
        rest = next((part for part in one.parts if part.reason is Reason.GRAPH_BREAK and part.place), None)
        at = fix.as_it_was(rest.place) if rest else None
        return (told, " What comes after the graph break at ", At(at), " is not compiled, either.") if at else (told,)
    if not one.parts:
        return (f"compiling it failed: {sentence(_first(one.reason) or 'torch gave no reason')}",)
    part = one.parts[0]
    at, said = fix.as_it_was(part.place), _first(part.why)
    where: tuple[Part, ...] = (At(at),) if at else ("an unknown line",)
    if at and at.code:
        where += (f", `{one_line(at.code, 80)}`",)
    if part.reason is Reason.AROUND:
        return (f"it runs eagerly because `{said}` does.",)
    if part.reason is Reason.GRAPH_BREAK and part.extent is Extent.REST:
        return ("what comes after the graph break at ", *where, ", is not compiled.")
    if part.reason is Reason.GRAPH_BREAK:
        return ("nothing of it is compiled, for the graph break at ", *where, ".")
    because = f": {sentence(said)}" if said else "."
    return (_EAGER[part.reason], *((" at ", *where) if at else ()), because)


def _first(text: str) -> str:
    return one_line(text.strip().partition("\n")[0], 200)
