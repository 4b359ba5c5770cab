"""A text that many events refer to is read once: each further reference costs the same, however long the text is.

Counted are calls of functions and the characters that regular expressions go through. Times are not.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import compiler_lens
from compiler_lens import load
from compiler_lens.decode import fold
from compiler_lens.decode.shared_text import Texts
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import read_journal
from compiler_lens.recording.model import Recording
from compiler_lens.recording.redact import redacted
from compiler_lens.render.json import view_json

DATA = Path(__file__).parent
HOPS, BROKEN = DATA / "pictures/data/hops-kernels.clens.gz", DATA / "pictures/data/broken.clens.gz"
MORE = 20_000  # characters, about
FEW, MANY = 1, 3  # references


def after(mark: str, more: str) -> Callable[[str], str]:
    """What puts more of the same after the first mark in a text."""

    def longer(text: str) -> str:
        before, found, rest = text.partition(mark)
        assert found
        return before + found + more * (MORE // len(more)) + rest

    return longer


# Where, in which events, and what makes their texts longer without making more of what is read from them.
LONGER = {
    "output code": (HOPS, "inductor_output_code", after("async_compile = AsyncCompile()\n", "# more\n")),
    "a kernel": (HOPS, "inductor_output_code", after("async_compile.cpp_pybinding(", " ")),
    "its source": (HOPS, "inductor_output_code", after('extern "C"', "\n")),
    "a graph of Dynamo": (HOPS, "dynamo_output_graph", after("):\n", "        # more\n")),
    "a lowered graph": (HOPS, "inductor_post_grad_graph", after("):\n", "        # more\n")),
    "guards": (HOPS, "dynamo_cpp_guards_str", after("\n| +- GLOBAL_STATE: ", "more and ")),
    "a break": (BROKEN, "dynamo_graph_break_reason", after("Explanation: ", "more ")),
    "its stack": (BROKEN, "dynamo_graph_break_reason", after("User code traceback:\n", "more\n")),
    "a file": (BROKEN, "lens.source", lambda text: text + "# more\n" * (MORE // 7)),
}
ACTS: dict[str, Callable[[Recording], object]] = {
    "kernels": lambda recording: view_json(recording, "kernels"),
    "line": lambda recording: view_json(recording, "line"),
    "fusion": lambda recording: view_json(recording, "fusion"),
    "redacted": redacted,
}


def journal(path: Path, of: str, references: int, longer: Callable[[str], str]) -> None:
    """Write a recording as often as there are to be references, each text of it once."""
    source, event, _ = LONGER[of]
    lines, numbers = ['{"compiler_lens":2,"pid":1}'], {}
    for number in range(references):
        for each in read_journal(source)[0]:
            text = longer(each.text) if each.name == event and each.text else each.text
            if text is not None and text not in numbers:
                numbers[text] = len(numbers) + 1
                lines.append(json.dumps({"@": numbers[text], "is": text}))
            lines.append(json.dumps(line_of(each, number, numbers.get(text))))
    path.write_text("\n".join(lines) + "\n")


def line_of(event: Event, number: int, text: int | None) -> dict[str, Any]:
    frame, *rest = event.torch_id
    run = None if event.run is None else event.run + 1000 * number
    meta = dict(event.meta)
    if event.name == "lens.source":
        meta["file"] += str(number)
    told = {"e": event.name, "at": event.at, "run": run, "n": event.attempt, "m": meta, "th": event.thread}
    torch_id = [None if frame is None else frame + 1000 * number, *rest]
    return {**told, "id": torch_id, "x": None if text is None else {"@": text}}


# -- what is counted


class Counting:
    """A regular expression that counts the characters that it is given."""

    def __init__(self, pattern: re.Pattern[Any], work: list[int]) -> None:
        self.pattern, self.work = pattern, work

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.pattern, name)
        return partial(self.count, name) if callable(found) else found

    def count(self, name: str, *given: Any, **named: Any) -> Any:
        text, between = (given[1], ()) if name == "sub" else (given[0], given[1:3])
        begin, end = (*between, *(0, len(text))[len(between) :])
        self.work[0] += len(text[begin:end])
        return getattr(self.pattern, name)(*given, **named)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """How much work something is."""
    work = [0]
    for info in pkgutil.walk_packages(compiler_lens.__path__, "compiler_lens."):
        # Breaks are told apart by the expression that matched.
        if info.name.split(".")[1] in {"decode", "facts", "recording", "views"} and "graph_breaks" not in info.name:
            module = importlib.import_module(info.name)
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    monkeypatch.setattr(module, name, Counting(value, work))

    @contextmanager
    def calls() -> Iterator[None]:
        def called(_frame: object, event: str, _argument: object) -> None:
            work[0] += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def of(act: Callable[[], object]) -> int:
        work[0] = 0
        with calls():
            act()
        return work[0]

    return of


@pytest.mark.parametrize("of", LONGER)
def test_a_further_reference_costs_the_same_however_long_the_text_is(
    of: str, counted: Callable[[Callable[[], object]], int], tmp_path: Path
) -> None:
    source, event, longer = LONGER[of]
    references = sum(each.name == event for each in read_journal(source)[0])
    further: dict[str, list[int]] = {"load": [], **{act: [] for act in ACTS}}
    for make in (str, str, longer):  # the first time, what is kept for a process is made, too
        works: dict[str, list[int]] = {act: [] for act in further}
        for number in (FEW, MANY):
            path = tmp_path / "r.clens"
            journal(path, of, number, make)
            kept: list[Recording] = []
            works["load"].append(counted(lambda path=path, kept=kept: kept.append(load(path))))
            assert not kept[0].problems
            for name, act in ACTS.items():
                works[name].append(counted(partial(act, kept[0])))
        for name, (few, many) in works.items():
            further[name].append(many - few)
    added = (MANY - FEW) * references * MORE
    assert {
        name: (long - short) / added for name, (_, short, long) in further.items() if long - short > added / 50
    } == {}


def test_what_reads_a_text_reads_it_once_also_where_it_fails() -> None:
    texts, read = Texts(), []

    def by(text: str) -> str:
        read.append(text)
        if text.startswith("no"):
            raise PayloadError(text)
        return text.upper()

    long, bad = "yes " * 100, "no " * 100
    assert texts.read(by, long) == texts.read(by, long) == long.upper()
    for _ in range(3):
        with pytest.raises(PayloadError, match="no no"):
            texts.read(by, bad)
    assert read == [long, bad]


def test_texts_of_their_own_are_not_kept() -> None:
    """A log of torch's has each text where it belongs; what was read of it would be in memory twice."""
    read: list[str] = []
    texts = Texts(are_shared=False)
    assert texts.read(read.append, "a" * 1000) is texts.read(read.append, "a" * 1000)
    assert len(read) == 2


def test_every_reader_of_texts_shares_them() -> None:
    """A reader that takes `texts` and is not among those that get them would read each text again."""
    takes = {reader for reader in fold.READERS.values() if "texts" in reader.__code__.co_varnames}  # type: ignore[attr-defined]
    assert takes == fold._OF_TEXTS
