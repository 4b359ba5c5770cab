"""An error for some values, which the same function catches: an assertion on the device is no such error."""

import torch


def step(x):
    try:
        y = x * 2
        if y.sum() > 0:  # root
            raise ValueError("positive")  # noqa: TRY301 -- what this is about
    except ValueError:
        y = y - 1
    return y


@torch.no_grad()
def main():
    compiled = torch.compile(step)
    return [compiled(torch.ones(3)), compiled(-torch.ones(3))]
