"""Put measured tables and charts into docs/modes.md: `python benchmarks/modes_docs.py FOLDER`, which holds the JSONs.

FOLDER is what the examples wrote with `-o`: modes_resnet152.json and its SVG, and so on. What is not there is left out.
"""

import re
import shutil
import sys
from pathlib import Path

from compiler_lens import Modes

DOCS = Path(__file__).parent.parent / "docs"


def block(name: str, folder: Path) -> str:
    """What stands between the marks of one example."""
    result = Modes.from_json((folder / f"{name}.json").read_text(encoding="utf-8"))
    table = "\n".join(f"    {line}".rstrip() for line in result.report(width=100, color=False).splitlines())
    return f"![{name}](images/{name}.svg)\n\n{table}\n"


def main() -> None:
    folder = Path(sys.argv[1])
    page = DOCS / "modes.md"
    text = page.read_text(encoding="utf-8")
    (DOCS / "images").mkdir(exist_ok=True)
    for name in re.findall(r"<!-- (\w+): begin -->", text):
        if not (folder / f"{name}.json").exists():
            print(f"no {name}.json in {folder}")
            continue
        shutil.copyfile(folder / f"{name}.svg", DOCS / "images" / f"{name}.svg")
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        text = head + begin + "\n" + block(name, folder) + "\n" + end + rest.partition(end)[2]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
