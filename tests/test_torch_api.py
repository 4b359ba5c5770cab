"""Private names of torch stand in one folder, and nowhere else; each difference between torches has a name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_lens.capture.torch_api import versions

PACKAGE = Path(__file__).parent.parent / "compiler_lens"
API = PACKAGE / "capture" / "torch_api"
ELSEWHERE = sorted(path for path in PACKAGE.rglob("*.py") if API not in path.parents)
PRIVATE = re.compile(r"^torch(\.\w+)*\._(?!_)\w+")
OURS = {"_session"}  # looked up by name on what may be a lens
BY_STRING = {"import_module", "getLogger", "find_spec", "__import__", "get", "hasattr", "getattr", "setattr", "delattr"}


def dotted(node: ast.AST) -> str:
    """`torch._dynamo.config` of an attribute's syntax; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def strings_looked_up(node: ast.AST) -> Iterator[str]:
    """The strings by which a call, or a subscript of `sys.modules`, finds something."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        values = list(node.args) if called in BY_STRING else []
    elif isinstance(node, ast.Subscript) and dotted(node.value) == "sys.modules":
        values = [node.slice]
    yield from (value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str))


def private_names(source: str) -> list[str]:
    """The private names of torch that code uses, however it gets at them."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if PRIVATE.match(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if PRIVATE.match(name)]
        elif isinstance(node, ast.Attribute) and PRIVATE.match(dotted(node)):
            found.append(dotted(node))
        for text in strings_looked_up(node):
            is_attribute = text.startswith("_") and not text.startswith("__") and text not in OURS
            if PRIVATE.match(text) or is_attribute:
                found.append(text)
    return found


@pytest.mark.parametrize("path", ELSEWHERE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_names_of_torch_stand_in_torch_api_alone(path: Path) -> None:
    assert private_names(path.read_text()) == []


@pytest.mark.parametrize(
    "code",
    [
        "import torch._dynamo",
        "from torch import _dynamo",
        "from torch.utils import _pytree as pytree",
        "from torch.utils._python_dispatch import TorchDispatchMode",
        "torch._dynamo.reset()",
        "torch.autograd.profiler._is_profiler_enabled",
        "importlib.import_module('torch._inductor.config')",
        "sys.modules.get('torch._inductor.cudagraph_trees')",
        "sys.modules['torch._dynamo']",
        "logging.getLogger('torch._dynamo')",
        "getattr(model, '_orig_mod')",
        "hasattr(value, '_torchdynamo_orig_callable')",
    ],
)
def test_every_way_to_a_private_name_is_seen(code: str) -> None:
    assert private_names(code)


def test_public_names_are_not_taken_for_private_ones() -> None:
    assert private_names("import torch.fx\ntorch.__version__\ntorch.compiler.set_stance('default')") == []


def test_private_attributes_of_others_are_read_in_torch_api_alone() -> None:
    """What ruff's SLF001 says of a private attribute is silenced nowhere else, but for a frame of Python's."""
    silenced = [
        line.strip()
        for path in ELSEWHERE
        if path.parts[len(PACKAGE.parts)] in ("capture", "measure", "lens.py")
        for line in path.read_text().splitlines()
        if "SLF001" in line
    ]
    assert all(line.startswith("frame = sys._getframe(1)") for line in silenced)


def test_every_flag_is_used_and_says_why() -> None:
    used = "".join(path.read_text() for path in API.glob("*.py") if path.name != "versions.py")
    flags = {name: value for name, value in vars(versions).items() if isinstance(value, versions.Flag)}

    assert flags
    for name, flag in flags.items():
        assert f"versions.{name}" in used, name
        assert re.search(r"2\.1\d", flag.reason), name
