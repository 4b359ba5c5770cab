"""Changes tried on a program: what each did, what could not be tried, and the best of them as a diff."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.measured.edits import Apart, Edit, EndApart, Setting, Split
from compiler_lens.facts.measured.fix import (
    Difference,
    Fix,
    NotCompiledBecause,
    NotTriedBecause,
    Observed,
    Offer,
    OwnBackend,
    Trial,
    together,
)
from compiler_lens.facts.measured.in_python import compiles_inside, kept_from_graphs, left_to_python
from compiler_lens.facts.measured.left import Came, TriedFor, not_built_upon, what_is_left
from compiler_lens.facts.measured.marked_inside import Inside
from compiler_lens.facts.measured.marks_moved import is_moved, price_as_moved
from compiler_lens.facts.measured.other_inputs import Gave, OtherCall, OtherInputs, Sides, Untried, Way
from compiler_lens.facts.measured.printed import OtherWords
from compiler_lens.facts.overview.evidence import FrameFailed, NothingSeen
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Figures, Results, SourceLine
from compiler_lens.views import steps, words
from compiler_lens.views.advice import advice, changed, sentence
from compiler_lens.views.document import (
    Block,
    Column,
    Gap,
    Line,
    Listing,
    Section,
    Step,
    Steps,
    Table,
    line,
    paragraph,
)
from compiler_lens.views.findings import FindingFacts, finding_facts
from compiler_lens.views.measured.left import came, cause, eager_blocks, for_and_against, left_blocks, to_do
from compiler_lens.views.parts import At, Cell, Kind, Part, Span, Tone, code, coded, quiet
from compiler_lens.views.text import UNKNOWN, number, one_line, plural

_KEEP = (
    "`fullgraph=True` at torch.compile keeps it so: it raises where a graph would break again."
    " `with torch._dynamo.error_on_graph_break(True):` does so for a part."
)
_ALIKE = 20  # characters that a narrow column shows at least
_PRINTED = 80  # characters of a line that the program prints
_LONGEST = 200  # characters of the name of a change, which is folded
_FINDINGS = 3
_LEFT_TO_PYTHON = 8  # lines that are shown
_TARGETS = (BreakCard, RecompileReport, FrameFailed)  # findings that are listed as what was not tried

_COLUMNS = (
    Column(tone=Tone.GOOD),
    Column("change", flexible=True, folds=True),
    Column("eager", Kind.COUNT, missing=UNKNOWN),
    Column("breaks", Kind.COUNT, missing=UNKNOWN),
    Column("recompiles", Kind.COUNT, missing=UNKNOWN),
    Column("ops", Kind.COUNT, missing=UNKNOWN),
    Column("runs", Kind.COUNT, missing=UNKNOWN),
    Column("results"),
)
_FIGURES: Mapping[str, str] = {
    "eager_functions": "functions that run eagerly",
    "graph_breaks": "graph breaks",
    "recompiles": "recompiles",
}
_TONES = {Results.EQUAL: Tone.GOOD, Results.DIFFER: Tone.BAD, Results.UNKNOWN: Tone.WARN}
_KINDS = {
    "result": "result {index} of call {call}",
    "argument": "argument {index} that call {call} changes in place",
    "error": "the error that call {call} raises",
    "gradient": "gradient {index} after call {call}",
    "state": "parameter or buffer {index} at the end",
    "object": "`{name}`",
    "generator": "the state of {name}'s random generator, so what is drawn later",
}
_NUMBERS = {
    "result": "values that call {call} returns: {0} as it is, {1} with the change",
    "argument": "arguments that call {call} changes in place: {0} as it is, {1} with the change",
    "error": "errors of call {call}: {0} as it is, {1} with the change",
    "gradient": "gradients after call {call}: {0} as it is, {1} with the change",
    "state": "parameters and buffers at the end: {0} as it is, {1} with the change",
    "call": "calls of compiled functions: {0} as it is, {1} with the change",
}


_UNTRIED = {
    Untried.ACCELERATOR: "With other inputs it was not tried: on a machine with a GPU only the program's own are.",
    Untried.MEMORY: "With other inputs it was not tried: here such calls might write to files that are mapped.",
    Untried.OWN_INPUTS: "With other inputs it was not tried, as --own-inputs asks.",
    Untried.ENDED: "With other inputs it was not tried: the run in which that was to be done did not come to its end.",
}


_ENDED = "It was ended before all was tried: what stands here is the best of what was."
_HURRIED = (
    "Not all was tried: a third of the time that --within gives is kept for a closer look at the best, which stands"
    " here."
)
_OF_PARTS = (
    "Compiled code that calls a function which is Python from now on breaks its graph there; `fullgraph=True` does not"
    " see it. Dividing one compiles no more of a call than graph breaks leave; it ends recompiles of what is between"
    " them, and each part has a recompile limit of its own, which all objects of a class share"
)
_MAY_REFUSE = "may refuse what follows from a number or a size that torch does not know"
_NOT_COMPILED = {
    NotCompiledBecause.LATE: "It was not tried to the end, as that took too long, with {}",
    NotCompiledBecause.RAISES: "The program as it is raises, too, with {}",
    NotCompiledBecause.ENDED: "It was not tried with {}",
    NotCompiledBecause.BEGUN: "It was begun, and not finished, with {}",
}


_OF_NUMPY = (
    "Compiled code draws what the program asks NumPy for by torch's generator: as it is, it computes something else"
    " than without torch.compile. Results are compared with those without it."
)
_OF_CONVOLUTIONS = (
    "Inductor may compile a convolution for each size by itself, as it does for some backwards: Dynamo does not count"
    " that. After the change `compiler-lens run` does."
)


class Differs(Enum):
    """In what a run differs from the program as it is."""

    VALUE = "value"
    CALLS = "number_of_calls"  # of compiled functions; what they give is the same
    NUMBER = "number_of_values"  # there are more of them, or fewer
    WORDS = "other_output"  # the program prints other words
    SIDE = "side_not_taken"  # the branch that it changes went one way only, so nothing is known of the other


_RESULTS = {
    None: "",
    Differs.SIDE: "not compared",
    Differs.VALUE: "differ",
    Differs.CALLS: "other calls",
    Differs.NUMBER: "other number",
    Differs.WORDS: "other output",
}


class TriedFacts(Struct, frozen=True):
    """Changes that were made together, and what that did."""

    offer: str  # the code to write; of several with " + "
    place: SourceLine | None  # of the break, or what recompiles, that the last of them is about
    price: str  # what it takes for granted, or costs
    before: Figures | None  # of the program as it is; None: it raises
    after: Figures | None  # None: it raised
    operators: int  # that run in graphs
    launches: int  # of graphs: how often one runs
    results: Results
    difference: str  # the first result that differs
    differs: Differs | None  # in what
    zero_gradients: int  # gradients that are zeros where the program as it is has none; they count as equal
    kept_tensors: int  # results that are tensors where the program as it is returns numbers; they count as equal
    error: str
    error_place: SourceLine | None
    helps: bool
    printed: (
        OtherWords | None
    )  # the first line that the program then prints otherwise; with other numbers alone it may help
    other_inputs: OtherInputs  # calls with inputs made of the program's own, beside the same calls without the change


class NotTriedFacts(Struct, frozen=True):
    """What was not tried, and why."""

    place: SourceLine | None
    kind: str  # torch's type of the graph break, or what recompiles
    change: str
    reason: NotTriedBecause
    package: str  # the installed package where it happens, if --include NAME tries that


class TriedForIt(Struct, frozen=True):
    """An offer that was tried, and did not end what it is for."""

    offer: str
    came: Came  # what came of it
    said: str  # the same in words


class LeftFacts(Struct, frozen=True):
    """What is still to be mended by hand."""

    place: SourceLine | None
    kind: str  # torch's type of the graph break, or what recompiles
    why: str  # in words
    change: str  # what to do about it; empty where nothing is known
    offers: tuple[TriedForIt, ...]


class BestFacts(Struct, frozen=True):
    """What helped most."""

    offers: tuple[str, ...]
    before: Figures | None
    after: Figures | None
    results: Results
    # What compiled it to its end, where torch goes on with numbers that it does not know, which a backend may refuse.
    backends: tuple[str, ...]
    sides: tuple[Sides, ...]  # of the branches that it changes: how often each was taken without it
    files: tuple[str, ...]  # that it changes
    patch: str  # a unified diff, for patch -p0


class Data(Struct, frozen=True):
    """What the offers of a recording do with the program: each tried in a process of its own, on copies of files."""

    calls: int  # outermost calls of compiled functions in each run
    operators: int  # that run in graphs, of the program as it is
    launches: int  # of graphs, of the program as it is
    deterministic: bool  # False: two runs of the program as it is differ, so results are not compared
    finished: bool  # False: it was ended before all was tried
    checked: bool  # False: and before the best was tried with other inputs, without torch.compile and with its backend
    findings: tuple[FindingFacts, ...]  # all that the recording of the program as it is shows, ranked
    tried: tuple[TriedFacts, ...]
    not_tried: tuple[NotTriedFacts, ...]
    best: BestFacts | None
    left: tuple[LeftFacts, ...]  # still to be mended with the best; without one, in the program as it is
    computed_otherwise: str  # what the program as it is computes otherwise without torch.compile; else empty


def data(fix: Fix) -> Data:
    """Return the facts for programs."""
    best = None
    if fix.best:
        codes, after = tuple(offer.code for offer in fix.best.offers), fix.best.observed
        best = BestFacts(
            codes, fix.best.before, after.figures, after.results, _backends(fix.own_backend), fix.sides.sides,
            fix.changed, fix.patch,
        )  # fmt: skip
    not_tried = tuple(
        NotTriedFacts(one.target.at, one.target.kind, one.change, one.reason, one.package) for one in fix.not_tried
    )
    found = finding_facts(fix.first.findings)
    tried = tuple(_tried(trial, fix) for trial in fix.tried)
    left = tuple(
        LeftFacts(
            one.target.at, one.target.kind, cause(one), to_do(one),
            tuple(TriedForIt(made.offer.code, made.came, came(made)) for made in one.offers),
        )
        for one in what_is_left(fix)
    )  # fmt: skip
    is_finished = not fix.is_unfinished
    return Data(
        fix.first.calls,
        fix.first.operators,
        fix.first.launches,
        fix.is_deterministic,
        is_finished,
        fix.is_checked,
        found,
        tried,
        not_tried,
        best,
        left,
        _other(fix.otherwise.difference) if fix.otherwise else "",
    )


def _backends(own: OwnBackend | None) -> tuple[str, ...]:
    return own.names if own and own.because is None else ()


def _tried(trial: Trial, fix: Fix) -> TriedFacts:
    seen, last = trial.observed, trial.offers[-1]
    return TriedFacts(
        " + ".join(offer.code for offer in trial.offers),
        fix.as_it_was(last.target.at),
        "; ".join(filter(None, (offer.price for offer in trial.offers))),
        trial.before,
        seen.figures,
        seen.operators,
        seen.launches,
        seen.results,
        _difference(seen),
        _differs(seen),
        seen.zero_gradients,
        seen.kept_tensors,
        seen.error,
        fix.as_it_was(seen.error_line),
        trial.helps and seen.cost < fix.first.cost,
        seen.printed,
        seen.others,
    )


def _differs(seen: Observed) -> Differs | None:
    found = seen.difference
    if seen.is_one_sided and not seen.refuted_by:
        return Differs.SIDE
    if seen.refuted_by or (found and not found.numbers):
        return Differs.VALUE
    if found is None:
        return Differs.WORDS if seen.printed and seen.results is Results.DIFFER else None
    return Differs.CALLS if found.kind == "call" else Differs.NUMBER


def _difference(seen: Observed) -> str:
    found = seen.difference
    if one := seen.refuted_by:
        return f"with other inputs ({_how(one)}) {_gave(one)}"
    if seen.is_one_sided:
        return "its test went one way only in what was compiled and compared: what it gives the other way is not known"
    if found is None:
        return _other_words(seen.printed) if seen.printed else ""
    if found.numbers:
        return f"{_other(found)}; no value differs"
    if found.in_backend or found.without:
        where = "compiled on, past Dynamo," if found.in_backend else "without torch.compile"
        return f"{where} it raises {found.in_backend or found.without}"
    by = f"with {found.by} " if found.by else ""
    said = f"{by}{_value_differs(found)}{_DRAWS if found.draws else ''}"
    return said if found.without is None else f"without torch.compile {said}"


def _other_words(found: OtherWords) -> str:
    before, after = (f"`{one_line(text, _PRINTED)}`" for text in (found.before, found.after))
    if not found.before:
        return f"the program then prints {after}, which it does not as it is"
    return f"the program then prints {after if found.after else 'nothing'} in place of {before}"


_DRAWN = (
    "Inductor, the default backend, draws others than are compared here, also without a change, unless"
    " `torch._inductor.config.fallback_random` is True."
)
_DRAWS = "; it draws by torch's generator, so all that is drawn after it is another number"


def _value_differs(found: Difference | OtherCall) -> str:
    """Return which value differs, and by how much; of a call with other inputs also that it raises, or does not."""
    said = _KINDS[found.kind or "error"].format(index=found.index + 1, call=_call(found), name=found.name)
    if found.name:
        said += f" after call {_call(found)}" if isinstance(found, OtherCall) else " at the end"
    return f"{said} differs by {found.largest:.3g}" if found.largest else f"{said} differs"


def _other(found: Difference) -> str:
    """Return the number of calls that differs, or else the value."""
    return _NUMBERS[found.kind].format(*found.numbers, call=_call(found)) if found.numbers else _value_differs(found)


def _call(found: Difference | OtherCall) -> int:
    return found.call + (found.kind not in {"gradient", "state", "call"})


# -- on a console


def blocks(fix: Fix, *, is_written: bool = False, kept: str = "") -> tuple[Block, ...]:
    """Return the trials as a table, what was not tried, and the diff of the best with how to get it.

    With `is_written` the user has it; `kept` is a patch of it that was kept, so nobody has to try again.
    """
    if not fix.tried:
        return *_nothing(fix), *left_blocks(fix, what_is_left(fix), {})
    offers = list({offer.edit: offer for trial in fix.tried for offer in trial.offers}.values())
    numbers = {offer.edit: number for number, offer in enumerate(offers, 1)}
    titles = _titles(offers)
    rows: list[tuple[Cell, ...]] = [(None, "as it is", *_figures(fix.first), None)]
    beneath = [_errors(fix.first, fix, "between two runs ")]
    named: set[Edit] = set()
    for trial in fix.tried:
        results = trial.observed.results
        is_best = trial is fix.best
        ended = "too long" if trial.observed.took_too_long else "raises"
        known = ended if trial.observed.error else _RESULTS[_differs(trial.observed)] or results.value
        said = Span(known, _TONES[results])
        new = [offer for offer in trial.offers if offer.edit not in named]
        named.update(offer.edit for offer in new)
        label = together([numbers[offer.edit] for offer in trial.offers])
        tone = Tone.STRONG if is_best else Tone.PLAIN
        names = [_named(one.edit, fix.as_it_was(one.at), titles[one.edit], tone) for one in new]
        name = (Span(label, tone), *((" ", *names[0]) if len(new) == 1 else ()))
        rows.append(("*" if is_best else None, name, *_figures(trial.observed), said))
        several = zip(new, names, strict=True) if len(new) > 1 else ()
        lines = [paragraph(str(numbers[one.edit]), " ", *named_so, indent=6) for one, named_so in several]
        beneath.append((*lines, *_errors(trial.observed, fix)))
    graphs = "AOTAutograd takes" if fix.is_aot else "Dynamo captures"
    calls = fix.first.calls or (fix.best.observed.calls if fix.best else 0)
    summary = f"{plural(calls, 'compiled call')}; ops and runs of graphs as {graphs} them"
    table = Table(_COLUMNS, tuple(rows), beneath=tuple(beneath))
    return (
        Section("Tried", (table,), summary),
        *_remarks(fix),
        Gap(),
        *_best(fix, numbers),
        *_beside(fix),
        *(() if is_written or fix.best is None else (_how_to_have_it(fix, kept),)),
    )


def _named(edit: Edit, place: SourceLine | None, title: str, tone: Tone) -> tuple[Part, ...]:
    """Return what a change is, with the line that it is for: a setting stands elsewhere, and marks on functions do."""
    if place is None or isinstance(edit, Inside):
        return (Span(title, tone),)
    if isinstance(edit, Setting):
        return (Span(title, tone), " for ", At(place, tone))
    return (At(place, tone), " ", Span(title, tone))


def _titles(offers: Sequence[Offer]) -> Mapping[Edit, str]:
    """Return each offer's first line of code; of those that begin alike, what stands where they differ; or the mark."""
    codes = {offer.edit: " ".join(offer.code.split()) for offer in offers}
    titles: dict[Edit, str] = {}
    for offer in offers:
        if offer.edit.title.startswith("@") or isinstance(offer.edit, Apart | EndApart | Split):
            titles[offer.edit] = one_line(offer.edit.title, _LONGEST)
            continue
        code = codes[offer.edit]
        others = [codes[one.edit] for one in offers if one.target == offer.target and codes[one.edit] != code]
        alike = [other for other in others if other[:_ALIKE] == code[:_ALIKE]]
        common = code[: max((_common(code, other) for other in alike), default=0)]
        # A setting is known by its last name; of code, what stands after a dot is no name by itself.
        ends = " .(" if isinstance(offer.edit, Setting) else " ("
        begin = max(map(common.replace("()", "--").rfind, ends)) + 1
        is_more = len([line for line in offer.code.splitlines() if line.strip()]) > 1
        whole = _without_remark(offer.edit.title) + (" …" if is_more else "")
        titles[offer.edit] = one_line(f"…{code[begin:]}" if begin else whole, _LONGEST)
    return titles


