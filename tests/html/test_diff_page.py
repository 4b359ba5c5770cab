"""The page of two recordings: what the diff says, all of it and nothing else, on either side and in a real Chromium."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import random
import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pages
import pytest
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.compare.model import Times
from compiler_lens.recording.model import Recording
from compiler_lens.render.figures import written
from compiler_lens.render.page import comparison
from compiler_lens.render.page.comparison import compared, stretches
from compiler_lens.render.page.diff import asked_of, diff_page
from compiler_lens.render.page.document import document_part
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.pool import Pool
from compiler_lens.render.results import Diff
from compiler_lens.views.diff import around as beside
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.kernels import pair_became, time_cells
from compiler_lens.views.diff.summary import around, compile_time_words
from compiler_lens.views.diff.views import VIEWS
from compiler_lens.views.document import Comparison, Document
from compiler_lens.views.parts import Kind

GPU, CPU = pages.TESTS / "gpu" / "data", pages.TESTS / "diff" / "data"
PAIRS = {
    "modes": (GPU / "gpt-default-profiled.clens.gz", GPU / "gpt-max-autotune-profiled.clens.gz"),
    "overhead": (GPU / "gpt-default-profiled.clens.gz", GPU / "gpt-reduce-overhead-profiled.clens.gz"),
    "same": (GPU / "gpt-default-profiled.clens.gz", GPU / "gpt-default-profiled.clens.gz"),
    "op": (CPU / "base.clens.gz", CPU / "op.clens.gz"),
    "dtype": (CPU / "base.clens.gz", CPU / "dtype.clens.gz"),
    "broken": (CPU / "base.clens.gz", pages.FILES["broken"]),
    "mended": (pages.FILES["broken"], CPU / "base.clens.gz"),
}
ALL = sorted(PAIRS)


@cache
def found(name: str) -> Diff:
    """The diff of one pair of recordings."""
    return compiler_lens.diff(*PAIRS[name])


@cache
def page(name: str, *, redact: bool = False) -> str:
    """Its page."""
    return diff_page(found(name), redact=redact)


@cache
def hostile() -> str:
    """The page of two recordings in which everything has an attacker's name."""
    modes = found("modes")
    return diff_page(compiler_lens.diff(pages.hostile(modes.before), pages.hostile(modes.after)))


