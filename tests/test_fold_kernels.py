"""Kernels joined with what our hooks know of them."""

import json
from pathlib import Path

from msgspec.structs import replace

from compiler_lens.decode.kernels import CodeKey, KernelNodes, join_kernels, number_output_codes, read_kernel_nodes
from compiler_lens.decode.output_code import read_output_code
from compiler_lens.decode.tuning import TritonTuning, read_triton_configs, read_triton_kernel_info
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Kernel,
    KernelConfig,
    KernelKind,
    Launch,
    OutputCode,
    Trust,
)

PAYLOADS = Path(__file__).parent / "payloads/2.11/output_code"
ID = CompileId(0, 0)


def launches(count):
    return tuple(Launch(line, ()) for line in range(1, count + 1))


def kernel(name="k", direction=Direction.FORWARD, count=1, aot="0_forward", compile_id=ID, **fields):
    fields.setdefault("kind", KernelKind.TRITON)
    fields.setdefault("meta", {"aot_id": aot})
    return Kernel(compile_id, direction, name, launches=launches(count), **fields)


def told(*entries, direction=Direction.FORWARD, compile_id=ID, cached=False):
    return KernelNodes(compile_id, direction, tuple((name, tuple(nodes.split())) for name, nodes in entries), cached)


def tuning(*rows, name="k", compile_id=ID, **fields):
    return TritonTuning(compile_id, name, tuple(KernelConfig(v, t, chosen=c) for v, t, c in rows), **fields)


def real(name):
    text = (PAYLOADS / f"{name}.txt").read_text()
    return [k for k in read_output_code(Event("inductor_output_code", 0.0, text=text), ID, {}) if isinstance(k, Kernel)]


def events(reader, name, event, **fields):
    metas = json.loads((PAYLOADS / name).read_text())
    metas = metas if isinstance(metas, list) else [metas]
    return [value for meta in metas for value in reader(Event(event, 0.0, meta=meta, **fields), ID, {})]


def test_real_kernels_all_get_exact_nodes_for_every_launch():
    for name in ("gpt_forward_h200", "gpt_max_autotune_forward_h200"):
        nodes = events(read_kernel_nodes, f"{name}.nodes.json", "lens.kernel_nodes")
        joined = join_kernels(real(name), nodes, [])
        assert {k.trust for k in joined} == {Trust.EXACT}
        assert all(launch.nodes for k in joined for launch in k.launches)
        assert sum(len(k.launches) for k in joined) == len(nodes[0].kernels)


def test_real_launches_of_one_library_kernel_are_told_apart():
    nodes = events(read_kernel_nodes, "gpt_forward_h200.nodes.json", "lens.kernel_nodes", cached=True)
    addmm = next(k for k in join_kernels(real("gpt_forward_h200"), nodes, []) if k.name == "extern_kernels.addmm")
    assert [launch.nodes[0] for launch in addmm.launches] == ["addmm", "addmm_1", "addmm_2", "addmm_3"]


def test_real_configs_reach_their_kernels_and_one_is_chosen():
    configs = events(read_triton_configs, "gpt_forward_h200.configs.json", "lens.triton_configs")
    text = (PAYLOADS / "gpt_forward_h200.info.json").read_text()
    known = read_triton_kernel_info(Event("triton_kernel_info", 0.0, text=text), ID, {})
    joined = [k for k in join_kernels(real("gpt_forward_h200"), [], [*configs, *known]) if k.kind is KernelKind.TRITON]
    assert all(sum(c.chosen for c in k.configs) == 1 for k in joined)
    assert {len(k.configs) for k in joined} == {1, 2}
    timed = next(k for k in joined if k.name == "triton_poi_fused__to_copy_1")
    assert timed.configs[0].milliseconds <= timed.configs[1].milliseconds
    assert (timed.configs[0].registers, timed.configs[0].spills) != (None, None)
    assert timed.meta["compile_time_us"] == 55949


def test_lists_of_nodes_go_to_the_launches_in_order():
    (joined,) = join_kernels([kernel(count=3)], [told(("k", "a"), ("k", "b c"), ("other", "x"), ("k", "a"))], [])
    assert [launch.nodes for launch in joined.launches] == [("a",), ("b", "c"), ("a",)]
    assert (joined.nodes, joined.trust) == (("a", "b", "c"), Trust.EXACT)


def test_launches_stay_as_they_are_where_the_counts_differ():
    before = replace(
        kernel(count=2, nodes=("text",), trust=Trust.TEXT), launches=(Launch(1, (), ("text",)), Launch(2, ()))
    )
    (joined,) = join_kernels([before], [told(("k", "a"), ("k", "b"), ("k", "c"))], [])
    assert (joined.nodes, joined.trust, joined.launches) == (("a", "b", "c"), Trust.EXACT, before.launches)


def test_a_kernel_that_no_hook_heard_of_keeps_what_its_text_tells():
    before = kernel(nodes=("text",), trust=Trust.TEXT)
    (joined,) = join_kernels([before], [told(("other", "x")), told(("k", "y"), compile_id=CompileId(1, 0))], [])
    assert joined == before
    (emptied,) = join_kernels([before], [told(("k", ""))], [])
    assert (emptied.nodes, emptied.trust) == (("text",), Trust.TEXT)


def test_forward_and_backward_have_kernels_of_one_name_and_nodes_of_their_own():
    pair = [kernel(), kernel(direction=Direction.BACKWARD, aot="0_backward")]
    joined = join_kernels(pair, [told(("k", "b"), direction=Direction.BACKWARD), told(("k", "f"))], [])
    assert [k.nodes for k in joined] == [("f",), ("b",)]