def _without_remark(line: str) -> str:
    """A line of code without the user's remark at its end."""
    code, _, _ = line.partition("  # ")
    is_in_text = code.count('"') % 2 or code.count("'") % 2
    return line if is_in_text else code


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _figures(seen: Observed) -> tuple[int | None, ...]:
    in_graphs = (seen.operators, seen.launches) if seen.figures else (None, None)
    return *(getattr(seen.figures, name, None) for name in _FIGURES), *in_graphs


def _errors(seen: Observed, fix: Fix, before: str = "") -> tuple[Block, ...]:
    if seen.error:
        place = fix.as_it_was(seen.error_line)
        at = (At(place), ": ") if place else ()
        return (paragraph(*at, seen.error, indent=6, tone=Tone.BAD, limit=4),)
    said = _difference(seen)
    tone = Tone.BAD if seen.results is Results.DIFFER else Tone.WARN
    return (paragraph(*coded(f"{before}{said}"), indent=6, tone=tone, limit=4),) if said else ()


def _nothing(fix: Fix) -> Iterator[Block]:
    """Say why nothing was tried: all is well only if no finding asks for anything."""
    first = fix.first
    worth = [
        one for one in first.findings if not one.benign and not (first.broken and isinstance(one.evidence, _TARGETS))
    ]
    eager = first.figures.eager_functions if first.figures else 0
    if fix.is_unfinished:
        yield paragraph("It was ended before anything was tried.", tone=Tone.WARN)
    elif not first.calls:
        yield paragraph("Nothing that torch.compile made was called, so no edit can be tried.", tone=Tone.WARN)
    elif fix.otherwise:
        yield from _otherwise(fix)
    elif not (first.error or first.broken or worth or eager or first.against):
        yield paragraph(Span("Nothing to fix: ", Tone.GOOD), f"{words.ALL_CLEAR} {words.NOT_SEEN} {words.NOT_RUN}")
    elif not (first.error or first.broken or worth or eager):
        yield steps.but_there_is(first.against)
    elif eager:
        end = ":" if first.eager else "."
        yield paragraph(f"{_run_eagerly(eager)}; no edit can be tried for that{end}", tone=Tone.WARN)
        yield from eager_blocks(fix, first)
    else:
        yield paragraph("Nothing could be tried.", tone=Tone.WARN)
        if first.figures and not first.error:
            breaks, again = plural(first.figures.graph_breaks, "graph break"), first.figures.recompiles
            yield paragraph(f"As it is: {breaks}, {plural(again, 'recompile')}.")
            yield from _expected(first)
    yield from _errors(first, fix)
    yield from _told(worth)


