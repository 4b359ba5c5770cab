"""The arrows of docs/architecture.md, checked: who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "compiler_lens"

MAY_IMPORT = {
    "recording": set(),
    "decode": {"recording"},
    "capture": {"decode", "recording"},
    "facts": {"recording"},
    "views": {"facts", "recording"},
    "render": {"decode", "facts", "recording", "views"},
    "measure": {"capture", "decode", "facts", "recording"},
    "lens": {"capture", "decode", "facts", "measure", "recording", "render", "views"},
}
FACTS_MAY_IMPORT = {
    "program": set(),
    "time": set(),
    "kernels": {"program"},
    "breaks": {"program"},
    "recompiles": {"breaks", "program"},
    "graphs": {"breaks", "kernels", "program"},
    "overview": {"breaks", "kernels", "program", "recompiles", "time"},
    "compare": {"breaks", "kernels", "program", "recompiles", "time"},
    "measured": {"breaks", "kernels", "overview", "program", "recompiles"},
}
RENDER_MAY_IMPORT = {  # renderers do not know each other; but a picture is a part of a page
    "chart": set(),
    "figures": set(),
    "json": set(),
    "names": set(),
    "picture": set(),
    "console": {"figures", "names"},
    "page": {"figures", "names", "picture"},
    "results": {"chart", "console", "json", "page"},
}
THIRD_PARTY = {
    "torch": {"capture", "measure"},
    "triton": set(),
    "tomli": {"facts"},
    "rich": {"capture", "render", "cli"},
    "jinja2": {"render"},
    "markupsafe": {"render"},
    "graphviz": {"render"},
    "pydot": {"render"},
    "cairosvg": {"render"},
}
FRONT_DOORS = {"__init__", "__main__", "cli"}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    layer = layer_of(path)
    for name in imported_names(path):
        top, *rest = name.split(".")
        if top in THIRD_PARTY:
            assert layer in THIRD_PARTY[top], f"{path.name} must not import {name}"
        elif top == "compiler_lens" and layer not in FRONT_DOORS and rest:
            assert rest[0] in MAY_IMPORT[layer] | {layer}, f"{path.name} must not import {name}"


@pytest.mark.parametrize(("folder", "may_import"), [("facts", FACTS_MAY_IMPORT), ("render", RENDER_MAY_IMPORT)])
def test_the_rooms_of_a_folder_follow_their_arrows(folder: str, may_import: dict[str, set[str]]) -> None:
    """Read from below: a room imports only what stands above it."""
    for path in (PACKAGE / folder).rglob("*.py"):
        room = path.relative_to(PACKAGE / folder).parts[0].removesuffix(".py")
        inside = {name for name in imported_names(path) if name.startswith(f"compiler_lens.{folder}.")}
        assert {name.split(".")[2] for name in inside} <= may_import.get(room, set()) | {room, "data_file"}, path


def test_no_two_folders_import_each_other() -> None:
    """Nor any two of the folders in `facts`, `render` and `views`."""
    arrows = set()
    for path in PACKAGE.rglob("*.py"):
        if layer_of(path) not in FRONT_DOORS:
            names = {name for name in imported_names(path) if name.startswith("compiler_lens.")}
            arrows |= {(folder_of(path), folder_of(PACKAGE.parent / name.replace(".", "/"))) for name in names}
    both = {(one, other) for one, other in arrows if one != other and (other, one) in arrows}
    assert not both


def folder_of(path: Path) -> str:
    """A folder of the package, or one in it; of a name in a module, the folder of that."""
    parts = path.relative_to(PACKAGE).parts
    inner = "/".join(parts[:2])
    return inner if parts[0] in {"facts", "render", "views"} and (PACKAGE / inner).is_dir() else parts[0]


def test_no_import_goes_in_a_circle() -> None:
    """Not even one for types, or one inside of a function."""
    paths = {
        str(path.relative_to(PACKAGE.parent)).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in PACKAGE.rglob("*.py")
    }
    imports = {
        module: {name if name in paths else name.rpartition(".")[0] for name in imported_names(path)} & set(paths)
        for module, path in paths.items()
    }
    for start in paths:
        reached, waiting = set(), [start]
        while waiting:
            new = imports[waiting.pop()] - reached
            reached |= new
            waiting += new
        assert start not in reached, start


@pytest.mark.parametrize(
    "statement",
    [
        "import compiler_lens",
        "from compiler_lens import load",
        "import compiler_lens.cli",
        "import compiler_lens.render.console",
        "import compiler_lens.facts.program.coverage",
        "from compiler_lens import draw",
    ],
)
def test_a_recording_is_read_and_shown_without_torch(statement: str) -> None:
    code = f"{statement}; import sys; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_sorted_and_there() -> None:
    import compiler_lens

    assert compiler_lens.__all__ == sorted(compiler_lens.__all__)
    for name in compiler_lens.__all__:
        assert getattr(compiler_lens, name) is not None or name == "named_lens"


def test_no_module_keeps_state() -> None:
    """No `global` statement, and no environment is read below the command line."""
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), path
        if layer_of(path) != "cli":
            own = ast.unparse(tree).replace("os.environ.get(_SHOWS_META)", "")  # torch's, by which it prints graphs
            assert "os.environ" not in own, path
