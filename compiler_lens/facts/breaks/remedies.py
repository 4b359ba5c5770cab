"""What to change about a graph break: our own advice, for readers who know PyTorch and nothing of the compiler."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler_lens.facts.breaks.rewrites.arms import Arm
from compiler_lens.recording.model import BreakCause


@dataclass(frozen=True, slots=True)
class Setting:
    """A configuration under which the same code does not break."""

    name: str  # "torch._dynamo.config.capture_scalar_outputs"
    value: str  # "True"
    price: str  # what it costs, one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One kind of break, why the compiler cannot go on there, and how the code looks without it."""

    name: str  # ours, stable: "branch_on_tensor"
    gb_types: tuple[str, ...]  # as the registry of any supported torch has them
    about: str = ""  # a regular expression that the cause's type, operator, context or explanation holds; empty: any
    why: str
    change: str
    before: str
    after: str
    setting: Setting | None = None
    leave: str = ""  # when not to touch it


def remedy_for(cause: BreakCause, arm: Arm | None = None) -> Remedy | None:
    """The most specific advice on a cause, and for a branch on what it is there for; None where we have none."""
    said = f"{cause.gb_type}\n{cause.higher_order_op}\n{cause.context}\n{cause.explanation}"
    found = next((r for r in _by_type().get(cause.gb_type, ()) if re.search(r.about, said)), None)
    if found is None or found.name not in _BRANCHES:
        return found
    if arm in _OF_ARMS:
        return _OF_ARMS[arm]
    return replace(found, leave="") if arm is Arm.OTHER else found


@functools.cache
def _by_type() -> Mapping[str, tuple[Remedy, ...]]:
    """The table by registry type: those that ask for certain words first, each group in the table's order."""
    found: dict[str, list[Remedy]] = {}
    for remedy in sorted(REMEDIES, key=lambda remedy: not remedy.about):
        for gb_type in remedy.gb_types:
            found.setdefault(gb_type, []).append(remedy)
    return {gb_type: tuple(remedies) for gb_type, remedies in found.items()}


# Registry types that tell little by themselves: what they are about stands in the context.
_SKIPPED = (
    "Attempted to call function marked as skipped",
    "Attempted to inline function marked as skipped",
    "Attempted to inline function marked as skipped (SkipFunctionVariable)",
)
_BUILTIN = "Failed to trace builtin operator"
_METHOD = "Unsupported method call"
_CONTEXT = "Unsupported context manager"
_CALL = ("Unsupported function call", "Unsupported function call (delayed)")
_NOT_A_TENSOR = "torch.* op returned non-Tensor"
_ARGUMENT = "Failed to convert args/kwargs to proxy"

_SCALARS = Setting(
    "torch._dynamo.config.capture_scalar_outputs",
    "True",
    "The number becomes an unknown in the graph: branching on it or sizing a tensor with it may still break; printing it "
    "under `reorderable_logging_functions` does.",
)
_SHAPES = Setting(
    "torch._dynamo.config.capture_dynamic_output_shape_ops",
    "True",
    "The size becomes an unknown in the graph: code that branches on it still breaks, and kernels are less specialized.",
)
_AUTOGRAD = Setting(
    "torch._dynamo.config.trace_autograd_ops",
    "True",
    "The backward becomes part of this graph: it is compiled with it, and hooks on parameters may not work.",
)

_BRANCHES = ("branch_on_tensor", "branch_on_number")

# Not told by torch's words but by the code: a branch that goes on to the next round of a loop, and one that raises.
SAVES_WORK = Remedy(
    name="check_that_saves_work",
    gb_types=("Data-dependent branching",),
    why="The branch depends on a tensor's value, which is known only when the code runs.",
    change="Delete the check: it only saves work where what follows it does nothing for an empty mask or a sum of 0.",
    before="for i, mask in enumerate(masks):\n    if mask.sum() == 0:\n        continue\n"
    "    y = y + torch.where(mask, x * i, 0)",
    after="for i, mask in enumerate(masks):\n    y = y + torch.where(mask, x * i, 0)",
    leave="Where what follows is an error, or something else, for an empty mask.",
)

RAISES = Remedy(
    name="check_that_raises",
    gb_types=("Data-dependent branching",),
    why="The branch depends on a tensor's value, which is known only when the code runs.",
    change="Check outside of the compiled function, or make it a check inside of the graph: `torch._assert_async`.",
    before='if x.isnan().any():\n    raise ValueError("nan")',
    after='torch._assert_async(~x.isnan().any(), "nan")',
    leave="A check that ends training, such as stopping on NaN, belongs outside of the compiled function.",
)
_OF_ARMS: Mapping[Arm | None, Remedy] = {Arm.SAVES_WORK: SAVES_WORK, Arm.RAISES: RAISES}

