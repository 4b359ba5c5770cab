"""Everything that a recording means, as one value."""

import pytest
import sample_recordings as samples

from compiler_lens.facts.overview.explanation import explain


@pytest.mark.parametrize("show", [str, repr])
def test_printed_it_says_what_it_has_by_name(show):
    explained = explain(samples.many(400))
    told = show(explained)
    assert len(told) < 120
    assert told.startswith(f"<Explanation coverage.functions: {len(explained.coverage.functions)}, ")
    for name in ("cards", "recompiles", "findings"):
        assert f"{name}: {len(getattr(explained, name))}" in told
