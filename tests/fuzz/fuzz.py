"""Reads what nobody should have written: `nox -s fuzz -- [--cases N] [--kind KIND] [--seconds N]`.

Each case is one strange input, which is read and goes through every view and through some of the other doors in
`doors.py`. It has to end in values or in errors of ours, within 5 seconds of processor time and 500 MB. What does not is
printed with its traceback and how to see it again, the smallest input that hypothesis finds for it is kept as a file, and
fuzzing goes on behind it. The last line is the sum. Many processes may run at once, each with a `--seed` of its own, and
keep what they find in one folder.
"""

from __future__ import annotations

import argparse
import faulthandler
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "gold")]

import doors
import mutated
import seeds
import well_typed
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from msgspec import Struct, field

from compiler_lens.decode.recording_file import load
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.journal_reader import parse_journal
from compiler_lens.recording.model import Recording
from compiler_lens.recording.torch_names import GRAPH_RECORDS, OUTPUT_CODE_RECORD
from compiler_lens.render.results import Modes

SECONDS = 5.0  # of processor time, for a case
BYTES = 500_000_000
_STOP = 2_000_000_000  # where the kernel says no
_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")
_SHRINKING = 20.0  # seconds for making an input smaller
_HANGS = 120.0  # seconds after which a case that no signal reaches ends the process, with its stack
Steps = Iterator[doors.Step]
Door = tuple[str, int]  # its name, and a number that chooses among the parts of a recording


class TooSlow(BaseException):
    """No handler in the package may catch it."""


class Enough(BaseException):
    """A fault was made smaller for long enough: hypothesis lets go."""


class Fault(Exception):  # noqa: N818
    """A case that ended otherwise than it may."""

    def __init__(self, step: str, error: BaseException, bucket: str) -> None:
        super().__init__(f"{step}: {type(error).__name__}: {str(error)[:300]} [{bucket}]")
        self.bucket, self.trace = bucket, "".join(traceback.format_exception(error)[-6:])


# -- what becomes of an input


def of_bytes(data: bytes, other: Recording, door: Door, path: Path) -> Steps:
    """A file."""
    path.write_bytes(data)
    found: list[Recording] = []
    yield "load", lambda: found.append(load(path))
    for recording in found:
        yield from of_recording(recording, other, door, path)


def of_recording(recording: Recording, other: Recording, door: Door, _: Path) -> Steps:
    """A recording."""
    name, pick = door
    yield from doors.views_as_json(recording, other, pick)
    yield from doors.DOORS[name].steps(recording, other, pick)


def of_sidecar(data: bytes, other: Recording, door: Door, path: Path) -> Steps:
    """A file beside a cache entry: what it holds joins the events of a run that found the entry."""
    kept: list[Event] = []
    yield "a sidecar", lambda: kept.extend(parse_journal(data, "sidecar")[0])
    writer = JournalWriter(None)
    for event in kept:
        yield "join", lambda event=event: writer.append(event)
    yield from of_bytes(writer.contents(), other, door, path)


def of_modes(data: bytes, _: Recording, _door: Door, _path: Path) -> Steps:
    """The JSON of a comparison of modes, the one JSON of ours that is read back."""
    found: list[Modes] = []
    yield "modes", lambda: found.append(Modes.from_json(data.decode("utf-8", "surrogatepass")))
    for modes in found:
        yield "its report", modes.report
        yield "its chart", modes.svg
        yield "its JSON", modes.to_json


class Kind(Struct, frozen=True):
    """A kind of input."""

    inputs: Callable[[], st.SearchStrategy[Any]]
    steps: Callable[[Any, Recording, str, Path], Steps] = of_bytes
    share: int = 1  # of all cases


@cache
def _journal_files() -> tuple[bytes, ...]:
    return tuple(mutated.written(journal.lines) for journal in seeds.journals())


@cache
def _log_files() -> tuple[bytes, ...]:
    return tuple(b"".join(records) for records in seeds.logs())


