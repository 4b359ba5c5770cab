"""What our hooks saw of live graphs."""

import json
from pathlib import Path

import pytest

from compiler_lens.decode.origins import NodeFact, module_path, read_node_facts
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine

PAYLOADS = Path(__file__).parent.parent / "payloads"
LINES = (
    SourceLine("/home/user/app/ex.py", 27, "forward", "return self.blocks(x).pow(2).mean()"),
    SourceLine("/home/user/app/ex.py", 15, "<lambda>", 'h = self.layers["0"](self.norm(x))'),
)
STACK = """  File "/home/user/app/ex.py", line 27, in forward
    return self.blocks(x).pow(2).mean()
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/user/app/ex.py", line 15, in <lambda>
    h = self.layers["0"](self.norm(x))
"""


def read(text, stage="forward", **event):
    (facts,) = read_node_facts(
        Event("lens.node_facts", 0.0, meta={"stage": stage}, text=text, **event), CompileId(0, 0), {}
    )
    return facts


def test_each_row_is_a_fact_with_its_module_and_stack():
    text = json.dumps({
        "modules": [["L['self'].layers.0", "Linear"]],
        "stacks": ["", STACK],
        "nodes": [["mm", ["linear"], 0, "aten.mm.default", 7, 1], ["x", [], -1, "", None, -1]],
    })  # fmt: skip
    facts = read(text, stage="joint", attempt=3, cached=True)
    assert (facts.stage, facts.attempt, facts.cached) == ("joint", 3, True)
    linear, plain = facts.facts
    assert linear == NodeFact("mm", "layers.0", "Linear", ("linear",), "aten.mm.default", 7, LINES)
    assert plain == NodeFact("x")


def test_a_sum_of_gradients_loses_a_number_that_is_of_another_op():
    stack = "Gradient addition node due to multiple use of tensor around:, " + STACK
    text = json.dumps({"modules": [], "stacks": [stack], "nodes": [["add_2", [], -1, "aten.add.Tensor", 86, 0]]})
    assert read(text).facts[0].seq_nr is None


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("L['self'].layers.0.attn", "layers.0.attn"),
        ("L['self']", ""),
        ("L['fn'].0.norm_1", "0.norm_1"),
        ("L['model'].head", "model.head"),
        ("G['encoder']", "encoder"),
        ("L['self'].parts['k']", "parts.k"),
        ("L['self'].plain[0].up", "plain.0.up"),
        ("layers.0", "layers.0"),
    ],
)
def test_a_module_is_called_as_the_user_calls_it(name, path):
    assert module_path(name) == path


@pytest.mark.parametrize(
    ("receiver", "paths"),
    [
        ({"receiver": "me"}, ["block.lin", "self.lin", "model.block"]),
        ({"receiver": "fn"}, ["me.block.lin", "self.lin", "model.block"]),
        ({"receiver": ""}, ["me.block.lin", "lin", "model.block"]),
        ({}, ["me.block.lin", "lin", "model.block"]),
    ],
)
def test_what_a_method_calls_its_module_is_no_part_of_the_path(receiver, paths):
    names = ["L['me'].block.lin", "L['self'].lin", "G['model'].block"]
    values = {"modules": [[name, "Linear"] for name in names], "stacks": []}
    text = json.dumps(values | {"nodes": [[f"n{i}", [], i, "", None, -1] for i in range(len(names))]})
    event = Event("lens.node_facts", 0.0, meta={"stage": "dynamo"} | receiver, text=text)
    (facts,) = read_node_facts(event, CompileId(0, 0), {})
    assert [fact.module for fact in facts.facts] == paths


@pytest.mark.parametrize("version", ["2.11", "2.13", "2.15"])
def test_real_facts_know_every_module_of_the_program(version):
    facts = read((PAYLOADS / version / "graphs/train.dynamo.facts.json").read_text(), stage="dynamo")
    modules = {fact.module for fact in facts.facts}
    assert modules >= {"blocks.0", "blocks.1.norm", "blocks.1.layers.0", "blocks.1.layers.a-b", "blocks.1"}
    stack = next(fact for fact in facts.facts if fact.name == "gelu").source
    assert [(line.line, line.function) for line in stack] == [(27, "forward"), (16, "forward")]


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"modules": [], "stacks": [], "nodes": [["a"]]}'])
def test_facts_of_another_form_are_a_payload_error(text):
    with pytest.raises(PayloadError):
        read(text)
