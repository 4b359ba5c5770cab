"""Models of the installed transformers with random weights: small configurations and inputs, found by trying.

Nothing is known of any one model. What a configuration has by name of widths, layers, heads and sizes is made small,
in nested configurations too; inputs are what `forward` names. What comes of it is called once without torch.compile:
where that raises, the next of a few recipes is taken. A recipe is plain data: another process makes the same of it.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

Tensors = dict[str, Any]  # of one call: [kind, shape or value], by the name of the argument

LARGEST = 150_000_000  # parameters
LEVELS = (0, 1, 6, 2, 3, 4, 5)
ROWS, COLUMNS = 2, 16
VOCABULARY = 1024
TRY_SECONDS = 8  # for a call without torch.compile

# What is taken of a kind of model first: what people compile. Of the others there is the model without a head.
_HEADS = (
    "CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
    "CTC",
    "IMAGE_CLASSIFICATION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "TEXT_TO_WAVEFORM",
    "SEQUENCE_CLASSIFICATION",
)


def class_names(*, every: bool) -> dict[str, str]:
    """Return the classes of models that transformers lists, each with its kind ("llama"): first one of each kind."""
    tables = {name: table for name, table in vars(modeling_auto).items() if name.endswith("_MAPPING_NAMES")}
    tables.pop("CONFIG_MAPPING_NAMES", None)
    first = [name for head in _HEADS for name in tables if name == f"MODEL_FOR_{head}_MAPPING_NAMES"]
    base = [name for name in tables if name == "MODEL_MAPPING_NAMES"]
    rest = [name for name in tables if name not in {*first, *base}]
    found: dict[str, str] = {}
    others: dict[str, str] = {}
    kinds: set[str] = set()
    there = set(dir(transformers))  # without importing all of them
    for table in (*first, *base, *rest):
        for kind, names in tables[table].items() if isinstance(tables[table], Mapping) else ():
            for name in (names,) if isinstance(names, str) else names:
                if kind in kinds or name in found:
                    others.setdefault(name, kind)
                elif name in there:
                    found[name] = kind
                    kinds.add(kind)
    return {**found, **{name: kind for name, kind in others.items() if name not in found}} if every else found


# -- configurations

_IS_WIDTH = re.compile(
    r"(^|_)(hidden_size|d_model|n_embd|embed_dim|embedding_size|hidden_dim|projection_dim|projection_size|embed_size)$"
    r"|^dim$|^width$"
)
_IS_LAYERS = re.compile(r"(^|_)(num|n|encoder|decoder|attention)_?(\w+_)?(layers?|blocks)$|^depth$|^layers$")
_IS_HEADS = re.compile(r"(^|_)(heads|n_head|num_head|attention_heads)$")
_IS_HEAD_WIDTH = re.compile(r"(^|_)((?<!^qk_)head_dim|d_kv|lora_rank|head_size)$")
_IS_INNER = re.compile(r"(^|_)(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|feedforward_dim|inner_dim)$")
_IS_EXPERTS = re.compile(r"(^|_)(num|n)_(\w+_)?experts$")
_IS_CHOSEN = re.compile(r"experts_per_tok|^(moe_)?top_?k$|(^|_)experts_top_k")
_IS_POSITIONS = re.compile(r"(^|_)(max_\w*positions?(_embeddings)?|n_positions|n_ctx|max_seq_len|max_sequence_length)$")
_IS_DEPTHS = re.compile(r"depths?$|(^|_)num_blocks|^layers$|block_repeats$")
_ROPE = ("rope_parameters", "rope_scaling")
_MEDIA = ("image_token_id", "image_token_index", "video_token_id", "audio_token_id", "audio_token_index")
_NEEDED = {  # where a configuration leaves them to whoever makes it
    "prediction_length": 8,
    "context_length": 32,
    "attn_layer_indices": [1],
    **{name: VOCABULARY - 10 - number for number, name in enumerate(_MEDIA)},
}
_SIDES = ("image_size", "img_size", "input_size")
_IS_TOKEN = re.compile(r"token_(id|index)$|_token_id_")


def _small(name: str, value: int, level: int, heads: int, head: int) -> int:
    """What a number of a configuration is made. It has so many attention heads, which are to be as wide as `head`."""
    sizes = [
        (_IS_LAYERS, 6 if level == 1 else 2),
        (_IS_EXPERTS, 4),
        (_IS_CHOSEN, 2),
        (_IS_POSITIONS, 64 if "source" in name else 512),
        (re.compile(r"^(n_group|topk_group|num_kv_shared_layers|num_nextn_predict_layers)$"), 1),
    ]
    if level <= 1:
        kv = ("key_value" in name or "kv_heads" in name) and value != heads
        sizes += [(_IS_WIDTH, 4 * head), (_IS_HEADS, 2 if kv else 4), (_IS_HEAD_WIDTH, head), (_IS_INNER, 4 * head)]
    fitting = [size for pattern, size in sizes if pattern.search(name)]
    if name.endswith("vocab_size") or name in {"vocab_size", "n_vocab"}:
        fitting.append(VOCABULARY)
    return min([value, *fitting])


def _fields(config: Any, level: int, *, is_last: bool = False) -> dict[str, Any]:
    """Return what to make a configuration of, in place of what it has by default.

    Level 0: all is small. 1: a head is as wide as it was, and there are more layers, so that each type of them is
    there. 2: widths and heads stay. 3: images, too. 4: only what nests is there.
    """
    found: dict[str, Any] = {}
    tokens = itertools.count(VOCABULARY - 1, -1)
    for name, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            found[name] = {**_fields(value, level, is_last=is_last), "model_type": value.model_type}
        elif not name.startswith("_") and not isinstance(value, bool) and level < 4:
            if _IS_TOKEN.search(name) and isinstance(value, int):
                small: Any = next(tokens) if value >= VOCABULARY else value
            elif isinstance(value, int):
                small = _number(name, value, config, level)
            else:
                small = _sequence(name, value, level, is_last=is_last)
            if small != value:
                found[name] = small
    return found


def _number(name: str, value: int, config: Any, level: int) -> int:
    if _IS_WIDTH.search(name) and isinstance(getattr(config, "depths", None), (list, tuple)):
        return value  # of the first stage: those of the others, and their heads, follow from it
    if name in _SIDES and level < 3 and value > 64:
        patch = getattr(config, "patch_size", 16)
        return 64 if not isinstance(patch, int) or 64 % patch == 0 else 4 * patch
    if name == "mm_tokens_per_image" and level < 3:
        return 4
    if name == "qk_head_dim" and level < 2:
        return 32  # of two halves
    if name == "window_size" and level < 3 and hasattr(config, "image_size"):
        return 2
    heads = _one(_get(config, "num_attention_heads", "n_head", "num_heads"), 1)
    head = 16 if level != 1 else _one(_get(config, "head_dim"), _one(_get(config, "hidden_size"), 64) // heads)
    return _small(name, value, level, heads, head)


def _sequence(name: str, value: Any, level: int, *, is_last: bool) -> Any:
    if level == 0 and isinstance(value, Mapping) and ("mrope_section" in value or (is_last and name in _ROPE)):
        return {**value, "mrope_section": [2, 3, 3]}
    if not isinstance(value, (list, tuple)) or not value or not all(type(one) is int for one in value):
        return value
    if name == "eos_token_id":
        return 2
    if _IS_DEPTHS.search(name):
        return [min(one, 1) for one in value]
    return [64 for _ in value] if name in _SIDES and level < 3 else value


def _config(name: str, level: int) -> Any:
    """Return a small configuration; of level 5 as it is by default, and of level 6 changed once it is made."""
    kind = getattr(transformers, name).config_class
    default = kind()
    needed = {field: value for field, value in _NEEDED.items() if getattr(default, field, value) is None}
    if hasattr(default, "is_decoder") and re.search(r"ForCausalLM|LMHead", name):
        needed["is_decoder"] = True
    if level < 5:
        return kind(**{**_fields(default, level), **needed})
    if level == 6:
        _change(default, _fields(default, 0, is_last=True))
    return default


def _change(config: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        nested = getattr(config, name)
        if isinstance(nested, transformers.PretrainedConfig):
            _change(nested, value)
        elif name != "model_type":
            setattr(config, name, value)


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _model(name: str, level: int) -> torch.nn.Module:
    """Make a model, for inference as it is after `from_pretrained`, with the same random weights each time."""
    kind = getattr(transformers, name)
    config = _config(name, level)
    with torch.device("meta"):
        try:
            size = _parameters(kind(config))
        except (NotImplementedError, RuntimeError, AttributeError, TypeError, ValueError):
            size = 0  # its constructor computes something: see how large it is when it is there
    if size > LARGEST:
        raise ValueError(f"{size / 1e6:,.0f} million parameters")
    torch.manual_seed(0)
    return kind(config).eval().requires_grad_(False)  # type: ignore[no-any-return]


# -- inputs


def _get(config: Any, *names: str, default: Any = None) -> Any:
    """Return the first of some fields that a configuration has, or one of those within it."""
    nested = [value for value in vars(config).values() if isinstance(value, transformers.PretrainedConfig)]
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, (int, list, tuple)) and not isinstance(value, bool) and value:
            return value
    for inner in nested:
        value = _get(inner, *names)
        if value is not None:
            return value
    return default


def _one(value: Any, default: int) -> int:
    """A size that may be given for two dimensions."""
    if isinstance(value, (list, tuple)):
        value = value[0] if value else default
    return value if isinstance(value, int) else default


def _ids(config: Any) -> list[Any]:
    return ["ids", [ROWS, COLUMNS], min(_get(config, "vocab_size", default=100), 100)]


def _images(config: Any) -> list[list[Any]]:
    """Shapes that images may have, the likeliest first."""
    channels = _one(_get(config, "num_channels", "in_channels", "in_chans", "image_channels"), 3)
    side = _one(_get(config, "image_size", "img_size", "input_size"), 64)
    frames = _one(_get(config, "num_frames", "frames_per_clip", "video_length"), 4)
    sizes = dict.fromkeys((side, 64, 224))
    found = [[ROWS, channels, one, one] for one in sizes]
    found += [[ROWS, 1, channels, side, side], [1, frames, channels, side, side], [1, 1, 1, channels, side, side]]
    return found


def _audio(config: Any, name: str) -> list[list[Any]]:
    """Shapes that sounds may have."""
    bins = _one(_get(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "num_mel_channels"), 80)
    length = 2 * _one(_get(config, "max_source_positions"), 32)
    frames = _one(_get(config, "max_length", "spec_size"), 1024)
    waves, spectra = [[ROWS, 4000], [1, 1, 4000]], [[ROWS, bins, length], [ROWS, length, bins], [ROWS, 64, bins]]
    spectra += [[ROWS, frames, bins], [ROWS, 1, frames, bins], [ROWS, 1, 1001, 64]]
    return [*spectra, *waves] if name == "input_features" else [*waves, *spectra]


def _patches(config: Any) -> dict[str, Any]:
    """Images as models of the kind of Qwen-VL take them: patches in one row, and how many there are each way."""
    patch = _one(_get(config, "patch_size", "spatial_patch_size"), 14)
    times = _one(_get(config, "temporal_patch_size"), 1)
    channels = _one(_get(config, "in_channels", "num_channels", "in_chans"), 3)
    grid = [[1, 4, 4]] * ROWS
    return {
        "pixel_values": ["float", [16 * ROWS, channels * times * patch * patch]],
        "image_grid_thw": ["is", grid],
    }


_IMAGE = ("pixel_values", "pixel_values_images", "images", "pixel_values_videos")
_SOUND_MASKS = ("feature_attention_mask", "input_features_mask")
_SOUND = ("input_features", "input_values", "audio_values", "audio_input_features")


def _known(config: Any) -> dict[str, list[Any]]:
    """Arguments that are given where `forward` has them."""
    width = _one(_get(config, "hidden_size", "d_model", "n_embd"), 64)
    channels = _one(_get(config, "num_input_channels", "input_size"), 1)
    length = _one(_get(config, "context_length"), 32)
    lags = _get(config, "lags_sequence", default=[0])
    past = length + (max(lags) if isinstance(lags, (list, tuple)) else 0)
    features = _one(_get(config, "num_time_features"), 0)
    ahead = _one(_get(config, "prediction_length"), 8)
    values = [ROWS, past] if channels == 1 and hasattr(config, "lags_sequence") else [ROWS, length, channels]
    return {
        "bbox": ["boxes", [ROWS, COLUMNS, 4]],
        "visual_feats": ["float", [ROWS, 4, _one(_get(config, "visual_feat_dim"), 2048)]],
        "visual_pos": ["float", [ROWS, 4, 4]],
        "past_values": ["float", values],
        "past_observed_mask": ["ones", values],
        "past_time_features": ["float", [ROWS, past, features]],
        "future_values": ["float", [ROWS, ahead]],
        "future_time_features": ["float", [ROWS, ahead, features]],
        "hidden_states": ["float", [ROWS, COLUMNS, width]],
        "spectrogram": ["float", [ROWS, COLUMNS, _one(_get(config, "model_in_dim", "num_mel_bins"), 80)]],
        "flattened_patches": ["float", [ROWS, COLUMNS, 2 + _one(_get(config, "patch_embed_hidden_size"), 768)]],
        "states": ["float", [ROWS, 4, _one(_get(config, "state_dim"), 17)]],
        "actions": ["float", [ROWS, 4, _one(_get(config, "act_dim"), 4)]],
        "rewards": ["float", [ROWS, 4, 1]],
        "returns_to_go": ["float", [ROWS, 4, 1]],
        "timesteps": ["ids", [ROWS, 4], 4],
        "task_inputs": ["ids", [ROWS, 8], 90],
        "input_boxes": ["float", [ROWS, 1, 4]],
        "qformer_input_ids": ["ids", [ROWS, COLUMNS], 90],
        "codes": ["ids", [ROWS, 4, COLUMNS], 90],
        "speech_inputs": ["float", [ROWS, 4000]],
    }


_OPTIONAL = ("qformer_input_ids", "past_observed_mask", "input_boxes", "future_values", "future_time_features", "codes")


def _image_plans(config: Any, parameters: Mapping[str, Any]) -> list[Tensors]:
    if "image_grid_thw" in parameters and "pixel_values" in parameters:
        return [_patches(config)]
    name = next((name for name in _IMAGE if name in parameters), "")
    if not name:
        return [{}]
    plans = [{name: ["float", shape]} for shape in _images(config)]
    if "image_sizes" in parameters:
        sized = [{name: ["float", shape], "image_sizes": ["is", [shape[-2:]] * shape[0]]} for shape in _images(config)]
        plans = [plan for both in zip(plans, sized, strict=True) for plan in both]
    return plans


def _sound_plans(config: Any, parameters: Mapping[str, Any]) -> list[Tensors]:
    name = next((name for name in _SOUND if name in parameters), "")
    masks = [mask for mask in _SOUND_MASKS if mask in parameters]
    return [
        {name: ["float", shape], **{mask: ["mask", [ROWS, shape[-1]]] for mask in masks}}
        for shape in (_audio(config, name) if name else ())
    ] or [{}]


def _text_plan(config: Any, parameters: Mapping[str, Any]) -> Tensors:
    text: Tensors = {"input_ids": _ids(config)}
    if "attention_mask" in parameters:
        text["attention_mask"] = ["mask", [ROWS, COLUMNS]]
    if "mm_token_type_ids" in parameters:
        text["mm_token_type_ids"] = ["media", [ROWS, COLUMNS]]
    return text


def _plans(model: torch.nn.Module, *, with_media: bool) -> Iterator[Tensors]:
    """Return what to call a model with, the likeliest first.

    Args:
        model: what is called.
        with_media: of a model that takes images or sounds only with them, and with text.
    """
    config = model.config
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name, one in parameters.items() if one.default is one.empty and one.kind not in {2, 4}}
    text = _text_plan(config, parameters) if "input_ids" in parameters else {}
    known = {n: v for n, v in _known(config).items() if n in needed or (n in parameters and n not in _OPTIONAL)}
    is_text_decoder = getattr(config, "is_encoder_decoder", False) or "decoder_input_ids" in needed
    if "decoder_input_ids" in parameters and is_text_decoder:
        known["decoder_input_ids"] = _ids(config)
    images = _image_plans(config, parameters)
    sounds = _sound_plans(config, parameters)
    if images != [{}] or sounds != [{}]:
        for image, sound in itertools.islice(itertools.product(images, sounds), 14):
            yield {**text, **known, **image, **sound}
        if not with_media:
            yield from ({**known, **image} for image in images if text)  # an encoder of its own for each
    if with_media and (images != [{}] or sounds != [{}]):
        return
    yield {**text, **known}
    if text:
        yield text
    extra = {name: ["float", [ROWS, COLUMNS, 64]] for name in needed if name not in known and name != "input_ids"}
    if extra and not (text and needed == {"input_ids"}):
        yield {**text, **known, **extra}


def inputs(plan: Tensors, call: int) -> dict[str, Any]:
    """Return the arguments of a call, the same ones each time: of the second the values differ, and a row is padded."""
    generator = torch.Generator().manual_seed(call)
    given = {name: _tensor(generator, *what) for name, what in plan.items()}
    if call > 1 and "attention_mask" in given:
        given["attention_mask"][-1, -3:] = 0
    return given


def _tensor(generator: torch.Generator, kind: str, shape: Any, *more: Any) -> torch.Tensor:
    if kind == "is":
        return torch.tensor(shape)
    if kind == "ids":
        tokens = torch.randint(3, max(more[0], 4), shape, generator=generator)
        for token, count in more[1] if len(more) > 1 else ():
            media = torch.full((shape[0], count), token)
            tokens = torch.cat([tokens[:, :1], media, tokens[:, 1:]], 1)
        return tokens
    if kind == "mask":
        return torch.ones(shape[0], shape[1] + (more[0] if more else 0), dtype=torch.int64)
    if kind == "media":
        return torch.tensor([[0, *[1] * (more[0] if more else 0), *[0] * (shape[1] - 1)]] * shape[0])
    if kind == "boxes":
        corners = torch.randint(0, 100, shape, generator=generator)
        return torch.cat([corners[..., :2], corners[..., 2:] + 200], -1)
    return torch.ones(shape) if kind == "ones" else torch.randn(shape, generator=generator)


# -- recipes

_MISSING = re.compile(
    r"(image|video|audio|speech)[\s\S]*?tokens:?\s*(\d+)[\s\S]*?features:?\s*(?:of shape )?(\d+)", re.IGNORECASE
)


def _with_media(plan: Tensors, config: Any, said: str, share: int) -> Tensors | None:
    """Return a plan with as many places for images in the text as an error asks for, or a share of that."""
    found = _MISSING.search(said)
    if not found or "input_ids" not in plan or len(plan["input_ids"]) > 3:
        return None
    medium, features = found[1].lower(), int(found[3])
    token = _get(config, f"{medium}_token_id", f"{medium}_token_index", f"{medium}_index")
    rows = plan["input_ids"][1][0]
    if not isinstance(token, int) or features % (rows * share) or not features or features > 4_000:
        return None
    count = features // rows // share
    changed = {"input_ids": [*plan["input_ids"], [[token, count]]]}
    for name in {"attention_mask", "mm_token_type_ids"} & set(plan):
        changed[name] = [*plan[name], count]
    return {**plan, **changed}


def _filled(plan: Tensors, config: Any, said: str) -> Iterator[Tensors]:
    for share in (1, 4):  # some errors count what is not joined yet
        filled = _with_media(plan, config, said, share)
        if filled is not None:
            yield filled


class _LateError(Exception):
    pass


def _alarm(*_: object) -> None:
    raise _LateError(f"not done after {TRY_SECONDS} s")


def _why_not(model: torch.nn.Module, plan: Tensors) -> str:
    """Call a model without torch.compile; return what it raised."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(TRY_SECONDS)
    try:
        with torch.no_grad():
            for call in (1, 2):
                model(**inputs(plan, call))
    except Exception as error:  # noqa: BLE001 -- anything: then another recipe is tried
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
    finally:
        signal.alarm(0)
    return ""


