"""A compiled function quantizes the model that it calls."""

import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).eval()
config = Int8WeightOnlyConfig()


@torch.compile(backend="eager")
def quantized(x):
    quantize_(model, config)
    return model(x)


quantized(torch.randn(8, 64))
