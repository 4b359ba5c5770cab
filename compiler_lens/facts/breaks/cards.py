"""Graph breaks as a user would fix them: one card for each place and root cause, its fall-out folded under it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.breaks.backend import BACKEND, failed_lines, is_of_backend, is_raised
from compiler_lens.facts.breaks.condition import computed_at
from compiler_lens.facts.breaks.following import Beyond, Broken, Following, beyond
from compiler_lens.facts.breaks.hints import Hint, hints_for
from compiler_lens.facts.breaks.ranks import Offered, offered
from compiler_lens.facts.breaks.remedies import Remedy, Rewrite, Setting, for_later, for_line, remedy_for
from compiler_lens.facts.breaks.rewrites.site import SeenTensors
from compiler_lens.facts.breaks.unknown import taken_at
from compiler_lens.facts.program.coverage import (
    Coverage,
    Function,
    FunctionName,
    Lines,
    Treatment,
    coverage,
    is_disabling,
)
from compiler_lens.facts.program.owners import Owner, Whose, library, owner_of
from compiler_lens.facts.program.ownership import Ownership, innermost_own
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    Compilation,
    CompileId,
    GraphBreak,
    Recording,
    SourceLine,
    Symbol,
    Tried,
)
from compiler_lens.recording.own_files import is_machinery, slashed
from compiler_lens.recording.source_text import Excerpt, Sources, sources

if TYPE_CHECKING:
    from compiler_lens.facts.breaks.fallout import Regions

_BRANCH = re.compile(r"\s*(if|elif|while|assert)\b")
# In torch's context of the break, "method: <Logger model (INFO)>.warning, args", or in the line.
_LOGGED = re.compile(r"\.(debug|info|warning|error|critical|exception|log)(?=\(|, args)")
Key = tuple[SourcePlace | None, str]  # of a group of breaks: where, and the type of the root
_BECAME = {Treatment.EAGER: BreakOutcome.SKIPPED_FRAME, Treatment.PARTLY_EAGER: BreakOutcome.SKIPPED_REST}
_SEVERITY = (BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST, BreakOutcome.SPLIT)


class BreakCard(Struct, frozen=True):
    """What a user would fix in one go: all breaks of one kind at one line, and those that only follow from them."""

    place: SourceLine | None  # None: torch gave no line at all
    cause: BreakCause  # the root
    events: tuple[GraphBreak, ...]  # every raw break that the card stands for, in order
    direct: int  # how many of them broke here; the others only follow
    own: bool  # the place is in the user's own code
    owner: Owner  # whose the break is: a library's may be at a line of the user's, which leads there
    chain: tuple[SourceLine, ...]  # the calls that lead there, outermost first, without torch's own; the place is last
    inside: tuple[SourceLine, ...]  # where in a library it broke, most frequent first; empty if at the place itself
    frames: int  # frames that broke
    parts: int  # compiled parts of the functions that it cuts, as coverage counts them: without recompiles
    functions: Mapping[BreakOutcome, int] = field(default_factory=dict)  # how many ended so, by what became of them
    columns: tuple[int, int] | None = None  # of the expression that broke, in its line, if torch says where it begins
    computed: SourceLine | None = None  # of a branch: the line, another than this, that computes what it asks for
    excerpt: Excerpt | None = None  # the lines around the place, where the source is known
    remedy: Remedy | None = None  # our advice on this kind of break; None for what is not the user's
    setting: Setting | None = None  # the configuration that would do for this very line
    rewrite: Rewrite | None = None  # what to write instead of this very line, where that is sure
    tried: tuple[Tried, ...] = ()  # offers for it, each made in a copy of the program by itself
    following: tuple[Following, ...] = ()  # what breaks next, once this does not
    taken: tuple[SourceLine, ...] = ()  # other lines, which took the numbers from tensors that torch does not know here
    mark: SourceLine | None = None  # of the user's own, that keeps what is called here out of the compiler
    unseen: Lines | None = None  # of its function, after the break, where Dynamo never came: they may break, too

    @property
    def gb_type(self) -> str:
        """The root's type in torch's registry."""
        return self.cause.gb_type

    @property
    def hint(self) -> str:
        """What of torch's hints says something about this code of the user's; empty where nothing does."""
        return " ".join(hint.text for hint in self.hints if not hint.is_setting) if self.owner.is_yours else ""

    @property
    def hints(self) -> tuple[Hint, ...]:
        """What torch says of this event, without what is true of any break, or about other lines."""
        if self.owner.harmless:  # there is nothing to do
            return ()
        return hints_for(self.cause, self.place.code if self.place else "", self.remedy, self.setting)

    @property
    def offers(self) -> tuple[Offered, ...]:
        """What to write or to set, the first first, each with how much is known of it."""
        if self.owner.harmless:
            return ()
        words, settings = self.remedy.change if self.remedy else "", (self.setting,) if self.setting else ()
        words = words if self.owner.is_yours else self.owner.change
        return offered(words, self.hint, self.rewrite, settings, self.tried)

    @property
    def disabled(self) -> bool:
        """Whether somebody asked for it: a call of a function that is kept out of the compiler."""
        return is_disabling(self.cause)

    @property
    def compile_ids(self) -> tuple[CompileId, ...]:
        """The compilations that broke here, each once, in order of appearance."""
        return tuple(dict.fromkeys(event.compile_id for event in self.events))

    @property
    def outcomes(self) -> tuple[tuple[BreakOutcome, int], ...]:
        """How many breaks ended how, the worst first."""
        counts = Counter(event.outcome for event in self.events)
        return tuple((outcome, counts[outcome]) for outcome in _SEVERITY if counts[outcome])

    def functions_that(self, outcome: BreakOutcome) -> int:
        """Return how many functions have a frame that ended this way; where no name is known, how many frames did."""
        return self.functions.get(outcome, 0) if any(self.functions.values()) else self.frames_that(outcome)

    def frames_that(self, outcome: BreakOutcome) -> int:
        """Return how many frames ended this way."""
        return len({event.compile_id.of_frame for event in self.events if event.outcome is outcome})


def lines_of(cards: Iterable[BreakCard]) -> int:
    """Return how many lines break: two causes at one line are two cards; what has no place is a line by itself."""
    return len({card.place.place if card.place else number for number, card in enumerate(cards)})


def break_cards(
    recording: Recording, own: Ownership | None = None, covered: Coverage | None = None
) -> tuple[BreakCard, ...]:
    """Return every graph break, grouped by root cause and by line of the user's own code; the costliest card first.

    The cards partition the breaks: each is an event of exactly one card. `covered` is its coverage, if known.
    """
    if not recording.graph_breaks:
        return ()
    # late: most recordings have no breaks
    from compiler_lens.facts.breaks.fallout import fallout_of, regions
    from compiler_lens.facts.breaks.seen import seen_tensors

    own = own or Ownership()
    events, around, known = recording.graph_breaks, regions(recording), sources(recording)
    failed = failed_lines(recording, own)
    places = _places(events, around, failed, own)
    keys = _keys_of(events, places)
    roots = fallout_of(events, keys, around, known)
    groups = grouped(range(len(events)), lambda number: roots.get(keys[number], keys[number]))
    homes: dict[CompileId, Function] = {}
    for function in (covered or coverage(recording, own)).functions:
        homes |= dict.fromkeys(function.compile_ids, function)
    found: list[BreakCard] = []
    whole = _Whole(
        own, known, homes, recording.tried, seen_tensors(recording), failed, recording.symbols, around.frames
    )
    for key, numbers in groups.items():
        direct = [events[number] for number in numbers if keys[number] == key]
        direct = sorted(direct, key=lambda event: (_PUT_OFF in root_cause(event).context, is_raised(event)))
        place = places[next(number for number in numbers if keys[number] == key)]
        all_of_it = tuple(events[n] for n in numbers)
        found.append(_card(place, direct, all_of_it, whole))
    skips = BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST
    ordered = sorted(found, key=lambda c: (*map(c.frames_that, skips), len(c.events)), reverse=True)
    own_breaks = [
        Broken(c.place, c.gb_type, c.events, c.tried) for c in ordered if c.place and c.own and not c.disabled
    ]
    after, cards = beyond(own_breaks, homes, known), []
    for card in ordered:
        one = after.get((card.place, card.gb_type), Beyond()) if card.place else Beyond()
        is_traced = all(map(is_of_backend, card.events))  # to its end
        cards.append(replace(card, following=one.following, unseen=None if is_traced else one.unseen))
    return tuple(cards)


class _Whole(Struct, frozen=True):
    """What all cards of a recording share."""

    own: Ownership
    known: Sources
    homes: Mapping[CompileId, Function]  # the function that each compilation is of
    tried: Sequence[Tried]
    seen: SeenTensors
    failed: Mapping[CompileId, tuple[SourceLine, ...]]  # lines of graphs that their backend failed at
    symbols: Sequence[Symbol]
    frames: Mapping[CompileId, Compilation]


def _card(
    place: SourceLine | None, direct: Sequence[GraphBreak], events: tuple[GraphBreak, ...], whole: _Whole
) -> BreakCard:
    from compiler_lens.facts.breaks.fallout import is_of_comprehension
    from compiler_lens.facts.breaks.rewrites import (
        allows,
        bounds_at,
        column_of_only,
        columns_at,
        rewrite,
        shown_at,
        used_later,
        words_for,
    )

    own, known, cause = whole.own, whole.known, root_cause(direct[0])
    is_branch = cause.gb_type.startswith("Data-dependent branching")
    column = _column(direct[0], place) if place else None
    if place and column is None and (is_branch or cause.gb_type in _OF_NUMBERS):
        column = column_of_only(known, place, is_branch=is_branch)
    shown, is_later = shown_at(known, place, column) if place else None, False
    if place and shown is None and cause.gb_type in _OF_NUMBERS:
        shown, is_later = used_later(known, place), True
    traced = [event for event in direct if not is_of_backend(event)]  # a backend's stands at the end of its graph
    inside = Counter(inner for event in traced if (inner := _innermost(event)) is not None)
    owner = owner_of(direct[0].user_stack or ((place,) if place else ()), own, cause)
    at_the_place = place is not None and not inside.keys() - {place}
    is_own = place is not None and own.owns(place.file)
    mark = _mark(cause, known, own) if is_disabling(cause) else None
    if mark:
        owner = Owner(line=owner.line)
    elif owner.is_yours and place is not None and not is_own:
        owner = library("torch" if "/torch/" in slashed(place.file) else "the standard library", owner.line)
    is_of_python = is_of_comprehension(direct[0], whole.frames.get(direct[0].compile_id))
    found = None if is_of_python else remedy_for(cause, shown)
    if found and place:
        found = for_line(found, place.code, words_for(known, place, whole.seen))
        found = for_later(found, bounds_at(known, place) if is_later else None)
    is_rewritable = place is not None and is_own and (owner.is_yours or at_the_place)
    written = rewrite(cause, known, place, whole.seen) if place and is_rewritable else None
    if found and written and written.is_complete:  # beside code to write in its place
        found = replace(found, leave="")
    setting = _setting(found, cause, place.code if place else "", owner)
    own_texts = (text for file, text in known.texts.items() if own.owns(file))
    if setting and not all(allows(text, setting.name) for text in own_texts):  # it is for all of the program
        setting = None
    broken = _broken(events, whole.homes)
    return BreakCard(
        place=place,
        cause=cause,
        events=events,
        direct=len(direct),
        own=is_own,
        owner=owner,
        chain=_chain(place, direct, whole),
        inside=tuple(at for at, _ in inside.most_common() if place is None or at.place != place.place),
        frames=len({event.compile_id.of_frame for event in events}),
        parts=sum(function.parts for function in broken[BreakOutcome.SPLIT].values()),
        functions={outcome: len(functions) for outcome, functions in broken.items()},
        columns=columns_at(known, place, column, is_branch=is_branch) if place and column is not None else None,
        computed=computed_at(cause.explanation, place),
        excerpt=known.excerpt(place.file, place.line) if place else None,
        remedy=found if owner.is_yours else None,
        setting=setting,
        rewrite=written,
        tried=tuple(one for one in whole.tried if one.is_for(place, cause.gb_type)),
        mark=mark,
        taken=tuple(at for at in taken_at(cause, {e.compile_id for e in direct}, whole.symbols) if at != place),
    )


def marked_function(cause: BreakCause) -> str:
    """Return the function that is kept out of the compiler, as torch names it; empty where it names none."""
    found = _FUNCTION.search(cause.context) or _FUNCTION.search(cause.explanation)
    return found[1] if found else ""


def _mark(cause: BreakCause, known: Sources, own: Ownership) -> SourceLine | None:
    """Return the line of the user's that keeps a function out of the compiler, where one alone has its name."""
    name = marked_function(cause).rpartition("<locals>.")[2]
    found = [
        SourceLine(file, number, definition.name, code)
        for file in known.texts
        if own.owns(file)
        for definition in known.definitions(file)
        if definition.name == name or definition.name.endswith(f".{name}")
        for number in range(definition.line, definition.first)
        if "disable" in (code := known.line(file, number).strip())
    ]
    return found[0] if len(found) == 1 else None


