"""What a recording keeps of the user's source, and what it calls a function."""

from __future__ import annotations

import functools
import linecache
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens, explain, load
from compiler_lens.recording.model import Compilation, Recording
from compiler_lens.recording.source_text import Sources, sources

X = torch.ones(3)


def recorded(model: Callable[..., Any], *arguments: Any, path: Path | None = None) -> Recording:
    """Two calls of a model under an open lens."""
    with Lens(path, strict=True, progress=False) as lens, torch.no_grad():
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):
            compiled(*arguments)
    return lens.recording


def loud(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator such as libraries put round forward."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Decorated(nn.Module):
    """Its forward is behind a decorator."""

    @loud
    def forward(self, ids: Tensor, scale: int = 2) -> Tensor:
        return ids * scale


class Breaking(nn.Module):
    """Its forward goes on in a resume function."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + 1
        print("cut")
        return x * 2


def first(recording: Recording) -> Compilation:
    """The compilation of the frame that was called."""
    return recording.compilations[0]


def test_the_text_of_the_users_file_is_kept_once_and_survives_the_file(tmp_path: Path) -> None:
    recording = recorded(Breaking(), X, path=tmp_path / "r.clens")
    texts = [s.text for s in recording.sources if s.file == __file__]

    assert texts == [Path(__file__).read_text()]
    assert load(tmp_path / "r.clens").sources == recording.sources


def test_no_text_of_torch_or_of_the_standard_library_is_kept() -> None:
    import copy

    net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    recording = recorded(lambda x: copy.deepcopy(net)(x) + 1, X)

    assert recording.graph_breaks
    own_of_torch = str(Path(torch.__file__).parent)
    assert not [s.file for s in recording.sources if s.file.endswith("copy.py") or s.file.startswith(own_of_torch)]


def test_a_notebook_cell_has_its_text() -> None:
    file, text = "<ipython-input-7-0a1b2c>", "def cell(x):\n    print('in a cell')\n    return x + 1\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)

    recording = recorded(scope["cell"], X)
    del linecache.cache[file]

    assert sources(recording).line(file, 2) == "    print('in a cell')"


def test_code_without_a_file_is_recorded_without_text() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x):\n    print('nowhere')\n    return x + 1", scope)

    recording = recorded(scope["made"], X)

    assert not sources(recording).has("<string>")
    assert first(recording).definition is not None
    assert recording.problems == ()


@pytest.mark.parametrize(
    ("model", "name", "parameters"),
    [
        pytest.param(Breaking(), "Breaking.forward", ("x",), id="module"),
        pytest.param(Decorated(), "Decorated.forward", ("ids", "scale"), id="decorated"),
        pytest.param(Breaking().forward, "Breaking.forward", ("x",), id="method"),
    ],
)
def test_a_function_is_called_as_its_author_calls_it(model: Any, name: str, parameters: tuple[str, ...]) -> None:
    frame = first(recorded(model, X))
    at = frame.definition

    assert at is not None
    assert (at.file, at.function) == (__file__, name)
    assert "def forward" in "".join(linecache.getlines(__file__)[at.line - 1 : at.line + 1])
    assert frame.parameters == parameters


def test_a_module_that_torch_wraps_itself_has_its_own_forward() -> None:
    model = torch.compile(nn.Sequential(Breaking()), backend="eager")
    with Lens(strict=True, progress=False) as lens, torch.no_grad():
        model(X)
    at = first(lens.recording).definition

    assert at is not None
    assert at.function == "Sequential.forward"


def test_a_forward_put_on_an_instance() -> None:
    model = nn.Linear(3, 3)
    model.forward = lambda hidden: hidden + 1  # type: ignore[method-assign,assignment]

    assert first(recorded(model, X)).parameters == ("hidden",)


class Poisoned:
    """An object that must not be asked anything while somebody compiles."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("asked for its class")


def test_objects_of_the_users_are_asked_nothing() -> None:
    class Odd:
        forward = Poisoned()

    def forward(odd: Any, x: Tensor) -> Tensor:
        return x + 1

    def takes(poisoned: Any, x: Tensor) -> Tensor:
        return x + 1

    assert first(recorded(forward, Odd(), X)).function == "forward"
    torch._dynamo.reset()
    with Lens(strict=True, progress=False) as lens:
        torch.compile(takes, backend="eager")(Poisoned, X)
    assert first(lens.recording).function == "takes"


def test_an_expression_deeper_than_pythons_stack_has_no_definitions_and_no_error() -> None:
    text = "def f(x):\n    return " + " + ".join(['"a"'] * 3000) + "\n"

    assert Sources({"f.py": text}).function_at("f.py", 2) in {None, *Sources({"f.py": text}).definitions("f.py")}


def breaking_with(message: str) -> Recording:
    """A graph break whose message is somebody else's."""

    def function(x: Tensor) -> Tensor:
        x = x + 1
        torch._dynamo.graph_break(msg=message)
        return x * 2

    return recorded(function, X)


@pytest.mark.parametrize("named", ["id_rsa", "pipe.py", "device.py", "nothing.py", "no\0name.py"])
def test_a_message_that_looks_like_a_stack_brings_no_file_in(tmp_path: Path, named: str) -> None:
    (tmp_path / "id_rsa").write_text("a secret\n")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    recording = breaking_with(f'File "{tmp_path / named}", line 1')
    files = {source.file for source in recording.sources}
    assert __file__ in files
    assert str(tmp_path / named) not in files
    assert recording.problems == ()


def test_what_is_no_file_but_has_text_is_kept() -> None:
    """As of a cell in a notebook, or of a script without a suffix: Python has read it."""
    cell = "def scaled(x):\n    return x * 3\n"
    for name in ("<ipython-input-3-abc>", "/home/me/bin/train"):
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        found: dict[str, Callable[[Tensor], Tensor]] = {}
        exec(compile(cell, name, "exec"), found)
        recording = recorded(found["scaled"], X)
        assert sources(recording).texts[name] == cell
        del linecache.cache[name]


class Policy(nn.Module):
    """It computes several actions at once, and gives one at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.queue = nn.Linear(3, 3), deque[Tensor]()

    @torch.no_grad()
    def act(self, x: Tensor) -> Tensor:
        if not self.queue:
            self.queue.extend(self.layer(x))
        return self.queue.popleft()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_a_decorated_method_of_a_module_is_itself_and_not_the_modules_forward() -> None:
    policy = Policy()
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        act = torch.compile(policy.act, backend="eager")
        for _ in range(4):
            act(torch.ones(3, 3))
        torch.compile(policy.forward, backend="eager")(torch.ones(3, 3))
    defined = [one.definition.function if one.definition else "" for one in lens.recording.compilations]
    assert set(defined[:-1]) == {"Policy.act"}
    assert defined[-1] == "Policy.forward"
    (report,) = explain(lens.recording).recompiles
    assert [cause.subject for cause in report.causes] == ["len(self.queue)"]
