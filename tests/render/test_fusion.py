"""The view of what was not fused, on a screen and as JSON."""

import json

import pytest
from msgspec.structs import replace

from compiler_lens.facts.kernels.fusion import neighbours
from compiler_lens.facts.kernels.fusion_reasons import Reason
from compiler_lens.facts.kernels.library_calls import Library
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.model import (
    BufferAccess,
    Compilation,
    CompileId,
    Direction,
    Environment,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    Node,
    Outcome,
    Recording,
    TensorSpec,
    UnfusedPair,
)
from compiler_lens.render.console import view
from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.views import fusion, kernel
from compiler_lens.views.text import times

ID = CompileId(0, 0)
LAYERS = 12


def access(name, size=1 << 20):
    return (BufferAccess(name, size),)


def layered(mode="default", reason="exceeds max fusion", called="mm", device="cuda:0"):
    """Twelve layers: a product, work on its result, and a reduction that did not go into that work."""
    kernels, unfused = [], []
    mm = [Launch(9 * n, (), ops=(f"op{3 * n}",)) for n in range(LAYERS)]
    extern = Kernel(
        ID, Direction.FORWARD, f"extern_kernels.{called}", KernelKind.EXTERN, launches=tuple(mm), device=device
    )
    kernels.append(extern)
    for n in range(LAYERS):
        work, norm = f"op{3 * n + 1}", f"op{3 * n + 2}"
        for name, op, read in (("poi_fused_gelu", work, f"buf{n}"), ("red_fused_norm", norm, f"gelu{n}")):
            launch = Launch(9 * n + 1, (), ops=(op,), reads=access(read))
            kernels.append(Kernel(ID, Direction.FORWARD, f"triton_{name}_{n}", KernelKind.TRITON, launches=(launch,)))
        unfused += [
            UnfusedPair(ID, Direction.FORWARD, f"op{3 * n}", work, "", access(f"buf{n}")),
            UnfusedPair(ID, Direction.FORWARD, work, norm, reason, access(f"gelu{n}", 3 << 20)),
        ]
    compilation = Compilation(ID, "forward", "model.py", 1, Outcome.COMPILED, mode=mode)
    return Recording(compilations=(compilation,), kernels=tuple(kernels), unfused=tuple(unfused))


def shown(recording, width=100):
    return view(recording, "fusion", page_for(recording, width=width, color=False), EVERYTHING)


def test_twelve_layers_are_one_line_and_the_costliest_reason_comes_first():
    text = shown(layered())
    assert "[0/0] forward  36 launches" in text
    assert text.index("36.0 MiB in 12 pairs: one kernel would have too many ops") < text.index("12.0 MiB in 12 pairs")
    assert 'options={"max_fusion_size": 2} allows it' in text
    assert text.count("→ triton_red_fused_norm_0") == text.count(f"{times(12)}  extern_kernels.mm") == 1
    assert "torch: exceeds max fusion" in text


def test_no_shared_data_is_not_said_of_what_shares_data():
    text = shown(layered(reason="no shared data"))
    assert "they go through what they share in different orders" in text
    assert "torch: no shared data (none that both go through in the same order)" in text


def test_advice_is_for_the_mode_at_hand():
    assert 'mode="max-autotune" also tries' in shown(layered())
    assert 'mode="max-autotune"' not in shown(layered("max-autotune-no-cudagraphs"))


@pytest.mark.parametrize(
    ("called", "device", "told"),
    [
        ("addmm", "cuda:1", "can compute what follows: for all of these pairs"),
        ("convolution", "cuda", "can compute what follows: for all of these pairs"),
        ("addmm", "cpu", "only for weights that freezing makes constants"),
        ("convolution", "cpu", "has no convolution of its own"),
        ("bmm", "cpu", ""),  # for some dtypes and layouts
        ("mm", "xpu", ""),
        ("_scaled_mm", "cuda", ""),
    ],
)
def test_a_template_is_advised_only_where_torch_has_one(called, device, told):
    text = " ".join(shown(layered(called=called, device=device)).split())
    assert told in text
    assert ("also tries" in text) is ("follows" in told)
    assert told or "max-autotune" not in text


def test_what_comes_before_a_product_is_no_case_for_a_template():
    before = layered()
    turned = [
        replace(told, first=told.second, second=told.first) if not told.reason else told for told in before.unfused
    ]
    assert "max-autotune" not in shown(replace(before, unfused=tuple(turned)))
    some = [*turned[:12], *before.unfused[12:]]
    text = " ".join(shown(replace(before, unfused=tuple(some))).split())
    assert "which can compute what follows: for 6 of these 12 pairs" in text


