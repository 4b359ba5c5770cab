"""Settings that differ from torch's defaults: by whom, since when, what each touches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sample_recordings
import torch
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.overview.settings import SetBy, Touches, settings, touches
from compiler_lens.recording.model import Recording

TESTS = Path(__file__).parent.parent
OPTION = TESTS / "diff" / "data" / "option.clens.gz"
TUNED = TESTS / "gpu" / "data" / "gpt-max-autotune-cold.clens.gz"


def found(recording: Recording) -> list[tuple[str, str, SetBy, str, int]]:
    return [
        (one.name, one.value, one.set_by, str(one.since), one.compilations)
        for one in settings(recording.environment, recording.compilations)
    ]


def test_an_option_holds_since_the_compilation_that_it_was_given_to() -> None:
    assert found(compiler_lens.load(OPTION)) == [("_inductor.config.max_fusion_size", "1", SetBy.OPTIONS, "0/0", 1)]


def test_a_mode_stands_for_settings() -> None:
    assert [one[:3] for one in found(compiler_lens.load(TUNED))] == [
        ("_inductor.config.max_autotune", "True", SetBy.MODE),
        ("_inductor.config.coordinate_descent_tuning", "True", SetBy.MODE),
        ("_inductor.config.triton.cudagraphs", "True", SetBy.MODE),
    ]


def test_a_setting_that_changes_between_compilations_holds_since_the_next() -> None:
    lens = compiler_lens.Lens(strict=True)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(lambda x: x.sin(), backend=lens)(torch.ones(4))
        with torch._inductor.config.patch(max_fusion_size=7):
            torch.compile(lambda x: x.cos(), backend=lens, dynamic=True)(torch.ones(4))
    torch.compile(lambda x: x.tan(), backend=lens)(torch.ones(4))
    lens.close()
    whole = [one for one in found(lens.recording) if one[2] is SetBy.CONFIG]
    assert whole == [
        ("_dynamo.config.capture_scalar_outputs", "True", SetBy.CONFIG, "None", 2),
        ("_inductor.config.max_fusion_size", "7", SetBy.CONFIG, "1/0", 1),
    ]


def test_what_the_process_set_comes_first_and_holds_for_all() -> None:
    broken = sample_recordings.broken()
    later = replace(broken.compilations[1], options={"epilogue_fusion": "False"}, dynamic=True)
    recording = replace(broken, compilations=(broken.compilations[0], later, *broken.compilations[2:]))
    count = len(recording.compilations)
    first, *rest = found(recording)
    assert first == ("torch._inductor.config.max_autotune", "True", SetBy.CONFIG, "None", count)
    assert ("_inductor.config.epilogue_fusion", "False", SetBy.OPTIONS, str(later.compile_id), 1) in rest
    assert ("dynamic", "True", SetBy.ARGUMENT, str(later.compile_id), 1) in rest


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_inductor.config.triton.cudagraphs", Touches.CUDA_GRAPHS),
        ("_inductor.config.max_autotune", Touches.TUNING),
        ("_inductor.config.epilogue_fusion", Touches.FUSION),
        ("_inductor.config.fx_graph_cache", Touches.CACHES),
        ("_dynamo.config.assume_static_by_default", Touches.SHAPES),
        ("_dynamo.config.capture_scalar_outputs", Touches.GRAPHS),
        ("_functorch.config.activation_memory_budget", Touches.BACKWARD),
        ("_inductor.config.cpp_wrapper", Touches.CODE),
        ("mode", Touches.OTHER),
    ],
)
def test_a_setting_is_about_something(name: str, kind: Touches) -> None:
    assert touches(name) is kind


def test_the_console_the_page_and_json_have_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", str(OPTION), "settings", "--width", "120"]) == 0
    text = capsys.readouterr().out
    assert "1 setting that differs from torch's defaults" in text
    assert "_inductor.config.max_fusion_size" in text
    assert "fusion" in text
    assert main(["show", str(OPTION), "settings", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["settings"]
    assert (one["set_by"], one["touches"], one["since"]) == ("options", "fusion", "0/0")
    page = tmp_path / "page.html"
    assert main(["report", str(OPTION), "-o", str(page)]) == 0
    assert 'id="view-settings"' in page.read_text(encoding="utf-8")


def test_nothing_set_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(TESTS / "diff" / "data" / "base.clens.gz"), "settings"]) == 0
    assert capsys.readouterr().out == "Every setting has torch's default.\n"
