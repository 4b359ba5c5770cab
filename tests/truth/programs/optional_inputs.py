"""A denoiser is called with other keywords from step to step: the shape of vllm-project/vllm#30385."""

import torch
from torch import nn


class Conditioning(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.text, self.image = nn.Linear(3, width), nn.Linear(2, width)

    def forward(self, hidden, **conditions):
        if "text" in conditions:
            hidden = hidden + self.text(conditions["text"])
        if "image" in conditions:
            hidden = hidden + self.image(conditions["image"])
        return hidden


class Denoiser(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.project, self.condition = nn.Linear(width, width), Conditioning(width)

    def forward(self, sample, **conditions):
        return sample - self.condition(self.project(sample), **conditions).tanh()


@torch.no_grad()
def main():
    step, sample, found = torch.compile(Denoiser()), torch.randn(2, 4), []
    text, image = torch.randn(2, 3), torch.randn(2, 2)
    for conditions in ({}, {"text": text}, {"text": text, "image": image}, {"image": image}):
        sample = step(sample, **conditions)  # root
        found.append(sample)
    return found


if __name__ == "__main__":
    main()
