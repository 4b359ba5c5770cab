"""Finding what a user names: a compilation, a stage, a kernel. A `UsageError` says what there is instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from compiler_lens.facts.program.ownership import UserPaths
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import CompileId, GraphStage, Kernel, Recording

_WORDS = 3  # of a kernel's short name
_ROOM = 60  # characters for the names that a message lists
_COMPILE_ID = re.compile(r"\[?!?[\d/@-]+\]?")

Found = TypeVar("Found")


class Owned(Protocol):
    """A fact of one compilation."""

    @property
    def compile_id(self) -> CompileId | None: ...


class Selection(Struct, frozen=True):
    """The part of a recording that a user asked to see."""

    ids: frozenset[CompileId] | None = None  # None: every compilation
    stage: GraphStage | None = None
    kernel: str = ""
    file: str = ""  # for the source view
    place: str = ""  # a line, `model.py:41`, a module, `layers.3.attn`, or of launches a kernel: what became of it
    user_paths: UserPaths = ()  # what counts as the user's own besides what is not installed
    for_page: bool = False  # which has room for every row, also where a terminal gets a summary
    kept: dict[str, Any] | None = None  # what views of one recording share

    def has(self, fact: Owned) -> bool:
        """Return whether a fact belongs to what was asked for."""
        return self.ids is None or fact.compile_id in self.ids

    def once(self, name: str, find: Callable[[], Found]) -> Found:
        """Return what `find` finds; the second time what was found before, where that is kept."""
        if self.kept is None:
            return find()
        if name not in self.kept:
            self.kept[name] = find()
        found: Found = self.kept[name]
        return found


EVERYTHING = Selection()


def compile_ids(recording: Recording) -> tuple[CompileId, ...]:
    """Return every compile id, in order of appearance; a break or a graph may have one that no compilation has."""
    groups = (recording.compilations, recording.graph_breaks, recording.graphs, recording.kernels)
    return tuple(dict.fromkeys(item.compile_id for group in groups for item in group))


def select_ids(recording: Recording, text: str) -> frozenset[CompileId]:
    """Return the compilations meant by `0/1` or `[0/1]`, or by `0`: all of that frame."""
    wanted = text.strip().strip("[]")
    known = compile_ids(recording)
    exact = frozenset(i for i in known if str(i) == wanted)
    found = exact or frozenset(i for i in known if str(i).rpartition("/")[0] == wanted)
    if found:
        return found
    numbers = {i: (i.autograd, i.frame, i.recompile) for i in known if str(i) != "-"}
    ranked = sorted(numbers, key=lambda i: (i.epoch, *(-1 if number is None else number for number in numbers[i])))
    raise UsageError(f"no compilation {text!r} in this recording{instead(wanted, map(str, ranked))}")


def select_launches(recording: Recording, text: str, user_paths: UserPaths = ()) -> Selection:
    """Return which launches are meant: those of compilations, by id, or of a line, a module or a kernel, by name."""
    if _COMPILE_ID.fullmatch(text):
        return Selection(ids=select_ids(recording, text), user_paths=user_paths)
    return Selection(place=text, user_paths=user_paths)


def select_stage(recording: Recording, ids: frozenset[CompileId], text: str) -> GraphStage:
    """Return the stage of a graph that a user names; among the stages that these compilations have."""
    present = {g.stage: None for g in recording.graphs if g.compile_id in ids}
    names = {stage.value: stage for stage in present}
    wanted = text.strip().lower().replace("-", "_")
    if wanted in names:
        return names[wanted]
    raise UsageError(f"no {text!r} graph here{instead(wanted, names)}")


def select_kernels(recording: Recording, name: str, ids: frozenset[CompileId] | None) -> tuple[Kernel, ...]:
    """Return all kernels of one name: in one compilation there is one, but each counts its names from zero."""
    kernels = [k for k in recording.kernels if ids is None or k.compile_id in ids]
    meant = kernel_name(name, dict.fromkeys(k.name for k in kernels), "in this recording")
    return tuple(k for k in kernels if k.name == meant)


def kernel_name(name: str, names: Collection[str], where: str) -> str:
    """Return the kernel's name that a user means.

    What stands after the last dot will do, `mm` for `extern_kernels.mm`, and the beginning, the end or any part of a
    name, if only one name has it.
    """
    meant = _meant(name, names)
    if len(meant) > 1:
        raise UsageError(f"{name!r} is part of several names{instead(name, meant)}")
    if not meant:
        raise UsageError(f"no kernel {name!r} {where}{instead(name, names)}")
    return meant[0]


def _meant(wanted: str, names: Collection[str]) -> list[str]:
    if wanted in names:
        return [wanted]
    ways: tuple[Callable[[str, str], bool], ...] = (str.startswith, str.endswith, str.__contains__)
    several: list[str] = []
    for fits in (lambda name, end: name.rpartition(".")[2] == end, *ways) if wanted else ():
        found = [name for name in names if fits(name, wanted)]
        if len(found) == 1:
            return found
        several = several or found
    return several


def short_name(name: str, names: Collection[str]) -> str:
    """Return the end of a kernel's name, three words or as many as it takes, by which `kernel_name` finds it."""
    words = name.split("_")
    ends = ("_".join(words[start:]) for start in range(len(words) - _WORDS, 0, -1))
    return next((end for end in ends if end and _meant(end, names) == [name]), name)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that somebody who wrote `word` most likely meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.5)), None)


def instead(wanted: str, known: Iterable[str]) -> str:
    """Return what there is, as much of it as a line holds, and what was meant most likely."""
    names = list(dict.fromkeys(known))
    if not names:
        return ": it has none"
    shown = max(sum(end <= _ROOM for end in accumulate(len(name) + 2 for name in names)), 1)
    shown += len(names) == shown + 1  # "and 1 more" is no shorter than most names
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    meant = nearest(wanted, names)
    return f": it has {', '.join(names[:shown])}{more}" + (f". Did you mean {meant}?" if meant else "")
