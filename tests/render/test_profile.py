"""The view of a profile: real ones of an H200, in the width of the page, and what comes from outside does nothing."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.line_story import select_place
from compiler_lens.facts.overview.source_view import source_view
from compiler_lens.facts.program.select import EVERYTHING, Selection, kernel_name, short_name
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import CompileId, OtherTime, ProfileNote, Recording, Remark
from compiler_lens.render.console import profile_report, view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.views.profile import kernel_label
from compiler_lens.views.profile_words import note_words

GPU = Path(__file__).parent.parent / "gpu" / "data"
NAMES = ("gpt-default", "gpt-reduce-overhead", "resnet-default")


@cache
def recording(name: str) -> Recording:
    return load(GPU / f"{name}-profiled.clens.gz", strict=True)


def lines(found: Recording, width: int = 120) -> list[str]:
    return profile_report(found, width=width, color=False).splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_it_fits_the_page(name: str, width: int) -> None:
    shown = lines(recording(name), width)
    assert all(len(line) <= width for line in shown if "compiler-lens show" not in line)
    assert len(shown) <= 40
    assert shown[0].startswith("Profile  ")
    assert "NVIDIA H200" in "\n".join(shown)


def test_the_most_to_gain_stands_first_with_its_lines() -> None:
    shown = lines(recording("gpt-default"))
    rows = shown[shown.index("") + 2 :]
    assert rows[0].split()[-4:] == ["mm", "models.py:24,", "22,", "25"]
    gains = [float(row.split()[0].strip("~")) for row in rows if " µs " in row and "models.py" in row]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_called_by_a_name_that_finds_it(name: str, width: int) -> None:
    found = recording(name)
    names = {kernel.name for kernel in found.kernels}
    assert all(kernel_name(short_name(one, names), names, "here") == one for one in names)
    shown = profile_report(found, width=width, color=False, path="REC").splitlines()
    generated = {short_name(one, names) for one in names if one.startswith("triton_")}
    words = [word for line in shown for word in line.split() if word in generated]
    assert len(words) > 2
    assert len(words) == len({*words}) + 1, "each row has its own, and the first is the next step"
    assert shown[-1].endswith(f" kernel {words[0]}")
    assert short_name("triton_a_b_c_1", {"triton_a_b_c_1", "triton_x_b_c_1"}) == "a_b_c_1"
    assert short_name("b_1", {"b_1", "a_b_1"}) == "b_1"


def test_what_to_do_depends_on_the_mode() -> None:
    assert any('mode="reduce-overhead"' in line for line in lines(recording("gpt-default")))
    replayed = "\n".join(lines(recording("gpt-reduce-overhead")))
    assert 'mode="reduce-overhead"' not in replayed
    assert "though launches are replayed" in replayed


def test_doubt_is_marked_and_said() -> None:
    sure, doubtful = (lines(recording(name)) for name in ("gpt-default", "gpt-reduce-overhead"))
    assert not any("~" in line for line in sure)
    assert any(line.lstrip().startswith("~") and " mm " in line for line in doubtful)
    assert any(line.lstrip().startswith("~ where") for line in doubtful)


def test_one_launch_is_no_launches() -> None:
    found = recording("gpt-default")
    profile = found.profiles[-1]
    assert lines(found)[1].startswith("  47 launches; ")
    once = next(launch for launch in profile.launches if launch.runs == 1)
    assert lines(replace(found, profiles=(replace(profile, launches=(once,)),)))[1].startswith("  1 launch; ")


def test_kernels_that_the_profiler_held_up_are_no_share_of_a_call() -> None:
    found = recording("gpt-default")
    profile = replace(found.profiles[-1], microseconds=200.0, spread=50.0)
    assert "%" in lines(found)[1]
    assert re.search(r"kernels 0\.\d+ ms, other", lines(replace(found, profiles=(profile,)))[1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"microseconds": 50.0, "spread": 1.0}, "longer than a whole call"),
        ({"notes": (ProfileNote(Remark.KEPT_WAITING, number=0.25),)}, "25 % of a usual call"),
        ({"spread": 119_000.0}, "differ by more than half of their median"),
    ],
)
def test_times_that_are_not_usable_show_no_gains_and_no_advice(change: dict[str, float], reason: str) -> None:
    found = recording("gpt-default")
    broken = replace(found, profiles=(replace(found.profiles[-1], **change),))
    for width in (80, 120):
        shown = lines(broken, width)
        told = " ".join(" ".join(shown).split())
        assert told.startswith("These times are not usable: measure again on a quiet machine"), "that comes first"
        assert reason in told
        assert [word for word in ("possible saving", "bound by", "reduce-overhead") if word in told] == []
        assert all(len(line) <= width for line in shown if "compiler-lens show" not in line)
    data = json.loads(view_json(broken, "profile"))["profile"]
    assert (data["is_usable"], data["advice"]) == (False, ["measure_again"])
    assert json.loads(view_json(found, "profile"))["profile"]["doubts"] == []


def test_a_ceiling_that_was_measured_too_low_is_said() -> None:
    found = recording("gpt-default")
    last = found.profiles[-1]
    low = replace(last, ceilings=replace(last.ceilings, flops_per_second={"bf16": 1e14}))
    told = " ".join(" ".join(lines(replace(found, profiles=(low,)))).split())
    assert "that ceiling was measured on a busy machine" in told
    assert "possible saving" in told
    assert "busy machine" not in " ".join(lines(found))


def test_json_has_every_launch() -> None:
    found = recording("gpt-reduce-overhead")
    data = json.loads(view_json(found, "profile"))["profile"]
    rows = [row for kernel in data["kernels"] for row in kernel["launches"]]
    assert len(rows) == len(found.profiles[-1].launches)
    assert all(row["device_kernels"] == [row["kernel"]] for row in rows if row["kernel"].startswith("triton_"))
    assert any("nvjet" in name for row in rows for name in row["device_kernels"])
    assert {row["direction"] for row in rows} == {"forward", "backward"}
    assert sum(row["microseconds"] * row["runs"] for row in rows) == pytest.approx(data["kernel_microseconds"])
    assert data["ceilings"]["flops_per_second"]["bf16"] > 1e14
    assert "host" in data["advice"]


def test_a_selection_is_of_kernels() -> None:
    found = recording("gpt-default")
    nothing = Selection(ids=frozenset({CompileId(9, 9)}))
    assert not json.loads(view_json(found, "profile", nothing))["profile"]["kernels"]
    assert json.loads(view_json(found, "profile", EVERYTHING))["profile"]["kernels"]


def row_names(found: Recording, place: str) -> dict[str, int]:
    """The kernels of a part of a profile, with how many of their launches are in it."""
    data = json.loads(view_json(found, "profile", Selection(place=place)))["profile"]
    return {row["names"][0]: len(row["launches"]) for row in data["kernels"]}


@pytest.mark.parametrize("place", ["models.py:24", "net.qkv"])
def test_a_line_or_a_module_has_its_own_launches_in_the_table(place: str) -> None:
    found = recording("gpt-default")
    provenance = Provenance.of(found)
    asked = select_place(provenance, source_view(found), place)
    matches = [
        match
        for match in provenance.launches_of(asked.found.every)
        if not all(traced.is_view for traced in match.nodes)
    ]
    assert sum(row_names(found, place).values()) == len(matches) > 2
    assert row_names(found, place)["extern_kernels.mm"] == 2
    (heading,) = (line for line in select_lines(found, place) if " of kernels, of which " in line)
    took = Costs.of(found).microseconds(match.lineage for match in matches)
    assert f" {took:.1f} µs (" in heading


def select_lines(found: Recording, place: str) -> list[str]:
    return profile_report(found, width=120, color=False, path="REC", part=place).splitlines()


def test_a_kernel_is_one_row() -> None:
    found = recording("gpt-default")
    assert row_names(found, "gelu_view_8") == {"triton_poi_fused_gelu_view_8": 1}
    shown = select_lines(found, "gelu_view_8")
    assert "gelu_view_8" in shown
    assert not any(line.startswith("Next") or "reduce-overhead" in line for line in shown), "advice is on the whole"
    assert not any("Not of a kernel" in line for line in shown)


def test_launches_without_a_time_are_counted() -> None:
    found = recording("gpt-default")
    last = found.profiles[-1]
    kept = tuple(launch for launch in last.launches if (launch.kernel, launch.launch) != ("extern_kernels.addmm", 0))
    found = replace(found, profiles=(replace(last, launches=kept),))
    assert "; 1 launch without a time" in " ".join(select_lines(found, "addmm"))


def test_a_name_that_nothing_has_is_said() -> None:
    for typed, told in (("nobody", "no line, no module and no kernel 'nobody'"), ("fused", "part of several names")):
        with pytest.raises(UsageError, match=told):
            select_lines(recording("gpt-default"), typed)


def test_a_kernel_gains_nothing_from_times_that_are_not_usable() -> None:
    found = recording("gpt-default")
    broken = replace(found, profiles=(replace(found.profiles[-1], spread=119_000.0),))
    for view_of, whole in ((found, True), (broken, False)):
        page = page_for(view_of, width=100, color=False)
        told = view(view_of, "kernel", page, Selection(kernel="gelu_view_8"))
        assert ("more than this device needs" in told) is whole
        for name, part in (
            ("kernel", Selection(kernel="gelu_view_8")),
            ("kernels", Selection()),
            ("line", Selection(place="models.py:24")),
        ):
            shown = view(view_of, name, page, part)
            assert ("times of this profile are not usable" in shown) is not whole
            assert name == "line" or json.loads(view_json(view_of, name, part))["times_are_usable"] is whole
    told = view(broken, "kernel", page, Selection(kernel="gelu_view_8"))
    assert re.search(r"\n  takes [\d.]+ µs a call, in 1 run\n", told)


def test_without_a_profile_it_says_how_to_make_one() -> None:
    found = replace(recording("gpt-default"), profiles=())
    assert "compiler-lens profile FILE:FACTORY" in "\n".join(lines(found))
    assert json.loads(view_json(found, "profile"))["profile"] is None


def test_every_remark_has_words_in_the_table_and_in_json() -> None:
    found = recording("gpt-default")
    told = tuple(ProfileNote(remark, "some_name", 2, 3) for remark in Remark)
    profile = replace(found.profiles[-1], notes=told)
    shown = " ".join(" ".join(lines(replace(found, profiles=(profile,)), 200)).split())
    data = json.loads(view_json(replace(found, profiles=(profile,)), "profile"))["profile"]["notes"]
    assert [note["remark"] for note in data] == [remark.value for remark in Remark]
    assert all(note["words"] in shown and "{" not in note["words"] for note in data)
    assert "some_name ran 2 times in a call of its graph, whose code has 3 launches" in shown
    once = note_words(ProfileNote(Remark.STILL_COMPILING, number=1))
    assert once == "it went on compiling while calls were timed (1 time): these are not steady calls"


@pytest.mark.parametrize(("count", "more"), [(4, ""), (5, ", 1 more name"), (7, ", 3 more names")])
def test_of_what_belongs_to_no_kernel_the_four_longest_are_named(count: int, more: str) -> None:
    found = recording("gpt-default")
    others = tuple(OtherTime("abcdefg"[i], 5.0 - i, 2.0**i) for i in range(count))
    shown = lines(replace(found, profiles=(replace(found.profiles[-1], others=others),)), 200)
    (line,) = [line for line in shown if "Not of a kernel" in line]
    assert line.replace("\N{MULTIPLICATION SIGN}", "x").endswith(
        f" µs a call: a 5.0 µs, b 4.0 µs x2, c 3.0 µs x4, d 2.0 µs x8{more}"
    )


def test_names_from_outside_do_nothing_to_a_terminal() -> None:
    found = recording("gpt-default")
    bad = "x\x1b]0;title\x07\x1b[2J\u202ey"
    last = found.profiles[-1]
    profile = replace(
        last,
        others=(OtherTime(bad, 5.0, 1.0),),
        notes=(ProfileNote(Remark.WORDS, bad), ProfileNote(Remark.OTHER_COUNT, bad, 2, 1)),
        ceilings=replace(last.ceilings, device=bad),
    )
    kernels = tuple(replace(k, aten=(f"mine.{bad}",)) for k in found.kernels)
    shown = "\n".join(lines(replace(found, profiles=(profile,), kernels=kernels)))
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_a_profile_of_other_kernels_is_no_error() -> None:
    found = replace(recording("gpt-default"), kernels=())
    assert lines(found)[0].startswith("Profile  ")


def test_views_are_not_what_a_kernel_is_called_by() -> None:
    kernel = replace(recording("gpt-default").kernels[0], aten=("aten._to_copy", "aten.view", "aten.gelu"))
    assert kernel_label(kernel) == "gelu, _to_copy"
    assert kernel_label(replace(kernel, aten=("aten.view",))) == "view"
    assert kernel_label(replace(kernel, aten=())) == kernel.name
