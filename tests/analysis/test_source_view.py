"""What became of each line: every mark on real recordings, each beside the line that it is expected on."""

from __future__ import annotations

import importlib.util
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_recordings as samples

from compiler_lens import Lens
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.overview.source_view import FileView, LineFacts, select_file, source_view
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Graph, GraphStage, Node, Recording, SourceFile, SourceLine, Trust
from compiler_lens.recording.source_text import Excerpt, Sources

torch = pytest.importorskip("torch")

# The expected marks stand behind each line: C compiled, E eager, L eager since the limit, P eager rest, F failed,
# B broken, V calls what breaks, G recompiled for it, X failed here. A line without a remark is one without marks.
PROGRAM = """\
import torch


def whole(x):
    y = x + 1  #: C
    return y * 2  #: C


def printing(x):
    x = x + 1  #: C
    print("cut")  #: B
    return x * 2  #: C


def rest(x):
    y = x * 2  #: C
    i = y.nonzero()  #: B P
    for k in i:  #: P
        if k.sum() > 0:  #: B P
            y = y + 1  #: P
    return y  #: P


def skipped(x):  #: E
    # a remark is not code
    for i in range(4):  #: E
        if x.sum() > i:  #: B E
            x = x + 1  #: E

    return x  #: E


def helper(x):
    return x.sin()  #: C


def calling(x):
    return helper(x)  #: C


def deep(x):
    x = x.sin()  #: C
    print("deep")  #: B
    return x  #: -


def around(x):
    y = deep(x) + 1  #: C V
    return y  #: -


def grown(x, items):
    if len(items) > 2:  #: G
        x = x * 2  #: C
    return x + len(items)  #: C


def limited(x, k):  #: L
    return x + k  #: C L G


def strict(x):  #: F
    print("no")  #: F X
    return x  #: F


def nested(x):  #: E
    def inner(y):  #: -
        return y * 3  #: C

    for i in range(4):  #: E
        if x.sum() > i:  #: B E
            x = x + 1  #: E
    return inner(x)  #: E


def with_lambda(x):
    y = x + 1  #: C

    step = lambda z: [i for i in range(4) if z.sum() > i]  #: E B

    return step(y)  #: V


def never(x):
    return x + 1


def apart():
    return 1
"""
UNCOMPILED = {
    Treatment.EAGER: "E",
    Treatment.LIMIT: "L",
    Treatment.PARTLY_EAGER: "P",
    Treatment.FAILED: "F",
}


