"""A copy of this process, made by a fork, in which something may be tried that must change nothing outside of it.

It can write no file, remove or rename none, start no process and reach no network: what it tries of that raises
`PermissionError`. Its open files lead nowhere, or, if they are read, stand at a place of their own. What it writes to
memory that is shared, of a mapped file say, it alone sees. Whatever becomes of the copy, this process goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import select
import signal
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REFUSED = "a call with other inputs changes nothing outside of its process"
Tell = Callable[[bytes], None]

_HEAD = struct.Struct("<Q")  # the length of what was told
_CHUNK = 1 << 20


def told_by_a_copy(step: Callable[[Tell], object], silence: float) -> Iterator[bytes]:
    """Run a step in a copy, and yield what it tells; nothing more where it ends itself, or is silent for too long.

    Args:
        step: gets a function that tells some bytes to this process.
        silence: seconds, after which the copy is ended.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        _run(step, writing)
    os.close(writing)
    try:
        yield from _messages(reading, silence)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _messages(reading: int, silence: float) -> Iterator[bytes]:
    data, last = b"", time.monotonic()
    while select.select([reading], [], [], max(silence + last - time.monotonic(), 0))[0]:
        read = os.read(reading, _CHUNK)
        if not read:
            return
        data += read
        while len(data) >= _HEAD.size and len(data) >= (end := _HEAD.size + _HEAD.unpack_from(data)[0]):
            yield data[_HEAD.size : end]
            data, last = data[end:], time.monotonic()


def _run(step: Callable[[Tell], object], writing: int) -> None:
    def tell(message: bytes) -> None:
        data = memoryview(_HEAD.pack(len(message)) + message)
        while data:
            data = data[os.write(writing, data) :]

    try:
        _close_off(writing)
        step(tell)
    finally:
        os._exit(0)  # no handler of the program's runs twice


# -- what is closed off


def _close_off(kept: int) -> None:
    """Let this process change nothing outside of it any more, but write to one descriptor."""
    _take_memory_apart()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write of a regular file is then an error
    _turn_descriptors_away(kept)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    _forbid_by_the_kernel()
    sys.addaudithook(_refuse)


_MAPS = Path("/proc/self/maps")
_HERE = mmap.MAP_PRIVATE | 0x10  # MAP_FIXED, which Python does not name: in place of what is there
_AT_ONCE = 1 << 24  # bytes


def can_keep_memory_apart() -> bool:
    """Whether it can be found which memory of this process others see, too."""
    return _MAPS.is_file()


def _take_memory_apart() -> None:
    """Make memory that is written here this process's own, which a fork shares with the process and its files.

    So are files that NumPy or torch map, and what is shared between processes. A file is mapped once more, and read
    where it is used; what has no name any more is copied. Memory of devices is left.
    """
    if not can_keep_memory_apart():
        return
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    numbers = [ctypes.c_int] * 3
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_long]
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    for line in _MAPS.read_text(errors="surrogateescape").splitlines():
        span, rights, offset, device, inode, *name = line.split(maxsplit=5)
        is_of_a_device = bool(name) and name[0].startswith(("/dev/", "anon_inode:"))
        if rights[1] != "w" or rights[3] != "s" or (is_of_a_device and not name[0].startswith(_MEMORY_OF_ALL)):
            continue
        start, end = (int(one, 16) for one in span.split("-"))
        protection = mmap.PROT_READ | mmap.PROT_WRITE | (mmap.PROT_EXEC if rights[2] == "x" else 0)
        file = _opened(name[0] if name else "", device, int(inode))
        if file is None:
            kept = list(_bytes(memory, start, end))
            found = library.mmap(start, end - start, protection, _HERE | mmap.MAP_ANONYMOUS, -1, 0)
            for at, data in kept if found == start else ():
                ctypes.memmove(at, data, len(data))
        else:
            found = library.mmap(start, end - start, protection, _HERE, file, int(offset, 16))
            os.close(file)
        if found != start:
            raise OSError(ctypes.get_errno(), "memory that is shared cannot be kept apart")
    os.close(memory)


_MEMORY_OF_ALL = "/dev/shm/", "/dev/zero", "/dev/hugepages/"  # noqa: S108 -- files, and memory without one


def _opened(name: str, device: str, inode: int) -> int | None:
    """Open the file that is mapped, to read; None where that name is another's, or nobody's."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(file)
    if found.st_ino == inode and f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}" == device:
        return file
    os.close(file)
    return None


def _bytes(memory: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Read memory, by address, but for what lies past the end of what is mapped."""
    with contextlib.suppress(OSError):
        while start < end and (data := os.pread(memory, min(end - start, _AT_ONCE), start)):
            yield start, data
            start += len(data)


def _turn_descriptors_away(kept: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    folder = Path("/proc/self/fd")
    numbers = [int(one.name) for one in folder.iterdir()] if folder.is_dir() else list(range(256))
    for number in numbers:
        with contextlib.suppress(OSError):
            if number in {kept, nothing}:
                continue
            is_read = not fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)
            if is_read and stat.S_ISREG(os.fstat(number).st_mode) and folder.is_dir():
                own = os.open(folder / str(number), os.O_RDONLY)
                os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(own, number)
                os.close(own)
            else:
                os.dup2(nothing, number)


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Of Python's audit events those by which a process changes something outside of it.
_CHANGING = frozenset({
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.link", "os.symlink",
    "os.utime", "os.setxattr", "os.removexattr", "os.lockf", "fcntl.flock", "fcntl.lockf", "shutil.rmtree",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.kill",
    "os.killpg", "signal.pthread_kill", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg",
    "sqlite3.connect",
})  # fmt: skip


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    is_written = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
    if is_written or event in _CHANGING:
        raise PermissionError(f"{event}: {REFUSED}")


# Linux, landlock(7): from here on rights that no rule gives are refused, also to what is not Python.
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION, _NO_NEW_PRIVILEGES = 1, 38
_FIRST_WITH_NETWORK = 4
_RIGHTS = (  # by the version that brought them: to write, remove and make files; to move them; to cut them short
    (1, 1 << 1 | sum(1 << n for n in range(4, 13))),
    (2, 1 << 13),
    (3, 1 << 14),
)


def landlock_version() -> int:
    """Return which version of Landlock the kernel has; 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(_system(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)), 0)


def _system(*arguments: Any) -> int:
    library = ctypes.CDLL(None)
    library.syscall.restype = ctypes.c_long
    return int(library.syscall(*arguments))


def _forbid_by_the_kernel() -> None:
    version = landlock_version()
    if not version:
        return
    files = sum(rights for since, rights in _RIGHTS if since <= version)
    network = 0b11 if version >= _FIRST_WITH_NETWORK else 0  # to bind and to connect
    asked = (ctypes.c_uint64 * 2)(files, network)
    size = ctypes.c_size_t(16 if network else 8)
    rules = _system(_CREATE_RULESET, asked, size, ctypes.c_uint32(0))
    if rules >= 0:
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _system(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
