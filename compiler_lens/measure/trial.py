"""One trial: the program's calls under some changes, compiled as far as Dynamo goes, and what was recorded of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.lens import Lens
from compiler_lens.measure.calls import Call, mark
from compiler_lens.measure.changes import Change
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, SourceLine

# A trial must not teach later processes what it saw of sizes, see torch/_dynamo/pgo.py.
_KEEP_OFF_DISK = ("automatic_dynamic_local_pgo", "automatic_dynamic_remote_pgo")


@dataclass(frozen=True, slots=True)
class Program:
    """What the user wants compiled, and how it is called."""

    function: Callable[..., Any]
    calls: tuple[Call, ...]
    training: bool = False
    dynamic: bool | None = None  # as the user compiled it

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the calls are made with."""
        return tuple((call.args, call.kwargs) for call in self.calls)

    def run(self, function: Callable[..., Any]) -> None:
        """Make all calls, of the function as it is or compiled."""
        for call in self.calls:
            self.one(function, call)

    def one(self, function: Callable[..., Any], call: Call) -> Any:
        """Make one call. Gives what it returned."""
        if not self.training:
            return function(*call.args, **call.kwargs)
        args, kwargs = pytree.tree_map_only(torch.Tensor, _cut, (call.args, dict(call.kwargs)))
        result = function(*args, **kwargs)
        _loss(result).backward()
        return result


@dataclass(frozen=True, slots=True)
class Observed:
    """What a trial showed."""

    recording: Recording
    error: str = ""
    error_line: SourceLine | None = None


def observe(program: Program, changes: Sequence[Change]) -> Observed:
    """Compile the program under the changes, with a backend that generates nothing, and make its calls."""
    dynamic = next((change.dynamic for change in changes if change.dynamic is not None), program.dynamic)
    torch._dynamo.reset_code_caches()  # noqa: SLF001 -- each trial begins without compiled code
    with contextlib.closing(Lens(progress=False)) as lens, _settings(changes), _recorded_alone(lens):
        for change in changes:
            mark(change, program.calls)
        error, line = "", None
        try:
            program.run(torch.compile(program.function, backend=captured, dynamic=dynamic))
        except UsageError:
            raise
        except Exception as raised:  # noqa: BLE001 -- whatever the program raises is this trial's result
            error, line = described(raised)
        return Observed(lens.recording, error, line)


def as_written(model: Any) -> tuple[Any, bool | None]:
    """The model under torch.compile's wrapper, if it has one, and the `dynamic` that it was compiled with."""
    if isinstance(model, torch._dynamo.OptimizedModule):  # noqa: SLF001 -- its documented name
        return model._orig_mod, getattr(model.dynamo_ctx, "_dynamic", None)  # noqa: SLF001
    # What wraps a compiled function, or hands attributes on, seems to have the others, too; but not the id.
    if getattr(model, "_torchdynamo_wrapper_id", None) != id(model):
        return model, None
    closure = dict(zip(model.__code__.co_freevars, model.__closure__ or (), strict=True))
    context = closure["self"].cell_contents if "self" in closure else None
    return model._torchdynamo_orig_callable, getattr(context, "_dynamic", None)  # noqa: SLF001


def callable_of(model: Any, command: str) -> tuple[Callable[..., Any], bool | None]:
    """What `as_written` gives. Raises `UsageError` for what cannot be called, or not yet."""
    inner, dynamic = as_written(model)
    if not callable(inner):
        raise UsageError(f"{command} needs a model or a function to call, not {type(model).__name__}")
    _check_not_lazy(inner)
    return inner, dynamic


def _check_not_lazy(function: Any) -> None:
    """Its parameters have no shape yet, and cannot be kept and put back."""
    if isinstance(function, torch.nn.Module) and any(
        torch.nn.parameter.is_lazy(tensor) for tensor in (*function.parameters(), *function.buffers())
    ):
        raise UsageError("the model has parameters without a shape yet (a lazy module): call it once before")