_VALUES = (
    Remedy(
        name="branch_on_tensor",
        gb_types=(
            "Data-dependent branching",
            "Data-dependent branching with non-constant __bool__",
            "Data-dependent assertion failed (cannot compile partial graph)",
        ),
        why="The branch depends on a tensor's value, which is known only when the code runs.",
        change="Compute both sides and choose with `torch.where`, or use `torch.cond` where one side is expensive.",
        before="if x.sum() > 0:\n    y = x + 1\nelse:\n    y = x - 1",
        after="y = torch.where(x.sum() > 0, x + 1, x - 1)",
        leave="A check that ends training, such as stopping on NaN, belongs outside of the compiled function.",
    ),
    Remedy(
        name="assert_on_tensor",
        gb_types=("Data-dependent branching", "Data-dependent assertion failed (cannot compile partial graph)"),
        about=r"code: assert\b",
        why="The message of this `assert` is put together at run time, so it runs as a branch on a tensor's value.",
        change="Give the `assert` a constant message: then it becomes a check inside of the graph.",
        before='assert x.sum() < 100, f"bad sum {x.sum()}"',
        after='assert x.sum() < 100, "bad sum"',
    ),
    Remedy(
        name="while_on_tensor",
        gb_types=("Data-dependent branching",),
        about=r"code: while\b",
        why="How often the loop runs depends on a tensor's value, which is known only when the code runs.",
        change="Run a fixed number of steps and keep what is finished with `torch.where`, or use `torch.while_loop`.",
        before="while x.sum() < 10:\n    x = x + 1",
        after="for _ in range(max_steps):\n    x = torch.where(x.sum() < 10, x + 1, x)",
    ),
    Remedy(
        name="branch_on_number",
        gb_types=("Data-dependent branching",),
        about=r"SymNodeVariable",
        why="The branch depends on a number that comes from a tensor's data, such as `.item()` or the size of `x[mask]`.",
        change="Keep the number a tensor and choose with `torch.where`, or state what is always true with `torch._check`.",
        before="n = x.sum().item()\ny = x + 1 if n > 3 else x - 1",
        after="y = torch.where(x.sum() > 3, x + 1, x - 1)",
    ),
    Remedy(
        name="item",
        gb_types=("Unsupported Tensor.item() call with capture_scalar_outputs=False",),
        why="`.item()`, `int()`, `float()` or `bool()` of a tensor asks for its value, which is known only when the code runs.",
        change="Keep it a tensor: it works in arithmetic and `torch.where`, and as an index if it has a dimension (`i[None]`).",
        before="scale = x.sum().item()\ny = x * scale",
        after="scale = x.sum()\ny = x * scale",
        setting=_SCALARS,
        leave="Reading a loss for the log belongs outside of the compiled function.",
    ),
    Remedy(
        name="numbers_from_tensor",
        gb_types=("Data dependent operator",),
        why="Python numbers are wanted from a tensor's data, by `.tolist()`, a `math` function or a NumPy scalar.",
        change="Compute with tensors to the end: index the tensor, use `torch.sqrt` for `math.sqrt`, and so on.",
        before="sizes = mask.sum(1).tolist()\ny = x + sizes[0]",
        after="sizes = mask.sum(1)\ny = x + sizes[0]",
        setting=_SCALARS,
    ),
    Remedy(
        name="compare_tensors",
        gb_types=("Data dependent operator",),
        about=r"aten\.(equal|allclose|is_nonzero)",
        why="`torch.equal` and `torch.allclose` give a Python bool, which is known only when the code runs.",
        change="Compare with `(a == b).all()` or `torch.isclose(a, b).all()`, and choose with `torch.where`.",
        before="y = x if torch.equal(x, other) else x + 1",
        after="y = torch.where((x == other).all(), x, x + 1)",
    ),
    Remedy(
        name="tolist_of_floats",
        gb_types=("Tensor.tolist() with non-integer tensor",),
        why="`.tolist()` turns a tensor's data into Python numbers, which are known only when the code runs.",
        change="Index the tensor instead of a list of its numbers.",
        before="weights = w.tolist()\ny = x * weights[0]",
        after="y = x * w[0]",
    ),
    Remedy(
        name="range_of_tensor",
        gb_types=(_BUILTIN,),
        about=r"builtin range \[.*Tensor",
        why="How often the loop runs depends on a tensor's value, which is known only when the code runs.",
        change="Hand the count in as a Python int, or run the largest count and mask what is too much.",
        before="for i in range(lengths.max()):\n    x = x + i",
        after="for i in range(x.shape[0]):\n    x = torch.where(i < lengths.max(), x + i, x)",
    ),
    Remedy(
        name="index_list_with_tensor",
        gb_types=("Indexing list with non-scalar tensor", "Indexing torch.Size with non-scalar tensor"),
        why="Which element of the Python list is meant depends on a tensor's value, known only when the code runs.",
        change="Choose with `torch.where`, or stack the elements and index with a tensor that has a dimension.",
        before="y = [a, b][choice]",
        after="y = torch.where(choice == 1, b, a)",
    ),
    Remedy(
        name="sort_tensors",
        gb_types=("sort with non-constant keys", "min/max with non-constant key"),
        why="Python's `sorted` compares values of tensors, which are known only when the code runs.",
        change="Stack the values and use `torch.sort`, `torch.min` or `torch.topk`.",
        before="smallest = sorted([a, b])[0]",
        after="smallest = torch.stack([a, b]).min()",
    ),
    Remedy(
        name="text_of_tensor",
        gb_types=(_BUILTIN, "repr() on tensor"),
        about=r"builtin (str|repr|ascii|format) \[.*Tensor|repr\(\) on tensor",
        why="The text shows a tensor's values, which are known only when the code runs.",
        change="Return the tensor and make the text outside of the compiled function.",
        before="name = str(x.sum())",
        after="return x.sum()  # and str(...) of it outside",
    ),
)

_SIZES = (
    Remedy(
        name="size_from_mask",
        gb_types=("Dynamic shape operator", "Dynamic shape operator (no meta kernel)"),
        about=r"aten\.(nonzero|masked_select|argwhere)",
        why="How many elements `x[mask]`, `nonzero` or `where(mask)` select depends on the data, so the result has no known size.",
        change="Keep the full size and mask: `torch.where(mask, x, 0)`, or multiply by the mask.",
        before="total = x[mask].sum()",
        after="total = torch.where(mask, x, 0).sum()",
        setting=_SHAPES,
    ),
    Remedy(
        name="repeat_interleave",
        gb_types=("Dynamic shape operator",),
        about=r"repeat_interleave",
        why="The size of the result is the sum of the repeats, which is known only when the code runs.",
        change="Say the size of the result with `output_size=`.",
        before="y = x.repeat_interleave(repeats, dim=0)",
        after="y = x.repeat_interleave(repeats, dim=0, output_size=total)",
        setting=_SHAPES,
    ),
    Remedy(
        name="bincount",
        gb_types=("Dynamic shape operator", "Dynamic shape operator (no meta kernel)"),
        about=r"bincount|histc",
        why="The result of `bincount` has as many bins as the largest value, which is known only when the code runs.",
        change="Count into a tensor of known size with `index_add` or `scatter_add`.",
        before="counts = torch.bincount(experts)",
        after="counts = experts.new_zeros(n).index_add(0, experts, torch.ones_like(experts))",
        setting=_SHAPES,
    ),
    Remedy(
        name="size_from_data",
        gb_types=("Dynamic shape operator", "Dynamic shape operator (no meta kernel)"),
        why="The size of this operator's result depends on the data, so the rest of the graph has no known sizes.",
        change="Do this step before or after the compiled function, or pad its result to a size that does not change.",
        before="values = torch.unique(ids)\ny = model(values)",
        after="def step(values):\n    return model(values)\n\nstep(torch.unique(ids))",
        setting=_SHAPES,
    ),
    Remedy(
        name="one_hot",
        gb_types=("Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",),
        why="Without `num_classes` the width of the result is the largest class in the data, known only when the code runs.",
        change="Say the number of classes.",
        before="y = F.one_hot(classes)",
        after="y = F.one_hot(classes, num_classes=10)",
    ),
    Remedy(
        name="resize",
        gb_types=(
            "Unsupported Tensor.resize_() call",
            "Unsupported Tensor.resize_as_() call",
            "Unsupported Tensor.sparse_resize_() call",
            "Unsupported Tensor.sparse_resize_and_clear_() call",
        ),
        why="`resize_` changes the size of a tensor that other tensors may share, which the graph cannot express.",
        change="Make a new tensor of the size you want, by slicing, `reshape` or `F.pad`.",
        before="y.resize_(6)",
        after="y = y.flatten()[:6]",
    ),
    Remedy(
        name="out_argument",
        gb_types=(
            "Shape mismatch with out= tensor variant",
            "Shape mismatch with out= list of tensor variants",
            "Attempted to call op with non-contiguous `out=` tensor",
            "Attempted to call op with non-contiguous `out=` list of tensors",
        ),
        why="The tensor given as `out=` has another size than the result, or is not contiguous, so it would be replaced.",
        change="Use the returned tensor instead of `out=`; the compiler plans the memory itself.",
        before="torch.add(x, 1, out=buffer)",
        after="buffer = torch.add(x, 1)",
    ),
)

