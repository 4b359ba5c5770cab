"""Runs in the interpreter of a script that `compiler-lens run` records, before the script.

Python imports a module of this name as it starts, and `run` put this folder in front of PYTHONPATH. So the script is
run by Python itself, with nothing of ours below it on the stack. The lens opens as soon as torch's compiler is
loaded and not earlier: the script may still set environment variables that torch reads as it is imported. For the
same reason nothing is imported here that Python has not loaded anyhow.
"""

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_COMPILER = "torch._dynamo"
_EXPORT = "torch.export._trace"  # imports the compiler


class _Recorder:
    """Opens the lens when the compiler gets imported, and reports at exit."""

    def __init__(self, path: str, options: "frozenset[str]", home: str) -> None:
        self.path = path
        self.options = options
        self.home = home
        self.pid = os.getpid()
        self.lens: Any = None

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Find the compiler as the other finders do, to be told when it is loaded."""
        if name not in (_COMPILER, _EXPORT):
            return None
        found = (f.find_spec(name, path, target) for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self.watch(spec.loader)
        return spec

    def watch(self, loader: "Any") -> None:
        """Open the lens after the loading of this module, or complete it, and leave the loader as it was."""
        load = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            del loader.exec_module
            load(module)
            vars(module.__spec__)["_initializing"] = False  # as Python says next: it can be hooked now
            if self.lens is not None:
                self.ours().complete(self.lens)
            elif module.__name__ == _COMPILER and self in sys.meta_path:
                sys.meta_path.remove(self)
                self.lens = self.ours().open_lens(self.path, self.options)
                if self.lens is None:  # and it was said why
                    self.options -= {"report"}

        loader.exec_module = exec_module

    def at_exit(self) -> None:
        """The last of all exit handlers, as it was registered first: threads and other handlers may compile."""
        if os.getpid() != self.pid:
            return
        interrupted = getattr(sys, "last_type", None) is KeyboardInterrupt
        try:
            self.ours().finish(self.lens, self.path, self.options)
        finally:
            if interrupted:
                _die_of_interrupt()

    def ours(self) -> "Any":
        """Our part that may import things, from where `compiler-lens run` was imported."""
        borrowed = self.home not in sys.path
        if borrowed:
            sys.path.append(self.home)
        try:
            from compiler_lens.cli import recorded_script
        finally:
            if borrowed:
                sys.path.remove(self.home)
        return recorded_script


def _die_of_interrupt() -> None:
    """Python ends itself by SIGINT after a KeyboardInterrupt, but forgets to if anything runs source text later.

    run_eval_code_obj() in Python/pythonrun.c keeps a flag of how the last text ended; dataclasses run some.
    """
    try:  # noqa: SIM105 -- contextlib may not be loaded
        exec("raise KeyboardInterrupt")  # noqa: S102 -- text, for the flag
    except KeyboardInterrupt:
        pass


def _start() -> None:
    # os.path, pathlib is not loaded yet.
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]  # noqa: PTH100
    python_path = os.environ.pop("COMPILER_LENS_PYTHONPATH", None)
    if python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = python_path
    path = os.environ.pop("COMPILER_LENS_PATH")
    options = frozenset(os.environ.pop("COMPILER_LENS_OPTIONS").split())
    recorder = _Recorder(path, options, os.environ.pop("COMPILER_LENS_HOME"))
    sys.meta_path.insert(0, recorder)
    atexit.register(recorder.at_exit)


def _run_hidden() -> None:
    """Run the sitecustomize that this one stands in front of, if there is one."""
    ours = sys.modules.pop(__name__)
    try:
        __import__(__name__)  # the next one on the path
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, ours)  # the import system expects to find it


if "COMPILER_LENS_PATH" in os.environ:
    _start()
    _run_hidden()
