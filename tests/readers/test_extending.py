"""The toy language of docs/extending.md: installed, decoded, shown. What the page says is what runs here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.decode.fold import fold
from compiler_lens.recording.errors import CaptureError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.model import CaptureProblem, KernelKind, Trust

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()


ENTRY = 'toy = "toy_kernels:LANGUAGE"'


def block(language, start):
    """The code block of the page that starts so."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if text.startswith(start))


CODE, TOY = block("text", "# output code\n"), block("python", "# toy_kernels.py\n")
CPP = "cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r'''\n#include <x>\n''')\n"


def output_code(text, frame=0):
    return Event("inductor_output_code", 1.0, frame, (frame, 0, None), text=text)


@pytest.fixture
def recording(tmp_path):
    writer = JournalWriter(tmp_path / "toy.clens")
    writer.append(output_code(CODE))
    writer.close()
    return tmp_path / "toy.clens"


def installed(folder, code, more=""):
    """A folder as pip would leave it, to stand on the path."""
    (folder / "toy_kernels-1.0.dist-info").mkdir(parents=True)
    (folder / "toy_kernels-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy_kernels\nVersion: 1.0\n"
    )
    (folder / "toy_kernels-1.0.dist-info" / "entry_points.txt").write_text(
        f"[compiler_lens.kernel_languages]\ntoy = toy_kernels:LANGUAGE\n{more}"
    )
    (folder / "toy_kernels.py").write_text(code)
    return folder