_TELLING = (
    Remedy(
        name="print",
        gb_types=(_BUILTIN,),
        about=r"builtin print\b",
        why="Printing is an effect outside of the graph: what is printed must appear at this point of the run.",
        change="Remove it, print outside of the compiled function, or print only while not compiling.",
        before="print(x.shape)",
        after="if not torch.compiler.is_compiling():\n    print(x.shape)",
        setting=Setting(
            "torch._dynamo.config.reorderable_logging_functions",
            "{print}",
            "What is printed appears after the graph has run; a shape or another tuple still breaks the graph, and so does "
            "a number that `capture_scalar_outputs` made an unknown.",
        ),
    ),
    Remedy(
        name="reordered_log",
        gb_types=("attempted to reorder a debugging function that can't actually be reordered",),
        why="`reorderable_logging_functions` puts off calls with tensors, constants or formatted text, and no others.",
        change="Print the tensor itself, without `.item()`, a shape or a tuple; or set only one of this and "
        "`capture_scalar_outputs`.",
        before='print("mean", x.mean().item())',
        after='print("mean", x.mean())',
    ),
    Remedy(
        name="logging",
        gb_types=(
            "logging.Logger method not supported for non-export cases",
            "Unsupported python_type() call",
            _METHOD,
        ),
        about=r"Logger",
        why="Writing a log is an effect outside of the graph, even where the level is off.",
        change="Remove it, log outside of the compiled function, or log only while not compiling.",
        before='logger.info("shape %s", x.shape)',
        after='if not torch.compiler.is_compiling():\n    logger.info("shape %s", x.shape)',
        setting=Setting(
            "torch._dynamo.config.ignore_logging_functions",
            "{logging.Logger.info, logging.info}",
            "What is named here is not logged from compiled code; name every function and method that you use.",
        ),
    ),
    Remedy(
        name="warn",
        gb_types=_SKIPPED,
        about=r"module: _?warnings, qualname: warn\b",
        why="Giving a warning is an effect outside of the graph.",
        change="Check and warn before the compiled function, or warn only while not compiling.",
        before='warnings.warn("slow path")',
        after='if not torch.compiler.is_compiling():\n    warnings.warn("slow path")',
        setting=Setting(
            "torch._dynamo.config.reorderable_logging_functions",
            "{warnings.warn}",
            "The warning appears after the graph has run, later than it happened.",
        ),
    ),
    Remedy(
        name="warning_filters",
        gb_types=_SKIPPED,
        about=r"module: _?warnings\b",
        why="Changing which warnings are shown changes Python's own state, which the graph cannot do.",
        change="Put `catch_warnings` or `simplefilter` around the call of the compiled function.",
        before="def step(x):\n    with warnings.catch_warnings():\n        return model(x)",
        after="def step(x):\n    return model(x)\n\nwith warnings.catch_warnings():\n    y = step(x)",
    ),
    Remedy(
        name="clock",
        gb_types=("Call to a time function", *_SKIPPED),
        about=r"module: _?time,|time function",
        why="The clock must be read, or waited for, at this point of the run; a graph runs as a whole.",
        change="Take the time outside of the compiled function, or use `torch.profiler` for what happens inside.",
        before="def step(x):\n    start = time.perf_counter()\n    y = model(x)\n    return y, time.perf_counter() - start",
        after="def step(x):\n    return model(x)\n\nstart = time.perf_counter()\ny = step(x)\nseconds = time.perf_counter() - start",
    ),
    Remedy(
        name="files",
        gb_types=(_BUILTIN, _METHOD, _CONTEXT, *_SKIPPED),
        about=r"builtin open\b|TextIOWrapper|Buffered(Reader|Writer|Random)|StringIO|BytesIO|FileIO|module: (_?io|shutil|tempfile),",
        why="Reading and writing files or streams are effects outside of the graph.",
        change="Read before and write after the compiled function.",
        before='with open("step.txt", "w") as file:\n    file.write("step")\ny = x + 1',
        after='y = compiled(x)\nwith open("step.txt", "w") as file:\n    file.write("step")',
    ),
    Remedy(
        name="torch_save",
        gb_types=_SKIPPED,
        about=r"module: torch\.serialization",
        why="`torch.save` and `torch.load` read or write a file, an effect outside of the graph.",
        change="Load before and save after the compiled function; return the tensor that you want to save.",
        before='def step(x):\n    y = model(x)\n    torch.save(y, "y.pt")',
        after='def step(x):\n    return model(x)\n\ntorch.save(step(x), "y.pt")',
        leave="Where it is called once in a while, such as for a checkpoint, the break costs next to nothing.",
    ),
    Remedy(
        name="system_call",
        gb_types=_SKIPPED,
        about=r"module: (posix|nt|os|posixpath|genericpath|subprocess|socket|_socket|select|_posixsubprocess)\b",
        why="The call asks the operating system, whose answer is known only when the code runs.",
        change="Ask once before the compiled function and pass the answer in, or keep it as an attribute.",
        before="if os.path.exists(path):\n    x = x + 1",
        after="found = os.path.exists(path)  # once, outside\nif found:\n    x = x + 1",
    ),
    Remedy(
        name="waiting_for_input",
        gb_types=(_BUILTIN, _METHOD, *_SKIPPED),
        about=r"builtin (input|breakpoint)\b|module: (pdb|bdb)\b|breakpointhook|set_trace",
        why="A debugger or `input()` stops the program at this point; a graph runs as a whole.",
        change='Debug without compiling: `torch.compiler.set_stance("force_eager")`, or remove the call.',
        before="answer = input()\ny = x + 1",
        after="y = x + 1",
    ),
)


_RANDOM = (
    Remedy(
        name="python_random",
        gb_types=_SKIPPED,
        about=r"module: random,|qualname: (random\.)?Random\.",
        why="Python's random numbers change state outside of the graph: each run must draw new ones.",
        change="Draw with `torch.rand` or `torch.randint`, or draw before the compiled function and pass the number in.",
        before="y = x * random.random()",
        after="y = x * torch.rand(())",
    ),
    Remedy(
        name="numpy_random",
        gb_types=(
            "attempted to trace numpy function unsupported by PyTorch",
            "attempted to trace torch._numpy.random function with config.use_numpy_random_stream=True",
        ),
        about=r"RandomState|numpy\.random|_numpy\.random|default_rng",
        why="This NumPy random function has no counterpart that could run in the graph.",
        change="Draw with the torch function: `torch.randperm`, `torch.randint`, `torch.rand`.",
        before="order = np.random.permutation(n)\ny = x[order]",
        after="order = torch.randperm(n)\ny = x[order]",
    ),
    Remedy(
        name="random_state",
        gb_types=(_NOT_A_TENSOR, *_SKIPPED),
        about=r"module: torch\.(cuda\.)?random\b|fork_rng|(manual_seed|rng_state)\b",
        why="Seeding, or reading the random state, changes state outside of the graph.",
        change="Seed before the compiled function; to repeat the same noise, draw it once and pass it in.",
        before="torch.manual_seed(0)\ny = x + torch.rand(4)",
        after="def step(x):\n    return x + torch.rand(4)\n\ntorch.manual_seed(0)\ny = step(x)",
    ),
    Remedy(
        name="generator",
        gb_types=(
            "torch.Generator method",
            "An opaque object was created in the middle of the program.",
            _ARGUMENT,
            _METHOD,
            *_SKIPPED,
        ),
        about=r"\(Generator\)|torch(\._C)?\.Generator\b|Generator\.__new__",
        why="A `torch.Generator` holds random state of its own, which the graph cannot carry.",
        change="Draw the noise before the compiled function and pass it in, or draw without `generator=`.",
        before="y = x + torch.rand(4, generator=g)",
        after="def step(x, noise):\n    return x + noise\n\ny = step(x, torch.rand(4, generator=g))",
    ),
    Remedy(
        name="random_in_place",
        gb_types=("Tensor.random_ op",),
        why="`random_` is not known to the compiler.",
        change="Use `torch.randint`.",
        before="y = torch.empty(3).random_(0, 5)",
        after="y = torch.randint(0, 5, (3,)).float()",
    ),
    Remedy(
        name="uniform_in_place",
        gb_types=("Tensor.uniform_ op called with `from` keyword",),
        why="`uniform_` with its bounds given by name is not known to the compiler.",
        change="Give the bounds by position.",
        before='y = torch.empty(3).uniform_(**{"from": 0, "to": 1})',
        after="y = torch.empty(3).uniform_(0, 1)",
    ),
)

