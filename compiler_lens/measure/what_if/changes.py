"""What can be tried without touching the code, and which of it could matter to a program. No torch here."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping

from msgspec import Struct, field

from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.recording.model import Recording

_CONFIG = "torch._dynamo.config."

_LEVELS = ("debug", "info", "warning", "error")

# What torch says of a size, a stride or a number that changed; of an attribute of a module it says what to set.
_VARIES = re.compile(r"size|stride| == -?\d")
_ATTRIBUTE = "allow_unspec_int_on_nn_module"


class Change(Struct, frozen=True):
    """Something to try: a setting, an argument of torch.compile, or marks on the inputs."""

    name: str
    code: tuple[str, ...]
    price: str
    unless: str  # why it is not tried, if nothing asked for it
    config: Mapping[str, object] = field(default_factory=dict)  # of torch._dynamo; to a set, values are added
    asked_by: str = ""  # torch names the setting that it misses where it breaks a graph or compiles again
    dynamic: bool | None = None  # torch.compile(dynamic=…)
    marks: tuple[tuple[int, int, int], ...] = ()  # call, position among its tensors, dimension: see calls.py


def _setting(name: str, price: str, unless: str, *, value: object = True, asked_by: str = "") -> Change:
    return Change(name, (f"{_CONFIG}{name} = {value}",), price, unless, {name: value}, asked_by)


SCALARS = _setting(
    "capture_scalar_outputs",
    "numbers from .item() become sizes unknown at compile time: code that branches on one may fail to compile",
    "no break at .item()",
    asked_by="capture_scalar_outputs",
)
SIZES = _setting(
    "capture_dynamic_output_shape_ops",
    "results of nonzero(), masks and the like get sizes unknown at compile time: code after them may fail to compile",
    "no break at nonzero() or a mask",
    asked_by="capture_dynamic_output_shape_ops",
)
NESTED = _setting(
    "nested_graph_breaks",
    "new in torch and off by default: a break in a called function cuts its callers once, not once each",
    "no line broke several frames",
)
RNN = _setting(
    "allow_rnn",
    "experimental: the loop over time steps is unrolled, so long sequences compile slowly, each length anew",
    "no break at an RNN",
    asked_by="allow_rnn",
)
ATTRIBUTES = _setting(
    "allow_unspec_int_on_nn_module",
    "integer attributes of modules become inputs of the graph: what depends on one is no longer a constant",
    "no integer attribute recompiled",
    asked_by=_ATTRIBUTE,
)
PRINTS = Change(
    "reorderable_logging_functions",
    (f"{_CONFIG}reorderable_logging_functions.update({{print, warnings.warn}})",),
    "what is printed comes after the graph it stood in, so out of its order",
    "no break at print()",
    {"reorderable_logging_functions": frozenset((print, warnings.warn))},
    "reorderable_logging_functions",
)
LOGGERS = Change(
    "ignore_logging_functions",
    tuple(f"{_CONFIG}ignore_logging_functions.add(logging.Logger.{name})" for name in _LEVELS),
    "compiled code logs nothing any more at these levels",
    "no break at a logger",
    {"ignore_logging_functions": frozenset(getattr(logging.Logger, name) for name in _LEVELS)},
    "ignore_logging_functions",
)
NUMPY = _setting(
    "trace_numpy",
    "numpy calls run as torch ops",
    "no break at numpy",
    asked_by="trace_numpy",
)
GRADIENTS = _setting(
    "trace_autograd_ops",
    "gradients that the code asks for become part of the graph",
    "no break at autograd.grad()",
    asked_by="trace_autograd_ops",
)
DYNAMIC = Change(
    "dynamic=True",
    ("torch.compile(model, dynamic=True)",),
    "kernels for any size: fewer compilations, often slower code than for a fixed size",
    "no size or number recompiled",
    dynamic=True,
)
NOT_STATIC = _setting(
    "assume_static_by_default",
    "sizes are dynamic from the first compilation on, as with dynamic=True, for all models of the process",
    DYNAMIC.unless,
    value=False,
)
INTEGERS = _setting("specialize_int", "integer arguments become dynamic", DYNAMIC.unless, value=False)
FLOATS = _setting("specialize_float", "float arguments become dynamic", DYNAMIC.unless, value=False)
MARKS = Change(
    "mark_dynamic",
    (),
    "only these sizes are dynamic; torch raises an error where the code needs one of them to be fixed",
    "no recompile for a size that differs between calls=[…]",
)

CHANGES = (
    SCALARS, SIZES, NESTED, RNN, ATTRIBUTES, PRINTS, LOGGERS, NUMPY, GRADIENTS,
    DYNAMIC, MARKS, NOT_STATIC, INTEGERS, FLOATS,
)  # fmt: skip


def wanted(recording: Recording, marks: Change | None) -> tuple[Change, ...]:
    """Return the changes that could do something about this recording's breaks and recompiles, in the table's order."""
    said = _said(recording)
    found = {change.name for change in CHANGES if change.asked_by and change.asked_by in said}
    if any(len({(b.compile_id.frame, b.compile_id.epoch) for b in card.events}) > 1 for card in break_cards(recording)):
        found.add(NESTED.name)  # one line breaks several frames
    if _varies(recording):
        found |= {change.name for change in (DYNAMIC, NOT_STATIC, INTEGERS, FLOATS)}
        if marks is not None:
            found.add(MARKS.name)
    chosen = tuple(change for change in CHANGES if change.name in found)
    return tuple(marks if change is MARKS and marks else change for change in chosen)


def _said(recording: Recording) -> str:
    """All that torch said about breaks and recompiles."""
    broken = [f"{b.text}\n{b.reason}\n" + "\n".join(f"{c.explanation} {c.hints}" for c in b.causes)
              for b in recording.graph_breaks]  # fmt: skip
    failed = [f"{failure.text} {failure.hint}" for r in recording.recompiles for failure in r.failures]
    return "\n".join([*broken, *failed])


def _varies(recording: Recording) -> bool:
    return any(
        _VARIES.search(failure.text) and _ATTRIBUTE not in f"{failure.text} {failure.hint}"
        for recompile in recording.recompiles
        for failure in recompile.failures
    )
