"""What if: every configuration of torch.compile that could matter, tried on the real model and counted."""

from __future__ import annotations

import ast
import contextlib
import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.capture.recorder import Recorder, alone
from compiler_lens.capture.torch_api import asked, dynamo, settings
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.breaks.ranks import Offered, OfferKind
from compiler_lens.facts.measured.what_if import NotTried, Trial, WhatIf, count, left_of
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.measure.program import Call, Program, as_calls, callable_of, described, must_run
from compiler_lens.measure.sandbox.restoring import code_caches_apart, quiet, restoring_state
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, SourceLine, Stance
from compiler_lens.recording.source_text import expression

_MOST = 16  # trials: each compiles the whole program

# -- what can be tried without touching the code, and which of it could matter to a program

_CONFIG = "torch._dynamo.config."
_LEVELS = ("debug", "info", "warning", "error")
_NOTHING_VARIES = "no size or number recompiled"
_NESTED = "nested_graph_breaks"
# What torch says of a size, a stride or a number that changed; of an attribute of a module it says what to set.
_VARIES = re.compile(r"size|stride| == -?\d")
_NAMED = re.compile(r"torch\._dynamo\.config\.(\w+)")  # settings, in what is offered
_DYNAMIC = "dynamic=True"
_MOST_CALLS = 18  # a limit that is higher than torch's own is not waited for
_ATTRIBUTES = "allow_unspec_int_on_nn_module"


class Change(Struct, frozen=True):
    """Something to try: a setting, an argument of torch.compile, or marks on the inputs."""

    name: str
    code: tuple[str, ...]
    price: str
    unless: str  # why it is not tried, if nothing asked for it
    config: Mapping[str, object] = field(default_factory=dict)  # of torch._dynamo; to a set, values are added
    is_asked_for: bool = False  # torch names the setting that it misses where it breaks a graph or compiles again
    dynamic: bool | None = None  # torch.compile(dynamic=…)
    marks: tuple[tuple[int, int, int], ...] = ()  # call, position among its tensors, dimension: see program.py


def _setting(name: str, price: str, unless: str, *, value: bool = True, is_asked_for: bool = True) -> Change:
    return Change(name, (f"{_CONFIG}{name} = {value}",), price, unless, {name: value}, is_asked_for)


MARKS = Change(
    "mark_dynamic",
    (),
    "only these sizes are dynamic; torch raises an error where the code needs one of them to be fixed",
    "no recompile for a size that differs between calls=[…]",
)
CHANGES = (
    _setting(
        "capture_scalar_outputs",
        "numbers from .item() become sizes unknown at compile time: code that branches on one may fail to compile",
        "no break at .item()",
    ),
    _setting(
        "capture_dynamic_output_shape_ops",
        "results of nonzero(), masks and the like get sizes unknown at compile time: code after them may fail to "
        "compile",
        "no break at nonzero() or a mask",
    ),
    _setting(
        _NESTED,
        "new in torch and off by default: a break in a called function cuts its callers once, not once each",
        "no line broke several frames",
        is_asked_for=False,
    ),
    _setting(
        "allow_rnn",
        "experimental: the loop over time steps is unrolled, so long sequences compile slowly, each length anew",
        "no break at an RNN",
    ),
    _setting(
        _ATTRIBUTES,
        "integer attributes of modules become inputs of the graph: what depends on one is no longer a constant",
        "no integer attribute recompiled",
    ),
    Change(
        "reorderable_logging_functions",
        (f"{_CONFIG}reorderable_logging_functions.update({{print, warnings.warn}})",),
        "what is printed comes after the graph it stood in, so out of its order",
        "no break at print()",
        {"reorderable_logging_functions": frozenset((print, warnings.warn))},
        is_asked_for=True,
    ),
    Change(
        "ignore_logging_functions",
        tuple(f"{_CONFIG}ignore_logging_functions.add(logging.Logger.{name})" for name in _LEVELS),
        "compiled code logs nothing any more at these levels",
        "no break at a logger",
        {"ignore_logging_functions": frozenset(getattr(logging.Logger, name) for name in _LEVELS)},
        is_asked_for=True,
    ),
    _setting("trace_numpy", "numpy calls run as torch ops", "no break at numpy"),
    _setting(
        "trace_autograd_ops",
        "gradients that the code asks for become part of the graph",
        "no break at autograd.grad()",
    ),
    Change(
        "dynamic=True",
        ("torch.compile(model, dynamic=True)",),
        "kernels for any size: fewer compilations, often slower code than for a fixed size",
        _NOTHING_VARIES,
        dynamic=True,
    ),
    MARKS,
    _setting(
        "assume_static_by_default",
        "sizes are dynamic from the first compilation on, as with dynamic=True, for all models of the process",
        _NOTHING_VARIES,
        value=False,
        is_asked_for=False,
    ),
    _setting("specialize_int", "integer arguments become dynamic", _NOTHING_VARIES, value=False, is_asked_for=False),
    _setting("specialize_float", "float arguments become dynamic", _NOTHING_VARIES, value=False, is_asked_for=False),
)
_SCALARS, _SIZES = CHANGES[:2]
# Ways to one thing: together they are no more than the first.
_TWINS = frozenset(change.name for change in CHANGES[-5:])