_MODULES = (
    Remedy(
        name="rnn",
        gb_types=("Attempted to wrap RNN, GRU, or LSTM", *_CALL),
        about=r"RNN, GRU, or LSTM",
        why="`nn.RNN`, `nn.GRU` and `nn.LSTM` are not compiled unless you ask for it.",
        change="Leave it eager where its own fast kernel serves you (cuDNN), or use the cell in a loop over a fixed length.",
        before="out, state = lstm(x)",
        after="for step in x:\n    h, c = cell(step, (h, c))",
        setting=Setting(
            "torch._dynamo.config.allow_rnn",
            "True",
            "Compiling may take long, since the loop over the sequence may be unrolled; measure both.",
        ),
        leave="Where most of the time is in the recurrent layer itself, compiling round it gains little.",
    ),
    Remedy(
        name="new_parameter",
        gb_types=(
            "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
            "Attempted to use torch.nn.Parameter constructor with tensor subclass",
            "`torch.nn.Parameter()` with unsupported data type",
            "`torch.nn.Parameter` with non-constant Tensor attributes",
            "non-constant `requires_grad` argument to `torch.nn.Parameter`",
        ),
        why="A parameter made in the compiled function is new state at each call, and modules make theirs in `__init__`.",
        change="Make parameters and modules once, outside, in `__init__`; for a value of this call a plain tensor will do.",
        before="def forward(self, x):\n    return nn.Linear(4, 4)(x)",
        after="def __init__(self):\n    super().__init__()\n    self.linear = nn.Linear(4, 4)\n\n"
        "def forward(self, x):\n    return self.linear(x)",
        setting=Setting(
            "torch._dynamo.config.graph_break_on_nn_param_ctor",
            "False",
            "The parameter is made in the graph: where it is used, gradients and module state may differ from eager.",
        ),
    ),
    Remedy(
        name="deepcopy",
        gb_types=("Attempted to copy.deepcopy a tensor", "copy.deepcopy()"),
        why="`copy.deepcopy`, and `dataclasses.asdict` which uses it, copies a tensor or module as a Python object.",
        change="Use `x.clone()` for a tensor; copy a module or a configuration once, outside of the compiled function.",
        before="y = copy.deepcopy(x)",
        after="y = x.clone()",
    ),
    Remedy(
        name="copy",
        gb_types=(_NOT_A_TENSOR, *_SKIPPED),
        about=r"module: copy,|example_value type: function; .*<built-in function getitem>",
        why="`copy.copy` copies the tensor as a Python object, which the graph has no operation for.",
        change="Use `x.clone()`, or `x.view_as(x)` if both may share their memory.",
        before="y = copy.copy(x)",
        after="y = x.clone()",
    ),
    Remedy(
        name="load_state",
        gb_types=(_BUILTIN, _NOT_A_TENSOR, "setattr() on unsupported type", "unsupported hasattr operation"),
        about=r"OrderedDict|is_lazy",
        why="Loading weights replaces a module's state, work for once and not for each call.",
        change="Call `load_state_dict` outside of the compiled function; compiled code sees the new values.",
        before="def step(x):\n    model.load_state_dict(state)\n    return model(x)",
        after="def step(x):\n    return model(x)\n\nmodel.load_state_dict(state)\ny = step(x)",
    ),
    Remedy(
        name="script",
        gb_types=(
            "torch.jit.script/freeze modules unsupported",
            "UnspecializedNNModuleVariable wrapped around ScriptModules unsupported",
            "Attempted to access non-callable attribute of TorchScript object",
            "Weird method call on TorchScript object",
            *_SKIPPED,
        ),
        about=r"ScriptModule|TorchScript|torch[./]jit\b|script/freeze",
        why="TorchScript has compiled this module already; its Python code is gone.",
        change="Hand the original module to `torch.compile`, without `torch.jit.script` or `torch.jit.trace`.",
        before="layer = torch.jit.trace(layer, example)\ny = layer(x)",
        after="y = layer(x)",
    ),
    Remedy(
        name="packed_sequence",
        gb_types=_SKIPPED,
        about=r"module: torch\.nn\.utils\.rnn\b",
        why="Packing sequences reads their lengths on the CPU and gives a tensor whose size depends on them.",
        change="Pack before the compiled function, or keep the sequences padded and mask what is padding.",
        before="packed = pack_padded_sequence(x, lengths)\ny = packed.data * 2",
        after="def step(data):\n    return data * 2\n\ny = step(pack_padded_sequence(x, lengths).data)",
    ),
    Remedy(
        name="global_setting",
        gb_types=("Attempted to use torch.use_deterministic_algorithms(warn_only=True)", *_SKIPPED),
        about=r"module: torch(\.\w+)*, qualname: set_(?!rng)|warn_only",
        why="This changes a setting of the whole process, which a graph cannot do.",
        change="Set it once at the start of the program, before the compiled function.",
        before="def step(x):\n    torch.set_num_threads(1)\n    return model(x)",
        after="def step(x):\n    return model(x)\n\ntorch.set_num_threads(1)\ny = step(x)",
    ),
    Remedy(
        name="machine_state",
        gb_types=(_NOT_A_TENSOR,),
        why="The call gives no tensor but something about the machine, such as memory in use, threads or a stream.",
        change="Ask for it outside of the compiled function and pass in what you need.",
        before="threads = torch.get_num_threads()\ny = x / threads",
        after="def step(x, threads):\n    return x / threads\n\ny = step(x, torch.get_num_threads())",
    ),
)