def _chain(place: SourceLine | None, direct: Sequence[GraphBreak], whole: _Whole) -> tuple[SourceLine, ...]:
    """Return the calls that lead to a place, outermost first, without torch's own."""
    # Of a frame that is traced from outside, torch leaves out callers of the same name; frames within have them all.
    longest = max(direct, key=lambda event: len(event.user_stack))
    chain = [at for at in longest.user_stack if not is_machinery(at.file)]
    chain += whole.failed.get(longest.compile_id, ()) if is_of_backend(longest) else ()
    if place is not None and place in chain:  # the user's own calls; where the place is a library's, those as well
        chain = chain[: len(chain) - chain[::-1].index(place)]
        chain = [at for at in chain if whole.own.owns(at.file) or not whole.own.owns(place.file)]
    return tuple(chain)


def _broken(
    events: Iterable[GraphBreak], homes: Mapping[CompileId, Function]
) -> Mapping[BreakOutcome, dict[FunctionName, Function]]:
    """Return the functions that breaks ended in each way; those that run eagerly whole are not eager in part, too."""
    broken: dict[BreakOutcome, dict[FunctionName, Function]] = {outcome: {} for outcome in BreakOutcome}
    for event in events:
        if (function := homes.get(event.compile_id)) and not function.around:
            broken[_ended(function, event.outcome)][function.name] = function
    for name in broken[BreakOutcome.SKIPPED_FRAME]:
        broken[BreakOutcome.SKIPPED_REST].pop(name, None)
    return broken


