"""Compilations: what was seen of each frame, joined, and what its author calls it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.decode.frames import Failure, Figures, FrameEnd, FrameStart, Metrics, ResumeName
from compiler_lens.recording import model
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.ids import NO_COMPILATION, CompileId, GraphStage
from compiler_lens.recording.model import BreakOutcome, Compilation, GraphBreak, Outcome, SourceLine
from compiler_lens.recording.resume_names import resume_name, resumed
from compiler_lens.recording.source_text import Sources
from compiler_lens.recording.torch_names import BACKWARD_SPAN, RAISED_AT_LIMIT

# What no event but our hooks' says of a frame.
_HOOKS_OWN = ("backend", "options", "dynamic", "config", "module", "instance", "definition", "parameters", "door")


class _Seen(Struct):
    """Everything seen of one compile id."""

    starts: list[FrameStart] = field(default_factory=list)
    end: FrameEnd | None = None
    metrics: Metrics | None = None
    backward: Metrics | None = None
    failure: Failure | None = None
    breaks: list[GraphBreak] = field(default_factory=list)
    graphs: int = 0  # of Dynamo's
    is_lowered: bool = False  # a graph is known of a later stage, or was there and could not be read
    is_exported: bool = False  # by the names in its graph

    @property
    def has_ops(self) -> bool:
        """Whether anything was there to compile: a graph, or if it could not be read, torch's count of its ops."""
        return bool(self.graphs or self.is_lowered or self.figures.graph_op_count)

    @property
    def is_export(self) -> bool:
        """Whether Dynamo made its graph for `torch.export.export(…, strict=True)`, without a frame that was called.

        fullgraph_capture() in torch/_dynamo/convert_frame.py tells the graph's compile id, and not that of its end.
        """
        return self.is_exported and not (self.starts or self.end or self.metrics or self.failure)

    @property
    def figures(self) -> Figures:
        """torch's."""
        return self.metrics.figures if self.metrics else Figures()


def join_compilations(
    facts: Iterable[Any],
    breaks: Sequence[GraphBreak],
    graphs: Sequence[model.Graph],
    spans: Sequence[model.Span],
    unread: Collection[CompileId | None] = (),
) -> tuple[Compilation, ...]:
    """Return a Compilation for each compile id that a frame, a metric or a failure was seen of, in that order.

    `unread` are those of graphs that could not be read.
    """
    backward_seconds: dict[CompileId | None, float] = defaultdict(float)
    for span in spans:
        if span.name == BACKWARD_SPAN:
            backward_seconds[span.compile_id] += span.seconds
    compiled = []
    seen = _seen(facts, breaks, graphs)
    lowered = {*unread, *(graph.compile_id for graph in graphs)}
    for compile_id, each in seen.items():
        if compile_id.or_none is None:
            continue
        each.is_lowered = compile_id in lowered
        # Where all that is known are figures without a function, they are what an export took.
        is_alone = not (each.starts or each.end or each.failure or each.breaks or each.graphs or each.backward)
        if not is_alone or each.figures.co_name or each.figures.fail_type:
            compiled.append(_compilation(compile_id, each, backward_seconds.get(compile_id)))
    return tuple(_numbered(compiled))


def _numbered(compilations: Iterable[Compilation]) -> Iterator[Compilation]:
    """Give each object the number in which it was first seen of its class, in place of its address."""
    seen: dict[str, dict[int, int]] = defaultdict(dict)
    for one in compilations:
        if not one.instance:
            yield one
            continue
        of_class = one.definition.function.rpartition(".")[0] if one.definition else ""
        objects = seen[one.module or of_class]
        yield replace(one, instance=objects.setdefault(one.instance, len(objects) + 1))


def _seen(
    facts: Iterable[Any], breaks: Sequence[GraphBreak], graphs: Sequence[model.Graph]
) -> Mapping[CompileId, _Seen]:
    seen: dict[CompileId, _Seen] = defaultdict(_Seen)
    for fact in facts:
        entry = seen[fact.compile_id]
        match fact:
            case FrameStart():
                entry.starts.append(fact)
            case FrameEnd():
                entry.end = fact
            case Failure():
                entry.failure = fact
            case Metrics(backward=True):
                entry.backward = fact
            case Metrics():
                entry.metrics = fact
    for item in breaks:
        seen[item.compile_id].breaks.append(item)
    is_exported = cache(lambda text: _EXPORTED.search(text) is not None)  # several graphs may be one text
    for graph in graphs:
        if graph.stage is GraphStage.DYNAMO:
            seen[graph.compile_id].graphs += 1
            seen[graph.compile_id].is_exported |= is_exported(graph.code)
    return seen


def _compilation(compile_id: CompileId, seen: _Seen, backward_seconds: float | None) -> Compilation:
    # Our hook's start knows backend and mode, torch's the callers' stack.
    ours = next((s for s in seen.starts if s.backend or s.door), None)
    theirs = next((s for s in seen.starts if s.stack), None)
    figures = seen.figures
    function, file, line = _place(seen, ours, theirs)
    outcome, reason = _outcome(seen, ours.door if ours else "")
    started = min((s.at for s in seen.starts), default=0.0)
    seconds = figures.entire_frame_compile_time_s
    if seen.end is not None and seen.starts:
        seconds = max(seen.end.at - started, 0.0)
    before = resumed(function)
    compilation = Compilation(
        compile_id=compile_id,
        function=function,
        file=file,
        line=line,
        outcome=outcome,
        reason=reason,
        failure=seen.failure.cause if seen.failure else None,
        failure_line=seen.failure.line if seen.failure else None,
        attempts=1 + max((s.attempt for s in seen.starts), default=0),
        restart_reasons=figures.restart_reasons or (),
        stack=theirs.stack if theirs else (),
        started=started,
        seconds=seconds,
        backward_seconds=backward_seconds,
        guard_count=figures.guard_count,
        op_count=figures.graph_op_count,
        resumes=before.function if before else "",
        metrics=seen.metrics.values if seen.metrics else {},
    )
    if ours is None:
        return compilation
    told = {name: getattr(ours, name) for name in _HOOKS_OWN}
    return replace(compilation, mode=ours.mode or "default", **told)


