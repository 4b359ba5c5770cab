"""A mask of `torch.nn.Transformer` is said to be causal, or not, so that torch does not ask for its elements."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import assert_alike, others

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
TEXT = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 1)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 1)
        self.register_buffer("table", torch.zeros(9, 9).masked_fill(torch.ones(9, 9).tril(-2).bool(), -1e9))

    def forward(self, x, pad):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return CALL
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("self.decoder(x, x, tgt_mask=mask)", "tgt_mask=mask, tgt_is_causal=True)"),
        ("self.decoder(x, x, tgt_mask=self.table[:5, :5])", "5], tgt_is_causal=False)"),
        ("self.decoder(x, x, mask)", "mask, tgt_is_causal=True)"),
        ("self.encoder(x, mask)", "mask, is_causal=True)"),
        ("self.encoder(x, mask=mask, src_key_padding_mask=pad)", "pad, is_causal=True)"),
    ],
)
def test_a_mask_is_told_to_be_causal_or_not(call: str, told: str) -> None:
    text = TEXT.replace("CALL", call)
    new = others(text, ITEM, "return self.")[0]
    assert told in new
    x = torch.linspace(-1, 1, 80).reshape(2, 5, 8).sin()
    assert_alike(text, new, x, torch.zeros(2, 5), is_compiled="encoder" not in call)


@pytest.mark.parametrize(
    "call", ["self.decoder(x, x, tgt_mask=mask, tgt_is_causal=None)", "self.decoder(x, x)", "self.encoder(x, pad)"]
)
def test_what_is_told_or_has_no_mask_stays(call: str) -> None:
    assert not any("is_causal=T" in one for one in others(TEXT.replace("CALL", call), ITEM, "return self."))
