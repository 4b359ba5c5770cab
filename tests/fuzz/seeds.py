"""What fuzzing begins with: compilations cut out of the recordings that other tests have, and torch's own logs."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from compiler_lens.decode.fold import READERS, WANTED
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import ROWS_OF_TIMED, JournalWriter
from compiler_lens.recording.torch_log import read_torch_log

TESTS = Path(__file__).parent.parent
_SIZE = 100_000  # characters of a cut: each case reads all of it
_MOST = {"chromium_event": 10}  # events of a name that a cut keeps
_OTHERS = 8
_RECORD = re.compile(rb"^(?=[VIWEC]\d{4} )", re.MULTILINE)
_SETTINGS = 6  # of the hundreds that torch's metrics quote
_FROM = (
    "pictures/data/broken", "pictures/data/hops-kernels", "pictures/data/ddp", "pictures/data/trig", "pictures/data/hops",
    "diff/data/inference-max-autotune", "measure/data/resnet-max-autotune", "gpu/data/oddities-reduce-overhead-warm",
    "gpu/data/oddities-reduce-overhead-cold", "gpu/data/gpt-max-autotune-cold", "gpu/data/resnet-default-profiled",
)  # fmt: skip
# Payloads, by folder and ending, and the event that torch writes each in.
_EVENTS = {
    "breaks/*.error.txt": "dynamo_error",
    "recompiles/*.txt": "recompile_reasons",
    "guards/*.txt": "dynamo_cpp_guards_str",
    "output_code/cond_cpu.txt": "inductor_output_code",
    "output_code/cpp_template_cpu.txt": "inductor_output_code",
}


class Journal(Struct, frozen=True):
    """The lines of a journal, as values. Lists that others share: whoever changes one copies it first."""

    name: str
    lines: tuple[Any, ...]
    events: Mapping[str, tuple[int, ...]]  # by name, where they stand
    texts: Mapping[str, tuple[int, ...]]  # by the name of the event that refers to it, where its text stands


def journal(name: str, lines: list[Any]) -> Journal:
    """Return a journal with what is where in it."""
    events: dict[str, list[int]] = {}
    texts: dict[str, list[int]] = {}
    numbered = {line["@"]: at for at, line in enumerate(lines) if "@" in line}
    for at, line in enumerate(lines):
        if "e" in line:
            events.setdefault(line["e"], []).append(at)
            referred = (
                one["@"] for one in (line.get("x"), *line.get("m", {}).values()) if isinstance(one, dict) and "@" in one
            )
            texts.setdefault(line["e"], []).extend(numbered[number] for number in referred if number in numbered)
    found = {event: tuple(dict.fromkeys(places)) for event, places in texts.items() if places}
    return Journal(name, tuple(lines), {event: tuple(places) for event, places in events.items()}, found)


@cache
def journals() -> tuple[Journal, ...]:
    """Return all cuts: each has all that belongs to no compilation, and one compilation."""
    return (*(cut for name in _FROM for cut in _cuts(name)), *_converted(), _payloads())


def _cuts(name: str) -> Iterator[Journal]:
    lines = [json.loads(line) for line in _read(name)]
    runs = dict.fromkeys(line["run"] for line in lines if line.get("run") is not None)
    seen: set[frozenset[str]] = set()
    for number, run in enumerate(runs):
        kept = _belonging(lines, {None, run})
        made = journal(f"{name}:{number}", kept)
        kinds = frozenset(made.events)
        if kinds not in seen and sum(len(json.dumps(line)) for line in kept) < _SIZE:
            seen.add(kinds)
            yield made


def _belonging(lines: list[Any], runs: set[Any]) -> list[Any]:
    count: Counter[str] = Counter()
    texts = {line["@"]: line for line in lines if "@" in line}
    kept = [lines[0]]
    for line in lines:
        name = line.get("e", "")
        if _is_read(name) and line.get("run") in runs and count[name] < _MOST.get(name, _OTHERS):
            count[name] += 1
            numbers = (one["@"] for one in (line.get("x"), *line.get("m", {}).values()) if _refers(one))
            own = [texts.pop(number) for number in numbers if number in texts]
            kept += [*(map(_short, own) if name.endswith("_metrics") else own), line]
    return kept


def _is_read(name: str) -> bool:
    return name in READERS or name in {"str", "lens.files", ROWS_OF_TIMED} or name.endswith("_ORIGINAL_BYTECODE")


def _short(text: dict[str, Any]) -> dict[str, Any]:
    """A text with settings, without most of them."""
    try:
        return {**text, "is": json.dumps(dict(list(json.loads(text["is"]).items())[:_SETTINGS]))}
    except (ValueError, AttributeError):
        return text


def _converted() -> Iterator[Journal]:
    """Torch's own logs as journals: they have recompiles and symbols."""
    for path in sorted(TESTS.glob("payloads/*/trace.log.gz")):
        events, _ = read_torch_log(path, WANTED)
        lines = _written(event for event in events)
        yield journal(f"{path.parent.name}/trace", _belonging(lines, {line.get("run") for line in lines}))