def _ended(function: Function, outcome: BreakOutcome) -> BreakOutcome:
    """Return what a break did to a function, by what became of that.

    Where a frame that resumes it is skipped, only the rest runs eagerly; where nothing was before the rest, all of it.
    """
    return outcome if outcome is BreakOutcome.SPLIT else _BECAME.get(function.treatment, outcome)


def _setting(remedy: Remedy | None, cause: BreakCause, code: str, owner: Owner) -> Setting | None:
    """Return the configuration that would do for this very line; None where none does, and where none is needed."""
    setting = remedy.setting if remedy and owner.whose is not Whose.BY_DESIGN else None
    if setting is None or (setting.name.endswith("capture_scalar_outputs") and _BRANCH.match(code)):
        return None  # the number would be captured, and the branch on it break the graph instead
    if not setting.name.endswith("ignore_logging_functions"):
        return setting
    logged = _LOGGED.search(f"{cause.context}\n{code}")
    return replace(setting, value=setting.value.replace("info", logged[1])) if logged else None


# Types of break where a line takes a number from a tensor.
_OF_NUMBERS = ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "Data dependent operator")
_FUNCTION = re.compile(r"<function ([\w.<>]+) at ")
# What stands for the result of a break that Dynamo has put off to see whether anything needs it: not a cause by itself.
_PUT_OFF = "DelayGraphBreakVariable"


