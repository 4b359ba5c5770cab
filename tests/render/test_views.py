"""The views behind the report, in the terminal and as JSON."""

import json
import re

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.program.select import EVERYTHING, Selection, select_ids
from compiler_lens.recording.codec import plain
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CacheLayer,
    CacheOutcome,
    CacheResult,
    GraphStage,
    KernelKind,
    Outcome,
    Recording,
    SourceFile,
    SourceLine,
    Trust,
)
from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.views.registry import FORMAT, VIEWS
from compiler_lens.views.text import one_line

WHOLE = [one.name for one in VIEWS if one.name != "kernel"]
FIRST = Selection(ids=frozenset({samples.compile_id(0)}))
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def shown(recording, name, selection=EVERYTHING, *, width=80, color=False):
    return view(recording, name, page_for(recording, width=width, color=color), selection)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("make", [samples.broken, samples.hostile, samples.empty])
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("selection", [EVERYTHING, FIRST])
def test_every_view_fits_the_page_and_is_harmless(make, name, width, selection):
    recording = make()
    to_copy = {"compiler-lens show", "https://", *(one_line(kernel.name) for kernel in recording.kernels)}
    for line in shown(recording, name, selection, width=width).splitlines():
        assert line.isprintable()
        assert len(line) <= width or any(text in line for text in to_copy)


@pytest.mark.parametrize("name", WHOLE)
def test_colours_change_nothing_but_colours(name):
    coloured = shown(samples.broken(), name, color=True)
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == shown(samples.broken(), name).splitlines()


@pytest.mark.parametrize("name", WHOLE)
def test_an_empty_recording_says_so_in_every_view(name):
    assert shown(Recording(), name).strip()


def test_breaks_have_cause_advice_link_and_the_way_there():
    text = shown(samples.broken(), "breaks")
    for part in (
        "model.py:28 in search",
        "if x.sum() > i:",
        "why      The branch depends on a tensor's value",
        "effect   1 function runs entirely in eager.",
        "change   Compute both sides and choose with `torch.where`",
        "gb/gb0170.html",
        "then     graph break in loop (GB7000)",
        "called   train.py:34 main  loss = compiled(batch).sum()",
        "inside   logging/__init__.py:2087 info  root.info(msg)",
        "in       [2/0], [1/0]",
    ):
        assert part in text


def test_the_way_through_libraries_is_told_without_torchs_machinery():
    def step(file, line, function):
        return SourceLine(file, line, function, f"{function}()")

    package = "/venv/lib/python3.11/site-packages/"
    stack = (
        samples.CALLED,
        step(package + "torch/nn/modules/module.py", 1789, "_call_impl"),
        step("/src/compiler_lens/capture/hooks.py", 54, "hooked"),
        step(package + "transformers/models/gpt2/modeling_gpt2.py", 700, "forward"),
        step(package + "transformers/modeling_utils.py", 4769, "loss_function"),
    )
    event = replace(samples.graph_break(0, samples.PRINTING, 1, ""), user_stack=stack)
    text = shown(Recording(graph_breaks=(event,)), "breaks", width=120)
    assert "train.py:34 in main" in text
    assert "inside   transformers/modeling_utils.py:4769 loss_function" in text
    assert "_call_impl" not in text
    assert "hooked" not in text


def test_a_graph_is_shown_as_the_code_that_torch_printed_never_cut():
    recording = samples.clean()
    selection = Selection(ids=frozenset({samples.compile_id(0)}), stage=GraphStage.DYNAMO)
    code = next(g.code for g in recording.graphs if g.stage is GraphStage.DYNAMO)
    assert shown(recording, "graphs", selection, width=40).partition("\n")[2].strip() == code.strip()


def test_the_stages_of_a_compilation_have_counts_decompositions_and_saved_tensors():
    text = shown(samples.clean(), "graphs", FIRST)
    assert re.search(r"forward +63 +61 +mul .61", text)
    assert "layer_norm → var_mean, sub, rsqrt, mul\n      backward: native_layer_norm_backward" in text
    assert "1 tensor (16.0 KiB), and keeps 1 input alive" in text


