"""The source view on a page: gutter, ids, folds, reasons, and files that are missing or hostile."""

import re

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.breaks import fallout
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.model import Graph, GraphStage, Node, Outcome, Recording, SourceFile, SourceLine
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json

ANSI = re.compile(r"\x1b\[[0-9;]*m")
BODY = [
    "import torch",
    *("" for _ in range(9)),
    "class Net:",
    "    def forward(self, x):",
    "        x = x + 1",
    "        print(x)",
    "        return x * 2",
    *(f"A_{i} = {i}" for i in range(30)),
    "def search(x):",
    *("    x = x - 1" for _ in range(5)),
]


def recording(body=None, file=samples.MODEL, lines=(13, 15), broken=14, code="print(x)"):
    """A function with two graphs and a break between them, and one that runs eagerly."""
    at = [SourceLine(file, n, "forward", "x = x + 1") for n in lines]
    graphs = tuple(
        Graph(samples.compile_id(i), GraphStage.DYNAMO, "", (Node(f"n{i}", "call_function", "add", source=(line,)),))
        for i, line in enumerate(at)
    )
    event = samples.graph_break(0, samples.PRINTING, broken, code, function="forward")
    at_break = SourceLine(file, broken, "forward", code)
    event = replace(event, user_stack=(at_break,), location=at_break)
    text = "\n".join(BODY if body is None else body) + "\n"
    return Recording(
        compilations=(
            samples.compilation(0, function="forward", line=12, file=file),
            samples.compilation(1, function="torch_dynamo_resume_in_forward_at_14", line=14, file=file),
            samples.compilation(2, function="search", line=46, file=file, outcome=Outcome.SKIPPED),
        ),
        graphs=graphs,
        graph_breaks=(event,),
        sources=(SourceFile(file, text),) if body != () else (),
    )


def shown(made, file="", *, width=80, color=False):
    selection = Selection(file=file) if file else EVERYTHING
    return view(made, "source", page_for(made, width=width, color=color), selection)


def test_a_function_that_was_seen_stands_whole_with_its_marks_and_the_rest_is_folded():
    text = shown(recording())
    head, _, rest = text.partition("\n\n")
    assert head.splitlines() == [
        "model.py  1 graph break at 1 line, 2 lines compiled, 6 not",
        "  + compiled, in the graphs on the right   - runs eagerly   ! graph break",
    ]
    assert [re.sub(" {3,}(?=\\d/)", "   ", line) for line in rest.splitlines()] == [
        "   ⋮ 11 lines  Net.forward",
        "  12         def forward(self, x):",
        "  13 +           x = x + 1   0/0",
        "  14  !          print(x)",
        "      ! break 1: Printing is an effect outside of the graph: what is printed",
        "                 must appear at this point of the run.",
        "  15 +           return x * 2   1/0",
        "   ⋮ 30 lines",
        "  46 -   def search(x):",
        *(f"  {n} -       x = x - 1" for n in range(47, 52)),
        "",
        "  what to change, break by break: compiler-lens show REC breaks",
    ]


@pytest.mark.parametrize(("count", "folded"), [(4, False), (5, True)])
def test_a_short_stretch_is_not_worth_folding(count, folded):
    made = recording([*BODY[:15], *("B = 1" for _ in range(count)), "def search(x):", "    return x"])
    made = replace(made, compilations=(*made.compilations[:2], replace(made.compilations[2], line=16 + count)))
    assert (f"⋮ {count} lines" in shown(made)) == folded
    assert ("B = 1" in shown(made)) != folded


def test_a_long_stretch_inside_of_a_function_is_folded_but_for_its_ends():
    body = ["def forward(x):", *(f"    # {i}" for i in range(2, 40)), "    return x"]
    made = recording(body, lines=(40,), broken=40)
    made = replace(made, compilations=(samples.compilation(0, function="forward", line=1),))
    text = shown(made)
    assert re.findall(r"# (\d+)|⋮ (\d+) lines", text) == [
        ("2", ""), ("3", ""), ("", "33"), ("37", ""), ("38", ""), ("39", ""),
    ]  # fmt: skip


def test_only_marks_that_occur_are_in_the_legend():
    made = recording()
    legend = shown(replace(made, graph_breaks=(), compilations=made.compilations[:2])).splitlines()[1]
    assert legend == "  + compiled, in the graphs on the right"


def test_around_a_line_stand_twelve_on_each_side_and_nothing_is_folded():
    text = shown(recording(), "model.py:30")
    numbers = [int(n) for n in re.findall(r"^  (\d+) ", text, re.MULTILINE)]
    assert numbers == list(range(18, 43))
    assert "⋮" not in text
    assert "breaks" not in text
    assert "No line 99: it has 51 lines." in shown(recording(), "model.py:99")


def test_of_several_files_there_is_a_list_and_the_most_broken_of_them():
    clean = Graph(
        samples.compile_id(3), GraphStage.DYNAMO, "",
        (Node("n", "call_function", "add", source=(SourceLine(samples.APP, 3, "main", "y = x + 1"),)),),
    )  # fmt: skip
    made = recording()
    text = shown(replace(made, graphs=(*made.graphs, clean)))
    assert re.search(r"Source  2 files.*\n.*\n  model.py +1 +2 +6\n  train.py +1\n", text)
    assert "\nmodel.py  1 graph break" in text
    assert "compiler-lens show REC source FILE\n" in text
    assert "y = x + 1" not in text


