"""What is kept beside torch's cache: whose file it may be, of which graph it must be, and what torch's own tools do to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._inductor.codecache import FxGraphCache

from compiler_lens import Lens
from compiler_lens.capture import sidecar
from compiler_lens.capture.sidecar import Entry, cache_entry, keep, recall
from compiler_lens.capture.torch_api import inductor
from compiler_lens.recording.errors import CaptureError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CacheResult, Launch, Recording, Trust

FACTS = (
    Event("lens.node_facts", 1.0, meta={"stage": "post_grad", "nodes": []}),
    Event("lens.kernel_nodes", 2.0, meta={"part": "forward", "kernels": [], "ops": []}),
)


def configs(kernel: str, milliseconds: float | None = 1.0) -> Event:
    return Event("lens.triton_configs", 3.0, meta={"kernel": kernel, "configs": [{"milliseconds": milliseconds}]})


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """An entry of a graph in a cache folder of its own."""
    monkeypatch.setattr(inductor, "cache_folder", lambda: str(tmp_path))
    made = cache_entry(SimpleNamespace(_fx_graph_cache_key="f" * 52, source_code="def call(args): ..."))
    assert made is not None
    return made


def test_what_is_kept_comes_back_and_is_for_nobody_else_to_read(entry: Entry) -> None:
    keep(entry, FACTS)
    assert recall(entry) == FACTS
    assert [path.name for path in entry.path.parent.iterdir()] == [entry.path.name]
    assert entry.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("key", "code"),
    [(None, "x"), ("f" * 52, ""), ("f" * 52, None), ("../../etc/passwd", "x"), ("f", "x"), ("f/" * 20, "x"), (7, "x")],
)
def test_what_is_no_entry_has_no_file(key: object, code: object) -> None:
    assert cache_entry(SimpleNamespace(_fx_graph_cache_key=key, source_code=code)) is None


def _given_away(file: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(file, 12345, 12345)


def _grown(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(64_000_001)


def _replaced(by: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(file: Path) -> None:
        file.rename(file.with_name("aside"))
        by(file)

    return replace


def _without(end: float) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[: int(file.stat().st_size * end)])


# What became of the file, and why it is not read.
OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "anybody writes it": (lambda file: file.chmod(0o602), "no file of yours that only you can write"),
    "a group writes it": (lambda file: file.chmod(0o620), "no file of yours that only you can write"),
    "somebody else's": (_given_away, "no file of yours that only you can write"),
    "huge": (_grown, "of at most 64 MB"),
    "a link": (_replaced(lambda file: file.symlink_to(file.with_name("aside"))), "cannot be read"),
    "a link to a device": (_replaced(lambda file: file.symlink_to("/dev/zero")), "cannot be read"),
    "a pipe": (_replaced(os.mkfifo), "no file of yours"),
    "a folder": (_replaced(Path.mkdir), "no file of yours"),
    "empty": (_without(0), "cannot be read"),
    "cut off": (_without(0.7), "cannot be read"),
    "no journal": (lambda file: file.write_bytes(b"\x80\x04N."), "cannot be read"),
    "of another key": (
        lambda file: file.write_bytes(file.read_bytes().replace(b"f" * 52, b"g" * 52)),
        "of another graph",
    ),
}


@pytest.mark.parametrize("change", OTHERS)
def test_what_others_may_have_written_is_not_read_and_never_waited_for(entry: Entry, change: str) -> None:
    keep(entry, FACTS)
    done, why = OTHERS[change]
    done(entry.path)
    with pytest.raises(CaptureError, match=why):
        recall(entry)


def test_what_an_older_compiler_lens_kept_is_said_to_be_there_and_not_read(entry: Entry) -> None:
    entry.older_path.parent.mkdir(parents=True)
    entry.older_path.write_text("anything")
    with pytest.raises(CaptureError, match="filled with an older compiler_lens, whose notes this one does not read"):
        recall(entry)
    keep(entry, FACTS)
    assert recall(entry) == FACTS


def test_facts_of_another_output_code_are_not_this_graphs(entry: Entry) -> None:
    other = Entry(entry.key, "0" * 32)
    keep(other, FACTS)
    with pytest.raises(CaptureError, match="filled without compiler_lens"):
        recall(entry)
    other.path.rename(entry.path)
    with pytest.raises(CaptureError, match="of another graph"):
        recall(entry)


def test_only_facts_are_taken_from_it(entry: Entry) -> None:
    keep(
        entry, (*FACTS, Event("lens.source", 1.0, meta={"file": "/etc/passwd"}, text="x"), Event("lens.recording", 1.0))
    )
    assert recall(entry) == FACTS


def test_what_is_timed_later_joins_it_and_does_not_pile_up(entry: Entry) -> None:
    keep(entry, (configs("a"),), is_more=True)
    with pytest.raises(CaptureError, match="filled without compiler_lens"):
        recall(entry)  # configs alone would pass for all that is known of the graph
    keep(entry, FACTS)
    for milliseconds in (1.0, 2.0, 3.0):
        keep(entry, (configs("a", milliseconds),), is_more=True)
    keep(entry, (configs("b"),), is_more=True)
    keep(entry, (configs("a", None),), is_more=True)  # where coordinate descent ended: not timed
    assert recall(entry) == (*FACTS, configs("a", 3.0), configs("b"), configs("a", None))


def test_a_graph_that_is_compiled_again_keeps_what_was_timed(entry: Entry) -> None:
    """Triton's own cache answers then, and nothing is timed."""
    keep(entry, FACTS)
    keep(entry, (configs("a"),), is_more=True)
    keep(entry, FACTS)
    assert recall(entry) == (configs("a"), *FACTS)


