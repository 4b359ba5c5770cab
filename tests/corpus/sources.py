"""Gets PyTorch's tests as a user may: from Debian's source packages, of the version nearest to the torch that is here.

Everything lands in a folder of our own: no list, key or setting of the system changes.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

_SUITES = ("unstable", "testing", "stable")
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_NEEDED = "expecttest"  # by most of PyTorch's tests; goes beside them


class NotHereError(Exception):
    """PyTorch's tests cannot be had on this machine; the message says what to do."""


def fetched(work: Path) -> Path:
    """Return PyTorch's folder of tests below `work`, got at the first call. Raises `NotHereError`."""
    if not (found := sorted(work.glob("pytorch*/test"))):
        work.mkdir(parents=True, exist_ok=True)
        _unpack(_downloaded(work), work)
        found = sorted(work.glob("pytorch*/test"))
    _run([sys.executable, "-m", "pip", "install", "-q", "--upgrade", "--target", found[0], _NEEDED], work)
    return found[0]


def nearest(versions: Iterable[str], wanted: str) -> list[str]:
    """Return versions of Debian's, the nearest to a torch's first: by major and minor number."""

    def numbers(version: str) -> tuple[int, int]:
        found = re.match(r"(\d+)\.(\d+)", version.rpartition(":")[2])
        return (int(found[1]), int(found[2])) if found else (0, 0)

    major, minor = numbers(wanted)
    return sorted(set(versions), key=lambda v: (abs(numbers(v)[0] - major), abs(numbers(v)[1] - minor), v))


def _downloaded(work: Path) -> Path:
    """The archive of the nearest version that the mirror has: its lists may name one that is gone."""
    options = _apt_options(work)
    _run(["apt-get", *options, "update"], work)
    offered = re.findall(r"^Version: (\S+)", _run(["apt-cache", *options, "showsrc", "pytorch"], work), re.MULTILINE)
    for version in nearest(offered, importlib.metadata.version("torch")):
        words = ["apt-get", *options, "source", "--download-only", "--only-source", f"pytorch={version}"]
        try:
            _run(words, work)
        except NotHereError:
            print(f"PyTorch {version}: listed, and not there", flush=True)
            continue
        print(f"PyTorch's tests: {version}, for torch {importlib.metadata.version('torch')}", flush=True)
        return next(work.glob(f"pytorch_{version.rpartition('-')[0]}.orig.tar.*"))
    raise NotHereError("no source package of pytorch: give a folder of its tests with --sources")


def _apt_options(work: Path) -> list[str]:
    """Have apt read sources of the mirrors that this system uses, into lists and a cache below `work`."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages", "Label: Debian"]
    mirrors = _run(asked, work).split()
    if not mirrors:
        raise NotHereError("apt knows no mirror of Debian here: give a folder of PyTorch's tests with --sources")
    sources = work / "sources.list"
    sources.write_text("".join(f"deb-src [signed-by={_KEYS}] {mirrors[0]} {suite} main\n" for suite in _SUITES))
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / "apt" / folder).mkdir(parents=True, exist_ok=True)
    places = {"Etc::SourceList": sources, "State::Lists": work / "apt/lists", "Cache": work / "apt/cache"}
    words = [f"-oDir::{name}={path}" for name, path in places.items()]
    return [*words, "-oDir::Etc::SourceParts=/dev/null", "-oAPT::Sandbox::User=root"]


def _unpack(archive: Path, work: Path) -> None:
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile() and "/test/" in member.name]
        tar.extractall(work, members, filter="data")


def _run(words: Sequence[str | Path], folder: Path) -> str:
    try:
        return subprocess.run(words, cwd=folder, check=True, capture_output=True, encoding="utf-8").stdout
    except FileNotFoundError as error:
        message = f"there is no {words[0]} here: give a folder of PyTorch's tests with --sources"
        raise NotHereError(message) from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()[-1:] or [f"status {error.returncode}"]
        raise NotHereError(f"{' '.join(map(str, words[:3]))}: {said[0]}") from error