def _places(
    events: Sequence[GraphBreak], around: Regions, failed: Mapping[CompileId, Sequence[SourceLine]], own: Ownership
) -> list[SourceLine | None]:
    """Return where each break is; what a backend raised is where the break that comes of that is told."""
    places: list[SourceLine | None] = []
    told: dict[CompileId, SourceLine | None] = {}
    for event in events:
        stack = failed.get(event.compile_id, ()) if is_of_backend(event) else ()
        places.append(_place(event, stack or around.compiled(event), own))
        if is_of_backend(event) and not is_raised(event):
            told[event.compile_id] = places[-1]
    pairs = zip(events, places, strict=True)
    return [told.get(event.compile_id, place) if is_raised(event) else place for event, place in pairs]


def _keys_of(events: Sequence[GraphBreak], places: Sequence[SourceLine | None]) -> list[Key]:
    """Return for each break its place and type; of one that follows from another put off at its line, that one's.

    What a backend raised is of the break that comes of that.
    """
    of_backends = {e.compile_id for e in events if is_of_backend(e) and not is_raised(e)}
    types = [BACKEND if is_raised(e) and e.compile_id in of_backends else root_cause(e).gb_type for e in events]
    keys: list[Key] = [(at.place if at else None, what) for at, what in zip(places, types, strict=True)]
    put_off = [_PUT_OFF in root_cause(event).context for event in events]
    causes = {key[0]: key for key, is_put_off in zip(keys, put_off, strict=True) if not is_put_off}
    return [causes.get(key[0], key) if is_put_off else key for key, is_put_off in zip(keys, put_off, strict=True)]


