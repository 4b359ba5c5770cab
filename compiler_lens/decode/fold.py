"""Events in, a Recording out: every reader runs here, and what several of them found is joined."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace

from compiler_lens.decode import (
    asked,
    compilations,
    cudagraphs,
    frames,
    fusion,
    graph_breaks,
    graph_text,
    graphs,
    guards,
    kernels,
    origins,
    output_code,
    saved,
    tuning,
    whole,
)
from compiler_lens.decode.kernel_language import InstalledLanguages
from compiler_lens.decode.shared_text import Texts
from compiler_lens.recording import model
from compiler_lens.recording.errors import CaptureError, PayloadError
from compiler_lens.recording.event import NO_ID, Event, TorchId
from compiler_lens.recording.ids import NO_COMPILATION, CompileId
from compiler_lens.recording.resume_names import is_bytecode
from compiler_lens.recording.torch_names import GRAPH_RECORDS, OUTPUT_CODE_RECORD

Joined = TypeVar("Joined")
Reader = Callable[[Event, CompileId, Mapping[int, str]], Sequence[Any]]

READERS: Mapping[str, Reader] = {
    "dynamo_start": frames.read_dynamo_start,
    "lens.frame_start": frames.read_frame_start,
    "lens.frame_end": frames.read_frame_end,
    "lens.frame_skipped": frames.read_skipped_frame,
    "compilation_metrics": frames.read_metrics,
    "bwd_compilation_metrics": frames.read_metrics,
    "dynamo_error": graph_breaks.read_dynamo_error,
    "lens.call_error": graph_breaks.read_call_error,
    "dynamo_graph_break_reason": graph_breaks.read_graph_break,
    "recompile_reasons": guards.read_recompiles,
    "dynamo_cpp_guards_str": guards.read_guards,
    **dict.fromkeys(("create_symbol", "create_unbacked_symbol", "symbolic_shape_specialization"), guards.read_symbols),
    **dict.fromkeys(GRAPH_RECORDS, graph_text.read_graph),
    "lens.compile_site": asked.read_site,
    "lens.stance": asked.read_stance,
    "lens.eager_calls": asked.read_eager_calls,
    "lens.members": guards.read_members,
    "lens.late_hook": asked.read_late_hook,
    "lens.child": asked.read_child,
    "lens.node_facts": origins.read_node_facts,
    OUTPUT_CODE_RECORD: output_code.read_output_code,
    "graph_dump": output_code.read_aoti_text,
    "lens.kernel_nodes": kernels.read_kernel_nodes,
    "lens.fusion": fusion.read_fusion,
    "lens.autotune": tuning.read_autotune,
    "lens.triton_configs": tuning.read_triton_configs,
    "triton_kernel_info": tuning.read_triton_kernel_info,
    "lens.cudagraph": cudagraphs.read_cudagraph,
    "lens.cudagraph_skip": cudagraphs.read_cudagraph_skip,
    **{f"aotautograd_cache_{answer}": whole.read_cache for answer in ("hit", "miss", "bypass")},
    **{f"fx_graph_cache_{answer}": whole.read_cache for answer in ("hit", "miss", "bypass")},
    "fx_graph_bundled_cache_hit": whole.read_cache,
    "chromium_event": whole.read_timed_event,
    "torch_version": whole.read_torch_version,
    **{f"lens.{name}": whole.read_own_event for name in whole.OWN_EVENTS},
    "lens.profile": whole.read_profile,
    "lens.tried": whole.read_tried,
    "lens.recording": saved.read_recording,
}
# What they make of a text does not depend on the event: where several have it, it is read once.
_OF_TEXTS: frozenset[Reader] = frozenset(
    (
        graph_breaks.read_dynamo_error, graph_breaks.read_call_error, graph_breaks.read_graph_break,
        graph_text.read_graph, guards.read_guards, guards.read_recompiles, origins.read_node_facts,
        output_code.read_output_code, tuning.read_triton_kernel_info, whole.read_cache, whole.read_timed_event,
    )
)  # fmt: skip
_FILE_NAMES = ("str", "lens.files")
_IN_LOGS_ONLY = ("torch_version",)  # a lens knows it
# Every event of torch's that is read; a lens asks for no others.
WANTED = frozenset(name for name in (*READERS, *_FILE_NAMES) if not name.startswith("lens.")) - {*_IN_LOGS_ONLY}


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hold off Python's cyclic garbage collector while a recording is built, or a page of it.

    Hundreds of thousands of objects come and none goes, and each pass of the collector would walk all of them, in a
    training process all of torch's, too: a third of the time, and more the larger the recording.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def fold(
    events: Iterable[Event],
    problems: Iterable[model.CaptureProblem] = (),
    *,
    strict: bool = False,
    texts_are_shared: bool = True,
) -> model.Recording:
    """Return the recording that a sequence of events makes.

    What a reader cannot read becomes one of `problems`; in strict mode it raises `CaptureError`. Where several events
    may have one text, it is read once.
    """
    of, unread = _read_all(events, Texts(are_shared=texts_are_shared), strict=strict)
    unread = [*problems, *unread]  # only now: what reads the events from a file knows now what was wrong with it
    if of[model.Recording]:
        recording: model.Recording = of[model.Recording][-1]
        lost = of[model.CaptureProblem]
        if strict and lost:
            raise CaptureError(f"{lost[0].where}: {lost[0].message}")
        tried = (*recording.tried, *of[model.Tried])
        return replace(recording, tried=tried, problems=(*recording.problems, *lost, *unread))
    join = partial(_joined, strict, unread)
    for value in join(output_code.read_aoti, of.pop(output_code.AotiText, [])):
        of[type(value)].append(value)
    passes: dict[CompileId, list[Any]] = defaultdict(list)  # the post-grad graphs come in the order of output codes
    for code in of[model.OutputCode]:
        passes[code.compile_id].append(code.direction)
    # By iterators, out of the table: what stands in the recording anew is let go of.
    texts, facts = iter(of.pop(graph_text.GraphText, ())), iter(of.pop(origins.NodeFacts, ()))
    joined = join(graphs.join_graphs, texts, facts, passes)
    timed = join(whole.join_spans, iter(of.pop(whole.TimedMark, ())))
    breaks, names, files = of[model.GraphBreak], of[frames.ResumeName], of[model.SourceFile]
    seen_of_frames = [*chain.from_iterable(of[kind] for kind in frames.FACTS)]
    no_graphs = {problem.compile_id for problem in unread if problem.where in GRAPH_RECORDS}
    compiled = join(compilations.join_compilations, seen_of_frames, breaks, joined, timed, no_graphs)
    compiled = join(compilations.name_definitions, compiled, files, otherwise=compiled)
    timed = join(whole.with_calls, timed, compiled, otherwise=timed)
    compiled += join(compilations.without_a_frame, joined, of[model.OutputCode])
    codes = join(kernels.number_output_codes, of[model.OutputCode], of[kernels.CodeKey])
    made, nodes = tuple(of[model.Kernel]), of[kernels.KernelNodes]
    made = join(kernels.join_kernels, made, nodes, of[tuning.TritonTuning], otherwise=made)
    made = join(kernels.in_bodies, made, joined, codes, otherwise=made)
    made, unfused = join(fusion.join_fusion, made, nodes, of[fusion.Fusion], otherwise=(made, ()))
    # Where our hook saw nothing (a log of torch's own), what torch's metrics say.
    outcomes = of[model.CudagraphOutcome]
    seen = {outcome.compile_id for outcome in outcomes}
    for each in of[frames.Metrics]:
        if each.compile_id not in seen:
            outcomes += cudagraphs.cudagraph_from_metrics(each.figures, each.compile_id)
    return model.Recording(
        environment=(of[model.Environment] or [model.Environment()])[-1],
        compilations=(*compiled, *of[model.Compilation]),
        graph_breaks=join(compilations.link_resume_functions, breaks, compiled, names, otherwise=tuple(breaks)),
        recompiles=tuple(of[model.Recompile]),
        guards=tuple(of[model.Guard]),
        members=tuple(dict.fromkeys(of[model.EnumMember])),
        symbols=tuple(of[model.Symbol]),
        graphs=joined,
        decompositions=join(graphs.decompositions, joined),
        output_codes=codes,
        kernels=made,
        unfused=unfused,
        profiles=tuple(of[model.Profile]),
        autotunes=tuple(of[model.AutotuneResult]),
        cudagraphs=join(cudagraphs.join_cudagraphs, outcomes, joined, codes, made, otherwise=tuple(outcomes)),
        caches=tuple(of[model.CacheOutcome]),
        cached_otherwise=tuple(of[model.CachedOtherwise]),
        spans=timed,
        sources=tuple(files),
        tried=tuple(of[model.Tried]),
        sites=tuple(of[model.CompileSite]),
        stances=tuple(of[model.Stance]),
        eager_calls=tuple(of[model.EagerCalls]),
        late_hooks=tuple(of[model.LateHook]),
        children=asked.join_children(of[model.ChildProcess]),
        problems=(*unread, *of[model.CaptureProblem]),
        unavailable=tuple(of[model.Unavailable]),
    )


def _joined(
    strict: bool, problems: list[model.CaptureProblem], make: Callable[..., Joined], *given: Any, otherwise: Any = ()
) -> Joined:
    """What *make* makes of *given*, or where it fails, which is a mistake of ours, what is known without it."""
    try:
        return make(*given)
    except Exception as error:
        what = make.__name__.replace("_", " ")
        if strict:
            raise CaptureError(f"{what}: {error!r}") from error
        problems.append(model.CaptureProblem(what, repr(error)))
        fallback: Joined = otherwise
        return fallback


def _read_all(
    events: Iterable[Event], texts: Texts, *, strict: bool
) -> tuple[dict[type, list[Any]], list[model.CaptureProblem]]:
    """All values that readers make, by type, and what could not be read."""
    found: dict[type, list[Any]] = defaultdict(list)
    problems: list[model.CaptureProblem] = []
    ids = _CompileIds()
    files: dict[int, str] = {}
    installed = InstalledLanguages()
    read_graphs = found[graph_text.GraphText]
    read_code = partial(output_code.read_code, installed=installed)
    given: dict[Any, dict[str, Any]] = {
        output_code.read_output_code: {"by": read_code, "graphs": read_graphs},
        origins.read_node_facts: {"known": {}},
    }
    readers = {name: partial(one, **given.get(one, {})) for name, one in READERS.items()}
    readers |= {name: partial(one, texts=texts) for name, one in readers.items() if one.func in _OF_TEXTS}

    def read(event: Event) -> Sequence[Any]:
        compile_id = None
        try:
            compile_id = ids.of(event)
            if event.name in _FILE_NAMES:
                files.update(whole.read_file_names(event))
                return ()
            reader = frames.read_bytecode_name if is_bytecode(event.name) else readers.get(event.name)
            return reader(event, compile_id, files) if reader else ()
        except Exception as error:
            if strict:
                raise CaptureError(f"{event.name} of [{compile_id}]: {error!r}") from error
            message = str(error) if isinstance(error, PayloadError) else repr(error)
            problems.append(model.CaptureProblem(event.name, message, compile_id))
            return ()

    for value in chain.from_iterable(map(read, events)):  # no event is kept while the next one is read
        found[type(value)].append(value)
    if strict and installed.problems:
        raise CaptureError(f"{installed.problems[0].where}: {installed.problems[0].message}")
    return found, problems + installed.problems


class _CompileIds:
    """Tells apart the compilations that share a torch id.

    torch counts from zero again after a reset: an id that this life of the process had already begins the next one.
    What torch passed over has no id at all, and is only counted.
    """

    def __init__(self) -> None:
        self._known: dict[Any, CompileId] = {}
        self._begun: set[TorchId] = set()  # in this life
        self._compile_epoch = 0
        self._nameless = 1  # 0 stands for no compilation

    def of(self, event: Event) -> CompileId:
        frame, recompile, autograd = event.torch_id
        if frame is None:
            recompile = None  # without a frame nothing is compiled again: such an id would not print as itself
        torch_id = (frame, recompile, autograd)
        if event.run is None and torch_id == NO_ID:
            return NO_COMPILATION
        key = torch_id if event.run is None else event.run
        if key not in self._known:
            if torch_id == NO_ID:
                epoch = self._nameless
                self._nameless += 1
            else:
                if torch_id in self._begun:
                    self._compile_epoch += 1
                    self._begun.clear()
                self._begun.add(torch_id)
                epoch = self._compile_epoch
            self._known[key] = CompileId(frame, recompile, epoch, autograd)
        return self._known[key]
