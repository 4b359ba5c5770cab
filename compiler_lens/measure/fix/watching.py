"""A program watched while it runs: each outermost call of a compiled function, and what it gave."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.nn.modules import module as modules

from compiler_lens.capture.sources import decorated
from compiler_lens.capture.torch_api import asked, dynamo
from compiler_lens.capture.torch_api.measuring import pytree, version_of
from compiler_lens.capture.torch_api.places import Function, put_in
from compiler_lens.facts.measured.each_call import Calls
from compiler_lens.measure.fix.objects import Named, generators, held, roots_of
from compiler_lens.measure.fix.other_inputs import CountedLines, OtherCalls
from compiler_lens.measure.fix.results import Keeper
from compiler_lens.measure.program import leaves
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.own_files import is_own

_MOST_NODES = 100_000  # of an autograd graph
_FIRST = 8  # elements


class _Thread(threading.local):
    is_inside = False  # of a compiled call


class _Hooks:
    """Hear of what modules register, but not in compiled calls: Dynamo traces these hooks with `self.count += 1`."""

    def __init__(self, hear: Callable[[torch.nn.Module, str, Any], None]) -> None:
        self._hear = hear
        self._lock = threading.Lock()
        self._calls = 0  # compiled ones under way, in all threads
        self._undo: list[Callable[[], None]] = []

    def put_in(self) -> None:
        parameters = modules.register_module_parameter_registration_hook(self._hear)
        buffers = modules.register_module_buffer_registration_hook(self._hear)
        self._undo = [parameters.remove, buffers.remove]

    def take_out(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []

    @contextlib.contextmanager
    def out(self) -> Iterator[None]:
        with self._lock:
            self._calls += 1
            self.take_out()
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                if not self._calls:
                    self.put_in()


class Watch:
    """Keeps what compiled functions return, what they change in place, and the gradients of parameters.

    Args:
        steps: how many outermost calls there may be; 0 for any number.
        enough: called before the call that would be one too many. It does not return.
        others: makes calls with other inputs before the program's own.
        lines: counts the lines that run in these calls.
        is_noisy: round all parameters otherwise before the first call.
        beside: files and qualified names of functions of which calls do not count, though they are compiled.
    """

    def __init__(  # noqa: PLR0913 -- what is watched, and how
        self,
        steps: int,
        enough: Callable[[], object],
        *,
        others: OtherCalls | None = None,
        lines: CountedLines | None = None,
        is_noisy: bool = False,
        beside: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.keeper = Keeper()
        self._others, self._lines = others, lines or CountedLines(frozenset())
        self._beside = beside
        self.calls = 0
        self.is_inductor = True  # none of the functions is for another backend
        self._steps, self._enough = steps, enough
        self._here = _Thread()
        # Parameters and buffers, in the order of their making. They are kept alive: when a program's are collected
        # depends on how it is compiled. Until the first call only as long as the program has them.
        self._state: dict[int, torch.Tensor] = {}
        # Modules, with a number that is the same in each run. Dynamo drops code of those that are gone.
        self._modules: dict[int, tuple[int, weakref.ref[torch.nn.Module]]] = {}
        self._numbers = itertools.count(1)
        self._given: list[torch.Tensor] = []  # leaves that need a gradient, of the last call
        self._reached: list[torch.Tensor] = []  # others that its result has a gradient for: global tensors, say
        self._hooks = _Hooks(self._register)
        self._is_begun = False  # a compiled function was called
        self._is_noisy = is_noisy
        self._functions: dict[int, Function] = {}  # that torch.compile made
        self._calls_of: Counter[tuple[CodeType, str]] = Counter()  # by what their authors wrote
        self._inner: list[Function] = []  # that were called by Python within the others, for each call

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch all calls of the process while the block runs."""
        compiled, backward = dynamo.COMPILED.find(), dynamo.BACKWARD.find()
        self._hooks.put_in()
        undo = [put_in(compiled, self._compiles), put_in(backward, self._backward)]
        try:
            yield
        finally:
            for step in (*undo, self._hooks.take_out):
                step()

    @property
    def calls_of(self) -> tuple[Calls, ...]:
        """How many calls were of each function, of those from outside of compiled code."""
        every = self._calls_of.copy()
        for compiled, calls in Counter(self._inner).items():
            every.update(dict.fromkeys(_named(compiled), calls))
        return tuple(
            Calls(SourceLine(code.co_filename, code.co_firstlineno, name.replace("<locals>.", "")), calls)
            for (code, name), calls in every.items()
        )

    def keep_state(self) -> None:
        """Keep gradients, parameters and buffers as they are in the end."""
        self._keep_gradients()
        for _, module in self._alive():
            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                self._state.setdefault(id(tensor), tensor)  # also what a call has put in place of another
        self.keeper.keep("state", self.calls, self._state.values())
        self.keeper.keep_named("object", self.calls, held(self._roots(), with_weights=False))
        self.keeper.keep_named("generator", self.calls, generators())

    def _roots(self) -> Iterator[Named]:
        """Yield what the program's objects are reached from: its script, what it compiles, modules that are alive."""
        own = {name: one for name, one in vars(sys.modules["__main__"]).items() if not name.startswith("__")}
        yield from own.items() if is_own(getattr(sys.modules["__main__"], "__file__", None) or "") else ()
        for function in self._functions.values():
            yield from roots_of(function)
        for number, module in self._alive():
            yield f"{type(module).__name__} {number}", module

    def _alive(self) -> Sequence[tuple[int, torch.nn.Module]]:
        found = ((number, known()) for number, known in list(self._modules.values()))
        return [(number, module) for number, module in found if module is not None]

    # -- calls

    def _compiles(self, original: Function) -> Function:
        @functools.wraps(original)
        def compiles(*args: Any, **kwargs: Any) -> Any:
            # Of all of torch's backends Inductor alone has a configuration.
            self.is_inductor &= getattr(args[0], "compiler_config", None) is not None
            made = original(*args, **kwargs)
            return self._watched(made) if isinstance(made, FunctionType) else made  # else a module: its forward

        return compiles

    def _watched(self, compiled: Function) -> Function:
        is_beside = any((code.co_filename, name) in self._beside for code, name in _named(compiled))

        @functools.wraps(compiled)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._here.is_inside or is_beside:
                self._inner.append(compiled)
                return compiled(*args, **kwargs)
            is_enough = self._others is not None and self._others.is_done
            if is_enough or (self._steps and self.calls >= self._steps):
                self._enough()
            self._forget_what_is_gone()
            given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            before = [_version(tensor) for tensor in given]
            self._here.is_inside = True
            try:
                self._functions.setdefault(id(compiled), dynamo.as_written(compiled)[0])
                self._calls_of.update(_written(self._functions[id(compiled)]))
                with self._hooks.out():
                    if self._others is not None:
                        self._others.before(compiled, self.calls, (args, kwargs), self._leaves_of)
                    with self._lines.counting():
                        result = compiled(*args, **kwargs)
            except Exception as error:
                # Which the program may catch: what it is told then is a result, too.
                self.keeper.keep("error", self.calls, [type(error).__name__])
                self.calls += 1
                raise
            finally:
                self._here.is_inside = False
            self._keep(result, given, before)
            return result

        return dynamo.in_place_of(watched, compiled)  # type: ignore[no-any-return]

    def _forget_what_is_gone(self) -> None:
        """Let go, before the first call, of parameters that nobody has any more: some were never given values."""
        if not self._is_begun:
            self._is_begun = True
            known = {number: weakref.ref(tensor) for number, tensor in self._state.items()}
            self._state = {}
            gc.collect()  # so that it is the same ones in each run
            self._state = {number: left for number, tensor in known.items() if (left := tensor()) is not None}
            # Which were there before, and whether one is where another was, depends on when the collector ran.
            self._numbers = itertools.count(1)
            self._modules = {id(one): (next(self._numbers), weakref.ref(one)) for _, one in self._alive()}
            if self._is_noisy:
                _round_otherwise(self._state.values())

    def _keep(self, result: Any, given: list[torch.Tensor], before: list[int]) -> None:
        changed = [tensor for tensor, version in zip(given, before, strict=True) if _version(tensor) != version]
        self.keeper.keep("result", self.calls, leaves(result))
        self.keeper.keep("argument", self.calls, changed)
        self._given = [tensor for tensor in given if tensor.is_leaf and tensor.requires_grad]
        known = {*self._state, *map(id, self._given)}
        self._reached = sorted((leaf for leaf in _leaves_of(result) if id(leaf) not in known), key=_order)
        self.calls += 1

    def _leaves_of(self, result: Any) -> list[torch.Tensor]:
        """Return the leaves that a result may have gradients for, in one order in each run."""
        others = [leaf for leaf in _leaves_of(result) if id(leaf) not in self._state]
        return [*(tensor for tensor in self._state.values() if tensor.is_leaf), *sorted(others, key=_order)]

    # -- gradients

    def _register(self, module: torch.nn.Module, _name: str, tensor: Any) -> None:
        if dynamo.compile_context() is not None:  # a constant of a backward that is compiled when it is needed
            return
        known = self._modules.get(id(module))
        if known is None or known[1]() is not module:
            self._modules.pop(id(module), None)  # of one that is gone: this comes last
            self._modules[id(module)] = next(self._numbers), weakref.ref(module)
        if isinstance(tensor, torch.Tensor):
            self._state.setdefault(id(tensor), tensor)

    def _backward(self, original: Function) -> Function:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not self._here.is_inside:
                self._keep_gradients()
            return result

        return backward

    def _keep_gradients(self) -> None:
        # One for each: what has none in one run and has one in another differs.
        every = (*self._state.values(), *self._given, *self._reached)
        self.keeper.keep("gradient", self.calls, [tensor.grad for tensor in every if tensor.is_leaf])


