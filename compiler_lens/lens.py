"""The door: `Lens`, which a user holds, the measurements, and the lens that torch loads by name.

It composes what is below it, and does nothing itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler_lens.capture.recorder import Recorder
from compiler_lens.capture.torch_api import dynamo
from compiler_lens.decode.fold import collector_paused
from compiler_lens.recording.errors import UsageError, visible
from compiler_lens.recording.model import CompileId, GraphStage

if TYPE_CHECKING:
    from compiler_lens.facts.overview.explanation import Explanation
    from compiler_lens.facts.program.ownership import UserPaths
    from compiler_lens.measure.modes.compare import Compared
    from compiler_lens.measure.modes.wanted import Phase
    from compiler_lens.render.picture.drawing import Drawing
    from compiler_lens.render.results import Modes, Profiled, WhatIfResult

NAME = "compiler_lens"
# What `compare_modes` compares: no compilation, and the modes of torch.
MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Lens(Recorder):
    """A backend for `torch.compile` that records what the compiler does, and lets Inductor do it.

        lens = compiler_lens.Lens("run.clens")
        model = torch.compile(model, backend=lens)   # mode=, options=, dynamic=, fullgraph= as always
        model(x)
        print(lens.report())

    As a context manager it records every compilation of the process while the block is open, whatever its backend.

    Args:
        path: where to write the recording, as things happen; `{pid}` in it becomes the process id. A recording that
            is there is written over. None keeps the recording in memory; `save` writes it.
        strict: raise what goes wrong in our own code, instead of noting it. For tests.
        progress: show a line about the compilation under way, if the standard error is a terminal.
        overwrite: write over a file that is there, whatever it holds.

    Raises:
        UsageError: a file is there that is not a recording, and it is not to be overwritten.
    """

    def report(self, *, width: int | None = None, color: bool | None = None, user_paths: UserPaths = ()) -> str:
        """Return one screen that says what was compiled, what was not, and what to do next."""
        from compiler_lens.render.console import report

        return report(self.recording, width=width, color=color, path=self._named(), user_paths=user_paths)

    def html(
        self,
        path: str | os.PathLike[str],
        *,
        user_paths: UserPaths = (),
        redact: bool = False,
        overwrite: bool = False,
    ) -> Path:
        """Write all of it as one HTML file, which needs nothing else. Raises `UsageError` where it cannot be written.

        It holds source code and paths; with `redact` neither, but names of functions, modules and kernels stay. Only a
        page of ours is written over, unless `overwrite`.
        """
        from compiler_lens.render.page.page import write_page

        with collector_paused():
            write_page(
                self.recording,
                Path(path),
                user_paths=user_paths,
                name=self._named(),
                redact=redact,
                overwrite=overwrite,
            )
        return Path(path)

    def explain(self, *, user_paths: UserPaths = ()) -> Explanation:
        """Return what it means so far: coverage, breaks by place, recompiles, findings. See `compiler_lens.explain`."""
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
        """Return a graph as a picture, which a notebook shows; `.save("x.svg")` writes it. See `compiler_lens.draw`."""
        from compiler_lens.render.picture.drawing import draw

        return draw(self.recording, stage, compile_id, module=module, depth=depth, part=part)

    @staticmethod
    def what_if(model: Callable[..., Any], *inputs: Any, **options: Any) -> WhatIfResult:
        """Try the settings that could matter on a model, see `compiler_lens.what_if`. No lens records the trials."""
        return what_if(model, *inputs, **options)

    def profile(
        self,
        model: Callable[..., Any],
        *inputs: Any,
        training: bool = False,
        calls: Any = None,
        repeats: int | None = None,
        **kwargs: Any,
    ) -> Profiled:
        """Measure each kernel in real calls, see `compiler_lens.profile`; the recording keeps it.

        A model that is compiled already is used as it is; else it is compiled with this lens.
        """
        from compiler_lens.measure.profile.record import profile_with
        from compiler_lens.render.results import Profiled

        self._check_open()
        recording, file = profile_with(self, model, (inputs, kwargs, calls), training=training, repeats=repeats)
        return Profiled(recording, recording.profiles[-1], file)

    def _named(self) -> str:
        """The recording's file, as one types it."""
        if not self.path or not self.path.exists():
            return "REC"
        return str(self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path)

    def __repr__(self) -> str:
        state = "recording" if self._finalizer.alive else "closed"
        return f"<compiler_lens.Lens {state}, {visible(str(self.path or 'in memory'))}>"

    def _repr_html_(self) -> str:
        from compiler_lens.render.console import html_fragment

        return html_fragment(self.recording)


