"""Events in, a Recording out: every reader runs here, and what several of them found is joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode import (
    caches,
    compilations,
    cudagraphs,
    environment,
    fusion,
    graph_breaks,
    graph_text,
    graphs,
    guards,
    kernels,
    node_facts,
    output_code,
    profiles,
    recompiles,
    spans,
    symbols,
    tuning,
)
from compiler_lens.decode.definitions import name_definitions
from compiler_lens.decode.graph_text import GraphText
from compiler_lens.decode.installed_languages import InstalledLanguages
from compiler_lens.decode.node_facts import NodeFacts
from compiler_lens.recording.errors import CaptureError, PayloadError
from compiler_lens.recording.event import NO_ID, Event, TorchId
from compiler_lens.recording.model import (
    AutotuneResult,
    CacheOutcome,
    CaptureProblem,
    Compilation,
    CompileId,
    CudagraphOutcome,
    Environment,
    GraphBreak,
    Guard,
    Kernel,
    OutputCode,
    Profile,
    Recompile,
    Recording,
    SourceFile,
    Symbol,
    Unavailable,
)
from compiler_lens.recording.resume_names import is_bytecode
from compiler_lens.recording.torch_names import GRAPH_RECORDS, OUTPUT_CODE_RECORD

Reader = Callable[[Event, CompileId, Mapping[int, str]], Sequence[Any]]
Found = TypeVar("Found")

READERS: Mapping[str, Reader] = {
    "dynamo_start": compilations.read_dynamo_start,
    "lens.frame_start": compilations.read_frame_start,
    "lens.frame_end": compilations.read_frame_end,
    "lens.frame_skipped": compilations.read_skipped_frame,
    "compilation_metrics": compilations.read_metrics,
    "bwd_compilation_metrics": compilations.read_metrics,
    "dynamo_error": graph_breaks.read_dynamo_error,
    "dynamo_graph_break_reason": graph_breaks.read_graph_break,
    "recompile_reasons": recompiles.read_recompiles,
    "dynamo_cpp_guards_str": guards.read_guards,
    "create_symbol": symbols.read_symbols,
    "create_unbacked_symbol": symbols.read_symbols,
    "symbolic_shape_specialization": symbols.read_symbols,
    **dict.fromkeys(GRAPH_RECORDS, graph_text.read_graph),
    "lens.node_facts": node_facts.read_node_facts,
    OUTPUT_CODE_RECORD: output_code.read_output_code,
    "lens.kernel_nodes": kernels.read_kernel_nodes,
    "lens.fusion": fusion.read_fusion,
    "lens.autotune": tuning.read_autotune,
    "lens.triton_configs": tuning.read_triton_configs,
    "triton_kernel_info": tuning.read_triton_kernel_info,
    "lens.cudagraph": cudagraphs.read_cudagraph,
    "lens.cudagraph_skip": cudagraphs.read_cudagraph_skip,
    "aotautograd_cache_hit": caches.read_cache,
    "aotautograd_cache_miss": caches.read_cache,
    "aotautograd_cache_bypass": caches.read_cache,
    "fx_graph_cache_hit": caches.read_cache,
    "fx_graph_cache_miss": caches.read_cache,
    "fx_graph_cache_bypass": caches.read_cache,
    "fx_graph_bundled_cache_hit": caches.read_cache,
    "chromium_event": spans.read_timed_event,
    "lens.environment": environment.read_environment,
    "lens.profile": profiles.read_profile,
    "lens.recording": environment.read_recording,
    "lens.source": environment.read_source,
    "torch_version": environment.read_torch_version,
    "lens.problem": environment.read_problem,
    "lens.unavailable": environment.read_unavailable,
}
_FILE_NAMES = ("str", "lens.files")
_IN_LOGS_ONLY = ("torch_version",)  # a lens knows it
# Every event of torch's that is read; a lens asks for no others.
WANTED = frozenset(name for name in (*READERS, *_FILE_NAMES) if not name.startswith("lens.")) - {*_IN_LOGS_ONLY}


def fold(events: Iterable[Event], problems: Iterable[CaptureProblem] = (), *, strict: bool = False) -> Recording:
    """Return the recording that a sequence of events makes.

    What a reader cannot read becomes one of `problems`; in strict mode it raises `CaptureError`.
    """
    found = _read_all(events, list(problems), strict=strict)
    if whole := found.of(Recording):
        return replace(whole[-1], problems=(*whole[-1].problems, *found.problems))
    joined = graphs.join_graphs(found.of(GraphText), found.of(NodeFacts), found.passes)
    timed = spans.join_spans(found.of(spans.TimedMark))
    breaks = found.of(GraphBreak)
    files = found.of(SourceFile)
    frames = found.of(*compilations.FACTS)
    compiled = name_definitions(compilations.join_compilations(frames, breaks, joined, timed), files)
    environments = found.of(Environment)
    codes = kernels.number_output_codes(found.of(OutputCode), found.of(kernels.CodeKey))
    nodes = found.of(kernels.KernelNodes)
    made = kernels.join_kernels(found.of(Kernel), nodes, found.of(tuning.TritonTuning))
    made, unfused = fusion.join_fusion(kernels.in_bodies(made, joined, codes), nodes, found.of(fusion.Fusion))
    return Recording(
        environment=environments[-1] if environments else Environment(),
        compilations=(*compiled, *found.of(Compilation)),
        graph_breaks=compilations.link_resume_functions(breaks, compiled, found.of(compilations.ResumeName)),
        recompiles=tuple(found.of(Recompile)),
        guards=tuple(found.of(Guard)),
        symbols=tuple(found.of(Symbol)),
        graphs=joined,
        decompositions=graphs.decompositions(joined),
        output_codes=codes,
        kernels=made,
        unfused=unfused,
        profiles=tuple(found.of(Profile)),
        autotunes=tuple(found.of(AutotuneResult)),
        cudagraphs=cudagraphs.join_cudagraphs(_cudagraph_outcomes(found), joined, codes, made),
        caches=tuple(found.of(CacheOutcome)),
        spans=timed,
        sources=tuple(files),
        problems=(*found.problems, *found.of(CaptureProblem)),
        unavailable=tuple(found.of(Unavailable)),
    )


def _cudagraph_outcomes(found: _Found) -> list[CudagraphOutcome]:
    """What our hook saw, and where it saw nothing (a log of torch's own) what torch's metrics say."""
    seen = found.of(CudagraphOutcome)
    known = {outcome.compile_id for outcome in seen}
    metrics = [m for m in found.of(compilations.Metrics) if m.compile_id not in known]
    return seen + [o for m in metrics for o in cudagraphs.cudagraph_from_metrics(m.values, m.compile_id)]


class _Found(Struct):
    by_type: dict[type, list[Any]]
    problems: list[CaptureProblem]

    def add(self, values: Iterable[Any]) -> None:
        for value in values:
            self.by_type[type(value)].append(value)

    def of(self, *kinds: type[Found]) -> list[Found]:
        return [value for kind in kinds for value in self.by_type[kind]]

    @property
    def passes(self) -> dict[CompileId, list[Any]]:
        """For each compilation the passes of its output codes, in order: the post-grad graphs come in the same."""
        parts: dict[CompileId, list[Any]] = defaultdict(list)
        for code in self.of(OutputCode):
            parts[code.compile_id].append(code.direction)
        return parts


def _read_all(events: Iterable[Event], problems: list[CaptureProblem], *, strict: bool) -> _Found:
    found = _Found(defaultdict(list), problems)
    ids = _CompileIds()
    files: dict[int, str] = {}
    installed = InstalledLanguages()
    read_output_code: Reader = partial(output_code.read_output_code, installed=installed)
    readers = {**READERS, OUTPUT_CODE_RECORD: read_output_code}
    for event in events:
        compile_id = None
        try:
            compile_id = ids.of(event)
            if event.name in _FILE_NAMES:
                files.update(environment.read_file_names(event))
                continue
            reader = compilations.read_bytecode_name if is_bytecode(event.name) else readers.get(event.name)
            if reader is not None:
                found.add(reader(event, compile_id, files))
        except Exception as error:  # noqa: BLE001 -- an event that we cannot read must not cost us the others
            found.problems.append(_problem(event, compile_id, error, strict=strict))
    if strict and installed.problems:
        raise CaptureError(f"{installed.problems[0].where}: {installed.problems[0].message}")
    found.problems += installed.problems
    return found


def _problem(event: Event, compile_id: CompileId | None, error: Exception, *, strict: bool) -> CaptureProblem:
    if strict:
        raise CaptureError(f"{event.name} of [{compile_id}]: {error!r}") from error
    message = str(error) if isinstance(error, PayloadError) else repr(error)
    return CaptureProblem(event.name, message, compile_id)


class _CompileIds:
    """Tells apart the compilations that share a torch id.

    torch counts from zero again after a reset: an id that this life of the process had already begins the next one.
    What torch passed over has no id at all, and is only counted.
    """

    def __init__(self) -> None:
        self._known: dict[Any, CompileId] = {}
        self._begun: set[TorchId] = set()  # in this life
        self._compile_epoch = 0
        self._nameless = 0

    def of(self, event: Event) -> CompileId:
        if event.run is None and event.torch_id == NO_ID:
            return CompileId(None, None)
        key = event.torch_id if event.run is None else event.run
        known = self._known.get(key)
        if known is None:
            frame, recompile, autograd = event.torch_id
            known = self._known[key] = CompileId(frame, recompile, self._epoch(event.torch_id), autograd)
        return known

    def _epoch(self, torch_id: TorchId) -> int:
        if torch_id == NO_ID:
            self._nameless += 1
            return self._nameless - 1
        if torch_id in self._begun:
            self._compile_epoch += 1
            self._begun.clear()
        self._begun.add(torch_id)
        return self._compile_epoch
