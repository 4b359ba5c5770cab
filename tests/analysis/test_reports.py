"""Reports of recompiles: classes of causes, names, values, fixes; on real torch, from files, and by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens import Lens, load
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.uses import makes_text
from compiler_lens.facts.recompiles.fixes import CauseClass, fix_table
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    GraphStage,
    Guard,
    GuardFailure,
    Outcome,
    Recompile,
    Recording,
    SourceFile,
    SourceLine,
    Symbol,
)
from compiler_lens.recording.source_text import Sources
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.views.advice import changed

torch = pytest.importorskip("torch")
from recompile_scenes import SCENES, Encoder, compiled, indexed, plus_one, scaled, selected  # noqa: E402

every_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
BACKEND_TOLD = "backend" if torch.__version__ < "2.12" else ""  # torch 2.11 does not say which backend it was


def recorded(run) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        run()
    return lens.recording


def values(cause) -> str:
    return " -> ".join((s.value or "?") + (f" x{s.times}" if s.times > 1 else "") for s in cause.series)


def causes(recording) -> list:
    return [cause for report in recompile_reports(recording) for cause in report.causes]


def told(recording) -> list[tuple[CauseClass, str, str]]:
    return [(cause.cause, cause.subject, values(cause)) for cause in causes(recording)]


# -- every class of cause, on real torch


@every_scene
def test_a_cause_has_its_class_its_name_and_its_values(scene):
    recording = recorded(scene.run)
    series = scene.series
    if scene.name == BACKEND_TOLD:
        series = ""
    if scene.name == "identity" and torch.__version__ < "2.12":  # which prints the object, not its type
        assert (scene.cause, scene.subject) in [(cause, subject) for cause, subject, _ in told(recording)]
    elif scene.name == "callable" and torch.__version__ < "2.12":
        assert scene.cause is told(recording)[0][0]
    elif scene.name == "exponent" and torch.__version__ < "2.12":  # which has the last value, too
        assert (scene.cause, scene.subject, series.replace("?", "0.3")) in told(recording)
    else:
        assert (scene.cause, scene.subject, series) in told(recording)
    assert sum(report.recompiles for report in recompile_reports(recording)) == len(recording.recompiles)
    for cause in causes(recording):
        assert "{" not in cause.fix.change
        assert cause.fix.why.endswith(".")
        assert cause.fix.leave.endswith(".")
        assert "___" not in cause.fix.why + cause.fix.change + cause.subject


@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene.mended], ids=lambda scene: scene.name)
def test_what_a_fix_says_ends_the_recompiles(scene):
    assert recorded(scene.mended).recompiles == ()


def test_every_class_has_a_fix_and_all_but_other_are_provoked_here():
    assert set(fix_table().of_class) == set(CauseClass)
    assert set(CauseClass) - {scene.cause for scene in SCENES} == {CauseClass.OTHER, CauseClass.TORCH_ERROR}


def test_no_fix_takes_a_gradient_away():
    assert not [cause for cause, fix in fix_table().of_class.items() if "detach" in fix.change]


@pytest.mark.parametrize(
    "scene", [one for one in SCENES if one.cause.name.startswith("INFERENCE")], ids=lambda one: one.name
)
def test_recompiles_of_inference_mode_say_so_and_offer_nothing_but_the_same_mode(scene):
    (cause,) = causes(recorded(scene.run))
    assert "torch.inference_mode()" in cause.fix.why
    assert "always under the same mode" in cause.fix.change
    assert "resolve_" not in cause.fix.change
    assert "no_grad" not in cause.fix.change


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("counter", '`self.register_buffer("step", torch.tensor(0), persistent=False)`'),
        ("in_dict", "`self.stats['calls'] = torch.tensor(0)` before the first call"),
        ("in_object", "`self.progress.step = torch.tensor(0)` before the first call"),
        ("in_list", "`self.seen[0] = torch.tensor(0)` before the first call"),
        ("no_module", "Pass it as a tensor argument"),
    ],
)
def test_only_an_attribute_of_a_module_is_to_be_a_buffer(name, said):
    (cause,) = causes(recorded(next(scene.run for scene in SCENES if scene.name == name)))
    assert said in cause.fix.change
    assert ("register_buffer" in cause.fix.change) is (name == "counter")


def test_keys_that_nothing_takes_away_have_no_offer_that_does():
    made = [Compilation(CompileId(0, i), "forward", "/app/model.py", 12, Outcome.COMPILED) for i in (0, 1)]
    said = "tensor 'x' dispatch key set mismatch. expected {}, actual {}"
    keys = "DispatchKeySet(CPU, AutogradCPU)", "DispatchKeySet(CPU, AutogradCPU, FuncTorchGradWrapper)"
    failure = GuardFailure("0/0", said.format(*keys), "L['x']", *keys)
    (cause,) = causes(Recording(compilations=tuple(made), recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    assert (cause.cause, values(cause)) == (CauseClass.DISPATCH_KEYS, "plain -> FuncTorchGradWrapper")
    assert cause.fix.change == "Pass the same kind of tensor as x at every call."


def test_none_or_a_tensor_is_no_bool():
    (cause,) = causes(recorded(next(scene.run for scene in SCENES if scene.name == "none")))
    assert changed(cause) == "`bias` changed (None or a tensor): None → Tensor"


# -- reports


@pytest.mark.parametrize(
    ("code", "is_counted"),
    [
        ("self.calls += 1", True),
        ("self.calls = self.calls + 1", True),
        ("y = x * self.calls", False),
        ("if self.calls == 1:", False),
        ("calls = self.calls", False),
    ],
)
def test_what_the_function_changes_itself_is_never_fine(code, is_counted):
    line = SourceLine("/app/model.py", 14, "forward", code)
    made = [Compilation(CompileId(0, i), "forward", "/app/model.py", 12, Outcome.COMPILED) for i in (0, 1)]
    failure = GuardFailure("0/0", "self.calls == 1", "self.calls", "1", "2", (line,))
    (cause,) = causes(Recording(compilations=tuple(made), recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    assert cause.benign != is_counted
    assert ("brings another one" in cause.fix.why) == is_counted


def test_what_a_break_hands_over_is_the_breaks():
    """The value of the line that breaks is gone when the rest of the function has run: nobody could keep it."""
    text = "Cache line invalidated because L['___stack0'] got deallocated"
    name = "torch_dynamo_resume_in_step_at_37"
    made = [Compilation(CompileId(4, i), name, "/app/model.py", 37, Outcome.COMPILED) for i in (0, 1)]
    failure = GuardFailure("4/0", text, "L['___stack0']", "", "")
    run = Recording(compilations=tuple(made), recompiles=(Recompile(CompileId(4, 1), (failure,)),))
    (cause,) = causes(run)
    assert cause.fix.change.startswith("Mend the graph break at line 37:")


def test_a_counter_that_reaches_the_limit_is_one_report_with_one_cause():
    (scene,) = (s for s in SCENES if s.name == "counter")
    (report,) = recompile_reports(recorded(scene.run))
    assert report.function.name == "Counter.forward"
    assert (report.compilations, report.recompiles, len(report.causes)) == (8, 8, 1)
    assert report.limit == CompileId(0, 8)
    assert report.causes[0].line.code == "self.step += 1"
    assert not report.benign


def clipped(ratio, gain, clip):
    return -torch.min(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain).mean()


def test_a_float_that_another_one_follows_in_each_call_is_to_be_a_tensor():
    """What the line computes of it is asked for (`(1.0 + clip) == 1.25`), and is a number all the same."""

    def run(make):
        function = torch.compile(clipped, backend="aot_eager")
        for update in range(5):
            function(torch.ones(3, requires_grad=True), torch.ones(3), make(0.2 * (1 - update / 5)))

    (report,) = recompile_reports(recorded(lambda: run(float)))
    (cause,) = report.causes
    assert (cause.cause, cause.subject, cause.count) == (CauseClass.FLOAT_ARGUMENT, "clip", 4)
    is_of_the_line = torch.__version__ > "2.12"  # before, it is the number itself
    assert cause.changes[1].decided.failed.old.startswith("1.0 + clip = " if is_of_the_line else "0.16")
    assert cause.fix.change.startswith("Pass it as a tensor: `torch.tensor(clip)`.")
    assert not recompile_reports(recorded(lambda: run(torch.tensor)))


def test_two_causes_in_turn_are_two_causes():
    def run():
        f = compiled(scaled)
        f(torch.ones(3), 0.5)
        f(torch.ones(4), 0.5)
        f(torch.ones(4), 0.25)
        f(torch.ones(4).double(), 0.25)

    benign = {CauseClass.SIZE: True, CauseClass.FLOAT_ARGUMENT: True, CauseClass.DTYPE: False}
    assert {cause.cause: cause.benign for cause in causes(recorded(run))} == benign


def test_one_recompile_to_learn_that_a_size_varies_is_benign_and_a_second_for_one_of_one_too():
    (report,) = recompile_reports(recorded(lambda: [compiled(plus_one)(torch.ones(n, 3)) for n in (8, 4, 2, 1)]))
    # They stand by the seconds that they took.
    assert {c.cause: values(c) for c in report.causes} == {
        CauseClass.BATCH_SIZE: "8 -> 4",
        CauseClass.ZERO_ONE: "4 -> 1",
    }
    assert report.benign


def test_the_entry_that_came_closest_decides_not_the_newest():
    """The newest entry is for no_grad and fails on that; the one for this grad mode fails on the size."""

    def run():
        f = compiled(plus_one)
        f(torch.ones(3, 3))
        with torch.no_grad():
            f(torch.ones(3, 3))
        f(torch.ones(4, 3))

    found = causes(recorded(run))
    assert {c.cause for c in found} == {CauseClass.GRAD_MODE, CauseClass.BATCH_SIZE}
    assert found == sorted(found, key=lambda cause: -cause.seconds)  # both are benign


def deciding(failures, *guards, modules=("", "", "")):
    """The subject of the third compilation of a frame, which two entries did not fit."""
    made = [
        Compilation(CompileId(0, i), "inner", WRAPPER, 67, Outcome.COMPILED, module=module)
        for i, module in enumerate(modules)
    ]
    told = tuple(GuardFailure(f"0/{i}", f"{name} == {old}", name, old) for i, name, old in failures)
    held = tuple(Guard(CompileId(0, i), "EQUALS_MATCH", f"L['{n}'] == {v}", f"L['{n}']") for i, n, v in guards)
    recording = Recording(compilations=tuple(made), recompiles=(Recompile(CompileId(0, 2), told),), guards=held)
    return [cause.subject for cause in causes(recording)]


def test_an_entry_whose_wish_another_entry_fulfils_does_not_decide():
    """The newest wants 'b', but the entry for 'a' is there and fails on the flag."""
    failures = [(1, "mode", "'b'"), (0, "flag", "True")]
    assert deciding(failures) == ["mode"]
    assert deciding(failures, (2, "mode", "'a'"), (2, "flag", "False"), (0, "mode", "'a'")) == ["flag"]


def of_lists(rows, past):
    """The first step of a decoder has no cache, the others a list of tensors: what a compilation for one asks."""
    cache = (f"___check_type_id(L['past'], 7), type=<class '{past}'>", "TYPE_MATCH")
    return [TENSOR.format(name="ids", rows=rows), cache if past != "None" else ("L['past'] is None", "NONE_MATCH")] + (
        [TENSOR.format(name="past[0]", rows=rows)] if past == "list" else []
    )


TENSOR = (
    "check_tensor(L['{name}'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
    "size=[{rows}, 3], stride=[3, 1])"
)


def of_calls(*calls, failures):
    """Compilations for (rows, class of `past`) in order, each with what its entries failed on."""
    made = [Compilation(CompileId(0, i), "step", "/app/model.py", 12, Outcome.COMPILED) for i in range(len(calls))]
    guards = []
    for compilation, (rows, past) in zip(made, calls, strict=True):
        for said in of_lists(rows, past):
            text, kind = said if isinstance(said, tuple) else (said, "TENSOR_MATCH")
            guards.append(Guard(compilation.compile_id, kind, text, text[text.index("L[") : text.index("]") + 1]))
    recompiles = tuple(Recompile(CompileId(0, i), told) for i, told in enumerate(failures, 1))
    return Recording(compilations=tuple(made), guards=tuple(guards), recompiles=recompiles)


def rows_of(entry, name, old, new):
    text = f"tensor '{name}' size mismatch at index 0. expected {old}, actual {new}"
    return GuardFailure(entry, text, name, str(old), str(new))


def is_none(entry):
    return GuardFailure(entry, "past is None", "past", "None", "")


def is_list(entry):
    return GuardFailure(entry, "___check_type_id(past, 7), type=<class 'list'>", "past", "<class 'list'>", "")


def test_an_entry_that_could_never_have_fitted_does_not_decide():
    """Prefill has no cache and decode has one: what changed is the batch, for one and then for the other."""
    run = of_calls(
        (2, "None"), (2, "list"), (4, "None"), (4, "list"),
        failures=(
            (is_none("0/0"),),
            (is_list("0/1"), rows_of("0/0", "ids", 2, 4)),
            (is_none("0/2"), rows_of("0/1", "past[0]", 2, 4), is_none("0/0")),
        ),
    )  # fmt: skip
    assert told(run) == [
        (CauseClass.BATCH_SIZE, "ids.shape[0]", "2 -> 4"),
        (CauseClass.BOOL_OR_NONE, "past", "None -> list"),
    ]


def test_two_classes_are_named():
    run = of_calls((2, "list"), (2, "dict"), failures=((is_list("0/0"),),))
    (cause,) = causes(run)
    assert cause.cause is CauseClass.OBJECT_TYPE
    assert cause.fix.change == "Pass past as the same class at every call: it was list and dict."


def test_an_entry_of_another_module_does_not_decide():
    failures = [(1, "mode", "'b'"), (0, "flag", "True")]
    assert deciding(failures, modules=("A", "B", "A")) == ["flag"]


def test_breaks_that_come_again_with_each_recompile_are_counted():
    def breaking(x, mode):
        y = x + 1 if mode else x - 1
        torch._dynamo.graph_break()
        return y * 2

    (report,) = recompile_reports(recorded(lambda: [compiled(breaking)(torch.ones(3), m) for m in (True, False, None)]))
    assert (report.recompiles, report.repeats_breaks) == (2, 2)


def test_a_rest_behind_a_break_belongs_to_its_function():
    def breaking(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * x

    (report,) = recompile_reports(recorded(lambda: [compiled(breaking)(torch.ones(n, 3)) for n in (3, 4)]))
    assert (report.parts, report.recompiles, report.compilations) == (2, 2, 4)
    assert [(c.subject, values(c)) for c in report.causes] == [("x.shape[0]", "3 -> 4")]
    assert report.benign  # once for each part


def test_the_seconds_are_those_of_the_recompiles():
    recording = recorded(lambda: [compiled(plus_one)(torch.ones(n, 3)) for n in (8, 4)])
    (report,) = recompile_reports(recording)
    assert report.seconds == recording.compilations[1].seconds


# -- names


def test_a_librarys_module_has_the_names_of_its_forward():
    def run():
        model = compiled(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()))
        for n in (5, 7):
            model(torch.ones(n, 4))

    (report,) = recompile_reports(recorded(run))
    assert (report.function.name, report.causes[0].subject) == ("Sequential.forward", "input.shape[0]")
    assert "maybe_mark_dynamic(input, 0)" in report.causes[0].fix.change


def test_a_value_inside_of_a_librarys_layer_points_to_the_users_line():
    (cause,) = causes(recorded(lambda: [compiled(Encoder())(torch.ones(2, n, 4)) for n in (5, 7)]))[:1]
    assert cause.line.code == "return self.lin(hidden) * (1 if mask is None else mask)"
    assert Path(cause.line.file).is_absolute()


WRAPPER = "/venv/lib/python3.11/site-packages/torch/_dynamo/external_utils.py"
MODEL = "/app/model.py"
SOURCE = SourceFile(MODEL, "class Model:\n    def forward(self, input_ids, mask=None):\n        return input_ids + 1\n")


def by_hand(text, source, new="7", **compilation):
    """A recording of torch's wrapper around a module, compiled twice."""
    fields = {"function": "inner", "file": WRAPPER, "line": 67, "outcome": Outcome.COMPILED}
    made = [Compilation(CompileId(0, i), **(fields | compilation)) for i in (0, 1)]
    recompile = Recompile(CompileId(0, 1), (GuardFailure("0/0", text, source, "5", new),))
    return Recording(compilations=tuple(made), recompiles=(recompile,), sources=(SOURCE,))