def _beside(fix: Fix) -> Iterator[Block]:
    """Tell what no change was about, and is there still: neither a break nor recompiles, so no line above shows it."""
    still = {one.rule for one in (fix.best.observed if fix.best else fix.first).findings}
    worth = [one for one in fix.first.findings if not one.benign and not isinstance(one.evidence, _TARGETS)]
    worth = [one for one in worth if one.rule in still]
    if worth:
        yield Gap()
        yield line(quiet("Beside that, of the program as it is:"))
        yield from _told(worth)


def _told(worth: Sequence[Finding]) -> Iterator[Block]:
    told = [steps.body(advice(one), 5) for one in worth if not isinstance(one.evidence, NothingSeen)]
    if told:
        yield Steps(tuple(Step(tuple(blocks), Tone.WARN) for blocks in told[:_FINDINGS]))


def _run_eagerly(functions: int, how: str = "") -> str:
    return f"{plural(functions, 'function')} {how}{'runs' if functions == 1 else 'run'} eagerly"


def _remarks(fix: Fix) -> Iterator[Block]:
    if fix.is_unfinished:
        enough = f" `--within {fix.enough_within}` would probably do for all." if fix.enough_within else ""
        yield paragraph(*coded(f"{_HURRIED if fix.is_hurried else _ENDED}{enough}"), tone=Tone.WARN)
    if not fix.is_deterministic:
        said = "Two runs of the program as it is differ, with the same seeds: it is not deterministic, and results"
        yield paragraph(f"{said} cannot be compared.", tone=Tone.WARN)
    if fix.reference_is_eager:
        yield paragraph("The program as it is raises: results are compared with those without torch.compile.")
    if fix.draws_of_numpy:
        yield paragraph(_OF_NUMPY, tone=Tone.WARN)
    yield from _otherwise(fix)
    if at := fix.first.drawn_at:
        yield paragraph("Compiled code draws random numbers (", At(at), *coded(f"): {_DRAWN}"), tone=Tone.QUIET)


