"""A value of another type costs its own event: it is one of the problems, and all else of the recording is there."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compiler_lens.decode import graphs
from compiler_lens.decode.fold import READERS, fold
from compiler_lens.decode.recording_file import load, save
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import CaptureError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import read_journal
from compiler_lens.recording.model import GraphStage, Outcome, Recording

DATA = Path(__file__).parent
GPT, RESNET, DECODER, DDP, ODD, WARM = (
    next(DATA.rglob(f"{name}.clens.gz"))
    for name in (
        "gpt-max-autotune-cold",
        "resnet-default-profiled",
        "decoder-default-profiled",
        "ddp",
        "oddities-reduce-overhead-cold",
        "gpt-max-autotune-warm",
    )
)

TEXT = "the text"  # of the event, not what stands in it
HUGE = 10**400
# The recording, the event, where in it, what stands there now, what is said, and what of the recording may be less.
DAMAGE: list[tuple[Path, str, Sequence[Any], Any, str, str]] = [
    (GPT, "dynamo_start", ("stack", 0, "line"), "3", "Expected `int | null`, got `str` - at `$.stack[0].line`", "compilations"),
    (GPT, "dynamo_start", ("stack", 0, "line"), -1, ">= 0", "compilations"),
    (GPT, "dynamo_start", ("stack", 0, "line"), HUGE, "<= 9223372036854775807", "compilations"),
    (GPT, "dynamo_start", ("stack", 0, "line"), True, "got `bool`", "compilations"),
    (GPT, "dynamo_start", ("stack",), {"filename": "m.py"}, "Expected `array`", "compilations"),
    (GPT, "lens.frame_start", ("function",), ["f"], "at `$.function`", "compilations"),
    (GPT, "lens.frame_start", ("definition", "line"), None, "at `$.definition.line`", "compilations"),
    (GPT, "lens.frame_start", ("parameters",), [1], "at `$.parameters[0]`", "compilations"),
    (GPT, "lens.frame_start", ("options",), [], "at `$.options`", "compilations"),
    (GPT, "lens.frame_end", ("result",), 7, "at `$.result`", "compilations"),
    (DDP, "lens.frame_skipped", ("file",), {}, "at `$.file`", "compilations"),
    (GPT, "compilation_metrics", ("co_name",), {"a": 1}, "at `$.co_name`", "compilations"),
    (GPT, "compilation_metrics", ("guard_count",), 1.5, "at `$.guard_count`", "compilations"),
    (GPT, "compilation_metrics", ("entire_frame_compile_time_s",), "soon", "at `$.entire_frame_compile_time_s`", "compilations"),
    (DECODER, "recompile_reasons", TEXT, "[[]]", "at `$[0]`", "recompiles"),
    (DECODER, "create_symbol", ("symbol",), None, "at `$.symbol`", "symbols"),
    (DECODER, "create_symbol", ("user_stack", 0, "loc"), 1, "loc`", "symbols"),
    (GPT, "dynamo_cpp_guards_str", TEXT, "TREE", "not a guard tree", "guards"),
    (GPT, "aot_joint_graph", TEXT, "x = 3", "not a printed graph module", "graphs decompositions"),
    (GPT, "lens.node_facts", (TEXT, "nodes", 0, 1), "abc", "at `$.nodes[0][1]`", "graphs decompositions"),
    (GPT, "lens.node_facts", (TEXT, "nodes", 0, 2), 10**6, "IndexError", "graphs decompositions"),
    (GPT, "lens.node_facts", (TEXT, "nodes", 0, 2), -2, ">= -1", "graphs decompositions"),
    (GPT, "lens.node_facts", ("stage",), {}, "at `$.stage`", "graphs decompositions"),
    (GPT, "lens.node_facts", TEXT, "{" + "[" * 100_000, "no JSON that can be read", "graphs decompositions"),
    (GPT, "inductor_output_code", TEXT, "\0", "", "output_codes kernels unfused graphs decompositions"),
    (GPT, "lens.kernel_nodes", ("kernels", 0, 1), "abc", "at `$.kernels[0][1]`", "kernels unfused"),
    (GPT, "lens.kernel_nodes", ("part",), "up", "Invalid enum value 'up'", "kernels unfused"),
    (GPT, "lens.fusion", ("nodes", 0, 2, 0, 1), -4, "at `$.nodes[0][2][0][1]`", "kernels unfused"),
    (GPT, "lens.fusion", ("refusals",), {}, "at `$.refusals`", "kernels unfused"),
    (GPT, "lens.autotune", ("choices", 0, 2), math.inf, "at `$.choices[0][2]`", "autotunes"),
    (GPT, "lens.triton_configs", ("configs", 0, "values"), [], "at `$.configs[0].values`", "kernels"),
    (GPT, "triton_kernel_info", TEXT, '{"k": {"best_config": 3}}', "Expected `array`", "kernels"),
    (GPT, "lens.cudagraph", ("partitions",), "two", "at `$.partitions`", "cudagraphs output_codes"),
    (ODD, "lens.cudagraph_skip", ("message",), 3, "Expected `str`", "cudagraphs"),
    (WARM, "fx_graph_cache_hit", (TEXT, "time_saved_ns"), "long", "at `$.time_saved_ns`", "caches"),
    (GPT, "chromium_event", (TEXT, "ts"), HUGE, "at `$.ts`", "spans compilations"),
    (GPT, "lens.environment", ("argv",), "train.py", "is not an array", "environment"),
    (GPT, "lens.source", ("file",), ["m.py"], "at `$.file`", "sources compilations"),
    (RESNET, "lens.profile", ("calls",), True, "a profile of an unknown shape", "profiles"),
]  # fmt: skip


# Events that none of these recordings has, each beside one that has all else: where in it, and what stands there now.
LINE = {"file": "m.py", "line": 3}
SITE = {**LINE, "function": "f", "defined": LINE, "module": "Net", "methods": ["generate"]}
STANCE = {**LINE, "name": "force_eager", "skips_guards": False, "backend": ""}
ADDED: list[tuple[str, Any, Sequence[Any], Any, str]] = [
    ("lens.compile_site", SITE, ("defined",), "m.py", "at `$.defined`"),
    ("lens.compile_site", SITE, ("defined", "line"), -1, "at `$.defined.line`"),
    ("lens.compile_site", SITE, ("methods", 0), 3, "at `$.methods[0]`"),
    ("lens.compile_site", SITE, ("line",), HUGE, "<= 9223372036854775807"),
    ("lens.stance", STANCE, ("name",), None, "at `$.name`"),
    ("lens.stance", STANCE, ("skips_guards",), "no", "at `$.skips_guards`"),
    ("lens.stance", STANCE, ("file",), ["m.py"], "at `$.file`"),
    ("lens.cached_otherwise", {"setting": "s", "then": "math", "now": ""}, ("then",), 3, "at `$.then`"),
    ("lens.eager_calls", {**LINE, "function": "f", "calls": 3}, ("calls",), -1, "at `$.calls`"),
    ("lens.eager_calls", {**LINE, "function": "f", "calls": 3}, ("function",), {}, "at `$.function`"),
    ("lens.members", {"members": {"12": "Mode.FAST"}}, ("members", "12"), 3, "at `$.members"),
    (
        "lens.members",
        {"members": {"12": "Mode.FAST"}},
        ("members",),
        {"a": "Mode.FAST"},
        "an address that is no number",
    ),
    ("lens.late_hook", {**LINE, "hook": "forward hook", "module": "Net"}, ("module",), 3, "at `$.module`"),
    ("lens.child", LINE, ("line",), "3", "at `$.line`"),
    ("lens.child", LINE, ("file",), 3, "at `$.file`"),
    ("lens.child", {**LINE, "compiled": True}, ("compiled",), "yes", "at `$.compiled`"),
    ("lens.call_error", {**LINE, "function": "f", "code": "g()"}, ("line",), math.nan, "at `$.line`"),
    ("lens.call_error", {**LINE, "function": "f", "code": "g()"}, ("code",), [], "at `$.code`"),
]


@cache
def events(path: Path) -> tuple[Event, ...]:
    return read_journal(path)[0]


@cache
def whole(path: Path) -> Recording:
    return fold(events(path), strict=True)


def with_value(data: Any, place: Sequence[Any], value: Any) -> Any:
    copied = dict(data) if isinstance(data, dict) else list(data)
    copied[place[0]] = with_value(data[place[0]], place[1:], value) if len(place) > 1 else value
    return copied


def damaged(event: Event, place: Sequence[Any], value: Any) -> Event:
    if place == TEXT:
        return replace(event, text=value)
    if place[0] == TEXT:
        return replace(event, text=json.dumps(with_value(json.loads(event.text or ""), place[1:], value)))
    return replace(event, meta=with_value(event.meta, place, value))


@pytest.mark.parametrize(
    "row",
    DAMAGE,
    ids=[f"{row[1]}-{row[2] if row[2] == TEXT else '.'.join(map(str, row[2]))}-{row[3]!s:.6}" for row in DAMAGE],
)
def test_it_costs_its_own_event(row: tuple[Path, str, Sequence[Any], Any, str, str]) -> None:
    path, name, place, value, said, lost = row
    among = list(events(path))
    at = next(i for i, event in enumerate(among) if event.name == name)
    among[at] = damaged(among[at], place, value)
    found = fold(among)
    (problem,) = found.problems
    assert problem.where == name
    assert said in problem.message
    others = {*Recording.__struct_fields__} - {*lost.split(), "problems"}
    assert {field for field in others if getattr(found, field) != getattr(whole(path), field)} == set()
    with pytest.raises(CaptureError, match=name):
        fold(among, strict=True)


@pytest.mark.parametrize("row", ADDED, ids=[f"{row[0]}-{'.'.join(map(str, row[2]))}-{row[3]!s:.6}" for row in ADDED])
def test_it_costs_its_own_event_where_no_old_recording_has_one(row: tuple[str, Any, Sequence[Any], Any, str]) -> None:
    name, meta, place, value, said = row
    event = Event(
        name, 0.0, torch_id=(0, 0, None), meta=meta, text="Traceback (most recent call last):\nRuntimeError: no\n"
    )
    assert fold([*events(GPT), event], strict=True) != whole(GPT)
    bad = damaged(event, place, value)
    found = fold([*events(GPT), bad])
    (problem,) = found.problems
    assert problem.where == name
    assert said in problem.message
    assert replace(found, problems=()) == whole(GPT)
    with pytest.raises(CaptureError, match=name):
        fold([*events(GPT), bad], strict=True)


def test_each_event_with_json_in_it_is_tried() -> None:
    tried = {row[1] for row in DAMAGE} | {row[0] for row in ADDED}
    graphs_alike = {"dynamo_output_graph", "aot_forward_graph", "aot_backward_graph", "aot_inference_graph"}
    caches_alike = {name for name in READERS if "_cache_" in name} - tried
    elsewhere = {"bwd_compilation_metrics", "create_unbacked_symbol", "symbolic_shape_specialization"}
    not_json = {"dynamo_error", "dynamo_graph_break_reason", "inductor_post_grad_graph", "torch_version", "graph_dump"}
    told = {"lens.problem", "lens.unavailable", "lens.recording"}
    elsewhere |= {"lens.tried"}  # it stands beside a recording: tests/fix/test_beside.py
    assert {*READERS} - tried == graphs_alike | caches_alike | elsewhere | not_json | told


def test_a_log_of_no_version_and_a_name_of_no_file_are_problems() -> None:
    bad = [
        Event("torch_version", 0.0, text='{"pytorch_version": 3}'),
        Event("str", 0.0, meta={"id": "x", "text": "m.py"}),
        Event("lens.files", 0.0, meta={"files": {"x": "m.py"}}),
        Event("lens.problem", 0.0, meta={"where": 3, "message": ""}),
        Event("lens.unavailable", 0.0, meta={"fact": "a"}),
    ]
    found = fold([*events(GPT), *bad])
    assert [problem.where for problem in found.problems] == [event.name for event in bad]
    assert replace(found, problems=()) == whole(GPT)


def test_a_graph_that_cannot_be_read_is_not_one_that_was_not_there() -> None:
    """Not even where torch's own count of its ops is gone."""
    damage = {"dynamo_output_graph": "x", "compilation_metrics": None}
    among = [replace(e, text=damage[e.name], meta={}) if e.name in damage else e for e in events(GPT)]
    for kept in (among, [e for e in among if "aot_" not in e.name and "post_grad" not in e.name]):
        found = fold(kept)
        assert [c.outcome for c in found.compilations] == [Outcome.COMPILED]
        assert [problem.where for problem in found.problems] == ["dynamo_output_graph"]
    gone = [e for e in kept if e.name != "dynamo_output_graph"]
    assert [c.outcome for c in fold(gone).compilations] == [Outcome.EMPTY]


