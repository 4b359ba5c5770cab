"""All of `generate` is compiled."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

small = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "vocab_size": 64}
net = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **small)).eval()
net.generate = torch.compile(net.generate, backend="eager")
net.generate(torch.randint(1, 64, (1, 5)), max_new_tokens=3)
