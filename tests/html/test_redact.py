"""A redacted page: no source text, no paths, and the same structure."""

from __future__ import annotations

import re
from html import unescape

import pages
import pytest
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import remedy_table
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CaptureProblem,
    Compilation,
    CompileId,
    Direction,
    Graph,
    GraphBreak,
    GraphStage,
    Guard,
    GuardFailure,
    Kernel,
    KernelKind,
    Outcome,
    OutputCode,
    Recompile,
    Recording,
    SourceFile,
    SourceLine,
)
from compiler_lens.recording.redact import Wording, redacted
from compiler_lens.render.page.page import report_page

ALL = sorted(pages.FILES)


@pytest.mark.parametrize("name", ALL)
def test_no_line_of_source_is_left(name: str) -> None:
    recording, text = pages.recording(name), pages.all_text(pages.page(name, redact=True))
    lines = {line.strip() for source in recording.sources for line in source.text.splitlines()}
    lines |= {at.code.strip() for event in recording.graph_breaks for at in event.user_stack}
    lines |= {at.code.strip() for graph in recording.graphs for node in graph.nodes for at in node.source}
    lines -= {
        line.strip()
        for remedy in remedy_table().remedies.values()
        for line in (remedy.before + "\n" + remedy.after).splitlines()
    }
    told = [line for line in lines if len(line) > 12 and re.search(r"[(=.]", line) and line in text]
    assert not told


@pytest.mark.parametrize("name", ALL)
def test_no_path_is_left(name: str) -> None:
    recording, text = pages.recording(name), pages.all_text(pages.page(name, redact=True))
    own = {source.file for source in recording.sources} | {c.file for c in recording.compilations}
    for file in own:
        folder, _, base = file.rpartition("/")
        assert not folder or folder not in text
        if folder and "site-packages" not in file and "/lib/" not in file:
            assert base not in text
    assert "/home/" not in text
    assert "/tmp/" not in text
    assert "/root/" not in text


@pytest.mark.parametrize("name", ALL)
def test_structure_is_kept(name: str) -> None:
    full, less = pages.recording(name), redacted(pages.recording(name))
    for one in full.__struct_fields__:
        if one not in {"sources", "environment"}:
            assert len(getattr(less, one)) == len(getattr(full, one)), one
    assert [k.name for k in less.kernels] == [k.name for k in full.kernels]
    assert [g.nodes and len(g.nodes) for g in less.graphs] == [g.nodes and len(g.nodes) for g in full.graphs]
    one, other = explain(full), explain(less)
    assert [c.gb_type for c in one.cards] == [c.gb_type for c in other.cards]
    assert [len(f.severity.value) for f in one.findings] == [len(f.severity.value) for f in other.findings]
    assert one.coverage.counts == other.coverage.counts


def test_paths_in_any_text_go() -> None:
    told = "cannot open '/home/me/my secrets/x.py' and C:\\Users\\me\\y.py and ~/z/w.py, 1/2 and a/b stay; f32[8]"
    recording = replace(pages.recording("gpt"), problems=(CaptureProblem("reader", told),))
    (problem,) = redacted(recording).problems
    assert not re.search(r"secret|Users|~|w\.py", problem.message)
    assert "1/2" in problem.message
    assert "f32[8]" in problem.message


def test_the_recordings_own_path_is_not_told() -> None:
    html = report_page(pages.recording("broken"), path="/secret/place/run.clens", redact=True)
    assert "secret" not in pages.all_text(html)


def test_the_page_says_so() -> None:
    assert "Redacted: no source text" in pages.page("gpt", redact=True)
    assert "holds source code" in pages.page("gpt")
    pages.Elements(report_page(pages.recording("broken"), redact=True))


OWN = """\
import triton

CITY = "a town by the sea"


def forward(x, mode="silent"):
    if mode == "silent" and x.sum() > THRESHOLD_OF_THE_HOUSE:
        return x["launch code"]
"""
KERNEL = "@triton.jit\ndef own_kernel(x_ptr):\n    tl.store(x_ptr, secret_formula(3.25))\n"


