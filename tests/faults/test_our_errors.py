"""Whatever fails in our own code: the user's program computes what it always did, and the report says what failed."""

import platform
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest
import torch
import torch._inductor.config
from msgspec.structs import replace

import compiler_lens
from compiler_lens import CaptureError, Lens
from compiler_lens.capture import hooks, session, sidecar, tap
from compiler_lens.capture.session import Session
from compiler_lens.capture.torch_api import dynamo, graphs, inductor, places, structured_trace
from compiler_lens.decode import fold
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter

X = torch.linspace(-1.0, 1.0, 8)


def double_sine(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).sin()


def boom(*_args: Any, **_kwargs: Any) -> Any:
    raise ZeroDivisionError("a bug of ours")


def never_cached() -> dict[str, Any]:
    """A setting that is part of the graph's cache key and of nothing else: the C++ library is used again."""
    return {"profile_bandwidth_regex": uuid.uuid4().hex}


def is_caused_by_us(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, CaptureError):
            return True
        error = error.__cause__ or error.__context__
    return False


def test_a_reader_that_raises_loses_its_own_event_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fold.READERS, "dynamo_cpp_guards_str", boom)
    with Lens() as lens:
        torch.compile(double_sine, backend="eager")(X)
    recording = lens.recording

    assert [(p.where, str(p.compile_id)) for p in recording.problems] == [("dynamo_cpp_guards_str", "0/0")]
    assert [c.function for c in recording.compilations] == ["double_sine"]
    assert "dynamo_cpp_guards_str" in lens.report()


def test_a_reader_that_raises_is_raised_by_a_strict_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fold.READERS, "dynamo_cpp_guards_str", boom)
    with Lens(strict=True) as lens:
        torch.compile(double_sine, backend="eager")(X)

    with pytest.raises(CaptureError, match="a bug of ours"):
        _ = lens.recording


IN_DYNAMO = [
    (hooks, "_frame_facts"),
    (hooks, "_frame_result"),
    (graphs, "node_facts"),
    (dynamo, "innermost_backend"),
    (dynamo, "compile_context"),
    (dynamo, "torch_id"),
    (session, "describe_environment"),
    (session.Attribution, "first_of"),
    (session.Attribution, "enter"),
    (tap.Tap, "enter"),
    (tap.Tap, "leave"),
    (tap.Tap, "note"),
    (tap.Tap, "install"),
    (tap.Tap, "_listen"),
    (dynamo, "register_lenses"),
    (structured_trace, "interned_files"),
    (JournalWriter, "append"),
]
IN_INDUCTOR = [
    (graphs, "is_backward"),
    (inductor, "direction_of"),
    (inductor, "cudagraph_outcome"),
    (inductor, "kernel_origins"),
    (inductor, "graph_lowering"),
    (sidecar, "cache_entry"),
    (sidecar, "keep"),
]
NAME = "{0.__name__}.{1}".format


@pytest.mark.parametrize(("holder", "name"), IN_DYNAMO, ids=[NAME(*case) for case in IN_DYNAMO])
def test_an_error_in_dynamos_hooks_is_a_problem_and_nothing_else(
    holder: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, boom)
    with Lens() as lens:
        result = torch.compile(double_sine, backend="aot_eager")(X)
    monkeypatch.undo()

    assert torch.equal(result, double_sine(X))
    assert any("a bug of ours" in problem.message for problem in lens.recording.problems)


@pytest.mark.parametrize(("holder", "name"), IN_DYNAMO, ids=[NAME(*case) for case in IN_DYNAMO])
def test_a_strict_lens_raises_an_error_in_dynamos_hooks(
    holder: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, boom)
    with pytest.raises(Exception, match="a bug of ours") as caught, Lens(strict=True):
        torch.compile(double_sine, backend="aot_eager")(X)

    assert is_caused_by_us(caught.value)