def _wanted(recording: Recording, marks: Change | None) -> tuple[Change, ...]:
    """Return the changes that could do something about this recording's breaks and recompiles, in the table's order."""
    failures = [failure for recompile in recording.recompiles for failure in recompile.failures]
    said = [f"{failure.text} {failure.hint}" for failure in failures]
    varies = any(_VARIES.search(f.text) and _ATTRIBUTES not in text for f, text in zip(failures, said, strict=True))
    for graph_break in recording.graph_breaks:
        said += [graph_break.text, graph_break.reason]
        said += [f"{cause.explanation} {cause.hints}" for cause in graph_break.causes]
    all_said = "\n".join(said)
    found = {change.name for change in CHANGES if change.is_asked_for and change.name in all_said}
    cards = break_cards(recording)
    if any(len({(b.compile_id.frame, b.compile_id.epoch) for b in card.events}) > 1 for card in cards):
        found.add(_NESTED)  # one line breaks several frames
    causes = [cause for report in recompile_reports(recording) for cause in report.causes if not cause.benign]
    offers = [offer for card in cards for offer in card.offers]
    offers += [offer for cause in causes for offer in cause.offers]
    found |= {name for offer in offers for name in _NAMED.findall(offer.change)}
    if varies or any(_DYNAMIC in offer.change for offer in offers):
        found |= _TWINS
    if marks is None:
        found.discard(MARKS.name)
    known = tuple(marks if marks and change is MARKS else change for change in CHANGES if change.name in found)
    return known + _others(offers)


def _others(offers: Iterable[Offered]) -> tuple[Change, ...]:
    """Return the settings that are offered and that CHANGES does not have."""
    known, made = {change.name for change in CHANGES}, {}
    for offer in offers:
        name, _, value = offer.change.removeprefix(_CONFIG).partition(" = ")
        if offer.kind is OfferKind.SETTING and name not in known:
            with contextlib.suppress(ValueError, SyntaxError):  # names of functions, which CHANGES has
                config = {name: ast.literal_eval(expression(value))}
                made[name] = Change(name, (offer.change,), offer.check, "", config, is_asked_for=True)
    return tuple(made.values())


# -- trials


def tried(model: Callable[..., Any], given: tuple[Any, Any, Any], *, training: bool) -> WhatIf:
    """Try what could matter on a model, of which `given` are inputs, named inputs and calls. See `what_if`."""
    function, dynamic = callable_of(model, "what_if")
    calls = as_calls(*given)
    # One call is made twice: what only shows at the second, like a counter, then shows.
    program = Program(function, calls * 2 if given[2] is None else calls, training, dynamic)
    with quiet(), restoring_state(program.function, program.inputs) as kept, code_caches_apart():
        # torch imports what it compiles with: that time is not the first trial's.
        tiny = Program(lambda x: x * x.shape[0], tuple(Call((torch.zeros(size),), {}) for size in (3, 4)))
        _observe(tiny, ())
        return _Session(program, kept.restore).result()


