"""Makes this folder's modules importable, and the recordings made by hand."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gold")]