def _otherwise(fix: Fix) -> Iterator[Block]:
    """Tell that compiled code computes something else than the same lines do without torch.compile."""
    found = fix.otherwise
    if found is None:
        return
    said = "Results may be wrong: compiled, the program as it is computes something else than without torch.compile"
    yield paragraph(*coded(f"{said} ({_other(found.difference)})."), tone=Tone.BAD)
    for one in found.members[:1]:
        why = f"torch takes a comparison of a tensor with `{one.name}` for one bool: write `int({one.name})`"
        yield paragraph(At(one.at), *coded(f" {one.at.code} — {why}."), indent=2, tone=Tone.BAD)


def _best(fix: Fix, numbers: Mapping[Edit, int]) -> Iterator[Block]:
    best = fix.best
    if best is None:
        yield from _refused(fix, numbers)
        yield from _expected(fix.first)
        yield from eager_blocks(fix, fix.first)
        yield from left_blocks(fix, what_is_left(fix), numbers)
        return
    yield Listing(fix.patch, "diff")
    yield Gap()
    yield from _sides(fix)
    yield from _checks(fix, best)
    yield from _not_quite_equal(best.observed)
    yield from _other_inputs(best.observed.others, fix.own_backend)
    if fix.is_unchecked:
        kinds = "more kinds of other inputs" if best.observed.others.same else "other inputs than the program's own"
        yield paragraph(f"Not tried yet: {kinds}, and without torch.compile.", tone=Tone.WARN)
    if best.observed.printed:
        said = _other_words(best.observed.printed)
        may = "a time, or a count of what is compiled, may differ; a result must not"
        yield paragraph(*coded(f"{said[:1].upper()}{said[1:]}: {may}."), tone=Tone.WARN)
    after = best.observed.figures
    same = {
        Results.EQUAL: "the same results",
        Results.UNKNOWN: "results that could not be compared",
    }[best.observed.results]
    same += " of compiled calls" if best.observed.printed else ""
    others = best.observed.others.same
    same += f", also in {plural(others, 'call')} with other inputs" if others else ""
    if fix.own_backend and fix.own_backend.because:
        same += "; it was not compiled with its own backend, see above"
    is_clear = fix.is_checked and not best.observed.at_each_call
    is_whole = after and is_clear and not any(getattr(after, name) for name in _FIGURES)
    tone = Tone.GOOD if is_whole else Tone.WARN
    eager = after.eager_functions if after else 0
    still = f"{_run_eagerly(eager, 'still ')}{':' if best.observed.eager else '.'}" if eager else ""
    of_these = (
        *_kept(fix.first, best.observed),
        *_expected(best.observed),
        *_unrolled(best.observed),
        *_by_its_own(best.observed, fix.own_backend),
    )
    told = filter(None, (_gain(best, is_cut=bool(best.observed.kept_out)), _in_graphs(fix.first, best)))
    gain = f"{', '.join(told)}, with {same}."
    gain = gain[:1].upper() + gain[1:]
    if still:
        yield paragraph(still, tone=tone)
    yield from eager_blocks(fix, best.observed)
    yield paragraph(*coded(gain), tone=tone)
    yield from of_these
    yield from _passed_over(fix, best, numbers)
    yield from _left_to_python(fix, best)
    yield from left_blocks(fix, what_is_left(fix), numbers)
    in_python = any(isinstance(one.edit, (Apart, EndApart, Inside, Split)) for one in best.offers)  # raises nowhere
    if after and after.graph_breaks == eager == 0 and not in_python:
        yield paragraph(*coded(_KEEP), tone=Tone.QUIET)
    packages = [Path(folder).stem for folder in fix.included if any(name.startswith(folder) for name in fix.changed)]
    if packages:
        said = f"It changes code of {' and '.join(packages)}: a patch to send to its authors."
        yield paragraph(f"{said} Nothing installed is changed.", tone=Tone.QUIET)


