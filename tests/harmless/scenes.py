"""Short programs that a test runs in a process of its own; each returns plain values."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from observation import Folders, note_calls, without_addresses


@contextlib.contextmanager
def _lens(folders: Folders, label: str) -> Iterator[Any]:
    from compiler_lens import Lens

    _use(folders, label)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.closing(Lens(strict=True)) as lens:
        yield lens


def _use(folders: Folders, label: str) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folders.inductor)
    folders.use(label)


def _model() -> tuple[Any, Any]:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)), torch.randn(4, 8)


def first_and_later_calls(folders: Folders) -> dict[str, int]:
    """How often our functions are entered: while compiling, in later calls, and in later calls of another thread."""
    import torch

    with _lens(folders, "calls") as lens:
        model, x = _model()
        compiled = torch.compile(model, backend=lens)

        def step() -> None:
            compiled(x).sum().backward()

        return {
            "first": len(note_calls(step)[1]),
            "later": len(note_calls(step)[1]),
            "elsewhere": len(note_calls(lambda: _in_thread(step))[1]),
        }


def _in_thread(action: Callable[[], None]) -> None:
    thread = threading.Thread(target=action)
    thread.start()
    thread.join()


def journal_growth(folders: Folders) -> dict[str, int]:
    """Events in the journal: after compiling, after a hundred calls, and after a recompile."""
    import torch

    from compiler_lens.recording.journal_reader import parse_journal

    with _lens(folders, "growth") as lens:
        model, x = _model()
        compiled = torch.compile(model, backend=lens, dynamic=False)

        def events() -> int:
            return len(parse_journal(lens._session.journal.contents(), "it")[0])

        compiled(x).sum().backward()
        counts = {"compiled": events()}
        for _ in range(100):
            compiled(x).sum().backward()
        counts["called"] = events()
        compiled(x[:2])
        counts["recompiled"] = events()
        return counts


def failure(
    backend: str, settings: dict[str, Any], folders: Folders, width: int = 16
) -> tuple[str, list[str], str, list[str]]:
    """Where a setting fails ("compile" or "call"), the types of the error and its causes, its text, its traceback."""
    import torch
    import zoo

    with _lens(folders, "failure") as lens:
        compiler = lens if backend == "lens" else backend
        place = "compile"
        try:
            compiled = torch.compile(zoo.Chatty(), backend=compiler, **settings)
            place = "call"
            compiled(torch.ones(4, width))
        except Exception as error:  # noqa: BLE001 -- which one is the question
            frames = traceback.extract_tb(error.__traceback__)
            return place, _types(error), str(error), [f"{frame.filename}:{frame.lineno}" for frame in frames]
    return "nowhere", [], "", []


def _types(error: BaseException | None) -> list[str]:
    names = []
    while error is not None:
        names.append(type(error).__name__)
        error = getattr(error, "inner_exception", None) or error.__cause__  # BackendCompilerFailed has no cause
    return names


def by_name(folders: Folders) -> tuple[list[float], int, bool]:
    """`backend="compiler_lens"`: what a function returns, the compilations recorded, and whether it is one lens."""
    import torch

    from compiler_lens.lens import named_lens

    _use(folders, "name")
    result = torch.compile(lambda x: x + 1, backend="compiler_lens")(torch.arange(3.0))
    lens = named_lens()
    torch.compile(lambda x: x * 2, backend="compiler_lens")(result)
    compilations = len(lens.recording.compilations)
    lens.close()
    return result.tolist(), compilations, named_lens() is lens


def backends() -> tuple[list[str], list[str], list[str]]:
    """The backends that torch lists before a lens opens, while it is open, and after."""
    import torch

    from compiler_lens import Lens

    before = torch._dynamo.list_backends()
    with contextlib.closing(Lens(strict=True)):
        between = torch._dynamo.list_backends()
    return before, between, torch._dynamo.list_backends()


def said(backend: str, folders: Folders) -> list[str]:
    """Everything that torch logs and warns of while two models compile, with graph breaks and recompiles asked for."""
    import torch
    import zoo

    lines: list[str] = []
    torch._logging.set_logs(graph_breaks=True, recompiles=True)
    for logger in map(
        logging.getLogger, (name for name in logging.root.manager.loggerDict if name.startswith("torch"))
    ):
        if logger.handlers and logger.name != "torch.__trace":
            logger.handlers = [_Keep(lines)]
    with _lens(folders, f"said-{backend}") as lens, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with lens if backend == "with" else contextlib.nullcontext():
            for name in ("chatty", "flagged", "looped_moe"):
                specimen = next(s for s in zoo.SPECIMENS if s.name == name)
                compiled = torch.compile(specimen.make(), backend=lens if backend == "lens" else "inductor")
                for call in specimen.calls():
                    compiled(**call)
    return [*lines, *(f"{w.filename}:{w.lineno} {w.message}" for w in warned)]


class _Keep(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(without_addresses(f"{record.name} {record.pathname}:{record.lineno} {record.getMessage()}"))
