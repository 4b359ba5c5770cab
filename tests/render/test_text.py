"""Text of others is harmless, and numbers have units."""

import pytest

from compiler_lens.views import text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain [bold]words[/bold]", "plain [bold]words[/bold]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ends and hides nothing", "]0;never ends and hides nothing"),
        ("\x9b2Jgone", "2Jgone"),
        ("a\x00b\x08c\x7f", "abc"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("\u2066x\u2069\ufeff\u200b", "x"),
        ("half \ud800", "half \ufffd"),
        ("a\tb", "a   b"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("Größe 日本 😀", "Größe 日本 😀"),
    ],
)
def test_nothing_in_a_text_can_act_on_a_terminal(given, shown):
    assert text.clean(given) == shown


def test_one_line_is_one_line_and_bounded():
    assert text.one_line("a\n  b\x1b[2K\tc") == "a b c"
    assert text.one_line("x" * 500, 10) == "x" * 9 + "…"


def test_of_a_word_that_is_too_long_the_beginning_is_shown():
    name = "x" * 20_000
    assert text.readable(f"{name} and {name}.f") == f"{'x' * 400}… and {'x' * 400}…"
    assert text.readable("y" * 400 + " z" * 400) == "y" * 400 + " z" * 400
    assert text.one_line(name, 4_000) == "x" * 400 + "…"


def test_cleaning_ends_for_unfinished_escapes():
    """A quadratic pattern would take hours here."""
    assert "\x1b" not in text.clean("\x1b]" * 500_000)
    assert "\x1b" not in text.clean("\x1b[" + "1;" * 500_000)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.0001, "<1 ms"),
        (0.0341, "34 ms"),
        (0.0996, "0.10 s"),
        (2.314, "2.31 s"),
        (17.44, "17.4 s"),
        (119.0, "119.0 s"),
        (185.2, "3 min 05 s"),
        (119.96, "2 min 00 s"),
    ],
)
def test_seconds_have_three_figures_and_a_unit(value, shown):
    assert text.seconds(value) == shown


def test_other_numbers_have_units_too():
    assert text.milliseconds(0.0082) == "8.2 µs"
    assert text.milliseconds(0.124) == "0.124 ms"
    assert text.nbytes(12) == "12 B"
    assert text.nbytes(12 * 2**20) == "12.0 MiB"
    assert text.plural(1, "graph") == "1 graph"
    assert text.plural(1234, "launch", "launches") == "1,234 launches"
    assert text.percent(1, 300) == "<1 %"
    assert text.percent(0, 0) == "0 %"


def test_files_are_as_short_as_they_are_clear():
    short = text.short_paths(["/a/b/model.py", "/a/c/model.py", "/a/train.py", "model.py"])
    assert short == {
        "/a/b/model.py": "b/model.py",
        "/a/c/model.py": "c/model.py",
        "/a/train.py": "train.py",
        "model.py": "model.py",
    }