def _left_to_python(fix: Fix, best: Trial) -> Iterator[Block]:
    """Name the lines that broke graphs and stay, in functions that the changes keep in Python, and what to do there."""
    kept = [offer for offer in best.offers if offer.keeps_computed]
    found: dict[SourceLine, str] = {}
    for finding in fix.first.findings:
        card = finding.evidence
        at = card.place if isinstance(card, BreakCard) else None
        if at and _is_there(at, best) and any(_stays(at, offer, best.observed) for offer in kept):
            found.setdefault(at, advice(finding).change)
    recompiled = dict(_recompiled_no_more(fix, best))
    found = {**recompiled, **found}
    if found:
        yield Gap()
        which = "no graph breaks there, and nothing is compiled again," if recompiled else "no graph breaks there"
        yield paragraph(f"Left to Python, so {which} any more; to have more compiled, mend by hand:")
    refused = {
        one.last[-1].target.at for one in fix.tried if one.observed.error or one.observed.results is Results.DIFFER
    }
    shown = list(found.items())[:_LEFT_TO_PYTHON]
    for change, lines in grouped(shown, lambda one: "" if one[0] in refused else one[1]).items():
        for at, _ in lines:
            yield line(At(at, Tone.STRONG), "  ", code(one_line(at.code, 120)), indent=2)
        if change:
            yield paragraph(*coded(change), indent=6, limit=3)
    if len(found) > _LEFT_TO_PYTHON:
        yield line(quiet(f"… {plural(len(found) - _LEFT_TO_PYTHON, 'more line')}"), indent=2)


