"""The laws of harmlessness on the other half of the zoo's models, in inference: a file is what one worker runs."""

import laws
import pytest

SPECIMENS = laws.parameters(training=False, half=1)


@pytest.fixture(scope="module", params=SPECIMENS)
def runs(request: pytest.FixtureRequest, folders: laws.Folders) -> laws.Runs:
    """The runs of one specimen, each made when a test first asks for it."""
    return laws.Runs(request.param, folders)


class TestInference(laws.Harmless):
    """All of them."""
