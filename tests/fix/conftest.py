"""What several tests of `fix` set up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler_lens.measure.fix.process import Processes

Install = Callable[..., None]
WARM = Path(__file__).with_name("warm.py")
OF_A_TEST = {"PYTEST_CURRENT_TEST", "PYTHONPATH", "PYTHONHASHSEED"}  # what may differ from the warm process's


class _Server:
    """A server of runs, as `Processes` has it of `subprocess.Popen`."""

    def __init__(self, link: socket.socket, environment: Mapping[str, str]) -> None:
        asked, self._asking = os.pipe()
        self._answered, answers = os.pipe()
        message = json.dumps([str(Path.cwd()), dict(environment)]).encode()
        socket.send_fds(link, [message], [asked, answers, sys.__stderr__.fileno() if sys.__stderr__ else 2])
        os.close(asked)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(self._asking, "wb", 0), os.fdopen(self._answered, "rb", 0)
        self.pid = int(link.recv(16))

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.stdin.close()
        self.stdout.close()


class _Warm:
    """A process that has torch, once somebody asks it for a server."""

    def __init__(self) -> None:
        self.environment = {**os.environ, "PYTHONHASHSEED": "0"}
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def server(self, environment: Mapping[str, str]) -> _Server:
        if self._link is None:
            self._link, its = socket.socketpair()
            command = [sys.executable, str(WARM), str(its.fileno())]
            self._process = subprocess.Popen(command, env=self.environment, pass_fds=[its.fileno()])
            its.close()
        return _Server(self._link, environment)

    def end(self) -> None:
        if self._link is not None and self._process is not None:
            self._link.close()
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="session", autouse=True)
def warm() -> Iterator[None]:
    """Fork the servers of runs from one process that has torch, where they are asked for in this process."""
    warm, started = _Warm(), Processes._started

    @contextlib.contextmanager
    def forked(self: Processes, arguments: list[str], *streams: Any) -> Iterator[Any]:
        differing = {name for name, _ in self._environment.items() ^ warm.environment.items()}
        if arguments or not differing <= OF_A_TEST or self._environment.get("PYTHONHASHSEED", "0") != "0":
            with started(self, arguments, *streams) as process:
                yield process
            return
        server = warm.server(self._environment)
        try:
            yield server
        finally:
            server.end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Processes, "_started", forked)
        yield
    warm.end()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package in a folder, with `train.py`, which uses it, and `own.py`, which has the same as its own."""

    def installed(name: str, library: str, *, train: str, own: str) -> None:
        folder = tmp_path / "lib" / "site-packages"
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(library)
        (tmp_path / "train.py").write_text(train)
        (tmp_path / "own.py").write_text(own)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))

    return installed
