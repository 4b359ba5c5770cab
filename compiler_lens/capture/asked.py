"""What a program asks of torch.compile beside a call: noted where it is asked, so nothing runs in a compiled call."""

from __future__ import annotations

import functools
import inspect
import os
from types import FunctionType
from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.calls import CALL_HOOK, stop_hearing, written
from compiler_lens.capture.hooks import after, before
from compiler_lens.capture.session import Session, owner_of
from compiler_lens.capture.tap import ANCHOR, Tap
from compiler_lens.capture.torch_api import asked, structured_trace
from compiler_lens.capture.torch_api.doors import caller

_METHODS = 5  # named of a module


def _compile(tap: Tap, context: Any, wrapped: Any) -> None:
    backend = asked.backend_of(context)
    if backend is None or tap.local.thread.frames:  # what compiles now asks for itself: export, compiled autograd
        return
    module = asked.module_in(wrapped)
    chain = written(wrapped, module)
    if not chain or (module is None and not sources.is_kept(chain[-1].__code__.co_filename)):
        return  # of a module torch compiles its own wrapper, too
    code = chain[-1].__code__
    in_place = module is not None and module is not wrapped
    asker = asked.asker()
    at = caller(sources.is_kept, asker)
    facts = {
        "function": chain[-1].__qualname__.replace("<locals>.", ""),
        "defined": {"file": code.co_filename, "line": code.co_firstlineno},
        "module": "" if module is None else type(module).__name__,
        "methods": [] if module is None else asked.other_methods(module, _is_authors)[:_METHODS],
        "in_place": in_place,
        "is_dropped": not in_place and asker is not None and asked.is_dropped(asker),
        "is_disabled": asked.is_disabled(),
        "is_generator": bool(code.co_flags & inspect.CO_GENERATOR),
        "file": at.file,
        "line": at.line,
    }
    tap.note_once("lens.compile_site", facts, owner_of(backend), waits=True)  # for the first call


def _is_authors(method: FunctionType) -> bool:
    """Whether a method is of somebody's model, also one with a decorator of torch's."""
    return sources.is_kept(sources.decorated(method)[-1].__code__.co_filename)


def _stance(tap: Tap, _prior: Any, stance: Any) -> None:
    if facts := _takes(tap, stance):
        for session in tap.hearers():  # it holds for whatever is compiled, by whichever lens
            _note(tap, "lens.stance", facts, session)


def look_at_stance(tap: Tap, session: Session) -> None:
    """Note a stance that was taken before a lens opened: nobody knows where."""
    stance = asked.stance_in_force()
    if stance is not None and (facts := _takes(tap, stance)):
        tap.tell_once(session, "lens.stance", facts)


def _takes(tap: Tap, stance: Any) -> dict[str, Any]:
    """What there is to note of a stance, nothing of the default; its calls are counted where all are eager."""
    if asked.forces_eager(stance):
        tap.install((CALL_HOOK,))
    else:
        stop_hearing(tap)
    facts = asked.stance_facts(stance)
    return {} if facts == asked.DEFAULT else facts


def _child(tap: Tap, process: Any) -> None:
    if tap.is_outside and not asked.forks(process):  # else a worker of the compiler's, or heard of where it is made
        _note(tap, "lens.child", {}, None)


@functools.cache
def hear_forks() -> None:
    """Hear of every fork from now on, once a process: Python takes no such function back.

    It runs in the process that forks, and nothing runs in the fork. What it raises Python prints, and goes on.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)


def _before_fork() -> None:
    tap = vars(structured_trace.trace_logger()).get(ANCHOR)
    if tap is not None and tap.sessions:
        tap.safely("child processes", _forks, tap)


def _forks(tap: Tap) -> None:
    if tap.is_outside:
        at = _note(tap, "lens.child", {}, None)
        for session in tap.sessions:
            session.begin_fork(at)


def _note(tap: Tap, name: str, facts: dict[str, Any], owner: Session | None) -> tuple[str, int]:
    at = caller(sources.is_kept)
    tap.note_once(name, {**facts, "file": at.file, "line": at.line}, owner)
    return at.file, at.line


_ASKED = "what is asked for"
ASKED_HOOKS = (
    before(asked.COMPILE, _ASKED, _compile),
    after(asked.STANCE, _ASKED, _stance),  # before, it may yet be refused
    before(asked.CHILD, _ASKED, _child),
)
