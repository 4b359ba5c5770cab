"""Secrets planted in every kind of place: of a program that torch compiles, and of every field of a recording."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_lens import draw, load
from compiler_lens.cli import main
from compiler_lens.decode.recording_file import save
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, SourceFile
from compiler_lens.recording.redact import redacted
from compiler_lens.views.registry import VIEWS, Asks

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "html")]

import pages  # noqa: E402
from planted import filled, planted  # noqa: E402

SECRET = re.compile("zqx", re.IGNORECASE)

PROGRAM = '''
"""Docstring of zqx_module."""
import os
import sys
import torch
import compiler_lens
# zqx_comment of the file
WRITTEN = "zqx written in the file"


def made(name, sep=" "):  # a text that is nowhere in this file
    return sep.join(["Z" + "qx", name, "sec" + "ret"])


def disabled(reason):
    @torch._dynamo.disable(reason=reason)
    def held(x):
        return x + 1
    return held


HELD = [disabled("zqx_written reason"), disabled(made("reason")), disabled(made("a)'\\"") + "\\n\\n" + made("line"))]
MESSAGES = ["zqx_written message", made("message"), made("message") + "\\n\\nand " + made("line")]
RAISED = made("raised")
CHECKED = made("checked")
KEYS = [made("key"), made("key", "_"), "ZqxCamelKey"[:9] + "Made"]
LONG = made("long") * 50
GLOBAL = {made("global"): 3}
HELD_BY = {"zqx_key_in_file": 2.0}


class Hidden:
    def __init__(self):
        self.tag = made("tag")
        self.table = {key: torch.ones(4) for key in KEYS}

    def __repr__(self):
        return made("repr")


def reads(x, d, mode="zqx_default", **more):
    """Docstring of zqx_function."""
    for key in KEYS:
        x = x + d[key]  # zqx_comment beside it
    x = x * HELD_BY["zqx_key_in_file"] + d[(KEYS[0], 3)] + more["zqx_argument"[:3] + "_more"]
    if mode == "zqx_compared" or mode == LONG or made("no key") in d:
        x = x + 1
    return x + len(f"zqx_fstring {mode}") + len(os.environ.get("SECRET_IN", "")) + len(WRITTEN)


def iterates(x, d):
    for key, value in d.items():
        x = x * value
    return x


def holds(x, held):
    return x + held.table[KEYS[1]] + (1 if held.tag == made("other") else 2)


def global_table(x):
    for value in GLOBAL.values():
        x = x * value
    return x


def breaks_0(x): return HELD[0](x.sin()).cos()
def breaks_1(x): return HELD[1](x.sin()).cos()
def breaks_2(x): return HELD[2](x.sin()).cos()
def says_0(x):
    x = x.sin(); torch._dynamo.graph_break(msg=MESSAGES[0]); return x.cos()
def says_1(x):
    x = x.sin(); torch._dynamo.graph_break(msg=MESSAGES[1]); return x.cos()
def says_2(x):
    x = x.sin(); torch._dynamo.graph_break(msg=MESSAGES[2]); return x.cos()
def raises(x):
    x = x.sin(); raise KeyError(RAISED)
def checks(x):
    torch._check(x.shape[0] > 100, lambda: CHECKED); return x
def prints(x, held):
    x = x.sin(); print(made("printed"), held); return x.cos()
def opens(x, path):
    x = x.sin(); open(path).close(); return x.cos()
def skips(x):
    x = x.sin(); torch._dynamo.skip_frame(msg=MESSAGES[1]); return x.cos()
def sines(x): return x.sin()


def fails(graph, inputs):
    raise ValueError(made("backend"))


def call(function, *args, backend="aot_eager", **kwargs):
    for full in (False, True):
        try:
            compiled = torch.compile(function, backend=backend, fullgraph=full)
            for more in args:
                compiled(torch.ones(4, 4), *more, **kwargs)
        except Exception:
            pass


os.environ["SECRET_IN"] = made("environment")
ones = torch.ones(4)
with compiler_lens.Lens(sys.argv[1], strict=True, progress=False):
    table = {KEYS[0]: ones, KEYS[1]: 3.5, KEYS[2]: ones, (KEYS[0], 3): 2}
    call(reads, (table, "zqx_compared"), (table, made("mode")), (table, LONG), (table, LONG + "1"), zqx_more=3)
    call(iterates, ({KEYS[0]: ones, KEYS[1]: ones},), ({KEYS[0]: ones, KEYS[2]: 3.0},))
    call(global_table, ())
    GLOBAL[made("global")] = 4
    call(global_table, ())
    call(holds, (Hidden(),))
    for function in (breaks_0, breaks_1, breaks_2, says_0, says_1, says_2, raises, checks, skips):
        call(function, ())
    call(prints, (Hidden(),))
    call(opens, (os.path.join(os.path.dirname(__file__), made("file", "_")),))
    call(sines, (), backend=fails)
'''


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the program, in a folder and of a file whose names are secrets."""
    folder = tmp_path_factory.mktemp("lab") / "zqx_plans"
    folder.mkdir()
    (folder / "zqx_model.py").write_text(PROGRAM)
    (folder / "Zqx_file_secret").write_text("")
    target = folder / "zqx.clens"
    subprocess.run(
        [sys.executable, str(folder / "zqx_model.py"), str(target), "--zqx_option"],
        check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    return target


def outputs(path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """All that can be had of a recording without the secrets: as a recording, on the console, JSON, page, pictures."""
    assert main(["redact", str(path), str(folder / "out.clens")]) == 0
    text = (folder / "out.clens").read_text("utf-8")
    yield "recording", text + json.dumps([json.loads(line) for line in text.splitlines()], ensure_ascii=False)
    assert main(["report", str(path), "--redact", "-o", str(folder / "out.html")]) == 0
    yield "page", pages.all_text((folder / "out.html").read_text("utf-8"))
    found = load(folder / "out.clens", strict=True)
    for view in VIEWS:
        names = [kernel.name for kernel in found.kernels] if view.asks is Asks.KERNEL else [""]
        for words in ([view.name, *([name] if name else [])] for name in names):
            for more in (["--no-color", "--width", "1000"], ["--json"]):
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    assert main(["show", str(path), *words, *more, "--redact"]) in {0, 2}  # no such kernel
                yield f"{words} {more}", out.getvalue()
    for graph in found.graphs:
        with contextlib.suppress(UsageError):  # of a stage that holds no graph of its own
            drawing = draw(found, graph.stage, graph.compile_id)
            yield f"picture {graph.id}", drawing.svg + drawing.dot + drawing.name + drawing.title


def told(text: str) -> list[str]:
    return [text[max(0, found.start() - 60) : found.end() + 40] for found in SECRET.finditer(text)]


def test_no_secret_of_a_program_is_in_anything_redacted(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = load(recorded)
    kinds: set[str] = set()
    planted(whole, lambda field, text: (SECRET.search(text) and kinds.add(field)) or text)
    assert {
        "Guard.expression", "GuardFailure.text", "GuardFailure.old", "Graph.code", "Node.name", "Node.inputs",
        "BreakCause.explanation", "BreakCause.context", "GraphBreak.text", "Compilation.metrics", "Compilation.reason",
        "Compilation.restart_reasons", "SourceFile.text", "SourceFile.file", "SourceLine.code", "Environment.argv",
    } <= kinds, kinds  # fmt: skip
    assert [(name, told(text)) for name, text in outputs(recorded, tmp_path) if told(text)] == []


def test_what_is_no_secret_stays(recorded: Path) -> None:
    less = redacted(load(recorded))
    said = {guard.expression for guard in less.guards}
    assert any("L['d']" in one for one in said)
    assert "GLOBAL_STATE" in {guard.kind for guard in less.guards}
    assert any('"grad_mode"' in one for one in said)
    causes = [cause for event in less.graph_breaks for cause in event.causes]
    assert any("wrapped with `torch.compiler.disable` (reason: " in cause.explanation for cause in causes)
    assert any(cause.context.startswith("raised exception KeyError") for cause in causes)
    whole = load(recorded)
    assert [compilation.function for compilation in less.compilations] == [one.function for one in whole.compilations]
    for graph, full in zip(less.graphs, whole.graphs, strict=True):
        names = {node.name for node in graph.nodes}
        assert len(names) == len({node.name for node in full.nodes})
        assert all(name in names for node in graph.nodes for name in node.inputs)
        assert all(node.name in graph.code for node in graph.nodes if node.op == "placeholder")


def test_modules_and_parameters_keep_their_names_where_a_key_is_called_the_same() -> None:
    from compiler_lens.recording.model import CompileId, Graph, GraphStage, Guard, Node

    one = CompileId(0, 0)
    names = ("l_self_modules_weight_parameters_weight_", "l_d_weight_", "l_weight_")
    guards = [Guard(one, "TYPE_MATCH", text) for text in (
        "L['d']['weight']", "L['weight']", "L['self']._modules['weight']._parameters['weight']", "hasattr(L['d']['weight'], 'weight')",
        "L['self'].__dict__['weight']", "___check_obj_id(G['__builtins_dict___0']['weight'], 7)", "L['e'][('weight', 1)]",
    )]  # fmt: skip
    graph = Graph(
        one, GraphStage.DYNAMO, " ".join(names), tuple(Node(name, "placeholder", name.upper()) for name in names)
    )
    less = redacted(Recording(guards=tuple(guards), graphs=(graph,)))
    assert [node.name for node in less.graphs[0].nodes] == [names[0], "l_d_text1_", names[2]]
    assert less.graphs[0].code == f"{names[0]} l_d_text1_ {names[2]}"
    assert [guard.expression for guard in less.guards] == [
        "L['d']['text1']", "L['weight']", "L['self']._modules['weight']._parameters['weight']", "hasattr(L['d']['text1'], 'text1')",
        "L['self'].__dict__['weight']", "___check_obj_id(G['__builtins_dict___0']['weight'], 7)", "L['e'][('text1', 1)]",
    ]  # fmt: skip


def test_no_field_of_a_recording_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "it said 'zqx words of mine' of /home/zqx/plans/zqx_model.py and 'zqx_data.csv'"
    made = filled(
        Recording, lambda field, _: "/home/zqx/plans/zqx_model.py" if field.endswith(".file") else f"{secret}"
    )
    made = Recording(
        **{name: getattr(made, name) for name in made.__struct_fields__ if name != "sources"},
        sources=(SourceFile("/home/zqx/plans/zqx_model.py", "A = 'zqx words of mine'\n"),),
    )
    save(made, tmp_path / "run.clens")
    assert told(repr(redacted(made))) == []
    assert [(name, told(text)) for name, text in outputs(tmp_path / "run.clens", tmp_path) if told(text)] == []
