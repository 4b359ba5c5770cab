"""What capture asks of torch directly: modes, cache keys, the table of wanted events."""

import contextlib
import contextvars
import json
import threading
import time
import types
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest import mock

import pytest

from compiler_lens.decode.fold import READERS, WANTED
from compiler_lens.decode.inductor_languages import INDUCTOR_LANGUAGES

torch = pytest.importorskip("torch")

import compiler_lens  # noqa: E402
from compiler_lens.capture import trace  # noqa: E402
from compiler_lens.capture.torch_api import dynamo, inductor, settings  # noqa: E402

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"max_fusion_size": 8}])
def test_inductors_own_wrapper_tells_its_mode_and_the_options_beyond_it(mode: str, options: dict[str, int]) -> None:
    wrapper = torch._TorchCompileInductorWrapper(mode, options, None)

    assert settings.mode_and_options(wrapper) == (mode, options)


def test_every_event_that_is_wanted_is_read_and_the_other_way_round() -> None:
    ours_or_from_logs = {name for name in READERS if name.startswith("lens.") or name == "torch_version"}

    assert WANTED - {"str"} == set(READERS) - ours_or_from_logs


def test_every_kernel_that_this_torch_compiles_is_of_a_language() -> None:
    from torch._inductor.async_compile import AsyncCompile

    public = {name: one for name, one in vars(AsyncCompile).items() if callable(one) and not name.startswith("_")}
    makers = {f"async_compile.{name}" for name, one in public.items() if "source_code" in signature(one).parameters}
    known = {maker for language in INDUCTOR_LANGUAGES for maker in language.makers}
    assert "async_compile.triton" in makers
    assert makers <= known


def test_a_cache_answer_keeps_everything_in_two_parts() -> None:
    parts = ["[abc] gm: <lambda>()", "[def] inductor_config[x]: 1", "[ghi] inductor_config[y]: 2"]
    meta, text = trace.cache_answer({"name": "n"}, json.dumps({"key": "k", "components": parts}))

    assert json.loads(text) == {"key": "k"}
    assert {*meta["key_parts"].split("\n"), *meta["key_settings"].split("\n")} == set(parts)
    assert trace.cache_answer({}, "no JSON") == ({}, "no JSON")


def test_a_function_that_torch_passes_over_at_every_call_is_told_once() -> None:
    inner = torch.compiler.disable(lambda x: x + 1, recursive=False)
    with compiler_lens.Lens(strict=True) as lens:
        compiled = torch.compile(inner, backend="eager")
        for _ in range(5):
            compiled(torch.ones(2))
            once = lens._session.journal.contents().count(b"lens.frame_skipped")

    assert once <= 1
    assert len(lens.recording.compilations) <= 1


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with compiler_lens.Lens("r.clens", strict=True) as lens:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        monkeypatch.chdir("elsewhere")

    assert len(lens.recording.compilations) == 1
    assert compiler_lens.load(tmp_path / "r.clens", strict=True) == lens.recording


def test_a_second_lens_on_one_path_says_where_it_records(tmp_path: Path) -> None:
    with compiler_lens.Lens(tmp_path / "r.clens"), compiler_lens.Lens(tmp_path / "r.clens") as second:
        assert second.path != tmp_path / "r.clens"
        assert any("already" in problem.message for problem in second.recording.problems)


def test_export_is_recorded_with_its_environment() -> None:
    with compiler_lens.Lens(strict=True) as lens:
        torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), strict=True)

    assert lens.recording.environment.torch == torch.__version__


def settings_seen(**options: object) -> tuple[compiler_lens.Recording, dict[str, str]]:
    """What a recording calls settings of the user's."""
    torch._dynamo.reset()
    with compiler_lens.Lens(strict=True) as lens:
        torch.compile(lambda x: x + 1, backend=options.pop("backend", "eager"), **options)(torch.ones(2))  # type: ignore[call-overload]
    return lens.recording, dict(lens.recording.environment.config)


