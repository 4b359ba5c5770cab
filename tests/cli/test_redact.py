"""`compiler-lens redact`, and `show --redact`: nothing of the program's text goes out, and all views still work."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.cli import main
from compiler_lens.decode.recording_file import save
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CaptureProblem,
    Compilation,
    CompileId,
    Direction,
    Environment,
    Graph,
    GraphBreak,
    GraphStage,
    Guard,
    Kernel,
    KernelKind,
    Node,
    Outcome,
    OutputCode,
    Recording,
    SourceFile,
    SourceLine,
)
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.redact import redacted
from compiler_lens.recording.source_text import sources

TESTS = Path(__file__).parent.parent
RECORDINGS = sorted(TESTS.rglob("*.clens*"))
BROKEN = TESTS / "pictures" / "data" / "broken.clens.gz"

OWN = """\
CITY = "a town by the sea"


def forward(x, mode="silent"):
    if x.sum() > THRESHOLD_OF_THE_HOUSE:
        return torch.ops.lab.spell(x, "open sesame")
"""
KERNEL = "@triton.jit\ndef own_kernel(x_ptr):\n    tl.store(x_ptr, secret_formula(3.25))\n"
SECRETS = (
    "a town by the sea",
    "silent",
    "THRESHOLD_OF",
    "open sesame",
    "secret_formula",
    "me/lab",
    "plans.py",
    "argued",
)


def everywhere() -> Recording:
    """A recording that has the user's words in every part of it."""
    one, file = CompileId(0, 0), "/home/me/lab/plans.py"
    line = SourceLine(file, 5, "forward", "if x.sum() > THRESHOLD_OF_THE_HOUSE:")
    why = f"0/0: mode == 'silent'        # {line.code}  # {file}:5 in forward"
    call = "torch.ops.lab.spell.default(x, 'open sesame')"
    node = Node("spell", "call_function", "torch.ops.lab.spell.default", arguments="x, 'open sesame'", source=(line,))
    cause = BreakCause("Something", explanation=f"'a town by the sea' in {file}", context="str: 'silent'")
    return Recording(
        environment=Environment(argv=("train.py", "--argued"), config={"cache": "/home/me/lab/cache"}),
        sources=(SourceFile(file, OWN),),
        compilations=(
            Compilation(
                one, "forward", file, 4, Outcome.COMPILED, stack=(line,), definition=line,
                metrics={"co_filename": file, "recompile_reason": why, "restart_reasons": [f"see {file}"]},
            ),
        ),
        graph_breaks=(GraphBreak(one, 0, (cause,), why, (line,), line, BreakOutcome.SPLIT, text=OWN),),
        guards=(Guard(one, "EQUALS_MATCH", "L['mode'] == 'silent'", "L['mode']", line),),
        graphs=(Graph(one, GraphStage.DYNAMO, f"# File: {file}:5\n    spell = {call}  # {line.code}", (node,)),),
        kernels=(
            Kernel(one, Direction.FORWARD, "own_kernel_0", KernelKind.USER, source=KERNEL),
            Kernel(one, Direction.FORWARD, "cpp_0", KernelKind.CPP, source=f'#include "{file}"\n// {line.code}'),
        ),
        output_codes=(
            OutputCode(
                one, Direction.FORWARD,
                f"own_kernel_0 = async_compile.triton('own_kernel', '''\n{KERNEL}''', device_str='cuda')\nbuf0 = {call}",
                path="/home/me/lab/out.py",
            ),
        ),
        problems=(CaptureProblem("reader", f"cannot read {file}: {line.code}"),),
    )  # fmt: skip


@cache
def recording(path: Path) -> Recording:
    return load(path)


