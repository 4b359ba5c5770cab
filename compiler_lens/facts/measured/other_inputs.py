"""What a program gives for other inputs than its own, and how often each side of a branch was taken.

A trial with the program's own inputs says nothing of a branch that these do not take, nor of values that they do not
have. So calls are made once more with inputs made from them: without a change, and with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.measured.edits import Texts
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import syntax_if_known

Counted = Mapping[str, Mapping[int, tuple[int, int]]]  # of a file's lines: how often, with own inputs and with others


NOISE = 10.0  # times the rounding of another run: it is as large only by chance
# Values of a call, in the order in which they are compared: what it returns, what it changes in place, gradients, what
# objects hold after it, and how far random generators have come.
KINDS = ("result", "argument", "gradient", "object", "generator")


class Inputs(Enum):
    """How inputs are made of a call's own."""

    NEGATED = "negated"
    ZEROS = "zeros"
    ONES = "ones"
    LARGE = "1,000 times as large"
    NAN = "a nan among them"
    FLAG = "another bool"  # the tensors are the call's own
    NUMBER = "another number"
    HALF = "float16"
    DOUBLE = "float64"
    ONE_ROW = "one row"
    STRIDED = "other strides"
    GRADIENTS = "needing gradients"

    @property
    def is_alike(self) -> bool:
        """Whether these are inputs of the same dtypes and sizes, which the program may well get."""
        tensors = {Inputs.NEGATED, Inputs.ZEROS, Inputs.ONES, Inputs.LARGE, Inputs.NAN}
        return self in tensors or not self.has_other_tensors

    @property
    def has_other_tensors(self) -> bool:
        """Whether the tensors are others: all of them, and nothing else is."""
        return self not in {Inputs.FLAG, Inputs.NUMBER}


class Way(Struct, frozen=True):
    """One way to make inputs of a call's own."""

    inputs: Inputs
    argument: str = ""  # which bool or number is another, and which: `verbose=True`

    @property
    def text(self) -> str:
        """What `of` makes the same of."""
        return f"{self.inputs.value}{_BEFORE_ARGUMENT}{self.argument}" if self.argument else self.inputs.value

    @classmethod
    def of(cls, text: str) -> Way:
        """Return the way of a text."""
        inputs, _, argument = text.partition(_BEFORE_ARGUMENT)
        return cls(Inputs(inputs), argument)


_BEFORE_ARGUMENT = ": "


class Gave(Enum):
    """What a call with other inputs gave, beside what it gave without the change."""

    SAME = "same"
    ERROR_IN_BOTH = "error_in_both"
    ERROR = "error"  # with the change alone
    NO_ERROR = "no_error"  # where without the change it was one
    OTHER = "other"  # another value
    NAN = "nan"  # a result that is nan in both, and gradients of it that are nan where they were numbers


class OtherCall(Struct, frozen=True):
    """One call with other inputs, compared."""

    call: int  # outermost calls of the program itself before it
    inputs: Inputs
    gave: Gave
    kind: str = ""  # of the first value that differs, see `KINDS`
    index: int = 0  # among those of its kind
    largest: float | None = None  # the largest difference of two elements
    error: str = ""  # what it raised with the change, in one line
    name: str = ""  # of what an object holds, or whose generator it is
    argument: str = ""  # as in `Way`

    @property
    def made_by(self) -> Way:
        """How the inputs were made."""
        return Way(self.inputs, self.argument)

    @property
    def place(self) -> int:
        """How much was compared, and the same, before it differs."""
        return KINDS.index(self.kind) if self.kind in KINDS else -1


class CountedCall(Struct, frozen=True):
    """How often lines ran in one call with other inputs, without a change."""

    call: int  # outermost calls of the program itself before it
    made_by: Way
    lines: Mapping[str, Mapping[int, int]]  # by file and number


class Untried(Enum):
    """Why there are no calls with other inputs."""

    ACCELERATOR = "accelerator"  # they are made in a forked process, which has none
    MEMORY = "memory"  # what it shares with other processes and with files cannot be found on this system
    OWN_INPUTS = "own_inputs"  # nobody asked for them
    ENDED = "ended"  # the run in which they were to be made did not come to its end


class Unmade(Struct, frozen=True):
    """A call of the program for which no other tensors could be made."""

    call: int  # outermost calls of the program itself before it
    given: str = ""  # what is among its arguments, and no other can be made of; empty: no tensor is


