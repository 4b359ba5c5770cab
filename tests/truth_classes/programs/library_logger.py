"""A logger of a library warns from compiled code: the shape of huggingface/transformers#42012."""

import torch
from torch import nn
from transformers.utils import logging

logger = logging.get_logger("model")


class Attention(nn.Module):
    def forward(self, hidden):
        logger.warning_once("eager attention")  # root
        return hidden.softmax(-1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, hidden):
        return self.attention(hidden + 1)


@torch.no_grad()
def main():
    return [torch.compile(Model())(torch.ones(2, 3))]