def test_without_its_text_the_known_lines_stand_with_their_marks():
    text = shown(recording(()))
    assert "its text is not in the recording" in text
    assert re.search(
        r"  13 \+   x = x \+ 1 +0/0\n  14  !  print\(x\)\n +! break 1: .*\n.*\n  15 \+   x = x \+ 1 +1/0\n", text
    )
    assert "⋮" not in text


def test_a_library_is_shown_only_where_it_is_asked_for_or_broke():
    file = "/v/site-packages/timm/levit.py"
    made = recording(file=file)
    assert "timm/levit.py  1 graph break" in shown(made)
    assert re.search(
        r"No line of your files.*\n\nSource  1 file of libraries.*\n.*\n +timm/levit.py",
        shown(replace(made, graph_breaks=())),
    )
    assert "timm/levit.py  2 lines compiled" in shown(replace(made, graph_breaks=()), "levit.py")


def test_a_file_in_which_nothing_happened_says_so():
    made = replace(recording(), graph_breaks=(), graphs=(), compilations=())
    assert "nothing happened in it" in shown(made, "model.py")
    assert "No line of your files" in shown(made)


def test_a_line_of_many_graphs_names_three_and_counts_the_rest():
    made = recording()
    node = made.graphs[0].nodes
    graphs = tuple(Graph(samples.compile_id(0, i), GraphStage.DYNAMO, "", node) for i in range(9))
    assert re.search(r"  13 \+ .* 0/0 0/1 0/2 \+6\n", shown(replace(made, graphs=graphs)))


def test_what_failed_to_compile_is_marked_where_it_failed():
    made = recording()
    at = SourceLine(samples.MODEL, 48, "search", "x = x - 1")
    failed = replace(made.compilations[2], outcome=Outcome.FAILED, failure=samples.BRANCHING, failure_line=at)
    text = shown(replace(made, compilations=(*made.compilations[:2], failed)))
    assert re.search(r"  48 x .*\n +x failed here: Data-dependent branching\n", text)
    assert "x failed to compile" in text


def test_eager_and_compiled_at_once_has_a_mark_of_its_own():
    made = recording(lines=(13, 47))
    assert re.search(r"  47 ~ ", shown(made))
    assert "~ partly compiled, partly eager" in shown(made)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        "\t" * 300 + "y",
        "x = '\u202e\u2066 evil \x1b[31m\x1b]0;title\x07'",
        "\x1b[" + "9" * 500 + "m" * 200,
        "漢" * 500,
        "a\x0cb\x85c\u2028d",
        "\ud800",
    ],
)
def test_any_line_fits_the_page_and_is_harmless(line, color, width):
    body = [*BODY[:12], f"        {line}", f"        {line}", f"        {line}"]
    made = recording(body, code=line)
    for each in (made, replace(made, sources=())):
        text = ANSI.sub("", shown(each, width=width, color=color))
        for one in text.splitlines():
            assert one.isprintable()
            assert len(one) <= width or "compiler-lens show" in one
    view_json(made, "source")


def test_colours_change_nothing_but_colours():
    coloured = shown(recording(), color=True)
    assert "\x1b" in coloured
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == shown(recording()).splitlines()


def test_ids_stand_at_the_right_edge_whatever_the_width_of_characters():
    from rich.cells import cell_len

    made = recording([*BODY[:12], "        x = '漢字' + 'e\u0301'", *BODY[13:]])
    for width in (80, 120):
        (line,) = [one for one in shown(made, width=width).splitlines() if one.startswith("  13 +")]
        assert cell_len(line) == width
        assert line.endswith(" 0/0")


def test_json_has_the_same_lines_with_their_facts():
    import json

    data = json.loads(view_json(recording(), "source"))
    (file,) = data["files"]
    assert (file["file"], file["own"], file["has_text"], file["breaks"]) == (samples.MODEL, True, True, 1)
    lines = {one["line"]: one for one in file["lines"]}
    assert lines[13]["graphs"] == ["0/0"]
    assert lines[13]["code"] == "        x = x + 1"
    assert (lines[14]["cards"], lines[47]["uncompiled"]) == ([1], "eager")
    asked = json.loads(view_json(recording(), "source", Selection(file="model.py:14")))
    assert (asked["line"], len(asked["files"])) == (14, 1)


def test_a_break_that_only_follows_says_from_which(monkeypatch):
    monkeypatch.setattr(fallout, "fallout_of", lambda events, keys, around, known: dict.fromkeys(keys[1:], keys[0]))
    made = recording()
    follows = replace(
        made.graph_breaks[0],
        causes=(samples.IN_LOOP,),
        user_stack=(SourceLine(samples.MODEL, 15, "forward", "return x * 2"),),
    )
    text = shown(replace(made, graph_breaks=(*made.graph_breaks, follows)))
    assert re.search(r"  15 \+!.*\n      ! follows from break 1\n", text)
    assert text.count("break 1:") == 1


def test_a_line_that_calls_what_breaks_says_which():
    made = recording()
    inner = SourceLine(samples.MODEL, 14, "forward", "print(x)")
    outer = SourceLine(samples.MODEL, 48, "search", "x = net(x)")
    event = replace(made.graph_breaks[0], user_stack=(outer, inner))
    text = shown(replace(made, graph_breaks=(event,)))
    assert re.search(r"  48 -\| .*\n      \| break 1 is in what is called here\n", text)
    assert "| calls what breaks" in text
