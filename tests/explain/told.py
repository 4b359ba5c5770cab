"""Runs programs under a lens or under TORCH_TRACE, and writes down what is said of them: `python told.py how folder names`.

In a process of its own: what a log, a saved file or a warm cache knows must not come from this process's memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]


def program(name: str) -> tuple[Any, Any]:
    """A toy or a model of ours, and its calls."""
    import models
    import torch
    import toys

    torch.manual_seed(0)
    found = getattr(toys, name, None) or getattr(models, name)
    if isinstance(found, type):
        return found(), [(torch.rand(*((1, 32, 32) if name == "Attention" else (6, 16))) + 0.1,)] * 2
    return found, [(torch.rand(4, 4) + 0.1,)] * 2


def structure(explanation: Any) -> dict[str, Any]:
    """What must be the same wherever it comes from."""
    cards = [
        {
            "place": [Path(card.place.file).name, card.place.line],
            "gb_type": card.gb_type,
            "events": len(card.events),
            "direct": card.direct,
            "outcomes": [[outcome.value, n] for outcome, n in card.outcomes],
            "remedy": card.remedy and card.remedy.name,
            "rewrite": card.rewrite and list(card.rewrite.after),
        }
        for card in explanation.cards
    ]
    functions = explanation.coverage.functions
    return {
        "cards": cards,
        "treatments": sorted([f.name.name, f.treatment.value, f.own] for f in functions),
        # Without what is benign: how long a phase took is no property of the program.
        "findings": sorted([f.severity.value, type(f.evidence).__name__] for f in explanation.findings if not f.benign),
    }


def live(name: str, folder: Path, backend: str) -> None:
    """Record one program; keep what the lens said, and the recording."""
    import torch

    from compiler_lens import Lens

    function, calls = program(name)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad(), Lens(strict=True, progress=False) as lens:
        compiled = torch.compile(function, backend=backend)
        for call in calls:
            compiled(*call)
        told = structure(lens.explain())
        lens.save(folder / f"{name}.clens")
    (folder / f"{name}.json").write_text(json.dumps(told))


def plain(name: str, backend: str) -> None:
    """Run one program without a lens."""
    import torch

    function, calls = program(name)
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        compiled = torch.compile(function, backend=backend)
        for call in calls:
            compiled(*call)


def logged(name: str, folder: Path, backend: str) -> None:
    """Run one program in a child that has compiled nothing before; the log that torch writes of it gets its own folder."""
    child = multiprocessing.get_context("fork").Process(target=plain, args=(name, backend))
    child.start()
    child.join()
    assert child.exitcode == 0, name
    (log,) = Path(os.environ["TORCH_TRACE"]).glob("*.log")
    (folder / name).mkdir()
    log.rename(folder / name / log.name)


if __name__ == "__main__":
    how, folder, backend, *names = sys.argv[1:]
    import torch

    for name in names:
        torch._dynamo.reset()
        {"live": live, "logged": logged}[how](name, Path(folder), backend)
