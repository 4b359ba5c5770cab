"""What fuzzing found, each as small as it can be; and a few hundred cases of every kind, always the same ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import doors
import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.decode.recording_file import load, save
from compiler_lens.recording.errors import LensError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CaptureProblem, Environment, GuardFailure, Recompile, Recording, SourceFile
from compiler_lens.recording.redact import Wording, redacted

HERE = Path(__file__).parent
_TWO_LINES = SourceFile(samples.MODEL, "def step(x):\n    return x + 1\n")


def _caused(gbid: str) -> Recording:
    """A graph break of which torch gives this number."""
    broken = samples.graph_break(0, replace(samples.BRANCHING, gbid=gbid), 2, "if x.sum() > 0:")
    return Recording(compilations=(samples.compilation(0),), graph_breaks=(broken,), sources=(_TWO_LINES,))


def _placed(line: int) -> Recording:
    """A graph of which an op is at this line of a file of two lines."""
    nodes = (samples.node("mul", "torch.mul", line=line),)
    graph = replace(samples.graph(samples.compile_id(0), samples.GraphStage.DYNAMO, 1), nodes=nodes)
    return Recording(compilations=(samples.compilation(0),), graphs=(graph,), sources=(_TWO_LINES,))


def _circular() -> Recording:
    """A graph of which each op reads the next, and the last one the first."""
    ops = [samples.node(f"mul_{number}", "torch.ops.aten.mul.Tensor", line=1) for number in range(3)]
    nodes = tuple(replace(op, inputs=(ops[(place + 1) % 3].name, op.name)) for place, op in enumerate(ops))
    of = samples.compile_id(0)
    graphs = [
        replace(samples.graph(of, stage, 1), nodes=nodes)
        for stage in (samples.GraphStage.DYNAMO, samples.GraphStage.AOT_INFERENCE, samples.GraphStage.POST_GRAD)
    ]
    return Recording(compilations=(samples.compilation(0),), graphs=tuple(graphs), sources=(_TWO_LINES,))


# Of the right types, and not what a view takes for granted.
FOUND: dict[str, Callable[[], Recording]] = {
    "a line before the first": lambda: _placed(-7),
    "a line where only the file is known": lambda: _placed(0),
    "a line after the last": lambda: _placed(10**12),
    "the last second of the calendar": lambda: Recording(environment=Environment(started=253_402_300_799.0)),
    "escapes in the number of a break": lambda: _caused("\ud800\x1b[2J/../x"),
    "escapes in the title of a table": samples.hostile,
    "a file that is the root": lambda: Recording(
        compilations=(samples.compilation(0, file="/"), samples.compilation(1, file="/a/b.py"))
    ),
    "ops that read later ones": _circular,
    "a size at no index": lambda: Recording(
        compilations=(samples.compilation(0), samples.compilation(0, 1)),
        recompiles=(Recompile(samples.compile_id(0, 1), (GuardFailure("0/0", "tensor 'x' size mismatch"),)),),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_shown(name: str) -> None:
    """Every view of it, on every way out, and what differs from it."""
    recording, other = FOUND[name](), samples.clean()
    for door in (doors.views_as_json, *(door.steps for door in doors.DOORS.values())):
        assert not list(doors.go_through(door(recording, other, 0)))


def test_a_metric_that_is_infinite_has_no_value(tmp_path: Path) -> None:
    """JSON has no such number: what is saved would not be what was read."""
    path = tmp_path / "r.clens"
    where = '"at": 1.0, "run": 0, "id": [0, 0, null]'
    path.write_text(
        '{"compiler_lens": 2}\n'
        f'{{"e": "lens.frame_start", {where}, "m": {{"function": "f", "file": "a.py", "line": 1}}}}\n'
        f'{{"e": "compilation_metrics", {where}, "m": {{"a": Infinity, "b": 2}}}}\n'
    )
    (read,) = load(path).compilations
    save(load(path), tmp_path / "saved.clens")

    assert read.metrics == {"b": 2}
    assert load(tmp_path / "saved.clens").compilations == (read,)


def test_a_text_is_redacted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []
    hidden = Wording.hidden
    monkeypatch.setattr(Wording, "hidden", lambda self, text: sought.append(text) or hidden(self, text))
    once, often = (replace(_placed(1), problems=(CaptureProblem("x", "a message " * 99),) * count) for count in (1, 99))
    redacted(once)
    first = len(sought)
    redacted(often)

    assert first == len(sought) - first > 0


@pytest.mark.parametrize("line", [0, -7])
def test_what_has_no_line_is_at_none(line: int) -> None:
    """Not at the last line, which a list of Python has at -1."""
    from compiler_lens.facts.overview.source_view import source_view

    assert not source_view(_placed(line))[0].facts


def test_a_hundred_cases_end_in_values_or_in_errors_of_ours(tmp_path: Path) -> None:
    """In a process of its own, which is held to the limits."""
    command = [sys.executable, HERE / "fuzz.py", "--cases", "100", "--keep", tmp_path]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(HERE.parent.parent)}
    )
    assert not done.returncode, done.stdout + done.stderr
    assert " 0 faults" in done.stdout.splitlines()[-1]


def test_a_fault_is_told_with_how_to_see_it_again_and_ends_nothing(tmp_path: Path) -> None:
    """Two kinds of input, of which every second case fails; and one that cannot be made."""
    code = f"""