def _named(compiled: Function) -> Iterable[tuple[CodeType, str]]:
    return _written(dynamo.as_written(compiled)[0])


def _written(function: Function) -> Iterable[tuple[CodeType, str]]:
    """Return the code of what an author wrote, and its name: of a module its forward, without decorators."""
    called = asked.whose_call(function)
    chain = [] if isinstance(called, torch.nn.Module) else decorated(called)[-1:]
    # A module whose forward is decorated torch gives a wrapper of its own.
    within = next((asked.whose_call(vars(one).get("__wrapped__")) for one in chain), called)
    if isinstance(within, torch.nn.Module):
        chain = decorated(within.forward)[-1:]
    return [(one.__code__, one.__qualname__) for one in chain]


def _round_otherwise(tensors: Iterable[torch.Tensor]) -> None:
    """Move each element to the next number that its dtype has: half of them up, half of them down."""
    for tensor in tensors:
        if type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.is_floating_point() and not tensor.is_meta:
            with torch.no_grad():
                plain = tensor.detach().double()
                step = torch.finfo(tensor.dtype).eps * (torch.arange(plain.numel()) % 2 * 2 - 1).view_as(plain)
                tensor.copy_(plain * (1 + step.to(plain.device)))


def _leaves_of(result: Any) -> list[torch.Tensor]:
    """Return the leaves that a backward from a result would give gradients to; none of a graph that is too large."""
    left: list[Any] = [getattr(tensor, "grad_fn", None) for tensor in leaves(result)]
    seen: set[Any] = set()
    found: list[torch.Tensor] = []
    while left and len(seen) < _MOST_NODES:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        left += [before for before, _ in node.next_functions]
        leaf = getattr(node, "variable", None)  # of what accumulates a gradient
        found += [leaf] if isinstance(leaf, torch.Tensor) else []
    return [] if left else found


def _order(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what puts tensors in one order in each run, in whichever order a graph comes to them."""
    is_plain = type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.layout is torch.strided
    has_values = is_plain and not (tensor.is_meta or tensor.is_nested or tensor.is_complex())
    first = tensor.detach().reshape(-1)[:_FIRST].double().tolist() if has_values else []
    return str(tensor.dtype), tuple(tensor.shape) if is_plain else (), first


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else version_of(tensor)