_GRADIENTS = (
    Remedy(
        name="backward",
        gb_types=("Unsupported Tensor.backward() call",),
        why="`backward()` runs the autograd engine, and the compiler makes the backward of a graph by itself.",
        change="Compile the forward and the loss only, and call `backward()` on what it returns.",
        before="def step(x):\n    loss = model(x).sum()\n    loss.backward()\n    return loss",
        after="def loss_of(x):\n    return model(x).sum()\n\nloss = compiled(loss_of)(x)\nloss.backward()",
        setting=_AUTOGRAD,
        leave="Both halves are compiled anyway: this break between them costs little.",
    ),
    Remedy(
        name="autograd_grad",
        gb_types=("using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`",),
        why="`torch.autograd.grad` runs the autograd engine, which is not part of a graph by default.",
        change="Use `torch.func.grad`, which can be compiled, or take the gradient outside of the compiled function.",
        before="g = torch.autograd.grad((x * x).sum(), x)[0]",
        after="g = torch.func.grad(lambda x: (x * x).sum())(x)",
        setting=_AUTOGRAD,
    ),
    Remedy(
        name="optimizer",
        gb_types=_SKIPPED,
        about=r"qualname: (\w*Optimizer|SGD|Adam\w*|LRScheduler|\w+LR)\.|module: torch\.optim\b",
        why="The optimizer's bookkeeping is Python that is kept out of graphs on purpose.",
        change="Leave the optimizer out of the compiled function; to compile it too, compile `optimizer.step` by itself.",
        before="def step(x):\n    optimizer.zero_grad()\n    return model(x)",
        after="def step(x):\n    return model(x)\n\noptimizer.zero_grad()\ny = step(x)",
    ),
    Remedy(
        name="new_tensor_with_grad",
        gb_types=("Attempted to use tensor creation function with requires_grad=True",),
        why="A leaf tensor made inside of the graph would need a gradient of its own, which nobody outside can read.",
        change="Make it outside of the compiled function and pass it in, or leave out `requires_grad=True`.",
        before="w = torch.ones(4, requires_grad=True)\ny = x * w",
        after="def step(x, w):\n    return x * w\n\ny = step(x, torch.ones(4, requires_grad=True))",
    ),
    Remedy(
        name="requires_grad",
        gb_types=(
            "setattr() on Tensor.requires_grad",
            "Unsupported Tensor.requires_grad_() call",
            "requires_grad_() intermediate leaked as output",
            "returning intermediate with requires_grad_()",
        ),
        why="Whether a tensor needs a gradient decides what the backward is, and so has to be fixed before the graph.",
        change="Set `requires_grad` before the compiled function: freeze parameters once, pass in a leaf that has it.",
        before="x.requires_grad = True\ny = x * 2",
        after="def step(x):\n    return x * 2\n\ny = step(x.requires_grad_())",
    ),
    Remedy(
        name="tensor_hook",
        gb_types=(
            "Reconstruction failure",
            "Attempted to represent unregistered RemovableHandle",
            "Compilation of intermediate hooks requires compiled autograd",
            "Storing Tensor hook handle in globals",
            "Storing Tensor hook handle in globals (inline call)",
        ),
        about=r"RemovableHandle|hook",
        why="The handle of a hook that was registered in the compiled function cannot leave it.",
        change="Register the hook without keeping its handle: a hook that stays is compiled with the rest.",
        before="handles.append(y.register_hook(fix))",
        after="y.register_hook(fix)",
    ),
    Remedy(
        name="module_backward_hook",
        gb_types=("Module-level backwards hooks require compiled autograd.",),
        why="A backward hook of a module is called in the middle of the backward, which the compiler makes as a whole.",
        change="Use a hook on a parameter, or a tensor hook on the module's output: `y.register_hook`.",
        before="layer.register_full_backward_hook(watch)\ny = layer(x)",
        after="y = layer(x)\ny.register_hook(watch_output)",
        setting=Setting(
            "torch._dynamo.config.compiled_autograd",
            "True",
            "The backward is compiled anew at run time, which costs compile time and is younger than the rest.",
        ),
    ),
    Remedy(
        name="forward_hook",
        gb_types=(_BUILTIN, "setattr() on unsupported type"),
        about=r"RemovableHandle",
        why="Registering a hook changes the module, and the graph was made for the module as it is.",
        change="Register forward hooks before the compiled function is called for the first time.",
        before="handle = layer.register_forward_hook(double)\ny = layer(x)\nhandle.remove()",
        after="layer.register_forward_hook(double)  # once, outside\ny = layer(x)",
    ),
    Remedy(
        name="retain_grad",
        gb_types=("Tensor.retain_grad() with AOTDispatcher",),
        why="A tensor between two operations of a graph does not exist by itself when the backward runs.",
        change="Split the function at that tensor: compile the part before and the part after, and keep its gradient between.",
        before="y = x * 2\ny.retain_grad()\nz = y * 2",
        after="y = first(x)  # both compiled\ny.retain_grad()\nz = second(y)",
    ),
    Remedy(
        name="grad_fn",
        gb_types=("Tensor with grad_fn()",),
        why="Inside of a graph there is no autograd node to look at: the backward is made later, as a whole.",
        change="Ask `y.requires_grad`, or look at `grad_fn` outside of the compiled function.",
        before="if y.grad_fn is not None:\n    y = y * 2",
        after="if y.requires_grad:\n    y = y * 2",
    ),
    Remedy(
        name="function_with_jvp",
        gb_types=("Unsupported custom jvp",),
        why="A `torch.autograd.Function` with a `jvp` of its own is not compiled.",
        change="Remove `jvp` if you need no forward-mode derivatives, or make it a `torch.library.custom_op`.",
        before="class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def jvp(ctx, tangent):\n        return tangent * 2",
        after="class Double(torch.autograd.Function):\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return grad * 2",
    ),
    Remedy(
        name="function_with_vjp",
        gb_types=("Unsupported custom vjp",),
        why="A `torch.autograd.Function` that defines `vjp` is not compiled; `backward` is.",
        change="Name the method `backward`.",
        before="@staticmethod\ndef vjp(ctx, grad):\n    return grad * 2",
        after="@staticmethod\ndef backward(ctx, grad):\n    return grad * 2",
    ),
    Remedy(
        name="mark_dirty",
        gb_types=(
            "Unsupported autograd.Function context `mark_dirty`",
            "autograd.Function.apply: mark_dirty input not returned",
        ),
        why="This `torch.autograd.Function` changes its input in place (`mark_dirty`), which is compiled in few cases only.",
        change="Return a new tensor instead; the compiler reuses the memory where it can.",
        before="ctx.mark_dirty(x)\nreturn x.mul_(2)",
        after="return x * 2",
    ),
    Remedy(
        name="saved_tensors_hooks",
        gb_types=(_CONTEXT, *_SKIPPED),
        about=r"saved_tensors_hooks|save_on_cpu|disable_saved_tensors_hooks",
        why="Hooks on saved tensors change how the backward keeps its inputs, which the compiler decides by itself.",
        change="Save memory with `torch.utils.checkpoint`, which can be compiled, or put the hooks round the compiled call.",
        before="with torch.autograd.graph.save_on_cpu():\n    y = block(x)",
        after="y = checkpoint(block, x, use_reentrant=False)",
    ),
    Remedy(
        name="detect_anomaly",
        gb_types=(_CONTEXT, *_SKIPPED),
        about=r"detect_anomaly|set_detect_anomaly",
        why="Anomaly detection records where each operation of the backward came from, and a graph runs as a whole.",
        change="Debug without compiling, or turn it on outside of the compiled function.",
        before="with torch.autograd.detect_anomaly():\n    y = model(x)",
        after="y = model(x)",
    ),
)