def root_cause(event: GraphBreak) -> BreakCause:
    """Return what came first; a break whose words nobody could read still is a break."""
    return event.causes[0] if event.causes else BreakCause("Graph break of unknown cause")


_UNDERLINED = re.compile(r'^  File "([^"\n]+)", line (\d{1,9}), in .*\n    .*\n    ( *)[~^]+$', re.MULTILINE)


def _column(event: GraphBreak, at: SourceLine) -> int | None:
    """Return where in a line, without its indent, the expression begins that torch underlined; None if it did not.

    torch's frames have no end of the expression, so Python underlines all that follows.
    """
    found = [
        indent for file, line, indent in _UNDERLINED.findall(event.text) if (file, int(line)) == (at.file, at.line)
    ]
    return len(found[-1]) if found else None


def _innermost(event: GraphBreak) -> SourceLine | None:
    """Where torch stood when it broke, whoever wrote that line."""
    return event.user_stack[-1] if event.user_stack else event.location


def broken_at(event: GraphBreak) -> SourcePlace | None:
    """Return the place of a break: of the user's innermost line, else of where torch stood; None if not known."""
    at = innermost_own(event.user_stack) or _innermost(event)
    return at.place if at else None


def _place(event: GraphBreak, compiled: Sequence[SourceLine], own: Ownership) -> SourceLine | None:
    """The innermost own line of what was being compiled; without one, the innermost line that is not torch's."""
    if found := own.innermost(compiled):
        return found
    if event.location is not None and own.owns(event.location.file):
        return event.location
    outside = [at for at in compiled if not is_machinery(at.file)]
    return outside[-1] if outside else _innermost(event)
