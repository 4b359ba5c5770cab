"""Changes to the text of files, and their patches."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from compiler_lens.facts.measured.edits import Lines, Setting, edited, patch

SCRIPT = '''\
"""A script."""
from __future__ import annotations

import torch as th


def one(x):
    if x.sum() > 0:
        x = x + 1
    return x


class Two:
    def call(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
'''
BRANCH = ("if x.sum() > 0:", "    x = x + 1")


def of_script(text: str, edit: Lines | Setting) -> str | None:
    made = edited(edit, {"train.py": text}, "train.py")
    return made["train.py"] if made else None


def test_lines_go_where_they_are_meant_and_keep_their_indentation() -> None:
    new = of_script(SCRIPT, Lines("train.py", 15, BRANCH, ("x = torch.where(x.sum() > 0, x + 1, x)",)))
    assert new is not None
    assert new.splitlines()[14] == "        x = torch.where(x.sum() > 0, x + 1, x)"
    assert new.splitlines()[6:9] == SCRIPT.splitlines()[6:9]  # the same lines elsewhere stay


def test_a_file_with_ends_of_lines_of_windows_keeps_them() -> None:
    new = of_script(SCRIPT.replace("\n", "\r\n"), Lines("train.py", 8, BRANCH, ("x = x + 2", "", "y = x")))
    assert new is not None
    assert new.count("\n") == new.count("\r\n")
    assert "    x = x + 2\r\n\r\n    y = x\r\n    return x\r\n" in new


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (SCRIPT, ("if y:",), ("pass",)),  # not there any more
        (SCRIPT, ("return x",), ("return x",)),  # nothing changes
        (SCRIPT, ("return x",), ("return (",)),  # no Python
        (SCRIPT.replace("\n", "\r"), ("return x",), ("return y",)),
    ],
)
def test_what_cannot_be_changed_is_said_to_be_so(text: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert of_script(text, Lines("train.py", 9, before, after)) is None


def test_a_setting_is_made_after_torch_is_imported_by_the_name_that_it_has_there() -> None:
    new = of_script(SCRIPT, Setting("torch._dynamo.config.reorderable_logging_functions = {warnings.warn}"))
    assert new is not None
    assert new.splitlines()[3:6] == [
        "import torch as th",
        "import warnings",
        "th._dynamo.config.reorderable_logging_functions = {warnings.warn}",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('"""Says."""\nfrom __future__ import annotations\nfrom model import Net\n', 2),
        ("#!/usr/bin/env python\n# a comment\n\n@decorator\ndef f(): ...\n", 3),
        ("from model import Net\n", 0),
    ],
)
def test_where_torch_is_not_imported_it_is_before_a_setting(text: str, number: int) -> None:
    code = "torch._dynamo.config.capture_scalar_outputs = True"
    new = of_script(text, Setting(code))
    assert new is not None
    lines = text.splitlines()
    blank = [] if "import" in lines[number] else [""]
    assert new.splitlines() == [*lines[:number], "import torch", code, *blank, *lines[number:]]


IN_FUNCTIONS = """\
import os

def build():
    import torch as th
    return th.compile(Net())

def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch; from torch import nn
    build()
"""
OPTIONAL = """\
try:
    import torch; from torch import nn
except ImportError:
    torch = None
"""
OF_TORCH = """\
import os
os.environ["OMP_NUM_THREADS"] = "1"
from torch import nn
"""
FOR_TYPES = """\
if TYPE_CHECKING:
    import torch
def main():
    from torch import nn
"""
CODE = "torch._dynamo.config.capture_scalar_outputs = True"


@pytest.mark.parametrize(
    ("text", "added"),
    [
        (IN_FUNCTIONS, {4: "    th._dynamo.config.capture_scalar_outputs = True", 10: f"    {CODE}"}),
        (OPTIONAL, {2: f"    {CODE}"}),
        ("import os\nos.nice(0)\nimport torch.nn\n", {3: CODE}),
        (OF_TORCH, {3: "import torch", 4: CODE}),
        (FOR_TYPES, {4: "    import torch", 5: f"    {CODE}"}),
    ],
)
def test_a_setting_stands_below_the_import_of_torch_that_the_script_has(text: str, added: dict[int, str]) -> None:
    new = of_script(text, Setting(CODE))
    assert new is not None
    lines = text.splitlines()
    for number, line in added.items():
        lines.insert(number, line)
    assert new.splitlines() == lines


@pytest.mark.parametrize(
    "text",
    [
        "try: import torch\nexcept ImportError: torch = None\n",
        'import os\nos.environ["OMP_NUM_THREADS"] = "1"\nfrom model import Net\n',
    ],
)
def test_a_setting_is_not_written_where_torch_would_be_imported_too_early(text: str) -> None:
    assert of_script(text, Setting(CODE)) is None


def test_lines_that_need_torch_leave_it_imported_where_it_is() -> None:
    edit = Lines("train.py", 4, ("x = 1",), ("x = 2",), imports="torch")
    assert of_script(f"{IN_FUNCTIONS}x = 1\n", edit) is None
    assert of_script(f"{OPTIONAL}x = 1\n", edit) == f"{OPTIONAL}x = 2\n"
    set_before = 'os.environ["OMP_NUM_THREADS"] = "1"\nfrom model import Net\n'
    assert of_script(f"{set_before}x = 1\n", edit) is None
    new = of_script(f"{OF_TORCH}x = 1\n", edit)
    assert new == f"{OF_TORCH}import torch\nx = 2\n"


@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "end = 1"])
def test_patch_makes_the_change_and_undoes_it(tmp_path: Path, ending: str, last: str) -> None:
    (tmp_path / "my code").mkdir()
    names = [str(tmp_path / "train.py"), str(tmp_path / "my code" / "model.py")]
    before = {name: (SCRIPT + last).replace("\n", ending) for name in names}
    edits = [
        Lines(names[0], 8, BRANCH, ("x = x + 2",)),
        Setting("torch._dynamo.config.allow_rnn = True"),
        Lines(names[1], 15, BRANCH, ("x = x + 2",)),
        *([Lines(names[1], 18, (last,), ("end = 2",))] if last else []),
    ]
    after = before
    for edit in edits:
        made = edited(edit, after, names[0])
        assert made is not None
        after = dict(made)
    for name in names:
        Path(name).write_bytes(before[name].encode())
    text = patch(before, after, str(tmp_path))
    for flags, wanted in (([], after), (["-R"], before)):
        subprocess.run(
            ["patch", "-p0", *flags], cwd=tmp_path, input=text.encode(), check=True, stdout=subprocess.DEVNULL
        )
        assert {name: Path(name).read_bytes().decode() for name in names} == wanted


def test_a_setting_that_is_made_already_is_no_change() -> None:
    """Two lines may ask for one setting."""
    settings = [Setting(f"torch._dynamo.config.capture_{name} = True") for name in ("scalar_outputs", "dynamic_output")]
    text = SCRIPT
    for setting in settings:
        text = of_script(text, setting) or ""
    assert [of_script(text, setting) for setting in settings] == [None, None]