_TENSORS = (
    Remedy(
        name="set_data",
        gb_types=(
            "Failed to mutate tensor data attribute",
            "Failed to mutate tensor data attribute to different dtype",
            "Failed to mutate tensor data attribute across devices with different shape/strides",
            "setattr() on Tensor.data with different shape",
            "setattr() on Parameter.data with different shape",
        ),
        why="Assigning `.data` gives the tensor other memory, of another size or type, behind the graph's back.",
        change="Use a new tensor under the same name, or `copy_` into the old one if the size is the same.",
        before="y.data = z",
        after="y = z",
    ),
    Remedy(
        name="storage",
        gb_types=(_METHOD, "Unsupported Tensor.set_() call"),
        about=r"UntypedStorage|Tensor\.set_\(",
        why="The call looks at or replaces the memory behind a tensor, which is not fixed while compiling.",
        change="Use the tensor itself: `x.nbytes`, views and slices, `copy_`; do what needs the memory outside.",
        before="size = x.untyped_storage().nbytes()",
        after="size = x.nbytes",
    ),
    Remedy(
        name="share_memory",
        gb_types=("Unsupported Tensor.share_memory_() call", "Unhandled args for method"),
        about=r"share_memory_",
        why="`share_memory_` moves the tensor to memory shared between processes, which a graph cannot do.",
        change="Call it outside of the compiled function, on its inputs or on its result.",
        before="y = x * 2\ny.share_memory_()",
        after="def step(x):\n    return x * 2\n\ny = step(x).share_memory_()",
    ),
    Remedy(
        name="sparse",
        gb_types=(
            "Attempted to wrap sparse Tensor",
            "Attempted to wrap sparse Tensor with VariableTracker",
            "Sparse tensor creation not supported",
            "sparse_grad_accumulate_grad",
        ),
        why="Sparse tensors are not compiled.",
        change="Keep the sparse step outside of the compiled function, or use indices with `index_add` or `scatter_add`.",
        before="y = adjacency @ x  # sparse\nz = model(y)",
        after="def step(y):\n    return model(y)\n\nz = step(adjacency @ x)",
    ),
    Remedy(
        name="nested",
        gb_types=(
            "Attempted to wrap strided NestedTensor",
            "Attempted to use strided NestedTensor",
            "Encountered strided NestedTensor in automatic dynamic dim determination",
        ),
        why="Nested tensors in the strided layout are not compiled; those in the jagged layout are.",
        change="Make it with `layout=torch.jagged`.",
        before="x = torch.nested.nested_tensor(rows)",
        after="x = torch.nested.nested_tensor(rows, layout=torch.jagged)",
    ),
    Remedy(
        name="quantized",
        gb_types=(
            "Fake tensor propagation exception",
            "NotImplementedError/UnsupportedFakeTensorException when running FX node",
        ),
        about=r"quantized",
        why="Tensors of a quantized dtype such as `torch.qint8` are not compiled.",
        change="Dequantize before the compiled function, or quantize with torchao, which uses plain integer tensors.",
        before="y = q.dequantize() + 1",
        after="def step(x):\n    return x + 1\n\ny = step(q.dequantize())",
    ),
    Remedy(
        name="inference_mode",
        gb_types=(
            "Encountered torch.is_inference_mode_enabled during tracing",
            "Encountered tensor.is_inference() during tracing",
        ),
        why="Whether inference mode is on is not known to the graph.",
        change="Ask `torch.is_grad_enabled()` instead and use `torch.no_grad`: compiled code gains nothing from more.",
        before="if torch.is_inference_mode_enabled():\n    x = x + 1",
        after="if not torch.is_grad_enabled():\n    x = x + 1",
    ),
    Remedy(
        name="custom_op_without_shapes",
        gb_types=("Operator does not support running with fake tensors", "Custom op missing fake impl during tracing"),
        why="The compiler cannot tell which shape and dtype this operator returns.",
        change="Register that with `torch.library.register_fake`: a function that returns an empty tensor like the result.",
        before='torch.library.define("mylib::twice", "(Tensor x) -> Tensor")',
        after='torch.library.define("mylib::twice", "(Tensor x) -> Tensor")\n\n'
        '@torch.library.register_fake("mylib::twice")\ndef _(x):\n    return torch.empty_like(x)',
    ),
    Remedy(
        name="wrong_shapes",
        gb_types=("RuntimeError when making fake tensor call", "TypeError when making fake tensor call"),
        why="The operator refuses these shapes, dtypes or arguments; mostly, eager refuses them too.",
        change="Run it without `torch.compile` and fix that error first; if eager runs it, report it to PyTorch.",
        before="y = x @ x  # 3x4 by 3x4",
        after="y = x @ x.T",
    ),
)

_INSIDE = (
    Remedy(
        name="checkpoint_side_effect",
        gb_types=("HOP: Unsafe side effect", "HOP: Non-nullified side effect"),
        about=r"checkpoint",
        why="The checkpointed function runs again in the backward, so what it changes outside would change twice.",
        change="Let the function return what it wants to tell, and change lists, counters or attributes after the call.",
        before="def block(x):\n    seen.append(x.shape)\n    return x.sin()\n\ny = checkpoint(block, x, use_reentrant=False)",
        after="def block(x):\n    return x.sin()\n\ny = checkpoint(block, x, use_reentrant=False)\nseen.append(x.shape)",
        setting=Setting(
            "torch._dynamo.config.skip_fwd_side_effects_in_bwd_under_checkpoint",
            "True",
            "The change is made in the forward only, which differs from eager.",
        ),
    ),
    Remedy(
        name="branch_side_effect",
        gb_types=("HOP: Unsafe side effect", "HOP: Non-nullified side effect"),
        why="A function handed to `torch.cond`, `while_loop` or `scan` becomes a graph that cannot change things outside.",
        change="Return the value and change lists, dicts or attributes after the call.",
        before="def up(x):\n    seen.append(1)\n    return x + 1\n\ny = torch.cond(flag, up, down, (x,))",
        after="def up(x):\n    return x + 1\n\ny = torch.cond(flag, up, down, (x,))\nseen.append(1)",
    ),
    Remedy(
        name="branch_changes_input",
        gb_types=("Encountered input mutation during higher order op tracing", "torch.map: f mutates pos_args"),
        why="A function handed to `torch.cond` and its kind must not change its inputs in place.",
        change="Compute a new tensor instead of the in-place operation.",
        before="def up(x):\n    return x.add_(1)",
        after="def up(x):\n    return x + 1",
    ),
    Remedy(
        name="branch_returns_input",
        gb_types=("Encountered aliasing during higher order op tracing",),
        why="A function handed to `torch.cond` and its kind must not return one of its inputs, or a view of it.",
        change="Return a copy: `x.clone()`.",
        before="def same(x):\n    return x",
        after="def same(x):\n    return x.clone()",
    ),
    Remedy(
        name="branch_returns_object",
        gb_types=("HOP body output unsupported", "torch.cond: unsupported branch return type"),
        why="A function handed to `torch.cond` and its kind may return tensors and plain numbers only.",
        change="Return tensors, and choose other objects in Python outside.",
        before='def up(x):\n    return x + 1, "up"',
        after="def up(x):\n    return x + 1",
    ),
)