import sys, fuzz, doors
from pathlib import Path
def broken(recording, other, pick):
    yield "a door", lambda: [][pick % 2 - 1 if pick % 2 else 0]
doors.DOORS.update({{name: doors.Door(broken, 1) for name in doors.DOORS}})
fuzz.KINDS["sidecars"] = fuzz.Kind(lambda: fuzz.mutated.modes().map(lambda data: {{}}[0]))
sys.argv[1:] = ["--seed", "5", "--cases", "9", "--kind", "breaks", "--kind", "sidecars", "--kind", "made recordings",
                "--keep", {str(tmp_path)!r}]
sys.exit(fuzz.main())
"""
    folders = map(str, (HERE, HERE.parent / "gold", HERE.parent.parent))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(folders)}
    )
    assert done.returncode == 1, done.stderr
    assert "IndexError: list index out of range" in done.stdout
    assert "KeyError in the fuzzer" in done.stdout
    assert "again: python tests/fuzz/fuzz.py --kind 'breaks' --cases" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("seed 5: ")
    assert done.stdout.splitlines()[-1].endswith(" 2 faults")
    assert [path.name for path in tmp_path.glob("breaks-seed5-0.*")]


# -- the fuzzer itself notices what it looks for


def _end_in(error: BaseException | None, act: Callable[[], object] = list) -> list[tuple[str, Exception]]:
    def trying() -> None:
        act()
        if error is not None:
            raise error

    return list(doors.go_through([("one", trying)]))


def test_an_error_of_ours_is_no_fault_and_any_other_is() -> None:
    assert not _end_in(LensError("no such thing"))
    assert [name for name, _ in _end_in(IndexError())] == ["one"]


@pytest.mark.parametrize("text", ["\x1b[2J", "a\x00", "\x9b31m", "\ud800"])
def test_what_acts_on_a_terminal_is_a_fault(text: str) -> None:
    assert _end_in(None, lambda: doors._is_text(f"a line\n{text}\n"))


def test_text_that_became_markup_is_a_fault() -> None:
    assert _end_in(None, lambda: doors._is_markup(f"<p>{doors.MARK}</p>"))
    assert not _end_in(None, lambda: doors._is_markup("<p>&lt;img src=x onerror=odd&gt;</p>"))


def test_an_id_without_a_frame_is_written_as_it_is_read(tmp_path: Path) -> None:
    """A log may have a recompile's number and no frame's."""
    from compiler_lens.decode.fold import fold
    from compiler_lens.decode.recording_file import load, save

    span = {"name": "dynamo", "ts": 1e9}
    events = [Event("chromium_event", 1e9, torch_id=(None, 3, None), meta={**span, "ph": phase}) for phase in "BE"]
    recording = fold(events)
    save(recording, tmp_path / "r.clens")
    assert recording.spans
    assert load(tmp_path / "r.clens") == recording


@pytest.mark.parametrize(
    ("act", "seconds", "fault"),
    [("while True: pass", 0.2, "too slow"), ("x = b'1' * 600_000_000", 5.0, "too large"), ("x = 1", 5.0, "nothing")],
)
def test_what_takes_too_long_or_too_much_is_a_fault(act: str, seconds: float, fault: str) -> None:
    """In a process of its own, which stays limited."""
    code = f"""
import fuzz
fuzz.limited()
fuzz.SECONDS = {seconds}
try:
    with fuzz.watched("case"):
        {act}
    print("nothing")
except fuzz.Fault as fault:
    print(fault.bucket)
"""
    folders = map(str, (HERE, HERE.parent / "gold", HERE.parent.parent))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(folders)}
    )
    assert done.stdout.startswith(fault)