def test_a_join_that_fails_costs_what_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    def decompositions(_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(graphs, "decompositions", decompositions)
    found = fold(events(GPT))
    assert [(p.where, p.message) for p in found.problems] == [("decompositions", "ZeroDivisionError('by nothing')")]
    assert replace(found, problems=(), decompositions=whole(GPT).decompositions) == whole(GPT)
    with pytest.raises(CaptureError, match="by nothing"):
        fold(events(GPT), strict=True)


def test_a_name_that_a_graph_gives_twice_is_one_node() -> None:
    """FX names no two nodes alike."""
    text = (
        "class M(torch.nn.Module):\n    def forward(self, a):\n        b = a + 1\n        b = a * 2\n        return b\n"
    )
    (graph,) = fold([Event("dynamo_output_graph", 0.0, torch_id=(0, 0, None), text=text)]).graphs
    assert [(node.name, node.target) for node in graph.nodes] == [
        ("a", "a"),
        ("b", "operator.add"),
        ("output", "output"),
    ]


def test_a_tensor_that_no_memory_holds_has_no_size() -> None:
    text = 'class M(torch.nn.Module):\n    def forward(self, a: "f32[{}]cpu"):\n        return a\n'
    for sizes, size in (("8, 8", 256), (", ".join(["9" * 18] * 30), None), ("9" * 5000, None), ("²", None)):
        (graph,) = fold([Event("dynamo_output_graph", 0.0, torch_id=(0, 0, None), text=text.format(sizes))]).graphs
        assert graph.nodes[0].specs[0].bytes == size


def test_an_id_without_a_frame_has_no_recompile() -> None:
    (span,) = fold(
        Event("chromium_event", 0.0, torch_id=(None, 0, None), meta={"name": "a", "ph": phase, "ts": 1.0})
        for phase in "BE"
    ).spans
    assert span.compile_id is None


# -- a recording that `save` wrote: each value of its lists costs itself alone


SAVED: list[tuple[Sequence[Any], Any, str]] = [
    (("graphs", 1, "nodes", 0, "name"), 3, "graphs[1]: 3 is not of type str"),
    (("graphs", 1, "nodes", 2, "name"), "primals_1", "graphs[1]: the node 'primals_1' is made twice"),
    (("graphs", 1, "nodes", 0, "inputs"), ["output"], "graphs[1]: the node"),
    (("kernels", 2, "launches", 0, "line"), -1, "kernels[2]: a number is not between 0 and"),
    (("kernels", 2, "launches", 0, "line"), True, "kernels[2]: True is not a number"),
    (("kernels", 2, "kind"), "fast", "kernels[2]: 'fast' is not a valid KernelKind"),
    (("kernels", 2, "compile_id"), [0, 0], "kernels[2]: "),
    (("compilations", 0, "seconds"), HUGE, "compilations[0]: a number is not between"),
    (("compilations", 0, "started"), 1e18, "compilations[0]: a number is not between"),
    (("spans", 5), None, "spans[5]: None is not an object for Span"),
    (("autotunes",), {"op": "mm"}, "autotunes[0]: {'op': 'mm'} is not an array"),
    (("environment", "argv"), 3, "environment[0]: 3 is not an array"),
]


@pytest.mark.parametrize(
    ("place", "value", "said"), SAVED, ids=[f"{'.'.join(map(str, row[0]))}-{row[1]!s:.6}" for row in SAVED]
)
def test_of_a_saved_recording_it_costs_one_value(place: Sequence[Any], value: Any, said: str) -> None:
    data = json.loads(json.dumps(packed(whole(GPT))))
    event = Event("lens.recording", 1.0, meta=with_value(data, place, value))
    found, name = fold([event]), place[0]
    (problem,) = found.problems
    assert (problem.where, problem.message[: len(said)]) == ("lens.recording", said)
    kept, before = getattr(found, name), getattr(whole(GPT), name)
    if len(place) > 1 and name != "environment":
        assert kept == before[: place[1]] + before[place[1] + 1 :]
    others = {*Recording.__struct_fields__} - {name, "problems"}
    assert {field for field in others if getattr(found, field) != getattr(whole(GPT), field)} == set()
    with pytest.raises(CaptureError, match="recording"):
        fold([event], strict=True)


def test_a_saved_recording_with_a_problem_of_its_own_is_read_strictly(tmp_path: Path) -> None:
    save(fold(damaged(e, TEXT, "x") if e.name == "aot_joint_graph" else e for e in events(GPT)), tmp_path / "a.clens")
    assert [problem.where for problem in load(tmp_path / "a.clens", strict=True).problems] == ["aot_joint_graph"]
    assert all(graph.stage is not GraphStage.AOT_JOINT for graph in load(tmp_path / "a.clens").graphs)
