"""Modes are strings, more and more of them: the shape of pytorch/pytorch#142860."""

import torch


def scale(x, mode):
    return x * len(mode)


def gain(x, mode):
    return x + len(mode)


def lots(x, mode):
    return x - len(mode)


@torch.no_grad()
def main():
    x, found = torch.ones(4), []
    for function, several in ((scale, 7), (gain, 11), (lots, 8)):
        step = torch.compile(function)
        found += [step(x, "m" * n) for n in range(several)]
    return found
