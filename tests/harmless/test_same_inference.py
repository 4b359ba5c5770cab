"""The laws of harmlessness on the models of the zoo, in inference: five processes a model."""

import laws
import pytest

SPECIMENS = laws.parameters(training=False)


@pytest.fixture(scope="module", params=SPECIMENS)
def runs(request: pytest.FixtureRequest, folders: laws.Folders) -> laws.Runs:
    """The runs of one specimen, each made when a test first asks for it."""
    return laws.Runs(request.param, folders)


class TestInference(laws.Harmless):
    """All of them."""