class OtherInputs(Struct, frozen=True):
    """All calls with other inputs of a trial, but those that are not the same twice without any change."""

    calls: tuple[OtherCall, ...] = ()
    lost: int = 0  # calls that did not come to their end: they tell nothing
    untried: Untried | None = None
    unmade: tuple[Unmade, ...] = ()

    @property
    def same(self) -> int:
        """How many gave the same: an error in both is no evidence."""
        return sum(one.gave is Gave.SAME for one in self.calls)

    @property
    def raising(self) -> int:
        """How many raised, with the change and without it."""
        return len(self.raising_in_both)

    @property
    def raising_in_both(self) -> tuple[OtherCall, ...]:
        """The calls that did."""
        return tuple(one for one in self.calls if one.gave is Gave.ERROR_IN_BOTH)

    @property
    def differing(self) -> tuple[OtherCall, ...]:
        """The calls that did not."""
        return tuple(one for one in self.calls if one.gave not in {Gave.SAME, Gave.ERROR_IN_BOTH})

    def against(self, *, may_raise: bool, raises_less: bool = False) -> OtherCall | None:
        """Return the first call that speaks against a change: inputs like the program's own give something else.

        What differs for other dtypes, sizes or strides is only to be told: the program may never have them.

        Args:
            may_raise: the change says of itself that it raises where the program would not.
            raises_less: it says that it does not where the program does.
        """
        may_be = {Gave.ERROR} if may_raise else set[Gave]()
        may_be |= {Gave.NO_ERROR} if raises_less else set()
        return self._first({Gave.OTHER, Gave.NO_ERROR, Gave.ERROR} - may_be)

    @property
    def otherwise(self) -> OtherCall | None:
        """The first call with inputs like the program's own that gives another value, or raises.

        Where without the change it raises, the program cannot have had such inputs, and that is only to be told.
        """
        return self._first({Gave.OTHER, Gave.ERROR})

    def _first(self, bad: AbstractSet[Gave]) -> OtherCall | None:
        """The first call with inputs like the program's own that gave one of these."""
        return next((one for one in self.differing if one.inputs.is_alike and one.gave in bad), None)

    def but(self, unsure: Iterable[OtherCall]) -> OtherInputs:
        """Return the same without calls that differ without any change as well, as early or earlier."""
        known = {(one.call, one.made_by): one.place for one in unsure}
        worth = tuple(one for one in self.calls if not _is_known(one, known.get((one.call, one.made_by))))
        return replace(self, calls=worth)

    def but_rounded(self, moved: Iterable[OtherCall]) -> OtherInputs:
        """Return the same without calls in which values differ no more than by what rounding alone moves them.

        Args:
            moved: calls of the program as it is, with parameters that are rounded otherwise.
        """
        known = {(one.call, one.made_by, one.kind): one.largest or 0.0 for one in moved if one.gave is Gave.OTHER}
        return replace(self, calls=tuple(one for one in self.calls if not _is_rounding(one, known)))


def _is_rounding(one: OtherCall, known: Mapping[tuple[int, Way, str], float]) -> bool:
    moved = known.get((one.call, one.made_by, one.kind), 0.0)
    return one.gave is Gave.OTHER and one.largest is not None and one.largest <= NOISE * moved


def _is_known(one: OtherCall, place: int | None) -> bool:
    """Whether nothing is known of a call past what differs at a place."""
    return place is not None and (one.gave in {Gave.SAME, Gave.ERROR_IN_BOTH} or one.place >= place)


class Sides(Struct, frozen=True):
    """How often the test of a branch was true and false: with the program's own inputs, and with others."""

    at: SourceLine
    true: int
    false: int
    other_true: int = 0
    other_false: int = 0

    @property
    def is_one_sided(self) -> bool:
        """Whether one side was never taken."""
        return not (self.true + self.other_true and self.false + self.other_false)


class Taken(Struct, frozen=True):
    """Which sides of branches the program took without any change."""

    sides: tuple[Sides, ...] = ()
    calls: int = 0  # outermost calls of the program's own that were looked at


def sides(places: Iterable[SourceLine], texts: Texts, counted: Counted) -> tuple[Sides, ...]:
    """Return how often each `if` at some lines was true and false; of those that were come to.

    Args:
        places: lines of the files.
        texts: the files.
        counted: how often each line ran.
    """
    found = (_sides(place, texts.get(place.file, ""), counted.get(place.file, {})) for place in dict.fromkeys(places))
    return tuple(one for one in found if one is not None)


def compared(counted: Counted, calls: Iterable[CountedCall], others: OtherInputs) -> Counted:
    """Return how often lines ran in calls that say something of a change: the program's own, and others that are equal.

    Not where both raised, or something else was computed. With a nan both sides of a branch may give nothing but that.
    """
    equal = {(one.call, one.made_by) for one in others.calls if one.gave is Gave.SAME and one.inputs is not Inputs.NAN}
    found = {file: {line: (own, 0) for line, (own, _) in lines.items()} for file, lines in counted.items()}
    for one in calls:
        for file, lines in one.lines.items() if (one.call, one.made_by) in equal else ():
            known = found.setdefault(file, {})
            for line, times in lines.items():
                own, other = known.get(line, (0, 0))
                known[line] = own, other + times
    return found


def _sides(place: SourceLine, text: str, counted: Mapping[int, tuple[int, int]]) -> Sides | None:
    tree = syntax_if_known(text)
    branch = (
        next((n for n in ast.walk(tree) if isinstance(n, ast.If) and n.lineno == place.line), None) if tree else None
    )
    if branch is None or branch.body[0].lineno == branch.lineno:  # on one line they cannot be told apart
        return None
    asked, entered = counted.get(branch.lineno, (0, 0)), _entered(branch.body, counted)
    if not any(asked):
        return None
    false = [max(all_of - true, 0) for all_of, true in zip(asked, entered, strict=True)]
    return Sides(place, entered[0], false[0], entered[1], false[1])


def _entered(body: Sequence[ast.stmt], counted: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """How often a body was entered: its first statement that Python has a line for, as no text alone has one."""
    lines = (counted[one.lineno] for one in body if one.lineno in counted)
    return next(lines, (0, 0))