def test_on_a_cache_hit_an_inference_graph_may_be_called_forward():
    (joined,) = join_kernels(
        [kernel(direction=Direction.INFERENCE, aot="0_inference")], [told(("k", "a"), cached=True)], []
    )
    assert (joined.nodes, joined.trust, joined.direction) == (("a",), Trust.EXACT, Direction.INFERENCE)


def test_several_output_codes_of_one_compilation_are_numbered_and_keep_their_nodes_apart():
    split = [kernel(aot="0_forward"), kernel("m", aot="0_forward"), kernel(aot="1_forward")]
    joined = join_kernels(split, [told(("k", "a"), ("m", "b")), told(("k", "c"))], [])
    assert [(k.ordinal, k.nodes) for k in joined] == [(0, ("a",)), (0, ("b",)), (1, ("c",))]


def test_nodes_that_cannot_be_told_apart_go_to_every_kernel_of_that_name_but_to_no_launch():
    joined = join_kernels([kernel(aot="0_forward"), kernel(aot="1_forward")], [told(("k", "a"), ("k", "b"))], [])
    assert [k.nodes for k in joined] == [("a", "b")] * 2
    assert {launch.nodes for k in joined for launch in k.launches} == {()}


def test_output_codes_are_numbered_as_their_kernels_are():
    codes = [OutputCode(ID, p, f"# AOT ID: ['{a}']\n") for p, a in (
        (Direction.FORWARD, "0_forward"), (Direction.BACKWARD, "0_backward"), (Direction.FORWARD, "1_forward"),
    )]  # fmt: skip
    assert [c.ordinal for c in number_output_codes(codes)] == [0, 0, 1]


def test_an_output_code_has_the_key_of_the_graph_that_was_done_at_its_place():
    aots = [("0_forward", Direction.FORWARD), ("1_forward", Direction.FORWARD), ("0_backward", Direction.BACKWARD)]
    codes = [OutputCode(ID, direction, f"# AOT ID: ['{aot}']") for aot, direction in aots]
    keys = [
        CodeKey(ID, direction, key)
        for direction, key in zip((Direction.INFERENCE, Direction.FORWARD, Direction.BACKWARD), "abc", strict=True)
    ]
    assert [c.key for c in number_output_codes(codes, keys)] == ["a", "b", "c"]
    assert [c.key for c in number_output_codes(codes, keys[1:])] == ["", "", "c"]  # whose the one is, nobody knows


def test_a_kernel_has_each_config_once_the_fastest_first_and_the_last_choice_holds():
    small, large = {"XBLOCK": 64}, {"XBLOCK": 256}
    first = tuning((large, 3.0, True), (small, 4.0, False))
    second = tuning((large, 3.5, False), (small, 1.0, True))
    (joined,) = join_kernels([kernel()], [], [first, second])
    assert joined.configs == (KernelConfig(small, 1.0, chosen=True), KernelConfig(large, 3.5))


def test_tunings_of_one_name_go_to_forward_and_backward_in_the_order_of_compiling():
    pair = [kernel(), kernel(direction=Direction.BACKWARD, aot="0_backward")]
    joined = join_kernels(pair, [], [tuning(({"XBLOCK": 1}, 1.0, True)), tuning(({"XBLOCK": 2}, 1.0, True))])
    assert [k.configs[0].values["XBLOCK"] for k in joined] == [1, 2]


def test_a_tuning_that_may_be_of_either_kernel_is_given_to_none():
    pair = [kernel(), kernel(direction=Direction.BACKWARD, aot="0_backward")]
    assert [k.configs for k in join_kernels(pair, [], [tuning(({"XBLOCK": 1}, 1.0, True))])] == [(), ()]


def test_torchs_word_on_the_config_is_taken_where_nothing_was_timed():
    known = tuning(({"XBLOCK": 8}, None, True), info={"autotune_cache_state": "hit"})
    (joined,) = join_kernels([kernel()], [], [known])
    assert joined.configs == (KernelConfig({"XBLOCK": 8}, chosen=True),)
    assert joined.meta["autotune_cache_state"] == "hit"
    (timed,) = join_kernels([kernel()], [], [known, tuning(({"XBLOCK": 4}, 1.0, True))])
    assert [c.values["XBLOCK"] for c in timed.configs] == [4]


def test_a_template_keeps_the_config_that_its_source_tells():
    own = KernelConfig({"BLOCK_M": 64, "num_warps": 4}, chosen=True)
    known = tuning(({"num_warps": 4}, None, True), info={"autotune_cache_state": "only 1 config"})
    (joined,) = join_kernels([kernel(kind=KernelKind.TEMPLATE, configs=(own,))], [], [known])
    assert joined.configs == (own,)


def test_a_users_kernel_is_found_under_the_name_it_is_compiled_as():
    user = kernel("add_kernel_0", meta={"aot_id": "0_forward", "compiled_as": "add_kernel"})
    (joined,) = join_kernels([user], [], [tuning(({"BLOCK": 1}, 1.0, True), name="add_kernel")])
    assert joined.configs[0].values == {"BLOCK": 1}


def test_after_coordinate_descent_the_fastest_config_timed_is_not_called_chosen():
    descended = kernel(meta={"aot_id": "0_forward", "coordinate_descent_tuning": True})
    timed = tuning(({"XBLOCK": 64}, 1.0, True), ({"XBLOCK": 32}, 2.0, False))
    (joined,) = join_kernels([descended], [], [timed])
    assert [c.chosen for c in joined.configs] == [False, False]
    (ended,) = join_kernels([descended], [], [timed, tuning(({"XBLOCK": 48}, None, True))])
    assert [c.values["XBLOCK"] for c in ended.configs if c.chosen] == [48]


def test_joining_nothing_is_nothing():
    assert join_kernels([], [told(("k", "a"))], [tuning(({}, 1.0, True))]) == ()