SIZE = "tensor 'args[0]' size mismatch at index 0. expected 5, actual 7"


def test_arguments_of_the_wrapper_are_told_by_place_where_nobody_knows_their_names():
    (cause,) = causes(by_hand(SIZE, "args[0]"))
    assert cause.subject == "shape[0] of the first argument (args[0])"
    assert "mark_dynamic(<first argument>, 0)" in cause.fix.change


def test_arguments_of_the_wrapper_have_the_names_that_were_recorded():
    (cause,) = causes(by_hand(SIZE, "args[0]", parameters=("input_ids", "mask")))
    assert cause.subject == "input_ids.shape[0]"


def test_arguments_of_the_wrapper_are_looked_up_at_the_line_where_the_frame_was_traced():
    graph = replace(samples.clean().graphs[0], stage=GraphStage.DYNAMO, compile_id=CompileId(0, 0))
    line = SourceLine(MODEL, 3, "forward", "return input_ids + 1")
    graph = replace(graph, nodes=tuple(replace(node, source=(line,)) for node in graph.nodes))
    recording = replace(by_hand(SIZE, "args[0]"), graphs=(graph,))
    assert [c.subject for c in causes(recording)] == ["input_ids.shape[0]"]


@pytest.mark.parametrize(
    ("text", "source", "subject"),
    [
        ("kwargs['input_ids'] is None", "kwargs['input_ids']", "input_ids"),
        ("fn._modules['attn'].processor == 3", "fn._modules['attn'].processor", "self.attn.processor"),
        ("fn._modules['layers']._modules['0'].index == 3", "fn._modules['layers']._modules['0'].index", "self.layers[0].index"),
        ("fn.__dict__['_modules']['a'].x == 3", "fn.__dict__['_modules']['a'].x", "self.a.x"),
        ("G['__import_torch_dot_nn'].x == 3", "G['__import_torch_dot_nn'].x", "global torch.nn.x"),
        ("len(kwargs['cache']) == 3", "len(kwargs['cache'])", "len(cache)"),
        ("2 <= args[0].size()[1]", "args[0].size()[1]", "shape[1] of the first argument (args[0])"),
        ("list(dict.keys(kwargs['d']))[0] == 'a'", "list(dict.keys(kwargs['d']))[0]", "the keys of d"),
        ("KeyError on kwargs['cfg']['a']", "kwargs['cfg']['a']", "cfg['a']"),
        ("___as_tensor(kwargs['lr']) == 3", "___as_tensor(kwargs['lr'])", "lr"),
        ("dict.__getitem__(kwargs['d'], 'a') == 3", "dict.__getitem__(kwargs['d'], 'a')", "d['a']"),
        ("___tuple_iterator_getitem(kwargs['it'], 0) == 3", "___tuple_iterator_getitem(kwargs['it'], 0)", "it"),
        ("___namedtuple_fields(kwargs['c'])[0] == 'a'", "___namedtuple_fields(kwargs['c'])[0]", "c._fields[0]"),
        ("___as_tensor(___as_tensor(kwargs['f'](1, 2))) == 3", "___as_tensor(___as_tensor(kwargs['f'](1, 2)))", "f(1, 2)"),
        ("___implicit0 == 3", "___implicit0", "a value that torch does not name"),
        ("SYNTHETIC_LOCAL['tmp_0'] == 3", "SYNTHETIC_LOCAL['tmp_0']", "a value that torch does not name"),
    ],
)  # fmt: skip
def test_torchs_names_become_the_authors(text, source, subject):
    assert [c.subject for c in causes(by_hand(text, source))] == [subject]


