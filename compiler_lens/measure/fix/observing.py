"""What functions of some files are given and return, heard while a program runs eagerly."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import version_of
from compiler_lens.facts.measured.called import Call, Called, Seen

_MOST = 32  # calls of a function that are kept: others have other sizes
_LONGEST = 80  # characters of a plain value
_PLAIN = (bool, int, float, str, type(None))


class Observer:
    """Hears of calls of functions whose code is in some files."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files
        self._open: dict[int, dict[str, tuple[Any, int]]] = {}  # parameters of calls under way, by their frame
        self._calls: dict[CodeType, dict[Call, None]] = {}
        self._more: set[CodeType] = set()

    @property
    def called(self) -> tuple[Called, ...]:
        """What was heard, a value for each function."""
        return tuple(
            Called(code.co_filename, code.co_firstlineno, tuple(calls), code not in self._more)
            for code, calls in self._calls.items()
        )

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        """Hear of all calls of this thread while the block runs."""
        if not self._files or sys.getprofile() is not None or threading.current_thread() is not threading.main_thread():
            yield
            return
        sys.setprofile(self._hear)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if code.co_filename not in self._files or event not in {"call", "return"} or code.co_name.startswith("<"):
            return
        if event == "call":
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            given = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
            if not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
                self._open[id(frame)] = {name: (one, _version(one)) for name, one in given.items()}
        elif id(frame) in self._open:
            self._returned(code, self._open.pop(id(frame)), value)

    def _returned(self, code: CodeType, given: Mapping[str, tuple[Any, int]], value: Any) -> None:
        calls = self._calls.setdefault(code, {})
        values = [one for one, _ in given.values()]
        changed = tuple(name for name, (one, version) in given.items() if _version(one) != version)
        call = Call(tuple((name, _seen(one)) for name, (one, _) in given.items()), _seen(value, values), changed)
        if call not in calls and len(calls) >= _MOST:
            self._more.add(code)
            return
        calls[call] = None


def _version(value: Any) -> int:
    return version_of(value) if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _seen(value: Any, given: list[Any] | None = None) -> Seen:
    if type(value) in _PLAIN:
        return Seen("plain", repr(value)[:_LONGEST])
    if type(value) in {torch.Tensor, torch.nn.Parameter} and value.layout is torch.strided and not value.is_nested:
        shares = any(_share(one, value) for one in given or () if isinstance(one, torch.Tensor))
        return Seen(
            "tensor", type(value).__name__, tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch."),
            str(value.device), value.is_contiguous(), value.requires_grad, shares,
        )  # fmt: skip
    if type(value) is tuple and value and all(isinstance(one, torch.Tensor) for one in value):
        # An operator may not return one memory twice, either.
        others = [[*(given or ()), *value[:n], *value[n + 1 :]] for n in range(len(value))]
        return Seen("tuple", parts=tuple(_seen(one, rest) for one, rest in zip(value, others, strict=True)))
    return Seen("module" if isinstance(value, torch.nn.Module) else "other", type(value).__name__)


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors lie in one memory, which NumPy may have handed on: then the storages are two."""
    if one.layout is not torch.strided or one.is_nested or one.device != other.device:
        return one is other
    (first, end), (start, last) = _memory(one), _memory(other)
    return first < last and start < end


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
