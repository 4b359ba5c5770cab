"""Which autotuning decided on a launch: on a recording of a GPU, its winner is what runs."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.analysis.diff.source import constants
from compiler_lens.analysis.provenance import Provenance
from compiler_lens.analysis.tuned import Tuned
from compiler_lens.model import KernelKind

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
