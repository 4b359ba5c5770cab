"""Recordings built by hand, one for each thing that a screen must be good at."""

from __future__ import annotations

from msgspec.structs import replace

from compiler_lens.recording.model import (
    AutotuneChoice,
    AutotuneResult,
    BreakCause,
    BreakOutcome,
    CacheLayer,
    CacheOutcome,
    CacheResult,
    CaptureProblem,
    Compilation,
    CompileId,
    CudagraphOutcome,
    CudagraphState,
    Decomposition,
    Direction,
    Environment,
    Graph,
    GraphBreak,
    GraphStage,
    Guard,
    GuardFailure,
    Kernel,
    KernelConfig,
    KernelKind,
    Launch,
    Node,
    Outcome,
    OutputCode,
    Recompile,
    Recording,
    SavedTensor,
    SourceLine,
    Span,
    TensorSpec,
    Trust,
    Unavailable,
)

APP = "/home/user/app/train.py"
MODEL = "/home/user/app/model.py"
TORCH = "/usr/lib/python3/site-packages/torch/"
WRAPPER = TORCH + "_dynamo/external_utils.py"
CALLED = SourceLine(APP, 34, "main", "loss = compiled(batch).sum()")

ENVIRONMENT = Environment(
    torch="2.13.0",
    python="3.11.7",
    platform="Linux-6.1-x86_64",
    device="cpu",
    argv=("/home/user/app/train.py", "--steps", "2"),
    pid=4242,
    config={"torch._inductor.config.max_autotune": "True"},
    versions={"transformers": "5.23.0"},
)

GENERIC = "Please report an issue to PyTorch."
FUNDAMENTAL = (
    "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through "
    "your code. Consider finding a workaround."
)
BRANCHING = BreakCause(
    gb_type="Data-dependent branching",
    gbid="GB0170",
    explanation="Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow.",
    hints=(FUNDAMENTAL, "Use `torch.cond` to express dynamic control flow."),
    context="attempted to jump with TensorVariable()",
)
IN_LOOP = BreakCause(
    gb_type="graph break in loop",
    gbid="GB7000",
    explanation="torch.compile detected a graph break in a for/while loop. Skipping the frame and falling back to eager.",
    hints=(
        "This graph break may have been caused by an earlier graph break. Resolving the earlier graph break may resolve this one.",
    ),
)
PRINTING = BreakCause(
    gb_type="Failed to trace builtin operator",
    gbid="GB0059",
    explanation="Dynamo does not know how to trace builtin operator `print` with argument types ['str'] (has_kwargs False)",
    hints=(
        "Avoid calling builtin `print` with argument types ['str']. Consider using an equivalent alternative function/method to `print`.",
        GENERIC,
    ),
    context="builtin print",
)


def compile_id(frame: int, recompile: int = 0, epoch: int = 0) -> CompileId:
    return CompileId(frame, recompile, epoch)


def compilation(
    frame: int, recompile: int = 0, function: str = "step", outcome: Outcome = Outcome.COMPILED, **more: object
) -> Compilation:
    fields = {"file": MODEL, "line": 10 + frame, "backend": "inductor", "seconds": 1.5, "stack": (CALLED,)} | more
    return Compilation(compile_id(frame, recompile), function, outcome=outcome, **fields)


def module(frame: int, recompile: int = 0, name: str = "GPT", **more: object) -> Compilation:
    return compilation(frame, recompile, "inner", **({"file": WRAPPER, "line": 67, "module": name} | more))


def node(name: str, target: str, *inputs: str, shape: tuple[int | str, ...] = (2, 32, 64), line: int = 12) -> Node:
    at = SourceLine(MODEL, line, "forward", "x = x + self.mlp(self.norm(x))")
    return Node(name, "call_function", target, inputs, (TensorSpec("f32", shape),), (at,), "blocks.0.mlp", "MLP")


def graph(owner: CompileId, stage: GraphStage, ops: int, target: str = "aten.mul.Tensor", **more: object) -> Graph:
    names = [f"mul_{i}" for i in range(ops)]
    nodes = (Node("x", "placeholder", "x"), *(node(n, target, "x") for n in names), Node("output", "output", "output"))
    code = "def forward(self, x):\n" + "".join(f"    {n} = torch.ops.{target}(x, 2)\n" for n in names)
    return Graph(owner, stage, code, nodes, **more)


