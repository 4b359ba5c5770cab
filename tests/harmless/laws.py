"""What must be the same with a lens and without it, whatever the model."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pytest
import zoo
from observation import Folders, Observation, observe, run

from compiler_lens import explain


@dataclass(frozen=True)
class Runs:
    """One specimen, run in a process of its own for each question."""

    specimen: zoo.Specimen
    folders: Folders

    @functools.cached_property
    def plain(self) -> Observation:
        """Inductor on empty caches."""
        return self._run("inductor", "plain")

    @functools.cached_property
    def lens(self) -> Observation:
        """A lens as backend on empty caches."""
        return self._run("lens", "lens")

    @functools.cached_property
    def plain_again(self) -> Observation:
        """Inductor on the caches that a lens filled."""
        return self.lens and self._run("inductor", "lens")

    @functools.cached_property
    def lens_again(self) -> Observation:
        """A lens as backend on the caches that Inductor filled."""
        return self.plain and self._run("lens", "plain")

    @functools.cached_property
    def open_lens(self) -> Observation:
        """Inductor as backend while a lens is open, on the caches that a lens filled."""
        return self.lens and self._run("with", "lens")

    def _run(self, backend: str, label: str) -> Observation:
        return run(observe, self.specimen.name, backend, self.folders, f"{self.specimen.name}-{label}")


def parameters(*, training: bool) -> list[Any]:
    """The specimens of a kind, as parameters of a fixture."""
    return [
        pytest.param(specimen, id=specimen.name, marks=[pytest.mark.long] if specimen.is_slow else [])
        for specimen in zoo.SPECIMENS
        if specimen.training is training
    ]


class Harmless:
    """To be inherited with a fixture `runs`."""

    def test_results_are_the_same_bit_for_bit(self, runs: Runs) -> None:
        """Outputs of all calls, then parameters, buffers and gradients; their strides too."""
        plain, lens = runs.plain.values, runs.lens.values
        assert [value[:3] for value in lens] == [value[:3] for value in plain]
        differing = [number for number, (a, b) in enumerate(zip(plain, lens, strict=True)) if a != b]
        assert not differing, f"of {len(plain)} tensors"
        assert runs.lens.printed == runs.plain.printed

    def test_output_code_is_the_same(self, runs: Runs) -> None:
        """Text for text, and in the same order: fresh processes number their AOT graphs alike."""
        assert runs.lens.codes == runs.plain.codes

    def test_as_much_is_compiled(self, runs: Runs) -> None:
        """The same compile ids with graphs of the same size, and as many entries on each code object."""
        assert runs.lens.compilations == runs.plain.compilations
        assert runs.lens.entries == runs.plain.entries

    def test_guards_are_the_same(self, runs: Runs) -> None:
        """The lens adds no condition to a compiled frame."""
        assert runs.lens.guards == runs.plain.guards

    def test_all_counters_of_torch_are_the_same(self, runs: Runs) -> None:
        """Frames, graphs, breaks, cache hits and misses, patterns matched, kernels called from outside."""
        assert runs.lens.counters == runs.plain.counters

    def test_caches_are_filled_under_the_same_keys(self, runs: Runs) -> None:
        """An entry written with the lens is the entry that Inductor would look for."""
        assert runs.lens.keys == runs.plain.keys

    def test_each_hits_what_the_other_put_in_the_caches(self, runs: Runs) -> None:
        """A second process compiles and saves nothing, and gets the same results."""
        graphs = count(runs.plain, "fxgraph_cache_hit") + count(runs.plain, "fxgraph_cache_miss")
        for again in (runs.lens_again, runs.plain_again):
            assert count(again, "fxgraph_cache_hit") == graphs
            assert count(again, "fxgraph_cache_miss") == count(again, "autograd_cache_saved") == 0
            assert again.values == runs.plain.values
            assert sorted(again.codes) == sorted(runs.plain.codes)
        assert runs.lens_again.counters == runs.plain_again.counters
        assert runs.lens_again.guards == runs.plain_again.guards

    def test_an_open_lens_changes_as_little(self, runs: Runs) -> None:
        """The context manager, which listens to compilations of any backend."""
        assert runs.open_lens.values == runs.plain.values
        assert runs.open_lens.codes == runs.plain_again.codes
        assert runs.open_lens.counters == runs.plain_again.counters
        assert runs.open_lens.compilations == runs.plain_again.compilations

    def test_later_calls_enter_none_of_our_code(self, runs: Runs) -> None:
        """Seen by Python's own profiling: no function of ours, and not one call more than without the lens."""
        assert runs.lens.entered == []
        assert runs.open_lens.entered == []
        assert runs.lens.called == runs.plain.called > 0
        assert runs.lens.grown == runs.plain.grown

    @pytest.mark.parametrize("name", ["lens", "lens_again", "open_lens"])
    def test_every_break_is_recorded_once(self, runs: Runs, name: str) -> None:
        """Beside torch's own calls of log_graph_break, counted without the lens."""
        seen = getattr(runs, name)
        assert len(seen.recording.graph_breaks) == seen.breaks == runs.plain.breaks
        if runs.specimen.breaks is not None:
            assert seen.breaks == runs.specimen.breaks

    @pytest.mark.parametrize("name", ["lens", "lens_again", "open_lens"])
    def test_every_break_is_on_one_card_and_a_clean_model_has_nothing_to_fix(self, runs: Runs, name: str) -> None:
        """Compiled by Inductor, cold and warm."""
        recording = getattr(runs, name).recording
        explained = explain(recording)
        assert sorted(map(id, (e for card in explained.cards for e in card.events))) == sorted(
            map(id, recording.graph_breaks)
        )
        if runs.specimen.breaks == 0:
            left = [f for f in explained.findings if not f.benign]
            assert left == [] or runs.specimen.name == "flagged"

    @pytest.mark.parametrize("name", ["lens", "lens_again", "open_lens"])
    def test_nothing_went_wrong(self, runs: Runs, name: str) -> None:
        """And what was compiled is there: all output codes, cold or from a cache."""
        seen = getattr(runs, name)
        assert seen.recording.problems == ()
        assert len(seen.recording.output_codes) == len(seen.codes)


def count(seen: Observation, name: str) -> int:
    """One of torch's counters, whatever it is filed under."""
    return sum(counts.get(name, 0) for counts in seen.counters.values())
