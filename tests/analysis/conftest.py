"""Makes `sample_recordings` importable: recordings built by hand, shared by the tests of several rooms."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "gold"))
