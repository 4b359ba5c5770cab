"""Stacks, structured and printed, and the places in guards' comments."""

from __future__ import annotations

import pytest

from compiler_lens.decode.stacks import read_comment, read_stack, read_traceback, split_comment
from compiler_lens.recording.model import SourceLine

ONE = '  File "/a b/x.py", line 3, in f\n    return g(\n'
CALL = ("        x,", '        "b",  # why', "    ) + 1")


def test_a_structured_stack_takes_names_from_the_table() -> None:
    frames = [
        {"line": 42, "name": "<module>", "filename": 1, "loc": "main() "},
        {"line": 7, "name": "f", "filename": 2, "loc": None},
        {"line": 9, "name": "g", "filename": 9},
        {"line": 1, "name": "h", "filename": "z.py"},
    ]
    assert read_stack(frames, {1: "/x.py", 2: "/y.py"}) == (
        SourceLine("/x.py", 42, "<module>", "main()"),
        SourceLine("/y.py", 7, "f"),
        SourceLine("<unknown>", 9, "g"),
        SourceLine("z.py", 1, "h"),
    )
    assert read_stack(None, {}) == ()


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        ((), "return g("),  # Python 3.10
        (("           ^^",), "return g("),  # 3.11 and 3.12
        (
            ("           ~^", CALL[0], "        ^^", CALL[1], "        ^^^", CALL[2], "    ^"),
            'return g(x, "b",  # why) + 1',
        ),
        (
            ("           ~^", CALL[0], "        ^^", "    ...<2 lines>...", CALL[2], "    ^"),
            "return g(x, ...<2 lines>...) + 1",
        ),
    ],
)
def test_printed_code_is_read_without_its_marks(shown: tuple[str, ...], code: str) -> None:
    (frame,) = read_traceback(ONE + "".join(f"{line}\n" for line in shown))
    assert frame == SourceLine("/a b/x.py", 3, "f", code)


def test_frames_that_python_left_out_are_put_back() -> None:
    text = (
        '  File "x.py", line 1, in f\n    f()\n  File "x.py", line 2, in g\n  [Previous line repeated 2 more times]\n'
    )
    assert [frame.line for frame in read_traceback(text)] == [1, 2, 2, 2]
    assert read_traceback(text)[1].code == ""


def test_what_is_no_frame_is_left_out() -> None:
    text = '===== most recent attempt =====\n\n   File "x.py", line 1, in f\n    a\n\nNOTE: something\n'
    assert read_traceback(text) == (SourceLine("x.py", 1, "f", "a"),)


@pytest.mark.parametrize(
    ("text", "expression", "comment"),
    [
        ("x == 3" + " " * 54 + "  # y = x  # a.py:1 in f", "x == 3", "y = x  # a.py:1 in f"),
        ("x == 'a  # b'  # y = x  # a.py:1 in f", "x == 'a  # b'", "y = x  # a.py:1 in f"),
        ('x == "it\'s"  # y  # a.py:1 in f', 'x == "it\'s"', "y  # a.py:1 in f"),
        ("x of the user's  # y  # a.py:1 in f", "x of the user's", "y  # a.py:1 in f"),
        ("len(x) == 1   ", "len(x) == 1", ""),
        ("___check_type_id(x, 1) (HINT: type (x))", "___check_type_id(x, 1)", "(HINT: type (x))"),
    ],
)
def test_a_guard_is_split_from_its_comment(text: str, expression: str, comment: str) -> None:
    assert split_comment(text) == (expression, comment)


@pytest.mark.parametrize(
    ("comment", "line", "rest"),
    [
        ("y = x[1:2]  # app/a.py:12 in f", SourceLine("app/a.py", 12, "f", "y = x[1:2]"), ""),
        ("app/a.py:12 in <lambda> (HINT: h)", SourceLine("app/a.py", 12, "<lambda>"), "(HINT: h)"),
        ("x  # n  # my app/a.py:2 in f (t.py:1 in g)", SourceLine("my app/a.py", 2, "f", "x  # n"), "(t.py:1 in g)"),
        ("implicit guard for floats", None, "implicit guard for floats"),
        ("(_inductor/cpp.py:22 in need)", None, "(_inductor/cpp.py:22 in need)"),
    ],
)
def test_a_comment_names_a_place(comment: str, line: SourceLine | None, rest: str) -> None:
    assert read_comment(comment) == (line, rest)


def test_a_line_that_says_how_often_is_not_believed_beyond_what_python_does():
    text = '  File "x.py", line 1, in f\n    f()\n  [Previous line repeated 300000000 more times]\n'
    assert len(read_traceback(text)) == len(text), "no more than it weighs"
    assert len(read_traceback(text * 20)) == 1019
