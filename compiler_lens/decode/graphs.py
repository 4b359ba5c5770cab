"""Joins what torch printed of the graphs with what our hooks saw of their nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from compiler_lens.decode import origins
from compiler_lens.decode.graph_text import GraphText
from compiler_lens.decode.origins import TRAINING, Facts, NodeFacts, Nodes
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import POST_GRADS, CompileId, Direction, GraphStage
from compiler_lens.recording.model import Decomposition, Graph, SavedTensor, Trust
from compiler_lens.recording.torch_names import GRAPH_RECORDS, record_stage

# Facts are of a graph if they know at least this part of its ops. The names in a text are those of the live nodes,
# but for the rare one that collides with a function's; torch removes part of a joint graph's ops before splitting it.
_SHARE = 0.9
_JOINT_SHARE = 0.5

Staged = tuple[GraphStage, GraphText, Facts | None]


def join_graphs(
    texts: Iterable[GraphText], facts: Iterable[NodeFacts], passes: Mapping[CompileId, Sequence[Direction]]
) -> tuple[Graph, ...]:
    """Return the graphs of all compilations, in the order of `texts`.

    `passes` are those of each compilation's output codes, in order: torch sends a post-grad graph before its
    output code, and does not say of which pass it is. Of what only these iterables hold, each text is let go of when
    it is joined.
    """
    texts_of = grouped(enumerate(texts), lambda item: item[1].compile_id)
    facts_of = grouped(facts, lambda each: each.compile_id)
    joined: dict[int, Graph] = {}
    for compile_id in tuple(texts_of):
        positions, own = zip(*texts_of.pop(compile_id), strict=True)
        stages = _stages(own, passes.get(compile_id, ()))
        staged = _with_joint_facts(_match_facts(own, stages, facts_of.pop(compile_id, ())))
        del own
        for index, graph in _join_compilation(staged):
            joined[positions[index]] = graph
    return tuple(graph for _, graph in sorted(joined.items(), key=lambda item: item[0]))


def _join_compilation(staged: dict[int, Staged]) -> Iterator[tuple[int, Graph]]:
    """Takes each graph out of the table to join it."""
    of_stage = grouped([(stage, text.nodes) for stage, text, _ in staged.values()], lambda item: item[0])
    dynamo = {
        i: origins.join_dynamo(text, known) for i, (stage, text, known) in staged.items() if stage is GraphStage.DYNAMO
    }
    joints = [nodes for _, nodes in of_stage.get(GraphStage.AOT_JOINT, ())]
    program = origins.program_of(
        [(nodes, subgraphs) for _, nodes, subgraphs in dynamo.values()],
        [known for stage, _, known in staged.values() if stage in TRAINING and known],
        tuple(chain.from_iterable(joints)),
        joints or [nodes for _, nodes in of_stage.get(GraphStage.AOT_INFERENCE, ())],
    )
    both = zip(of_stage.get(GraphStage.AOT_FORWARD, ()), of_stage.get(GraphStage.AOT_BACKWARD, ()), strict=False)
    saved = [_saved(forward, backward) for (_, forward), (_, backward) in both]
    del of_stage, joints
    ordinals: Counter[GraphStage] = Counter()
    for i in tuple(staged):
        stage, text, known = staged.pop(i)
        ordinal = ordinals[stage]
        ordinals[stage] += 1
        trust, nodes, subgraphs = dynamo.get(i) or origins.join_lowered(stage, text, known, program)
        kept = saved[ordinal] if stage is GraphStage.AOT_FORWARD and ordinal < len(saved) else ()
        yield i, Graph(text.compile_id, stage, text.code, nodes, ordinal, trust, kept, subgraphs)


def _stages(texts: Sequence[GraphText], passes: Sequence[Direction]) -> list[GraphStage]:
    stages = [GRAPH_RECORDS[text.name] for text in texts]
    of_graph = iter(passes if len(passes) == stages.count(GraphStage.POST_GRAD) else ())
    for i, text in enumerate(texts):
        if stages[i] is GraphStage.POST_GRAD and (next(of_graph, None) is Direction.BACKWARD or text.takes_gradients):
            stages[i] = GraphStage.POST_GRAD_BACKWARD
    return stages


def _match_facts(
    texts: Sequence[GraphText], stages: Sequence[GraphStage], facts: Sequence[NodeFacts]
) -> dict[int, Staged]:
    """To each graph the first facts of its stage, not yet taken, that know its nodes; by position.

    Without the graphs of attempts that torch gave up. The attempts of one stage only are compared: a backward that is
    compiled later counts as attempt 0 again.
    """
    unused: dict[str, list[Facts]] = defaultdict(list)
    for each in facts:
        unused[each.stage].append({fact.name: fact for fact in each.facts})
    last: dict[GraphStage, int] = defaultdict(int)
    matched: list[Staged] = []
    for stage, text in zip(stages, texts, strict=True):
        pool = unused[record_stage(stage).value]
        found = next((i for i, each in enumerate(pool) if _knows(each, text.nodes, _SHARE)), None)
        matched.append((stage, text, None if found is None else pool.pop(found)))
        last[stage] = max(text.attempt, last[stage])
    return {i: each for i, each in enumerate(matched) if each[1].attempt == last[each[0]]}


def _knows(facts: Facts, nodes: Nodes, share: float) -> bool:
    ops = [node for node in nodes if node.op.startswith("call_")] or nodes
    return sum(node.name in facts for node in ops) >= share * len(ops)


def _with_joint_facts(staged: Mapping[int, Staged]) -> dict[int, Staged]:
    """Joint graphs with the facts of the forward and the backward that they are split into: nodes keep their names."""
    forwards = (known or {} for stage, _, known in staged.values() if stage is GraphStage.AOT_FORWARD)
    backwards = (known or {} for stage, _, known in staged.values() if stage is GraphStage.AOT_BACKWARD)
    joined = dict(staged)
    for i, (stage, text, known) in staged.items():
        if stage is GraphStage.AOT_JOINT:
            both = {**next(backwards, {}), **next(forwards, {})}
            joined[i] = (stage, text, known or (both if both and _knows(both, text.nodes, _JOINT_SHARE) else None))
    return joined


def _saved(forward: Nodes, backward: Nodes) -> tuple[SavedTensor, ...]:
    """What the forward returns and the backward takes under the same name; tensors only, no sizes."""
    taken = {node.name for node in backward if node.op == "placeholder"}
    nodes = {node.name: node for node in forward}
    returned = next((node.inputs for node in reversed(forward) if node.op == "output"), ())
    kept = [nodes[name] for name in dict.fromkeys(returned) if name in taken and nodes[name].specs]
    return tuple(SavedTensor(node.name, node.specs[0], node.op == "placeholder") for node in kept)


_DOUBT = (Trust.UNKNOWN, Trust.TEXT, Trust.EXACT)
_LOWERED = TRAINING - POST_GRADS | {GraphStage.AOT_INFERENCE}


def decompositions(graphs: Sequence[Graph]) -> tuple[Decomposition, ...]:
    """Return what became of each op of the user's programs, as far as the nodes' origins are known."""
    by_compilation = grouped(graphs, lambda graph: graph.compile_id)
    return tuple(found for own in by_compilation.values() for found in _decompositions(own))


def _decompositions(graphs: Sequence[Graph]) -> Iterator[Decomposition]:
    # Of the joint graphs, which hold both passes whole, or the next best; only those with known origins.
    known = [graph for graph in graphs if graph.origins is not Trust.UNKNOWN and graph.stage in _LOWERED]
    joint = [graph for graph in known if graph.stage is GraphStage.AOT_JOINT]
    lowered = joint or known
    if not lowered:
        return
    trust = min((graph.origins for graph in lowered), key=_DOUBT.index)
    became: dict[bool, dict[str, list[str]]] = {False: defaultdict(list), True: defaultdict(list)}  # by `backward`
    shared: set[str] = set()  # Dynamo nodes on one line with others: it does not say which of them an op came from
    for graph in lowered:
        for node in graph.ops:
            shared.update(node.origins if len(node.origins) > 1 else ())
            # The backward graph computes parts of the forward anew: those are in the forward graph as well.
            is_anew = graph.stage is GraphStage.AOT_BACKWARD and not node.backward
            if node.target.startswith("torch.ops.") and not is_anew:
                for origin in node.origins:
                    became[node.backward][origin].append(node.target.removeprefix("torch.ops."))
    for graph in graphs:
        if graph.stage is GraphStage.DYNAMO:
            inner = [op for each in graph.subgraphs for op in origins.program_ops(f"{each.name}.", each.nodes)]
            for name, node in origins.program_ops("", graph.nodes) + inner:
                ops = tuple(became[False].get(name, ())), tuple(became[True].get(name, ()))
                if trust is Trust.EXACT or (any(ops) and name not in shared):
                    yield Decomposition(graph.compile_id, name, node.target, *ops, trust)
