"""What to change about a graph break: our own advice, for readers who know PyTorch and nothing of the compiler."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from compiler_lens.model import BreakCause


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


def remedy_for(cause: BreakCause) -> Remedy | None:
    """The most specific advice on a cause; None where we have none."""
    said = "\n".join((cause.gb_type, cause.higher_order_op, cause.context, cause.explanation))
    return next((r for r in _by_type().get(cause.gb_type, ()) if re.search(r.about, said)), None)


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
    "The number becomes an unknown in the graph: code that branches on it or sizes a tensor with it may still break.",
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
        gb_types=(_BUILTIN, "repr() on tensor", "Attempted to call repr() method implemented in C/C++"),
        about=r"builtin (str|repr|ascii|format) \[.*Tensor|repr\(\) on tensor|Tensor",
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
            "What is printed appears after the graph has run, in order but later than it happened.",
        ),
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
        before="with warnings.catch_warnings():\n    y = model(x)",
        after="with warnings.catch_warnings():\n    y = compiled_model(x)",
    ),
    Remedy(
        name="clock",
        gb_types=("Call to a time function", *_SKIPPED),
        about=r"module: _?time,|time function",
        why="The clock must be read, or waited for, at this point of the run; a graph runs as a whole.",
        change="Take the time outside of the compiled function, or use `torch.profiler` for what happens inside.",
        before="start = time.perf_counter()\ny = model(x)\nseconds = time.perf_counter() - start",
        after="start = time.perf_counter()\ny = compiled_model(x)\nseconds = time.perf_counter() - start",
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
        before='y = model(x)\ntorch.save(y, "y.pt")',
        after='y = compiled_model(x)\ntorch.save(y, "y.pt")',
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
        before="model.load_state_dict(state)\ny = model(x)",
        after="model.load_state_dict(state)\ny = compiled_model(x)",
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
        before="torch.set_num_threads(1)\ny = model(x)",
        after="torch.set_num_threads(1)\ny = compiled_model(x)",
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
        change="Do not keep the handle, or register the hook outside, on a tensor that the compiled function returns.",
        before="handles.append(y.register_hook(fix))",
        after="y.register_hook(fix)",
    ),
    Remedy(
        name="module_backward_hook",
        gb_types=("Module-level backwards hooks require compiled autograd.",),
        why="A backward hook of a module is called in the middle of the backward, which the compiler makes as a whole.",
        change="Use a hook on a parameter, or a tensor hook on the module's output: `y.register_hook`.",
        before="layer.register_full_backward_hook(watch)",
        after="layer.weight.register_hook(watch)",
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
        change="Return the tensor and call `retain_grad()` outside, or take its gradient with a tensor hook.",
        before="y = x * 2\ny.retain_grad()\nz = y * 2",
        after="grads = []\ny = x * 2\ny.register_hook(grads.append)\nz = y * 2",
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

REMEDIES = _VALUES + _SIZES + _TELLING + _RANDOM + _MODULES + _GRADIENTS