def test_what_torch_patched_for_a_mode_is_no_setting() -> None:
    """A patch that ended leaves the default behind as a value that was set."""
    with torch._inductor.config.patch({"max_autotune": True, "triton.cudagraphs": True, "max_fusion_size": 8}):
        pass
    with torch._inductor.config.patch({"coordinate_descent_tuning": True, "max_fusion_size": 9}):
        _, config = settings_seen()

    own = {name: value for name, value in config.items() if name.startswith("_inductor.config.")}
    assert own["_inductor.config.coordinate_descent_tuning"] == "True"
    assert own["_inductor.config.max_fusion_size"] == "9"
    assert not {"_inductor.config.max_autotune", "_inductor.config.triton.cudagraphs"} & own.keys()
    assert not any(name.startswith("_inductor.config.") for name in settings_seen()[1])


@pytest.mark.parametrize("dynamic", [True, False, None])
def test_what_torch_patches_for_dynamic_is_no_setting_and_what_the_user_set_is(dynamic: bool | None) -> None:
    recording, config = settings_seen(dynamic=dynamic)

    assert {c.dynamic for c in recording.compilations} == {dynamic}
    assert not {name for name in config if name.startswith("_dynamo.config.a")}
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        own = settings_seen(dynamic=dynamic)[1].get("_dynamo.config.automatic_dynamic_shapes")
    assert own == (None if dynamic is False else "False")


def test_the_number_of_threads_is_that_of_the_program() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert settings_seen()[0].environment.threads == 3
    finally:
        torch.set_num_threads(before)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(2, 2)

    def forward(this, x: torch.Tensor) -> torch.Tensor:  # noqa: N805 -- what this is about
        y = this.lin(x)
        print(end="")
        return this.lin(y)


model = torch.nn.ModuleDict({"block": Block()})


def call_global(x: torch.Tensor) -> torch.Tensor:
    return model["block"].lin(x)  # type: ignore[no-any-return, operator]


def call_argument(net: Block, x: torch.Tensor) -> torch.Tensor:
    return net.lin(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "arguments", "paths"),
    [
        (Block(), (), ["lin", "lin"]),  # the second behind the graph break
        (Block().forward, (), ["lin", "lin"]),
        (torch.nn.Sequential(torch.nn.Linear(2, 2)), (), ["0"]),
        (call_global, (), ["model.block.lin"]),
        (call_argument, (Block(),), ["net.lin"]),
    ],
)
def test_a_module_is_called_as_its_author_calls_it(
    function: object, arguments: tuple[object], paths: list[str]
) -> None:
    torch._dynamo.reset()
    with compiler_lens.Lens(strict=True, progress=False) as lens:
        torch.compile(function, backend="eager")(*arguments, torch.ones(2, 2))
    torch._dynamo.reset()
    assert [n.module for g in lens.recording.graphs for n in g.nodes if "linear" in n.target] == paths
    if isinstance(function, torch.nn.Module):
        assert {c.module for c in lens.recording.compilations} == {type(function).__name__}


def test_timings_of_triton_configs_name_the_fastest_and_the_end_of_the_descent() -> None:
    def launcher(warps: int, **facts: int) -> SimpleNamespace:
        config = SimpleNamespace(kwargs={"XBLOCK": 64}, num_warps=warps, num_stages=1)
        return SimpleNamespace(config=config, **facts)

    slow, fast = launcher(4, n_regs=32, n_spills=0, shared=8), launcher(8)
    tuner = SimpleNamespace(inductor_meta={}, fn=lambda: None, is_backward=True, compile_id="1/0")
    tuner.fn.__name__ = "triton_poi_fused_add_0"

    timings = {_Key(slow): 0.5, _Key(fast): 0.25}
    meta = inductor.triton_configs(tuner, timings)

    assert (meta["kernel"], meta["backward"]) == ("triton_poi_fused_add_0", True)
    assert [(row["milliseconds"], row["chosen"], row["registers"]) for row in meta["configs"]] == [
        (0.5, False, 32),
        (0.25, True, None),
    ]
    assert meta["configs"][0]["values"] == {"XBLOCK": 64, "num_warps": 4, "num_stages": 1}
    (row,) = inductor.triton_configs(tuner, fast)["configs"]
    assert (row["chosen"], row["milliseconds"]) == (True, None)
    assert inductor.compile_id_of(tuner) == "1/0"
    assert inductor.triton_configs(tuner, {})["configs"] == []


