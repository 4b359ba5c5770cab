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
_NOTHING_VARIES = "no size or number recompiled"
_NESTED = "nested_graph_breaks"
# What torch says of a size, a stride or a number that changed; of an attribute of a module it says what to set.
_VARIES = re.compile(r"size|stride| == -?\d")
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
SCALARS, SIZES = CHANGES[:2]
# Ways to one thing: together they are no more than the first.
TWINS = frozenset(change.name for change in CHANGES[-5:])


def wanted(recording: Recording, marks: Change | None) -> tuple[Change, ...]:
    """Return the changes that could do something about this recording's breaks and recompiles, in the table's order."""
    failures = [failure for recompile in recording.recompiles for failure in recompile.failures]
    said = [f"{failure.text} {failure.hint}" for failure in failures]
    varies = any(_VARIES.search(f.text) and _ATTRIBUTES not in text for f, text in zip(failures, said, strict=True))
    for graph_break in recording.graph_breaks:
        said += [graph_break.text, graph_break.reason]
        said += [f"{cause.explanation} {cause.hints}" for cause in graph_break.causes]
    all_said = "\n".join(said)
    found = {change.name for change in CHANGES if change.is_asked_for and change.name in all_said}
    if any(len({(b.compile_id.frame, b.compile_id.epoch) for b in card.events}) > 1 for card in break_cards(recording)):
        found.add(_NESTED)  # one line breaks several frames
    if varies:
        found |= TWINS
    if marks is None:
        found.discard(MARKS.name)
    return tuple(marks if marks and change is MARKS else change for change in CHANGES if change.name in found)
