"""Models beside those of the zoo: what compiles whole, and what people write that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from zoo import (
    SMALL,
    SMALL_LLAMA,
    SMALL_VISION,
    SPECIMENS,
    Autoencoder,
    ResNet,
    Specimen,
    Spectral,
    hugging_face,
    ids,
    once,
)


class Cube(torch.autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def cubed(x: torch.Tensor) -> torch.Tensor:
    return Cube.apply(x.sin()).sum()


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    array = x.sin().numpy()
    return torch.from_numpy(array * 2) + 1


def generated(x: torch.Tensor) -> torch.Tensor:
    return sum(part * i for i, part in enumerate(x.unbind(0)))


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] > 1)
    with torch.no_grad():
        return x.softmax(-1)


class Attention(nn.Module):
    """Self-attention through flex_attention, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch.nn.attention.flex_attention import flex_attention

        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 16).permute(2, 0, 3, 1, 4)
        y = flex_attention(q, k, v, score_mod=_causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


def _causal(score: torch.Tensor, _b: Any, _h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.where(q >= k, score, -float("inf"))


class Recurrent(nn.Module):
    """An LSTM or GRU by itself: torch refuses it, from inside of its own files."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.rnn = kind(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)  # breaks here
        return y.relu()


class CountingMoE(nn.Module):
    """A mixture of experts that sorts by expert and splits by counts: the counts leave the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice = self.router(x).argmax(-1)
        order = choice.argsort()
        counts = torch.bincount(choice, minlength=3)  # breaks here
        parts = x[order].split(counts.tolist())  # breaks here
        out = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return out[order.argsort()]


class RowMoE(nn.Module):
    """A mixture of experts as Mixtral's: it loops over the numbers of the experts that were hit."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        hit = torch.bincount(choice, minlength=3).nonzero()  # breaks here
        for row in hit:
            expert = row[0]
            if expert == 2:
                continue
            out = out + self.experts[0](x) * (choice == expert).unsqueeze(-1)
        return out


class Generator(nn.Module):
    """Greedy decoding, with the end found on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            logits = self.head(self.embed(tokens).mean(1))
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
            if (tokens[:, -1] == 0).all():  # breaks here
                break
        return tokens


class Layer(nn.Module):
    """A layer that reports what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        print("mean", x.mean())  # breaks here
        return x.relu()


class Stack(nn.Module):
    """Six such layers: one line, many breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def _zoo(*names: str) -> tuple[Specimen, ...]:
    return tuple(s for name in names for s in SPECIMENS if s.name == name)


def _matrix() -> torch.Tensor:
    return torch.rand(6, 16)


CLEAN: tuple[Specimen, ...] = (
    *_zoo("bert", "llama", "t5", "mixtral", "mamba", "clip", "whisper", "resnet_eval", "functional_step"),
    Specimen(
        "gpt2",
        hugging_face("GPT2Config", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=2, vocab_size=99, n_positions=64),
        once(input_ids=ids),
    ),
    Specimen(
        "vit",
        hugging_face("ViTConfig", "ViTForImageClassification", **SMALL_VISION),
        once(pixel_values=lambda: torch.randn(1, 3, 32, 32)),
    ),
    Specimen("qwen2", hugging_face("Qwen2Config", "Qwen2ForCausalLM", **SMALL_LLAMA), once(input_ids=ids)),
    Specimen(
        "qwen3_moe",
        hugging_face(
            "Qwen3MoeConfig", "Qwen3MoeForCausalLM", **SMALL_LLAMA, num_experts=4, num_experts_per_tok=2,
            moe_intermediate_size=32, head_dim=16,
        ),
        once(input_ids=ids),
    ),
    Specimen("roberta", hugging_face("RobertaConfig", "RobertaForMaskedLM", **SMALL), once(input_ids=ids)),
    Specimen(
        "distilbert",
        hugging_face("DistilBertConfig", "DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=2, hidden_dim=64, vocab_size=99),
        once(input_ids=ids),
    ),
    Specimen(
        "bart",
        hugging_face(
            "BartConfig", "BartForConditionalGeneration", d_model=32, encoder_layers=1, decoder_layers=1,
            encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=99,
            max_position_embeddings=64,
        ),
        once(input_ids=ids, decoder_input_ids=ids),
    ),
    Specimen(
        "encoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2).eval(),
        once(src=lambda: torch.randn(2, 10, 32)),
    ),
    Specimen("flex_attention", Attention, once(x=lambda: torch.randn(1, 32, 32))),
    Specimen("autoencoder", Autoencoder, once(x=lambda: torch.rand(2, 1, 16, 16))),
    Specimen("resnet_training", ResNet, once(x=lambda: torch.randn(4, 3, 16, 16)), training=True),
    Specimen("spectral", Spectral, once(ids=lambda: ids(4, 6, 60))),
    Specimen("autograd_function", lambda: cubed, once(x=lambda: torch.rand(4, requires_grad=True)), training=True),
    Specimen("numpy", lambda: through_numpy, once(x=_matrix)),
    Specimen("generator_sum", lambda: generated, once(x=_matrix)),
    Specimen("checked", lambda: checked, once(x=_matrix)),
)  # fmt: skip
