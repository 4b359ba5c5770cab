"""Small programs that break graphs, each in one way. The line that a user would change ends in `# breaks here`."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

LOGGER = logging.getLogger("explain.toys")
LINEAR = nn.Linear(4, 4)
NEW = torch.__version__ > "2.12"  # 2.11 tells nothing of the generators that it refuses
MARK = "# breaks here"
SPLIT, WHOLE, EAGER, PARTLY = "split", "whole", "eager", "partly_eager"
# Python 3.12 runs a list comprehension in its function's own frame, as a loop: behind a break in one nothing is compiled.
_IN_COMPREHENSION = PARTLY if sys.version_info >= (3, 12) else SPLIT


@dataclass(frozen=True)
class Toy:
    """A program, and what is to be said about it."""

    function: Callable[..., Any]
    treatments: Mapping[str, str]  # by the function's own name, of all that were compiled
    parts: tuple[Any, ...] = ()  # other functions and classes that it consists of
    follow: int = 0  # events that are only the fall-out of others
    flags: tuple[tuple[bool, ...], ...] = ((), ())  # of each call, what it passes after the tensor
    torches: tuple[str, str] = ("2.11", "3")  # from which torch on, and until which, it breaks there
    on_purpose: bool = False  # nothing to fix

    @property
    def name(self) -> str:
        """What the tests call it."""
        return self.function.__name__

    @property
    def marks(self) -> frozenset[tuple[str, int]]:
        """The lines where it breaks: file and line."""
        return frozenset(mark for part in (self.function, *self.parts) for mark in marks(part))


def marks(part: Any) -> Iterator[tuple[str, int]]:
    """The marked lines of a function or class."""
    lines, first = inspect.getsourcelines(part)
    for number, line in enumerate(lines, max(first, 1)):
        if line.rstrip().endswith(MARK):
            yield inspect.getsourcefile(part) or "", number


# -- one break, and torch goes on behind it


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print("half way")  # breaks here
    return y.cos()


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    if y.sum() > 0:  # breaks here
        return y.cos()
    return y - 1


def item(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    largest = y.max().item()  # breaks here
    return y / largest


def to_list(x: torch.Tensor) -> torch.Tensor:
    sizes = x.sum(0).long().tolist()  # breaks here
    return x * sizes[0]


def deep_copy(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    layer = copy.deepcopy(LINEAR)  # breaks here
    return layer(y)


def logging_a_warning(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    LOGGER.warning("half way")  # breaks here
    return y.cos()


def warning(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    warnings.warn("half way", stacklevel=1)  # breaks here
    return y.cos()


def nonzero(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    rows = y.nonzero()  # breaks here
    return y[rows[:, 0]].cos()


def mask_index(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    kept = y[y > 0]  # breaks here
    return kept.cos()


def clock(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    time.time()  # breaks here
    return y.cos()


def chance(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    random.seed(3)  # breaks here
    return y.cos()


def seeding(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch.manual_seed(3)  # breaks here
    return y + torch.rand(4)


def backward_inside(x: torch.Tensor) -> torch.Tensor:
    loss = LINEAR(x).sum()
    loss.backward()  # breaks here
    return loss.detach() * 2


@torch.compiler.disable
def kept_out(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def disabled(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    y = kept_out(y)  # breaks here
    return y.cos()


def saving(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    array = y.numpy().tobytes()  # breaks here
    return y.cos() + len(array)


def over_lines(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print(  # breaks here
        "half way",
        y.shape,
    )
    return y.cos()


# -- torch gives up on the whole function, or on its rest


def loop_with_branch(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        x = x + i
        if x.sum() > 0:  # breaks here
            x = x * 2
    return x


def item_in_try(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    try:
        largest = y.max().item()  # breaks here
        y = y / largest
    except ValueError:
        y = y + 1
    return y


@contextlib.contextmanager
def labelled() -> Iterator[None]:
    yield


class Region:
    """A context manager of the user's own."""

    def __enter__(self) -> None:
        self.open = True

    def __exit__(self, *_: object) -> None:
        self.open = False