@pytest.mark.parametrize(("holder", "name"), IN_INDUCTOR, ids=[NAME(*case) for case in IN_INDUCTOR])
def test_an_error_in_inductors_hooks_is_a_problem_or_raised_in_strict_mode(
    holder: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, boom)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        with Lens() as lens:
            result = torch.compile(double_sine, options=never_cached())(X)
        torch._dynamo.reset()
        with pytest.raises(Exception, match="a bug of ours") as caught, Lens(strict=True):
            torch.compile(double_sine, options=never_cached())(X)

    assert torch.allclose(result, double_sine(X), atol=1e-6)
    assert is_caused_by_us(caught.value)
    recording = lens.recording
    assert any("a bug of ours" in problem.message for problem in recording.problems)
    assert [c.outcome.value for c in recording.compilations] == ["compiled"]
    assert recording.output_codes


def test_facts_that_cannot_be_kept_beside_the_cache_leave_nothing_behind(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inductor, "cache_folder", lambda: str(tmp_path))
    monkeypatch.setattr(sidecar.Path, "replace", boom)
    with pytest.raises(ZeroDivisionError):
        sidecar.keep(sidecar.Entry("some-cache-key", "0" * 32), (Event("lens.node_facts", 0.0),))

    assert [path.name for path in (tmp_path / sidecar.FOLDER).iterdir()] == []


def test_an_error_that_cannot_be_printed_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise UnprintableError

    monkeypatch.setattr(graphs, "node_facts", fail)
    with Lens() as lens:
        result = torch.compile(double_sine, backend="eager")(X)

    assert torch.equal(result, double_sine(X))
    assert [p.message for p in lens.recording.problems] == ["UnprintableError: (it cannot be printed)"]


def test_the_users_own_unprintable_error_arrives_as_it_is() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def backend(_gm: Any, _inputs: Any) -> Any:
        raise UnprintableError

    def caught(*, with_lens: bool) -> type[BaseException]:
        torch._dynamo.reset()
        lens = Lens() if with_lens else None
        try:
            with lens or torch.no_grad():
                torch.compile(double_sine, backend=backend)(X)
        except Exception as error:  # noqa: BLE001 -- which one is the question
            return type(error)
        raise AssertionError

    assert caught(with_lens=True) is caught(with_lens=False)


def test_every_open_lens_hears_of_an_error_and_the_strict_one_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "node_facts", boom)
    strict = Lens(strict=True)
    with pytest.raises(Exception, match="a bug of ours"), Lens() as lens:
        torch.compile(double_sine, backend="eager")(X)
    strict.close()

    assert lens.recording.problems


def test_an_error_while_an_error_is_told_stays_ours_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "node_facts", boom)
    monkeypatch.setattr(Session, "problem", boom)
    with Lens() as lens:
        result = torch.compile(double_sine, backend="eager")(X)

    assert torch.equal(result, double_sine(X))
    assert [p.message for p in lens.recording.problems] == ["ZeroDivisionError: a bug of ours"]


def test_what_a_listener_does_is_no_concern_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with Lens() as lens:
        monkeypatch.setattr(lens._session, "_listener", boom)
        result = torch.compile(double_sine, backend="eager")(X)

    assert torch.equal(result, double_sine(X))
    assert [c.function for c in lens.recording.compilations] == ["double_sine"]
    assert lens.recording.problems


def without(monkeypatch: pytest.MonkeyPatch, table: str, missing: set[places.Place]) -> None:
    """A torch that has none of these functions."""
    altered = tuple(
        replace(hook, place=replace(hook.place, name="gone_since_2_99")) if hook.place in missing else hook
        for hook in getattr(hooks, table)
    )
    monkeypatch.setattr(hooks, table, altered)


