"""A quantizer calls a kernel of a C library: the shape of thu-ml/SageAttention#73."""

import ctypes

import torch
from torch import nn

libc = ctypes.CDLL(None)


def fused_copy(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    libc.memcpy(ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(x.nbytes))  # root
    return y


class QuantizedKeys(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.keys = nn.Linear(width, width)

    def forward(self, x):
        keys = self.keys(x)
        scale = keys.abs().amax(-1, keepdim=True) / 127
        return fused_copy((keys / scale).round()), scale


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.queries, self.quantized = nn.Linear(width, width), QuantizedKeys(width)

    def forward(self, x):
        keys, scale = self.quantized(x)
        return (self.queries(x) @ (keys * scale).transpose(-1, -2)).softmax(-1)


@torch.no_grad()
def main():
    step = torch.compile(Attention())
    return [step(torch.randn(2, 5, 8)) for _ in range(2)]


if __name__ == "__main__":
    main()
