"""The one screen: as written in gold files, harmless, bounded, quick."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.compare import diff
from compiler_lens.recording.model import (
    THE_END,
    BreakCause,
    CaptureProblem,
    CompileId,
    GraphStage,
    Outcome,
    Profile,
    ProfileNote,
    Recording,
    Remark,
)
from compiler_lens.render.console import html_fragment, report
from compiler_lens.render.page.page import report_page
from compiler_lens.views.diff.summary import gap_words

GOLD = Path(__file__).parent.parent / "gold"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
EVERY = ("clean", "broken", "nothing_compiled", "empty", "many", "hostile")


def shown(name, **options):
    return report(getattr(samples, name)(), **({"width": 80, "color": False} | options))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["clean", "broken", "nothing_compiled", "empty", "many"])
def test_the_report_is_as_in_its_gold_file(name, width, tmp_path):
    text = shown(name, width=width)
    gold = GOLD / f"{name}-{width}.txt"
    if not gold.exists() or gold.read_text(encoding="utf-8") != text:
        new = tmp_path / gold.name
        new.write_text(text, encoding="utf-8")
        pytest.fail(f"the report differs from {gold}; if it is better now: cp {new} {gold}\n{text}")


def test_a_report_draws_no_random_number_of_the_programs():
    code = """
import random
before = random.getstate()
from compiler_lens.recording.model import Recording
from compiler_lens.render.console import report
report(Recording(), width=80, color=True)
assert random.getstate() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", EVERY)
def test_no_line_is_wider_than_the_page_but_for_commands_to_type(name, width):
    for line in shown(name, width=width).splitlines():
        assert len(line) <= width or "compiler-lens " in line


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", EVERY)
def test_the_report_is_one_screen(name, width):
    assert len(shown(name, width=width).splitlines()) <= 60


def test_the_work_for_two_thousand_compilations_grows_with_them(calls_of):
    few, many = samples.many(500), samples.many(2000)
    calls_of(lambda: report(few, width=80, color=True))  # rich is loaded

    assert calls_of(lambda: report(many, width=80, color=True)) < 1.2 * 4 * calls_of(
        lambda: report(few, width=80, color=True)
    )


@pytest.mark.parametrize("name", EVERY)
def test_colours_change_nothing_but_colours(name):
    coloured = shown(name, color=True)
    assert [line.rstrip() for line in ANSI.sub("", coloured).splitlines()] == shown(name).splitlines()
    assert ANSI.search(coloured)


@pytest.mark.parametrize("color", [True, False])
def test_nothing_in_a_recording_can_act_on_the_terminal(color):
    text = ANSI.sub("", shown("hostile", color=color))
    assert text.isprintable() or all(part.isprintable() for part in text.split("\n"))
    assert "[bold]x[/bold]" in text, "markup is shown as it is"


def test_without_colour_there_is_no_escape_at_all():
    assert "\x1b" not in shown("broken")


def test_the_functions_are_there_again_the_second_time():
    from compiler_lens.render import console

    for _ in range(2):
        assert console.report(samples.clean(), width=80, color=False)
        assert console.html_fragment(samples.clean())


def test_the_action_comes_last():
    for name in EVERY:
        assert "compiler-lens show REC" in shown(name).splitlines()[-1]


def test_commands_name_the_recording_so_that_a_shell_can_read_it():
    assert "compiler-lens show 'my run.clens' line" in report(
        samples.clean(), width=80, color=False, path="my run.clens"
    )


def test_where_some_frames_run_eagerly_the_headline_says_so():
    assert "3 of 6 functions compiled, 2 of them cut by graph breaks; 1 failed" in shown("broken")
    assert "Nothing was compiled; 1 runs eagerly: LSTM (train.py:34)." in shown("nothing_compiled")
    assert "Nothing was compiled: no frame entered the compiler." in shown("empty")
    assert "Nothing to fix" not in shown("nothing_compiled")


def test_a_function_that_was_compiled_until_the_limit_is_not_nothing():
    made = samples.compilation(0, function="forward", line=10)
    refused = replace(made, compile_id=CompileId(0, 2), outcome=Outcome.RECOMPILE_LIMIT)
    ids = (CompileId(0, 0), CompileId(0, 1))
    graphs = tuple(samples.graph(i, GraphStage.DYNAMO, 4) for i in ids)
    run = Recording(compilations=(*(replace(made, compile_id=i) for i in ids), refused), graphs=graphs)
    text = " ".join(report(run, width=80, color=False).split())
    assert "0 of 1 function stays compiled; 1 was compiled twice, then hit the recompile limit, and runs" in text
    assert "Nothing was compiled" not in text


def test_breaks_are_counted_as_torch_raised_them():
    assert "3 graph breaks at 2 lines" in shown("broken")
    assert "3 breaks at 2 lines" in shown("broken")


def test_a_step_is_the_line_why_it_breaks_and_what_to_change():
    step = shown("broken", width=120).partition("Next\n")[2]
    assert "2. model.py:28  if x.sum() > i:\n     The branch depends on a tensor's value" in step
    assert "Compute both sides and choose with `torch.where`" in step
    assert "fundamental" not in step


def test_where_we_have_no_advice_torchs_specific_hints_are_given():
    cause = BreakCause("Never heard of", explanation="It broke.", hints=(samples.FUNDAMENTAL, "Do this.", "Or that."))
    recording = Recording(graph_breaks=(samples.graph_break(0, cause, 7, "f(x)"),))
    step = report(recording, width=80, color=False).partition("Next\n")[2]
    assert (
        "1. model.py:7  f(x)\n     It broke. 1 function is cut.\n     Do this. Or that. torch's hint; not tried.\n"
        in step
    )


def test_a_recording_without_an_end_says_so_before_its_verdict():
    found = replace(samples.clean(), problems=(CaptureProblem(THE_END, "it is still being written"),))
    told = report(found, width=120, color=False).splitlines()
    assert told[1] == "This recording is not finished: it is still being written"
    assert "compiled" in told[2]
    page = report_page(Recording(problems=found.problems))
    assert page.index("This recording is not finished") < page.index('class="verdict')
    (change,) = gap_words(diff(found, samples.clean()))
    assert change == "BEFORE is not finished: it is still being written"


def test_a_diff_says_which_side_measured_a_busy_machine():
    waited = ProfileNote(Remark.KEPT_WAITING, number=0.25)
    timed, held_up = (Recording(profiles=(Profile(5, 9.0, 0.1, 8.0, (), notes=notes),)) for notes in ((), (waited,)))
    assert gap_words(diff(timed, held_up)) == ["AFTER: times of this profile are not usable: see `profile`"]
    assert gap_words(diff(timed, timed)) == []


def test_gaps_in_the_recording_are_never_silent():
    assert "could not read graph_dump: unknown shape: list" in shown("broken")
    assert "fusion refusals" in shown("broken")


def test_no_colour_and_80_columns_without_a_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert report(samples.broken()) == shown("broken")


def test_a_terminal_gets_colours_unless_asked_for_none(monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" in report(samples.clean())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in report(samples.clean())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in report(samples.clean())


def test_a_notebook_gets_the_same_report_escaped():
    page = html_fragment(samples.hostile())
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert re.search(r"</?(script|b|bold)\b", page) is None
    assert "[bold]x[/bold]red</script><b>&" in text
    assert page.startswith("<pre")


def test_a_recording_without_anything_is_shown_as_what_it_is():
    assert "Nothing was compiled" in report(Recording(), width=80, color=False)