_GUARDS = ("dynamo_cpp_guards_str", "recompile_reasons")
_BREAKS = ("dynamo_graph_break_reason", "dynamo_error")
_FACTS = (
    "lens.node_facts",
    "compilation_metrics",
    "bwd_compilation_metrics",
    "fx_graph_cache_hit",
    "fx_graph_cache_miss",
    "triton_kernel_info",
    "lens.source",
)
KINDS: Mapping[str, Kind] = {
    "journals": Kind(mutated.journals, share=4),
    "damaged journals": Kind(lambda: mutated.damaged(_journal_files), share=1),
    "logs": Kind(mutated.logs, share=2),
    "damaged logs": Kind(lambda: mutated.damaged(_log_files), share=1),
    "graph texts": Kind(lambda: mutated.texts_of(*GRAPH_RECORDS), share=3),
    "output code": Kind(lambda: mutated.texts_of(OUTPUT_CODE_RECORD), share=2),
    "guards": Kind(lambda: mutated.texts_of(*_GUARDS), share=1),
    "breaks": Kind(lambda: mutated.texts_of(*_BREAKS), share=1),
    "facts": Kind(lambda: mutated.texts_of(*_FACTS), share=1),
    "sidecars": Kind(mutated.sidecars, of_sidecar),
    "modes": Kind(mutated.modes, of_modes),
    "changed recordings": Kind(well_typed.changed_recordings, of_recording, share=4),
    "made recordings": Kind(well_typed.made_recordings, of_recording, share=2),
}


# -- limits


@contextmanager
def watched(name: str) -> Iterator[None]:
    """Raise `Fault` for what takes too long or too much memory."""
    faulthandler.dump_traceback_later(_HANGS, exit=True)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _resident()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    except TooSlow as error:
        raise Fault(name, error, f"too slow: {_innermost(error)}") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    # Not ru_maxrss, which counts what the process that started this one held.
    peak = int(_PEAK.findall(Path("/proc/self/status").read_text())[0]) * 1024
    if peak - before > BYTES:
        raise Fault(name, MemoryError(f"{peak - before:,} bytes"), "too large")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def limited() -> None:
    """Hold this process to the limits."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {SECONDS:g} s")

    signal.signal(signal.SIGPROF, stop)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _STOP, size + _STOP))
    faulthandler.enable()


def _innermost(error: BaseException) -> str:
    """The place in the package that an error comes from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/compiler_lens/" in frame.filename]
    if not frames:
        return "outside"
    return f"{frames[-1].filename.rpartition('/compiler_lens/')[2]}:{frames[-1].name}"


# -- running


