"""Documents: what the same value becomes on a terminal and in a page, and one table of kernels for every output."""

import re
from functools import cache
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.page import Page
from compiler_lens.render.page.document import document_part
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.page import report_page
from compiler_lens.views import kernels
from compiler_lens.views.document import Column, Document, Lead, Section, Table, Tile, Tiles, line
from compiler_lens.views.parts import Figure, KernelName, Kind, Places, Stacked
from compiler_lens.views.text import microseconds

GPT = Path(__file__).parent.parent / "gpu/data/gpt-default-profiled.clens.gz"
LINES = tuple(SourceLine("/home/user/model.py", number) for number in (22, 24, 25))


@cache
def gpt() -> Recording:
    return load(GPT, strict=True)


def text(*blocks, width=120):
    return [one.plain for one in block_lines(blocks, Page(width))]


def part(*blocks, recording=None):
    recording = recording or Recording()
    return document_part("kernels", "Kernels", Document(blocks, None), PageLinks.of(recording, (), "REC"))


def test_a_cell_that_folds_hides_nothing():
    """Of two settings the end alone tells them apart."""
    names = ("torch._dynamo.config.allow_rnn = True", "torch._dynamo.config.allow_unspec_int_on_nn_module = True")
    columns = (Column("change", flexible=True, folds=True), Column("breaks", Kind.COUNT))
    lines = text(Table(columns, tuple((name, 3) for name in names), beneath=((line("below"),), ())), width=40)
    assert max(map(len, lines)) <= 40
    joined = "".join("".join(lines).replace("3", "").split())
    assert all("".join(name.split()) in joined for name in names)
    assert [one.split()[-1] for one in lines if one.endswith(" 3")] == ["3", "3"]
    assert lines.index("below") < max(n for n, one in enumerate(lines) if one.endswith(" 3"))
    (whole,) = text(Table(columns, ((names[0], 3),)), width=120)[1:]
    assert whole.split()[-2:] == ["True", "3"]


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        (
            "torch._dynamo.config.reorderable_logging_functions",
            ["torch._dynamo.config.", "reorderable_logging_functions"],
        ),
        ("a_very_long_name_of_a_function_that_has_no_end", ["a_very_long_name_of_a_function_that_has_", "no_end"]),
        # At a space where a word then fits, else within it.
        ("return print(a + b + c + d + e, sum_of_all(v))", ["return print(a + b + c + d + e,", "sum_of_all(v))"]),
        ("call " + "f(" * 20 + "x", ["call " + "f(" * 17, "f(f(f(x"]),
        ("a" * 50, ["a" * 40, "a" * 10]),  # there is no better place
        ("a" * 30 + "日本" * 5, ["a" * 30 + "日本日本日", "本日本日本"]),
    ],
)
def test_a_cell_that_folds_does_so_at_a_joint_of_its_code(cell, lines):
    first, *rest = text(Table((Column(flexible=True, folds=True),), ((cell,),), indent=0), width=40)
    assert [first, *rest] == [lines[0], *(f"  {line}" for line in lines[1:])]


# -- kernels


def document(**selection):
    return kernels.document(gpt(), Selection(**selection))


def test_a_kernel_has_the_same_figures_in_a_table_in_an_entry_and_for_programs():
    (section,) = document(for_page=True).blocks
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    facts = {(one.name, one.direction.value): one for one in document().data.kernels}
    assert {(row["kernel"].upper.name, row["pass"]) for row in rows} == facts.keys()
    assert len(rows) == len(gpt().kernels)
    for row in rows:
        known = facts[row["kernel"].upper.name, row["pass"]]
        assert (row["time"], row["ops"]) == (known.microseconds, known.ops)
        assert row["moves"].upper == kernels.moved(known.traffic)
    mm = facts["extern_kernels.mm", "backward"]
    told = "\n".join(text(*document().blocks, width=140))
    assert (
        f"\n  extern_kernels.mm\n      [0/0] backward  {microseconds(mm.microseconds)}, extern, {mm.ops} op, 8 launches"
        in told
    )


def test_kernels_that_compute_the_same_are_one_entry_and_rows_of_their_own():
    entries = [one for one in text(*document().blocks, width=200) if one.startswith("  ") and one[2] != " "]
    rows = document(for_page=True).blocks[0].blocks[-1].rows
    assert len(rows) == len(gpt().kernels) > len(entries) - 1


# -- parts and blocks


def test_lines_of_a_file_have_its_name_once_and_where_there_is_little_room_fewer_stand_there():
    places = line(Places(LINES, most=2, narrow=1))
    assert text(places) == ["model.py:22, 24 +1"]
    assert text(places, width=99) == ["model.py:22 +2"]


@pytest.mark.parametrize(("width", "shown"), [(139, ["saving"]), (140, ["saving", "computes"])])
def test_a_column_stands_where_there_is_room(width, shown):
    columns = (Column("saving", Kind.MICROSECONDS), Column("computes", room=140))
    assert text(Table(columns, ((1.0, "gelu"),)), width=width)[0].split() == shown


def test_a_column_has_a_short_name_where_there_is_little_room():
    table = Table((Column("possible saving", short="saving"),), (("1",),))
    assert [text(table, width=width)[0].strip() for width in (99, 100)] == ["saving", "possible saving"]


def test_what_stands_beneath_in_a_cell_is_for_pages():
    columns = (Column("kernel", beneath="computes"), Column("moves", Kind.BYTES, beneath="multiplies"))
    name = Stacked(KernelName(gpt().kernels[0].name, 0), "gelu +1", "gelu add")
    table = Table(columns, ((name, Stacked(Figure(2048, Kind.BYTES, about=True), Figure(3e9, Kind.FLOPS))),))
    assert text(table)[1].split() == [gpt().kernels[0].name, "~2.0", "KiB"]
    first, second = part(table, recording=gpt()).tables[0]["columns"]
    assert (first["name"], second["name"]) == ("kernel\ncomputes", "#moves\nmultiplies")
    ((told, rank, address, beneath, found_by, _),) = first["cells"]
    assert (told, rank, beneath, found_by) == (gpt().kernels[0].name, None, "gelu +1", "gelu add")
    assert address.startswith("#/kernel/0_0/")
    assert second["cells"] == [("~2.0 KiB", 2048, None, "3 GFLOPs", "3 GFLOPs", 3e9)]


def test_tiles_and_what_is_said_before_a_table():
    tiles = Tiles((Tile("time a call", Figure(61.1, Kind.MICROSECONDS), "in 8 runs"),))
    assert text(tiles) == ["  time a call  61.1 µs  in 8 runs"]
    drawn = part(Section("", (tiles, Lead((line("said"),))))).html
    html = re.sub(r"\s*(<[^>]*>)\s*", r"\1", "".join(drawn))
    assert '<dt>time a call</dt><dd>61.1 µs<span class="quiet">in 8 runs</span></dd>' in html
    assert '<div class="lead"><p>said</p>' in html


def test_what_to_do_stands_first_in_a_page() -> None:
    html = report_page(load(GPT.parent.parent.parent / "pictures/data/broken.clens.gz", strict=True))
    card = html[html.index('id="breaks-1"') :]
    assert card.index("<dt>change</dt>") < card.index("<dt>why</dt>") < card.index("<dt>torch</dt>")