def compiler_lens(site, *arguments):
    path = os.pathsep.join((str(ROOT), str(site)))
    command = [sys.executable, "-m", "compiler_lens", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def site(tmp_path):
    return installed(tmp_path / "site", TOY)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Installs a language for this process."""

    def install(code, more=""):
        monkeypatch.delitem(sys.modules, "toy_kernels", raising=False)
        monkeypatch.syspath_prepend(installed(tmp_path / "here", code, more))

    yield install
    sys.modules.pop("toy_kernels", None)


def test_the_page_declares_the_entry_point_that_the_tests_install():
    assert block("toml", "[project") == '[project.entry-points."compiler_lens.kernel_languages"]\n' + ENTRY + "\n"


def test_the_toy_kernel_is_shown_as_the_page_says(site, recording):
    shown = compiler_lens(site, "show", recording, "kernels").replace(str(recording), "toy.clens")
    assert shown.strip() == block("console", "$ compiler-lens show").partition("\n")[2].strip()


def test_the_toy_kernel_has_its_source_and_launch_in_the_terminal_json_and_page(site, recording, tmp_path):
    one = compiler_lens(site, "show", recording, "kernel", "toy_fused_mul_add_0")
    assert "Toy pointwise, toy:0" in one
    assert "line 15: (arg0_1, buf0)  grid (8,)" in one
    assert one.endswith("loop 8\nload a, 0\nmul a, a, 2.0\nadd a, a, 1.0\nstore a, 1\n")
    (kernel,) = json.loads(compiler_lens(site, "show", recording, "kernels", "--json"))["kernels"]
    assert (kernel["language"], kernel["kind"], kernel["aten"]) == ("Toy", "other", ["aten.mul", "aten.add"])
    compiler_lens(site, "report", recording, "-o", tmp_path / "toy.html")
    assert "Toy pointwise" in (tmp_path / "toy.html").read_text()


def test_the_source_is_coloured_as_the_language_says(here, recording):
    here(TOY)
    (kernel,) = load(recording).kernels
    assert kernel.lexer == "nasm"


def test_without_the_package_a_recording_opens_without_its_kernels(recording):
    assert (load(recording).kernels, load(recording).problems) == ((), ())


LANGUAGE_OF_A_LIBRARY = """
from compiler_lens.decode.kernel_language import KernelLanguage
from compiler_lens.recording.model import KernelKind
LANGUAGE = KernelLanguage('Toy', KernelKind.EXTERN, libraries=('toy.',))
"""


def test_a_function_of_a_library_is_a_kernel_too(here, recording):
    here(LANGUAGE_OF_A_LIBRARY)
    (kernel,) = load(recording).kernels
    assert (kernel.name, kernel.language, kernel.kind) == ("toy.launch", "Toy", KernelKind.EXTERN)
    assert kernel.launches[0].arguments == ("toy_fused_mul_add_0", "(8,)", "arg0_1", "buf0")


def test_inductors_own_kernels_are_never_anothers(here):
    here(TOY.replace('"toy.compile"', '"async_compile.cpp_pybinding"'))
    found = fold([output_code(CPP + CODE)], strict=True).kernels
    assert {k.name: k.language for k in found} == {"cpp_fused_add_0": "C++"}


def test_packages_are_not_looked_up_for_what_is_inductors(here):
    here("raise SystemExit('imported')")
    codes = sorted((ROOT / "tests" / "payloads").glob("*/output_code/*.txt"))
    assert len(fold([output_code(path.read_text(), n) for n, path in enumerate(codes)], strict=True).kernels) > 100


def test_of_two_packages_that_know_a_maker_the_first_by_name_has_it(here):
    other = LANGUAGE_OF_A_LIBRARY.replace("KernelKind.EXTERN, libraries=('toy.',)", "makers=('toy.compile',)")
    here(TOY + other.replace("LANGUAGE =", "OTHER =").replace("'Toy'", "'Other'"), "other = toy_kernels:OTHER")
    assert [kernel.language for kernel in fold([output_code(CODE)]).kernels] == ["Other"]


def test_nodes_that_a_comment_names_are_the_kernels(here):
    here(TOY.replace("KernelOrigins(aten=", "KernelOrigins(nodes="))
    (kernel,) = fold([output_code(CODE)], strict=True).kernels
    assert (kernel.nodes, kernel.trust) == (("aten.mul", "aten.add"), Trust.TEXT)
    assert kernel.launches[0].nodes == kernel.nodes


def test_a_launch_of_a_kernel_that_nobody_defines_is_not_one(here):
    here(TOY.replace("LaunchText(kernel,", 'LaunchText("other",'))
    (kernel,) = fold([output_code(CODE)], strict=True).kernels
    assert (kernel.name, kernel.launches) == ("toy_fused_mul_add_0", ())


BROKEN = {
    "import toy_that_is_not_there": "ModuleNotFoundError: No module named 'toy_that_is_not_there'",
    "LANGUAGE = 'Toy'": "TypeError: load() gave 'Toy'",
    "": "AttributeError: module 'toy_kernels' has no attribute 'LANGUAGE'",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_language_that_cannot_be_loaded_is_a_problem_and_no_error(here, code):
    here(code)
    found = fold([output_code(CODE + "    extern_kernels.mm(buf0)\n")])
    assert found.problems == (CaptureProblem("the kernel language toy", BROKEN[code]),)
    assert [kernel.name for kernel in found.kernels] == ["extern_kernels.mm"]
    with pytest.raises(CaptureError, match="the kernel language toy"):
        fold([output_code(CODE)], strict=True)


@pytest.mark.parametrize(
    ("was", "broken", "problem"),
    [
        ("return SourceFacts(", "return dict(", "TypeError: read() gave {'shape': 'pointwise', 'device': 'toy:0'}"),
        ("kernel, grid, *arguments", "kernel, grid", "ValueError: too many values to unpack (expected 2)"),
        ('if comment.startswith("# toy: ")', "if comment.toy", "AttributeError: 'str' object has no attribute 'toy'"),
    ],
)
def test_a_function_that_fails_is_a_problem_once_and_the_kernel_is_kept(here, was, broken, problem):
    here(TOY.replace(was, broken))
    found = fold([output_code(CODE), output_code(CODE, frame=1)])
    assert found.problems == (CaptureProblem("the kernel language Toy", problem),)
    assert [kernel.name for kernel in found.kernels] == ["toy_fused_mul_add_0"] * 2
