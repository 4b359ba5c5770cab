"""What capture asks of torch directly: modes, cache keys, the table of wanted events."""

import json
from pathlib import Path

import pytest

from compiler_lens.fold import READERS
from compiler_lens.readers import WANTED

torch = pytest.importorskip("torch")

import compiler_lens  # noqa: E402
from compiler_lens.capture import compat, inductor  # noqa: E402

MODES = ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [{}, {"max_fusion_size": 8}])
def test_inductors_own_wrapper_tells_its_mode_and_the_options_beyond_it(mode: str, options: dict[str, int]) -> None:
    wrapper = torch._TorchCompileInductorWrapper(mode, options, None)

    assert compat.mode_and_options(wrapper) == (mode, options)


def test_every_event_that_is_wanted_is_read_and_the_other_way_round() -> None:
    ours_or_from_logs = {name for name in READERS if name.startswith("lens.") or name == "torch_version"}

    assert WANTED - {"str"} == set(READERS) - ours_or_from_logs


def test_a_cache_answer_keeps_everything_in_two_parts() -> None:
    parts = ["[abc] gm: <lambda>()", "[def] inductor_config[x]: 1", "[ghi] inductor_config[y]: 2"]
    meta, text = inductor.cache_answer({"name": "n"}, json.dumps({"key": "k", "components": parts}))

    assert json.loads(text) == {"key": "k"}
    assert {*meta["key_parts"].split("\n"), *meta["key_settings"].split("\n")} == set(parts)
    assert inductor.cache_answer({}, "no JSON") == ({}, "no JSON")


def test_a_function_that_torch_passes_over_at_every_call_is_told_once() -> None:
    inner = torch.compiler.disable(lambda x: x + 1, recursive=False)
    with compiler_lens.Lens(strict=True) as lens:
        compiled = torch.compile(inner, backend="eager")
        for _ in range(5):
            compiled(torch.ones(2))
            once = lens._session.journal.contents().count(b"lens.frame_skipped")

    assert once <= 1
    assert len(lens.recording.compilations) <= 1


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with compiler_lens.Lens("r.clens", strict=True) as lens:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        monkeypatch.chdir("elsewhere")

    assert len(lens.recording.compilations) == 1
    assert compiler_lens.load(tmp_path / "r.clens", strict=True) == lens.recording


def test_a_second_lens_on_one_path_says_where_it_records(tmp_path: Path) -> None:
    with compiler_lens.Lens(tmp_path / "r.clens"), compiler_lens.Lens(tmp_path / "r.clens") as second:
        assert second.path != tmp_path / "r.clens"
        assert any("already" in problem.message for problem in second.recording.problems)


def test_export_is_recorded_with_its_environment() -> None:
    with compiler_lens.Lens(strict=True) as lens:
        torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), strict=True)

    assert lens.recording.environment.torch == torch.__version__
