"""A torch whose private functions have changed: each is one line in the report, and everything else is recorded."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens, Recording
from compiler_lens.capture import hooks
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import dynamo, places, structured_trace, versions

X = torch.linspace(-1.0, 1.0, 8)
TABLES = (hooks.DYNAMO_HOOKS, hooks.AOT_HOOKS, hooks.INDUCTOR_HOOKS, hooks.CODEGEN_HOOKS, hooks.RUNTIME_HOOKS)
HOOKS = [hook for table in TABLES for hook in table]
READ = [(hook.place, name) for hook in HOOKS for name in hook.place.reads]


def double_sine(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sin()


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def change(place: places.Place, parameter: str, monkeypatch: pytest.MonkeyPatch, *, rename: bool) -> None:
    """Give a function of torch another signature; it goes on doing what it did."""
    found = place.resolve()
    assert found is not None
    original = inspect.getattr_static(*found)
    is_static = isinstance(original, staticmethod)
    function: Any = original.__func__ if is_static else original

    @functools.wraps(function)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    name = parameter.lstrip("*")
    parameters = [
        p.replace(name=f"{p.name}_of_2_99") if p.name == name else p
        for p in signature.parameters.values()
        if rename or p.name != name
    ]
    changed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    monkeypatch.setattr(*found, staticmethod(changed) if is_static else changed)


@pytest.mark.parametrize("rename", [True, False], ids=["renamed", "removed"])
@pytest.mark.parametrize(("place", "parameter"), READ, ids=[f"{p.module}.{p.name} {name}" for p, name in READ])
def test_a_parameter_that_is_read_and_has_gone_is_seen_before_the_hook_goes_in(
    place: places.Place, parameter: str, rename: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.find()
    change(place, parameter, monkeypatch, rename=rename)

    with pytest.raises(places.NotOfferedError, match=f"parameter .*{parameter[1:]} of {place.module}.{place.name}"):
        place.find()


def test_a_parameter_that_has_only_moved_is_read_where_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(nodes: Any, extra: Any = None, *, last: int = 3) -> None: ...

    def second(extra: Any, nodes: Any = "default", *, last: int = 3) -> None: ...

    module = type(inspect)("somewhere")
    monkeypatch.setitem(__import__("sys").modules, "somewhere", module)
    place = places.Place("somewhere", "function", "a fact", ("nodes", "last"))
    module.function = first  # type: ignore[attr-defined]
    assert place.find().arguments.of(("n",), {}) == ["n", 3]
    module.function = second  # type: ignore[attr-defined]
    assert place.find().arguments.of(("e", "n"), {"last": 4}) == ["n", 4]
    assert place.find().arguments.of(("e",), {}) == ["default", 3]
    assert place.find().arguments.of((), {"nodes": "n", "extra": "e"}) == ["n", 3]


def test_what_an_observer_needs_beside_arguments_is_looked_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._dynamo.types.ConvertFrameReturn, "guarded_code")
    with pytest.raises(places.NotOfferedError, match=r"torch\._dynamo\.types\.ConvertFrameReturn\.guarded_code"):
        replace(dynamo.FRAME).find()  # a place of which nothing is known yet


def test_a_function_without_a_signature_is_not_hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opaque:
        __signature__ = "none"

        def __call__(self) -> None: ...

    monkeypatch.setattr(torch._inductor.debug, "log_ir_post_fusion", Opaque())
    with pytest.raises(places.NotOfferedError, match=r"parameters of torch\._inductor\.debug\.log_ir_post_fusion"):
        next(hook.place for hook in HOOKS if hook.place.name == "log_ir_post_fusion").find()


@pytest.mark.parametrize("hook", [*hooks.DYNAMO_HOOKS, *hooks.AOT_HOOKS], ids=lambda hook: hook.place.name)
def test_a_changed_function_of_dynamo_is_one_line_and_the_rest_is_recorded(
    hook: places.Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(hook.place, hook.place.reads[-1], monkeypatch, rename=True)
    with Lens(strict=True) as lens:
        for _ in range(2):
            result = torch.compile(double_sine, backend="aot_eager")(X)
            torch._dynamo.reset()
    recording = lens.recording

    assert torch.equal(result, double_sine(X))
    assert [u.fact for u in recording.unavailable] == [hook.place.fact]
    assert f"{hook.place.fact}: not offered by this torch: parameter " in lens.report(width=300)
    assert recording.problems == ()
    assert {c.function for c in recording.compilations} == {"double_sine"}
    assert {g.stage.value for g in recording.graphs} == {"dynamo", "inference"}


def test_an_inductor_of_which_every_hooked_function_changed_is_recorded_by_the_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = [hook.place for table in TABLES[2:4] for hook in table]
    for place in changed:
        change(place, place.reads[-1], monkeypatch, rename=True)
    lens = Lens(strict=True)
    with torch._inductor.config.patch(force_disable_caches=True):
        result = torch.compile(double_sine, backend=lens)(X)
    lens.close()
    recording = lens.recording

    assert torch.allclose(result, double_sine(X), atol=1e-6)
    assert {u.fact for u in recording.unavailable} == {hook.place.fact for hook in hooks.INDUCTOR_HOOKS}
    assert recording.problems == ()
    assert recording.kernels


# -- records that never come


@pytest.fixture
def silenced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A torch that no longer sends a record."""
    take, render = Tap.take, Tap.render

    def silence(silent: str) -> None:
        def take_others(tap: Tap, name: str, meta: Any, text: str | None) -> None:
            if name != silent:
                take(tap, name, meta, text)

        def render_others(tap: Tap, name: str, parameters: Any) -> None:
            if name != silent:
                render(tap, name, parameters)

        monkeypatch.setattr(Tap, "take", take_others)
        monkeypatch.setattr(Tap, "render", render_others)

    return silence


