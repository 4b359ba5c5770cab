"""What launches read and write, and which were not fused, from real compilations: cold, warm, without our own file."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

import compiler_lens  # noqa: E402
from compiler_lens.capture import sidecar  # noqa: E402
from compiler_lens.capture.tap import ANCHOR  # noqa: E402
from compiler_lens.capture.torch_api import structured_trace  # noqa: E402
from compiler_lens.decode.fusion import NO_KERNEL  # noqa: E402
from compiler_lens.facts.kernels.fusion import unfused  # noqa: E402
from compiler_lens.facts.kernels.fusion_reasons import Reason  # noqa: E402
from compiler_lens.facts.kernels.library_calls import Library  # noqa: E402
from compiler_lens.recording.event import Event  # noqa: E402
from compiler_lens.recording.journal_reader import parse_journal  # noqa: E402
from compiler_lens.recording.model import BufferAccess, CacheResult, Direction, Launch, Recording  # noqa: E402

ROWS, WIDTH = 32, 64
TENSOR = 4 * ROWS * WIDTH
WEIGHT = 4 * WIDTH * WIDTH


class Model(torch.nn.Module):
    """A product between two kernels, and in the backward two loops that go through one buffer in different orders."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(torch.relu(x)) * 2).sin().sum(0)


def odd(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the scheduler has nodes of its own for: a concatenation, a tuple, a mutation, a part of a buffer."""
    whole = torch.cat([x.sin() @ y, x.cos(), y[:, :5].exp()], 1)
    values, places = x.sort(1)
    product = values @ y
    y.add_(1)
    return (whole * 2).sum(1), places + 1, product[: ROWS // 2].tanh(), product[ROWS // 2 :].tanh() @ y


@dataclass(frozen=True)
class Seen:
    recording: Recording
    events: tuple[Event, ...]


def seen(step: Callable[[], object]) -> Seen:
    torch._dynamo.reset()
    with compiler_lens.Lens(strict=True) as lens:
        step()
        events, problems = parse_journal(lens._session.journal.contents(), "")
    assert problems == ()
    return Seen(lens.recording, events)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Seen]]:
    model, x, square = Model(), torch.randn(ROWS, WIDTH), torch.randn(ROWS, ROWS)

    def train() -> None:
        torch.compile(model)(x).sum().backward()

    def infer() -> None:
        with torch.no_grad():
            torch.compile(odd)(square, square.clone())

    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("inductor")
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        found = {"cold": seen(train), "warm": seen(train), "inference": seen(infer)}
        shutil.rmtree(cache / sidecar.FOLDER)
        found["foreign"] = seen(train)
        yield found


def launches(recording: Recording, direction: Direction) -> dict[tuple[str, int], Launch]:
    kernels = [kernel for kernel in recording.kernels if kernel.direction is direction]
    return {(kernel.name, launch.line): launch for kernel in kernels for launch in kernel.launches}


@pytest.mark.parametrize("run", ["cold", "warm", "inference"])
def test_launches_share_out_all_nodes_that_have_a_kernel(runs: dict[str, Seen], run: str) -> None:
    told = [event for event in runs[run].events if event.name == "lens.fusion"]
    assert len(told) == len(runs[run].recording.output_codes) > 0
    for event in told:
        wanted = [op for ops, kind, _, _ in event.meta["nodes"] if kind not in NO_KERNEL for op in ops]
        direction = Direction(event.meta["part"])
        given = [op for launch in launches(runs[run].recording, direction).values() for op in launch.ops]
        assert sorted(given) == sorted(wanted)


def test_a_launch_tells_what_it_moves(runs: dict[str, Seen]) -> None:
    found = launches(runs["cold"].recording, Direction.FORWARD)
    (relu,) = [launch for (name, _), launch in found.items() if name.startswith("cpp_fused_relu")]
    (product,) = [launch for (name, _), launch in found.items() if name == "extern_kernels.addmm"]
    assert relu.writes == (BufferAccess("buf0", TENSOR),)
    assert set(product.reads) == {
        BufferAccess("buf0", TENSOR),
        BufferAccess("primals_2", WEIGHT),
        BufferAccess("primals_3", 4 * WIDTH),
    }
    assert all(access.bytes for launch in found.values() for access in (*launch.reads, *launch.writes))


def test_a_warm_run_knows_the_same(runs: dict[str, Seen]) -> None:
    cold, warm = runs["cold"].recording, runs["warm"].recording
    assert any(answer.result is CacheResult.HIT for answer in warm.caches)
    assert warm.unfused == cold.unfused != ()
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        assert launches(warm, direction) == launches(cold, direction)
    assert [code.key for code in warm.output_codes] == [code.key for code in cold.output_codes]
    assert all(code.key for code in cold.output_codes)


def test_a_product_between_two_kernels_and_loops_in_different_orders_are_told(runs: dict[str, Seen]) -> None:
    recording = runs["cold"].recording
    forward = [pair for pair in unfused(recording) if pair.unfused.direction is Direction.FORWARD]
    assert {(pair.reason, pair.library) for pair in forward} == {(Reason.LIBRARY, Library.PRODUCT)}
    (apart,) = [pair for pair in unfused(recording) if pair.reason is not Reason.LIBRARY]
    assert (apart.reason, apart.unfused.reason) == (Reason.DIFFERENT_ORDER, "no shared data")
    assert apart.unfused.shared == (BufferAccess("buf5", TENSOR),)
    assert (apart.first.kernel.direction, apart.second.kernel.aten) == (Direction.BACKWARD, ("aten.sum",))


def test_tuples_concatenations_and_parts_are_shared_as_they_are(runs: dict[str, Seen]) -> None:
    recording = runs["inference"].recording
    found = {(pair.first.kernel.name, pair.second.kernel.name, pair.reason) for pair in unfused(recording)}
    assert any("sort" in first and second == "extern_kernels.mm" for first, second, _ in found)
    assert any(reason is Reason.LIBRARY and "sum" in second for _, second, reason in found)  # a part of the whole
    moved = launches(recording, Direction.INFERENCE)
    (tanh,) = [launch for (name, _), launch in moved.items() if "tanh" in name]
    product = {made for (name, _), launch in moved.items() if name == "extern_kernels.mm" for made in launch.writes}
    (halves,) = product.intersection(tanh.reads)  # read half by half, in two loops of one kernel
    assert halves.bytes == 4 * ROWS * ROWS
    assert recording.problems == ()


def test_a_cache_that_was_filled_without_us_is_said_to_lack_it(runs: dict[str, Seen]) -> None:
    recording = runs["foreign"].recording
    assert recording.unfused == ()
    assert recording.kernels
    assert not any(launch.ops or launch.reads for kernel in recording.kernels for launch in kernel.launches)
    assert any("what launches read and write" in fact.fact for fact in recording.unavailable)


def test_a_compilation_that_fails_between_fusing_and_telling_leaves_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_nodes: object) -> None:
        raise MemoryError

    torch._dynamo.reset()
    monkeypatch.setattr("torch._inductor.debug.log_ir_post_fusion", broken)
    with compiler_lens.Lens(strict=True):
        with pytest.raises(Exception, match="MemoryError"):
            torch.compile(odd)(torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH))
        tap = vars(structured_trace.trace_logger())[ANCHOR]
        records = [record for _, record in tap.attribution._latest.values()]
        assert records
        assert not any(record.refused for record in records)
