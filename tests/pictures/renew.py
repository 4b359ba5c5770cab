"""Write the gold files anew, and from them the pictures of the manual, to be looked at: `python tests/pictures/renew.py`."""

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import made
from test_svg import GOLD, PICTURES

from compiler_lens import draw

MANUAL = Path(__file__).parent.parent.parent / "docs" / "pictures"

for name, (recording, stage) in PICTURES.items():
    drawing = draw(made.recorded(recording), stage)
    drawing.save(GOLD / f"{name}.svg")
    if drawing.level:
        drawing.save(GOLD / f"{name}.dot")
for picture in MANUAL.glob("*.svg"):
    shutil.copy(GOLD / picture.name, picture)
