"""What belongs to no graph: where a recording was made, its files, caches, timed events and measured times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from sys import intern
from typing import Any

from msgspec import Struct

from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.recording import model
from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.shape import Figure, read_json, shaped

OWN_EVENTS = ("environment", "source", "problem", "unavailable", "cached_otherwise")


def read_own_event(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Struct, ...]:
    """Read what a lens notes by itself: where it records, texts of files, what it could not read or was not offered."""
    meta = event.meta
    match event.name:
        case "lens.environment":  # what a later version adds is passed over
            return (unpacked(model.Environment, {**meta, "started": event.at}),)
        case "lens.source":
            return (shaped(model.SourceFile, {**meta, "text": event.text or ""}),)
        case "lens.cached_otherwise":
            return (shaped(model.CachedOtherwise, {**meta, "compile_id": compile_id}),)
        case "lens.problem":
            return (shaped(model.CaptureProblem, {**meta, "compile_id": compile_id.or_none}),)
        case _:
            return (shaped(model.Unavailable, {**meta, "compile_id": compile_id.or_none}),)


class _Version(Struct, frozen=True):
    pytorch_version: str = ""


def read_torch_version(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[model.Environment, ...]:
    """Read `torch_version`, which torch writes into its own logs."""
    version = read_json(_Version, event.text or "{}").pytorch_version  # others of its values are no texts
    return (model.Environment(torch=version, versions={"torch": version}, started=event.at),) if version else ()


class _FileName(Struct, frozen=True):
    id: int
    text: str


class _FileNames(Struct, frozen=True):
    files: Mapping[str, str]


def read_file_names(event: Event) -> Mapping[int, str]:
    """Read `str` and `lens.files`: the names of files that later events give by number."""
    if event.name == "str":
        name = shaped(_FileName, event.meta)
        return {name.id: name.text}
    return {int(number): name for number, name in shaped(_FileNames, event.meta).files.items()}


# -- what torch's compile caches answered

_LAYERS = {"fx_graph": model.CacheLayer.FX_GRAPH, "aotautograd": model.CacheLayer.AOT_AUTOGRAD}
_BUNDLED = "_bundled"


class _Answer(Struct, frozen=True):
    key: str | None = None
    cache_bypass_reason: str | None = None
    time_saved_ns: Figure | None = None  # FxGraphCache (torch/_inductor/codecache.py)
    time_saved_ms: Figure | None = None  # AOTAutogradCache (torch/_functorch/_aot_autograd/autograd_cache.py)

    @property
    def seconds_saved(self) -> float | None:
        # torch takes them by a clock that may have been set back meanwhile.
        if self.time_saved_ns is not None:
            return max(self.time_saved_ns / 1e9, 0.0)
        return None if self.time_saved_ms is None else max(self.time_saved_ms / 1e3, 0.0)


_read_answer = partial(read_json, _Answer)


def read_cache(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[model.CacheOutcome, ...]:
    """Read one question to one cache. The layer and the answer are in the event's name, the rest is JSON."""
    layer, _, answer = event.name.partition("_cache_")
    told = texts.read(_read_answer, event.text or "")
    outcome = model.CacheOutcome(
        compile_id,
        _LAYERS[layer.removesuffix(_BUNDLED)],
        model.CacheResult(answer),
        key=told.key or "",
        reason=told.cache_bypass_reason or "",
        seconds_saved=told.seconds_saved,
        bundled=layer.endswith(_BUNDLED),
    )
    return (outcome,)


# -- torch's timed events: from their starts and ends to nested spans


class TimedMark(Struct, frozen=True, gc=False):
    """The start or end of one of torch's timed events."""

    compile_id: CompileId | None
    name: str
    phase: str  # "B" or "E"
    at: float  # seconds since the epoch
    thread: int


class _Open(Struct):
    mark: TimedMark
    children: float = 0.0  # seconds


class _Timed(Struct, frozen=True):
    name: str
    ph: str
    ts: Figure  # microseconds since the epoch


_read_timed = partial(read_json, _Timed)