def kernel(
    owner: CompileId,
    name: str,
    aten: tuple[str, ...] = (),
    kind: KernelKind = KernelKind.CPP,
    shape: str = "pointwise",
    **more: object,
) -> Kernel:
    fields = {
        "direction": Direction.FORWARD,
        "source": ""
        if kind is KernelKind.EXTERN
        else f'extern "C" void {name}(const float* in, float* out)\n{{\n    out[0] = in[0];\n}}\n',
        "nodes": tuple(f"{op.rsplit('.', 2)[-2]}_{i}" for i, op in enumerate(aten)),
        "aten": aten,
        "trust": Trust.EXACT,
        "launches": (Launch(31, ("arg0_1", "buf0"), grid="64"),),
        "device": "cpu",
    } | more
    return Kernel(owner, name=name, kind=kind, shape="" if kind is KernelKind.EXTERN else shape, **fields)


def spans(owner: CompileId, start: float, backward: bool = False, scale: float = 1.0) -> tuple[Span, ...]:
    """A compilation's timed events, nested as torch nests them; their self times add up to the outermost."""
    inner = (
        ("GraphLowering.run", 0.5),
        ("Scheduler.fused_nodes", 0.25),
        ("Scheduler.codegen", 0.75),
        ("async_compile.wait", 6.0),
    )
    outer = (
        (("entire_backward_compile", 0.125), ("inductor_compile", 0.125))
        if backward
        else (
            ("dynamo", 0.25),
            ("bytecode_tracing", 0.5),
            ("build_guards", 0.25),
            ("backend_compile", 0.75),
            ("inductor_codecache_torch_key", 0.125),
        )
    )
    events = [(name, self_seconds * scale) for name, self_seconds in (*outer, *inner)]
    total = sum(seconds for _, seconds in events)
    made, at = [], start
    for i, (name, self_seconds) in enumerate(events):
        made.append(Span(owner, name, at, self_seconds if i else total, 1, 1 if i else 0, self_seconds))
        at += self_seconds if i else 0.001
    return tuple(made)


def graph_break(  # noqa: PLR0913 -- what a break consists of
    frame: int,
    cause: BreakCause,
    line: int,
    code: str,
    outcome: BreakOutcome = BreakOutcome.SPLIT,
    *,
    function: str = "step",
    inside: SourceLine | None = None,
    then: tuple[BreakCause, ...] = (),
) -> GraphBreak:
    stack = (CALLED, SourceLine(MODEL, line, function, code), *((inside,) if inside else ()))
    return GraphBreak(compile_id(frame), 0, (cause, *then), "", stack, stack[-1], outcome, text=cause.gb_type)


def recompile(frame: int, number: int, old: str, new: str, source: str = "x") -> Recompile:
    text = f"tensor '{source}' size mismatch at index 0. expected {old}, actual {new}"
    return Recompile(compile_id(frame, number), (GuardFailure(f"{frame}/{number - 1}", text, source, old, new),))


def empty() -> Recording:
    """Somebody recorded, and called nothing compiled."""
    return Recording(environment=ENVIRONMENT)


def clean() -> Recording:
    """A training step of a model that compiles as one graph."""
    owner = compile_id(0)
    fused = ("aten.native_layer_norm.default", "aten.add.Tensor", "aten.mul.Tensor", "aten.gelu.default")
    return Recording(
        environment=ENVIRONMENT,
        compilations=(module(0, seconds=9.125, backward_seconds=7.75, guard_count=2, op_count=34),),
        graphs=(
            graph(owner, GraphStage.DYNAMO, 34, "torch.nn.functional.linear"),
            graph(owner, GraphStage.AOT_JOINT, 160),
            graph(owner, GraphStage.AOT_FORWARD, 61, saved=(SavedTensor("mul_3", TensorSpec("f32", (2, 32, 64)), False), SavedTensor("x", TensorSpec("f32", (64, 64)), True))),
            graph(owner, GraphStage.AOT_BACKWARD, 97),
            graph(owner, GraphStage.POST_GRAD, 58),
        ),
        guards=(
            Guard(owner, "TENSOR_MATCH", "check_tensor(L['x'], Tensor, size=[2, 32, 64])", "L['x']", SourceLine(MODEL, 12, "forward", "batch, length, width = x.shape")),
            Guard(owner, "GLOBAL_STATE", "___check_global_state()"),
        ),
        decompositions=(Decomposition(owner, "layer_norm", "torch.nn.functional.layer_norm", ("aten.var_mean.correction", "aten.sub.Tensor", "aten.rsqrt.default", "aten.mul.Tensor"), ("aten.native_layer_norm_backward.default",)),),
        output_codes=(OutputCode(owner, Direction.FORWARD, "# AOT ID: ['0_forward']\n"), OutputCode(owner, Direction.BACKWARD, "# AOT ID: ['0_backward']\n")),
        kernels=(
            kernel(owner, "cpp_fused_add_gelu_native_layer_norm_0", fused, shape="reduction"),
            kernel(owner, "cpp_fused_add_mul_1", fused[1:3]),
            kernel(owner, "extern_kernels.addmm", ("aten.addmm.default",), KernelKind.EXTERN),
            kernel(owner, "cpp_fused_add_native_layer_norm_backward_2", (*fused, "aten.sum.dim_IntList"), direction=Direction.BACKWARD),
        ),
        caches=(
            CacheOutcome(owner, CacheLayer.AOT_AUTOGRAD, CacheResult.MISS, "a1"),
            CacheOutcome(owner, CacheLayer.FX_GRAPH, CacheResult.MISS, "f1"),
            CacheOutcome(owner, CacheLayer.FX_GRAPH, CacheResult.MISS, "f2"),
        ),
        spans=(*spans(owner, 100.0), *spans(owner, 120.0, backward=True)),
    )  # fmt: skip