@pytest.mark.parametrize("missing", [*hooks.DYNAMO_HOOKS, *hooks.AOT_HOOKS], ids=lambda hook: hook.place.name)
def test_a_torch_without_one_hooked_function_gives_all_the_rest(
    missing: places.Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("DYNAMO_HOOKS", "AOT_HOOKS"):
        without(monkeypatch, table, {missing.place})
    with Lens(strict=True) as lens:
        result = torch.compile(double_sine, backend="aot_eager")(X)
    recording = lens.recording

    assert torch.equal(result, double_sine(X))
    assert [u.fact for u in recording.unavailable] == [missing.place.fact]
    assert [c.function for c in recording.compilations] == ["double_sine"]
    assert {g.stage.value for g in recording.graphs} == {"dynamo", "inference"}


def test_a_torch_without_any_hooked_function_still_tells_what_its_trace_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("DYNAMO_HOOKS", "AOT_HOOKS", "INDUCTOR_HOOKS", "CODEGEN_HOOKS", "RUNTIME_HOOKS"):
        without(monkeypatch, table, {hook.place for hook in getattr(hooks, table)})
    lens = Lens(strict=True)
    with torch._inductor.config.patch(force_disable_caches=True):  # AOTAutograd is to trace it
        result = torch.compile(double_sine, backend=lens)(X)
    lens.close()
    recording = lens.recording

    assert torch.allclose(result, double_sine(X), atol=1e-6)
    assert [c.function for c in recording.compilations] == ["double_sine"]
    assert recording.kernels
    assert {hook.place.fact for hook in (*hooks.DYNAMO_HOOKS, *hooks.AOT_HOOKS)} == {
        u.fact for u in recording.unavailable
    }


def test_a_module_that_cannot_be_imported_is_a_missing_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places.importlib, "import_module", boom)
    monkeypatch.delitem(sys.modules, dynamo.FRAME.module)

    assert dynamo.FRAME.resolve() is None


def test_a_torch_without_a_trace_function_is_recorded_by_its_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured_trace, "trace_structured_code", boom)
    with Lens() as lens:
        result = torch.compile(double_sine, backend="eager")(X)

    assert torch.equal(result, double_sine(X))
    assert [p.where for p in lens.recording.problems][:1] == ["trace"]


def test_a_session_takes_word_of_a_problem_even_when_its_journal_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Session(None, strict=False, overwrite=False, listener=None)
    monkeypatch.setattr(JournalWriter, "append", boom)
    opened.problem("here", "that")

    assert opened.unwritten == [("here", "that")]
    assert compiler_lens.__version__


def test_no_attribute_of_a_users_backend_is_read_for_ours() -> None:
    """Each of these would run code of the user's."""
    asked: list[str] = []

    class Backend:
        def __call__(self, gm: Any, _inputs: Any) -> Any:
            return gm.forward

        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return object.__getattribute__(self, name)

        @property
        def _session(self) -> Any:
            raise RuntimeError("not ours to ask")

    def compiled() -> list[str]:
        torch._dynamo.reset()
        asked.clear()
        assert torch.equal(torch.compile(lambda x: x.sin(), backend=Backend())(torch.ones(2)), torch.ones(2).sin())
        return [*asked]

    plain = compiled()
    with Lens(strict=True):
        assert compiled() == plain


def test_what_a_signals_handler_raises_reaches_the_user_also_out_of_our_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class LateError(Exception):
        pass

    def raises(_signal: int, _frame: Any) -> None:
        raise LateError

    kept = Session.take

    def take(self: Session, event: Event, *, waits: bool = False) -> None:
        kept(self, event, waits=waits)
        if event.name == "dynamo_start":
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, raises)
    try:
        with Lens() as lens:
            monkeypatch.setattr(Session, "take", take)
            with pytest.raises(LateError):
                torch.compile(double_sine, backend="eager")(X)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not [problem for problem in lens.recording.problems if "Late" in problem.message]


def test_no_process_is_started_and_no_attribute_of_a_users_module_is_read_for_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Model(torch.nn.Module):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattr__(name)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    def compiled() -> list[str]:
        torch._dynamo.reset()
        model = Model()
        asked.clear()
        torch.compile(model, backend="eager")(X)
        return [*asked]

    plain = compiled()
    monkeypatch.setattr(subprocess, "Popen", boom)
    with Lens(strict=True) as lens:
        assert compiled() == plain
    monkeypatch.undo()
    assert lens.recording.environment.platform == platform.platform()
