"""Which autotuning decided on a launch: on a recording of a GPU, its winner is what runs."""

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.source import constants
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import Tuned, run_otherwise
from compiler_lens.facts.program.select import EVERYTHING
from compiler_lens.recording.model import KernelKind
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.views import autotune

DATA = Path(__file__).parent.parent / "gpu" / "data"


@pytest.mark.parametrize("name", ["gpt-max-autotune-cold", "resnet-max-autotune-cold"])
def test_the_winner_is_what_runs(name: str) -> None:
    recording = load(DATA / f"{name}.clens.gz", strict=True)
    tuned, found = Tuned.of(recording), []
    for lineage in Provenance.of(recording).lineages:
        result = tuned.result([lineage])
        if result is None or result.winner is None:
            continue
        found.append(result)
        assert lineage.kernel.kind in {KernelKind.TEMPLATE, KernelKind.EXTERN, KernelKind.FALLBACK}
        values = dict(part.partition("=")[::2] for part in result.winner.detail.replace("'", "").split(", "))
        if lineage.kernel.kind is KernelKind.TEMPLATE and result.winner.kind is KernelKind.TEMPLATE:
            shared = constants(lineage.kernel).keys() & values.keys()
            assert {"BLOCK_M", "BLOCK_N", "BLOCK_K"} <= shared
            assert {key: constants(lineage.kernel)[key] for key in shared} == {key: values[key] for key in shared}
    assert len({id(result) for result in found}) >= len(recording.autotunes) // 2


def test_one_of_several_is_none() -> None:
    recording = load(DATA / "gpt-max-autotune-cold.clens.gz", strict=True)
    again = tuple(replace(one) for one in recording.autotunes)
    twice = replace(recording, autotunes=recording.autotunes + again)
    lineages = Provenance.of(recording).lineages
    assert any(Tuned.of(recording).result([one]) for one in lineages)
    assert not any(Tuned.of(twice).result([one]) for one in lineages)
    several = Counter((one.op, one.inputs) for one in recording.autotunes)
    answers = [result for one in lineages if (result := Tuned.of(recording).result([one]))]
    assert all(several[result.op, result.inputs] == 1 for result in answers)


def test_launches_of_another_kind_than_the_winner_are_told() -> None:
    """Two products that the library won run as a template, with a cast or a gelu fused into it."""
    recording = load(DATA / "gpt-max-autotune-cold.clens.gz", strict=True)
    found = run_otherwise(recording, Provenance.of(recording).lineages)
    others = [(one, found[index]) for index, one in enumerate(recording.autotunes) if index in found]
    assert others
    for result, other in others:
        assert result.winner
        assert (result.winner.kind is KernelKind.TEMPLATE) is not (other.kind is KernelKind.TEMPLATE)
        kinds = {kernel.kind for kernel in recording.kernels if kernel.name in other.kernels}
        assert kinds == {other.kind}
    told = view(recording, "autotune", page_for(recording, width=200, color=False), EVERYTHING)
    assert told.count("the winner is not what runs: ") == len(others)
    assert "(template). Where work round a product can be fused into it, torch chooses again" in told
    assert sum("not what runs" in one.runs_otherwise for one in autotune.document(recording, EVERYTHING).data.results)
    changes = diff(load(DATA / "gpt-default-cold.clens.gz", strict=True), recording).autotunes
    assert {one.after_runs for one in changes} == {None, *(other for _, other in others)}
    assert not any(one.before_runs for one in changes)