def _recompiled_no_more(fix: Fix, best: Trial) -> Iterator[tuple[SourceLine, str]]:
    """Yield the lines for which code was compiled again that is not compiled any more, and what to do there."""
    kept = [offer for offer in best.offers if isinstance(offer.edit, Inside)]
    reports = [one.evidence for one in fix.first.findings if isinstance(one.evidence, RecompileReport)]
    for one in (one for report in reports for one in report.causes if not one.benign):
        at = one.line
        if at and _is_there(at, best) and any(_stays(at, offer, best.observed) for offer in kept):
            yield at, f"{sentence(changed(one))} {one.fix.change}"


def _is_there(at: SourceLine, best: Trial) -> bool:
    """Whether a line is in its file with the changes, too, and no rewrite stands for it."""
    return any(line.strip() == at.code.strip() for line in best.texts.get(at.file, "").split("\n"))


def _stays(at: SourceLine, offer: Offer, after: Observed) -> bool:
    """Whether a change leaves the line of a break as it is, in a function that is Python with it."""
    edit = offer.edit
    if isinstance(edit, Inside):  # all is Python but what it gives, of which nothing breaks
        return not any(target.at is not None and target.at.code == at.code for target in after.targets)
    if isinstance(edit, Apart):
        return at.file == edit.file and at.code.strip() in edit.lines
    return offer.target.at is not None and offer.target.at.place == at.place


def _refused(fix: Fix, numbers: Mapping[Edit, int]) -> Iterator[Block]:
    """Say that nothing helps, and of what has better figures, and is not built upon, why."""
    refused = not_built_upon(fix)[:_FINDINGS]
    if not refused:
        raises = fix.first.error and all(one.observed.error for one in fix.tried)
        how = ": it still raises" if raises else " without a change of the results"
        yield paragraph(f"Nothing that was tried helps{how}.")
        return
    yield paragraph("There is no patch. What was tried and ends graph breaks or recompiles is not built upon:")
    for one in refused:
        yield paragraph(*coded(f"- {_which(one, numbers)}: {for_and_against(one)}."), indent=2, limit=3)


def _passed_over(fix: Fix, best: Trial, numbers: Mapping[Edit, int]) -> Iterator[Block]:
    """Say why a row of the table is not the best that has fewer graph breaks, and no more that runs eagerly."""
    after = best.observed.figures
    for one in not_built_upon(fix):
        figures = one.trial.observed.figures
        if figures is None or after is None or figures.eager_functions > after.eager_functions:
            continue
        if figures.graph_breaks < after.graph_breaks:
            fewer = f"fewer graph breaks ({after.graph_breaks} → {figures.graph_breaks})"
            yield paragraph(*coded(f"Not {_which(one, numbers)}, with {fewer}: it {came(one)}."), limit=3)
            return


def _which(one: TriedFor, numbers: Mapping[Edit, int]) -> str:
    made = [numbers[offer.edit] for offer in one.trial.offers]
    return f"change{'s' if len(made) > 1 else ''} {together(made)}"


def _checks(fix: Fix, best: Trial) -> Iterator[Block]:
    """Say what the changes take for granted, or cost."""
    of_backend = list(_of_backend(fix.own_backend, best))
    is_tried = fix.own_backend is None or fix.own_backend.because is None
    if not is_tried:
        yield from (paragraph(*coded(f"{said}: run the program with it first."), tone=Tone.WARN) for said in of_backend)
    apart = [offer for offer in best.offers if isinstance(offer.edit, Apart)]
    prices = [*dict.fromkeys(_price(one, best).rstrip(".") for one in best.offers if one.price and one not in apart)]
    if apart:
        prices += [*_of_alike([replace(one, price=_price(one, best)) for one in apart]), _OF_PARTS]
    if prices := [*prices, *(of_backend if is_tried else ())]:
        yield line(quiet("Check before you use it:"))
        yield from (paragraph(f"- {price[:1].upper()}{price[1:]}.", indent=2, tone=Tone.QUIET) for price in prices)


def _price(offer: Offer, best: Trial) -> str:
    """Return what a change costs, as it is written: torch.compile's mark may stand on parts of a function."""
    edit = offer.edit
    if isinstance(edit, Split | EndApart | Apart) and is_moved(best.texts.get(edit.file, ""), edit.name):
        return price_as_moved(offer.price, edit.name)
    return offer.price


def _of_alike(apart: Sequence[Offer]) -> Iterator[str]:
    """Say what changes cost that divide functions: of those of which the same is to be said, once."""
    for said, offers in grouped(apart, lambda offer: offer.price.partition("` is ")[2]).items():
        names = [f"`{name}`" for name in dict.fromkeys(o.edit.name for o in offers if isinstance(o.edit, Apart))]
        which = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        yield f"{which} {'is' if len(names) == 1 else 'are'} {said}"


def _of_backend(own: OwnBackend | None, best: Trial) -> Iterator[str]:
    """Say what is not known of how the program's own backend takes it: it may refuse what torch does not know."""
    if own is None or (own.is_inductor and own.because is None):
        return
    may_refuse = f", which {_MAY_REFUSE}" if best.may_be_refused else ""
    named = " and ".join(f'`backend="{name}"`' for name in own.names) or "its own backend"
    if own.because is None:
        yield f"It was tried with {named}, not with Inductor, the default backend{may_refuse}"
    else:
        yield f"{_NOT_COMPILED[own.because].format(named)}{may_refuse}"