def _place(seen: _Seen, ours: FrameStart | None, theirs: FrameStart | None) -> tuple[str, str, int]:
    """Name, file and line of a frame's function."""
    figures = seen.figures
    if seen.is_export:
        return _EXPORT, "", 0
    if ours:
        return ours.function, ours.file, ours.line
    if figures.co_name:
        return figures.co_name, figures.co_filename or "", figures.co_firstlineno or 0
    if theirs:
        return theirs.stack[-1].function, theirs.stack[-1].file, theirs.stack[-1].line
    return "", "", 0


_TRACED = "traced by {}, which compiles nothing"
_EXPORT = "torch.export"
# The names that torch/_dynamo/functional_export.py gives to a module and to its inputs, in 2.11 to 2.15.
_EXPORTED = re.compile(r"_export_root|\bL_flat_args_\d")


def _outcome(seen: _Seen, door: str) -> tuple[Outcome, str]:  # noqa: PLR0911 -- one for each way to end
    figures, end = seen.figures, seen.end
    if seen.is_export:
        return Outcome.TRACED, _TRACED.format(_EXPORT)
    if door and end is not None and end.result != "error":
        return (Outcome.COMPILED, "") if end.result == "code" else (Outcome.TRACED, _TRACED.format(door))
    fail_reason = figures.fail_reason or ""
    is_limit = "recompile limit" in fail_reason.lower().replace("_", " ")
    if is_limit and not fail_reason.startswith(RAISED_AT_LIMIT):
        return Outcome.RECOMPILE_LIMIT, fail_reason
    skip = next((item for item in seen.breaks if item.outcome is BreakOutcome.SKIPPED_FRAME), None)
    told = skip.root.gb_type if skip else seen.failure.message if seen.failure else ""
    if end is None and seen.metrics is None:
        return Outcome.UNFINISHED, ""
    if end is None and figures.fail_type:
        return (Outcome.SKIPPED if skip else Outcome.FAILED), told or fail_reason
    if end is not None and end.result == "error":
        return Outcome.FAILED, told or end.reason
    if seen.has_ops and (end is None or end.result == "code"):
        return Outcome.COMPILED, ""
    if end is not None and (fail_reason or skip):
        return Outcome.SKIPPED, told or fail_reason or end.reason
    return Outcome.EMPTY, end.reason if end else ""


def without_a_frame(graphs: Iterable[model.Graph], codes: Iterable[model.OutputCode]) -> tuple[Compilation, ...]:
    """Return the compilation that graphs and output codes outside of any are from, where there are such.

    A log holds no calls, and gives what they compiled no id: one stands for all, by the deepest layer that was seen.
    """
    paths = [code.path for code in codes if code.compile_id == NO_COMPILATION]
    if paths:
        door = "AOTInductor" if any(path.endswith(".cpp") for path in paths) else "Inductor"
    elif any(graph.compile_id == NO_COMPILATION for graph in graphs):
        door = "AOTAutograd"
    else:
        return ()
    return (Compilation(NO_COMPILATION, door, "", 0, Outcome.COMPILED, door=door),)


def link_resume_functions(
    breaks: Sequence[GraphBreak], compilations: Sequence[Compilation], names: Sequence[ResumeName]
) -> tuple[GraphBreak, ...]:
    """Return the breaks, each splitting one with the name of its resume function, where that function was seen."""
    frames = {c.compile_id: c for c in compilations}
    known = {c.function for c in compilations if c.resumes} | {n.name for n in names}
    linked = []
    for item in breaks:
        frame = frames.get(item.compile_id)
        if frame is not None and item.outcome is BreakOutcome.SPLIT:
            lines = (place.line for place in reversed(item.user_stack) if place.file == frame.file)
            resuming = (resume_name(frame.resumes or frame.function, line) for line in lines)
            name = next((name for name in resuming if name in known), item.resume_function)
            linked.append(replace(item, resume_function=name))
        else:
            linked.append(item)
    return tuple(linked)


# -- what the author calls each function: by our hook, by the source, or by the function that it resumes


def name_definitions(compilations: Sequence[Compilation], files: Iterable[model.SourceFile]) -> tuple[Compilation, ...]:
    """Return the compilations with `definition` and `parameters`, as far as anybody knows them."""
    texts = Sources({source.file: source.text for source in files})
    named: list[Compilation] = []
    known: dict[tuple[str, str], dict[int, SourceLine]] = defaultdict(dict)  # by line
    for each in compilations:
        c = each
        is_wrapper = c.file.replace("\\", "/").endswith(WRAPPER_FILE)
        if not (c.definition or c.resumes or is_wrapper):
            found = next((d for d in texts.definitions(c.file) if d.line == c.line), None)
            if found is not None:
                c = replace(each, definition=SourceLine(c.file, c.line, found.name), parameters=found.parameters)
        if c.definition:
            known[c.definition.file, c.function].setdefault(c.definition.line, c.definition)
        named.append(c)
    # A resume function begins at its break: it belongs to the last function of its name that starts before.
    lines = {function: sorted(starts) for function, starts in known.items()}
    for index, c in enumerate(named):
        starts = lines.get((c.file, c.resumes), []) if c.resumes else []
        if before := bisect_right(starts, c.line):
            named[index] = replace(c, definition=known[c.file, c.resumes][starts[before - 1]])
    return tuple(named)
