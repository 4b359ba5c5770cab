"""A program's offers, tried: the program as it is, twice; then each change in a process of its own."""

from __future__ import annotations

import os
import tempfile
import tokenize
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.measured.edits import Texts
from compiler_lens.facts.measured.fix import Fix, Observed, Offer
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.fix.plan import RESULTS, Plan, Program
from compiler_lens.measure.fix.process import Ended, Processes
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Results

_SHOWN = 3  # lines of what a program printed last


class Asked(Struct, frozen=True):
    """What to try, and how."""

    program: Program
    own: Ownership = Ownership()
    steps: int = 0  # end each run after so many outermost calls of compiled functions; 0: run to the end


def tried(asked: Asked, processes: Processes, tell: Callable[[str], object]) -> Fix:
    """Try the offers of a program. `tell` hears of each run before it begins.

    Raises `UsageError` where the program as it is does not come to its end, or fails without torch.compile, too.
    """
    with tempfile.TemporaryDirectory(prefix="compiler_lens-") as folder:
        return _Runs(asked, processes, Path(folder), tell).result()


class _Runs:
    def __init__(self, asked: Asked, processes: Processes, folder: Path, tell: Callable[[str], object]) -> None:
        self._asked, self._processes, self._folder, self._tell = asked, processes, folder, tell
        self._number = 0
        self._reference = ""

    def result(self) -> Fix:
        self._tell("the program as it is")
        ended = self._run()
        if ended.is_late:
            raise UsageError(
                f"the program as it is was {ended.outcome.error}: give it longer with --timeout SECONDS, or end it"
                " after N calls of what torch.compile made with --steps N"
            )
        is_eager = bool(ended.outcome.error)
        if is_eager:
            self._reference_without_compile(ended)
        else:
            self._reference = self._results()
        first = self._seen(ended)
        if not first.offers:
            return Fix(first, not_tried=first.not_tried, reference_is_eager=is_eager)
        self._tell("the program as it is, once more")
        again = self._run(is_eager=is_eager)
        first = replace(first, calls=again.outcome.calls)
        is_deterministic = again.outcome.results is Results.EQUAL
        if not is_deterministic:
            self._reference = ""
        texts = _texts(ended.outcome.script, ended, self._asked.own)
        found = Search(first, texts, ended.outcome.script, self._attempt).result()
        return replace(
            found, folder=_folder(found.changed), is_deterministic=is_deterministic, reference_is_eager=is_eager
        )

    def _reference_without_compile(self, failed: Ended) -> None:
        self._tell("the program without torch.compile, as it raises with it")
        ended = self._run(is_eager=True)
        if ended.outcome.error:
            last = [line for line in ended.printed.splitlines() if line.strip()][-_SHOWN:]
            at = failed.outcome.error_line
            where = f" ({at.file}:{at.line})" if at else ""
            said = f"the program fails without torch.compile, too: {ended.outcome.error}{where}"
            raise UsageError("\n  ".join([said, *last]))
        self._reference = self._results()

    def _run(self, texts: Texts | None = None, *, is_eager: bool = False) -> Ended:
        self._number += 1
        folder = self._folder / str(self._number)
        served = {os.path.realpath(file): text for file, text in (texts or {}).items()}
        plan = Plan(self._asked.program, str(folder), served, self._asked.steps, self._reference, is_eager)
        return self._processes.run(plan)

    def _results(self) -> str:
        return str(self._folder / str(self._number) / RESULTS)

    def _attempt(self, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        self._tell(f"change {' + '.join(offer.edit.title for offer in offers)}")
        return self._seen(self._run(texts))

    def _seen(self, ended: Ended) -> Observed:
        seen, outcome = observed(ended.recording, self._asked.own), ended.outcome
        results = outcome.results if self._reference else Results.UNKNOWN
        return replace(
            seen,
            figures=None if outcome.error else seen.figures,
            results=results,
            difference=outcome.difference,
            error=outcome.error,
            error_line=outcome.error_line,
            calls=outcome.calls,
        )


def _folder(files: Iterable[str]) -> str:
    """Return where a patch of these files is made: here, or where all of them are."""
    here, parents = Path.cwd(), [Path(file).parent for file in files]
    return str(here) if all(p.is_relative_to(here) for p in parents) else os.path.commonpath(parents)


def _texts(script: str, ended: Ended, own: Ownership) -> Texts:
    """Return the user's files that may be changed, by the names that the recording has for them."""
    files = [script, *(source.file for source in ended.recording.sources if own.owns(source.file))]
    return dict(_read(dict.fromkeys(files)))


def _read(files: Iterable[str]) -> Iterable[tuple[str, str]]:
    for file in files:
        path = Path(file)
        try:
            with path.open("rb") as opened:
                encoding, _ = tokenize.detect_encoding(opened.readline)
            if encoding == "utf-8":
                yield file, path.read_bytes().decode("utf-8")
        except (OSError, SyntaxError, UnicodeDecodeError):  # a cell of a notebook, another encoding
            continue