def told() -> Recording:
    """A recording in which torch quotes the user all over."""
    one, file = CompileId(0, 0), "/home/me/lab/plans.py"
    explanation = (
        'Told by the user.\n  # File "/home/me/lab/plans.py", line 7, in forward, '
        "code: if mode == 'silent' and x.sum() > THRESHOLD_OF_THE_HOUSE:\n"
        "    gt = gt(sum_1, 3), seen by plans.py, see data/clients.csv or 'debtors.csv'. Message: a town by the sea"
    )
    cause = BreakCause("Something that nobody knew", explanation=explanation, context="ConstantVariable(str: 'silent')")
    code = (
        f"own_kernel_0 = async_compile.triton('own_kernel', '''\n{KERNEL}''', device_str='cuda')\n"
        "triton_poi_fused_0 = async_compile.triton('triton_poi_fused_0', '''\ntmp1 = tmp0 / 2\n''', device_str='cuda')\n"
    )
    return Recording(
        sources=(SourceFile(file, OWN),),
        compilations=(Compilation(one, "forward", file, 6, Outcome.COMPILED),),
        graph_breaks=(GraphBreak(one, 0, (cause,), "", (SourceLine(file, 7, "forward"),), None, BreakOutcome.SPLIT),),
        guards=(
            Guard(one, "EQUALS_MATCH", "L['mode'] == 'silent'", "L['mode']"),
            Guard(one, "EQUALS_MATCH", "L['self'].weights['launch code'] == 'never written down'"),
            Guard(one, "TYPE_MATCH", "___check_type_id(L['mode'], 12), type=<class 'silent'>"),
        ),
        recompiles=(Recompile(CompileId(0, 1), (GuardFailure("0/0", "mode == 'silent'", "mode", "'silent'"),)),),
        kernels=(Kernel(one, Direction.FORWARD, "own_kernel_0", KernelKind.USER, source=KERNEL),),
        output_codes=(OutputCode(one, Direction.FORWARD, code),),
    )


def test_what_torch_quotes_of_the_user_goes() -> None:
    text = unescape(pages.all_text(report_page(told(), redact=True)))
    for words in (
        "town by the sea",
        "THRESHOLD_OF",
        "plans.py",
        "clients.csv",
        "debtors.csv",
        "launch code",
        "never written",
        "'silent",
    ):
        assert words not in text.replace("<class 'silent'>", ""), words
    for words in (
        "Something that nobody knew",
        "Message: text",
        "gt = gt(sum_1, 3)",
        "L['mode'] == 'text1'",
        "file1.py",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    "failure",
    [
        GuardFailure("0/0", "L['city'] == 'atlantis'"),
        GuardFailure("0/0", "value changed", "city", "'atlantis'", "3"),
        GuardFailure("0/0", "value changed", "city", "3", "'atlantis'"),
    ],
    ids=["in the guard", "before", "after"],
)
def test_what_only_a_guard_that_failed_compares_with_goes(failure: GuardFailure) -> None:
    less = redacted(Recording(recompiles=(Recompile(CompileId(0, 1), (failure,)),)))
    assert "atlantis" not in repr(less)
    assert "text1" in repr(less)


def test_a_kernel_that_the_user_wrote_goes_also_where_its_file_is_not_known() -> None:
    less = redacted(told())
    assert less.kernels[0].source == "..."
    assert "secret_formula" not in less.output_codes[0].code
    assert "tmp1 = tmp0 / 2" in less.output_codes[0].code
    assert "secret_formula" not in pages.all_text(report_page(told(), redact=True))


def test_many_strings_that_begin_alike_are_found_by_more_than_that() -> None:
    texts = "\n".join(f"raise ValueError('value {n} of many is wrong')" for n in range(500))
    ink = Wording.of([Recording(sources=(SourceFile("/x.py", texts),))], {"/x.py": "file1.py"})
    assert max(map(len, ink.heads.values())) <= 3  # lengths
    assert max(map(len, ink.lengths.values())) == 1  # a lookup for each part of an input's name
    assert ink.hidden("ValueError: value 77 of many is wrong, as x.py says; it's 'value 3 of many is wrong'") == (
        "ValueError: text78, as file1.py says; it's 'text4'"
    )


@pytest.mark.parametrize(
    "text", [" # ", " # a", " ", "\n   # x", "(str: '", "Message: ", "l_a_", "/a", "', '", "== '\\"]
)
def test_redaction_ends_whatever_a_text_is(text: str) -> None:
    """A quadratic pattern would take hours here."""
    graph = Graph(CompileId(0, 0), GraphStage.DYNAMO, text * 100_000, ())
    redacted(Recording(problems=(CaptureProblem("reader", text * 100_000),), graphs=(graph,)))
