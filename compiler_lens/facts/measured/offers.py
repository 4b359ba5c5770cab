"""What a recording offers to change so that more of the program compiles, as edits that can be tried."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.hints import specific_hints
from compiler_lens.facts.breaks.raised import failure_of
from compiler_lens.facts.breaks.remedies import (
    OfBothSides,
    Remedy,
    Rewrite,
    Setting,
    for_line,
    remedy_for,
    remedy_table,
)
from compiler_lens.facts.breaks.rewrites import allows, alternatives, rewrite, shown_at, used_later, words_for
from compiler_lens.facts.breaks.rewrites.site import SeenTensors, site_in
from compiler_lens.facts.breaks.seen import seen_tensors
from compiler_lens.facts.measured import edits, handed_in
from compiler_lens.facts.measured.ahead import is_check, set_ahead
from compiler_lens.facts.measured.along import along
from compiler_lens.facts.measured.any_size import for_any_size
from compiler_lens.facts.measured.assumed import assumed
from compiler_lens.facts.measured.bookkeeping import (
    draws,
    draws_first,
    function_at,
    leaves_early,
    lines_of_books,
    name_at,
    split,
)
from compiler_lens.facts.measured.called import Called
from compiler_lens.facts.measured.collected import INNER, added_to, collects
from compiler_lens.facts.measured.constants import constants
from compiler_lens.facts.measured.disabled import Disabling, Mark
from compiler_lens.facts.measured.draws import drawn_at
from compiler_lens.facts.measured.elsewhere import (
    Attribute,
    class_around,
    imported,
    is_handed_on,
    is_read,
    other_texts,
    says_what_varies,
)
from compiler_lens.facts.measured.endings import ending, training_begins
from compiler_lens.facts.measured.fix import NotTried, NotTriedBecause, Observed, Offer, StillEager, Target
from compiler_lens.facts.measured.floats import in_tensor
from compiler_lens.facts.measured.hatches import OF_VALUES, Markable, hatches, markable
from compiler_lens.facts.measured.inside import inside
from compiler_lens.facts.measured.kept import keeps, kept_in
from compiler_lens.facts.measured.marked_inside import givings, inside_price
from compiler_lens.facts.measured.marks_moved import (
    ALSO_WHOLE,
    BREAKS_ITS_CALLER,
    LOGGING_PASSED_OVER,
    MARK_STAYS,
    WITH_OPTIMIZER,
)
from compiler_lens.facts.measured.memos import IN_DICT, unmemoized
from compiler_lens.facts.measured.open_floats import OPENED, opened
from compiler_lens.facts.measured.parts import in_parts, stays
from compiler_lens.facts.measured.powers import BY_OPERATOR, by_operator, pinned_at
from compiler_lens.facts.measured.properties import IN_EACH_CALL, RECOMPUTED, uncached, unkept
from compiler_lens.facts.measured.reached import reached
from compiler_lens.facts.measured.remade import MADE_ANEW, remade
from compiler_lens.facts.measured.said import says
from compiler_lens.facts.measured.set_up import sets_up
from compiler_lens.facts.measured.sizes import told_ahead, told_sizes
from compiler_lens.facts.measured.substitutes import PRICE, substituted
from compiler_lens.facts.measured.unanswered import booked_in, called_at, may_be_anothers, waits
from compiler_lens.facts.measured.what_if import count
from compiler_lens.facts.measured.whole_numbers import BY_PYTHON, by_python
from compiler_lens.facts.measured.wrappers import computed_lines, kept_out
from compiler_lens.facts.overview.all_clear import against
from compiler_lens.facts.overview.eager import Extent, parts_of
from compiler_lens.facts.overview.explanation import Explanation, explain
from compiler_lens.facts.program.coverage import COMPREHENSIONS, GIVEN_UP, Function, Treatment, is_disabling
from compiler_lens.facts.program.owners import Owner, Whose, owner_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import BreakCause, Figures, GraphStage, Outcome, Recording, SourceLine
from compiler_lens.recording.own_files import is_machinery, package_of
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Sources, sources

_NOT_COMPILED = (
    Treatment.EAGER, Treatment.PARTLY_EAGER, Treatment.LIMIT, Treatment.PASSED_OVER, Treatment.FAILED
)  # fmt: skip
_TEXT, _ITEM = "number_in_text", "item"  # remedies
_IMPORT = "`import torch`"  # among what a rewrite needs


def observed(
    recording: Recording, own: Ownership, called: Sequence[Called] = (), loaded: edits.Texts = MappingProxyType({})
) -> Observed:
    """Return what a recording says of a run, and what it offers.

    Args:
        recording: the run.
        own: what is the user's.
        called: what functions were given and returned.
        loaded: the user's files that it imported: what they do may speak against a change, also where nothing of it is
            compiled.
    """
    known = Sources({**loaded, **sources(recording).texts})
    explained = explain(recording, user_paths=own.paths)
    functions = explained.coverage.functions
    # Those of comprehensions are parts of functions that run eagerly, or are Python as they are meant to be.
    comprehensions = [one for one in functions if one.name.name.endswith(COMPREHENSIONS)]
    eager = [
        one for one in functions
        if one.treatment in _NOT_COMPILED and (one.around or not one.generator) and one not in comprehensions
    ]  # fmt: skip
    counts = count(recording)
    aside = sum(frame.outcome in GIVEN_UP for one in comprehensions for frame in one.frames)
    counts = replace(counts, eager_frames=max(counts.eager_frames - aside, 0))
    figures = Figures(len(recording.graph_breaks), len(recording.recompiles), len(eager))
    inner = list(_inner_breaks(explained, own))
    marks, computed = list(_last_resorts(recording, inner)), computed_lines(recording, own)
    disabling = Disabling(recording, own, computed)
    found = [
        *_offered(recording, explained, known, own),
        *(offer for one in marks for offer in _marks(one, called)),
        *_wrappers(recording, inner, computed),
        *_disabled(recording, explained, disabling, own),
    ]
    found += _splits([one.target for one in found], recording, known, own)
    found += _along(dict.fromkeys(one.target for one in found), known, own)
    found += _endings(dict.fromkeys(one.target for one in found), recording, own)
    captured = (node for graph in recording.graphs if graph.stage is GraphStage.DYNAMO for node in graph.all_ops)
    given = {site.module for site in recording.sites if site.module}
    offers: dict[edits.Edit, Offer] = {}  # one edit may be for several breaks
    for one in found:
        at = one.target.at
        if isinstance(one, Offer) and not (at and says_what_varies(one.code, at.file, given, known)):
            offers.setdefault(one.edit, one)
    others = tuple(dict.fromkeys(one for one in found if isinstance(one, NotTried)))
    targets = tuple(dict.fromkeys(one.target for one in found))
    return Observed(
        figures, counts, tuple(offers.values()), others, targets, is_markable=bool(marks),
        findings=explained.findings, against=against(recording, explained),
        computed=frozenset((line.file, line.code.strip()) for line in computed),
        inlined=frozenset(_inlined(recording)),
        eager=tuple(_still_eager(one, explained) for one in eager),
        has_convolutions=any("conv" in node.target for node in captured),
        kept_out=tuple(_kept_out(recording)), drawn_at=drawn_at(recording, own),
        parts=tuple(_in_parts(recording, explained, disabling, own)),
        inside=tuple(_inside(recording, explained, disabling, own, {})),
        inside_mended=tuple(_inside(recording, explained, disabling, own, _rewrites_by_target(offers.values()))),
        told_ahead=tuple(_told_ahead(recording, explained, own)),
    )  # fmt: skip


def _kept_out(recording: Recording) -> Iterator[str]:
    """Yield the name of the function of each break that somebody asked for, from torch's `<function f at 0x7f>`."""
    causes = (event.causes[0] for event in recording.graph_breaks if event.causes)
    found = (one.context.partition("<function ")[2].partition(" at ")[0] for one in causes if is_disabling(one))
    yield from filter(None, found)


