"""Write the gold files anew, to be looked at: `python tests/pictures/renew.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import made
from test_svg import GOLD, PICTURES

from compiler_lens import draw

for name, (recording, stage) in PICTURES.items():
    drawing = draw(made.recorded(recording), stage)
    drawing.save(GOLD / f"{name}.svg")
    if drawing.level:
        drawing.save(GOLD / f"{name}.dot")
