"""Lens: the one mutable object, which a user holds. It only opens, hands over and closes."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from compiler_lens.capture.backend import Delegates
from compiler_lens.capture.session import Session
from compiler_lens.capture.tap import Tap, open_tap
from compiler_lens.decode.fold import fold
from compiler_lens.decode.fold_collector import collector_paused
from compiler_lens.recording.errors import RecordingFileError, UsageError
from compiler_lens.recording.journal import parse_journal, whole
from compiler_lens.recording.model import CaptureProblem, CompileId, GraphStage, Recording

if TYPE_CHECKING:
    from typing_extensions import Self

    from compiler_lens.facts.overview.explanation import Explanation
    from compiler_lens.facts.program.ownership import UserPaths
    from compiler_lens.measure.profile import Profiled
    from compiler_lens.measure.what_if import Result
    from compiler_lens.render.picture.drawing import Drawing


class Lens:
    """A backend for `torch.compile` that records what the compiler does, and lets Inductor do it.

        lens = compiler_lens.Lens("run.clens")
        model = torch.compile(model, backend=lens)   # mode=, options=, dynamic=, fullgraph= as always
        model(x)
        print(lens.report())

    As a context manager it records every compilation of the process while the block is open, whatever its backend.

    Args:
        path: where to write the recording, as things happen; `{pid}` in it becomes the process id. A file that is
            there is written over. None keeps the recording in memory; `save` writes it.
        strict: raise what goes wrong in our own code, instead of noting it. For tests.
        progress: show a line about the compilation under way, if the standard error is a terminal.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, strict: bool = False, progress: bool = True
    ) -> None:
        target = None if path is None else Path(os.fspath(path).replace("{pid}", str(os.getpid()))).absolute()
        self.__name__ = "compiler_lens"  # torch names a backend by it in its own messages
        self._delegates = Delegates()
        self._progress = _open_progress() if progress else None
        self._session = Session(target, strict=strict, listener=self._progress.event if self._progress else None)
        if self.path != target and self.path is not None:
            self._session.problem("journal", f"{target} is being recorded to already: this recording is {self.path}")
        if self._session.journal.failure:
            _warn(f"{self._session.journal.failure}. The recording stays in memory; lens.save(path) writes it")
        try:
            self._tap = open_tap(self._session)
        except BaseException:
            self._session.journal.close()
            raise
        self._finalizer = weakref.finalize(self, _close, self._tap, self._session, self._progress)

    # -- as a backend

    def __call__(
        self,
        gm: Any,
        example_inputs: Any,
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        name: str | None = None,
        **others: Any,
    ) -> Any:
        """Compile a Dynamo graph with Inductor. Called by torch."""
        return self._delegates.wrapper(mode, options, name)(gm, example_inputs, **others)

    def reset(self) -> None:
        """Part of torch's protocol for backends, called by `torch.compiler.reset()`. Does not clear the recording."""
        self._delegates.reset()

    # -- as a recorder

    @property
    def path(self) -> Path | None:
        """The file that the recording is written to."""
        return self._session.journal.path

    @property
    def recording(self) -> Recording:
        """Everything recorded so far."""
        with collector_paused():
            events, problems = parse_journal(self._session.journal.contents(), str(self.path or "the recording"))
            if self._session.journal.failure:
                problems += (CaptureProblem("journal", self._session.journal.failure),)
            problems += tuple(CaptureProblem(where, message) for where, message in self._session.unwritten)
            return fold(events, problems, strict=self._session.strict)

    @property
    def overhead_seconds(self) -> float:
        """Seconds that our own code took inside of compilations, in this process, for all open lenses."""
        return self._tap.seconds

    def report(self, *, width: int | None = None, color: bool | None = None, user_paths: UserPaths = ()) -> str:
        """One screen that says what was compiled, what was not, and what to do next."""
        from compiler_lens.render.console import report

        path = _as_typed(self.path) if self.path and self.path.exists() else "REC"
        return report(self.recording, width=width, color=color, path=path, user_paths=user_paths)

    def html(self, path: str | os.PathLike[str], *, user_paths: UserPaths = (), redact: bool = False) -> Path:
        """Write all of it as one HTML file, which needs nothing else. Raises `UsageError` where it cannot be written.

        It holds source code and paths; with `redact` neither, but names of functions, modules and kernels stay.
        """
        from compiler_lens.render.page.page import write_page

        target, name = Path(path), _as_typed(self.path) if self.path and self.path.exists() else "REC"
        with collector_paused():
            write_page(self.recording, target, user_paths=user_paths, name=name, redact=redact)
        return target

    def explain(self, *, user_paths: UserPaths = ()) -> Explanation:
        """What it means so far: coverage, graph breaks by place, recompiles, findings. See `compiler_lens.explain`."""
        from compiler_lens.facts.overview.explanation import explain

        return explain(self.recording, user_paths=user_paths)

    def graph(
        self,
        stage: str | GraphStage = "",
        compile_id: str | CompileId = "",
        *,
        module: str = "",
        depth: int | None = None,
        part: int | None = None,
    ) -> Drawing:
        """A graph as a picture, which a notebook shows; `.save("x.svg")` writes it. See `compiler_lens.draw`."""
        from compiler_lens.render.picture.drawing import draw

        return draw(self.recording, stage, compile_id, module=module, depth=depth, part=part)

    @staticmethod
    def what_if(model: Callable[..., Any], *inputs: Any, **options: Any) -> Result:
        """Try the settings that could matter on a model, see `compiler_lens.what_if`. No lens records the trials."""
        from compiler_lens.measure.what_if import what_if

        return what_if(model, *inputs, **options)

    def profile(self, model: Callable[..., Any], *inputs: Any, **options: Any) -> Profiled:
        """Measure each kernel in real calls, see `compiler_lens.profile`; the recording keeps it.

        A model that is compiled already is used as it is; else it is compiled with this lens.
        """
        from compiler_lens.measure.profile import profile_with

        if not self._finalizer.alive:
            raise UsageError("this lens is closed and records nothing more: make a new one")
        return profile_with(self, model, *inputs, **options)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recording so far to a file. Raises `RecordingFileError` where it cannot be written."""
        target = Path(path)
        try:
            target.write_bytes(whole(self._session.journal.contents()))
        except OSError as error:
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        return target

    def close(self) -> None:
        """Stop recording. What was compiled goes on working, and so does this object as a backend."""
        self._finalizer()

    def __enter__(self) -> Self:
        if not self._finalizer.alive:
            raise UsageError("this lens is closed and records nothing more: make a new one")
        self._session.everything += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.everything -= 1
        if self._session.everything == 0:
            self.close()

    def __deepcopy__(self, _memo: Any) -> Self:
        """A copy of a compiled model is recorded by the same lens."""
        return self

    def __reduce__(self) -> tuple[Callable[[], Lens], tuple[()]]:
        """A compiled model may be pickled, as with Inductor. What is loaded compiles, and records nothing."""
        return _closed_lens, ()

    def __repr__(self) -> str:
        state = "recording" if self._finalizer.alive else "closed"
        return f"<compiler_lens.Lens {state}, {self.path or 'in memory'}>"

    def _repr_html_(self) -> str:
        from compiler_lens.render.console import html_fragment

        return html_fragment(self.recording)


def _as_typed(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _warn(message: str) -> None:
    """One line on the standard error: no warning of Python's, which a filter may raise, as a recorder must not."""
    import sys

    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or something else in its place
        sys.stderr.write(f"compiler_lens: {message}\n")


def _closed_lens() -> Lens:
    lens = Lens(progress=False)
    lens.close()
    return lens


def _open_progress() -> Any:
    import sys

    from compiler_lens.capture.progress import Progress

    try:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # closed, or something else in its place
        is_terminal = False
    return Progress(sys.stderr) if is_terminal else None


def _close(tap: Tap, session: Session, progress: Any) -> None:
    try:
        tap.dismiss(session)
    finally:
        session.journal.close()
        if progress is not None:
            progress.close()
