"""What a program asks of torch.compile beside a call: noted where it is asked, so nothing runs in a compiled call."""

from __future__ import annotations

from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.hooks import before
from compiler_lens.capture.session import Session, owner_of
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import asked
from compiler_lens.capture.torch_api.doors import caller

_METHODS = 5  # named of a module


def _compile(tap: Tap, context: Any, wrapped: Any) -> None:
    backend = asked.backend_of(context)
    if backend is None or tap.local.frames:  # what compiles now asks for itself: export, compiled autograd
        return
    module = asked.module_in(wrapped)
    chain = sources.decorated(wrapped if module is None else _forward(module))
    if not chain or (module is None and not sources.is_kept(chain[-1].__code__.co_filename)):
        return  # of a module torch compiles its own wrapper, too
    code = chain[-1].__code__
    facts = {
        "function": chain[-1].__qualname__.replace("<locals>.", ""),
        "defined": {"file": code.co_filename, "line": code.co_firstlineno},
        "module": "" if module is None else type(module).__name__,
        "methods": [] if module is None else asked.other_methods(module, sources.is_kept)[:_METHODS],
        "in_place": module is not None and module is not wrapped,
    }
    _note(tap, "lens.compile_site", facts, owner_of(backend))


def _forward(module: Any) -> Any:
    return vars(module).get("forward") or getattr(type(module), "forward", None)


def _stance(tap: Tap, stance: Any) -> None:
    facts = asked.stance_facts(stance)
    if facts != {"name": "default", "skips_guards": False, "backend": ""}:
        _note(tap, "lens.stance", facts, None)


def _child(tap: Tap) -> None:
    if tap.is_outside:  # else it is a worker of the compiler's
        _note(tap, "lens.child", {}, None)


def _note(tap: Tap, name: str, facts: dict[str, Any], owner: Session | None) -> None:
    at = caller(sources.is_kept)
    tap.note_once(name, {**facts, "file": at.file, "line": at.line}, owner)


_ASKED = "what is asked for"
ASKED_HOOKS = tuple(
    before(place, _ASKED, observer)
    for place, observer in ((asked.COMPILE, _compile), (asked.STANCE, _stance), (asked.CHILD, _child))
)
