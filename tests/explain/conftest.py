"""Makes this folder's modules and the zoo importable; what is recorded is kept for a module's tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