class _Session:
    """The trials of one program, in the making."""

    def __init__(self, program: Program, restore: Callable[[], None]) -> None:
        self._program, self._restore = program, restore
        self._marks = _marks(program.function, program.calls)
        self._done: dict[frozenset[str], Trial] = {}
        self._wanted: dict[frozenset[str], tuple[Change, ...]] = {}

    def result(self) -> WhatIf:
        baseline = self._as_it_is()
        first = self._possible(self._wanted[frozenset()])
        for change in first:
            self._follow((change,))
        if any(change in (_SCALARS, _SIZES) for change in first):
            self._follow(self._possible((_SCALARS, _SIZES)))
        helped = [change for change in first if self._done[frozenset((change.name,))].helps]
        twins = [change for change in helped if change.name in _TWINS]
        self._follow(tuple(change for change in helped if change not in twins[1:]))
        tried = {name for names in self._done for name in names}
        left = [change for change in CHANGES if change.name not in tried]
        not_tried = tuple(NotTried(change.name, self._obstacle(change) or change.unless) for change in left)
        return WhatIf((baseline, *list(self._done.values())[1:]), not_tried, len(self._program.calls), _stance())

    def _as_it_is(self) -> Trial:
        """Try the program as it is; where it is compiled again, with as many calls as reach the recompile limit."""
        baseline = self._try(())
        calls, most = self._program.calls, min(settings.recompile_limit() + 2, _MOST_CALLS)
        if baseline.after is None or not baseline.after.recompiles or len(calls) >= most:
            return baseline
        self._program = replace(self._program, calls=calls * -(-most // len(calls)))
        self._marks = _marks(self._program.function, self._program.calls)
        return self._try(())

    def _follow(self, chosen: tuple[Change, ...]) -> None:
        """Try some changes; then also what torch asks for only once these are made."""
        if not chosen or len(self._done) >= _MOST or _names(chosen) in self._done:
            return
        self._try(chosen)
        known = {change.name for change in self._wanted[frozenset()]}
        for change in self._possible(self._wanted[_names(chosen)]):
            if change.name not in known and change not in chosen and change.is_asked_for:
                self._follow(tuple(sorted((*chosen, change), key=_place)))

    def _try(self, chosen: tuple[Change, ...]) -> Trial:
        try:
            recording, error, line = _observe(self._program, chosen)
        finally:
            self._restore()
        if error and not chosen:
            try:
                with must_run():
                    self._program.run(self._program.function)
            finally:
                self._restore()
        after = None if error else count(recording)
        trial = self._done[_names(chosen)] = Trial(
            name=" + ".join(change.name for change in chosen) or "as it is",
            code=tuple(text for change in chosen for text in change.code),
            price="; ".join(change.price for change in chosen),
            before=self._done[frozenset()].after if chosen else after,
            after=after,
            error=error,
            error_line=line,
            left=left_of(recording),
            problems=recording.problems,
        )
        self._wanted[_names(chosen)] = _wanted(recording, self._marks)
        return trial

    def _possible(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(change for change in changes if not self._obstacle(change))

    def _obstacle(self, change: Change) -> str:
        """Why it need not be tried; empty if it can be."""
        if not all(map(settings.has_setting, change.config)):
            return "this torch does not have it"
        is_set = bool(change.config) and settings.is_set(change.config)
        is_dynamic = change.dynamic is not None and change.dynamic == self._program.dynamic
        return "set already" if is_set or is_dynamic else ""


def _stance() -> Stance | None:
    """The stance that the program has taken: trials are made without."""
    taken = asked.stance_in_force()
    facts = asked.stance_facts(taken) if taken is not None else asked.DEFAULT
    return None if facts == asked.DEFAULT else Stance(facts["name"], None, facts["skips_guards"], facts["backend"])


def _place(change: Change) -> int:
    names = [known.name for known in CHANGES]
    return names.index(change.name) if change.name in names else len(names)


def _names(chosen: tuple[Change, ...]) -> frozenset[str]:
    return frozenset(change.name for change in chosen)


# -- one trial


def _observe(program: Program, changes: Sequence[Change]) -> tuple[Recording, str, SourceLine | None]:
    """Compile the program under the changes, as far as Dynamo goes, and make its calls: what that shows, and raises."""
    dynamic = next((change.dynamic for change in changes if change.dynamic is not None), program.dynamic)
    config = {name: value for change in changes for name, value in change.config.items()}
    dynamo.forget_compiled_code()  # each trial begins without
    with (
        contextlib.closing(Recorder(progress=False)) as recorder,
        settings.dynamo_settings(config),
        alone(recorder),
        # No piece of the program that is compiled by itself reaches Inductor either.
        torch.compiler.set_stance("default", force_backend=captured),
    ):
        for change in changes:
            for call, position, dim in change.marks:
                dynamo.mark_dynamic(program.calls[call].tensors[position][1], dim)
        error, line = "", None
        try:
            program.run(torch.compile(program.function, backend=captured, dynamic=dynamic))
        except UsageError:
            raise
        except Exception as raised:  # noqa: BLE001 -- whatever the program raises is this trial's result
            error, line = described(raised)
        return recorder.recording, error, line


def captured(graph_module: Any, _inputs: Any) -> Any:
    """Return the graph as torch captured it: a backend that generates nothing."""
    return graph_module.forward


# -- marks on the inputs whose sizes differ from call to call


def _marks(function: Callable[..., Any], calls: Sequence[Call]) -> Change | None:
    """Marks for the sizes of input tensors that differ; None if none do."""
    tables = [{str(path): (path, tensor) for path, tensor in call.tensors} for call in calls]
    found: dict[str, tuple[int, ...]] = {}
    for key, (_, tensor) in tables[0].items():
        shapes = {tuple(table[key][1].shape) for table in tables if key in table}
        if len({len(shape) for shape in shapes}) == 1:
            dims = tuple(dim for dim in range(tensor.dim()) if len({shape[dim] for shape in shapes}) > 1)
            if dims:
                found[key] = dims
    places = tuple(
        (call, position, dim)
        for call, table in enumerate(tables)
        for position, key in enumerate(table)
        for dim in found.get(key, ())
    )
    names = _parameters(function)
    code = tuple(_written(names, tables[0][key][0], dims) for key, dims in found.items())
    return Change(MARKS.name, code, MARKS.price, MARKS.unless, marks=places) if places else None


def _written(names: Sequence[str], path: Any, dims: tuple[int, ...]) -> str:
    (first, *rest) = path[1:]
    where = getattr(first, "idx", None)
    if where is None:
        name = str(getattr(first, "key", first))
    else:
        name = names[where] if where < len(names) else f"args[{where}]"
    return f"torch._dynamo.mark_dynamic({name}{''.join(map(str, rest))}, {dims[0] if len(dims) == 1 else list(dims)})"


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        known = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function).parameters
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in known.items() if parameter.kind in positional]
