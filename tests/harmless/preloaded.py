"""What every run of a model would do again: imports, and asking g++ which instructions the processor has.

Imported by the process that all runs are forked from. It compiles no graph, starts no thread and opens no lens.
"""

import gc
import importlib

import torch
import transformers
from torch._inductor.codecache import torch_key
from torch._inductor.codegen.common import init_backend_registration
from torch._inductor.cpu_vec_isa import valid_vec_isa_list

from compiler_lens.capture.torch_api.measuring import guards_untimed

for name in (
    "compile_fx",
    "graph",
    "select_algorithm",
    "codegen.cpp",
    "codegen.cpp_wrapper_cpu",
    "fx_passes.post_grad",
):
    importlib.import_module(f"torch._inductor.{name}")
for name in ("Bert", "CLIP", "GPT2", "Llama", "Mamba", "Mixtral", "T5", "ViT", "Whisper"):
    getattr(transformers, f"{name}PreTrainedModel")
valid_vec_isa_list()
torch_key()
init_backend_registration()
torch._dynamo.list_backends()
_untimed = guards_untimed()  # kept: what is let go of is left
_untimed.__enter__()  # for good: two thirds of the time of a small frame's compilation, in all runs alike
gc.freeze()  # a million objects, which no collection of any run need look at
