"""AdaLora sets `requires_grad` in its own forward."""

import torch
from peft import AdaLoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

small = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "vocab_size": 64}
config = AdaLoraConfig(r=4, total_step=10, target_modules=["q_proj"], task_type="CAUSAL_LM")
net = get_peft_model(LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **small)), config)
ids = torch.randint(0, 64, (2, 8))
torch.compile(net, backend="eager")(input_ids=ids, labels=ids).loss.backward()
