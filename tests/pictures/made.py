"""Graphs made by hand, and the recordings that the tests of pictures share."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from compiler_lens import load
from compiler_lens.facts.graphs.levels import levels
from compiler_lens.recording.model import CompileId, Graph, GraphStage, Node, Recording, SourceLine, TensorSpec

ID = CompileId(0, 0)
DATA = Path(__file__).parent / "data"
GPU = Path(__file__).parent.parent / "gpu" / "data"
SPEC = (TensorSpec("f32", (8, 16)),)


def op(name, *inputs, target="torch.ops.aten.add.Tensor", module="", source=(), specs=SPEC, **others):
    arguments = ", ".join(inputs)
    return Node(name, "call_function", target, inputs, specs, source, module, arguments=arguments, **others)


def graph_of(ops, inputs=("x",), outputs=None, stage=GraphStage.DYNAMO, **others):
    given = [Node(name, "placeholder", f"L_{name}_", specs=SPEC) for name in inputs]
    last = tuple(outputs if outputs is not None else [ops[-1].name] if ops else inputs)
    end = Node("output", "output", "output", last, arguments=f"({', '.join(last)},)")
    return Graph(ID, stage, "", (*given, *ops, end), **others)


def levels_of(ops, **others):
    graph = graph_of(ops, **others)
    return levels(Recording(graphs=(graph,)), graph)


def chain(count, **others):
    return [op(f"n{k}", f"n{k - 1}" if k else "x", **others) for k in range(count)]


def blocks(count, width=8):
    """A model of so many equal blocks."""
    ops, last = [], "x"
    for number in range(count):
        for place in range(width):
            name = f"b{number}_{place}"
            ops.append(op(name, last, target=f"torch.op{place}", module=f"layers.{number}.part{place // 4}"))
            last = name
    return ops


def wild(count, seed=0):
    """A graph of any shape, with modules called several times, lines, and ops with several results."""
    rng = random.Random(seed)
    ops, names = [], ["x"]
    for number in range(count):
        read = [rng.choice(names[-30:]) for _ in range(rng.randint(0, 3))]
        module = rng.choice(["", "a", "a.b", "a.b.c", "layers.0", "layers.1", "layers.1.x", "z"])
        line = (
            (SourceLine("model.py", rng.randint(1, 9), rng.choice(["f", "g"]), "y = x"),) if rng.random() < 0.9 else ()
        )
        several = rng.random() < 0.05
        made = op(f"w{number}", *read, module=module, source=line, specs=() if several else SPEC)
        ops.append(made)
        if several:
            for part in range(2):
                ops.append(op(f"w{number}_{part}", made.name, target="operator.getitem", module=module, source=line))
                names.append(ops[-1].name)
        else:
            names.append(made.name)
    return ops


@cache
def recorded(name):
    return load((DATA if (DATA / f"{name}.clens.gz").exists() else GPU) / f"{name}.clens.gz")
