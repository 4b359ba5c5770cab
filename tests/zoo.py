"""Small real models with random weights, inference and training: what a lens must record and must not change.

Tiny, because g++ is what takes the time: none needs more than 25 s of processor time, cold, with Inductor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Call = Mapping[str, Any]  # the keyword arguments of one call


@dataclass(frozen=True)
class Specimen:
    """A model, the calls to make of it, and how it is compiled.

    `breaks` is how many graph breaks torch raises over all calls, where that does not depend on torch's version.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Callable[[], Sequence[Call]]
    training: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # arguments of torch.compile
    breaks: int | None = 0
    is_slow: bool = False  # more than 30 s of processor time for all runs of it


def hugging_face(config: str, model: str, **fields: Any) -> Callable[[], nn.Module]:
    """A factory for a model of `transformers` from a configuration alone: nothing is downloaded."""

    def make() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**fields)).eval()

    return make


# -- plain torch


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = (
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(batch, length, width)
        )
        x = x + self.out(y)
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Blocks(nn.Module):
    """Two blocks and a head over token embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(90, 32)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(32, 90)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(ids)))


class Residual(nn.Module):
    """A bottleneck-free ResNet block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm_1 = nn.BatchNorm2d(outputs)
        self.conv_2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm_1(self.conv_1(x)))
        return functional.relu(self.norm_2(self.conv_2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, two residual stages and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.stages = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


class Autoencoder(nn.Module):
    """Strided convolutions down, transposed convolutions up."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.SiLU(), nn.Conv2d(4, 8, 3, 2, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        code = self.encoder(x)
        image = torch.sigmoid(self.decoder(code))
        return {"code": code, "image": image, "loss": functional.mse_loss(image, x)}


class LoopedMoE(nn.Module):
    """A mixture of experts as people first write it: the whole forward ends up eager."""

    def __init__(self, width: int = 32, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(choice == i)[0]
            if rows.numel() > 0:
                out.index_add_(0, rows, expert(x[rows]))
        return out


class Tagger(nn.Module):
    """An LSTM between an embedding and a head: Dynamo skips the frame that calls the LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(50, 16), nn.LSTM(16, 16), nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        features, _ = self.lstm(self.embed(ids))
        return functional.log_softmax(self.head(features), -1)


class Spectral(nn.Module):
    """FNet's mixing: Fourier transforms, complex numbers, and bags of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(60, 16, mode="sum")
        self.filter = nn.Parameter(torch.randn(9, 2))
        self.head = nn.Linear(16, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.bag(ids)
        spectrum = torch.fft.rfft(x) * torch.view_as_complex(self.filter)
        return self.head(torch.fft.irfft(spectrum, n=x.shape[-1]) + spectrum.abs().sum(-1, keepdim=True))


class Chatty(nn.Module):
    """A print in mid-forward and a branch on a value: two graph breaks, three graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        print("half way")
        x = self.second(x)
        if x.sum() > 0:
            x = x * 2
        return x.sin()


class Flagged(nn.Module):
    """Compiled again for each new flag, until torch gives up on the frame."""

    def forward(self, x: torch.Tensor, flag: str) -> torch.Tensor:
        return x + 1 if flag else x


class FunctionalStep(nn.Module):
    """One step of gradient descent without side effects: torch.func, gradients inside of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return functional.mse_loss(torch.func.functional_call(self.net, parameters, (x,)), y)

        parameters = dict(self.net.named_parameters())
        gradients = torch.func.grad(loss)(parameters)
        return {name: value - 0.1 * gradients[name] for name, value in parameters.items()}


class AdamStep:
    """The step of an optimizer, compiled: the state is mutated in place."""

    def __init__(self) -> None:
        self.net = nn.Linear(8, 8)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)

    def __call__(self, gradient: torch.Tensor) -> list[torch.Tensor]:
        for parameter in self.net.parameters():
            parameter.grad = gradient[: parameter.shape[0], : parameter[0].numel()].reshape(parameter.shape).clone()
        self.optimizer.step()
        return [parameter.detach().clone() for parameter in self.net.parameters()]


# -- calls


def ids(rows: int = 2, columns: int = 16, top: int = 90) -> torch.Tensor:
    """Token numbers."""
    return torch.randint(0, top, (rows, columns))


def once(**arguments: Callable[[], Any]) -> Callable[[], Sequence[Call]]:
    """Twice the same arguments: the second call must not compile."""

    def calls() -> Sequence[Call]:
        values = {name: make() for name, make in arguments.items()}
        return [values, values]

    return calls


def _marked() -> Sequence[Call]:
    calls = [{"input": torch.randn(rows, 32, 8)} for rows in (3, 5, 9)]
    for call in calls:
        torch._dynamo.mark_dynamic(call["input"], 0)
    return calls


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 128,
}
ONE_LAYER = {"num_hidden_layers": 1}  # where BERT's and GPT-2's two have shown what a layer that comes again does
SMALL_LLAMA = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
SMALL_VISION = {**SMALL, "image_size": 32, "patch_size": 8}
SMALL_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "vocab_size": 99}
SMALL_WHISPER = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 32,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
}

SPECIMENS: tuple[Specimen, ...] = (
    # inference
    Specimen("bert", hugging_face("BertConfig", "BertForMaskedLM", **SMALL), once(input_ids=ids), is_slow=True),
    Specimen(
        "llama", hugging_face("LlamaConfig", "LlamaForCausalLM", **SMALL_LLAMA), once(input_ids=ids), is_slow=True
    ),
    Specimen(
        "t5",
        hugging_face("T5Config", "T5ForConditionalGeneration", **SMALL_T5, decoder_start_token_id=0),
        once(input_ids=ids, decoder_input_ids=ids),
        breaks=None if torch.__version__ < "2.12" else 0,  # 2.11 breaks on this transformers' mask functions
        is_slow=True,
    ),
    Specimen(
        "mixtral",
        hugging_face("MixtralConfig", "MixtralForCausalLM", **{**SMALL_LLAMA, **ONE_LAYER}, num_local_experts=4),
        once(input_ids=ids),
        is_slow=True,
    ),
    Specimen(
        "mixtral_eager_experts",
        hugging_face(
            "MixtralConfig",
            "MixtralForCausalLM",
            **SMALL_LLAMA,
            num_local_experts=4,
            experts_implementation="eager",
        ),
        once(input_ids=ids),
        breaks=None,
        is_slow=True,
    ),
    Specimen(
        "mamba",
        hugging_face("MambaConfig", "MambaForCausalLM", vocab_size=99, hidden_size=32, state_size=8, **ONE_LAYER),
        once(input_ids=lambda: ids(columns=6)),  # the scan over them is unrolled
        is_slow=True,
    ),
    Specimen(
        "clip",
        hugging_face(
            "CLIPConfig", "CLIPModel", text_config={**SMALL, **ONE_LAYER}, vision_config={**SMALL_VISION, **ONE_LAYER}
        ),
        once(input_ids=ids, pixel_values=lambda: torch.randn(2, 3, 32, 32)),
        breaks=None,
        is_slow=True,
    ),
    Specimen(
        "whisper",
        hugging_face("WhisperConfig", "WhisperForConditionalGeneration", **SMALL_WHISPER),
        once(input_features=lambda: torch.randn(1, 8, 32), decoder_input_ids=lambda: ids(1, 8)),
        breaks=None,
        is_slow=True,
    ),
    Specimen("resnet_eval", lambda: ResNet().eval(), once(x=lambda: torch.randn(2, 3, 16, 16)), is_slow=True),
    Specimen("looped_moe", LoopedMoE, once(x=lambda: torch.randn(16, 32)), breaks=1),
    Specimen("tagger", Tagger, once(ids=lambda: ids(6, 3, 50)), breaks=None),
    Specimen("chatty", Chatty, once(x=lambda: torch.randn(4, 16)), breaks=2),
    Specimen("flagged", Flagged, lambda: [{"x": torch.ones(3), "flag": letter} for letter in "abcdefghij"]),
    Specimen(
        "functional_step", FunctionalStep, once(x=lambda: torch.randn(6, 8), y=lambda: torch.randn(6, 1)), is_slow=True
    ),
    Specimen("adam_step", AdamStep, once(gradient=lambda: torch.randn(8, 8)), breaks=None, is_slow=True),
    Specimen(
        "dynamic",
        Blocks,
        lambda: [{"ids": ids(2, columns)} for columns in (8, 12, 20)],
        settings={"dynamic": True},
        is_slow=True,
    ),
    Specimen("automatic_dynamic", Blocks, lambda: [{"ids": ids(2, columns)} for columns in (8, 12, 20)], is_slow=True),
    # training
    Specimen(
        "gpt2_training",
        hugging_face("GPT2Config", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=2, vocab_size=99, n_positions=64),
        once(input_ids=ids),
        training=True,
        is_slow=True,
    ),
    Specimen(
        "vit_training",
        hugging_face("ViTConfig", "ViTForImageClassification", **{**SMALL_VISION, **ONE_LAYER}),
        once(pixel_values=lambda: torch.randn(1, 3, 32, 32)),
        training=True,
        is_slow=True,
    ),
    Specimen("resnet_training", ResNet, once(x=lambda: torch.randn(4, 3, 16, 16)), training=True, is_slow=True),
    Specimen(
        "autoencoder_training", Autoencoder, once(x=lambda: torch.rand(2, 1, 16, 16)), training=True, is_slow=True
    ),
    Specimen(
        "encoder_training",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 1),
        once(src=lambda: torch.randn(2, 10, 32)),
        training=True,
        breaks=None,
        is_slow=True,
    ),
    Specimen(
        "marked_training",
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)),
        _marked,
        training=True,
        is_slow=True,
    ),
    Specimen("spectral_training", Spectral, once(ids=lambda: ids(4, 6, 60)), training=True),
    Specimen("chatty_training", Chatty, once(x=lambda: torch.randn(4, 16)), training=True, breaks=2, is_slow=True),
)
