"""Parsing text that others wrote: Python says nothing of it, and the process stays as it was."""

from __future__ import annotations

import ast
import threading
import warnings
from pathlib import Path

import pytest

import compiler_lens
from compiler_lens.decode.output_code import read_output_code
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, OutputCode
from compiler_lens.recording.source_text import Sources, expression, syntax, syntax_if_known

ESCAPES = 'x = "\\\x1b \\d"\ny = 1or 2\n'  # of both Python would say that it is no good


@pytest.fixture
def strict() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_what_python_would_warn_of_is_read(strict: None) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(ESCAPES)
    assert len(syntax(ESCAPES).body) == 2
    assert ast.literal_eval(expression(r"'\d'")) == r"\d"
    assert Sources({"a.py": ESCAPES}).literals("a.py") == ("\\\x1b \\d",)
    (code,) = read_output_code(Event("inductor_output_code", 0.0, text=ESCAPES), CompileId(0, 0), {})
    assert isinstance(code, OutputCode)


def test_the_filters_of_the_process_stay_and_its_warnings_are_given_once() -> None:
    code = compile("import warnings\nwarnings.warn('once', stacklevel=1)", "users.py", "exec")
    users: dict[str, object] = {"__name__": "users"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        before = list(warnings.filters)
        for _ in range(2):
            exec(code, users)
            assert syntax_if_known(ESCAPES) is not None
            assert syntax_if_known("1 +") is None
            assert warnings.filters == before
    assert [str(one.message) for one in seen] == ["once"]


def test_threads_that_parse_at_once_leave_no_filter() -> None:
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [syntax(ESCAPES) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_one_function_parses() -> None:
    package = Path(compiler_lens.__file__).parent
    callers = [file.name for file in package.rglob("*.py") if "ast.parse(" in file.read_text()]
    assert callers == ["source_text.py"]