def read_timed_event(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[TimedMark, ...]:
    """Read `chromium_event`: a dict in the process, its JSON in a log. Instants and counters are left out."""
    told = shaped(_Timed, event.meta) if "ph" in event.meta else texts.read(_read_timed, event.text or "")
    if told.ph not in ("B", "E"):
        return ()
    return (TimedMark(compile_id.or_none, intern(told.name), intern(told.ph), told.ts / 1e6, event.thread),)


def join_spans(marks: Iterable[TimedMark]) -> tuple[model.Span, ...]:
    """Pair each end with the last start of its name on its thread; what never ends is left out.

    The spans come in order of their starts. `self_seconds` of all spans of a thread add up to the time covered.
    """
    threads: dict[int, list[_Open]] = defaultdict(list)
    names: Counter[tuple[int, str]] = Counter()  # of what is open, by thread
    spans: list[model.Span] = []
    for mark in marks:
        stack = threads[mark.thread]
        if mark.phase == "B":
            stack.append(_Open(mark))
            names[mark.thread, mark.name] += 1
        elif names[mark.thread, mark.name]:
            opened = None
            while opened is None or opened.mark.name != mark.name:  # an exception passed over the end of some
                opened = stack.pop()
                names[mark.thread, opened.mark.name] -= 1
            start = opened.mark
            seconds = max(mark.at - start.at, 0.0)
            if stack:
                stack[-1].children += seconds
            # The outermost span begins before its compilation has an id.
            owner, own = start.compile_id or mark.compile_id, max(seconds - opened.children, 0.0)
            spans.append(model.Span(owner, start.name, start.at, seconds, start.thread, len(stack), own))
    return tuple(sorted(spans, key=lambda span: (span.start, span.depth)))


def with_calls(spans: Sequence[model.Span], compilations: Iterable[model.Compilation]) -> tuple[model.Span, ...]:
    """Return the spans, and one for each call without a frame: torch times the layers below it, and not the call."""
    timed: defaultdict[CompileId | None, float] = defaultdict(float)
    threads: dict[CompileId | None, int] = {}
    for span in spans:
        if threads.setdefault(span.compile_id, span.thread) == span.thread:
            timed[span.compile_id] += span.self_seconds
    calls = []
    for each in compilations:
        if each.door and each.seconds is not None:
            rest = each.seconds + (each.backward_seconds or 0.0) - timed[each.compile_id]
            thread = threads.get(each.compile_id, 0)
            if rest > 0:
                calls.append(model.Span(each.compile_id, each.door, each.started, each.seconds, thread, 0, rest))
    return tuple(sorted((*spans, *calls), key=lambda span: (span.start, span.depth)))


# -- kernel times that we measured

# The columns of the tables that format 1 wrote; it had the names of kernels once, and numbers in place of them.
_LAUNCH = ("compile_id", "direction", "ordinal", "kernel", "launch", "microseconds", "spread", "runs",
           "device_kernels", "trust")  # fmt: skip
_OTHER = ("name", "microseconds", "runs")
_NOTE = ("remark", "name", "number", "of")


def read_profile(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[model.Profile, ...]:
    """Return the profile that an event holds: one that the codec packed, or the tables of format 1."""
    try:
        return (unpacked(model.Profile, _from_tables(event.meta) if "names" in event.meta else event.meta),)
    except (PayloadError, KeyError, TypeError, ValueError, IndexError) as error:
        raise PayloadError(f"a profile of an unknown shape: {error}") from error


def _from_tables(meta: Mapping[str, Any]) -> dict[str, Any]:
    names = meta["names"]
    launches = [dict(zip(_LAUNCH, row, strict=True)) for row in meta["launches"]]
    for launch in launches:
        launch["compile_id"] = str(CompileId(*launch["compile_id"]))
        launch["kernel"] = names[launch["kernel"]]
        launch["device_kernels"] = [names[number] for number in launch["device_kernels"]]
    others = [dict(zip(_OTHER, row, strict=True)) for row in meta["others"]]
    notes = []
    for note in meta["notes"]:  # sentences, until remarks became facts
        row = [model.Remark.WORDS.value, note, None, None] if isinstance(note, str) else note
        notes.append(dict(zip(_NOTE, row, strict=True)))
    return {**meta, "launches": launches, "others": others, "notes": notes}


def read_tried(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[model.Tried, ...]:
    """Return the offer that was tried."""
    return (unpacked(model.Tried, event.meta),)
