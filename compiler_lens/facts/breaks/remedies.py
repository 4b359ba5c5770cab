"""What to change about a graph break: our own advice, for readers who know PyTorch and nothing of the compiler."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.data_file import read_data
from compiler_lens.recording.model import BreakCause

_LONGEST = 10_000  # characters of a cause that are looked at
# Types that are the text of an error, as far as it is the same for all symbols.
_ERRORS = (
    "UserError: Could not guard on data-dependent expression",
    "UserError: Could not extract specialized integer from data-dependent expression",
)
_BEFORE = "Consider annotating your code using torch._check*(). "  # what torch may begin them with
_FILE = Path(__file__).with_name("remedies.toml")


class Shown(Enum):
    """What the line that broke shows by its own syntax."""

    RAISES = "raises"  # an `if`: an error, and nothing else
    LEAVES = "leaves"  # an `if`: out of the function, or on to the next round, where something is nan or infinite
    TELLS = "tells"  # an `if` that computes nothing: it says something, or leaves with nothing
    COUNTS = "counts"  # an `if`: a count, and nothing else
    SKIPS_COUNTED = "skips, and counts"  # an `if`: out of a round of a loop, or of the loop, and a count of these
    SKIPS_TOLD = "skips, and says so"  # the same with a message, or a flag
    STOPS = "stops"  # an `if`: a `break`
    LEAVES_OUT = "leaves out"  # an `if`: a layer, by one of torch's random numbers
    SAVES_WORK = "saves work"  # an `if`: on to the next round of a loop, since there is nothing to compute with
    INITIALISES = "initialises"  # an `if`: state of an object, once, and the flag that says so
    CHANGES = "changes"  # an `if`: what an object keeps
    BRANCH = "branch"  # any other `if`
    WHILE = "while"
    MESSAGE = "message"  # an `assert` whose message is put together
    IN = "in"
    LOGICAL = "logical"  # `and`, `or`, outside of a test
    NOT = "not"
    LOOP = "loop"  # how often one runs
    KEY = "key"  # what chooses from a list or dict
    SLICE = "slice"  # the bounds of a slice
    SIZES = "sizes"  # `.tolist()` where sizes are wanted
    TEXT = "text"  # an f-string
    LOOP_OVER = "loop over"  # numbers of a `.tolist()`, in a `for`
    LOOKED_UP = "looked up"  # each number of a `.tolist()`, in a list or dict
    DRAWN = "drawn"  # one of NumPy's random numbers, in a test


class Setting(Struct, frozen=True):
    """A configuration under which the same code does not break."""

    name: str  # "torch._dynamo.config.capture_scalar_outputs"
    value: str  # "True"
    price: str  # what it costs, one sentence

    @property
    def code(self) -> str:
        """The line to write."""
        return f"{self.name} = {self.value}"


class Remedy(Struct, frozen=True, kw_only=True):
    """One kind of break, why the compiler cannot go on there, and how the code looks without it."""

    name: str  # ours, stable: "branch_on_tensor"
    gb_types: tuple[str, ...]  # as the registry of any supported torch has them
    about: str = ""  # a regular expression that the cause's type, operator, context or explanation holds; empty: any
    shown: Shown | None = None  # only where the line shows this
    why: str
    change: str
    before: str
    after: str
    setting: Setting | None = None
    hinted: str = ""  # what comes of a setting that torch names and that is not offered, one sentence
    leave: str = ""  # when not to touch it
    leave_at: str = ""  # a regular expression that is found in a line of which that is to be said; empty: any


class Rewrite(Struct, frozen=True):
    """A suggestion for lines of the user's own."""

    before: tuple[str, ...]  # the user's lines, dedented
    after: tuple[str, ...]  # what to write instead, with their own names
    is_complete: bool  # False: a sketch; its `...`, or what `needs` says, is left to the user
    needs: str = ""  # what the rewrite assumes


class OfBothSides(Rewrite, frozen=True):
    """One to be tried, and believed only where both sides of the branch were taken."""


class RemedyTable(Struct, frozen=True):
    """What remedies.toml says."""

    remedies: Mapping[str, Remedy]  # by name, in the file's order
    by_type: Mapping[str, tuple[Remedy, ...]]  # by registry type: those that ask for most first
    named: Mapping[str, str]  # by name: the change with what the user calls it, {asked}, {does} and {count} of a branch
    later: Mapping[str, str]  # by name: why, of a number that line {line} uses


@functools.cache
def remedy_table() -> RemedyTable:
    """Return the remedies of the package. Raise KeyError or TypeError for a name or a field that the file has wrong."""
    data = read_data(_FILE)
    settings = {name: Setting(**entry) for name, entry in data["settings"].items()}
    remedies, named, later = {}, {}, {}
    for name, entry in data["remedies"].items():
        gb_types: list[str] = []
        for gb_type in entry.pop("gb_types"):
            gb_types += data["groups"][gb_type[1:]] if gb_type.startswith("@") else [gb_type]
        setting = settings[entry.pop("setting")] if "setting" in entry else None
        named[name], later[name] = entry.pop("named", ""), entry.pop("later", "")
        shown = Shown(entry.pop("shown")) if "shown" in entry else None
        remedies[name] = Remedy(name=name, gb_types=tuple(gb_types), setting=setting, shown=shown, **entry)
    by_type: dict[str, tuple[Remedy, ...]] = {}
    for remedy in sorted(remedies.values(), key=lambda remedy: (not remedy.shown, not remedy.about)):
        for gb_type in remedy.gb_types:
            by_type[gb_type] = (*by_type.get(gb_type, ()), remedy)
    return RemedyTable(remedies, by_type, named, later)


def remedy_for(cause: BreakCause, shown: Shown | None = None) -> Remedy | None:
    """Return the most specific advice on a cause; None where we have none.

    Args:
        cause: what torch says about the break.
        shown: what the expression that broke shows.

    """
    # Not more than torch ever says: some patterns look at each beginning for all that follows.
    said = f"{cause.gb_type}\n{cause.higher_order_op}\n{cause.context}\n{cause.explanation}"[:_LONGEST]
    plain = cause.gb_type.replace(_BEFORE, "", 1)
    gb_type = next((error for error in _ERRORS if plain.startswith(error)), cause.gb_type)
    fit = (r for r in remedy_table().by_type.get(gb_type, ()) if r.shown in {None, shown})
    return next((remedy for remedy in fit if re.search(remedy.about, said)), None)


def for_later(remedy: Remedy, line: int | None) -> Remedy:
    """Return a remedy as it is to be said of a number that another line uses; None: that is this line, or not known."""
    later = remedy_table().later[remedy.name]
    return replace(remedy, why=later.format(line=line)) if later and line is not None else remedy


def for_line(remedy: Remedy, code: str, words: Mapping[str, str]) -> Remedy:
    """Return a remedy as it is to be said of a line.

    Args:
        remedy: what is said of all lines of its kind.
        code: the line; what is only true of others is left out.
        words: what the user calls what the advice is about, where that is known.

    """
    is_said = not remedy.leave_at or re.search(remedy.leave_at, code[:_LONGEST])
    with suppress(KeyError):  # not all of it is known
        remedy = replace(remedy, change=remedy_table().named[remedy.name].format_map(words) or remedy.change)
    return remedy if is_said else replace(remedy, leave="")