def _payloads() -> Journal:
    """One compilation after the other, each with one payload of torch's."""
    found = [
        (name, path.read_text())
        for pattern, name in _EVENTS.items()
        for path in sorted(TESTS.glob(f"payloads/2.13/{pattern}"))
    ]
    events = [Event("lens.environment", 1e9, meta={"torch": "2.13.0", "argv": ["app.py"]})]
    start = {"stack": [{"line": 3, "name": "main", "filename": "/home/user/app/ex.py", "loc": "main()"}]}
    for number, (name, text) in enumerate(found):
        at = 1e9 + number
        place: dict[str, Any] = {"run": number, "torch_id": (number // 4, number % 4, None)}
        frame = {
            "function": "f",
            "file": "/home/user/app/ex.py",
            "line": number,
            "backend": "inductor",
            "mode": "default",
        }
        events += [Event("lens.frame_start", at, meta=frame, **place), Event("dynamo_start", at, meta=start, **place)]
        events += [Event(name, at, text=text, **place)]
    lines = _written(events)
    rows = [["dynamo", "B", 1e15], ["backend_compile", "B", 1e15 + 2.5], ["backend_compile", "E", 1e15 + 7.25]]
    lines.append({"e": ROWS_OF_TIMED, "at": 1e9, "run": 0, "id": [0, 0, None], "m": {"rows": rows}})
    for name, kind in (
        ("gpu/data/gpt-max-autotune-cold", "lens.autotune"),
        ("gpu/data/resnet-default-profiled", "lens.profile"),
    ):
        others = (json.loads(line) for line in _read(name) if f'"e":"{kind}"'.encode() in line)
        lines += [line for line in islice(others, 2) if not any(map(_refers, line["m"].values()))]
    return journal("payloads", lines)


def _refers(value: object) -> bool:
    return isinstance(value, dict) and "@" in value


def _read(name: str) -> list[bytes]:
    return gzip.decompress((TESTS / f"{name}.clens.gz").read_bytes()).splitlines()


def _written(events: Iterable[Event]) -> list[Any]:
    writer = JournalWriter(None)
    for event in events:
        writer.append(event)
    return [json.loads(line) for line in writer.contents().splitlines()]


@cache
def logs() -> tuple[tuple[bytes, ...], ...]:
    """Return the records of logs that torches wrote under TORCH_TRACE, few of their timed events among them."""
    return tuple(_records(gzip.decompress(path.read_bytes())) for path in sorted(TESTS.glob("payloads/*/trace.log.gz")))


def _records(log: bytes) -> tuple[bytes, ...]:
    every = _RECORD.split(log)[1:]
    spans = [record for record in every if b'] {"chromium_event"' in record]
    left_out = set(spans[_MOST["chromium_event"] :])
    return tuple(record for record in every if record not in left_out)