# -- measurements


def profile(  # noqa: PLR0913 -- all but the first two are said by name
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    path: str | os.PathLike[str] | None = None,
    training: bool = False,
    calls: Any = None,
    repeats: int | None = None,
    overwrite: bool = False,
    **kwargs: Any,
) -> Profiled:
    """Compile a model, and measure how long each launch of each kernel takes in real calls of it.

        print(compiler_lens.profile(model, x))
        print(compiler_lens.profile(model, x, mode="reduce-overhead", path="run.clens"))

    What a call may change is afterwards as it was before, see `what_if`; as there, what the process has compiled before
    is dropped, and compiles again when it is next called. A model that is compiled already is compiled anew, as this
    asks for; to time it as it is, `Lens.profile` of the lens that it was compiled with.

    Args:
        mode: of torch.compile.
        path: where to write the recording with the profile in it; None keeps it in memory.
        training: run a backward after each call, from `.loss` or the sum of the first result that has a gradient.
            Without it the model is called without gradients, if it can be.
        calls: several sets of inputs, `[(args, kwargs), …]`; times are then of one such call on average.
        repeats: how often to call, for each of the two measurements; by default as often as takes half a second,
            30 times at most under the profiler.
        overwrite: write over a file at `path` that is no recording.

    Raises:
        UsageError: the model cannot be called with these inputs, nothing of it is compiled, torch has no such mode,
            somebody profiles, or `path` is there and not a recording.
    """
    from compiler_lens.measure.profile.record import profile_anew
    from compiler_lens.render.results import Profiled

    given = inputs, kwargs, calls
    recording, file = profile_anew(
        model, given, mode=mode, path=path, overwrite=overwrite, training=training, repeats=repeats
    )
    return Profiled(recording, recording.profiles[-1], file)


def what_if(
    model: Callable[..., Any], *inputs: Any, calls: Any = None, training: bool = False, **kwargs: Any
) -> WhatIfResult:
    """Try the settings that could matter on a model, and say what each would do to graphs, breaks and recompiles.

        print(compiler_lens.what_if(model, x))
        print(compiler_lens.what_if(model, calls=[((x,), {}), ((longer,), {})]))

    Nothing is generated: graphs run as Dynamo captured them. One set of inputs is called twice. What a call may
    change (parameters, buffers, gradients, attributes, random states, inputs) is afterwards as it was before. Not put
    back: other objects of libraries (iterators, `array.array`, locks), global names that only methods other than
    `forward` and `__call__` mention, sparse tensors that are changed in place, and what is outside of Python.

    torch keeps compiled code per process and cannot set it aside: what the process has compiled before is dropped,
    and compiles again when it is next called (quickly, from warm caches). Call this before you train, or beside it.

    Args:
        calls: several sets of inputs, `[(args, kwargs), …]`: sizes that differ between them are tried as dynamic.
        training: run a backward after each call, from `.loss` or the sum of the first result that has a gradient.

    Raises:
        UsageError: the model cannot be called with these inputs, or cannot be tried.
    """
    from compiler_lens.measure.what_if import tried
    from compiler_lens.render.results import WhatIfResult

    found = tried(model, (inputs, kwargs, calls), training=training)
    return WhatIfResult(found.trials, found.not_tried, found.calls, found.stance)


