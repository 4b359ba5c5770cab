"""What is shown of recordings that between them have most there is to show: each name here has a gold file."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import sample_recordings as samples

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.measured import fix
from compiler_lens.facts.measured.edits import Lines, Setting
from compiler_lens.facts.measured.modes import Comparison, Compiled, Deviation, Row, Timing
from compiler_lens.facts.measured.what_if import Counts, Left, NotTried, Trial, WhatIf
from compiler_lens.recording.model import CaptureProblem, Figures, Recording, Results, SourceLine
from compiler_lens.render.chart import modes_chart
from compiler_lens.render.console import fix_report, modes_report, what_if_report
from compiler_lens.views.diff import views as diff_views
from compiler_lens.views.registry import VIEWS, Asks

GOLD = Path(__file__).parent / "views"
_TESTS = Path(__file__).parent.parent
_OF_ID = ("graphs", "guards", "breaks", "recompiles")
_OF_PLACE = ("line", "kernels", "profile", "source")


def _at(path: str) -> Callable[[], Recording]:
    return lambda: compiler_lens.load(_TESTS / f"{path}.clens.gz")


def _interrupted() -> Recording:
    """A recording whose program was killed while it wrote."""
    data = gzip.decompress((_TESTS / "pictures/data/broken.clens.gz").read_bytes())
    was = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cut.clens").write_bytes(data[: len(data) * 3 // 5])
        os.chdir(folder)  # what could not be read is shown with the path that it was opened by
        try:
            return compiler_lens.load("cut.clens")
        finally:
            os.chdir(was)


RECORDINGS: dict[str, Callable[[], Recording]] = {
    "decoder": _at("gpu/data/decoder-default-profiled"),
    "gpt-max-autotune": _at("gpu/data/gpt-max-autotune-profiled"),
    "oddities": _at("gpu/data/oddities-reduce-overhead-cold"),
    "resnet": _at("measure/data/resnet-max-autotune"),
    "cpu": _at("diff/data/base"),
    "breaks": _at("pictures/data/broken"),
    "ddp": _at("pictures/data/ddp"),
    "hops": _at("pictures/data/hops-kernels"),
    "hops-graphs": _at("pictures/data/hops"),
    "interrupted": _interrupted,
    "made-broken": samples.broken,
    "made-clean": samples.clean,
    "made-nothing-compiled": samples.nothing_compiled,
    "made-empty": samples.empty,
}
PAIRS: dict[str, tuple[Callable[[], Recording], Callable[[], Recording]]] = {
    "diff-modes": (_at("gpu/data/gpt-default-profiled"), _at("gpu/data/gpt-max-autotune-profiled")),
    "diff-tuning": (_at("gpu/data/gpt-default-cold"), _at("gpu/data/gpt-max-autotune-cold")),
    "diff-sizes": (_at("diff/data/base"), _at("diff/data/shape")),
    "diff-breaks": (samples.broken, samples.clean),
}
JSON = ("made-clean", "made-broken")


def texts() -> dict[str, Callable[[], str]]:
    """Return what makes the text of each gold file, by the file's name."""
    made: dict[str, Callable[[], str]] = {}
    for name, load in RECORDINGS.items():
        made[f"{name}.txt"] = lambda load=load: "".join(_shown(load()))
    for name in JSON:
        made[f"{name}.json.txt"] = lambda load=RECORDINGS[name]: "".join(_as_json(load()))
    for name, (before, after) in PAIRS.items():
        made[f"{name}.txt"] = lambda before=before, after=after: "".join(_compared(before(), after()))
    made["modes.txt"] = lambda: "".join(modes_report(_modes(), width=width, color=False) for width in (80, 140))
    made["modes.svg"] = lambda: modes_chart(_modes(), "Modes")
    made["what-if.txt"] = lambda: "".join(
        what_if_report(result, width=width, color=False) for result in _what_if() for width in (80, 140)
    )
    made["fix.txt"] = lambda: "".join(
        fix_report(result, width=width, color=False) for result in _fixes() for width in (80, 140)
    )
    return made