_PYTHON = (
    Remedy(
        name="iterator",
        gb_types=(
            "missing tp_iter",
            "Missing tp_iternext",
            "call_method on generator",
            "Unexpected type in sourceless builder",
            "C-implemented special method without VariableTracker model",
            _METHOD,
        ),
        about=r"tp_iter|generator object|_iterator\b|__iter__|__next__|next\(",
        why="This iterator was made outside of the compiled function, and its position is state that cannot be read.",
        change="Pass a list or tuple instead, or call `list(...)` on it before the compiled function.",
        before="y = step(x, (i for i in range(3)))",
        after="y = step(x, list(range(3)))",
    ),
    Remedy(
        name="data_loader",
        gb_types=_SKIPPED,
        about=r"DataLoader|torch[./]utils[./]data\b",
        why="Loading data starts workers and reads files, which a graph cannot do.",
        change="Loop over the data outside and compile the step on one batch.",
        before="def epoch():\n    for batch in loader:\n        step(batch)",
        after="compiled_step = torch.compile(step)\nfor batch in loader:\n    compiled_step(batch)",
    ),
    Remedy(
        name="set_of_tensors",
        gb_types=("Attempted to wrap a set with tensors",),
        why="A set of tensors has no order that stays the same from call to call.",
        change="Use a list, or a dict with the tensors as keys.",
        before="y = step(x, {a, b})",
        after="y = step(x, [a, b])",
    ),
    Remedy(
        name="address",
        gb_types=(
            "Observed exception",
            _BUILTIN,
            _ARGUMENT,
            "Unsupported call_id() without source",
            "id() with unsupported args",
            "Comparison on compile-time-only id or hash value",
            "Reconstruction of FakeIdVariable",
            "Data pointer comparison",
            "Data pointer truth value",
        ),
        about=r"unsupported operand type\(s\) for \S+ 'int' and 'int'|DataPtr|Data pointer|FakeId|\bid\(|call_id|builtin hash\b",
        why="`id()`, `hash()` or `data_ptr()` is an address, which is not known while compiling.",
        change="Compare tensors with `is`, and do what needs an address outside of the compiled function.",
        before="aligned = x.data_ptr() % 16 == 0",
        after="def step(x, aligned):\n    return x + 1 if aligned else x\n\ny = step(x, x.data_ptr() % 16 == 0)",
    ),
    Remedy(
        name="exception",
        gb_types=("Observed exception", "Observed exception (EXCEPT_HANDLER)"),
        why="An exception leaves the compiled function, and a graph cannot raise one.",
        change="Fix its cause, or check arguments before the compiled function; if eager raises nothing, update torch.",
        before='def step(x):\n    if x.dim() != 3:\n        raise ValueError("want 3 dimensions")\n    return x + 1',
        after="def step(x):\n    return x + 1  # the caller has checked x.dim()",
        leave="Where the exception is an error that ends the program, there is nothing to gain.",
    ),
    Remedy(
        name="threads",
        gb_types=(_CONTEXT, _METHOD, *_SKIPPED),
        about=r"\((lock|RLock|Condition|Semaphore|BoundedSemaphore|Event|Barrier)\)|module: _?thread(ing)?\b|_thread\.",
        why="Waiting for a lock or a thread happens at this point of the run; a graph runs as a whole.",
        change="Take the lock round the call of the compiled function.",
        before="def step(x):\n    with lock:\n        return x + 1",
        after="def step(x):\n    return x + 1\n\nwith lock:\n    y = step(x)",
    ),
    Remedy(
        name="context_variable",
        gb_types=(_METHOD, "ContextVar mutation not supported", "ContextVar.get() with non-constant default"),
        about=r"ContextVar",
        why="A `ContextVar` is state of the running thread, which a graph does not change and older versions cannot read.",
        change="Read it before the compiled function and pass the value in; set it outside.",
        before="def step(x):\n    token = mode.set(2)\n    y = model(x)\n    mode.reset(token)\n    return y",
        after="def step(x):\n    return model(x)\n\ntoken = mode.set(2)\ny = step(x)\nmode.reset(token)",
    ),
    Remedy(
        name="context_manager",
        gb_types=(
            _CONTEXT,
            "unsupported contextlib.* API",
            "Attempted to reconstruct context manager's __enter__ method",
        ),
        why="The compiler does not know what entering and leaving this context manager does.",
        change="Put the `with` round the call of the compiled function.",
        before="def step(x):\n    with contextlib.redirect_stdout(log):\n        return model(x)",
        after="def step(x):\n    return model(x)\n\nwith contextlib.redirect_stdout(log):\n    y = step(x)",
    ),
    Remedy(
        name="break_in_context",
        gb_types=("Graph break under GenericContextWrappingVariable",),
        why="The break happened inside of a `with` block that cannot be left and entered again, so nothing was compiled.",
        change="Fix the first cause, or move the line that breaks out of the `with` block.",
        before="with timer():\n    y = x + 1\n    print(y.shape)",
        after="with timer():\n    y = x + 1\nprint(y.shape)",
    ),
    Remedy(
        name="break_in_loop",
        gb_types=("graph break in loop",),
        why="A break inside of a `for` or `while` loop cannot be resumed, so the whole function runs eagerly.",
        change="Fix the first cause, or move the body of the loop into a function of its own and compile that one.",
        before="def run(x):\n    for _ in range(3):\n        x = x + 1\n        print(x.shape)\n    return x",
        after="def run(x):\n    for _ in range(3):\n        x = x + 1\n    return x",
    ),
    Remedy(
        name="disabled",
        gb_types=(
            "Skip calling `torch.compiler.disable()`d function",
            "Skip inlining `torch.compiler.disable()`d function",
        ),
        why="The function is marked with `torch.compiler.disable`, so it runs eagerly: somebody wanted it so.",
        change="Remove the mark if its reason is gone, or call the function before or after the compiled one.",
        before="@torch.compiler.disable\ndef helper(x):\n    return x + 1",
        after="def helper(x):\n    return x + 1",
        leave="The mark is there on purpose, in a library it is seldom yours to remove.",
    ),
    Remedy(
        name="call_of_disable",
        gb_types=("Call to `torch.compiler.disable()`", "Call to `torch._dynamo.disable()`", *_SKIPPED),
        about=r"module: torch\.compiler, qualname: disable|disable\(\)",
        why="Marking a function with `torch.compiler.disable` inside of compiled code happens anew at each call.",
        change="Mark the function once where it is defined.",
        before="def step(x):\n    return torch.compiler.disable(helper)(x)",
        after="helper = torch.compiler.disable(helper)  # once, outside",
    ),
    Remedy(
        name="call_of_the_compiler",
        gb_types=_SKIPPED,
        about=r"module: torch\.(compiler|_dynamo)\b",
        why="This function talks to the compiler, so it belongs outside of what is compiled.",
        change="Call it right before the compiled function.",
        before="def step(x):\n    torch.compiler.cudagraph_mark_step_begin()\n    return x + 1",
        after="torch.compiler.cudagraph_mark_step_begin()\ny = compiled_step(x)",
    ),
    Remedy(
        name="asked_for",
        gb_types=(
            "Call to `torch._dynamo.graph_break()`",
            "Call to `torch._dynamo.skip_frame()`",
            "Call to `torch._dynamo.step_unsupported()`",
        ),
        why="The code asks for this break by itself; `optimizer.step()` does so too.",
        change="Remove the call if it is yours, or compile the parts before and after by themselves.",
        before="x = x + 1\ntorch._dynamo.graph_break()\ny = x * 2",
        after="x = x + 1\ny = x * 2",
        leave="A library that asks for a break knows why.",
    ),
    Remedy(
        name="numpy_function",
        gb_types=("attempted to trace numpy function unsupported by PyTorch",),
        why="This NumPy function has no counterpart in PyTorch that could run in the graph.",
        change="Write it with torch operations, or do it outside of the compiled function.",
        before="total = np.nansum(x.numpy())",
        after="total = torch.nansum(x)",
    ),
    Remedy(
        name="numpy_objects",
        gb_types=("ndarray.astype(object)", "failed to convert numpy.ndarray to Tensor"),
        why="NumPy arrays of strings or objects cannot become tensors.",
        change="Keep them out of the compiled function; pass in numbers, or a plain list of strings.",
        before='names = np.array(["a", "b"])\ny = x + len(names)',
        after='names = ["a", "b"]\ny = x + len(names)',
    ),
    Remedy(
        name="serialize",
        gb_types=(_METHOD, *_SKIPPED),
        about=r"module: _?(pickle|json|hashlib|uuid|marshal)\b|_json\.|Encoder\.__new__|\(HASH\)",
        why="Making JSON, a pickle, a hash or a UUID is work of Python's C library on the CPU, not tensor operations.",
        change="Do it outside of the compiled function and pass in what is needed.",
        before="key = json.dumps(options)\ny = x + len(key)",
        after="key = json.dumps(options)  # once, outside\ny = x + len(key)",
    ),
    Remedy(
        name="namespace",
        gb_types=(_BUILTIN,),
        about=r"builtin (globals|locals|vars|dir|exec|eval|compile)\b",
        why="`globals`, `exec`, `dir` and their kind work on all names of the program, which a graph does not know.",
        change="Use a dict of your own, plain attributes, or `getattr` with a constant name.",
        before='scale = globals()["SCALE"]',
        after="scale = SCALE",
    ),
    Remedy(
        name="frames",
        gb_types=("Unsupported inspect call", *_SKIPPED),
        about=r"_getframe|currentframe|module: (inspect|traceback|linecache)\b|_patched_getfile|inspect call",
        why="Looking at the call stack or the source has no meaning in a graph.",
        change="Do so once, outside, and pass in what is needed.",
        before="line = sys._getframe().f_lineno",
        after="line = 12",
    ),
    Remedy(
        name="weak_reference",
        gb_types=(_METHOD, *_SKIPPED),
        about=r"weakref|KeyedRef|ReferenceType",
        why="Making a weak reference is bookkeeping of Python's memory, which a graph cannot do.",
        change="Make it outside of the compiled function, or use a plain dict.",
        before='cache = weakref.WeakValueDictionary()\ncache["config"] = config',
        after='cache = {}\ncache["config"] = config',
    ),
    Remedy(
        name="class_definition",
        gb_types=("Invalid call to __build_class__", "LOAD_BUILD_CLASS bytecode not supported", *_SKIPPED),
        about=r"build_class|LOAD_BUILD_CLASS",
        why="A class made in the compiled function would be another class at each call.",
        change="Define the class outside.",
        before="def step(x):\n    class Options:\n        scale = 2\n    return x * Options.scale",
        after="class Options:\n    scale = 2\n\ndef step(x):\n    return x * Options.scale",
    ),
    Remedy(
        name="getattribute",
        gb_types=(
            _METHOD,
            "Custom __getattribute__ in nn.Module attribute access",
            "Custom __getattribute__ in nn.Module dict key check",
            "Custom metaclass with __getattribute__",
        ),
        about=r"__getattribute__",
        why="With a `__getattribute__` of its own, every attribute of the object may mean anything.",
        change="Use `__getattr__`, which is asked only for what is missing, or a property.",
        before="def __getattribute__(self, name):\n    return object.__getattribute__(self, name)",
        after="def __getattr__(self, name):\n    return 0",
    ),
    Remedy(
        name="set_attribute",
        gb_types=("setattr() on unsupported type", _BUILTIN),
        about=r"setattr",
        why="Setting an attribute of a function or a class changes what all callers share.",
        change="Keep such state in an object or a module, or set it outside of the compiled function.",
        before="step.calls = 1",
        after="state.calls = 1",
    ),
    Remedy(
        name="foreign_argument",
        gb_types=(_ARGUMENT,),
        why="A torch function is given something that is no tensor or number, such as a Python function.",
        change="Use tensor operations on the whole tensor instead of a Python function for each element.",
        before="y = x.apply_(lambda v: v + 1)",
        after="y = x + 1",
    ),
    Remedy(
        name="recompile_limit",
        gb_types=("Dynamo recompile limit exceeded",),
        why="Something that the compiled code relies on differs at each call, so it was compiled until the limit.",
        change="Make what changes a tensor or a dynamic size; keep counters and growing lists out of the compiled code.",
        before="self.step += 1  # a Python int\nreturn x + self.step",
        after="self.step.add_(1)  # a buffer\nreturn x + self.step",
        setting=Setting(
            "torch._dynamo.config.recompile_limit",
            "64",
            "Each variant still costs a compile, and each call looks through all of them.",
        ),
    ),
    Remedy(
        name="builtin",
        gb_types=(_BUILTIN,),
        why="This built-in function of Python is not known to the compiler with these arguments.",
        change="Call it outside of the compiled function, or write it with tensor operations.",
        before="size = len(memoryview(data))\ny = x + size",
        after="size = len(data)\ny = x + size",
    ),
    Remedy(
        name="method",
        gb_types=(_METHOD,),
        why="The method belongs to a class that is not written in Python, so the compiler cannot see what it does.",
        change="Call it outside and pass the result in; wrap code that computes tensors in a `torch.library.custom_op`.",
        before="y = x + queue.qsize()",
        after="def step(x, waiting):\n    return x + waiting\n\ny = step(x, queue.qsize())",
    ),
    Remedy(
        name="function",
        gb_types=_CALL,
        why="The compiler does not know how to call this: mostly a class or function that is not written in Python.",
        change="Call it outside and pass the result in; wrap code that computes tensors in a `torch.library.custom_op`.",
        before='rate = decimal.Decimal("1.5")\ny = x * float(rate)',
        after="rate = 1.5\ny = x * rate",
    ),
    Remedy(
        name="c_function",
        gb_types=(
            *_SKIPPED,
            "can't handle functions not implemented in python ",
            "Untraceable C tp_hash",
            "Untraceable C tp_richcompare",
        ),
        about=r"builtin|C/C\+\+|implemented in python|Untraceable C",
        why="The function is not written in Python, so the compiler cannot see what it does.",
        change="Call it outside and pass the result in; wrap code that computes tensors in a `torch.library.custom_op`.",
        before="y = x + zlib.crc32(name) % 7",
        after="def step(x, key):\n    return x + key\n\ny = step(x, zlib.crc32(name) % 7)",
    ),
    Remedy(
        name="skipped_function",
        gb_types=_SKIPPED,
        why="This function is on torch's list of those that are never compiled.",
        change="Call it before or after the compiled function and pass in what it gives.",
        before='y = x * importlib.import_module("math").pi',
        after="y = x * math.pi",
        leave="If it runs once, such as an import or a setup step, the break costs little.",
    ),
)

REMEDIES = _VALUES + _SIZES + _TELLING + _RANDOM + _MODULES + _GRADIENTS + _TENSORS + _INSIDE + _PYTHON