def warm_up() -> None:
    """Have torch import what it compiles with: that time is not the first trial's."""
    observe(Program(_tiny, (Call((torch.zeros(3),), {}), Call((torch.zeros(4),), {}))), ())


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return x * x.shape[0]


def captured(graph_module: Any, _inputs: Any) -> Any:
    """A backend that generates nothing: the graph runs as torch captured it."""
    return graph_module.forward


def has_setting(name: str) -> bool:
    """Whether this torch has a setting of Dynamo."""
    return hasattr(torch._dynamo.config, name)  # noqa: SLF001


def is_set(change: Change) -> bool:
    """Whether the settings of a change are in force already."""
    return bool(change.config) and all(
        _setting(name, value) == getattr(torch._dynamo.config, name)  # noqa: SLF001
        for name, value in change.config.items()
    )


def described(error: BaseException) -> tuple[str, SourceLine | None]:
    """An exception in one line, and the user's line where it came from."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = next((line for line in lines if line), "")
    stack = getattr(error, "real_stack", None) or ()
    places = [SourceLine(s.filename, s.lineno or 0, s.name, s.line or "") for s in stack]
    return f"{type(error).__name__}: {message}"[:400], innermost_own(places) or innermost_own(_traceback(error))


def cause(error: BaseException) -> tuple[str, SourceLine | None]:
    """What an exception says in one line, without torch's wrapping; and the user's line where it came from."""
    _, line = described(error)
    while inner := _inner(error):
        error = inner
    message, innermost = described(error)
    return message, innermost or line


def _inner(error: BaseException) -> BaseException | None:
    """The exception that torch raised another one in place of."""
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return inner
    # An op that fails on fake tensors: torch/_dynamo/utils.py tells it as "… got RuntimeError('…')", and chains it.
    told = str(error) if isinstance(error, torch._dynamo.exc.TorchRuntimeError) else ""  # noqa: SLF001
    return next((one for one in _chain(error) if told and f"got {one!r}" in told), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """What was raised before it, and led to it."""
    seen: set[int] = set()
    before = error.__cause__ or error.__context__
    while before is not None and id(before) not in seen:
        seen.add(id(before))
        yield before
        before = before.__cause__ or before.__context__


def _traceback(error: BaseException) -> list[SourceLine]:
    import traceback

    found = traceback.extract_tb(error.__traceback__)
    return [SourceLine(s.filename, s.lineno or 0, s.name, s.line or "") for s in found]


@contextlib.contextmanager
def _recorded_alone(lens: Lens) -> Any:
    """Only this lens hears of the trial, and no piece of the program compiled by itself reaches Inductor."""
    tap, session = lens._tap, lens._session  # noqa: SLF001 -- no user of a lens needs this
    with tap.alone(session), torch.compiler.set_stance("default", force_backend=captured):
        yield


def _settings(changes: Sequence[Change]) -> Any:
    config: Any = torch._dynamo.config  # noqa: SLF001
    values: dict[str, Any] = {name: False for name in _KEEP_OFF_DISK if hasattr(config, name)}
    for change in changes:
        values |= {name: _setting(name, value) for name, value in change.config.items()}
    return config.patch(values)


def _setting(name: str, value: object) -> object:
    if isinstance(value, frozenset):
        return {*getattr(torch._dynamo.config, name), *value}  # noqa: SLF001
    return value


def _cut(tensor: torch.Tensor) -> torch.Tensor:
    """An input without the graph that it came from: a backward must not run into what the user computed before."""
    return tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad)


def leaves(result: Any) -> list[Any]:
    """The values in what a call returned; also in dataclasses, which torch does not look into."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(result):
        inside = is_dataclass(leaf) and not isinstance(leaf, type)
        found += leaves([getattr(leaf, one.name, None) for one in fields(leaf)]) if inside else [leaf]
    return found


def _loss(result: Any) -> torch.Tensor:
    named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    found = [v for v in (named, *leaves(result)) if isinstance(v, torch.Tensor) and v.requires_grad]
    if not found:
        raise UsageError("training: nothing that the call returns needs a gradient, so there is no backward to run")
    return found[0].sum()