def _kept(first: Observed, best: Observed) -> Iterator[Block]:
    """Tell of breaks that the change itself makes, where compiled code calls what it keeps in Python."""
    made = Counter(name for name in best.kept_out if name not in first.kept_out)
    for name, breaks in made.items():
        said = f"{plural(breaks, 'of these graph breaks is', 'of these graph breaks are')} at calls of `{name}`"
        yield paragraph(*coded(f"{said}, which the change keeps in Python."), tone=Tone.QUIET)


def _expected(seen: Observed) -> Iterator[Block]:
    """Tell of recompiles that ask for nothing: they are counted all the same, also beside others of their function."""
    reports = [one.evidence for one in seen.findings if isinstance(one.evidence, RecompileReport)]
    mixed = [one for one in reports if one.limit is None and not all(cause.benign for cause in one.causes)]
    causes = [cause for one in reports for cause in one.causes if one.benign or (cause.benign and one in mixed)]
    expected, every = sum(cause.count for cause in causes), seen.figures.recompiles if seen.figures else 0
    if not expected or not every:
        return
    which = plural(expected, "recompile") if expected >= every else f"{number(expected)} of the {every} recompiles"
    are = "is" if expected == 1 else "are"
    said = "; ".join(changed(cause) for cause in causes[:_FINDINGS]) + ("; …" if causes[_FINDINGS:] else "")
    yield paragraph(*coded(f"{which} {are} as expected: {said}."), tone=Tone.QUIET, limit=3)


def _unrolled(seen: Observed) -> Iterator[Block]:
    """Tell of loops that are a large graph for each size: no figure counts how long Inductor takes for these."""
    size = seen.operators // max(seen.launches, 1)
    for one in seen.unrolled:
        if one.pinned:
            loop = f"`{one.pinned.code.strip()}` is unrolled: each {one.subject} is a graph of its own"
            said = f"{loop}, of some {number(size)} operators; Inductor may take long for each."
            yield paragraph(*coded(said), tone=Tone.WARN)


def _by_its_own(seen: Observed, own: OwnBackend | None) -> Iterator[Block]:
    """Tell how often the program's own backend compiles again, where that is, or may be, more often than counted."""
    counted = seen.figures.recompiles if seen.figures else 0
    if own and own.difference:
        said = "With Inductor, the program as it is computes something else than without torch.compile"
        yield paragraph(*coded(f"{said}: {_other(own.difference)}. These changes do not mend that."), tone=Tone.WARN)
    if own is None or own.recompiles is None:
        if seen.may_compile_more:
            yield paragraph(*coded(_OF_CONVOLUTIONS), tone=Tone.WARN)
    elif own.recompiles > counted:
        said = f"With its own backend it is {plural(own.recompiles, 'recompile')}, not {number(counted)}"
        of = (
            ": Inductor compiles some convolutions for each size by itself; pad to a few sizes"
            if seen.may_compile_more
            else ""
        )
        yield paragraph(f"{said}{of}.", tone=Tone.WARN)


def _how_to_have_it(fix: Fix, kept: str) -> Block:
    if kept:
        return Line(("To have it written: ", Span(patch_command(fix, kept), Tone.STRONG)), whole=True)
    applied = "" if fix.included else ", or with --apply to have it written"
    return Line((quiet(f"Again with --patch FILE for a patch{applied}."),), whole=True)


def counted_otherwise(here: Figures | None, there: tuple[int, int], *, name: str, steps: int) -> str:
    """Say why a recording of the same program has other counts of breaks and recompiles; empty where it has not.

    Args:
        here: what the trials begin with.
        there: what the recording has.
        name: the recording's file.
        steps: the calls that each run here was ended after; 0: none.
    """
    if here is None or (here.graph_breaks, here.recompiles) == there:
        return ""
    breaks, recompiles = (plural(count, noun) for count, noun in zip(there, ("graph break", "recompile"), strict=True))
    ended = f", and a run ends after {plural(steps, 'call')}" if steps else ""
    return (
        f"{name} counts {breaks} and {recompiles}, this {number(here.graph_breaks)} and {number(here.recompiles)}: here"
        f" random numbers are drawn from fixed seeds and graphs run as Dynamo captured them{ended}"
    )


def patch_command(fix: Fix, patch: str, undo: str = "") -> str:
    """Return what to type to make the best change, or with `-R` to undo it."""
    return f"patch {undo}-p0 -d {shlex.quote(fix.folder)} < {shlex.quote(patch)}"


def _gain(best: Trial, *, is_cut: bool) -> str:
    """Tell what has changed, and the number of graph breaks also where some are meant: these are told next."""
    before, after = best.before, best.observed.figures
    if before and after:
        shown = {name for name in _FIGURES if getattr(before, name) != getattr(after, name)}
        shown -= {"eager_functions"} if compiles_inside(best.offers) else set()  # by choice most are, uncounted
        shown |= {"graph_breaks"} if is_cut else set()
        figures = [(_FIGURES[n], getattr(before, n), getattr(after, n)) for n in _FIGURES if n in shown]
        return ", ".join(f"{words} {number(was)} → {number(now)}" for words, was, now in figures)
    found = [(words, getattr(after, name, 0)) for name, words in _FIGURES.items()]
    left = " and ".join(f"{number(now)} {words}" for words, now in found if now)
    return f"It does not raise any more; left are {left}" if left else "It does not raise any more"