def test_a_kernel_is_shown_with_what_it_computes_and_its_source():
    text = shown(samples.clean(), "kernel", Selection(kernel="cpp_fused_add_mul_1"))
    assert "computes 2 ops, known from the compiler itself" in text
    assert "model.py:12" in text
    assert "line 31: (arg0_1, buf0)  grid 64" in text
    assert 'extern "C" void cpp_fused_add_mul_1(const float* in, float* out)' in text


def test_what_only_the_generated_code_tells_of_a_kernel_is_called_approximate():
    exact, *others = samples.clean().kernels
    doubtful = replace(exact, name="cpp_doubtful", trust=Trust.TEXT)
    for kernels, told in (((doubtful,), "their ops"), ((doubtful, exact, *others), "the ops of 1")):
        text = shown(replace(samples.clean(), kernels=kernels), "kernels", width=120)
        assert f"  {told} are approximate: read from comments in the generated code\n" in text
        assert text.count(", approximate\n") == 1
        assert text.partition("  cpp_doubtful")[2].split("\n")[1].endswith(", approximate")
    assert "approximate" not in shown(samples.clean(), "kernels")
    one = shown(replace(samples.clean(), kernels=(doubtful,)), "kernel", Selection(kernel="cpp_doubtful"))
    assert re.search(r"computes \d+ ops?, approximate: read from comments in the generated code", one)


def test_kernel_names_stand_whole_in_the_list_at_any_width():
    for kernel in samples.clean().kernels:
        assert f"  {kernel.name}\n" in shown(samples.clean(), "kernels", width=40)


def test_a_triton_kernel_has_its_configs_with_the_chosen_one():
    kernel = samples.triton_kernel()
    text = shown(replace(samples.clean(), kernels=(kernel,)), "kernel", Selection(kernel=kernel.name))
    assert re.search(r"XBLOCK=256, num_warps=4 +8.2 µs +24 +0 +0 B +chosen", text)
    assert "@triton.jit" in text


def test_source_of_a_megabyte_line_is_whole_and_highlighted_code_is_the_same_code():
    kernel = samples.kernel(samples.compile_id(0), "long", ("aten.add.Tensor",), source="x" * 1_000_000)
    assert "x" * 1_000_000 in shown(
        replace(samples.clean(), kernels=(kernel,)), "kernel", Selection(kernel="long"), color=True
    )
    short = samples.triton_kernel()
    coloured = shown(replace(samples.clean(), kernels=(short,)), "kernel", Selection(kernel=short.name), color=True)
    assert short.source.strip() in ANSI.sub("", coloured)
    assert "\x1b" in coloured.partition("@triton")[2]


def test_recompiles_tell_the_values_as_a_series():
    """Of several classes of causes as one, in the order in which they came, and alike in each view."""
    for name in ("recompiles", "findings", "report"):
        made = report(samples.broken(), width=120) if name == "report" else shown(samples.broken(), name, width=120)
        told = " ".join(made.split())
        assert "lr.shape[0]" in told
        assert "0 → 1 → 2 → 3 → 4 → … → 7 → 8" in told
        assert "(size, a size of 0 or 1)" in told
        assert "2 → 3 → 4 → 5" not in told


def test_guards_stand_beside_the_line_that_asked_for_them():
    assert re.search(r"TENSOR_MATCH +check_tensor.* model.py:12", shown(samples.clean(), "guards", FIRST))


def test_a_function_is_shown_with_the_parts_it_fell_into():
    text = shown(samples.broken(), "frames")
    assert re.search(r"\n  step +model.py:11 +compiled in 2 parts\n", text)
    assert re.search(r"\n      \[1/0\] +from its start +compiled +1 graph break\n", text)
    assert re.search(r"\n      \[3/0\] +after line 18 +compiled\n", text)
    assert "Passed over  1 frame of libraries" in text


