"""What became of CUDA graphs, from our hook and from torch's metrics."""

import pytest

from compiler_lens.decode.cudagraphs import cudagraph_from_metrics, read_cudagraph
from compiler_lens.decode.frames import Figures
from compiler_lens.decode.kernels import CodeKey
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, CudagraphOutcome, CudagraphState, Direction, SourceLine

ID = CompileId(0, 0)
# As check_multiple_devices_or_any_cpu_nodes() and CompiledFxGraph put it, prefix twice.
CPU_OP = """skipping cudagraphs due to skipping cudagraphs due to cpu device (arg1_1). Found from : 
   File "/home/user/app/ex.py", line 12, in forward
    return self.helper(x) + y.cpu()
  File "/home/user/app/ex.py", line 7, in helper
    return x.sin()
"""  # noqa: W291  torch writes the blank


def read(**meta):
    (outcome,) = read_cudagraph(Event("lens.cudagraph", 0.0, meta=meta), ID, {})
    return outcome


@pytest.mark.parametrize("state", list(CudagraphState))
def test_each_state_is_read(state):
    assert read(part="forward", state=state.value, reason="", partitions=2) == CudagraphOutcome(
        ID, Direction.FORWARD, state, "", 2
    )


def test_a_skip_has_its_reason_and_the_users_lines():
    outcome = read(part="backward", state="skipped", reason=CPU_OP, partitions=0)
    assert outcome.reason == "cpu device (arg1_1)"
    assert outcome.user_stack == (
        SourceLine("/home/user/app/ex.py", 12, "forward", "return self.helper(x) + y.cpu()"),
        SourceLine("/home/user/app/ex.py", 7, "helper", "return x.sin()"),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("skipping cudagraphs due to multiple devices: device(type='cuda', index=0), device(type='cpu')", "multiple devices: device(type='cuda', index=0), device(type='cpu')"),
        ("skipping cudagraphs due to mutated inputs (1 instances)", "mutated inputs (1 instances)"),
        ('input storage mutation (2 instances). Found from:\n   File "a.py", line 1, in f\n    x.set_(y)', "input storage mutation (2 instances)"),
        ("non-Tensor inputs", "non-Tensor inputs"),
    ],
)  # fmt: skip
def test_reasons_lose_torchs_frame_around_them(text, reason):
    assert read(part=None, state="skipped", reason=text).reason == reason


def test_a_graph_of_an_unknown_pass_is_still_an_outcome():
    assert read(part=None, state="skipped", reason="mutated inputs").direction is None


def test_metrics_tell_of_a_skip_or_of_nothing():
    (outcome,) = cudagraph_from_metrics(Figures(cudagraph_skip_reason=CPU_OP), ID, Direction.BACKWARD)
    assert (outcome.state, outcome.reason, outcome.direction) == (
        CudagraphState.SKIPPED,
        "cpu device (arg1_1)",
        Direction.BACKWARD,
    )
    assert len(outcome.user_stack) == 2
    assert cudagraph_from_metrics(Figures(), ID) == ()


@pytest.mark.parametrize("meta", [{}, {"part": "forward"}, {"state": "lost"}, {"part": "up", "state": "captured"}])
def test_an_outcome_of_another_form_is_a_payload_error(meta):
    with pytest.raises(PayloadError):
        read(**meta)


def test_a_graphs_key_is_told_beside_its_outcome():
    meta = {"part": "backward", "state": "captured", "key": "fabc"}
    outcome, key = read_cudagraph(Event("lens.cudagraph", 0.0, meta=meta), ID, {})
    assert (outcome.state, key) == (CudagraphState.CAPTURED, CodeKey(ID, Direction.BACKWARD, "fabc"))
