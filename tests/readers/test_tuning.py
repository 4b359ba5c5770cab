"""Autotuning tables and Triton configs, ours and torch's."""

import json
from pathlib import Path

import pytest

from compiler_lens.decode.tuning import read_autotune, read_triton_configs, read_triton_kernel_info
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, KernelConfig, KernelKind

PAYLOADS = Path(__file__).parent.parent / "payloads/2.11/output_code"
ID = CompileId(0, 0)


def autotune(meta):
    (result,) = read_autotune(Event("lens.autotune", 0.0, meta=meta), ID, {})
    return result


def configs(meta, **event):
    (tuning,) = read_triton_configs(Event("lens.triton_configs", 0.0, meta=meta, **event), ID, {})
    return tuning


def info(text):
    return {t.kernel: t for t in read_triton_kernel_info(Event("triton_kernel_info", 0.0, text=text), ID, {})}


def payload(name):
    return json.loads((PAYLOADS / name).read_text())


def test_choices_are_fastest_first_and_failed_ones_last():
    rows = [["slow", "template", 2.0, ""], ["failed", "template", None, "no memory"], ["fast", "extern", 1.0, ""]]
    result = autotune({"op": "mm", "inputs": ["f32[2, 2]"], "choices": rows, "seconds": 1.5, "precompile_seconds": 0.5})
    assert [c.name for c in result.choices] == ["fast", "slow", "failed"]
    assert (result.winner.name, result.margin) == ("fast", 2.0)
    assert (result.choices[-1].milliseconds, result.choices[-1].detail) == (None, "no memory")
    assert (result.seconds, result.precompile_seconds, result.inputs) == (1.5, 0.5, ("f32[2, 2]",))


def test_a_table_out_of_a_cache_is_of_an_earlier_run():
    meta = {"op": "mm", "inputs": [], "choices": []}
    for cached in (True, False):
        (result,) = read_autotune(Event("lens.autotune", 0.0, meta=meta, cached=cached), ID, {})
        assert result.cached is cached


def test_a_real_table_names_winner_and_loser():
    result = autotune(payload("mm.autotune.json"))
    assert (result.op, len(result.choices), result.winner.kind) == ("mm", 21, KernelKind.EXTERN)
    assert result.choices[-1].milliseconds is None
    assert result.margin == pytest.approx(1.084, abs=1e-3)
    assert autotune(payload("convolution.autotune.json")).winner.kind is KernelKind.TEMPLATE


def test_a_choice_of_a_kind_we_have_no_word_for_is_a_template():
    rows = [["decompose_k", "SubgraphChoiceCaller", 1.0, ""]]
    assert autotune({"op": "mm", "inputs": [], "choices": rows}).choices[0].kind is KernelKind.TEMPLATE


@pytest.mark.parametrize(
    "meta", [{}, {"op": "mm", "inputs": []}, {"op": "mm", "inputs": [], "choices": [["only", "two"]]}]
)
def test_a_table_of_another_form_is_a_payload_error(meta):
    with pytest.raises(PayloadError):
        autotune(meta)


def test_the_configs_of_a_kernel_come_with_all_that_was_measured():
    tuning = configs(payload("gpt_forward_h200.configs.json")[0], cached=True)
    assert (tuning.kernel, tuning.cached, tuning.info) == ("triton_poi_fused__to_copy_1", True, {})
    assert [config.values["XBLOCK"] for config in tuning.configs] == [1024, 512]
    assert sum(config.chosen for config in tuning.configs) == 1
    assert None not in (getattr(tuning.configs[0], name) for name in KernelConfig.__struct_fields__)


@pytest.mark.parametrize("meta", [{}, {"kernel": "k"}, {"kernel": "k", "configs": [1]}])
def test_configs_of_another_form_are_a_payload_error(meta):
    with pytest.raises(PayloadError):
        configs(meta)


def test_torch_tells_the_config_of_a_kernel_that_has_one_only():
    found = info((PAYLOADS / "gpt_forward_h200.info.json").read_text())
    only = found["triton_per_fused__to_copy_native_layer_norm_0"]
    assert only.configs == (KernelConfig({"XBLOCK": 2, "num_warps": 1, "num_stages": 1}, chosen=True),)
    assert only.info == {"autotune_cache_state": "only 1 config", "compile_time_us": 237823}


def test_torch_tells_only_how_many_configs_a_kernel_will_be_tuned_with():
    tried = info((PAYLOADS / "gpt_forward_h200.info.json").read_text())["triton_poi_fused__to_copy_1"]
    assert (tried.configs, tried.info["num_configs"]) == ((), 2)


def test_the_config_of_a_tuning_cache_hit_is_chosen_and_the_start_of_a_descent_is_not():
    text = json.dumps({
        "hit": {"best_config": [["XBLOCK", 64], ["num_warps", 2]], "autotune_cache_state": "hit"},
        "descent": {"coordesc_tuning_start_config": [["XBLOCK", 64]], "coordesc_tuning": True},
        "bare": {},
    })  # fmt: skip
    found = info(text)
    assert found["hit"].configs == (KernelConfig({"XBLOCK": 64, "num_warps": 2}, chosen=True),)
    assert found["descent"].configs == (KernelConfig({"XBLOCK": 64}),)
    assert found["bare"].info  # torch's word, however little it says, is not taken for our hook's


@pytest.mark.parametrize("text", [None, "", "[]", '{"kernel": 3}', '{"kernel": {"only_config": 3}}'])
def test_kernel_info_of_another_form_is_a_payload_error(text):
    with pytest.raises(PayloadError):
        info(text)
