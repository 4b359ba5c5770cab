"""A process that has torch, from which the tests' servers of runs are forked: each would import it for seconds.

python tests/fix/warm.py FD      the socket over which servers are asked for
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

from compiler_lens.cli import tried_program
from compiler_lens.measure.fix.running import may_fork

_MOST = 1 << 20  # bytes of an environment


def main() -> None:
    """Fork a server for each that is asked for: in a folder, with an environment, and streams."""
    link = socket.socket(fileno=int(sys.argv[1]))
    may_fork()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, streams, *_ = socket.recv_fds(link, _MOST, 3)
        if not message:
            return
        process = os.fork()
        if not process:
            _serve(*json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        link.send(str(process).encode())


def _serve(folder: str, environment: dict[str, str], streams: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    try:
        tried_program.main([])
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
