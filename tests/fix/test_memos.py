"""What a dict keeps of each key is computed in each compiled call, where nothing else reads the dict."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
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
    if (start, n, dim) not in TABLES:
        steps = torch.arange(start, start + n).float()
        TABLES[(start, n, dim)] = torch.outer(steps, torch.ones(dim)).cos()
    return TABLES[(start, n, dim)]


@torch.compile
def turned(x, start):
    return x * table(start, x.shape[0], x.shape[1])
"""
RUN = """
for start in range(10):
    turned(torch.ones(4, 3) * start, start)
"""
KEPT = "TABLES[(start, n, dim)] = torch.outer(steps, torch.ones(dim)).cos()"


def offered(text: str, code: str = KEPT, **beside: str) -> str | None:
    line = [one.strip() for one in text.split("\n")].index(code) + 1
    found = unmemoized(SourceLine("/app/model.py", line, "table", code), Sources({"/app/model.py": text, **beside}))
    return found and "\n".join(found[0].after)


def test_compiled_code_computes_what_others_keep() -> None:
    assert offered(TABLES) == (
        "if torch.compiler.is_compiling():\n"
        "    steps = torch.arange(start, start + n).float()\n"
        "    return torch.outer(steps, torch.ones(dim)).cos()\n"
        "if (start, n, dim) not in TABLES:\n"
        "    steps = torch.arange(start, start + n).float()\n"
        "    TABLES[(start, n, dim)] = torch.outer(steps, torch.ones(dim)).cos()"
    )
    of_self = TABLES.replace("TABLES[", "self.kept[").replace("in TABLES", "in self.kept").replace("def table(start", "def table(self, start")  # fmt: skip
    assert offered(of_self, KEPT.replace("TABLES", "self.kept")) is not None


@pytest.mark.parametrize(
    ("was", "then"),
    [
        ("TABLES = {}", "TABLES = {}\nsize = lambda: len(TABLES)"),  # somebody else reads it
        ("    return TABLES[(start, n, dim)]", "    n = n + 1\n    return TABLES[(start, n, dim)]"),
        ("    return TABLES[(start, n, dim)]", "    return TABLES[(n, start)]"),
        ("steps = torch.arange(start, start + n).float()", "steps = torch.randn(n)"),  # another one each time
        ("steps = torch.arange(start, start + n).float()", "steps = read(start, n, dim)"),
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
    # One recompile is how torch learns that `start` varies.
    assert found["best"]["after"] == {"graph_breaks": 0, "recompiles": 1, "eager_functions": 0}
    assert found["best"]["results"] == "equal"
    assert "keeps nothing in `TABLES`; it does not read any more what is there" in found["tried"][0]["price"]


# -- what is read further on

TIME = """
import math

import torch


def sinusoid(t, dim):
    table = torch.zeros(dim)
    table[: dim // 2] = torch.sin(t * torch.exp(-math.log(100) * torch.arange(dim // 2).float()))
    return table


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dim, self.cache = 8, {}
        self.mlp = torch.nn.Linear(8, 8)

    def forward(self, t):
        if t not in self.cache:
            self.cache[t] = sinusoid(t, self.dim)
        return self.mlp(self.cache[t])
"""
TIME_KEPT = "self.cache[t] = sinusoid(t, self.dim)"
CELLS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.strides, self.cache = (8, 16), {}

    def forward(self, n):
        out = []
        for stride in self.strides:
            f = torch.ones(2, n, stride)
            key = (tuple(f.shape[-2:]), stride)
            if key not in self.cache:
                h, w = f.shape[-2:]
                ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
                cells = (torch.stack([xs, ys], -1).reshape(-1, 2).float() + 0.5) * stride
                self.cache[key] = (cells, torch.full((h * w, 1), float(stride)))
            out.append(self.cache[key])
        return torch.cat([one for one, _ in out]), torch.cat([one for _, one in out])
"""
CELLS_KEPT = "self.cache[key] = (cells, torch.full((h * w, 1), float(stride)))"


def rewritten(text: str, code: str, **beside: str) -> str | None:
    line = [one.strip() for one in text.split("\n")].index(code) + 1
    found = unmemoized(SourceLine("/app/model.py", line, "forward", code), Sources({"/app/model.py": text, **beside}))
    if found is None:
        return None
    lines, first = text.split("\n"), found[0].near - 1
    pad = lines[first][: -len(lines[first].lstrip())]
    lines[first : first + len(found[0].before)] = [f"{pad}{one}" for one in found[0].after]
    return "\n".join(lines)


def called(text: str, backend: str) -> tuple[Any, int, int]:
    """What ten calls of a model return; the graph breaks and the recompiles."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("memos")
    exec(compile(text, "memos.py", "exec"), module.__dict__)
    model = module.__dict__["Model"]()
    function = torch.compile(model, backend=backend) if backend else model
    with Lens(strict=True) as lens:
        found = [function(n) for n in (*range(2, 10), 2, 3)]
    return found, len(lens.recording.graph_breaks), len(lens.recording.recompiles)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (TIME, TIME_KEPT),
        (
            TIME.replace("return self.mlp(self.cache[t])", "one = self.cache[t]\n        return self.mlp(one)"),
            TIME_KEPT,
        ),
        (TIME.replace("return self.mlp(", "assert t\n        return self.cache[t] + self.mlp("), TIME_KEPT),
        (CELLS, CELLS_KEPT),
    ],
)
def test_what_is_read_further_on_is_computed_under_a_name(text: str, code: str) -> None:
    better = rewritten(text, code)
    assert better is not None
    wanted = called(text, "")
    assert called(text, "eager")[2] > 2, "nothing was compiled again: the test proves nothing"
    torch.testing.assert_close(called(better, "")[0], wanted[0])
    found, breaks, recompiles = called(better, "eager")
    torch.testing.assert_close(found, wanted[0])
    assert (breaks, recompiles) == (0, 1)  # for a size that is not the same each time


