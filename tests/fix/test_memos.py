"""What a dict keeps of each key is computed in each compiled call, where nothing else reads the dict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compiler_lens.cli import main
from compiler_lens.facts.measured.memos import unmemoized
from compiler_lens.measure.fix.plan import ALL
from compiler_lens.measure.fix.results import Kept, without
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

TABLES = """
import torch

TABLES = {}


def table(start, n, dim):
    if (start, n) not in TABLES:
        steps = torch.arange(start, start + n).float()
        TABLES[(start, n)] = torch.outer(steps, torch.ones(dim)).cos()
    return TABLES[(start, n)]


@torch.compile
def turned(x, start):
    return x * table(start, x.shape[0], x.shape[1])
"""
RUN = """
for start in range(10):
    turned(torch.ones(4, 3) * start, start)
"""
KEPT = "TABLES[(start, n)] = torch.outer(steps, torch.ones(dim)).cos()"


def offered(text: str, code: str = KEPT, **beside: str) -> str | None:
    line = [one.strip() for one in text.split("\n")].index(code) + 1
    found = unmemoized(SourceLine("/app/model.py", line, "table", code), Sources({"/app/model.py": text, **beside}))
    return found and "\n".join(found[0].after)


def test_compiled_code_computes_what_others_keep() -> None:
    assert offered(TABLES) == (
        "if torch.compiler.is_compiling():\n"
        "    steps = torch.arange(start, start + n).float()\n"
        "    return torch.outer(steps, torch.ones(dim)).cos()\n"
        "if (start, n) not in TABLES:\n"
        "    steps = torch.arange(start, start + n).float()\n"
        "    TABLES[(start, n)] = torch.outer(steps, torch.ones(dim)).cos()"
    )
    of_self = TABLES.replace("TABLES[", "self.kept[").replace("in TABLES", "in self.kept").replace("(start, n, d", "(self, start, n, d")  # fmt: skip
    assert offered(of_self, KEPT.replace("TABLES", "self.kept")) is not None


@pytest.mark.parametrize(
    ("was", "then"),
    [
        ("TABLES = {}", "TABLES = {}\nsize = lambda: len(TABLES)"),  # somebody else reads it
        ("    return TABLES[(start, n)]", "    print(n)\n    return TABLES[(start, n)]"),
        ("    return TABLES[(start, n)]", "    return TABLES[(n, start)]"),
        ("steps = torch.arange(start, start + n).float()", "steps = torch.randn(n)"),  # another one each time
        ("steps = torch.arange(start, start + n).float()", "steps = read(start, n)"),
        (
            "steps = torch.arange(start, start + n).float()",
            "steps = torch.arange(n) * SCALE",
        ),  # not of what it is given
        (
            "        steps = torch.arange(start, start + n).float()",
            "        log.append(n)\n        steps = torch.ones(n)",
        ),
        ("not in TABLES", "in TABLES"),
    ],
)
def test_what_is_no_such_thing_is_left(was: str, then: str) -> None:
    assert was in TABLES
    assert offered(TABLES.replace(was, then)) is None


@pytest.mark.parametrize(
    "line",
    [
        "model.TABLES[3, 4] = torch.ones(4)",
        "from model import TABLES as known\nknown.update(loaded)",
        "from .model import *\nTABLES.setdefault(key, value)",
        "setattr(model, 'TABLES', {})",
        "model.table(0, 4, 3).mul_(2)",
        "one = table(0, 4, 3)\none[0] = 2",
        "table(0, 4, 3).data.clamp_(0, 1)",
        "torch.add(x, 1, out=table(0, 4, 3))",
    ],
)
def test_what_another_file_changes_is_still_read(line: str) -> None:
    assert offered(TABLES, tune=f"import torch\nimport model\n\n{line}\n") is None


def test_what_another_file_calls_alike_is_something_else() -> None:
    assert offered(TABLES, other="TABLES = {}\nTABLES[3] = 4\nprint(model.table(0, 4, 3).mul(2))\n") is not None


def test_a_result_that_the_file_itself_changes_is_kept() -> None:
    assert offered(TABLES + "\n\ndef tune(n):\n    table(0, n, 3).mul_(2)\n") is None


def test_a_result_of_a_module_that_is_called_is_kept_where_it_is_changed() -> None:
    head, body = TABLES.split("def table(")
    method = ("def forward(self, " + body.partition("@torch")[0]).replace("TABLES", "self.kept").replace("\n", "\n    ")
    text = f"{head}class Table(torch.nn.Module):\n    {method}"
    code = KEPT.replace("TABLES", "self.kept")
    assert offered(text, code) is not None
    used = "class Net:\n    def __init__(self):\n        self.rope = Table()\n\n    def forward(self, n):\n        one = self.rope(0, n, 3)\n"
    assert offered(text, code, net=f"{used}        return one.mul(2)\n") is not None
    assert offered(text, code, net=f"{used}        return one.mul_(2)\n") is None


def test_what_a_dict_then_lacks_is_no_difference_and_all_else_is_compared() -> None:
    every = [
        Kept("object", 0, 0, [1], "", name) for name in ("len(TABLES)", "TABLES[(0, 4)]", "net.seen", "len(net.TABLE)")
    ]
    listed = Kept("object", 0, 0, "len(TABLES)\nnet.seen", "", ALL)
    assert without([*every, listed], ()) == [*every, listed]
    assert without([*every, listed], {"TABLES"}) == [*every[2:], replace(listed, value="net.seen")]


def test_fix_ends_the_recompiles_of_each_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(TABLES + RUN)
    assert main(["fix", "--json", "--own-inputs", "model.py"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["best"]["before"]["eager_functions"] == 1
    assert found["best"]["after"] == {"graph_breaks": 0, "recompiles": 1, "eager_functions": 0}
    assert found["best"]["results"] == "equal"
    assert "keeps nothing in `TABLES`; it does not read any more what is there" in found["tried"][0]["price"]