class _Key:
    """A launcher, which torch has as a key."""

    def __init__(self, launcher: SimpleNamespace) -> None:
        vars(self).update(vars(launcher))


@pytest.mark.parametrize("length", [40, 500])
def test_of_a_long_value_of_a_setting_the_beginning_is_kept(length: int) -> None:
    backends = "x" * length
    with torch._inductor.config.patch(max_autotune_gemm_backends=backends):
        kept = settings.Settings().lines()["_inductor.config.max_autotune_gemm_backends"]
    assert kept == repr(backends)[:200]


def test_what_aot_inductor_notes_of_itself_is_no_setting() -> None:
    config, name = torch._inductor.config, "_inductor.config.aot_inductor.metadata"
    with config.patch({"aot_inductor.metadata": {"AOTI_DEVICE_KEY": "cpu"}}):
        assert name not in settings.Settings().lines()
        config.aot_inductor.metadata = {"AOTI_DEVICE_KEY": "cpu", "author": "me"}
        assert settings.Settings().lines()[name] == "{'author': 'me'}"


def test_settings_are_rendered_anew_where_one_was_set_also_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    config = torch._dynamo.config
    asked = settings.Settings()
    with config.patch(reorderable_logging_functions={print}):
        (before, again) = asked.lines(), asked.lines()
        config.reorderable_logging_functions.add(repr)
        added = asked.lines()
    after = asked.lines()
    name = "_dynamo.config.reorderable_logging_functions"

    assert before == again
    assert "repr" not in before[name]
    assert "repr" in added[name]
    assert name not in after
    with monkeypatch.context() as patched:
        patched.setattr(type(config), "codegen_config", lambda _: pytest.fail("nothing was set"))
        assert asked.lines() == after


WAYS = {
    "nothing": contextlib.nullcontext,
    "patch": lambda: torch._inductor.config.patch({"triton.cudagraphs": True, "max_fusion_size": 9}),
    "another value": lambda: torch._inductor.config.patch(max_fusion_size=11),
    "mock": lambda: mock.patch.object(torch._dynamo.config, "recompile_limit", 5),
    "a group's": lambda: mock.patch.object(torch._inductor.config.cpp, "threads", 3),
    "an alias": lambda: torch._dynamo.config.patch(cache_size_limit=6),
    "changed in place": lambda: added_to(torch._inductor.config.unsafe_marked_cacheable_functions),
    "what dynamic= patches": lambda: torch._dynamo.config.patch(assume_static_by_default=False),
}


@contextlib.contextmanager
def added_to(value: dict[str, str]) -> Iterator[None]:
    value["torch.sin"] = "1"
    yield
    value.clear()