def module(path: Path, text: str = PROGRAM) -> Any:
    """A module of the user's own, in a file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def recorded(run: Callable[[], object]) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True, progress=False) as lens, torch.no_grad():
        run()
    return lens.recording


def compiled(function: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> Callable[[], None]:
    def run() -> None:
        made = torch.compile(function, backend="eager", **settings)
        for call in calls:
            made(*call)

    return run


def failing(function: Callable[..., Any]) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(3))


X = torch.ones(3)
CALLS = {
    "grown": [(X, list(range(n))) for n in range(1, 4)],
    "limited": [(X, n) for n in range(10)],
}
NAMES = re.findall(r"^def (\w+)", PROGRAM, re.MULTILINE)


def marks(facts: LineFacts) -> set[str]:
    found = {UNCOMPILED[facts.uncompiled]} if facts.uncompiled else set()
    told = (
        (facts.compiled, "C"),
        (facts.cards or facts.follows, "B"),
        (facts.calls_break, "V"),
        (facts.guards, "G"),
        (facts.failures, "X"),
    )
    # Which breaks only follow from others is for cards to say.
    return found | {mark for some, mark in told if some}


def view_of(recording: Recording, file: str) -> FileView:
    return select_file(source_view(recording), file)[0]


@pytest.mark.parametrize("name", NAMES)
def test_each_line_has_the_marks_that_stand_behind_it(name, tmp_path):
    program = module(tmp_path / "program.py")
    settings = {"dynamic": False} if name == "limited" else {}
    function = getattr(program, name)
    if name == "strict":
        recording = recorded(lambda: failing(function))
    elif name in {"never", "apart"}:
        recording = recorded(compiled(program.whole, (X,)))
    else:
        recording = recorded(compiled(function, *CALLS.get(name, [(X,)]), **settings))
    view = view_of(recording, "program.py")
    lines = PROGRAM.splitlines()
    first = lines.index(next(line for line in lines if line.startswith(f"def {name}(")))
    last = next((n for n in range(first + 1, len(lines)) if lines[n].startswith("def ")), len(lines))
    expected = {n + 1: set(lines[n].partition("#: ")[2].replace("-", "").split()) for n in range(first, last)}
    found = {n: marks(view.facts[n]) if n in view.facts else set() for n in expected}
    assert found == expected


def test_a_compiled_line_names_the_compilations_of_its_graphs(tmp_path):
    program = module(tmp_path / "program.py")
    recording = recorded(compiled(program.printing, (X,)))
    facts = view_of(recording, "program.py").facts
    assert [[str(i) for i in facts[n].graphs] for n in (10, 12)] == [["0/0"], ["1/0"]]
    assert not facts[11].compiled


def test_the_line_of_a_call_is_compiled_by_what_it_calls(tmp_path):
    program = module(tmp_path / "program.py")
    facts = view_of(recorded(compiled(program.calling, (X,))), "program.py").facts
    at = PROGRAM.splitlines().index("    return helper(x)  #: C") + 1
    inner = PROGRAM.splitlines().index("    return x.sin()  #: C") + 1
    assert (facts[at].graphs, [str(i) for i in facts[at].calls]) == ((), ["0/0"])
    assert ([str(i) for i in facts[inner].graphs], facts[inner].calls) == (["0/0"], ())


def test_the_functions_that_the_compiler_saw_are_those_that_ran(tmp_path):
    program = module(tmp_path / "program.py")
    view = view_of(recorded(compiled(program.around, (X,))), "program.py")
    assert [d.name for d in view.seen] == ["deep", "around"]
    constant = view_of(recorded(compiled(program.apart, ())), "program.py")
    assert ([d.name for d in constant.seen], constant.facts) == (["apart"], {})


def test_every_card_is_at_its_line_in_the_view_of_its_file(tmp_path):
    program = module(tmp_path / "program.py")

    def run() -> None:
        for name in ("printing", "rest", "skipped", "around", "nested"):
            compiled(getattr(program, name), (X,))()

    recording = recorded(run)
    for own in (Ownership(), Ownership(("torch",))):
        cards = break_cards(recording, own)
        views = {view.file: view for view in source_view(recording, own)}
        assert len(cards) >= 5
        for number, card in enumerate(cards, 1):
            here = views[card.place.file].facts[card.place.line].cards
            assert [each.card for each in here if each.number == number] == [card]
        assert sum(len(view.cards) for view in views.values()) == len(cards)


@pytest.mark.parametrize("make", [samples.broken, samples.hostile, samples.clean, samples.many])
def test_no_card_is_lost_whatever_the_recording_holds(make):
    recording = make()
    views = {view.file: view for view in source_view(recording)}
    placed = [card for card in break_cards(recording) if card.place]
    assert sum(len(view.cards) for view in views.values()) == len(placed)
    assert all(view.facts == dict(sorted(view.facts.items())) for view in views.values())


def test_a_notebook_cell_is_a_file_like_any_other():
    file, text = "<ipython-input-3-beef>", "def cell(x):\n    print('in a cell')\n    return x + 1\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    recording = recorded(compiled(scope["cell"], (X,)))
    del linecache.cache[file]
    view = view_of(recording, file)
    assert view.own
    assert {n: marks(facts) for n, facts in view.facts.items()} == {2: {"B"}, 3: {"C"}}
    assert select_file(source_view(recording), f"{file}:2") == (view, 2)


def test_without_its_text_a_file_has_the_lines_that_torch_told(tmp_path):
    scope: dict[str, Any] = {}
    exec(compile(PROGRAM, str(tmp_path / "gone.py"), "exec"), scope)
    view = view_of(recorded(compiled(scope["rest"], (X,))), "gone.py")
    assert (view.text, view.seen) == ((), ())
    found = {n: marks(facts) for n, facts in view.facts.items()}
    assert [n for n, some in found.items() if "B" in some] == [17, 19]
    assert all("P" in some for n, some in found.items() if n >= 17)
    assert found[16] == {"C"}


# -- by hand


def facts_of(*stacks: tuple[SourceLine, ...], own: Ownership | None = None) -> dict[tuple[str, int], tuple[bool, bool]]:
    nodes = tuple(Node(f"n{i}", "call_function", "add", source=stack) for i, stack in enumerate(stacks))
    graph = Graph(samples.compile_id(0), GraphStage.DYNAMO, "", nodes, origins=Trust.EXACT)
    views = source_view(Recording(graphs=(graph,)), own)
    return {(v.file, n): (bool(f.graphs), bool(f.calls)) for v in views for n, f in v.facts.items()}


def test_an_op_is_at_the_innermost_own_line_and_at_the_innermost_of_each_library():
    lines = [SourceLine("/app/a.py", 1), SourceLine("/v/site-packages/timm/l.py", 2), SourceLine("/app/a.py", 3)]
    torchs = SourceLine("/v/site-packages/torch/nn/functional.py", 4)
    assert facts_of((*lines, torchs)) == {
        ("/app/a.py", 1): (False, True),
        ("/app/a.py", 3): (True, False),
        ("/v/site-packages/timm/l.py", 2): (True, False),
    }
    assert facts_of((lines[0], lines[1]), own=Ownership(("timm",))) == {
        ("/app/a.py", 1): (False, True),
        ("/v/site-packages/timm/l.py", 2): (True, False),
    }


def test_inputs_of_a_graph_are_no_ops():
    node = Node("x", "placeholder", "x", source=(SourceLine("/app/a.py", 1),))
    graph = Graph(samples.compile_id(0), GraphStage.DYNAMO, "", (node,))
    assert source_view(Recording(graphs=(graph,))) == ()


def test_the_users_own_files_come_first_and_the_most_broken_of_them():
    broken = samples.broken()
    assert source_view(broken)[0].file == samples.MODEL
    other = SourceFile("/v/site-packages/timm/l.py", "x = 1\n")
    mine = SourceFile("/app/mine.py", "x = 1\n")
    files = [view.file for view in source_view(Recording(sources=(other, mine)))]
    assert files == ["/app/mine.py", "/v/site-packages/timm/l.py"]


FILES = Recording(
    sources=tuple(SourceFile(f, "x = 1\n") for f in ("/a/model.py", "/b/model.py", "/b/c.py", "C:\\w\\d.py"))
)


@pytest.mark.parametrize(
    ("text", "file", "line"),
    [
        ("c.py", "/b/c.py", None),
        ("./c.py:7", "/b/c.py", 7),
        ("../../b/model.py", "/b/model.py", None),
        ("/a/model.py:12", "/a/model.py", 12),
        ("w/d.py", "C:\\w\\d.py", None),
        ("C:\\w\\d.py:3", "C:\\w\\d.py", 3),
    ],
)
def test_a_file_goes_by_any_ending_of_its_path_that_is_its_own(text, file, line):
    view, number = select_file(source_view(FILES), text)
    assert (view.file, number) == (file, line)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model.py", "'model.py' is the end of several files: /a/model.py, /b/model.py"),
        ("odel.py", "no file 'odel.py' in this recording: it has /a/model.py, .*Did you mean model.py?"),
        ("", "no file ''"),
        ("c.py:x", "no file 'c.py:x'"),
    ],
)
def test_a_file_that_is_not_there_or_not_the_only_one_is_told_with_what_there_is(text, told):
    with pytest.raises(UsageError, match=told):
        select_file(source_view(FILES), text)


def test_of_two_files_with_one_name_the_users_own_is_meant():
    theirs = SourceFile("/v/site-packages/timm/model.py", "x = 1\n")
    mine = SourceFile("/a/model.py", "x = 1\n")
    assert view_of(Recording(sources=(theirs, mine)), "model.py").file == "/a/model.py"


@pytest.mark.parametrize(
    ("count", "told"), [(6, "/a/f5.py$"), (7, "/a/f5.py and 1 more$"), (9, "/a/f5.py and 3 more$")]
)
def test_of_many_files_a_message_names_six(count, told):
    files = Recording(sources=tuple(SourceFile(f"/a/f{i}.py", "x = 1\n") for i in range(count)))
    with pytest.raises(UsageError, match=f"no file 'zzz' in this recording: it has /a/f0.py, .*{told}"):
        select_file(source_view(files), "zzz")


@pytest.mark.parametrize(("number", "first", "lines"), [(1, 1, "abcd"), (5, 2, "bcde"), (3, 1, "abcde")])
def test_a_line_stands_between_those_around_it_at_either_end_of_its_file(number, first, lines):
    found = Sources({"/a.py": "a\nb\nc\nd\ne"}).excerpt("/a.py", number)
    assert found == Excerpt(first, tuple(lines))


@pytest.mark.parametrize(("number", "text"), [(0, ""), (1, "a"), (2, "b"), (3, "")])
def test_a_line_has_its_text_and_one_that_is_not_there_has_none(number, text):
    assert Sources({"/a.py": "a\nb"}).line("/a.py", number) == text


@pytest.mark.parametrize(("file", "number"), [("/a.py", 0), ("/a.py", 3), ("/b.py", 2)])
def test_a_line_that_is_not_there_has_no_lines_around_it(file, number):
    assert Sources({"/a.py": "a\nb"}).excerpt(file, number) is None


def test_lines_cost_no_more_each_in_a_recording_of_many(calls_of):
    def made(count: int) -> Recording:
        text = "".join(f"def f{i}(x):\n    return x + {i}\n\n\n" for i in range(count))
        nodes = tuple(
            Node(f"n{i}", "call_function", "add", source=(SourceLine("/app/a.py", 4 * i + 2, f"f{i}", "x"),))
            for i in range(count)
        )
        graph = Graph(samples.compile_id(0), GraphStage.DYNAMO, "", nodes)
        return Recording(graphs=(graph,), sources=(SourceFile("/app/a.py", text),))

    small, large = made(200), made(1600)
    few = calls_of(lambda: source_view(small))
    assert calls_of(lambda: source_view(large)) < 10 * few