def recipe(name: str) -> tuple[dict[str, Any] | None, str]:
    """Return how to make a model and its inputs; and where there is no way, or none as small as that, why not."""
    said = ""
    for with_media, level in itertools.product((True, False), LEVELS):
        try:
            model = _model(name, level)
        except Exception as error:  # noqa: BLE001 -- anything: then another recipe is tried
            said = said or f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
            continue
        first = ""
        for plan in _plans(model, with_media=with_media):
            raised = _why_not(model, plan)
            for filled in (plan, *_filled(plan, model.config, raised)) if raised else (plan,):
                if not raised or (filled is not plan and not _why_not(model, filled)):
                    size = _parameters(model)
                    return {"name": name, "level": level, "inputs": filled, "parameters": size}, ""
            first = first or raised
        said = first or said or "nothing is known that forward takes"
    return None, said


def made(recipe: Mapping[str, Any]) -> tuple[torch.nn.Module, list[tuple[tuple[()], dict[str, Any]]]]:
    """Return a model, and two calls with inputs of the same sizes: the second is to compile nothing."""
    model = _model(recipe["name"], recipe["level"])
    return model, [((), inputs(recipe["inputs"], call)) for call in (1, 2)]


def factory(recipe: Mapping[str, Any], folder: str) -> str:
    """Return a program of a recipe, for FILE:make; settings of torch's are written below its import of torch."""
    return (
        f"import json, sys\n\nimport torch\n\nsys.path.insert(0, {folder!r})\n\nfrom zoo_models import made\n\n\n"
        f"def make():\n    model, calls = made(json.loads({json.dumps(recipe)!r}))\n"
        "    return {'model': model, 'calls': calls}\n"
    )


def medium(recipe: Mapping[str, Any]) -> str:
    """What a model is given: text, vision, audio, several of these, or other."""
    names: Sequence[str] = tuple(recipe["inputs"])
    kinds = [
        kind
        for kind, known in (
            ("text", ("input_ids", "decoder_input_ids")),
            ("vision", (*_IMAGE, "flattened_patches", "visual_feats")),
            ("audio", (*_SOUND, "spectrogram", "speech_inputs")),
        )
        if set(names) & set(known)
    ]
    if set(kinds) == {"audio", "text"} and "input_ids" not in names:
        return "audio"
    return "multimodal" if len(kinds) > 1 else next(iter(kinds), "other")