class Input:
    """An input without a text: hypothesis would print all of it, again and again."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __repr__(self) -> str:
        return "an input"


class Found(Struct):
    """What fuzzing one kind of input found."""

    kind: str
    folder: Path  # for files that are read
    known: set[str]  # faults that are passed over, by their buckets
    seed: int | None = None  # of the whole run
    cases: int = 0
    seconds: float = 0.0  # of processor time
    slowest: float = 0.0
    faults: dict[str, Any] = field(default_factory=dict)  # the smallest input of each

    def try_one(self, made: Any, door: Door, other: Recording) -> None:
        """Try one case. Raises `Fault` where it ends otherwise than it may, and nobody knew."""
        self.cases += 1
        began = time.process_time()
        try:
            with watched(self.kind):
                self._go_through(KINDS[self.kind].steps(made, other, door, self.folder / "input.clens"))
        except Fault as fault:
            if fault.bucket not in self.known:
                raise
        finally:
            spent = time.process_time() - began
            self.seconds += spent
            self.slowest = max(self.slowest, spent)

    def _go_through(self, steps: Steps) -> None:
        for step, error in doors.go_through(steps):
            bucket = f"{type(error).__name__} at {_innermost(error)}"
            if bucket not in self.known:
                raise Fault(step, error, bucket)


def fuzz(found: Found, cases: int, number: int | None = None, until: float = float("inf")) -> None:
    """Try so many cases of a kind; without the number of a seed always the same ones."""
    while found.cases < cases and time.monotonic() < until:
        before, faults = found.cases, len(found.faults)
        _until_a_fault(found, cases - found.cases, number, until)
        if found.cases == before or (faults == len(found.faults) and number is None):
            break
        number = None if number is None else number + 1


_DOORS = st.tuples(
    st.sampled_from([name for name, door in doors.DOORS.items() for _ in range(door.share)]), st.integers(0, 999)
)


def _until_a_fault(found: Found, cases: int, number: int | None, until: float) -> None:
    """Fuzz until a new fault is found and made small, or all cases are tried."""
    smallest: list[tuple[Fault, Any]] = []
    ends = [until]

    def case(made: Input, door: Door, other: Input) -> None:
        if time.monotonic() > min(ends):
            raise Enough
        try:
            found.try_one(made.made, door, other.made)
        except Fault as fault:
            smallest[:] = [(fault, made.made)]
            ends.append(time.monotonic() + _SHRINKING)
            raise

    others = st.sampled_from([*map(Input, well_typed.small_recordings())])
    run = settings(
        max_examples=cases, database=None, deadline=None, derandomize=number is None, report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink), print_blob=False,
    )(given(KINDS[found.kind].inputs().map(Input), _DOORS, others)(case))  # fmt: skip
    try:
        with suppress(Fault, Enough, FlakyFailure):
            (run if number is None else seed(number)(run))()
    except Exception as error:  # noqa: BLE001 -- a mistake of the fuzzer's own: it goes on with other inputs
        smallest.append((Fault("making an input", error, f"{type(error).__name__} in the fuzzer"), b""))
    for fault, made in smallest:
        found.known.add(fault.bucket)
        found.faults[fault.bucket] = made
        again = f"--kind {found.kind!r} --cases {cases}" + ("" if number is None else f" --seed {number}")
        print(f"\n-- {found.kind}: {fault}\n{fault.trace}again: python tests/fuzz/fuzz.py {again}", flush=True)


def _say(found: Found, folder: Path) -> None:
    each = 1000 * found.seconds / max(found.cases, 1)
    told = (
        f"{found.cases:>7,} cases  {each:5.1f} ms each, {found.slowest:.2f} s the slowest  {len(found.faults)} faults"
    )
    print(f"{found.kind:<20} {told}", flush=True)
    for number, (bucket, made) in enumerate(sorted(found.faults.items())):
        folder.mkdir(parents=True, exist_ok=True)
        name = "-".join([*found.kind.split(), *([] if found.seed is None else [f"seed{found.seed}"]), str(number)])
        path = folder / f"{name}.{'clens' if isinstance(made, bytes) else 'txt'}"
        path.write_bytes(made if isinstance(made, bytes) else repr(made).encode("utf-8", "backslashreplace"))
        print(f"   {bucket}: {path}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="in total")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind of input; may be repeated")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="begin no new case after these, of which each kind has its share",
    )
    parser.add_argument("--seed", type=int, help="other cases than always the same ones")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-faults"), help="the folder for inputs that make faults")
    args = parser.parse_args()
    kinds = args.kind or list(KINDS)
    shares = sum(KINDS[kind].share for kind in kinds)
    until, left, total, faults = time.monotonic() + args.seconds, shares, 0, 0
    scratch = Path(tempfile.mkdtemp())
    well_typed.recordings()
    known: set[str] = set()
    limited()
    try:
        for kind in kinds:
            found = Found(kind, scratch, known, args.seed)
            now, share = time.monotonic(), KINDS[kind].share
            fuzz(found, -(-args.cases * share // shares), args.seed, now + (until - now) * share / left)
            left -= share
            _say(found, args.keep)
            total, faults = total + found.cases, faults + len(found.faults)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{'' if args.seed is None else f'seed {args.seed}: '}{total:,} cases, {faults} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
