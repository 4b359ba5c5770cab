"""Renew the recordings of packages in tests/theirs/recordings: `python -m tests.theirs.record [NAME ...]`.

It wants the packages that the programs import (accelerate, lightning, peft, torch_geometric, torchao, torchmetrics,
transformers), each for itself: a program whose package is not there is left out. What no test looks at is not kept, and paths
are those of nobody.
"""

import gzip
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace

import compiler_lens
from compiler_lens.decode.recording_file import save
from compiler_lens.recording.model import Graph, GraphStage, Node, Recording
from compiler_lens.recording.own_files import is_own

HERE = Path(__file__).parent
PROGRAMS, RECORDINGS = HERE / "programs", HERE / "recordings"
_PATHS = {
    r"[^\"'` (]*/(?:site|dist)-packages/": "/venv/lib/python3.11/site-packages/",
    r"[^\"'` (]*/lib/python3\.\d+/(?!site-packages)": "/usr/lib/python3.11/",
    r"[^\"'` (]*/tests/theirs/programs/": "/home/me/",
}


def main() -> None:
    for name in sys.argv[1:] or sorted(path.stem for path in PROGRAMS.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            whole, path = Path(folder) / "whole.clens", Path(folder) / "kept.clens"
            run = [sys.executable, "-W", "ignore", "-m", "compiler_lens", "run", "--no-report", "-o", str(whole)]
            done = subprocess.run([*run, str(PROGRAMS / f"{name}.py")], check=False, capture_output=True, text=True)
            print(name, done.stderr.strip().splitlines()[-1:] if done.returncode else "recorded", flush=True)
            save(kept(compiler_lens.load(whole)), path)
            text = path.read_text()
        for pattern, instead in _PATHS.items():
            text = re.sub(pattern, instead, text)
        (RECORDINGS / f"{name}.clens.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def kept(recording: Recording) -> Recording:
    """Return what breaks, recompiles and coverage are told from: no text of others, and guards only of what came again."""
    again = {(c.compile_id.of_frame) for c in recording.recompiles}
    return Recording(
        environment=replace(recording.environment, argv=recording.environment.argv[:1]),
        compilations=tuple(replace(c, metrics={}) for c in recording.compilations),
        graph_breaks=recording.graph_breaks,
        recompiles=recording.recompiles,
        guards=tuple(g for g in recording.guards if g.compile_id.of_frame in again),
        graphs=tuple(bare(g) for g in recording.graphs if g.stage is GraphStage.DYNAMO),
        sources=tuple(source for source in recording.sources if is_own(source.file)),
    )


def bare(graph: Graph) -> Graph:
    """Return a graph that can be counted, and so can its ops."""
    nodes = tuple(Node(node.name, node.op, node.target) for node in graph.nodes)
    return Graph(graph.compile_id, graph.stage, "", nodes, graph.ordinal)


if __name__ == "__main__":
    main()