INDUCTOR = "_TorchCompileInductorWrapper (id=0x7f20)"
CHANGED_BACKEND = (
    "BACKEND_MATCH failure: different backend callables. Cached backend: {}. New backend: {}. If this is unexpected"
)


@pytest.mark.parametrize(
    ("old", "new", "series"),
    [
        (INDUCTOR, "_TorchCompileWrapper(compiler='eager', dynamic=None) (id=0x7f)", "inductor -> eager"),
        ("_TorchCompileWrapper(compiler='eager', dynamic=True) (id=0x7f)", INDUCTOR, "eager -> inductor"),
        (INDUCTOR, "_TorchCompileInductorWrapper (id=0x7f99)", "inductor x2"),
        ("_TorchCompileAOTInductorWrapper (id=0x7f)", "<function mine at 0x7f> (id=0x7f)", "inductor -> mine"),
        ("<bound method My.compile of <My at 0x1>> (id=0x7f)", "aot_eager", "My.compile -> aot_eager"),
    ],
)
def test_a_backend_has_the_name_that_its_user_gave(old, new, series):
    text = CHANGED_BACKEND.format(old, new)
    failure = GuardFailure("0/0", text, "BACKEND_MATCH", old, new)
    recording = by_hand(text, "BACKEND_MATCH")
    (cause,) = causes(replace(recording, recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    assert (cause.cause, values(cause)) == (CauseClass.BACKEND, series)


@pytest.mark.parametrize(
    ("text", "cause", "series"),
    [
        ("'NoneType' object has no attribute 'size'", CauseClass.BOOL_OR_NONE, "with .size -> None"),
        ("AttributeError: 'list' object has no attribute 'keys'", CauseClass.OBJECT_TYPE, "with .keys -> list"),
    ],
)
def test_a_check_that_raised_is_about_a_value_and_not_about_its_message(text, cause, series):
    (found,) = causes(by_hand(text, ""))
    assert (found.subject, found.cause, values(found)) == ("a value that torch does not name", cause, series)


@pytest.mark.parametrize(
    ("names", "cause", "subject"),
    [
        ("", CauseClass.OTHER_GLOBAL_STATE, "a global setting"),
        ("num_threads", CauseClass.OTHER_GLOBAL_STATE, "num threads"),
        ("num_threads default_dtype", CauseClass.OTHER_GLOBAL_STATE, "num threads, default dtype"),
        ("grad_mode", CauseClass.GRAD_MODE, "grad mode"),
        ("autocast(cpu)_enabled", CauseClass.AUTOCAST, "autocast"),
    ],
)
def test_a_global_setting_has_its_names_or_is_told_as_what_it_is(names, cause, subject):
    (found,) = causes(by_hand(f"GLOBAL_STATE changed: {names}", names))
    assert (found.cause, found.subject) == (cause, subject)


@pytest.mark.parametrize(
    ("text", "subject", "series"),
    [
        ("check_overlapping(overlapping=[], non_overlapping=[a, b])", "the memory of a, b", "apart -> overlapping"),
        ("check_overlapping(overlapping=[a, b], non_overlapping=[c])", "the memory of a, b", ""),
        ("check_overlapping(overlapping=[kwargs['a'], b], non_overlapping=[])", "the memory of a, b", ""),
    ],
)
def test_shared_memory_is_no_argument(text, subject, series):
    recording = by_hand(text, "", new="")
    failure = replace(recording.recompiles[0].failures[0], old="True")
    (cause,) = causes(replace(recording, recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    assert (cause.cause, cause.subject, values(cause)) == (CauseClass.SHARED_MEMORY, subject, series)


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("y = measure(x)", "measure(x)"),
        ("return x.sum().item()", "the value at line 4"),
        ("y = a * measure(x)", "the value at line 4"),
        ("for x in xs:", "the value at line 4"),
    ],
)
def test_a_value_on_the_stack_has_the_name_of_the_call_that_broke(line, subject):
    source = SourceFile(MODEL, f"def f(x):\n    pass\n    pass\n    {line}\n")
    recording = by_hand("___stack0 == 5", "___stack0", function="torch_dynamo_resume_in_f_at_4", file=MODEL, line=4)
    recording = replace(recording, sources=(source,))
    assert [c.subject for c in causes(recording)] == [subject]


# -- values


def one_argument(**more):
    return replace(by_hand("k == 5", "k", "", function="f", file=MODEL, line=1), **more)


def test_a_new_value_comes_from_the_guard_of_the_new_entry():
    guard = Guard(CompileId(0, 1), "EQUALS_MATCH", "L['k'] == 9", "L['k']")
    assert told(one_argument(guards=(guard,))) == [(CauseClass.INT_ARGUMENT, "k", "5 -> 9")]


def test_or_from_the_symbol_that_it_became():
    symbol = Symbol(CompileId(0, 1), "s0", "L['k']", "9")
    assert told(one_argument(symbols=(symbol,))) == [(CauseClass.INT_ARGUMENT, "k", "5 -> 9")]


def test_a_guard_of_another_compilation_tells_nothing():
    guard = Guard(CompileId(0, 2), "EQUALS_MATCH", "L['k'] == 9", "L['k']")
    assert told(one_argument(guards=(guard,))) == [(CauseClass.INT_ARGUMENT, "k", "5 -> ?")]


# -- laws


@pytest.mark.parametrize("make", [samples.broken, samples.many, samples.hostile, samples.clean, samples.empty])
def test_every_recompile_is_in_one_cause_of_one_report(make):
    recording = make()
    inside = [change.recompile for cause in causes(recording) for change in cause.changes]
    assert sorted(map(id, inside)) == sorted(map(id, recording.recompiles))


def test_a_recompile_without_a_reason_or_a_compilation_is_told_all_the_same():
    (report,) = recompile_reports(Recording(recompiles=(Recompile(CompileId(0, 1), ()),)))
    assert (report.recompiles, report.causes[0].cause, report.causes[0].subject) == (1, CauseClass.OTHER, "")
    assert report.causes[0].fix.change.endswith("the same at every call: it gave no reason.")


def test_what_nobody_knows_is_told_in_torchs_words_where_the_advice_stands():
    failure = GuardFailure("0/0", "___new_guard(L['x'],\n  `7`)" + "." * 300)
    (report,) = recompile_reports(Recording(recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    (cause,) = report.causes
    said = "___new_guard(L['x'], '7')" + "." * 175
    assert (cause.cause, cause.fix.change) == (
        CauseClass.OTHER, f"Keep what torch names the same at every call: `{said}…`.",
    )  # fmt: skip


def test_the_work_grows_with_the_recompiles(calls_of):
    few, many = samples.many(200), samples.many(800)
    recompile_reports(few)
    assert calls_of(lambda: recompile_reports(many)) < 1.3 * 4 * calls_of(lambda: recompile_reports(few))


# -- from files

SCRIPT = """
    import sys
    import torch
    sys.path.insert(0, {folder!r})
    from recompile_scenes import SCENES
    from compiler_lens import Lens
    with Lens({path!r}, strict=True):
        for scene in SCENES:
            if scene.name in {names!r}:
                torch._dynamo.reset()
                scene.run()
"""


def test_a_saved_recording_and_torchs_own_log_tell_the_same(tmp_path):
    names = ("batch", "length", "integer", "string", "list", "cache", "counter", "grad_mode", "autocast", "stride")
    script, path = tmp_path / "script.py", str(tmp_path / "run.clens")
    folder = str(Path(samples.__file__).parent)
    script.write_text(textwrap.dedent(SCRIPT).format(folder=folder, path=path, names=names))
    environment = os.environ | {"TORCH_TRACE": str(tmp_path / "trace")}
    subprocess.run([sys.executable, str(script)], check=True, env=environment, capture_output=True)
    saved, log = load(path, strict=True), load(tmp_path / "trace", sources=Path(samples.__file__).parent)
    wanted = {(s.cause, s.subject, s.series) for s in SCENES if s.name in names}
    assert wanted <= set(told(saved))
    assert set(told(log)) == set(told(saved))
    assert len(log.recompiles) == len(saved.recompiles) > 20


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ("hasattr(o, 'w')", "o.w"),
        ("set.__contains__(seen, 'w')", "w in seen"),
        ("___dict_contains('w', known)", "'w' in known"),
    ],
)
@pytest.mark.parametrize(("was", "old", "new"), [("False", "missing", "present"), ("True", "present", "missing")])
def test_what_came_or_went_is_told_with_what_holds_it(asked, subject, was, old, new):
    failed = GuardFailure("0/0", asked, asked, was)
    both = (samples.compilation(0), samples.compilation(0, 1))
    (report,) = recompile_reports(Recording(compilations=both, recompiles=(Recompile(CompileId(0, 1), (failed,)),)))
    (cause,) = report.causes
    (change,) = cause.changes
    assert (cause.subject, change.old, change.new) == (subject, old, new)


# -- a counter in a module


class Counting(torch.nn.Module):
    """Counts its calls; what is done with the count otherwise, nothing compiled does."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = {}

    def forward(self, x):
        self.calls += 1
        return x.sin() * self.calls

    def summary(self):
        self.seen[self.calls] = f"{self.calls} calls"
        return self.seen


class Alternating(Counting):
    """Needs no more than what is made of the count."""

    def __init__(self):
        super().__init__()
        self.scales = [1.0, 2.0]

    def forward(self, x):
        self.calls += 1
        return x.sin() * self.scales[self.calls % 2]


def called(module, times=5, **options):
    model = torch.compile(module, backend="eager", **options)
    for _ in range(times):
        model(torch.ones(2))


def test_what_only_eager_methods_do_with_a_number_is_no_reason_for_recompiles():
    (cause,) = causes(recorded(lambda: called(Counting())))
    assert (cause.subject, "key of a" in cause.fix.why, "changes the value itself" in cause.fix.why) == (
        "self.calls",
        False,
        True,
    )
    assert cause.fix.setting.name == "torch._dynamo.config.allow_unspec_int_on_nn_module"


class Warns(Counting):
    """Would say its count, in a call that never comes."""

    def forward(self, x):
        self.calls += 1
        if x.shape[0] > 99:
            print(f"call {self.calls}")
        return x.sin() * self.calls


class Sliced(Counting):
    def forward(self, x):
        self.calls += 1
        return x[: self.calls].sin()


class Scheduler:
    """No module, and the name of what it indexes is a parenthesis elsewhere."""

    def __init__(self):
        sigmas = (torch.arange(8.0)) ** 2
        self.sigmas, self.index = sigmas.sqrt(), 0

    def step(self, x):
        if self.index is None:
            raise ValueError
        sigma = self.sigmas[self.index]
        self.index += 1
        return x * sigma


@pytest.mark.parametrize("made", [Warns, Sliced, Scheduler])
def test_what_the_function_counts_is_said_to_be_counted_whatever_else_it_is_used_for(made):
    """A text that is never come to pins nothing; an index of a tensor is no key of a list, and no branch on it."""
    model = made()
    counted = model.step if isinstance(model, Scheduler) else model
    (cause,) = causes(recorded(lambda: called(counted, dynamic=False)))
    assert "The compiled function changes the value itself" in cause.fix.why
    assert "part of a text" not in cause.fix.why
    assert "key of" not in cause.fix.why
    assert "decides a branch" not in cause.fix.why
    tensor = {Warns: "register_buffer", Sliced: "", Scheduler: "keep it in a tensor"}[made]
    assert tensor in cause.fix.change
    assert ("bounds a slice, so no tensor can take its place" in cause.fix.why) is (made is Sliced)
    assert ("allow_unspec_int_on_nn_module" in cause.fix.change) is (made is not Scheduler)


class Running(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0.5

    def forward(self, x):
        total = self.count + x.shape[0]
        x = x * (self.count / total)
        self.count = total
        return x


class Held(Running):
    """Keeps the same in a dict."""

    def __init__(self):
        super().__init__()
        self.count = {"seen": 0.5}

    def forward(self, x):
        total = self.count["seen"] + x.shape[0]
        x = x * (self.count["seen"] / total)
        self.count["seen"] = total
        return x


def test_so_is_one_in_a_dict():
    recording = recorded(lambda: called(Held(), times=2))
    recording = replace(recording, environment=replace(recording.environment, torch="2.13.0"))
    (cause, *_) = causes(recording)
    assert cause.subject == "self.count['seen']"
    assert "Results may be wrong" in cause.fix.change


class Read(Running):
    """Whose own method alone is compiled: what it derives from assigns it."""

    def forward(self, x):
        return x * self.count


@pytest.mark.parametrize(("version", "is_wrong"), [("2.13.0+cpu", True), ("3.0", True), ("2.11.0", False), ("", False)])
def test_a_float_that_compiled_code_changes_is_no_recompile_as_expected(version, is_wrong):
    """With Inductor of torch 2.13 it stays what it was, without an error; with 2.11 each call has its own."""
    recording = recorded(lambda: called(Running(), times=2))
    recording = replace(recording, environment=replace(recording.environment, torch=version))
    (cause, *_) = causes(recording)
    assert cause.subject == "self.count"
    assert ("Results may be wrong" in cause.fix.change) is is_wrong
    assert cause.benign is not is_wrong


def test_a_float_that_others_change_is_an_input_of_the_graph():
    def run():
        model = Read()
        compiled = torch.compile(model, backend="eager")
        for count in (0.5, 0.75, 1.5):
            model.count = count
            compiled(torch.ones(2))

    (cause,) = causes(recorded(run))
    assert "Results may be wrong" not in cause.fix.change
    assert cause.benign


def test_what_torch_wraps_is_what_it_was_given():
    """Torch compiles its own wrapper of what `no_grad` wraps: the size is still one of what the user calls."""

    @torch.no_grad()
    def wrapped(x):
        return x.sin() + 1

    compiled = torch.compile(wrapped, backend="eager")
    (*_, cause) = causes(recorded(lambda: [compiled(torch.ones(n)) for n in (4, 1)]))
    assert cause.cause is CauseClass.ZERO_ONE
    assert "mark_unbacked" in cause.fix.change


def test_torch_says_that_what_a_function_is_given_is_a_module():
    """Nothing in the guard's own words shows it: torch's hint names the setting, and `dynamic=True` would do nothing."""
    (cause,) = causes(recorded(lambda: given_a_module(Sliced())))
    assert cause.subject == "model.calls"
    assert cause.fix.setting.name == "torch._dynamo.config.allow_unspec_int_on_nn_module"
    assert "dynamic=True" not in cause.fix.change
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        assert sum(one.count for one in causes(recorded(lambda: given_a_module(Sliced())))) < cause.count


def given_a_module(model):
    def step(model, x):
        return model(x) + 1

    step = torch.compile(step, backend="eager")
    for _ in range(5):
        step(model, torch.ones(9))


def test_the_setting_that_torch_names_is_said_and_to_be_tried_where_it_may_help():
    (cause,) = causes(recorded(lambda: called(Alternating())))
    assert "is a key of a list or dict" in cause.fix.why
    assert cause.fix.setting.code in cause.fix.change
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        assert sum(one.count for one in causes(recorded(lambda: called(Alternating())))) < cause.count


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        self.calls += 1
        return self.layer(x)


class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = Block()

    def forward(self, x):
        return self.up(x)


def stepped():
    blocks = Blocks()

    @torch.compile(backend="eager")
    def step(x):
        return blocks(x).sum()

    torch._dynamo.reset()
    for _ in range(5):
        step(torch.ones(2, 2))


def handed_over():
    blocks = Blocks()

    @torch.compile(backend="eager")
    def step(model, x):
        return model(x).sum()

    torch._dynamo.reset()
    for _ in range(5):
        step(blocks, torch.ones(2, 2))


def test_the_setting_for_a_count_of_a_model_is_offered_also_where_a_function_is_given_it():
    (asks,) = causes(recorded(handed_over))
    assert (asks.subject, asks.count, asks.benign) == ("model.up.calls", 4, False)
    assert asks.fix.setting.name == "torch._dynamo.config.allow_unspec_int_on_nn_module"


def test_a_count_of_the_function_around_that_torch_has_learned_varies_is_as_expected():
    (asks,) = causes(recorded(stepped))
    assert (asks.subject, asks.count, asks.benign) == ("blocks.up.calls", 4, False)
    assert asks.fix.setting.name == "torch._dynamo.config.allow_unspec_int_on_nn_module"
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        (learned,) = causes(recorded(stepped))
    assert (learned.subject, learned.count, learned.benign) == ("blocks.up.calls", 1, True)
    assert learned.fix.leave == "One recompile is how torch learns that an int varies."


# -- a size that a line needs as a number


def looped(x):
    out = torch.zeros(4)
    for i in range(x.shape[0]):
        out = out + x[i]
    return out


def summed(x):
    return x.sum(0)


def called_with_sizes(function, marks=False, **options):
    torch._dynamo.reset()
    model = torch.compile(function, backend="eager", **options)
    for size in (2, 3, 4, 5):
        x = torch.ones(size, 4)
        if marks:
            torch._dynamo.maybe_mark_dynamic(x, 0)
        model(x)


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"marks": True}], ids=str)
def test_a_size_that_a_loop_pins_is_not_advised_to_be_dynamic(options):
    recording = recorded(lambda: called_with_sizes(looped, **options))
    (cause,) = causes(recording)
    assert (cause.cause, cause.subject, cause.count) == (CauseClass.BATCH_SIZE, "x.shape[0]", 3)
    assert cause.pinned.code == cause.line.code == "for i in range(x.shape[0]):"
    assert not any(word in cause.fix.change for word in ("mark_dynamic", "dynamic=True"))
    assert f"Line {cause.pinned.line} needs x.shape[0]" in cause.fix.why
    offered = observed(recording, Ownership((__file__,)))
    assert (offered.offers, [one.change for one in offered.not_tried]) == ((), [cause.fix.change])


def named(x):
    n = x.shape[0]
    key = f"level-{n}"
    return x.sum() * len(key)


def looked_up(x, seen={2: 3}):  # noqa: B006 -- nobody writes it
    if x.shape[0] in seen:
        return x + 1
    return x.sum()


@pytest.mark.parametrize("function", [named, looked_up])
def test_a_size_in_a_text_or_a_key_has_advice_for_that(function):
    (cause,) = causes(recorded(lambda: called_with_sizes(function)))
    assert cause.pinned
    assert f"Line {cause.pinned.line} makes a text of x.shape[0], or looks it up as a key" in cause.fix.why
    assert "of something that does not vary" in cause.fix.change
    assert not any(word in cause.fix.change for word in ("whole dimension", "body of a loop", "{"))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("key = 'level ' + str(n)", True),
        ("key = 'level {}'.format(n)", True),
        ("key = 'level %d' % n", True),
        ("table = self.tables.get((n, m))", True),
        ("if n in self.seen: x = x.view(n)", True),
        ("value = self.options.get('size', n)", False),
        ("if mode in ('a', 'b'): x = x.view(n)", False),
        ("x = x.view(n)", False),
        ("parts = {str(i): x[i] for i in range(n)}", False),
        ("for i in range(n): print(f'{i}')", False),
    ],
)
def test_what_makes_a_text_or_a_key(code, expected):
    assert makes_text(Sources({"/app/a.py": f"def f(self, x, n, m):\n    {code}\n"}), "/app/a.py", 2) == expected


def rows(x):
    return [x[i].sum() for i in range(x.shape[0]) if f"{i}"]


def test_a_loop_over_a_size_that_also_makes_texts_is_a_loop():
    (cause,) = causes(recorded(lambda: called_with_sizes(rows)))
    assert "compile the body of a loop" in cause.fix.change


def test_a_size_that_is_free_is():
    (cause,) = causes(recorded(lambda: called_with_sizes(summed)))
    assert (cause.pinned, cause.count) == (None, 1)
    assert "maybe_mark_dynamic(x, 0)" in cause.fix.change


@pytest.mark.parametrize(
    ("name", "why", "change"),
    [
        ("column", "has i as an index", "`.select(dimension, i)`"),
        ("picked", "picks by i from what Python holds", "Pick before the call"),
    ],
)
def test_an_index_is_no_size(name, why, change):
    recording = recorded(next(scene.run for scene in SCENES if scene.name == name))
    (cause,) = causes(recording)
    assert cause.count == 2
    assert why in cause.fix.why
    assert change in cause.fix.change
    assert not any(
        word in f"{cause.fix.why} {cause.fix.change}" for word in ("size", "mark_dynamic", "whole dimension")
    )
    assert "Pinned numbers" in view(recording, "recompiles", page_for(recording, width=80, color=False))


def test_what_is_written_in_place_of_an_index_beside_a_slice_takes_any_int():
    (cause,) = causes(recorded(lambda: indexed(selected)))
    assert (cause.count, cause.pinned, cause.benign) == (1, None, True)


@pytest.mark.parametrize(
    "asked", ["graph['velocity']._base.stride(0) == 480", "graph['velocity']._base.size()[0] == 17"]
)
def test_what_a_tensor_is_a_view_of_is_not_to_be_passed(asked):
    failed = GuardFailure("0/0", asked, asked)
    both = (samples.compilation(0), samples.compilation(0, 1))
    (report,) = recompile_reports(Recording(compilations=both, recompiles=(Recompile(CompileId(0, 1), (failed,)),)))
    (cause,) = report.causes
    assert cause.cause is CauseClass.STRIDE
    assert "_base" not in cause.fix.change
    assert ".clone()`" in cause.fix.change


def drawn(x, std):
    return x + torch.normal(0.0, std, x.shape)


def product(x, std):
    return x + torch.randn(x.shape) * std


def test_a_float_that_a_tensor_is_drawn_with_is_to_be_a_factor():
    def recompiles(function):
        def run():
            made = torch.compile(function, backend="aot_eager")
            for std in (0.5, 0.25, 0.125, 0.0625):
                made(torch.ones(3), std)

        return recorded(run)

    before = recompiles(drawn)
    (cause,) = causes(before)
    assert (cause.cause, cause.count) == (CauseClass.FLOAT_ARGUMENT, 3)
    assert "`torch.randn(size) * std` for torch.normal" in cause.fix.change
    assert "torch.tensor(" not in cause.fix.change
    assert len(recompiles(product).recompiles) == 1