def _still_eager(function: Function, explained: Explanation) -> StillEager:
    parts = tuple(part for part in parts_of(function) if part.extent is not Extent.BETWEEN)
    report = next((one for one in explained.recompiles if one.limit in function.compile_ids), None)
    return StillEager(function.name, function.reason, parts, report)


def _offered(
    recording: Recording, explained: Explanation, known: Sources, own: Ownership
) -> Iterator[Offer | NotTried]:
    seen = seen_tensors(recording)
    for card in explained.cards:
        if not card.disabled:
            yield from _of_card(card, recording, known, seen, own)
    for compilation in recording.compilations:
        at, cause = compilation.failure_line, failure_of(compilation)
        if compilation.outcome is Outcome.FAILED and at and cause:
            yield from _of_failure(at, cause, known, seen, own)
    pins = pinned_at(recording) if explained.recompiles else ()
    for report in explained.recompiles:
        for changed in _asking(report):
            yield from _of_recompile(changed, recording, known, own, pins)
            yield from _of_float(changed, recording, known, seen, own)
    yield from _of_first_calls(recording, known, own)


def _of_card(
    card: BreakCard, recording: Recording, known: Sources, seen: SeenTensors, own: Ownership
) -> Iterator[Offer | NotTried]:
    target = _target(card, recording)
    theirs = (at.file for at in (*card.inside, card.place) if at and not own.owns(at.file))
    package = next((package_of(file) for file in theirs if package_of(file) and not is_machinery(file)), "")
    is_editable = card.own and card.owner.is_yours
    others = list(_alternatives(target, card.cause, known, seen)) if is_editable else []
    if (
        is_editable
        and card.remedy
        and card.remedy.name == _TEXT
        and (setting := remedy_table().remedies[_ITEM].setting)
    ):
        others.append(Offer(target, edits.Setting(setting.code), setting.price))  # torch follows f-strings since 2.13
    yield from others
    # Code of one's own can be written for both branches: an error in one of them is no offer.
    if card.place and is_editable and package_of(card.place.file):
        for branch in assumed(card.place, card.cause, known):
            yield Offer(target, branch.lines(card.place), branch.price, is_last_resort=True, may_raise=True)
        if value := constants(card.place, card.cause, known):
            yield Offer(target, value.lines, value.price, is_last_resort=True, takes_value=True, may_raise=True)
    for one in _of_break(
        target, card.cause, card.remedy, card.setting, card.rewrite, is_own=card.own, owner=card.owner
    ):
        if isinstance(one, Offer):
            yield one
        elif not others:
            yield replace(one, package=package)