def _shown(recording: Recording) -> Iterator[str]:
    """Every view, whole and of some parts of the recording, each after what one types for it."""
    yield from _printed(recording, [])
    for view in VIEWS:
        if view.asks is not Asks.KERNEL:
            yield from _printed(recording, [view.name])
    for ids in list(dict.fromkeys(str(one.compile_id) for one in recording.compilations))[:1]:
        for view in _OF_ID:
            yield from _printed(recording, [view, ids])
    kernels = list(dict.fromkeys(kernel.name for kernel in recording.kernels))
    for kernel in dict.fromkeys((*kernels[:1], *kernels[len(kernels) // 2 :][:1])):
        yield from _printed(recording, ["kernel", kernel])
    nodes = [node for graph in recording.graphs for node in graph.nodes if node.source]
    lines = list(dict.fromkeys((node.source[-1].file.rpartition("/")[2], node.source[-1].line) for node in nodes))
    for file, number in lines[:2]:
        for view in _OF_PLACE:
            yield from _printed(recording, [view, f"{file}:{number}"])
    for module in list(dict.fromkeys(node.module for node in nodes if node.module))[-1:]:
        yield from _printed(recording, ["line", module])


def _as_json(recording: Recording) -> Iterator[str]:
    for words in ([], *([view.name] for view in VIEWS if view.asks not in {Asks.KERNEL, Asks.LINE})):
        yield from _printed(recording, [*words, "--json"])


def _printed(recording: Recording, words: list[str]) -> Iterator[str]:
    yield f"\n$ compiler-lens show {' '.join(['REC', *words])}\n"
    out, wrong = io.StringIO(), io.StringIO()
    with (
        mock.patch("compiler_lens.decode.recording_file.open_recording", return_value=recording),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(wrong),
    ):
        main(["show", "REC", *words, "--width", "100", "--no-color"])
    yield out.getvalue() + wrong.getvalue()


def _compared(before: Recording, after: Recording) -> Iterator[str]:
    """Every view of two recordings, and two kernels that differ."""
    found = compiler_lens.diff(before, after)
    cases = [case for change in found.result.kernels for case in change.cases]
    kernels = [launch.kernel for case in cases for launch in (*case.before, *case.after)]
    asked = [(view, "") for view in diff_views.VIEWS if view != "kernel"]
    for view, name in asked + [("kernel", name) for name in dict.fromkeys(kernels[:1] + kernels[-1:])]:
        yield f"\n$ compiler-lens diff BEFORE AFTER {view} {name}".rstrip() + "\n"
        yield found.report(view, name, width=100, color=False)


def _modes() -> Comparison:
    def timings(seconds: float) -> tuple[Timing, ...]:
        return (
            Timing("prefill", ((seconds, seconds * 1.02), (seconds * 1.01, seconds * 1.04)), tokens=9263),
            Timing("decode", ((seconds / 9, seconds / 8),), tokens=64),
        )

    rows = (
        Row("eager", timings=timings(0.0101), deviation=Deviation(5e-3, 0.1), peak_bytes=2**20),
        Row(
            "reduce-overhead",
            timings=timings(0.0031),
            cold_seconds=62.0,
            warm_seconds=3.0,
            peak_bytes=3 * 2**20,
            compiled=Compiled(graphs=2, breaks=1, kernels=12, launches=20, captured=1, skipped=("mutated inputs",)),
            deviation=Deviation(4e-3, 0.2),
            arguments={"mode": "reduce-overhead"},
        ),
        Row("max-autotune", timings=timings(0.00309), cold_seconds=274.0, warm_seconds=9.0),
        Row("default", failure="OutOfMemoryError: no room for 20 GiB", failure_line=SourceLine("/m/net.py", 7)),
    )
    told = {"max-autotune": tuple(f"{count} kernels differ" for count in range(2, 9))}
    return Comparison(
        rows, ("prefill", "decode"), "A100", "2.11", reference="fp64", orders=(("eager",),), diffs_told=told,
        notes=("Clocks were not locked.",),
    )  # fmt: skip


def _what_if() -> tuple[WhatIf, WhatIf]:
    """Trials of which one mends all, and trials of which the best leaves breaks."""
    now = Counts(graphs=3, breaks=2, eager_frames=1, compilations=4, recompiles=1, seconds=2.0)
    clean = Counts(graphs=1, breaks=0, eager_frames=0, compilations=1, recompiles=0, seconds=12.5)
    again = Counts(2, 1, 0, 3, 2, 0.25, benign_graphs=1, benign_breaks=1, benign_recompiles=2)
    line = SourceLine("/home/user/app/model.py", 12, "forward", "if x.sum() > 0:")
    trials = (
        Trial("as it is", (), "", now, now, left=(Left("Data-dependent branching", line), Left("print", None))),
        Trial(
            "capture_scalar_outputs", ("torch._dynamo.config.capture_scalar_outputs = True",), "more sizes", now, clean
        ),
        Trial("dynamic", ("torch.compile(model, dynamic=True)",), "slower kernels", now, again),
        Trial("fullgraph", ("torch.compile(model, fullgraph=True)",), "", now, None, "Unsupported: print", line),
        Trial("worse", ("a = True",), "", now, now, problems=(CaptureProblem("guards", "not there"),)),
    )
    left = tuple(Left(f"break {n}", SourceLine("/home/user/app/model.py", n, "forward", f"f({n})")) for n in range(5))
    some = Trial("dynamic", ("torch.compile(model, dynamic=True)",), "slower kernels", now, again, left=left)
    not_tried = NotTried("allow_rnn", "no break at an RNN"), NotTried("other", "set already")
    return WhatIf(trials, not_tried), WhatIf((trials[0], some))


def _fixes() -> Iterator[fix.Fix]:
    """A program with offers of every outcome, one whose results cannot be compared, and three with nothing to try."""
    file, text = "/home/user/app/model.py", "import torch\nif x.sum() > 0:\n    y = x\nprint(y)\nreturn y\n"
    places = {n: SourceLine(file, n, "forward", text.splitlines()[n - 1]) for n in (2, 4, 5)}
    branch, message, last = (fix.Target(places[n], kind) for n, kind in ((2, "branch"), (4, "print"), (5, "item")))
    where = Lines(file, 2, ("if x.sum() > 0:", "    y = x"), ("y = torch.where(x.sum() > 0, x, y)",))
    guarded = Lines(file, 4, ("print(y)",), ("if not compiling:", "    print(y)"))
    setting = Setting("torch._dynamo.config.reorderable_logging_functions = {print}")
    offers = (
        fix.Offer(branch, where, "both sides are computed"),
        fix.Offer(message, guarded),
        fix.Offer(message, setting, "it is printed later"),
    )
    now = Counts(graphs=3, breaks=3, eager_frames=1, compilations=4, recompiles=2, seconds=2.0)

    def seen(breaks: int, eager: int, results: Results = Results.EQUAL, **more: object) -> fix.Observed:
        counts = Counts(1, breaks, eager, 1, 2, 0.0)
        return fix.Observed(Figures(breaks, 2, eager), counts, targets=(branch,), results=results, **more)

    first, best = fix.Observed(Figures(3, 2, 1), now, targets=(branch,), calls=7), seen(0, 0)
    after = {file: text.replace("if x.sum() > 0:\n    y = x", where.after[0])}
    differs = seen(1, 0, Results.DIFFER, difference=fix.Difference("result", 2, 0, 0.125))
    fewer = seen(1, 0, Results.DIFFER, difference=fix.Difference("call", 4, 0, numbers=(7, 4)))
    alike = (where.after[0], where.after[0].replace("y)", "x.new_zeros(()))"))
    rewrites = [fix.Offer(branch, Lines(file, 2, where.before, (text,))) for text in alike]
    raised = fix.Observed(None, now, error="RuntimeError: no", error_line=places[5])
    tried = (
        fix.Trial(offers[:1], after, first.figures, seen(1, 0), helps=True),
        fix.Trial(offers[1:2], {file: text}, first.figures, raised, helps=False),
        fix.Trial(offers[2:], {file: text}, first.figures, differs, helps=False),
        fix.Trial(offers[:2], after, first.figures, best, helps=True),
    )
    reasons = list(fix.NotTriedBecause)
    lines = [places[5], *(SourceLine(file, 6 + n, "forward", f"y = y.item() + {n}") for n in range(8))]
    others = [fix.Target(at, f"item {n}") for n, at in enumerate(lines)]
    not_tried = tuple(
        fix.NotTried(one, "Do it outside." if n else "", reasons[n % 5]) for n, one in enumerate((last, *others))
    )
    yield fix.Fix(first, tried, tried[3], not_tried, {file: text}, "/home/user/app")
    unknown = fix.Trial(offers[:1], after, None, seen(0, 0, Results.UNKNOWN), helps=True)
    yield fix.Fix(
        raised, (unknown,), unknown, (), {file: text}, "/home/user", is_deterministic=False, reference_is_eager=True
    )
    yield fix.Fix(first, tried[1:3], texts={file: text})
    trials = [fix.Trial((one,), after, first.figures, fewer, helps=False) for one in rewrites]
    yield fix.Fix(first, tuple(trials), texts={file: text})
    yield fix.Fix(first, not_tried=not_tried[:1])
    yield fix.Fix(fix.Observed(Figures(0, 0, 0), now, calls=1))
    yield fix.Fix(fix.Observed(Figures(0, 0, 0), now))