def compare_modes(  # noqa: PLR0913 -- each by its name
    model: Callable[..., Any],
    *inputs: Any,
    modes: Iterable[str] | str = MODES,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    calls: Any = None,
    training: bool = False,
    phases: Sequence[Phase] | None = None,
    seconds: float = 2.0,
    passes: int = 2,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    each: Callable[[Modes, str], object] | None = None,
    overwrite: bool = False,
    **kwargs: Any,
) -> Modes:
    """Measure a program under modes of torch.compile: time per call, compile time, memory, kernels, error.

        print(compiler_lens.compare_modes(model, x))
        print(compiler_lens.compare_modes(model, x, modes=("eager", "max-autotune"), training=True))

    Rows are measured one after the other, in a shuffled order, in a cold pass and once more from the caches that it
    left on disk. Each starts without compiled code and with a cache folder of its own. Parameters, buffers, gradients,
    inputs, random states, torch's settings and its cache folder are afterwards as they were; compiled code is dropped
    and compiles again when it is next called, recorded CUDA graphs too.

    Args:
        modes: rows by torch's names, and "eager".
        options: further rows by names of your own, each a dict of Inductor's options; "mode" in it is a mode to begin
            with.
        calls: several sets of inputs, `[(args, kwargs), …]`; all of them together are then one measured call.
        training: forward and backward, from `.loss` or the sum of the first result that has a gradient. Without it
            the model is run without gradients, if it can be.
        phases: pieces of work that are timed apart, each a `compiler_lens.Phase`, in place of inputs.
        seconds: to spend on timing each row and phase, all passes together; compiling comes on top.
        passes: over all rows, two or more: the first compiles with empty caches.
        seed: of the order of the rows.
        folder: where to leave a recording of each row's cold compile.
        each: called with the result so far and a row's name, whenever that row has been measured.
        overwrite: write over files in `folder` that have the names of these recordings and are none.

    Raises:
        UsageError: the model cannot be called with these inputs, a mode or option has no such name, or a file in the
            folder is in the way.
        RecordingFileError: the folder cannot be made.
    """
    from compiler_lens.measure.modes.compare import compared
    from compiler_lens.render.results import Modes

    def tell(so_far: Compared, name: str) -> None:
        if each is not None:
            each(Modes.of(so_far.comparison, so_far.recordings, so_far.diffs), name)

    found = compared(
        model, (inputs, kwargs, calls), modes=modes, options=options, training=training, phases=phases,
        seconds=seconds, passes=passes, seed=seed, folder=folder, overwrite=overwrite, each=tell,
    )  # fmt: skip
    return Modes.of(found.comparison, found.recordings, found.diffs)


# -- the lens by name
#
# `torch.compile(model, backend="compiler_lens")`: torch loads the entry point once a process and keeps what it got in
# its own registry; so does `named_lens`.


def named_lens() -> Any:
    """Return the lens of `backend="compiler_lens"`, or None if nobody has used that name yet."""
    return dynamo.registered_backend(NAME)


def __getattr__(name: str) -> Any:
    if name != NAME:
        raise AttributeError(name)
    # A name in a string leaves the user no object to ask: the report at the end names the file, for closer looks.
    try:
        # Others may write in this folder: a file made anew, under a name that nobody can guess, for the user alone.
        descriptor, path = tempfile.mkstemp(".clens", f"compiler_lens-{os.getpid()}-")
        os.close(descriptor)
        lens = Lens(path)
    except OSError as error:
        lens = _in_memory(f"cannot write a temporary file: {error.strerror or error}")
    atexit.register(_report_at_exit, lens, os.getpid())
    return lens


def lens_in(path: Path, **options: Any) -> Lens:
    """Return a lens for a path that its user did not write: where a file is in the way, it records to memory."""
    try:
        return Lens(path, **options)
    except UsageError as refused:
        return _in_memory(str(refused), **options)


def _in_memory(why: str, **options: Any) -> Lens:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or something else in its place
        sys.stderr.write(f"compiler_lens: {visible(why)}. The recording stays in memory\n")
    return Lens(**options)


def _report_at_exit(lens: Any, pid: int) -> None:
    if os.getpid() != pid or sys.stderr is None:  # a forked child leaves: the recording is its parent's
        return
    with contextlib.suppress(OSError, ValueError):  # the program closed it
        if lens.recording.compilations:
            print(lens.report(), file=sys.stderr)  # noqa: T201 -- its only way to speak
