"""Profiles on a GPU: `pytest -m gpu tests/gpu/test_profile.py`."""

import sys
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(params=["default", "reduce-overhead"])
def profiled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A training step of the block; the profile, the events that it was made of, and what was there before."""
    from models import Block

    import compiler_lens
    from compiler_lens.measure.profile import record as module

    seen: list[list[dict]] = []
    traced = module.traced
    monkeypatch.setattr(module, "traced", lambda *args: seen.append(traced(*args)) or seen[-1])
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Block().cuda(), torch.randn(8, 256, 512, device="cuda")
    model(x).sum().backward()
    before = [t.clone() for p in model.parameters() for t in (p, p.grad)] + [torch.cuda.get_rng_state()]
    with torch.autocast("cuda", torch.bfloat16):
        result = compiler_lens.profile(
            model, x, training=True, mode=request.param, path=tmp_path / "run.clens", repeats=5
        )
    after = [t for p in model.parameters() for t in (p, p.grad)] + [torch.cuda.get_rng_state()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    yield request.param, result, seen[0], tmp_path / "run.clens"
    print(result.report(width=120))


def test_every_kernel_has_a_time_and_every_event_an_owner(profiled) -> None:
    import compiler_lens
    from compiler_lens.measure.profile.match import match, with_keys
    from compiler_lens.measure.profile.trace import read_trace
    from compiler_lens.recording.model import KernelKind, Trust

    mode, result, events, path = profiled
    recording, profile = result.recording, result.profile
    assert compiler_lens.load(path, strict=True).profiles == recording.profiles
    timed = {(t.direction, t.kernel, t.launch): t for t in profile.launches}
    launches = {(k.direction, k.name, i): k for k in recording.kernels for i in range(len(k.launches))}
    assert timed.keys() == launches.keys()
    for place, kernel in launches.items():
        assert timed[place].runs == 1, place
        if kernel.kind in (KernelKind.TRITON, KernelKind.TEMPLATE):
            assert timed[place].trust is Trust.EXACT, place
            assert timed[place].device_kernels == (kernel.name,), place

    trace = read_trace(events)
    matched = match(trace.ranges, with_keys(recording), recording.kernels)
    device = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    owned = [s.microseconds for samples in matched.samples.values() for s in samples]
    owned += [op.microseconds for op in (*matched.others, *trace.others)]
    assert sum(owned) == pytest.approx(sum(e["dur"] for e in device))
    assert Counter(one.key for one in trace.ranges) == {code.key: 5 for code in recording.output_codes}
    assert 0 < profile.busy_microseconds <= sum(e["dur"] for e in device) / 5 * 1.01
    assert (mode == "default") == all(t.trust is Trust.EXACT for t in profile.launches)


def test_ceilings_are_those_of_the_device(profiled) -> None:
    from compiler_lens.facts.kernels.roofline import roofline

    _, result, _, _ = profiled
    ceilings = result.profile.ceilings
    assert ceilings.device == torch.cuda.get_device_name()
    assert set(ceilings.flops_per_second) == {"bf16"}
    groups = roofline(result.recording, result.profile).groups
    assert all(cost.work or not cost.kernel.name.startswith("extern") for group in groups for cost in group.launches)
    assert all(cost.compute_share is None or cost.compute_share < 1.1 for group in groups for cost in group.launches)
    assert not torch.autograd._profiler_enabled()