def context_manager(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    with Region():
        y = y.cos()
        print("inside")  # breaks here
        y += 1
    return y


def generator_context(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    with labelled():
        y = y.cos()
        print("inside")  # breaks here
        y += 1
    return y


def data_pointer(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    if y.data_ptr() == 0:  # breaks here
        return y.cos()
    return y - 1


# -- calls


def innermost(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    print("deep")  # breaks here
    return x.cos()


def middle(x: torch.Tensor) -> torch.Tensor:
    return innermost(x + 1) * 2


def nested(x: torch.Tensor) -> torch.Tensor:
    return middle(x * 2) + 1


def helper_branch(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # breaks here
        return x * 2
    return x


def caller_of_two(x: torch.Tensor) -> torch.Tensor:
    x = helper_branch(x.sin())
    x = helper_branch(x.cos())
    return x + 1


def two_breaks(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print("one")  # breaks here
    y = y.cos()
    if y.sum() > 0:  # breaks here
        y = y * 2
    return y.exp()


def loud(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    print("loud")  # breaks here
    return x.cos()


def before_and_after(x: torch.Tensor) -> torch.Tensor:
    x = loud(x)
    time.time()  # breaks here
    return loud(x * 3)


def caller_breaks_first(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    time.time()  # breaks here
    x = x.cos()
    return loud(x)


def two_helpers(x: torch.Tensor) -> torch.Tensor:
    x = loud(x)
    x = innermost(x)
    return x * 2


def countdown(x: torch.Tensor, n: int) -> torch.Tensor:
    x = x.sin()
    if n:
        return countdown(x, n - 1) + 1
    print("at the bottom")  # breaks here
    return x.cos()


def recursion(x: torch.Tensor) -> torch.Tensor:
    return countdown(x, 3) * 2


def prints_in_loop(x: torch.Tensor) -> torch.Tensor:
    for i in range(3):
        x = x.sin()
        print(i)  # breaks here
    return x


def helper_in_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = loud(x)
    return x * 2


def in_comprehension(x: torch.Tensor) -> torch.Tensor:
    parts = [loud(row) for row in x.sin()]
    return torch.stack(parts).cos()


def in_lambda(x: torch.Tensor) -> torch.Tensor:
    report = lambda y: print("half way", y.shape)  # noqa: E731  # breaks here
    x = x.sin()
    report(x)
    return x.cos()


def sum_of(row: torch.Tensor) -> float:
    return row.sum().item()  # breaks here


def through_sorted(x: torch.Tensor) -> torch.Tensor:
    rows = sorted(x.sin(), key=sum_of)  # breaks here
    return torch.stack(rows).cos()


class Parent:
    """What `Child` calls up to."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Child(Parent):
    """Keeps a `super()` across a break, which torch cannot rebuild behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parent = super()
        print("half way")  # breaks here
        return parent.forward(x)


def unrebuilt(x: torch.Tensor) -> torch.Tensor:
    return Child().forward(x.sin())


def take(values: Iterator[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return next(values) + x


def skipped_around_take(x: torch.Tensor) -> torch.Tensor:
    values = map(torch.sin, [x, x])
    x = take(values, x)  # by itself it breaks: torch cannot step an iterator that comes from outside
    for _ in range(2):
        if x.sum() > 0:  # breaks here
            x = x * 2
    return x


def prints_if(x: torch.Tensor, flag: bool) -> torch.Tensor:
    if flag:
        print("flagged")  # breaks here
    return x + 1


def flag_below(x: torch.Tensor, flag: bool) -> torch.Tensor:
    x = prints_if(x, flag)
    for _ in range(2):
        if x.sum() > 0:  # breaks here
            x = x * 2
    return x


def flag_above(x: torch.Tensor, flag: bool) -> torch.Tensor:
    if flag:
        x = loud(x)
    for _ in range(2):
        if x.sum() > 0:  # breaks here
            x = x * 2
    return x


def rows_in_loop(x: torch.Tensor) -> torch.Tensor:
    rows = x.sum(1).nonzero()  # breaks here
    for row in rows:
        number = row[0]
        if number == 2:
            continue
        x = x * 2
    return x


def prints_rows(x: torch.Tensor) -> torch.Tensor:
    rows = x.sum(1).nonzero()  # breaks here
    for row in rows:
        print(row)  # breaks here
        x = x + row
    return x


def branches_at_rows(x: torch.Tensor) -> torch.Tensor:
    rows = x.sum(1).nonzero()  # breaks here
    for row in rows:
        if x[row].sum() > 0:  # breaks here
            x = x * 2
    return x


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@decorate
def decorated(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    print("half way")  # breaks here
    return x.cos()


_ALL = (
    # one break, and torch goes on behind it
    Toy(printing, {"printing": SPLIT}),
    Toy(branching, {"branching": SPLIT}),
    Toy(item, {"item": SPLIT}),
    Toy(to_list, {"to_list": SPLIT}),
    Toy(deep_copy, {"deep_copy": SPLIT}),
    Toy(logging_a_warning, {"logging_a_warning": SPLIT}),
    Toy(warning, {"warning": SPLIT}),
    Toy(nonzero, {"nonzero": SPLIT}),
    Toy(mask_index, {"mask_index": SPLIT}),
    Toy(clock, {"clock": SPLIT}),
    Toy(chance, {"chance": SPLIT}, torches=("2.11", "2.14")),
    Toy(seeding, {"seeding": SPLIT}),
    Toy(backward_inside, {"backward_inside": SPLIT}),
    Toy(disabled, {"disabled": SPLIT}, on_purpose=True),
    Toy(saving, {"saving": SPLIT}),
    Toy(over_lines, {"over_lines": SPLIT}),
    Toy(data_pointer, {"data_pointer": SPLIT}, torches=("2.12", "3")),
    # torch gives up on the whole function
    Toy(loop_with_branch, {"loop_with_branch": EAGER}),
    Toy(item_in_try, {"item_in_try": EAGER}),
    Toy(context_manager, {"context_manager": EAGER}),
    Toy(generator_context, {"generator_context": EAGER} | ({"labelled": EAGER} if NEW else {})),
    Toy(prints_in_loop, {"prints_in_loop": EAGER}),
    # one break, seen from each function around it
    Toy(nested, {"nested": SPLIT, "middle": SPLIT, "innermost": SPLIT}, (innermost,)),
    Toy(caller_of_two, {"caller_of_two": SPLIT, "helper_branch": SPLIT}, (helper_branch,)),
    Toy(recursion, {"recursion": SPLIT, "countdown": SPLIT}, (countdown,)),
    Toy(helper_in_loop, {"helper_in_loop": EAGER, "loud": SPLIT}, (loud,)),
    Toy(in_comprehension, {"in_comprehension": _IN_COMPREHENSION, "loud": SPLIT}, (loud,)),
    Toy(in_lambda, {"in_lambda": SPLIT}),
    Toy(decorated, {"decorated": SPLIT}),
    # several breaks, each to be fixed by itself
    Toy(two_breaks, {"two_breaks": SPLIT}),
    Toy(two_helpers, {"two_helpers": SPLIT, "loud": SPLIT, "innermost": SPLIT}, (loud, innermost)),
    Toy(before_and_after, {"before_and_after": SPLIT, "loud": SPLIT}, (loud,)),
    Toy(caller_breaks_first, {"caller_breaks_first": SPLIT, "loud": SPLIT}, (loud,)),
    Toy(through_sorted, {"through_sorted": SPLIT, "sum_of": SPLIT}, (sum_of,)),
    Toy(flag_below, {"flag_below": EAGER, "prints_if": SPLIT}, (prints_if,), flags=((False,), (True,))),
    Toy(flag_above, {"flag_above": EAGER, "loud": SPLIT}, (loud,), flags=((False,), (True,))),
    Toy(prints_rows, {"prints_rows": PARTLY}),
    Toy(branches_at_rows, {"branches_at_rows": PARTLY}),
    # breaks that only follow from others
    Toy(unrebuilt, {"unrebuilt": EAGER, "Child.forward": SPLIT}, (Child,), follow=1),
    Toy(skipped_around_take, {"skipped_around_take": EAGER, "take": SPLIT}, follow=1),
    Toy(rows_in_loop, {"rows_in_loop": PARTLY}, follow=1),
)

# On Python 3.12 torch does not know a `super()` without arguments: there it breaks one line earlier.
_ELSEWHERE = ("unrebuilt",) if sys.version_info >= (3, 12) else ()
TOYS = tuple(t for t in _ALL if t.torches[0] <= torch.__version__ < t.torches[1] and t.name not in _ELSEWHERE)