WRITES = """\
import sys
from compiler_lens.capture import sidecar
from compiler_lens.capture.torch_api import inductor
from compiler_lens.recording.event import Event
inductor.cache_folder = lambda: sys.argv[1]
entry = sidecar.Entry("f" * 52, "0" * 32)
print("ready", flush=True)
sys.stdin.read()
for number in range(150):
    sidecar.keep(entry, (Event("lens.node_facts", 1.0, meta={"nodes": ["n" * 20_000]}),))
"""


def test_who_reads_while_two_processes_write_sees_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "cache_folder", lambda: str(tmp_path))
    entry = Entry("f" * 52, "0" * 32)
    keep(entry, (Event("lens.node_facts", 1.0, meta={"nodes": ["n" * 20_000]}),))
    (wanted,) = recall(entry)
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.close()  # type: ignore[union-attr]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        assert recall(entry) == (wanted,)
        seen += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen > 10
    assert [path.name for path in entry.path.parent.iterdir()] == [entry.path.name]
    for writer in writers:
        writer.stdout.close()  # type: ignore[union-attr]


# -- with torch


def pooled(x: torch.Tensor) -> torch.Tensor:
    """One key in torch's cache for all sizes; an entry of its own, with guards, for each."""
    return torch.nn.functional.adaptive_avg_pool2d(x, [5, 7]) + 1


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """torch's cache, empty."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def recorded(width: int = 8) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True, progress=False) as lens, torch.no_grad():
        torch.compile(pooled, dynamic=True)(torch.rand(1, 16, width, width + 1))
    return lens.recording


def hits(recording: Recording) -> bool:
    return any(answer.result is CacheResult.HIT for answer in recording.caches)


def known(recording: Recording) -> tuple[Sequence[Launch], Sequence[Trust], Sequence[str]]:
    """What launches compute, read and write; how that is known; why it is not."""
    launches = [launch for kernel in recording.kernels for launch in kernel.launches]
    return launches, [kernel.trust for kernel in recording.kernels], [gap.reason for gap in recording.unavailable]


def test_two_entries_of_one_key_have_facts_of_their_own(cache: Path) -> None:
    cold = [recorded(8), recorded(11)]
    files = sorted(path.name for path in (cache / sidecar.FOLDER).iterdir())
    assert len(files) == 2
    assert len({name.partition("-")[0] for name in files}) == 1, "torch gave them keys of their own: find another model"
    assert not any(map(hits, cold))
    warm = [recorded(8), recorded(11)]
    assert all(map(hits, warm))
    assert [known(one) for one in warm] == [known(one) for one in cold]
    assert known(cold[0])[0] != known(cold[1])[0]
    assert known(warm[0])[1:] == ([Trust.EXACT], [])


def swapped(folder: Path) -> str:
    first, second = sorted(folder.iterdir())
    first.write_bytes(second.read_bytes())
    return "of another graph"


def piped(folder: Path) -> str:
    for file in folder.iterdir():
        file.unlink()
        os.mkfifo(file)
    return "no file of yours"


@pytest.mark.parametrize("change", [swapped, piped])
def test_what_cannot_be_trusted_is_told_as_unavailable(cache: Path, change: Callable[[Path], str]) -> None:
    recorded(8)
    recorded(11)
    why = change(cache / sidecar.FOLDER)
    reasons = [known(one)[2] for one in (recorded(8), recorded(11))]
    assert any(why in reason for told in reasons for reason in told)
    assert all(reason.endswith("; clear the cache to record them") for told in reasons for reason in told)


def test_clearing_torchs_cache_takes_it_along(cache: Path) -> None:
    recorded()
    assert list((cache / sidecar.FOLDER).iterdir())
    FxGraphCache.clear()
    assert not (cache / sidecar.FOLDER).exists()
    assert [path for path in cache.rglob("*") if "compiler_lens" in path.name] == []


def test_torchs_portable_caches_leave_it_behind_and_say_so(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler._cache.CacheArtifactManager.clear()
    cold = recorded()
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    data, info = saved
    assert b"compiler_lens" not in data
    assert set(info.artifacts) <= {"inductor", "aot_autograd", "pgo", "autotune"}
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert torch.compiler.load_cache_artifacts(data) is not None
    there = recorded()
    assert hits(there)
    assert not hits(cold)
    assert any("filled without compiler_lens" in reason for reason in known(there)[2])
    assert Trust.EXACT not in known(there)[1]
    torch.compiler._cache.CacheArtifactManager.clear()