def test_functions_stand_the_worst_first_each_with_why_it_is_not_compiled():
    text = shown(samples.broken(), "frames")
    assert re.findall(r"\n  (\w+) +model.py:\d+", text) == [
        "strict", "schedule", "search", "step", "helper", "constants",
    ]  # fmt: skip
    assert re.search(r"strict +model.py:16 +failed +\[6/0\]\n +model.py:71: Failed to trace", text)
    assert re.search(r"schedule .* anything new +\[5/0\] .9\n +recompiled 8 times: `lr.shape", text)
    assert re.search(r"search .* eager +\[4/0\]\n +break 1: The branch depends on a tensor's value", text)
    assert re.search(r"constants .* nothing to compile +\[7/0\]\n\n", text)
    assert re.search(r"GPT .* one graph, no breaks ", text)


def test_functions_of_one_reason_name_it_once_and_library_functions_come_last():
    both = [
        samples.compilation(1, function="search", outcome=Outcome.SKIPPED),
        samples.compilation(2, function="again", line=30, outcome=Outcome.SKIPPED),
        samples.compilation(
            3, function="forward", file="/v/site-packages/timm/levit.py", line=3, outcome=Outcome.FAILED
        ),
    ]
    events = [
        samples.graph_break(i, samples.BRANCHING, 28, "if x:", BreakOutcome.SKIPPED_FRAME, function="search")
        for i in (1, 2)
    ]
    text = shown(Recording(compilations=tuple(both), graph_breaks=tuple(events)), "frames")
    assert text.count("The branch depends on") == 1
    assert "      break 1, as above\n" in text
    assert text.index("again") < text.index("Functions of libraries") < text.index("forward")


def test_what_runs_eagerly_of_a_function_is_told_by_its_lines():
    body = "\n".join(["def search(x):", *("    x = x + 1" for _ in range(30)), ""])
    event = samples.graph_break(1, samples.BRANCHING, 28, "if x:", BreakOutcome.SKIPPED_REST, function="search")
    recording = Recording(
        compilations=(samples.compilation(1, function="search", line=1),),
        graph_breaks=(event,),
        sources=(SourceFile(samples.MODEL, body),),
    )
    assert "partly eager: lines 28-31" in shown(recording, "frames")
    assert "partly eager: lines 28 on" in shown(replace(recording, sources=()), "frames")


def test_the_eager_lines_of_several_breaks_are_told_as_the_stretches_that_they_make():
    compilation = samples.compilation(1, function="search", line=1)
    body = "\n".join(["def search(x):", *("    x = x + 1" for _ in range(9)), ""])
    events = [
        samples.graph_break(1, samples.BRANCHING, line, "if x:", BreakOutcome.SKIPPED_REST, function="search")
        for line in (8, 4)
    ]
    made = Recording(
        compilations=(compilation,), graph_breaks=tuple(events), sources=(SourceFile(samples.MODEL, body),)
    )
    assert "partly eager: lines 4-10\n" in re.sub(r" +\[1/0\]", "", shown(made, "frames"))
    assert "partly eager: lines 4 on\n" in re.sub(r" +\[1/0\]", "", shown(replace(made, sources=()), "frames"))


def test_a_function_with_nothing_to_compile_needs_no_reason_and_a_skipped_one_has_its_card():
    empty = samples.compilation(1, function="constants", outcome=Outcome.EMPTY, reason="No ops traced")
    assert "No ops traced" not in shown(Recording(compilations=(empty,)), "frames")
    at = SourceLine(samples.MODEL, 28, "search", "if x:")
    skipped = samples.compilation(
        2, function="search", outcome=Outcome.SKIPPED, failure=samples.IN_LOOP, failure_line=at
    )
    event = samples.graph_break(2, samples.BRANCHING, 28, "if x:", BreakOutcome.SKIPPED_FRAME, function="search")
    text = shown(Recording(compilations=(skipped,), graph_breaks=(event,)), "frames")
    assert "break 1: The branch depends" in text
    assert "graph break in loop" not in text