def all_of(written: Path) -> str:
    """The bytes of a file, also as a reader of JSON sees them."""
    raw = written.read_bytes()
    text = (gzip.decompress(raw) if written.suffix == ".gz" else raw).decode("utf-8", "surrogatepass")
    return text + text.replace('\\"', '"').replace("\\n", "\n")


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_a_redacted_recording_holds_nothing_of_the_programs_text(path: Path, tmp_path: Path) -> None:
    found, target = recording(path), tmp_path / "out.clens"
    save(redacted(found), target)
    text = all_of(target)
    lines = {line.strip() for source in found.sources for line in source.text.splitlines()}
    told = [line for line in lines if len(line) > 12 and re.search(r"[(=.]", line) and line in text]
    assert told in ([], ["torch._dynamo.graph_break()"])  # which torch's own advice names
    own = {file for file in (*(s.file for s in found.sources), *(c.file for c in found.compilations)) if is_own(file)}
    for file in own:
        folder, _, name = file.rpartition("/")
        assert name not in text
        assert not folder or folder not in text
        assert not [words for words in sources(found).literals(file) if len(words.split()) > 1 and words in text]
    assert not re.search(r"/(home|tmp|root|Users)/", text)
    assert load(target, strict=True) == redacted(found)


def test_the_users_words_go_wherever_they_stand(tmp_path: Path) -> None:
    target = tmp_path / "out.clens"
    save(everywhere(), target)
    assert all(secret in all_of(target) for secret in SECRETS)
    save(redacted(everywhere()), target)
    assert not [secret for secret in SECRETS if secret in all_of(target)]


def test_files_of_a_package_that_the_user_counts_as_theirs_go_as_well(tmp_path: Path) -> None:
    file = "/opt/lib/python3.11/site-packages/lab/plans.py"
    found = Recording(
        sources=(SourceFile(file, 'CITY = "a town by the sea"\n'),),
        problems=(CaptureProblem("reader", f"{file} said 'a town by the sea'"),),
    )
    save(found, tmp_path / "run.clens")
    written = []
    for more in ([], ["--user-path", "lab"]):
        assert main(["redact", str(tmp_path / "run.clens"), str(tmp_path / "out.clens"), *more]) == 0
        written.append(all_of(tmp_path / "out.clens"))
    assert ["lab/plans.py" in text for text in written] == [True, False]
    assert ["a town by the sea" in text for text in written] == [True, False]


def test_what_is_written_is_a_recording_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.clens.gz"
    assert main(["redact", str(BROKEN), str(target)]) == 0
    assert capsys.readouterr().out.startswith(f"{target}  ")
    assert load(target, strict=True) == redacted(recording(BROKEN))
    assert main(["show", str(target), "breaks"]) == 0
    shown = capsys.readouterr().out
    assert main(["show", str(BROKEN), "breaks", "--redact"]) == 0
    assert capsys.readouterr().out == shown
    assert "file1.py" in shown
    assert main(["show", str(target), "breaks", "--json"]) == 0
    told = capsys.readouterr().out
    assert main(["show", str(BROKEN), "breaks", "--json", "--redact"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(told)
    assert main(["report", str(target), "-o", str(tmp_path / "out.html")]) == 0
    assert main(["graph", str(target), "-o", str(tmp_path / "out.svg")]) == 0
    assert main(["diff", str(target), str(target)]) == 0


@pytest.mark.parametrize("more", [[], ["--json"], ["breaks"], ["breaks", "--json"], ["environment"], ["kernels"]])
def test_what_is_shown_redacted_has_none_of_the_users_words(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plans.clens"
    save(everywhere(), file)
    assert main(["show", str(file), *more, "--redact"]) == 0
    shown = capsys.readouterr().out
    assert not [secret for secret in (*SECRETS, str(tmp_path)) if secret in shown]


def test_a_recording_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.clens"
    save(everywhere(), file)
    kept = file.read_bytes()
    assert main(["redact", str(file), str(file)]) == 2
    assert "is the recording itself" in capsys.readouterr().err
    assert file.read_bytes() == kept
    assert main(["redact", str(file), str(tmp_path / "no folder" / "out.clens")]) == 1
    assert "cannot write" in capsys.readouterr().err
