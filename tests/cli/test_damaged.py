"""A recording with damaged lines says so before anything else, and nothing is read as the whole of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens, load
from compiler_lens.cli import command, main
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import DAMAGE
from compiler_lens.render import json as render
from compiler_lens.render.console import report
from compiler_lens.views.registry import VIEWS
from compiler_lens.views.report import document

WARNING = "What follows is not all: "


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """What two compiled functions left."""
    path = tmp_path / "run.clens"
    with Lens(path, progress=False):
        for function in (_shift, _scale):
            torch.compile(function, backend="aot_eager")(torch.ones(3))
    assert "Both functions compiled." in report(load(path), width=120, color=False)
    return path


def _shift(x: Tensor) -> Tensor:
    return x + 1


def _scale(x: Tensor) -> Tensor:
    return x * 2


def _damaged(journal: Path) -> Path:
    """The same, with a line in it that is none."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join((*lines[:-1], b"\xff\x00 not a line\n", lines[-1])))
    return journal


def test_damage_is_said_first_and_all_is_never_said_to_be_compiled(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _damaged(journal)
    assert main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1].startswith(WARNING.strip())
    said = " ".join(shown.split())
    assert "2 functions compiled, as far as the recording could be read." in said
    assert "Both" not in said
    assert "Nothing to fix" not in said
    assert "No finding, as far as the recording could be read" in said
    assert "is damaged" in said.partition("Gaps")[2].partition("could be read")[0]
    main(["show", str(path), "findings"])
    assert "Nothing to fix" not in capsys.readouterr().out


# Each view with what it is asked about, where it needs that.
ASKED = [[view.name] for view in VIEWS if view.name not in {"kernel", "profile"}]


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_every_view_says_first_that_a_recording_has_no_end_or_is_damaged(
    journal: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = journal.read_bytes()

    def shown() -> str:
        assert main(["show", str(journal), *asked, "--width", "140"]) == 0
        return capsys.readouterr().out.strip()

    def lacks() -> list[str]:
        assert main(["show", str(journal), *asked, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert list(document)[:4] == ["format", "view", "unfinished", "damage"]
        return [document["unfinished"], document["damage"]]

    assert "not finished" not in shown().partition("\n")[0]
    assert lacks() == ["", ""]
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    cut = shown()
    assert cut.startswith("This recording is not finished: ")
    assert cut.count("This recording is not finished") == 1
    assert lacks() == [load(journal).unfinished, ""]
    journal.write_bytes(whole)
    _damaged(journal)
    assert shown().startswith(WARNING.strip())
    assert lacks() == ["", load(journal).damage]


def test_programs_and_pages_get_the_damage_too(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _damaged(journal)
    main(["show", str(path), "--json"])
    told = json.loads(capsys.readouterr().out)
    (problem,) = [each for each in _problems(told) if each["where"] == DAMAGE]
    assert "14 bytes could not be read" in problem["message"]
    page = repr(document(load(path), Selection(for_page=True)).blocks[1:3])
    assert WARNING in page
    assert page.index(WARNING) < page.index("2 functions compiled")


def _problems(told: dict[str, object]) -> list[dict[str, str]]:
    """The problems, wherever the first screen's facts stand."""
    found = told.get("problems") or next(each["problems"] for each in told.values() if isinstance(each, dict))
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("is_large", [False, True])
def test_json_that_cannot_be_made_whole_is_not_printed_in_part(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_large: bool
) -> None:
    def parts(*_: object) -> Iterator[str]:
        yield '{"format": 2'
        raise ValueError("a part that fails")

    if is_large:  # it waits in a file then
        monkeypatch.setattr(command, "_IN_MEMORY", 4)
    main(["show", str(journal), "breaks", "--json"])
    assert json.loads(capsys.readouterr().out)["view"] == "breaks"
    monkeypatch.setattr(render, "view_parts", parts)
    assert main(["show", str(journal), "breaks", "--json"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("compiler-lens: show failed: ValueError: a part that fails")
    assert err.count("\n") == 1