def test_calls_of_what_is_disabled_on_purpose_are_listed_with_their_code():
    cause = BreakCause("Skip calling `torch.compiler.disable()`d function", explanation="it is disabled")
    event = samples.graph_break(1, cause, 28, "y = plot(x)", function="search")
    text = shown(Recording(compilations=(samples.compilation(1, function="search"),), graph_breaks=(event,)), "frames")
    assert re.search(r"Disabled on purpose  1 call .*\n  model.py:28  y = plot\(x\)\n", text)


def test_autotuning_shows_the_margin_and_what_failed():
    text = shown(samples.broken(), "autotune", width=120)
    assert "the winner 1.56 times faster than the next" in text
    assert re.search(r"triton_mm_9 +template +failed +out of shared memory", text)


def test_the_time_that_a_cache_saved_is_an_estimate_for_each_hit_and_never_a_sum():
    owner = samples.compile_id(0)
    hits = tuple(
        CacheOutcome(owner, layer, CacheResult.HIT, key="k", seconds_saved=saved)
        for layer, saved in ((CacheLayer.AOT_AUTOGRAD, 3.5), (CacheLayer.FX_GRAPH, 3.0))
    )
    text = shown(Recording(caches=hits), "caches")
    assert "est. saved" in text.splitlines()[1]
    assert re.search(r"AOTAutograd +hit +k +3\.50? s\n", text)
    assert "these times do not add up" in " ".join(text.split())
    assert "6.5" not in text + view_json(Recording(caches=hits), "caches")
    without = replace(samples.empty(), caches=(replace(hits[0], seconds_saved=None),))
    assert "add up" not in " ".join(shown(without, "caches").split())


def test_a_compile_id_narrows_every_view():
    nothing = Selection(ids=select_ids(samples.broken(), "7/0"))
    assert shown(samples.broken(), "breaks", nothing) == "No graph breaks.\n"
    assert shown(samples.broken(), "recompiles", nothing) == "No recompiles.\n"
    assert shown(samples.broken(), "kernels", nothing) == "No kernels.\n"


@pytest.mark.parametrize("name", ["report", *WHOLE])
@pytest.mark.parametrize("make", [samples.clean, samples.broken, samples.empty, samples.hostile])
@pytest.mark.parametrize("selection", [EVERYTHING, FIRST])
def test_every_view_is_json_that_names_its_format(name, make, selection):
    text = view_json(make(), name, selection)
    document = json.loads(text)
    assert (document["format"], document["view"]) == (FORMAT, name)
    assert text.isascii()


def test_json_keeps_every_raw_break():
    document = json.loads(view_json(samples.many(100), "breaks"))
    assert document["count"] == sum(len(card["events"]) for card in document["cards"]) == 100


def test_json_has_the_facts_that_the_screen_folds():
    kernel = json.loads(view_json(samples.clean(), "kernel", Selection(kernel="cpp_fused_add_mul_1")))["kernels"][0]
    assert kernel["kind"] == KernelKind.CPP.value
    assert kernel["compile_id"] == "0/0"
    assert kernel["launches"][0]["arguments"] == ["arg0_1", "buf0"]
    report = json.loads(view_json(samples.broken()))
    assert report["coverage"]["counts"] == {"compiled": 4, "skipped": 1, "recompile_limit": 1, "failed": 1, "empty": 1}
    assert [finding["kind"] for finding in report["findings"]][:2] == ["frame-failed", "graph-break"]
    assert [finding["rule"] for finding in report["findings"]][:2] == ["frame-failed", "GB0170"]
    assert report["findings"][1]["advice"]["subject"] == f"{samples.MODEL}:28"
    assert report["counts"]["recompiles"] == len(samples.broken().recompiles)


def test_numbers_that_json_cannot_write_are_null():
    assert plain({"a": float("nan"), "b": (float("inf"), 1.5)}) == {"a": None, "b": [None, 1.5]}