def broken() -> Recording:
    """Graph breaks, a frame skipped whole, a failure, a recompile limit, and gaps in the recording."""
    resume = "torch_dynamo_resume_in_step_at_18"
    return replace(
        clean(),
        compilations=(
            module(0, seconds=9.125, backward_seconds=7.75, mode="max-autotune"),
            module(0, 1, seconds=8.25, mode="max-autotune"),
            compilation(1, function="step", seconds=0.75),
            compilation(2, function="helper", seconds=0.5),
            compilation(3, function=resume, line=18, seconds=0.25),
            compilation(4, function="search", outcome=Outcome.SKIPPED, reason="graph break in loop", seconds=0.125),
            *(compilation(5, i, function="schedule", line=50) for i in range(8)),
            compilation(5, 8, function="schedule", line=50, outcome=Outcome.RECOMPILE_LIMIT, reason="recompile_limit reached"),
            compilation(6, function="strict", outcome=Outcome.FAILED, failure=PRINTING, failure_line=SourceLine(MODEL, 71, "strict", "print(x)")),
            compilation(7, function="constants", outcome=Outcome.EMPTY, seconds=0.03),
            compilation(8, function="__init__", file="/usr/lib/python3.11/typing.py", outcome=Outcome.SKIPPED, reason="no tensors"),
        ),
        graph_breaks=(
            graph_break(2, PRINTING, 18, 'print("hi")', inside=SourceLine("/usr/lib/python3.11/logging/__init__.py", 2087, "info", "root.info(msg)")),
            graph_break(1, PRINTING, 18, 'print("hi")'),
            graph_break(4, BRANCHING, 28, "if x.sum() > i:", BreakOutcome.SKIPPED_FRAME, function="search", then=(IN_LOOP,)),
        ),
        recompiles=(recompile(0, 1, "2", "3", "args[0]"), *(recompile(5, i, str(i - 1), str(i), "lr") for i in range(1, 9))),
        autotunes=(AutotuneResult(compile_id(0), "mm", ("f32[64, 64]", "f32[64, 64]"), (AutotuneChoice("triton_mm_3", KernelKind.TEMPLATE, 0.008), AutotuneChoice("mm", KernelKind.EXTERN, 0.0125), AutotuneChoice("triton_mm_9", KernelKind.TEMPLATE, None, "out of shared memory")), 1.25, 4.5),),
        cudagraphs=(CudagraphOutcome(compile_id(0), Direction.FORWARD, CudagraphState.CAPTURED), CudagraphOutcome(compile_id(0, 1), Direction.FORWARD, CudagraphState.SKIPPED, "mutated inputs (1 instances)", user_stack=(SourceLine(MODEL, 44, "forward", "self.cache[i] = k"),))),
        problems=(CaptureProblem("graph_dump", "unknown shape: list"),),
        unavailable=(Unavailable("fusion refusals", "the graph came from a cache, and no side file lies beside it"),),
    )  # fmt: skip


def nothing_compiled() -> Recording:
    """One frame entered the compiler, and it runs eagerly."""
    rnn = SourceLine(TORCH + "nn/modules/rnn.py", 1141, "forward", "result = _VF.lstm(")
    refused = BreakCause(
        "Attempted to wrap RNN, GRU, or LSTM", "GB0242", "Dynamo does not support RNN, GRU, or LSTM.", (GENERIC,)
    )
    return Recording(
        environment=ENVIRONMENT,
        compilations=(replace(module(0, name="LSTM", seconds=0.25), outcome=Outcome.SKIPPED),),
        graph_breaks=(
            replace(graph_break(0, refused, 9, "out = compiled(x)", BreakOutcome.SKIPPED_FRAME, inside=rnn)),
        ),
    )


