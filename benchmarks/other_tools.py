"""What others make of the same recording: torch's FxGraphDrawer with Graphviz, and tlparse; where they are there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compiler_lens.recording.model import GraphStage, Recording

LIMIT = 60  # seconds that each gets


# A process of its own, as the most memory of a child is at least that of its parent.
_WATCHED = """
import json, resource, subprocess, sys
try:
    subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, check=True, timeout=float(sys.argv[1]))
except subprocess.TimeoutExpired:
    sys.exit("null")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss // 1024]))
"""


def ran(command: Sequence[str | Path], *, given: bytes = b"") -> tuple[float, int] | None:
    """CPU seconds and the most memory (MiB) of a whole process; None where it took too long."""
    watched = [sys.executable, "-c", _WATCHED, str(LIMIT), *map(str, command)]
    done = subprocess.run(watched, input=given, capture_output=True, check=False)
    if done.returncode and done.stderr.strip() == b"null":
        return None
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def flat_drawing(recording: Recording) -> str:
    """How long FxGraphDrawer and `dot` take for the Dynamo graph, flat, as Graphviz gets it from other tools."""
    dot = shutil.which("dot")
    if dot is None:
        return "No `dot` on the PATH: FxGraphDrawer is not compared."
    from torch import fx
    from torch.fx.passes.graph_drawer import FxGraphDrawer

    graph = max((g for g in recording.graphs if g.stage is GraphStage.DYNAMO), key=lambda g: len(g.nodes))
    copy, values = fx.Graph(), {}
    for node in graph.nodes:
        inputs = tuple(values[name] for name in node.inputs if name in values)
        op, target = ("call_function", len) if inputs else ("placeholder", node.name)
        values[node.name] = copy.create_node(op, target, inputs, name=node.name)
    text = FxGraphDrawer(fx.GraphModule({}, copy), "flat").get_dot_graph().to_string()
    took = ran([dot, "-Tsvg"], given=text.encode())
    told = f"{took[0]:.1f} s" if took else f"not done after {LIMIT} s"
    return f"FxGraphDrawer and dot, the Dynamo graph alone, flat, {len(graph.nodes):,} nodes: {told}."


def print_logs(logs: Sequence[tuple[str, Path]]) -> None:
    """One row for each tool and log: seconds, files, bytes."""
    print("| log | MB | | CPU | memory | files | MB |\n|---|---|---|---|---|---|---|")
    tlparse = shutil.which("tlparse")
    with tempfile.TemporaryDirectory() as temporary:
        for name, log in logs:
            out = Path(temporary, "out")
            ours = [sys.executable, "-m", "compiler_lens", "report", log, "-o", out / "page.html"]
            theirs = [tlparse, log, "-o", out, "--overwrite", "--no-browser"] if tlparse else None
            for tool, command in (("compiler-lens report", ours), ("tlparse", theirs)):
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir()
                figures = _row(command, out) if command else "not on the PATH"
                print(f"| {name} | {log.stat().st_size / 1e6:.1f} | {tool} | {figures} |", flush=True)
    print()


def _row(command: Sequence[str | Path], out: Path) -> str:
    took = ran(command)
    if took is None:
        return f"not done after {LIMIT} s"
    files = [path for path in out.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    return f"{took[0]:.2f} s | {took[1]} MiB | {len(files)} | {size:.1f}"
