"""What registers hooks of modules, and the tables that these are in."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from compiler_lens.capture.torch_api.places import Place

FACT = "hooks that are registered after their module was compiled"
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
# By the name of a module's table.
_TABLES: Mapping[str, str] = {
    "_forward_hooks": "forward hook",
    "_forward_pre_hooks": "forward pre-hook",
    "_backward_hooks": "backward hook",
    "_backward_pre_hooks": "backward pre-hook",
}


def registers(name: str) -> Place:
    """Return the place of what registers a hook of one module, or of all."""
    if name in OF_ALL_MODULES:
        return Place(_MODULE, name, FACT)
    return Place(_MODULE, f"Module.{name}", FACT, ("self",))


def table_of(handle: Any) -> Any:
    """Return the table into which a hook was put, of the handle that takes it out again."""
    return handle.hooks_dict_ref()


def owners(tables: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield the modules that have these tables, each with what kind of hook is in it, and the table."""
    module = sys.modules[_MODULE].Module  # a table does not know whose it is: all objects are looked through
    for one in gc.get_objects():
        if issubclass(type(one), module):
            held = ((kind, vars(one).get(name)) for name, kind in _TABLES.items())
            yield from ((one, kind, table) for kind, table in held if any(table is mine for mine in tables))


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