def test_what_is_written_is_short() -> None:
    assert offered(TIME, TIME_KEPT) == (
        "if torch.compiler.is_compiling():\n"
        "    kept = sinusoid(t, self.dim)\n"
        "else:\n"
        "    if t not in self.cache:\n"
        "        self.cache[t] = sinusoid(t, self.dim)\n"
        "    kept = self.cache[t]\n"
        "return self.mlp(kept)"
    )
    named = TIME.replace("return self.mlp(self.cache[t])", "kept = self.cache[t]\n        return self.mlp(kept)")
    assert offered(named, TIME_KEPT) == (offered(TIME, TIME_KEPT) or "").removesuffix("\nreturn self.mlp(kept)")


def test_a_size_in_the_key_leads_to_the_dict() -> None:
    line = "key = (tuple(f.shape[-2:]), stride)"
    assert offered(CELLS, line) == offered(CELLS, CELLS_KEPT)
    assert offered(CELLS, "f = torch.ones(2, n, stride)") is None


@pytest.mark.parametrize(
    ("text", "was", "then"),
    [
        # the key, or the dict, is another one by then
        (TIME, "return self.mlp(", "t = t + 1\n        return self.mlp("),
        (TIME, "return self.mlp(", "for t in range(3):\n            self.mlp(self.cache[t])\n        return self.mlp("),
        (TIME, "return self.mlp(", "self.cache[t + 1] = 0\n        return self.mlp("),
        (TIME, "self.mlp(self.cache[t])", "self.mlp(self.cache[t]) * len(self.cache)"),
        (TIME, "return self.mlp(self.cache[t])", "return lambda: self.cache[t]"),
        (TIME, "self.mlp(self.cache[t])", "self.mlp(self.cache[t - 1])"),
        (TIME, "if t not in self.cache:", "if self.next() not in self.cache:"),
        # what is in it is changed
        (TIME, "return self.mlp(", "self.cache[t].mul_(2)\n        return self.mlp("),
        (TIME, "return self.mlp(", "one = self.cache[t]\n        one += 1\n        return self.mlp("),
        (TIME, "self.mlp = torch.nn.Linear(8, 8)", "self.mlp = torch.nn.ReLU(inplace=True)"),
        (TIME, "self.mlp(self.cache[t])", "halved(self.cache[t])\n\n\ndef halved(x):\n    x /= 2\n    return x"),
        (TIME, "self.mlp(self.cache[t])", "self.cache[t]\n\n\ndef f(model):\n    model.forward(3).mul_(2)"),
        # what computes it does more, or of more than the key
        (TIME, "    table = torch.zeros(dim)", "    table = torch.zeros(dim)\n    print(dim)"),
        (TIME, "    table = torch.zeros(dim)", "    table = torch.rand(dim)"),
        (TIME, "    table = torch.zeros(dim)", "    table = torch.zeros(dim)\n    LAST[0] = t"),
        (TIME, "    table = torch.zeros(dim)", "    table = torch.zeros(dim) * OFTEN"),
        (TIME, "def sinusoid", "@logged\ndef sinusoid"),
        (TIME, "\n\nclass Model", "\n\nsinusoid = faster(sinusoid)\n\n\nclass Model"),
        (TIME, "    return table", "    return sinusoid(t, dim)"),
        (TIME, TIME_KEPT, "x = torch.ones(3)\n            self.cache[t] = sinusoid(t, self.dim)\n        x = x + 1"),
        (CELLS, "h, w = f.shape[-2:]", "h, w = f.sum(0).int()[0, :2]"),
        (CELLS, "h, w = f.shape[-2:]", "h, w = f.shape[-2:]\n                stride = 2"),
        (CELLS, "out.append(self.cache[key])", "out.append(self.cache[key] * w)"),
        (CELLS, "out.append(self.cache[key])", "out.append(self.cache[key])\n            out[0][0].add_(1)\n            self.cache[key][0].add_(1)"),
    ],
)  # fmt: skip
def test_what_would_be_another_is_still_read(text: str, was: str, then: str) -> None:
    assert was in text
    code = TIME_KEPT if text is TIME else CELLS_KEPT
    assert offered(text.replace(was, then), code) is None


def test_another_class_has_a_dict_of_its_own() -> None:
    other = "\n\nclass Other:\n    def put(self, x):\n        self.cache[x] = len(self.cache)\n"
    assert offered(TIME + other, TIME_KEPT) == offered(TIME, TIME_KEPT)
    assert offered(TIME + other.replace("class Other", "class Other(Model)"), TIME_KEPT) is None
    assert offered(TIME + "\n\ndef clear(model):\n    model.cache.clear()\n", TIME_KEPT) is None


def test_what_is_kept_of_an_argument_that_the_key_lacks_is_older_than_what_would_be_computed() -> None:
    scaled = TABLES.replace("def table(start, n, dim):", "def table(start, n, dim, scale=1.0):")
    assert offered(scaled) is not None
    assert offered(scaled.replace("torch.arange(start, start + n)", "torch.arange(start, start + n, scale)")) is None
    on_device = scaled.replace("torch.arange(start, start + n)", "torch.arange(start, start + n, device=scale.device)")
    assert offered(on_device) is not None


def test_what_is_kept_before_autocast_has_another_dtype_than_what_would_be_computed_in_it() -> None:
    assert offered(f"{TABLES}\n\nwith torch.autocast('cpu'):\n    pass\n") is None
