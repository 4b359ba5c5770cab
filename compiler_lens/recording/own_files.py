"""Which files nobody who uses torch.compile wrote: by their paths alone."""

from __future__ import annotations

import posixpath
import re

from compiler_lens.recording.model import Recording

# Files that nobody who uses torch.compile wrote: installed packages, the standard library, a source checkout of torch,
# code that torch generated, code without a file. `<stdin>` and `<ipython-input-3-…>` are the user's.
# Each begins with a slash, one is put before the path: a search runs from slash to slash, however long the names are.
_NOT_OWN = re.compile(
    r"/(?:(site-packages|dist-packages)/"
    r"|(?<=[\s\S]/)(lib(64)?/python3(\.\d+)?t?|torchinductor_[^/]*)/"
    r"|compiler_lens/(capture/|cli/|measure/|lens\.py)"  # our own hooks stand in torch's stacks
    r"|torch/(_dynamo|_inductor|_functorch|_higher_order_ops|_ops|_tensor|_library|nn/modules|nn/functional|nn/parallel"
    r"|fx|optim|autograd|distributed|utils/_)(/|\.|_))",
)
_NO_FILE = ("<frozen ", "<string>", "<eval_with_key>", "<eval with", "<__array_function__", "<unknown")
_PACKAGE = re.compile(r"/(?:site-packages|dist-packages)/([^/]+)")
_MACHINERY = re.compile(r"/((site-packages|dist-packages)/torch|compiler_lens/(capture|measure))/")


def is_own(file: str) -> bool:
    """Return whether a file is the user's: not torch's, not an installed package's, not the standard library's."""
    return bool(file) and not file.startswith(_NO_FILE) and _NOT_OWN.search("/" + slashed(file)) is None


def is_machinery(file: str) -> bool:
    """Return whether a file is torch's or ours: its lines in a stack say nothing to a user."""
    return _MACHINERY.search("/" + slashed(file)) is not None


def package_of(file: str) -> str:
    """Return the name of the installed package that a file is of; empty for any other file."""
    found = _PACKAGE.search("/" + slashed(file))
    return found[1].removesuffix(".py") if found else ""


def slashed(path: str) -> str:
    """Return a path with slashes, without one at its end."""
    return path.replace("\\", "/").rstrip("/")


def program_root(recording: Recording) -> str:
    """Return the folder of the program that was recorded, with a slash at its end; empty where it is not known.

    That is the folder of its script; without one, what the user's own files have in common.
    """
    own = {slashed(one.file) for one in recording.compilations if is_own(one.file)}
    files = sorted(file for file in own if file.startswith("/"))
    script = slashed(recording.environment.argv[0]) if recording.environment.argv else ""
    if script.startswith("/"):
        return script.rpartition("/")[0] + "/"
    if script:
        found = next((file for file in files if file.endswith(f"/{script}")), "")
        if found:
            return found.removesuffix(script)
    return posixpath.commonpath([posixpath.dirname(file) for file in files]).rstrip("/") + "/" if files else ""
