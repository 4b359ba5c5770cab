"""A compiled call asks for hidden states, and a hook of the user's asks for a value."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

small = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "vocab_size": 64}
net = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **small)).eval()
seen = []


def keep(module, args, out):
    del module, args
    seen.append(out.sum().item())


net.model.layers[0].mlp.register_forward_hook(keep)
compiled = torch.compile(net, backend="eager")
with torch.no_grad():
    compiled(torch.randint(1, 64, (2, 6)), output_hidden_states=True)