def trained(backend: Any) -> torch.Tensor:
    x = X.clone().requires_grad_()
    torch.compile(double_sine, backend=backend)(x).sum().backward()
    assert x.grad is not None
    return x.grad


OF_DYNAMO = ("dynamo_start", "dynamo_cpp_guards_str", "compilation_metrics", "dynamo_output_graph")
OF_TRAINING = ("aot_joint_graph", "aot_forward_graph", "aot_backward_graph")
MISSING = [
    *((name, "eager", False) for name in OF_DYNAMO),
    *((name, "aot_eager", True) for name in OF_TRAINING),
    ("aot_inference_graph", "aot_eager", False),
    ("inductor_post_grad_graph", "inductor", False),
    ("inductor_output_code", "inductor", False),
]


def test_every_record_that_must_come_is_tried_here() -> None:
    assert {name for name, *_ in MISSING} == set(structured_trace.EXPECTED)


@pytest.mark.parametrize(("name", "backend", "training"), MISSING, ids=[name for name, *_ in MISSING])
def test_a_record_that_never_comes_is_one_line_of_the_report(
    name: str, backend: str, training: bool, silenced: Callable[[str], None]
) -> None:
    silenced(name)
    with torch._inductor.config.patch(force_disable_caches=True), Lens() as lens:
        for _ in range(2):
            trained(backend) if training else torch.compile(double_sine, backend=backend)(X)
            torch._dynamo.reset()
    recording = lens.recording

    told = [(u.fact, u.reason) for u in recording.unavailable]
    assert told == [(structured_trace.EXPECTED[name], f"not offered by this torch: the record {name}")]
    assert f"{structured_trace.EXPECTED[name]}: not offered by this torch: the record {name}" in lens.report(width=300)


def everything_else(tmp: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "an empty frame", lambda: torch.compile(lambda x: None, backend="eager")(X)
    yield "eager", lambda: torch.compile(double_sine, backend="eager")(X)
    yield "a graph break", lambda: torch.compile(broken, backend="aot_eager")(X)
    yield "training", lambda: trained("aot_eager")
    yield "a backend of one's own", lambda: torch.compile(double_sine, backend=lambda gm, _: gm.forward)(X)
    yield "Inductor, cold", lambda: torch.compile(double_sine)(X)
    yield "Inductor, warm", lambda: (torch._dynamo.reset(), torch.compile(double_sine)(X))
    yield "training with Inductor", lambda: trained("inductor")
    yield "export", lambda: torch.export.export(torch.nn.Linear(8, 2), (X,), strict=True)
    yield (
        "a branch",
        lambda: torch.compile(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), backend="aot_eager")(X),
    )


def test_no_compilation_of_this_torch_lacks_a_record(tmp_path: Any) -> None:
    for what, step in everything_else(tmp_path):
        torch._dynamo.reset()
        with Lens(strict=True) as lens:
            step()
        recording: Recording = lens.recording
        told = [u for u in recording.unavailable if "filled without compiler_lens" not in u.reason]
        assert told == [], what


def test_compiled_autograd_lacks_no_record() -> None:
    with Lens(strict=True) as lens, torch._dynamo.config.patch(compiled_autograd=True):
        trained("aot_eager")

    assert lens.recording.unavailable == ()


def test_a_record_missed_while_nobody_listened_is_not_held_against_torch() -> None:
    logger = structured_trace.trace_logger()

    def backend(graph_module: Any, _inputs: Any) -> Any:
        logger.handlers.clear()  # also of the records that are yet to come
        return graph_module.forward

    with Lens() as lens:
        torch.compile(double_sine, backend=backend)(X)

    assert lens.recording.unavailable == ()
    assert any(problem.where == "trace" for problem in lens.recording.problems)


# -- flags


def test_a_flag_asks_the_torch_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.FLOAT8_PRODUCT.is_here is hasattr(torch, "_scaled_mm")
    monkeypatch.delattr(torch, "_scaled_mm", raising=False)
    assert not versions.FLOAT8_PRODUCT.is_here
    monkeypatch.setattr(torch, "_TorchCompileInductorWrapper", lambda mode, options, dynamic: None)
    assert not versions.WRAPPER_NAME.is_here
    assert not versions.Flag("torch.no_such_module", "nothing", "").is_here