def titled(tables: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tables by their names."""
    return {one["table"]: one for one in tables if "table" in one}


def lines_of(kernel: dict[str, Any]) -> list[list[str]]:
    """The user's lines that a pair of kernels works for: whether they came or went, where, and the code."""
    _, _, rest = kernel["html"].partition("From your lines")
    rows = re.findall(r"<tr>(.*?)</tr>", rest.partition("<h2>")[0], re.DOTALL)
    return [[shown(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in rows]


def shown(html: str) -> str:
    """What stands in the page without its data, as a reader sees it."""
    body = re.sub(r"<script[ >].*?</script>|<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def html_part(html: str, view: str = "") -> str:
    """The elements of one view, or of all."""
    body = html.partition("<main")[2].partition("<script")[0]
    return body.partition(f'id="view-{view}"')[2].partition("</section>")[0] if view else body


def menu(html: str) -> list[str]:
    return re.findall(r'data-view="(\w+)"', html)


# -- what it says


@pytest.mark.parametrize("name", ["same", "op"])
def test_a_recording_and_itself_differ_in_nothing(name: str) -> None:
    one = found(name).before
    html = diff_page(compiler_lens.diff(one, one))
    data = pages.data(html)

    assert menu(html) == ["overview", "kernels", "times", "environment"]
    (said,) = re.findall(r"<h1[^>]*>(No kernel differs: .*?)</h1>", html)
    assert said.endswith(f"all identical; {told.NOTHING_ELSE}")
    assert [one["table"] for one in data["kernels"]] == ["Identical"]
    assert data["change"] == []
    assert all("<span>identical</span>" in one["html"] for one in data["kernel"])
    assert "no setting differs" in shown(html)


@pytest.mark.parametrize("name", ALL)
def test_it_counts_as_the_json_does(name: str) -> None:
    told_ = json.loads(found(name).to_json())
    html, data = page(name), pages.data(page(name))
    elements = pages.Elements(html).found

    assert len(data["change"]) == len(told_["kernels"])
    pairs = asked_of(found(name)).pairs
    listed = [one for one in pairs if one.change is not None]
    assert sum(len(pair.cases) for pair in listed) == sum(len(change["cases"]) for change in told_["kernels"])
    same = [one for one in pairs if one.change is None]
    assert sum(len(pair.cases) for pair in same) == len(told_["identical"])
    assert sum(len(pair.cases) for pair in same if pair.first.differences) == len(told_["retuned"])
    assert len(data["kernel"]) == len(listed) + len(same)
    graphs = [one for one in data.get("graphs", []) if "table" in one]
    assert [one["size"] for one in graphs] == [len(change["nodes"]) for change in told_["graphs"]]
    assert [given["id"] for tag, given in elements if tag == "article"] == [
        f"graphs-{n + 1}" for n in range(len(graphs))
    ]
    assert (data["autotune"][0]["size"] if "autotune" in data else 0) == len(told_["autotunes"])
    assert ("environment" in menu(html), "autotune" in menu(html)) == (True, bool(told_["autotunes"]))
    counts = dict(re.findall(r'data-view="(\w+)">[^<]*<span class="count">([\d,]+)<', html))
    assert int(counts.get("breaks", 0)) == sum(len(told_[what]) for what in ("breaks", "recompiles", "frames"))
    assert int(counts.get("cudagraphs", 0)) == len(told_["cudagraphs"])
    assert int(counts.get("environment", 0)) == len(told_["settings"])
    views = {given["id"] for tag, given in elements if tag == "section"}
    assert {f"view-{view}" for view in menu(html)} | {"drawn"} >= views


@pytest.mark.parametrize("name", ALL)
def test_every_launch_is_in_exactly_one_pair(name: str) -> None:
    d = found(name)
    pairs = asked_of(d).pairs
    assert len({one["key"] for one in pages.data(page(name))["kernel"]}) == len(pairs)
    for side in ("before", "after"):
        launches = [
            (one.compile_id, one.direction, one.ordinal, one.kernel, one.launch)
            for pair in pairs for case in pair.cases for one in getattr(case, side)
        ]  # fmt: skip
        assert len(launches) == len(set(launches)) == getattr(d.result, side).launches


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_the_console_says(name: str) -> None:
    d, text = found(name).result, shown(page(name))
    data = pages.data(page(name))

    assert told.kernels_line(d) in text
    assert all(" ".join(told.change_line(change).split()) in text for change in d.kernels[:8])
    assert [one["name"] for one in data["change"]] == [told.change_words(change) for change in d.kernels]
    assert all(" ".join(line.split()) in text for _, line, _ in around(d))
    if d.before.phases.timed and d.after.phases.timed:
        assert compile_time_words(d) in text
    if d.call_times:
        assert told.gain(d.call_times) in text
        assert told.timed_words(d).removeprefix("; ") in text
        assert told.idle(d).removeprefix("; ") in text
        assert all(f"{amount} µs" in text for amount in told.amounts(d.call_times))
    else:
        assert told.NO_TIMES in text or "times" not in menu(page(name))
    for each in d.settings:
        assert each.name in text
    verdicts = {*told.VERDICTS.values(), "other configuration", "identical, autotuned differently"}
    for pair, one in zip(asked_of(found(name)).pairs, data["kernel"], strict=True):
        assert one["name"] == " ".join(told.names(pair.first).split())
        assert pair.verdict in verdicts
        assert f"<span>{pair_became(pair)}</span>" in one["html"]
        assert told.differences(pair.first.differences, 99) in unescape(one["html"])


def test_what_the_author_changed_stands_before_the_kernels_that_follow_from_it() -> None:
    text = shown(page("op"))
    assert text.count("Dynamo graph: relu → silu") == 1
    assert text.index("Dynamo graph: relu → silu") < text.index("what weighs most first")
    assert "input x" in shown(page("dtype"))
    assert "no setting differs" not in shown(page("dtype"))


def test_kernels_made_one_are_told_by_their_ops() -> None:
    merged = [pair for pair in asked_of(found("modes")).pairs if pair.verdict == "merged"]
    assert merged
    assert all(told.grouping(pair.first).endswith(" → one kernel") for pair in merged)
    assert all(" + " in told.grouping(pair.first) for pair in merged)
    changed = next(pair for pair in asked_of(found("modes")).pairs if pair.verdict == "changed")
    assert told.grouping(changed.first) == ""


def test_times_are_told_on_both_sides() -> None:
    d, table = found("modes").result, titled(pages.data(page("modes"))["kernels"])["Changes"]
    heads = [one["name"] for one in table["columns"]]
    assert len(pages.rows(table)) == len(d.kernels)
    for row, change in zip(pages.rows(table), d.kernels, strict=True):
        told_ = dict(zip(heads, row, strict=True))
        assert (told_["#before"] and told_["#before"][1]) == (change.times.before if change.times else "")
        assert (told_["#after"] and told_["#after"][1]) == (change.times.after if change.times else "")


def test_noise_is_called_noise() -> None:
    assert time_cells(Times(10.0, 9.5, 0.1, 0.6)) == (10.0, 9.5, 0.0)
    assert time_cells(Times(10.0, 9.5, 0.1, 0.2)) == (10.0, 9.5, -0.5)
    assert time_cells(None) == (None, None, None)
    assert [written(gain, Kind.GAIN) for gain in (0.0, -0.5, 0.5)] == ["noise", "\N{MINUS SIGN}0.5 µs", "+0.5 µs"]


@pytest.mark.parametrize("name", ["modes", "op", "dtype"])
def test_both_codes_are_there_whole(name: str) -> None:
    data = pages.data(page(name))
    for pair, one in zip(asked_of(found(name)).pairs, data["kernel"], strict=True):
        if pair.code[0] == pair.code[1]:
            ((pack, at),) = re.findall(r'data-text="(\d+)-(\d+)"', one["html"])
            assert data[f"texts-{pack}"][int(at)].split("\n") == (list(pair.code[0]) or [""])
        else:
            (both,) = (block["both"] for block in one["tables"] if "both" in block)
            assert sides_of(both, data) == [list(code) or [""] for code in pair.code]
            put_together(*pair.code, both)
    codes = [one["both"] for one in data.get("graphs", []) if "both" in one]
    assert len(codes) == len(found(name).result.graphs)
    for both in codes:
        put_together(*sides_of(both, data), both)


def sides_of(both: dict[str, Any], data: dict[str, Any]) -> list[list[str]]:
    return [data[f"texts-{pack}"][at].split("\n") for pack, at in (both["before"], both["after"])]


def put_together(left: Any, right: Any, told_: dict[str, Any]) -> None:
    """Every line of either side stands in exactly one stretch; equal ones are equal, and so is all that is not marked."""
    at = [0, 0]
    for tag, b0, b1, a0, a1 in told_["rows"]:
        assert [b0, a0] == at
        at = [b1, a1]
        if tag == "=":
            assert list(left[b0:b1]) == list(right[a0:a1])
        elif tag == "~":
            assert b1 - b0 == a1 - a0
        else:
            assert (b0 < b1, a0 < a1) == (tag == "-", tag == "+")
        for i in range(b1 - b0 if tag == "~" else 0):
            spans = told_["marks"][str(b0 + i)]
            one, other = (blank(line, s) for line, s in zip((left[b0 + i], right[a0 + i]), spans, strict=True))
            assert one == other or not any(spans)
    assert at == [len(left), len(right)]


def blank(line: str, spans: Any) -> str:
    for begin, end in reversed(spans):
        line = line[:begin] + line[end:]
    return line


def test_any_two_texts_are_put_together_again() -> None:
    words = ["x = load(in_ptr0 + 4)", "y = load(in_ptr1 + 8)", "}", "", "store(out, x * 2)", "tmp3 = tmp1 + tmp2"]
    for seed in range(40):
        chance = random.Random(seed)
        left = [chance.choice(words) for _ in range(chance.randrange(30))]
        right = [line.replace("4", "16").replace("tmp1", "tmp7") for line in left if chance.random() < 0.8]
        for _ in range(chance.randrange(6)):
            right.insert(chance.randrange(len(right) + 1), chance.choice(words).upper())
        put_together(left, right, compared(left, right))


def test_a_line_that_changed_is_beside_itself() -> None:
    before = ["def kernel(a):", "    x = load(a + 4)", "    y = relu(x)", "    store(a, y)"]
    after = ["def kernel(a, b):", "    x = load(a + 8)", "    s = sigmoid(x)", "    y = x * s", "    store(b, y)"]
    rows = stretches(before, after)
    assert rows == [("~", 0, 2, 0, 2), ("+", 2, 2, 2, 3), ("~", 2, 4, 3, 5)]
    assert compared(before, after)["marks"]["1"] == ([[17, 18]], [[17, 18]])


def test_what_is_too_long_to_align_is_there_one_after_the_other() -> None:
    long = [f"line {n}" for n in range(5_000)]
    assert stretches(long, ["x"]) == [("-", 0, 5_000, 0, 0), ("+", 5_000, 5_000, 0, 1)]
    assert stretches([], ["x"]) == [("+", 0, 0, 0, 1)]
    assert stretches([], []) == []


def test_lines_that_are_all_alike_are_not_compared_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    class Counting(difflib.SequenceMatcher[str]):
        def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Any:
            looked.append((ahi or 0) - alo)
            return super().find_longest_match(alo, ahi, blo, bhi)

    monkeypatch.setattr(comparison, "SequenceMatcher", Counting)
    left = [f"v = f(u{n})" for n in range(800)]
    right = [f"v = f(u{n + 5000})" if n % 2 else f"w = f(u{n + 5000})" for n in range(800)]
    rows = stretches(left, right)
    assert sum(looked) * 400 < 30_000_000  # 400 lines are equal to each of the others, but for their numbers
    assert [sum(row[2] - row[1] for row in rows), sum(row[4] - row[3] for row in rows)] == [800, 800]
    put_together(left, right, compared(left, right))


def test_each_launch_has_its_own_lineage() -> None:
    """By its number, without a look at the others."""
    for half, side in zip(asked_of(found("modes")).halves, ("before", "after"), strict=True):
        cases = (
            *found("modes").result.identical,
            *(c for change in found("modes").result.kernels for c in change.cases),
        )
        for one in (one for case in cases for one in getattr(case, side)):
            (lineage,) = half.lineages([one])
            assert (lineage.kernel.name, lineage.launch) == (one.kernel, one.launch)
            assert lineage.called is half.launch(one)
        for place in range(len(half.recording.kernels)):
            numbers = [each.launch for each in half.provenance.of_kernel(place)]
            assert numbers in ([None], list(range(len(numbers))))


def test_very_long_lines_are_marked_up_to_a_limit() -> None:
    lines = [[f"c{n} = cat({n + 1_000 * side}, {'y' * 3_000})" for n in range(40)] for side in (1, 2)]
    both = compared(*lines)
    assert both["rows"] == [("~", 0, 40, 0, 40)]
    assert 0 < len(both["marks"]) < 40


def test_lines_of_the_user_are_of_both_sides_or_of_one() -> None:
    kernel = next(one for one in pages.data(page("op"))["kernel"] if one["name"].startswith("cpp_fused_relu_1"))
    assert [(mark, code) for mark, _, code in lines_of(kernel)] == [("-", "y = F.relu(y)"), ("+", "y = F.silu(y)")]
    for one in pages.data(page("same"))["kernel"]:
        assert {mark for mark, _, _ in lines_of(one)} <= {""}
        assert "→" not in "".join(at for _, at, _ in lines_of(one))


def test_what_autotuning_tried_stands_with_the_kernel_and_by_itself() -> None:
    data = pages.data(page("modes"))
    changes = found("modes").result.autotunes
    tables = {one["table"]: pages.rows(one) for one in data["autotune"][1:]}
    assert len(tables) == len({(change.op, change.inputs) for change in changes}) > 0
    for change in changes:
        rows = tables[f"{change.op}({', '.join(change.inputs)})"]
        assert [row[0] for row in rows if "after" in row] == [beside.choice(change.after)]
    with_kernel = [one for kernel in data["kernel"] for one in kernel["tables"] if one.get("table") in tables]
    assert with_kernel
    assert all(pages.rows(one) == tables[one["table"]] for one in with_kernel)


def test_breaks_are_fixed_or_new() -> None:
    said = r'<span class="(\w+)">(new|fixed|more|fewer|gone|come) *</span>'
    broken = compiler_lens.load(pages.FILES["broken"])
    mended = replace(broken, graph_breaks=())
    new, fixed = (
        re.findall(said, diff_page(compiler_lens.diff(*pair))) for pair in ((mended, broken), (broken, mended))
    )
    assert set(new) == {("bad", "new")}
    assert set(fixed) == {("good", "fixed")}
    come, gone = (re.findall(said, page(name)) for name in ("broken", "mended"))
    assert set(come) == {("bad", "come")}, "of another program: nobody knows what broke before"
    assert set(gone) == {("warn", "gone")}
    assert len(new) == len(fixed) == len(come) == len(gone) == len(found("broken").result.breaks)


@pytest.mark.parametrize("sides", ["nothing", "before", "after"])
def test_an_empty_side_has_a_page(sides: str) -> None:
    one, empty = found("op").before, Recording()
    html = diff_page(compiler_lens.diff(one if sides == "before" else empty, one if sides == "after" else empty))
    pages.Elements(html)
    assert ("kernels" in menu(html)) == (sides != "nothing")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("runs/monday/run.clens", "runs/today/run.clens"), ("monday/run.clens", "today/run.clens")),
        (("a/default.clens", "a/tuned.clens"), ("default.clens", "tuned.clens")),
        (("a/run.clens", "a/run.clens"), ("run.clens", "run.clens")),
        (("BEFORE", "AFTER"), ("BEFORE", "AFTER")),
    ],
)
def test_recordings_of_one_name_are_told_apart(paths: tuple[str, str], names: tuple[str, str]) -> None:
    html = shown(diff_page(replace(found("same"), names=paths)))
    assert f"before {names[0]} after {names[1]}" in html


def test_launches_have_their_shares() -> None:
    table = html_part(page("modes"), "overview").partition("<table")[2].partition("</table>")[0]
    cells = [[shown(cell) for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)] for row in table.split("</tr>")]
    counts = [(what, n) for what, n in told.launch_counts(found("modes").result) if n]
    whole = sum(n for _, n in counts)
    assert [tuple(row[:3]) for row in cells[1:-1]] == [
        (what, f"{n:,}", written(n / whole, Kind.SHARE)) for what, n in counts
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_graphs_that_differ_are_counted_in_words(count: int) -> None:
    d = found("op")
    asked = replace(asked_of(d), diff=replace(d.result, graphs=d.result.graphs[:count]))
    for one in (asked, replace(asked, halves=())):
        (section,) = beside.graphs(one)
        assert section.summary == ("1 graph differs" if count == 1 else "2 graphs differ")


@pytest.mark.parametrize("name", ALL)
def test_tables_are_heard_with_their_headings(name: str) -> None:
    html, data = page(name), pages.data(page(name))
    drawn = [one["html"] for shelf in ("kernel", "change") for one in data[shelf]]
    for table in (one for part in (html, *drawn) for one in re.findall(r"<table.*?</table>", part, re.DOTALL)):
        headings = re.findall(r'<th scope="col".*?>(.*?)</th>', table)
        assert all(shown(one) for one in headings)
        if headings and 'class="unseen"' in headings[0]:
            assert table.count('<th scope="row"') == table.partition("<tbody>")[2].count("<tr>")
    times = html_part(html, "times")
    for unseen in ("phase", "bars"):
        assert f'<span class="unseen">{unseen}</span>' in times
    assert ('<span class="unseen">difference</span>' in times) == (found(name).result.call_times is not None)
    assert html.count('scope="row"') >= 8


@pytest.mark.parametrize("name", ["modes", "op"])
def test_changes_are_an_ordered_list(name: str) -> None:
    listed = re.search(r"<ol.*?</ol>", html_part(page(name), "overview"), re.DOTALL)
    assert listed
    assert listed[0].count("<li>") == min(8, len(found(name).result.kernels))
    assert not re.search(r">\d+\. ", listed[0])


# -- what it is made of


@pytest.mark.parametrize("name", ALL)
def test_it_has_no_pack_of_data_without_anything_in_it(name: str) -> None:
    data = pages.data(page(name))
    assert not [view for view in menu(page(name)) if data.get(view) == []]
    drawn = set(re.findall(r'data-of="(\w+)"', html_part(page(name))))
    assert drawn <= data.keys()


def test_a_comparison_has_a_pool_for_its_texts() -> None:
    document, links = Document((Comparison(("a",), ("b",)),), None), PageLinks.of(found("op").before, (), "REC")
    with pytest.raises(TypeError, match="pool"):
        document_part("graphs", "Graphs", document, links)
    pool = Pool()
    (drawn,) = document_part("graphs", "Graphs", document, links, pool).tables
    assert [pool.packs[pack][n] for pack, n in (drawn["both"]["before"], drawn["both"]["after"])] == ["a", "b"]


def test_views_that_the_summary_leads_to_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diff", "--help"])
    listed = re.findall(r"^  (\w+) {2,}\S", capsys.readouterr().out, re.MULTILINE)
    assert {name for name in VIEWS if name != "summary"} <= set(listed)


@pytest.mark.parametrize("name", [*ALL, "hostile"])
def test_it_needs_nothing_from_outside_and_runs_nothing_else(name: str) -> None:
    html = hostile() if name == "hostile" else page(name)
    for tag, given in pages.Elements(html).found:
        assert "src" not in given
        assert "style" not in given
        assert not [attribute for attribute in given if attribute.startswith("on")]
        assert (given.get("href") or "#").startswith("#")
        assert tag not in {"link", "img", "iframe", "base", "form", "object"}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert policy
    assert script
    hashed = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{hashed}'" in unescape(policy[1])
    assert "url(" not in html.partition("</style>")[0]


def test_hostile_names_are_text() -> None:
    html = hostile()
    assert {tag for tag, _ in pages.Elements(html).found} <= {tag for tag, _ in pages.Elements(page("modes")).found}
    assert "<img" not in html
    assert "\u202e" not in pages.all_text(html)
    assert "\u2028" not in pages.all_text(html)
    assert html.count("</script>") == html.count("application/octet-stream") + 1
    assert len(html) < 3 * len(page("modes"))


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere(name: str) -> None:
    html, data = page(name), pages.data(page(name))
    known = {f"#/{view}" for view in menu(html)} | {"#/overview"}
    known |= {f"#/kernel/{one['key']}" for one in data["kernel"]}
    known |= {f"#/change/{number}" for number in range(1, len(data["change"]) + 1)}
    links = set(re.findall(r'#/[^"\s\\]+', pages.all_text(html)))
    assert links <= known


@pytest.mark.parametrize("name", ["modes", "op", "broken"])
def test_redacted_it_has_no_source_and_no_path_of_either_side(name: str) -> None:
    d, html = found(name), page(name, redact=True)
    text = unescape(pages.all_text(html))
    for change in d.result.breaks:  # torch's word for it may have the line that everybody writes
        text = text.replace(re.sub("`(.*?)`", r"<code>\1</code>", change.gb_type), "")
    for recording in (d.before, d.after):
        lines = {line.strip() for source in recording.sources for line in source.text.splitlines()}
        lines |= {at.code.strip() for graph in recording.graphs for node in graph.nodes for at in node.source}
        lines |= {at.code.strip() for event in recording.graph_breaks for at in event.user_stack}
        assert not [line for line in lines if len(line) > 12 and re.search(r"[(=.]", line) and line in text]
        for file in {source.file for source in recording.sources} | {c.file for c in recording.compilations}:
            folder, _, base = file.rpartition("/")
            assert not folder or folder not in text
            assert base not in text or "site-packages" in file
    assert not re.search(r"/home/|/tmp/|/root/", text)
    assert not any(Path(path).name in text for path in PAIRS[name])
    assert "Redacted: no source text" in html


@pytest.mark.parametrize("name", ["modes", "op", "broken"])
def test_redacted_it_counts_the_same(name: str) -> None:
    full, less = (pages.data(page(name, redact=redact)) for redact in (False, True))
    for one, other in zip(full["kernel"], less["kernel"], strict=True):
        assert (one["key"], one["name"]) == (other["key"], other["name"])
        said, less_said = (re.findall(r'<p class="(?:figures|strong)">.*?</p>', each["html"]) for each in (one, other))
        assert said == less_said != []
    assert [one["name"] for one in full["change"]] == [one["name"] for one in less["change"]]
    sizes, less_sizes = ([one.get("size") for one in each.get("graphs", [])] for each in (full, less))
    assert sizes == less_sizes
    assert menu(page(name)) == menu(page(name, redact=True))


def test_it_is_made_without_torch_by_the_command_that_makes_reports(tmp_path: Path) -> None:
    code = (
        "import sys; from compiler_lens.cli import main; status = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "report", *map(str, PAIRS["op"])],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.startswith("base-to-op.html  ")
    assert (tmp_path / "base-to-op.html").read_text("utf-8") == page("op")


def test_a_page_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = str(tmp_path / "page.html")
    assert main(["report", str(PAIRS["op"][0]), wanted])
    assert capsys.readouterr().err == f"compiler-lens: {wanted} is not a recording. To write it: -o {wanted}\n"


def test_a_diff_writes_its_page(tmp_path: Path) -> None:
    written = found("op").html(tmp_path / "diff.html", redact=True)
    assert written.read_text("utf-8") == page("op", redact=True)
    with pytest.raises(compiler_lens.LensError, match="cannot write"):
        found("op").html(tmp_path / "no" / "such.html")


# -- in Chromium


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages as files."""
    folder = tmp_path_factory.mktemp("diffs")
    made = {name: page(name) for name in ALL} | {"hostile": hostile(), "redacted": page("modes", redact=True)}
    for name, html in made.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.mark.browser
@pytest.mark.parametrize("name", [*ALL, "hostile", "redacted"])
def test_every_view_shows_something(name: str, open_page: Any, addresses: dict[str, str]) -> None:
    page_ = open_page(name)
    data = pages.data(Path(addresses[name].removeprefix("file://")).read_text("utf-8"))
    views = page_.run("[...document.querySelectorAll('.menu a')].map((a) => a.getAttribute('href'))")[1:]
    became = re.compile(r'<p class="figures"><span>.*?</span><span>(.*?)</span>')
    verdicts = {became.findall(one["html"])[0]: one["key"] for one in data["kernel"]}
    below = [f"#/kernel/{key}" for key in verdicts.values()] + [
        f"#/change/{n + 1}" for n in range(len(data["change"]))
    ][:3]
    for to in [*views, *below]:
        page_.go(to)
        assert page_.texts("main h1"), to
        assert "could not be shown" not in page_.texts("main .view.on")[0]
        assert page_.run("document.querySelectorAll('main > .view.on').length") == 1
        here = page_.run("document.querySelector('.menu [aria-current]').dataset.view")
        assert {"kernel": "kernels", "change": "kernels"}.get(to.split("/")[1], to.split("/")[1]) == here
        assert page_.run("document.documentElement.scrollWidth <= innerWidth"), to
    assert page_.run("typeof hacked") == "undefined"
    assert page_.run("document.querySelectorAll('img, iframe, script[src]').length") == 0


@pytest.mark.browser
def test_from_the_summary_to_the_code_and_back(open_page: Any) -> None:
    page_ = open_page("op")
    page_.click("#view-overview .tree li:nth-child(4) a")
    page_.wait("document.querySelector('.beside')")
    assert page_.run("location.hash") == "#/kernel/0_0/cpp_fused_silu_1"
    marks = page_.texts(".beside .other mark")
    assert marks
    assert page_.texts(".small tr:has(.bad) code") == ["y = F.relu(y)"]
    before = page_.run("document.querySelectorAll('.beside .same').length")
    page_.click(".beside .fold")
    assert page_.run("document.querySelectorAll('.beside .same').length") > before
    halves = "[...document.querySelectorAll('.beside .{} code')].map((e) => e.textContent)"
    for _ in range(page_.run("document.querySelectorAll('.beside .fold').length")):
        page_.click(".beside .fold")
    pair = next(one for one in asked_of(found("op")).pairs if one.first.after[0].kernel == "cpp_fused_silu_1")
    assert page_.run(halves.format("old")) == list(pair.code[0])
    assert page_.run(halves.format("now")) == list(pair.code[1])
    page_.back()
    page_.wait("document.querySelector('#view-overview.on')")


@pytest.mark.browser
def test_a_kernel_is_found_by_the_name_that_it_had(open_page: Any) -> None:
    page_ = open_page("op", "#/kernel/0_0/cpp_fused_relu_1")
    assert page_.texts("main h1") == ["cpp_fused_relu_1 → cpp_fused_silu_1"]
    page_.press("/")
    page_.type("relu_1")
    page_.wait("document.querySelectorAll('#found li').length > 0")
    page_.press("Enter")
    page_.wait("location.hash === '#/kernel/0_0/cpp_fused_silu_1'")
    page_.go("#/kernel/0_0/no_such")
    assert "No such kernel" in page_.texts("main .view.on")[0]


@pytest.mark.browser
def test_kernels_are_sorted_and_filtered_and_identical_ones_are_a_line(open_page: Any) -> None:
    page_ = open_page("modes", "#/kernels")
    assert page_.run("[...document.querySelectorAll('main details')].every((one) => !one.open)")
    rows = "[...document.querySelectorAll('table[aria-label=\"Kernels that differ\"] tbody tr')].map((row) => row.textContent)"
    every = page_.run(rows)
    page_.run(
        "{const s = document.querySelector('.tools select'); s.value = 'merged'; s.dispatchEvent(new Event('change'))}"
    )
    assert 0 < len(page_.run(rows)) < len(every)
    assert all("merged" in row for row in page_.run(rows))


@pytest.mark.browser
def test_on_a_narrow_screen_sides_are_one_below_the_other(open_page: Any) -> None:
    page_ = open_page("op", "#/kernel/0_0/cpp_fused_silu_1")
    boxes = "[...document.querySelector('.beside .other').children].map((e) => e.getBoundingClientRect()).map(({x, y}) => [x, y])"
    (left, top), (right, same) = page_.run(boxes)
    assert left < right
    assert top == same
    page_.ask("Emulation.setDeviceMetricsOverride", width=480, height=900, deviceScaleFactor=1, mobile=False)
    try:
        (left, top), (right, below) = page_.run(boxes)
        assert left == right
        assert top < below
        for to in ("#/kernel/0_0/cpp_fused_silu_1", "#/overview", "#/kernels", "#/graphs"):
            page_.run(f"location.hash = {to!r}")
            page_.wait("document.querySelector('main > .view.on')")
            assert page_.run("document.documentElement.scrollWidth <= innerWidth"), to
    finally:
        page_.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)


@pytest.mark.browser
def test_it_can_be_read_dark_and_light_and_by_a_screen_reader(open_page: Any) -> None:
    page_ = open_page("op", "#/kernel/0_0/cpp_fused_silu_1")
    script = """[...document.querySelectorAll('.beside .half, .beside code span, .small td, .small td *')].map((e) => {
      let back = e;
      while (/0\\)$/.test(getComputedStyle(back).backgroundColor)) back = back.parentElement;
      return [getComputedStyle(e).color, getComputedStyle(back).backgroundColor].map((c) => c.match(/[\\d.]+/g).map(Number)); })"""
    for dark in (False, True):
        page_.dark(dark=dark)
        for ink, back in {json.dumps(pair): pair for pair in page_.run(script)}.values():
            assert pages.contrast(ink, back) > 4.4, (dark, ink, back)
    page_.dark(dark=False)
    for view in ("overview", "kernels", "kernel/0_0/cpp_fused_silu_1", "graphs", "times", "environment"):
        page_.go(f"#/{view}")
        for node in page_.ask("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if role in {"link", "button", "searchbox", "combobox", "navigation", "region"} and not node.get("ignored"):
                assert node.get("name", {}).get("value"), (view, node)


@pytest.mark.browser
def test_without_scripts_the_summary_stands(open_page: Any) -> None:
    page_ = open_page("modes")
    with page_.without_scripts():
        assert page_.run("getComputedStyle(document.getElementById('view-times')).display") == "block"


def test_a_kernel_that_several_stand_for_has_the_address_of_the_first() -> None:
    before, after = (GPU / f"gpt-{mode}-profiled.clens.gz" for mode in ("max-autotune", "default"))
    pairs = pages.data(diff_page(compiler_lens.diff(before, after)))["kernel"]
    split = [one for one in pairs if " + " in one["name"]]
    assert len(split) == 4
    for one in split:
        first = one["name"].partition(" → ")[2].partition(" + ")[0]
        assert one["key"].startswith(f"0_0/{first}")