def _target(card: BreakCard, recording: Recording) -> Target:
    compiled = {event.compile_id for event in card.events}
    return Target(card.place, card.gb_type, _frame(compiled, recording))


def _frame(compiled: Container[CompileId], recording: Recording) -> str:
    """Return the name of the function of which some compilations are, without its class."""
    names = (one.function for one in recording.compilations if one.compile_id in compiled)
    return _whole_function(next(names, ""))


def _inlined(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the functions that torch compiles with those of which they have something in their graphs."""
    lines = (node.source for graph in recording.graphs if graph.stage is GraphStage.DYNAMO for node in graph.ops)
    for outermost, *inner in filter(None, lines):
        for line in inner:
            yield _whole_function(outermost.function), _whole_function(line.function)


def _whole_function(name: str) -> str:
    """Return the name of the function that a resume function is the rest of, without its class."""
    while (found := plain_function(name)) != name:
        name = found
    return name.rpartition(".")[2]


def _of_failure(
    at: SourceLine, cause: BreakCause, known: Sources, seen: SeenTensors, own: Ownership
) -> Iterator[Offer | NotTried]:
    remedy, is_own = remedy_for(cause, shown_at(known, at) or used_later(known, at)), own.owns(at.file)
    if remedy:
        remedy = for_line(remedy, at.code, words_for(known, at, seen))
    found = rewrite(cause, known, at, seen) if is_own else None
    target, owner = Target(at, cause.gb_type), owner_of((at,), own)
    others = list(_alternatives(target, cause, known, seen)) if is_own and owner.is_yours else []
    yield from others
    setting = remedy.setting if remedy else None
    if setting and not allows(known.texts.get(at.file, ""), setting.name):
        setting = None
    for one in _of_break(target, cause, remedy, setting, found, is_own=is_own, owner=owner):
        if isinstance(one, Offer) or not others:
            yield one


def _alternatives(target: Target, cause: BreakCause, known: Sources, seen: SeenTensors) -> Iterator[Offer]:
    """Give what only a trial shows to be right."""
    at = target.at
    for other in alternatives(cause, known, at, seen) if at else ():
        if at:
            yield Offer(target, _lines(at, other), other.needs, needs_both=isinstance(other, OfBothSides))
    if at and (lines := substituted(at, cause, known)):
        yield Offer(target, lines, PRICE)
    if at and (lines := uncached(at, cause, known)):
        yield Offer(target, lines, RECOMPUTED)
    for lines in handed_in.handed_in(at, known) if at else ():
        yield Offer(target, lines, handed_in.PRICE, raises_less=True)
    for lines in by_python(at, cause, known) if at else ():
        yield Offer(target, lines, BY_PYTHON)


def _inner_breaks(explained: Explanation, own: Ownership) -> Iterator[tuple[BreakCard, SourceLine]]:
    """Yield the breaks in what the user's compiled functions call, that nobody asked for, with their lines."""
    for card in explained.cards:
        # What torch.compile was given itself is no call in a graph.
        is_called = any(sum(own.owns(line.file) for line in event.user_stack) > 1 for event in card.events)
        is_meant = card.disabled or card.owner.whose is Whose.BY_DESIGN
        if card.place and card.own and is_called and not is_meant:
            yield card, card.place


_SPLIT = (
    f"`{{name}}` itself is Python then, at each call{ALSO_WHOLE}: it calls `{{inner}}`, which is compiled, for what is"
    f" computed, and its other lines run before and after that{BREAKS_ITS_CALLER}"
)
_LEAVES = ", and is computed to its end before `{name}` asks whether to return early"
_COLLECTED = (
    "; what compiled code adds to lists, keeps of a number, says, or gives a method that keeps books, is there after"
    " the call, not within it, and nothing of a call whose compiled code raises; an error that this raises comes when"
    " all else is done; calls of `{name}` alone put it there, not from several threads at once"
)
_AHEAD = "; what a module looks at before it computes is asked ahead of each call, of all such modules, reached or not"

_SET_UP = (
    "; a call in which a module that it has is still to be set up runs eagerly, as a whole, also where that module is"
    " not come to"
)


def _splits(targets: Sequence[Target], recording: Recording, known: Sources, own: Ownership) -> Iterator[Offer]:
    """Give the functions that torch.compile was given in two, where what only keeps books breaks a graph.

    The same change keeps what functions that they call add to lists. Whose lists those are does not show where several
    functions were given: each of them is then made two without that as well.
    """
    given = list(dict.fromkeys(site.defined for site in recording.sites if own.owns(site.defined.file)))
    places = {site.place for site in recording.sites if site.place}
    for defined in given:
        text = known.texts.get(defined.file, "")
        # What is given in other runs alone would add to the lists, too, and nobody would take it from there.
        is_all_given = givings(text) <= sum(place.file == defined.file for place in places)
        name = function_at(text, defined.line)
        kept = _books_of(text, defined.line)
        here = [(one, one.at) for one in targets if one.at and one.at.file == defined.file and name]
        # What another function that was given has of its own is that one's.
        others = frozenset[int]().union(*(_books_of(text, one.line) for one in given if one.file == defined.file))
        inner = [(one, at) for one, at in here if at.line not in kept | others and _is_collected(one, at, text, name)]
        inner = [(one, at) for one, at in inner if is_all_given and not _is_read_meanwhile(at, text, name, known)]
        # What the function's own lines alone call waits with these.
        inner = [one for one in inner if not _is_called_by(text, one[1].line, name, kept)]
        inner = [one for one in inner if not may_be_anothers(text, one[1].line, other_texts(defined.file, known))]
        if draws_first(text, name) and any(map(draws, imported(text, known))):  # which may draw in between
            continue
        lines: tuple[str, ...] = ()
        for code in dict.fromkeys(at.code.strip() for _, at in inner):
            lines = (*lines, code) if split(text, name, (*lines, code)) else lines
        said = _SPLIT + (_LEAVES if leaves_early(text, name) else "")
        said += LOGGING_PASSED_OVER if edits.logs(text, name) else ""
        asked = {at.code.strip() for _, at in inner if is_check(text, at.line)} & {*lines}
        set_up = {at.code.strip() for _, at in inner if sets_up(text, at.line)} & {*lines}
        price, inner_name = said + (_AHEAD if asked else ""), f"{name.rpartition('.')[2]}{INNER}"
        price += (_SET_UP if set_up else "") + (_COLLECTED if set(lines) - asked - set_up else "")
        for target, at in here:
            if at.line in kept or ((target, at) in inner and at.code.strip() in lines):
                yield Offer(target, edits.Split(defined.file, name, lines), price.format(name=name, inner=inner_name))
            if at.line in kept and lines and len(given) > 1:
                yield Offer(target, edits.Split(defined.file, name), said.format(name=name, inner=inner_name))


def _books_of(text: str, line: int) -> frozenset[int]:
    """Return the lines of the function at a line that keep books."""
    name = function_at(text, line)
    return lines_of_books(text, name) if name else frozenset()


def _is_called_by(text: str, line: int, name: str, kept: frozenset[int]) -> bool:
    """Return whether a line of a method that keeps books runs only as some lines call that method."""
    calls = called_at(text, line, name)
    return bool(calls) and calls <= kept


def _is_collected(target: Target, at: SourceLine, text: str, name: str) -> bool:
    """Return whether a line, in what a function calls, adds to a list what can be kept until the call is over."""
    last = name.rpartition(".")[2]
    frames = (last, f"{last}{INNER}", at.function.rpartition(".")[2])  # by itself, where a graph breaks before it
    return target.frame in frames and (
        collects(text, at.line)
        or keeps(text, at.line)
        or waits(text, at.line)
        or says(text, at.line)
        or is_check(text, at.line)
        or sets_up(text, at.line)
    )


def _is_read_meanwhile(at: SourceLine, text: str, name: str, known: Sources) -> bool:
    """Return whether other files may read, within the call, what a line would only put there after it."""
    held = added_to(text, at.line) or kept_in(text, at.line) or booked_in(text, at.line) or set_ahead(text, at.line)
    owner = class_around(text, at.line)
    compiled = reached(text, [name, f"{name}{INNER}", f"{name.rpartition('.')[2]}{INNER}"])
    is_open = is_handed_on(text, compiled, known)
    return is_open or any(is_read(Attribute(one, owner, at.file), known) for one in held)


_ALONG = (
    "`{function}` is given as `{name}_list` the Python numbers that `{name}` is made of, by all that hand it on here;"
    " who leaves that out has them taken out of the tensor, as now"
)


def _along(targets: Iterable[Target], known: Sources, own: Ownership) -> Iterator[Offer]:
    """Give Python numbers that go along with the tensor that they are in, where a line takes them out of it again."""
    for target in targets:
        at = target.at
        text = known.texts.get(at.file, "") if at and own.owns(at.file) else ""
        found = along(text, at.line, at.file) if at and text else None
        if found:
            yield Offer(target, found, _ALONG.format(function=found.function, name=found.name))


_ENDS = (
    "`{name}` is Python from `{line}` on, at each call, also where `fullgraph=True` is asked for; what it computes"
    " before is `{inner}`, which is compiled"
)
_MOVED = ", with what it computes of tensors in any case from there on"
_LAYERS = (
    "; modules that it calls from there on are compiled each by itself, as they are where a graph breaks in a loop"
)


_CALLED = BREAKS_ITS_CALLER
_ENDS_WITH = "; `{marked}` is Python as well, by your own mark, with all that it calls"


def _endings(targets: Iterable[Target], recording: Recording, own: Ownership) -> Iterator[Offer]:
    """Give the functions that torch.compile was given with an end that stays Python, where a graph breaks there."""
    for target in targets:
        if target.at:
            yield from _ends_at(target, target.at, recording, own)


def _ends_at(
    target: Target, at: SourceLine, recording: Recording, own: Ownership, mark: Mark | None = None
) -> Iterator[Offer]:
    """Give the functions that torch.compile was given with an end from a line on, which calls what gets a mark."""
    known = sources(recording)
    for defined in dict.fromkeys(site.defined for site in recording.sites if own.owns(site.defined.file)):
        text = known.texts.get(defined.file, "")
        name = function_at(text, defined.line)
        if not name or at.file != defined.file:
            continue
        codes = [*([] if mark else [training_begins(text, name)]), at.code.strip()]
        ends = ((code, ending(text, name, code)) for code in codes if code)
        code, found = next(((code, one) for code, one in ends if one and at.line in one.lines), ("", None))
        if found is None or (mark and not found.calls(mark.name)):
            continue
        lines = text.split("\n")
        loses = frozenset((defined.file, lines[number - 1].strip()) for number in found.lines)
        begins, inner = lines[found.lines[0] - 1].strip(), f"{name.rpartition('.')[2]}{INNER}"
        said = _ENDS.format(name=name, line=begins, inner=inner)
        said += (_MOVED if found.moved else "") + (_LAYERS if found.has_layers else "")
        said += WITH_OPTIMIZER if found.is_training else ""
        said += _ENDS_WITH.format(marked=mark.name) if mark else ""
        said += (LOGGING_PASSED_OVER if edits.logs(text, name) else "") + _CALLED.format(name=name)
        edit = edits.EndApart(defined.file, name, code, mark.lines if mark else None)
        yield Offer(
            target, edit, said, is_last_resort=not found.is_training, keeps_computed=True,
            may_lose=loses | (mark.may_lose if mark else frozenset()), is_final=not found.is_training,
        )  # fmt: skip


_PARTS = "`{name}` is Python from now on: {what}"
_BETWEEN = "each `…_computed` there is compiled by itself, the rest is not"
_NOTHING_BETWEEN = "functions and modules of yours that are called there are compiled, each by itself"


def _in_parts(recording: Recording, explained: Explanation, disabling: Disabling, own: Ownership) -> Iterator[Offer]:
    """Give each function that leads to what hurts, from what torch.compile was given on, in parts without that."""
    known = sources(recording)
    hurting: dict[tuple[str, str], dict[str, Target]] = {}  # lines, by the file and the name of their function
    every = (
        *_breaking(recording, explained), *_limiting(recording, explained), *_unrolling(recording, explained),
        *_growing(recording, explained),
    )  # fmt: skip
    for target, chain in dict.fromkeys(every):
        for at in disabling.from_given([line for line in chain if own.owns(line.file)]):
            text = known.texts.get(at.file, "")
            site = site_in(text, at.line)
            name = name_at(text, site.function.lineno) if site and site.function else ""
            hurting.setdefault((at.file, name), {}).setdefault(at.code.strip(), target)
    for (file, name), lines in hurting.items():
        text = known.texts.get(file, "")
        found = in_parts(text, name, lines) if name and not package_of(file) else None
        if found is None:
            continue
        price = _PARTS.format(name=name, what=_BETWEEN if found.parts else _NOTHING_BETWEEN)
        price += MARK_STAYS if found.is_given else ""
        python = frozenset((file, line) for line in (*lines, *stays(found, text)))
        yield Offer(
            next(iter(lines.values())), edits.Apart(file, name, tuple(lines)), price, is_last_resort=True,
            keeps_computed=True, may_lose=python, is_final=True,
        )  # fmt: skip


def _inside(
    recording: Recording,
    explained: Explanation,
    disabling: Disabling,
    own: Ownership,
    rewrites: Mapping[tuple[str, str, str], Offer],
) -> Iterator[Offer]:
    """Give what can be compiled by itself of a function that leads to what hurts, where that is Python.

    With rewrites of lines by what they are for, those that it takes stand first: what leads to these alone is compiled.
    """
    hurting = list(dict.fromkeys((*_breaking(recording, explained), *_limiting(recording, explained))))
    # What a line keeps is compiled again for, until it keeps it otherwise.
    by_line = {one.target.at.place: one for one in rewrites.values() if one.target.at}
    made: dict[int, Offer | None] = {}
    for number, (target, _) in enumerate(hurting):
        at_line = by_line.get(target.at.place) if target.at else None
        made[number] = rewrites.get(target.key) or at_line
    mended = {number for number, one in made.items() if one is not None}
    for found in inside(recording, disabling, own, [chain for _, chain in hurting], mended):
        taken = dict.fromkeys(one for number in sorted(found.taken) if (one := made[number]))
        price, target = inside_price(found.edit), hurting[found.first][0]
        yield from taken
        yield Offer(target, found.edit, price, is_last_resort=True, keeps_computed=True, is_final=True)


def _rewrites_by_target(offers: Iterable[Offer]) -> Mapping[tuple[str, str, str], Offer]:
    """Return the first offer for each thing that rewrites its line, and gives the same numbers wherever it runs."""
    found: dict[tuple[str, str, str], Offer] = {}
    for one in offers:
        is_plain = isinstance(one.edit, edits.Lines) and not (one.is_last_resort or one.needs_both or one.drops)
        if is_plain and not (one.takes_value or one.may_raise or one.draws or one.gives_unknown):
            found.setdefault(one.target.key, one)
    return found


_Chain = tuple[Target, tuple[SourceLine, ...]]  # the calls that lead to a line, outermost first, and the line


def _breaking(recording: Recording, explained: Explanation) -> Iterator[_Chain]:
    for card in explained.cards:
        if card.own:
            target = _target(card, recording)
            yield from ((target, stack) for stack in dict.fromkeys(event.user_stack for event in card.events))


def _limiting(recording: Recording, explained: Explanation) -> Iterator[_Chain]:
    """Yield what was another value in each compilation of a function that was compiled too often."""
    stacks = {one.compile_id: one.stack for one in recording.compilations}
    for report in explained.recompiles:
        asking = [cause for cause in report.causes if not cause.benign] or report.causes
        for cause in asking if report.limit else ():
            around = stacks.get(report.limit, ()) if report.limit else ()
            yield _target_of(cause, recording), (*around, *_asked_in(cause))


def _unrolling(recording: Recording, explained: Explanation) -> Iterator[_Chain]:
    """Yield the loops whose number of rounds was another in each compilation: compiled in whole, each is a graph."""
    stacks = {one.compile_id: one.stack for one in recording.compilations}
    for report in explained.recompiles:
        for cause in report.causes:
            if cause.is_unrolled and cause.pinned:
                around = stacks.get(cause.compile_ids[-1], ())
                yield _target_of(cause, recording), (*around, cause.pinned)


def _growing(recording: Recording, explained: Explanation) -> Iterator[_Chain]:
    """Yield where a list, a deque or a set is another length in each compilation: a queue of results, say."""
    for report in explained.recompiles:
        for cause in report.causes:
            if cause.cause is CauseClass.LIST_LENGTH and not (cause.benign or report.limit):
                yield _target_of(cause, recording), _asked_in(cause)


def _asked_in(cause: RecompileCause) -> tuple[SourceLine, ...]:
    """Return the calls that lead to what asks for the value that changed, the longest way that torch says."""
    failures = (failure for change in cause.changes for failure in change.recompile.failures)
    return max((failure.user_stack for failure in failures), key=len, default=())


def _last_resorts(
    recording: Recording, inner: Sequence[tuple[BreakCard, SourceLine]]
) -> Iterator[tuple[Target, Markable]]:
    known = sources(recording)
    given = {(site.defined.file, site.defined.line) for site in recording.sites}
    for card, place in inner:
        found = markable(place, known)
        if found and (place.file, found.function.lineno) not in given:
            yield _target(card, recording), found


def _wrappers(
    recording: Recording, inner: Sequence[tuple[BreakCard, SourceLine]], computed: frozenset[SourceLine]
) -> Iterator[Offer]:
    known = sources(recording)
    given = {(site.defined.file, site.defined.line) for site in recording.sites}
    for card, place in inner:
        around = known.function_at(place.file, place.line)
        if around and not given.isdisjoint(((place.file, around.line), (place.file, around.first))):
            continue  # it would run as Python just as it does now
        if not card.cause.gb_type.startswith(OF_VALUES) and (mark := kept_out(place, known, computed)):
            yield Offer(_target(card, recording), *mark, is_last_resort=True, keeps_computed=True)


def _disabled(recording: Recording, explained: Explanation, disabling: Disabling, own: Ownership) -> Iterator[Offer]:
    """Give `torch.compiler.disable` on functions in which breaks or recompiles are left.

    Where what torch.compile was given ends with a call of one, its end may stay Python with it: that breaks no graph.
    """
    asked: list[tuple[Target, tuple[SourceLine, ...], str]] = []
    for card in explained.cards:
        is_meant = card.disabled or card.owner.whose is Whose.BY_DESIGN
        if card.own and not is_meant:
            asked.append((_target(card, recording), card.chain, card.gb_type))
    for report in explained.recompiles:
        causes = _asking(report)
        asked += [(_target_of(cause, recording), _asked_in(cause), "compiled again too often") for cause in causes]
    made: set[tuple[str, int]] = set()
    for target, chain, reason in asked:
        for mark in disabling.marks(chain, reason):
            if (mark.lines.file, mark.lines.near) in made:
                continue
            made.add((mark.lines.file, mark.lines.near))
            yield Offer(
                target, mark.lines, mark.price, is_last_resort=True, keeps_computed=True, may_lose=mark.may_lose,
                is_final=True,
            )  # fmt: skip
            for at in (one for one in chain if one.file == mark.lines.file):
                yield from _ends_at(target, at, recording, own, mark)


def _marks(at: tuple[Target, Markable], called: Sequence[Called]) -> Iterator[Offer]:
    target, function = at
    for one in hatches(function, target.kind, called):
        yield Offer(target, one.lines, one.price, is_last_resort=True, needs_aot=one.needs_aot)


def _of_break(  # noqa: PLR0913 -- what is known of a break
    target: Target,
    cause: BreakCause,
    remedy: Remedy | None,
    setting: Setting | None,
    found: Rewrite | None,
    *,
    is_own: bool,
    owner: Owner,
) -> Iterator[Offer | NotTried]:
    """Give the rewrite of the line and the setting; if there is neither, why not."""
    at = target.at
    if found and found.is_complete and at and is_own:
        yield Offer(target, _lines(at, found), found.needs)
    if setting:
        yield Offer(target, edits.Setting(setting.code), setting.price)
    elif not (found and found.is_complete and is_own):
        reason = NotTriedBecause.SKETCH if found and is_own else NotTriedBecause.NO_EDIT
        change = remedy.change if remedy else next(iter(specific_hints(cause)), "")
        is_theirs = not (is_own and owner.is_yours)
        yield NotTried(target, owner.change if is_theirs else change, NotTriedBecause.NOT_OWN if is_theirs else reason)


def _lines(at: SourceLine, found: Rewrite) -> edits.Lines:
    return edits.Lines(at.file, at.line, found.before, found.after, imports="torch" if _IMPORT in found.needs else "")


def _of_first_calls(recording: Recording, known: Sources, own: Ownership) -> Iterator[Offer]:
    """Give what spares a second compilation where the first call keeps something: in a package, as it costs time."""
    failures = (failure for one in recording.recompiles for failure in one.failures)
    for at in dict.fromkeys(failure.user_stack[-1] for failure in failures if failure.user_stack):
        if own.owns(at.file) and package_of(at.file) and (lines := unkept(at, known)):
            yield Offer(Target(at, CauseClass.MODULE_ATTRIBUTE.value), lines, IN_EACH_CALL, is_last_resort=True)


def _of_recompile(
    cause: RecompileCause, recording: Recording, known: Sources, own: Ownership, pins: Sequence[SourceLine]
) -> Iterator[Offer | NotTried]:
    target = _target_of(cause, recording)
    offers = [Offer(target, one.lines, one.price) for one in told_sizes(cause, recording, own)]
    offers += [Offer(target, lines, price) for lines, price in in_tensor(cause, known, own)]
    offers += [Offer(target, lines, price) for lines, price in for_any_size(cause, known, own)]
    offers += [Offer(target, lines, BY_OPERATOR) for lines in by_operator(cause, pins, known, own)]
    if cause.line and own.owns(cause.line.file):  # a size in a key is what torch tells of, not the dict
        memo = unmemoized(cause.line, known)
        if memo:
            lines, held = memo
            offers.append(Offer(target, lines, IN_DICT.format(held=held), leaves=held.rpartition(".")[2]))
        if found := remade(cause.line, known):
            offers.append(Offer(target, found[0], MADE_ANEW.format(held=found[1])))
    if setting := cause.fix.setting:
        offers.append(Offer(target, edits.Setting(setting.code), setting.price))
    yield from offers
    if not offers:
        yield NotTried(target, cause.fix.change, NotTriedBecause.NO_EDIT)


def _of_float(
    cause: RecompileCause, recording: Recording, known: Sources, seen: SeenTensors, own: Ownership
) -> Iterator[Offer]:
    target = _target_of(cause, recording)
    yield from (Offer(target, lines, OPENED) for lines in opened(cause, known, seen, own))


def _told_ahead(recording: Recording, explained: Explanation, own: Ownership) -> Iterator[tuple[Offer, ...]]:
    causes = [cause for report in explained.recompiles for cause in report.causes if cause.benign]
    for several in told_ahead(causes, recording, own):
        yield tuple(Offer(_target_of(causes[0], recording), one.lines, one.price) for one in several)


def _asking(report: RecompileReport) -> Sequence[RecompileCause]:
    """Return the causes of recompiles that ask for a change; where all are expected, but for the limit, all of them."""
    asking = [cause for cause in report.causes if not cause.benign]
    return (asking or report.causes) if not report.benign else ()


def _target_of(cause: RecompileCause, recording: Recording) -> Target:
    recompiled = {one.recompile.compile_id for one in cause.changes}
    return Target(cause.line, cause.cause.value, _frame(recompiled, recording))