def many(count: int = 2000) -> Recording:
    """A run that went on compiling: everything that can be long is."""
    ids = [compile_id(i) for i in range(count)]
    hook = SourceLine(TORCH + "nn/modules/module.py", 1775, "_call_impl", "return forward_call(*args, **kwargs)")
    return Recording(
        environment=ENVIRONMENT,
        compilations=tuple(compilation(i, function=f"step_{i}", seconds=0.01 * (i % 7)) for i in range(count)),
        graph_breaks=tuple(graph_break(i, PRINTING, 10 + i % 40, f"print({i % 40})", inside=hook) for i in range(count)),
        recompiles=tuple(recompile(i, 1, str(i), str(i + 1), f"x{i % 30}") for i in range(count)),
        graphs=tuple(graph(i, stage, 5 + i.frame % 13) for i in ids for stage in (GraphStage.DYNAMO, GraphStage.AOT_INFERENCE)),
        kernels=tuple(kernel(i, f"cpp_fused_{j}", ("aten.add.Tensor",) * (2 + i.frame % 9)) for i in ids for j in range(3)),
        caches=tuple(CacheOutcome(i, CacheLayer.FX_GRAPH, CacheResult.HIT if i.frame % 3 else CacheResult.MISS) for i in ids),
        spans=tuple(span for n, i in enumerate(ids) for span in spans(i, 10.0 * n, scale=0.01)),
        problems=tuple(CaptureProblem(f"event_{i % 9}", "unknown shape") for i in range(count)),
        unavailable=tuple(Unavailable(f"fact {i % 9}", "a cache hit") for i in range(count)),
    )  # fmt: skip


def hostile() -> Recording:
    """Names and code that try to act: markup, escapes, tags, newlines, right-to-left overrides, a line of a megabyte."""
    evil = "[bold]x[/bold]\x1b[31mred\x1b]0;title\x07</script><b>&\n\u202etxt.exe\r\x00\x9b2J\ud800"
    long = "y = " + "z" * 1_000_000
    cause = BreakCause(evil, "GB0001", evil, (evil,), evil)
    at = SourceLine(f"/home/user/{evil}/m.py", 3, evil, long)
    owner = compile_id(0)
    return Recording(
        environment=replace(ENVIRONMENT, argv=(evil,), device=evil),
        compilations=(compilation(0, function=evil, file=at.file), compilation(1, function=evil, outcome=Outcome.FAILED, reason=evil, failure=cause, failure_line=at)),
        graph_breaks=(GraphBreak(owner, 0, (cause,), evil, (at,), at, BreakOutcome.SPLIT, text=evil),),
        recompiles=(Recompile(owner, (GuardFailure("0/0", evil, evil, evil, long, (at,)),)),),
        guards=(Guard(owner, evil, long, evil, at),),
        graphs=(Graph(owner, GraphStage.DYNAMO, long + "\n" + evil, (Node(evil, "call_function", evil, (), (), (at,), evil, evil),)),),
        kernels=(kernel(owner, evil, (evil, evil), source=long + "\n" + evil, device=evil),),
        autotunes=(AutotuneResult(owner, evil, (evil,), (AutotuneChoice(evil, KernelKind.TRITON, 0.5, evil),)),),
        cudagraphs=(CudagraphOutcome(owner, None, CudagraphState.SKIPPED, evil, user_stack=(at,)),),
        caches=(CacheOutcome(owner, CacheLayer.FX_GRAPH, CacheResult.BYPASS, evil, evil),),
        spans=(Span(owner, evil, 0.0, 1.0, 0, 0, 1.0),),
        problems=(CaptureProblem(evil, evil),),
        unavailable=(Unavailable(evil, evil),),
    )  # fmt: skip


def triton_kernel() -> Kernel:
    """A Triton kernel with configs, as a GPU gives it."""
    configs = (
        KernelConfig({"XBLOCK": 256, "num_warps": 4}, 0.0082, 24, 0, 0, chosen=True),
        KernelConfig({"XBLOCK": 512, "num_warps": 8}, 0.0113, 32, 4, 0),
    )
    source = "@triton.jit\ndef triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):\n    pass\n"
    return kernel(
        compile_id(0),
        "triton_poi_fused_add_0",
        ("aten.add.Tensor", "aten.relu.default"),
        KernelKind.TRITON,
        source=source,
        configs=configs,
        device="cuda:0",
    )
