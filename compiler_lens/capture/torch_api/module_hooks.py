"""Hooks of modules: those that compiled code was made without and does not look for, and where one is registered."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from compiler_lens.capture.torch_api.places import Place

_FACT = "hooks that are registered after their module was compiled"
_GUARDS = "torch._dynamo.guards"
_EMPTY = "EMPTY_NN_MODULE_HOOKS_DICT"
# The guards of a frame, as they are made: with one for each kind of hooks that a module has none of.
BUILT = Place(
    _GUARDS,
    "CheckFunctionManager.build_guards",
    _FACT,
    ("sorted_guards",),
    needs=(f"{_GUARDS}:GuardBuilder.{_EMPTY}", f"{_GUARDS}:GuardBuilder.get"),
)
_MODULE, _FILE = "torch.nn.modules.module", "torch/nn/modules/module.py"
# By what registers one: in which words it is told.
OF_A_MODULE: Mapping[str, str] = {
    "register_forward_hook": "forward hook",
    "register_forward_pre_hook": "forward pre-hook",
    "register_full_backward_hook": "backward hook",
    "register_full_backward_pre_hook": "backward pre-hook",
    "register_backward_hook": "backward hook",
}
OF_ALL_MODULES: Mapping[str, str] = {
    "register_module_forward_hook": "forward hook",
    "register_module_forward_pre_hook": "forward pre-hook",
    "register_module_full_backward_hook": "backward hook",
    "register_module_full_backward_pre_hook": "backward pre-hook",
    "register_module_backward_hook": "backward hook",
}


def registers(name: str) -> Place:
    """Return the place of what registers a hook of one module, or of all."""
    if name in OF_ALL_MODULES:
        return Place(_MODULE, name, _FACT)
    return Place(_MODULE, f"Module.{name}", _FACT, ("self",))


def not_looked_for(builder: Any, guards: Sequence[Any]) -> Iterator[OrderedDict[Any, Any]]:
    """Yield the empty tables of hooks that a frame was compiled with, and that its guards do not look into.

    torch leaves these guards out, for speed: GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT() in torch/_dynamo/guards.py.
    """
    if not sys.modules["torch._dynamo.config"].skip_nnmodule_hook_guards:
        return
    for guard in guards:
        if guard.create_fn_name() == _EMPTY and isinstance(table := builder.get(guard), OrderedDict):
            yield table


def table_of(handle: Any) -> Any:
    """Return the table into which a hook was put, of the handle that takes it out again."""
    return handle.hooks_dict_ref()


def asker() -> FrameType | None:
    """Return the frame that calls what registers a hook of all modules: torch's own, too, as for a FlopCounterMode."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith(_FILE):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.endswith(_FILE):
        frame = frame.f_back
    return frame


def is_in_use(guards: Any) -> bool:
    """Return whether code stands compiled under these guards: a reset drops it."""
    return getattr(guards, "cache_entry", None) is not None
