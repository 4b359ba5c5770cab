"""A text with one of the other ways to write a line in it; what its function gives, and the gradients of that."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from compiler_lens.facts.breaks.remedies import OfBothSides
from compiler_lens.facts.breaks.rewrites import alternatives
from compiler_lens.facts.breaks.rewrites.site import Seen, SeenTensors
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied

FILE = "/app/rewritten.py"
SHAPE = BreakCause("Dynamic shape operator", context="aten.nonzero.default")
JUMP = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")


def seen(text: str, **names: Seen) -> SeenTensors:
    """What torch saw of the names of `f`, or of the forward in a text."""
    head = next(n for n, one in enumerate(text.split("\n"), 1) if one.strip().startswith(("def f(", "def forward(")))
    return {FILE: {head: {name: frozenset({one}) for name, one in names.items()}}}


def others(text: str, cause: BreakCause, containing: str, known: SeenTensors | None = None) -> list[str]:
    """The text with each of the other ways to write the first line that contains something."""
    number, line = next((n, one) for n, one in enumerate(text.split("\n"), 1) if containing in one)
    at = SourceLine(FILE, number, "f", line.strip())
    found = alternatives(cause, Sources({FILE: text}), at, known or {})
    return [applied(text, one) for one in found if not isinstance(one, OfBothSides)]


def assert_alike(old: str, new: str, *given: Any, is_compiled: bool = True) -> None:
    """Both give the same for some arguments, which they leave alike; so do their gradients."""
    torch.testing.assert_close(ran(new, given, is_compiled=is_compiled), ran(old, given), equal_nan=True)


def ran(text: str, given: tuple[Any, ...], *, is_compiled: bool = False) -> Mapping[str, Any]:
    """What the function `f`, or a model, returns and leaves behind; compiled it is one graph."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    name = f"rewritten_{len(sys.modules)}"  # torch 2.11 imports it by its name, and keeps what it got
    module = sys.modules[name] = ModuleType(name)
    exec(compile(text, FILE, "exec"), module.__dict__)
    made: Any = module.__dict__.get("f") or module.__dict__["Model"]()
    called = torch.compile(made, backend="eager", fullgraph=True) if is_compiled else made
    arguments = copy.deepcopy(given)
    parameters = list(made.parameters()) if isinstance(made, torch.nn.Module) else []
    leaves = [one for one in (*tensors(arguments), *parameters) if one.requires_grad]
    result = called(*arguments)
    roots = [one for one in tensors(result) if one.requires_grad]
    if roots:
        sum((one.double().sin() * torch.arange(1, one.numel() + 1).view(one.shape)).sum() for one in roots).backward()
    state = made.state_dict() if isinstance(made, torch.nn.Module) else {}
    return {
        "result": detached(result),
        "arguments": detached(arguments),
        "state": {name: one.clone() for name, one in state.items()},
        "gradients": [torch.zeros_like(one) if one.grad is None else one.grad for one in leaves],
    }


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in a value."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [one for part in parts for one in tensors(part)]


def detached(value: Any) -> Any:
    """A value without what its gradients need."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: detached(one) for key, one in value.items()}
    return [detached(one) for one in value] if isinstance(value, (list, tuple)) else value