def _in_graphs(first: Observed, best: Trial) -> str:
    """Tell how many functions are Python then, which no figure counts, and what runs in graphs."""
    stay, after = left_to_python(best.offers), best.observed
    python = f"{plural(len(stay), 'function')} left to Python" if stay else ""
    if compiles_inside(best.offers):
        python = "all else left to Python"
    if first.figures is None or (first.operators == after.operators and not stay):
        return python
    operators = f"operators that run in graphs {number(first.operators)} → {number(after.operators)}"
    said = f"{python}, {operators}" if python else operators
    if kept_from_graphs(best.offers) and after.operators < first.operators:
        said += f" ({number(round(100 * (1 - after.operators / first.operators)))} % fewer: these run eagerly then)"
    if first.launches != after.launches:
        said += f", runs of graphs {number(first.launches)} → {number(after.launches)}"
    return said


def _sides(fix: Fix) -> Iterator[Block]:
    """Tell how often each side of a changed branch was taken: a side that never was, was not compared."""
    if not fix.sides.sides:
        return
    first = f", in its first {plural(fix.sides.calls, 'call')}" if fix.sides.calls < fix.first.calls else ""
    yield paragraph(f"The tests that it changes were, without the change{first}:", tone=Tone.QUIET)
    for one in fix.sides.sides:
        said = f"  true {number(one.true)}, false {number(one.false)}"
        if one.other_true + one.other_false:
            said += f"; with other inputs true {number(one.other_true)}, false {number(one.other_false)}"
        yield paragraph(At(one.at), f" {one.at.code.strip()}", quiet(said), indent=2)
        if one.is_one_sided and not _is_as_it_was(one, fix):
            never = "false" if one.true + one.other_true else "true"
            yield paragraph(f"It was never {never}: what the change gives then is not known.", indent=4, tone=Tone.WARN)


def _is_as_it_was(one: Sides, fix: Fix) -> bool:
    """Return whether compiled code then does what the program did at each call, without asking.

    It leaves out a branch that was always taken, or takes one that never was.
    """
    offers = fix.best.offers if fix.best else ()
    here = [offer for offer in offers if (at := fix.as_it_was(offer.target.at)) and at.place == one.at.place]
    is_left_out = any(offer.drops for offer in here) and not one.false + one.other_false
    return is_left_out or (any(offer.is_always_taken for offer in here) and not one.true + one.other_true)


def _not_quite_equal(seen: Observed) -> Iterator[Block]:
    """Tell of what counts as equal, and may matter where it goes from there."""
    if zeros := seen.zero_gradients:
        said = f"{plural(zeros, 'gradient')} of parameters without one {'is' if zeros == 1 else 'are'} zeros with it"
        yield paragraph(f"{said}: an optimizer with momentum or weight decay moves such parameters.", tone=Tone.WARN)
    if tensors := seen.kept_tensors:
        are = "that was a number is a tensor" if tensors == 1 else "that were numbers are tensors"
        said = f"{plural(tensors, 'result')} {are} with it: take `.item()` where one is handed on, or kept for long."
        yield paragraph(*coded(said), tone=Tone.WARN)


def _other_inputs(others: OtherInputs, own: OwnBackend | None) -> Iterator[Block]:
    """Tell with which inputs a change gives something else: inputs that the program may never have."""
    if others.untried:
        yield paragraph(_UNTRIED[others.untried], tone=Tone.WARN)
    if others.lost:
        lost = plural(others.lost, "call")
        yield paragraph(
            f"{lost} with other inputs took too long or ended the process: nothing is known of that.", tone=Tone.WARN
        )
    yield from _no_evidence(others)
    yield from _differing(others, "With inputs that the program did not have")
    if own:
        yield from _differing(own.others, "With its own backend and other inputs")


def _differing(others: OtherInputs, which: str) -> Iterator[Block]:
    differing: dict[Way, OtherCall] = {}
    for one in others.differing:
        differing.setdefault(one.made_by, one)
    if differing:
        yield line(Span(f"{which} it gives something else:", Tone.WARN))
    for one in differing.values():
        yield paragraph(f"- {_how(one)}: {_gave(one)}", indent=2, limit=2)


def _no_evidence(others: OtherInputs) -> Iterator[Block]:
    """Tell of other inputs that say nothing of a change: those that raise anyhow, and those that could not be made."""
    if others.raising:
        how = ", ".join(dict.fromkeys(map(_how, others.raising_in_both)))
        raising = plural(
            others.raising, f"call with other inputs ({how}) raises", f"calls with other inputs ({how}) raise"
        )
        say = "says" if others.raising == 1 else "say"
        yield paragraph(f"{raising} in the program as it is, too, and {say} nothing of the change.", tone=Tone.QUIET)
    calls: dict[str, list[int]] = {}
    for one in others.unmade:
        calls.setdefault(one.given, []).append(one.call + 1)
    for given, which in calls.items():
        call = f"Call {which[0]} was" if len(which) == 1 else f"Calls {', '.join(map(str, which))} were"
        why = (
            f"of `{given}` none can be made"
            if given
            else "it is given none"
            if len(which) == 1
            else "they are given none"
        )
        yield paragraph(*coded(f"{call} not tried with other tensors: {why}."), tone=Tone.WARN)


def _how(one: OtherCall) -> str:
    return one.argument or one.inputs.value


def _gave(one: OtherCall) -> str:
    if one.gave is Gave.ERROR:
        return f"call {one.call + 1} raises {one.error}"
    if one.gave is Gave.NO_ERROR:
        return f"call {one.call + 1} does not raise, as it does without the change"
    if one.gave is Gave.NAN:
        return f"call {one.call + 1} gives nan either way, and gradient {one.index + 1} is nan, too"
    return _value_differs(one)