@pytest.mark.parametrize("setting", [{"max_autotune": True}, {"max_autotune_gemm_backends": "aten,CPP"}])
def test_a_template_that_a_setting_tries_or_forbids_is_not_advised(setting):
    told = layered()
    (compilation,) = told.compilations
    assert "also tries" not in shown(replace(told, compilations=(replace(compilation, options=setting),)))
    config = {f"_inductor.config.{name}": str(value) for name, value in setting.items()}
    assert "also tries" not in shown(replace(told, environment=Environment(config=config)))


def test_torchs_own_word_is_shown_where_it_is_not_known_and_does_no_harm():
    text = shown(layered(reason="the moon \x1b[31mis full\n" + "and so on " * 40))
    assert "the moon is full and so on" in text
    assert text.count("and so on") < 30
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 80, 160])
def test_it_fits_the_page(width):
    assert max(map(len, shown(layered(), width).splitlines())) <= width


def test_without_the_hooks_word_it_says_so():
    kernel = Kernel(ID, Direction.FORWARD, "k", KernelKind.TRITON, launches=(Launch(1, ()),))
    assert "does not say what launches read and write" in shown(Recording(kernels=(kernel,)))
    assert shown(Recording()) == "No kernels.\n"


def test_json_has_every_pair():
    (code,) = json.loads(view_json(layered(), "fusion"))["codes"]
    assert [(cause["reason"], cause["library"], cause["bytes"], len(cause["pairs"])) for cause in code["causes"]] == [
        ("too many ops", None, 36 << 20, 12),
        ("library", "matrix product", 12 << 20, 12),
    ]
    assert code["causes"][0]["pairs"][0]["first"] == {
        "kernel": "triton_poi_fused_gelu_0",
        "launch": 0,
        "line": 1,
        "ops": ["op1"],
    }
    assert code["causes"][0]["pairs"][0]["shared"] == [{"name": "gelu0", "bytes": 3 << 20}]


def test_a_kernels_neighbours_say_on_which_side_they_are():
    recording = layered()
    page = page_for(recording, width=120)
    blocks = fusion.neighbours(neighbours(recording, [1])[1], 1, for_page=False)
    lines = [line.plain for line in block_lines(blocks, page)]
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "one kernel would have too many ops",
        "3.0 MiB after it triton_red_fused_norm_0",
        "one is a library's matrix product",
        "1.0 MiB before it extern_kernels.mm",
    ]
    alone = neighbours(Recording(kernels=recording.kernels), [1])[1]
    assert fusion.neighbours(alone, 1, for_page=False) == ()


def test_bytes_that_are_not_known_are_not_none():
    recording = layered()
    unknown = tuple(replace(one, shared=(BufferAccess(one.shared[0].name, None),)) for one in recording.unfused)
    page = page_for(recording, width=120)
    text = view(replace(recording, unfused=unknown), "fusion", page, EVERYTHING)
    assert "an unknown amount in 12 pairs: one kernel would have too many ops" in text
    assert "0 B" not in text
    assert "0 B" not in view(replace(recording, unfused=unknown), "kernel", page, Selection(kernel="gelu_0"))


@pytest.mark.parametrize("size", ["s0", 8])
def test_bytes_of_sizes_that_vary_are_said_to_be_of_one_call(size):
    recording = layered()
    placeholder = Node("x", "placeholder", "x", specs=(TensorSpec("f32", (size, 8)),))
    graph = Graph(ID, GraphStage.POST_GRAD, "", (placeholder,))
    recording = replace(recording, graphs=(graph,))
    text = view(recording, "fusion", page_for(recording, width=120), EVERYTHING)
    assert ("sizes vary here: bytes are those of the call that it was compiled in" in text) is (size == "s0")
    assert json.loads(view_json(recording, "fusion"))["codes"][0]["symbolic"] is (size == "s0")


def test_a_kernel_of_many_compilations_is_looked_up_among_the_pairs_once(monkeypatch):
    layers, asked = layered(), []
    ids = [CompileId(frame, 0) for frame in range(5)]
    recording = Recording(
        kernels=tuple(replace(kernel, compile_id=each) for each in ids for kernel in layers.kernels),
        unfused=tuple(replace(pair, compile_id=each) for each in ids for pair in layers.unfused),
    )
    monkeypatch.setattr(kernel, "neighbours", lambda *args: asked.append(args) or neighbours(*args))
    text = view(recording, "kernel", page_for(recording, width=120), Selection(kernel="triton_poi_fused_gelu_0"))
    assert text.count("not fused with") == len(ids)
    assert len(asked) == 1


def test_every_reason_has_words():
    assert set(fusion.REASONS) == set(Reason)
    assert set(fusion.LIBRARIES) == set(Library)
