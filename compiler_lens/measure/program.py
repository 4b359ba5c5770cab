"""What the user wants compiled and how it is called; and what it raised, without torch's wrapping."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.torch_api import dynamo, settings
from compiler_lens.capture.torch_api.measuring import pytree
from compiler_lens.decode.graph_breaks import read_causes
from compiler_lens.facts.breaks.raised import raised
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import SourceLine


class Call(Struct, frozen=True):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def tensors(self) -> list[tuple[Any, torch.Tensor]]:
        """The tensors among the arguments, each with its path, in pytree's order."""
        found = pytree.tree_flatten_with_path((self.args, dict(self.kwargs)))[0]
        return [(path, leaf) for path, leaf in found if isinstance(leaf, torch.Tensor)]


class Program(Struct, frozen=True):
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
        """Make one call, and return what it returned."""
        if not self.training:
            return function(*call.args, **call.kwargs)
        args, kwargs = pytree.tree_map_only(torch.Tensor, _cut, (call.args, dict(call.kwargs)))
        result = function(*args, **kwargs)
        named = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
        for value in (named, *leaves(result)):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                value.sum().backward()
                return result
        raise UsageError("training: nothing that the call returns needs a gradient, so there is no backward to run")


def _cut(tensor: torch.Tensor) -> torch.Tensor:
    """An input without the graph that it came from: a backward must not run into what the user computed before."""
    return tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad)


def leaves(result: Any) -> list[Any]:
    """Return the values in what a call returned; also in dataclasses, which torch does not look into."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(result):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            found += leaves([getattr(leaf, one.name, None) for one in fields(leaf)])
        else:
            found.append(leaf)
    return found


# -- what a user may ask for


def as_calls(inputs: tuple[Any, ...], kwargs: Mapping[str, Any], calls: Any) -> tuple[Call, ...]:
    """Return the calls to make. Raises `UsageError` for what cannot be meant."""
    if calls is None:
        return (Call(inputs, kwargs),)
    if inputs or kwargs:
        raise UsageError("give the inputs either as arguments, or as calls=[(args, kwargs), …]; not both")
    if not isinstance(calls, Sequence) or isinstance(calls, (str, bytes)) or not calls:
        raise UsageError(f"calls is a list with one (args, kwargs) for each call, not {type(calls).__name__}")
    return tuple(map(_as_call, calls))


def _as_call(item: Any) -> Call:
    """One call from `(args, kwargs)`, from a tuple of arguments, a dict of named ones, or a single argument."""
    if isinstance(item, Mapping):
        return Call((), item)
    if not isinstance(item, (tuple, list)):
        return Call((item,), {})
    if len(item) == 2 and isinstance(item[0], (tuple, list)) and isinstance(item[1], Mapping):  # noqa: PLR2004
        return Call(tuple(item[0]), item[1])
    return Call(tuple(item), {})


def callable_of(model: Any, command: str) -> tuple[Callable[..., Any], bool | None]:
    """Return the model as it is written, and the `dynamic` that it was compiled with.

    Raises `UsageError` for what cannot be called, or not yet.
    """
    inner, dynamic = dynamo.as_written(model)
    if not callable(inner):
        raise UsageError(f"{command} needs a model or a function to call, not {type(model).__name__}")
    tensors = (*inner.parameters(), *inner.buffers()) if isinstance(inner, torch.nn.Module) else ()
    if any(map(torch.nn.parameter.is_lazy, tensors)):  # they cannot be kept and put back
        raise UsageError("the model has parameters without a shape yet (a lazy module): call it once before")
    return inner, dynamic


def known_mode(name: Any, *others: str) -> str:
    """Return a mode of torch.compile. Raises `UsageError` for any other name, with those that there are."""
    known = settings.modes()
    if name not in known:
        raise UsageError(f"torch.compile has no mode {name}: it has {', '.join((*others, *known))}")
    return str(name)


# -- what it raised


def described(error: BaseException) -> tuple[str, SourceLine | None]:
    """Return an exception in one line, and the user's line where it came from."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = raised(read_causes(str(error))[0]) or next((line for line in lines if line), "")
    line = _own_line(getattr(error, "real_stack", None) or ()) or _own_line(traceback.extract_tb(error.__traceback__))
    return f"{type(error).__name__}: {message}"[:400], line


def _own_line(frames: Iterable[traceback.FrameSummary]) -> SourceLine | None:
    return innermost_own([SourceLine(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames])


def cause(error: BaseException) -> tuple[str, SourceLine | None]:
    """Return what an exception says in one line, without torch's wrapping; and the user's line where it came from."""
    _, line = described(error)
    while inner := dynamo.inner_error(error):
        error = inner
    message, innermost = described(error)
    return message, innermost or line


def usage_error(what: str, error: BaseException) -> UsageError:
    """Return what to raise where the user's program fails: what that means, the cause, and its place if it is known."""
    message, line = cause(error)
    return UsageError(f"{what}: {message}" + (f" ({line.file}:{line.line})" if line else ""))


@contextlib.contextmanager
def must_run() -> Iterator[None]:
    """Raise `UsageError` if the block fails, which runs the program without torch.compile."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise usage_error("the model fails without torch.compile, too", error) from error