def compile_anew(**options: Any) -> None:
    def small(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    code = small.__code__.replace(co_name="small")  # of its own: Dynamo keeps what it compiled by code
    torch.compile(types.FunctionType(code, globals()), backend="eager", **options)(torch.ones(2))


def test_settings_are_seen_however_and_wherever_they_are_made_between_two_compilations() -> None:
    """The same as whoever looks at all of them finds, also on another thread, and in a context of a task's own."""
    expected = []

    def compile_with(way: str, dynamic: bool | None = None) -> None:
        with WAYS[way]():
            expected.append(dict(settings.Settings().lines()))
            compile_anew(dynamic=dynamic)

    with compiler_lens.Lens(strict=True) as lens:
        for way in ("nothing", *WAYS, *WAYS, *reversed(WAYS)):
            compile_with(way)
            compile_with("nothing", dynamic=True)
        with WAYS["patch"]():
            contextvars.copy_context().run(compile_with, "another value")
            thread = threading.Thread(target=compile_with, args=("mock",))
            thread.start()
            thread.join()
            compile_with("nothing")
        torch._inductor.config.load_config({"max_fusion_size": 10})
        compile_with("nothing")
        torch._inductor.config.max_fusion_size = settings._entries_of("torch._inductor.config")[
            "max_fusion_size"
        ].default
        compile_with("nothing")

    assert [dict(one.config) for one in lens.recording.compilations] == expected
    assert len({str(sorted(one.items())) for one in expected}) > len(WAYS)


def test_of_the_settings_those_alone_are_looked_at_that_were_set_since(monkeypatch: pytest.MonkeyPatch) -> None:
    with compiler_lens.Lens(strict=True) as lens:
        for _ in range(4):
            compile_anew()
        monkeypatch.setattr(settings, "_is_as_it_was", lambda _: pytest.fail("all of them were looked at"))
        for _ in range(3):
            compile_anew()
        monkeypatch.undo()
        set_before = type(torch._dynamo.config).__setattr__

    assert len(lens.recording.compilations) == 7
    assert type(torch._dynamo.config).__setattr__ is not set_before  # torch's own again


class Crowded(dict[contextvars.ContextVar[int], int]):
    """A context in which torch has left so much behind that it takes longer to walk over than to ask."""

    def __iter__(self) -> NoReturn:
        pytest.fail("all of it was walked over")


def test_settings_are_found_however_much_stands_beside_them() -> None:
    mine, other = contextvars.ContextVar[int]("mine"), contextvars.ContextVar[int]("other")
    beside = {contextvars.ContextVar[int]("beside"): 0 for _ in range(3)}

    assert list(settings._set_in(Crowded({**beside, mine: 1}), frozenset((mine, other)))) == [mine]
    assert list(settings._set_in({mine: 1}, frozenset((mine, other)))) == [mine]


def test_the_compilation_is_the_one_that_torch_says_it_is() -> None:
    from torch._guards import CompileContext

    seen = []

    def backend(graph_module: torch.fx.GraphModule, _inputs: object) -> object:
        seen.append((dynamo.compile_context(), CompileContext.try_get()))
        return graph_module.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    ((ours, torchs),) = seen
    assert ours is torchs is not None
    assert dynamo.compile_context() is None


def test_the_time_of_our_own_is_of_every_compilation() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        spent = [lens.overhead_seconds]
        for size in (2, 3, 4):
            compiled(torch.ones(size))
            spent.append(lens.overhead_seconds)
    assert spent == sorted(set(spent))


def test_waiting_is_no_time_of_our_own() -> None:
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        before = lens.overhead_seconds
        lens._tap.safely("a busy machine", lambda: time.sleep(0.5))
        assert before < lens.overhead_seconds < before + 0.5


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in x:
            if row.sum() > 0:
                x = x + 1
        return x


CALLED = "return self.inner(x) * 2  # type: ignore[no-any-return]"


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2  # type: ignore[no-any-return]


def test_every_caller_stands_in_the_stack_of_a_break_also_those_of_one_name() -> None:
    """Of `forward` that calls `forward` torch tells the last alone."""
    torch._dynamo.reset()
    with compiler_lens.Lens(strict=True) as lens:
        torch.compile(Outer(), backend="eager")(torch.ones(2, 2))
    stacks = [[one.code for one in event.user_stack] for event in lens.recording.graph_breaks]
    assert any(stack[-2:] == [CALLED, "if row.sum() > 0:"] for stack in stacks), stacks
