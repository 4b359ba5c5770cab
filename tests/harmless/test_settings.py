"""What one hands to torch.compile means with a lens what it means with Inductor."""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import Any

import pytest
import scenes
import torch
from observation import Folders, Observation, observe, run

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "max-autotune": {"mode": "max-autotune"},
    "options": {"options": {"max_fusion_size": 1}},
    "fullgraph": {"fullgraph": True},
    "dynamic": {"dynamic": True},
    "static": {"dynamic": False},
    "mode_and_dynamic": {"mode": "max-autotune-no-cudagraphs", "dynamic": True},
}
AT_EACH_CHECK = ("default", "max-autotune")
SPECIMEN = "marked_training"
TAKES_NAME = "name" in inspect.signature(torch.compile).parameters


@pytest.fixture(scope="module")
def plain_codes(folders: Folders) -> list[str]:
    """What Inductor writes if nothing is set."""
    return compiled("inductor", "default", folders).codes


def compiled(backend: str, setting: str, folders: Folders, **more: Any) -> Observation:
    """A small training model, compiled with a setting, on empty caches."""
    settings = {**SETTINGS.get(setting, {}), **more}
    # Not a specimen's label: those fill caches of their own, and one of them is called "dynamic" too.
    return run(observe, SPECIMEN, backend, folders, f"setting-{setting}-{backend}", settings)


@pytest.mark.parametrize(
    "setting", [name if name in AT_EACH_CHECK else pytest.param(name, marks=pytest.mark.long) for name in SETTINGS]
)
def test_a_setting_has_the_same_effect(setting: str, folders: Folders) -> None:
    """On results, code, compilations, guards and every counter of torch's."""
    plain, lens = compiled("inductor", setting, folders), compiled("lens", setting, folders)
    assert lens.values == plain.values
    assert lens.codes == plain.codes
    assert lens.compilations == plain.compilations
    assert lens.guards == plain.guards
    assert lens.counters == plain.counters
    assert lens.keys == plain.keys
    assert lens.recording.problems == ()
    first = lens.recording.compilations[0]
    assert first.mode == SETTINGS[setting].get("mode", "default")
    assert set(dict(first.options)) == set(SETTINGS[setting].get("options", {}))


@pytest.mark.long
def test_options_reach_the_code_generator(plain_codes: list[str], folders: Folders) -> None:
    """Fewer operations fit into a kernel than without them."""
    assert compiled("lens", "options", folders).codes != plain_codes


@pytest.mark.skipif(not TAKES_NAME, reason="torch.compile knows no name= before 2.13")
def test_a_name_changes_nothing_else(plain_codes: list[str], folders: Folders) -> None:
    """torch 2.13 does not tell a backend of its own making; 2.15 does, and the lens hands it on."""
    assert compiled("lens", "named", folders, name="encoder").codes == plain_codes


def test_a_graph_break_under_fullgraph_is_the_same_error(folders: Folders) -> None:
    """Type, causes and text."""
    plain, lens = (run(scenes.failure, backend, {"fullgraph": True}, folders) for backend in ("inductor", "lens"))
    assert plain[0] == "call"
    assert lens == plain


def test_an_error_of_the_model_is_the_same_error(folders: Folders) -> None:
    """Shapes that do not fit: found while Dynamo traces, told with the user's line."""
    settings = {"dynamic": False}
    plain, lens = (run(scenes.failure, backend, settings, folders, 5) for backend in ("inductor", "lens"))
    assert plain[0] == "call"
    assert "x = self.first(x).relu()" in plain[2]
    assert lens == plain


def test_mode_and_options_together_are_the_same_error(folders: Folders) -> None:
    """torch says so before it looks at the backend."""
    settings = {"mode": "max-autotune", "options": {"max_fusion_size": 1}}
    plain, lens = (run(scenes.failure, backend, settings, folders) for backend in ("inductor", "lens"))
    assert plain[0] == "compile"
    assert lens == plain


@pytest.mark.parametrize("settings", [{"options": {"no_such_option": 1}}, {"mode": "no-such-mode"}], ids=str)
def test_what_inductor_does_not_know_is_its_error_but_later(settings: dict[str, Any], folders: Folders) -> None:
    """torch.compile checks its own backend's mode and options at once, those of a custom backend at the first call.

    There the same text arrives inside of a BackendCompilerFailed, as everything does that a backend raises.
    """
    plain, lens = (run(scenes.failure, backend, settings, folders) for backend in ("inductor", "lens"))
    assert (plain[0], plain[1][0]) == ("compile", "RuntimeError")
    assert lens[0] == "call"
    assert lens[1] == ["BackendCompilerFailed", *plain[1]]
    assert plain[2] in lens[2]
    assert "backend='compiler_lens' raised" in lens[2]


def _is_installed() -> bool:
    return any(entry.name == "compiler_lens" for entry in metadata.entry_points(group="torch_dynamo_backends"))


@pytest.mark.skipif(not _is_installed(), reason="torch finds backends by name only in installed packages")
def test_it_is_a_backend_by_name(folders: Folders) -> None:
    """One lens for all that name it."""
    result, compilations, is_one = run(scenes.by_name, folders)
    assert result == [1.0, 2.0, 3.0]
    assert compilations == 2
    assert is_one


def test_torch_lists_the_same_backends(folders: Folders) -> None:
    """What stands for open lenses in torch's registry is not for users."""
    before, between, after = run(scenes.backends)
    assert before == between == after


@pytest.mark.parametrize("backend", [pytest.param("lens", marks=pytest.mark.long), "with"])
def test_torch_says_the_same_in_its_own_logs(backend: str, folders: Folders) -> None:
    """Graph breaks with the user's stack, recompiles with their reasons, the recompile limit, warnings."""
    plain, lens = (run(scenes.said, kind, folders) for kind in ("inductor", backend))
    assert any("Graph break" in line for line in plain)
    assert any("recompile_limit" in line for line in plain)
    assert lens == plain
