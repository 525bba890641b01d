"""What a hostile adapter does to the machine of the suite, each as a function for fake_adapter.py.

A function returns if nothing kept it from what it does, and the adapter then answers honestly. What the system refuses
is an exception, and so a crash that names it. Settings come by environment variables that begin with TZMARK_ATTACK_.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

PIECE = bytes(1 << 20)


def in_grandchild(attack: Callable[[], None]) -> None:
    """Runs an attack in a session and process group of a grandchild, and waits for its end."""
    ended, end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            attack()
        os._exit(0)
    os.close(end)
    os.read(ended, 1)


def write_on() -> None:
    while True:
        os.write(1, PIECE)


def fill_named() -> None:
    with open(f"{os.environ['TMPDIR']}/named", "wb") as file:
        for piece in range(10 << 10):
            os.posix_fallocate(file.fileno(), piece << 20, 1 << 20)
            time.sleep(0.001)


def fill_unnamed() -> None:
    directory = os.environ["TMPDIR"]
    file = os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600)
    for piece in range(10 << 10):
        os.posix_fallocate(file, piece << 20, 1 << 20)
        time.sleep(0.001)


def allocate() -> None:
    pieces = []
    while len(pieces) < 10 << 10:
        pieces.append(b"\xaa" * (1 << 20))
    time.sleep(600)


def allocate_together() -> None:
    """Takes 40 MiB in each of 40 processes, of which each is below its limit."""
    for _ in range(40):
        if os.fork() == 0:
            piece = os.urandom(40 << 20)
            time.sleep(600)
            os._exit(len(piece) & 1)
    time.sleep(600)


def allocate_in_files() -> None:
    """Takes memory that no process has mapped."""
    file = os.memfd_create("hidden")
    for _ in range(10 << 10):
        os.write(file, PIECE)
        time.sleep(0.001)


def raise_limit_of_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def open_files() -> None:
    raise_limit_of_files()
    for _ in range(10_000):
        os.open("/dev/null", os.O_RDONLY)


def open_files_together() -> None:
    raise_limit_of_files()
    for _ in range(4):
        if os.fork() == 0:
            for _ in range(3_000):
                os.open("/dev/null", os.O_RDONLY)
            time.sleep(600)
    time.sleep(600)


def kill_keeper() -> None:
    """Kills the group and the session of its parent, the parent, and what started that."""
    keeper = os.getppid()
    suite = int(Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[1])
    refused = []
    for kill, pid in (
        (os.killpg, os.getpgid(keeper)),
        (os.kill, keeper),
        (os.kill, suite),
    ):
        try:
            kill(pid, signal.SIGKILL)
        except PermissionError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def connect() -> None:
    port = int(os.environ["TZMARK_ATTACK_PORT"])
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def send_datagram() -> None:
    port = int(os.environ["TZMARK_ATTACK_PORT"])
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))


def connect_otherwise() -> None:
    """Tries what Landlock does not bound: another protocol, a connection that begins with data, a server."""
    place = ("127.0.0.1", int(os.environ["TZMARK_ATTACK_PORT"]))
    refused = 0
    for attempt in (
        lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(place),
        lambda: socket.socket().sendto(b"x", 0x20000000, place),
        lambda: socket.socket().sendmsg([b"x"], [], 0x20000000, place),
        lambda: socket.socket().listen(),
    ):
        with contextlib.suppress(PermissionError):
            attempt()
            continue
        refused += 1
    raise PermissionError(f"{refused} were refused")


def send_to_service() -> None:
    """Sends a datagram to a socket that has a name, from a pair."""
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", os.environ["TZMARK_ATTACK_TARGET"])


def limit_keeper() -> None:
    """Lowers limits of its parent, and of what started that, so that the kernel ends it."""
    keeper = os.getppid()
    suite = int(Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[1])
    with contextlib.suppress(PermissionError):
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (0, 0))
    resource.prlimit(suite, resource.RLIMIT_CPU, (0, 0))


def replace_count() -> None:
    """Puts something else in the place of the file in which short reads are counted."""
    count = Path(os.environ["TZMARK_SHORT_READS_COUNT"])
    how = os.environ["TZMARK_ATTACK_HOW"]
    if how == "truncate":
        os.truncate(count, 0)
        return
    count.unlink()
    if how == "link":
        count.symlink_to(os.environ["TZMARK_ATTACK_TARGET"])
    elif how == "fifo":
        os.mkfifo(count)


def print_escapes() -> None:
    """Prints what renames, clears and recolours a terminal, with controls of one byte and of UTF-8, and fails."""
    escapes = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x08\r"
    print(escapes, file=sys.stderr)
    print(f'{{"rejected": {{"rule": null, "offset": null, "message": "{escapes}"}}}}')
    sys.stdout.flush()
    raise ValueError(escapes)


def write_elsewhere() -> None:
    with open(os.environ["TZMARK_ATTACK_TARGET"], "a") as file:
        file.write("owned")


def write_next_to_temporary() -> None:
    """Writes into the directory above that of its question."""
    (Path(os.environ["TMPDIR"]).parent / "owned").write_text("owned")


def write_shared_memory() -> None:
    with open("/dev/shm/tzmark-owned", "w") as file:
        file.write("owned")


def make_segment() -> None:
    """Makes a segment of System V, which stays when all processes have ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmget(0, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")


def remove_segment() -> None:
    """Removes a segment of another program."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.shmctl(int(os.environ["TZMARK_ATTACK_SEGMENT"]), 0, None) < 0:
        raise OSError(ctypes.get_errno(), "shmctl")


def use_ring() -> None:
    """Sets up io_uring, which makes sockets without a system call for them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(425, 1, ctypes.create_string_buffer(120)) < 0:
        raise OSError(ctypes.get_errno(), "io_uring_setup")


def list_what_it_has() -> None:
    """Lists its environment, descriptors, terminal, limits and capabilities, and fails."""
    for name in sorted(os.environ):
        print("variable", name, file=sys.stderr)
    for fd in sorted(os.listdir("/proc/self/fd"), key=int):
        # That of the list has been closed.
        with contextlib.suppress(FileNotFoundError):
            print("descriptor", fd, os.readlink(f"/proc/self/fd/{fd}"), file=sys.stderr)
    with contextlib.suppress(OSError):
        os.open("/dev/tty", os.O_RDONLY)
        print("terminal", file=sys.stderr)
    session = os.getsid(0) == os.getppid()
    print("session of the keeper:", session, file=sys.stderr)
    print("group of its own:", os.getpgid(0) == os.getpid(), file=sys.stderr)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("CapEff", "NoNewPrivs", "Seccomp:")):
            print(line, file=sys.stderr)
    raise ValueError("listed")


def print_limits() -> None:
    print("core", resource.getrlimit(resource.RLIMIT_CORE), file=sys.stderr)
    print("files", resource.getrlimit(resource.RLIMIT_NOFILE), file=sys.stderr)
    raise ValueError("printed")


def start_threads() -> None:
    for _ in range(5_000):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


ATTACKS: dict[str, Callable[[], None]] = {
    "grandchild-writes-on": lambda: in_grandchild(write_on),
    "grandchild-fills-disk": lambda: in_grandchild(fill_named),
    "grandchild-fills-disk-unnamed": lambda: in_grandchild(fill_unnamed),
    "grandchild-allocates": lambda: in_grandchild(allocate),
    "processes-allocate": allocate_together,
    "files-in-memory": allocate_in_files,
    "open-files": open_files,
    "processes-open-files": open_files_together,
    "start-threads": start_threads,
    "kill-keeper": kill_keeper,
    "connect": connect,
    "connect-otherwise": connect_otherwise,
    "send-datagram": send_datagram,
    "send-to-service": send_to_service,
    "limit-keeper": limit_keeper,
    "replace-count": replace_count,
    "remove-segment": remove_segment,
    "print-escapes": print_escapes,
    "write-elsewhere": write_elsewhere,
    "write-next-to-temporary": write_next_to_temporary,
    "write-shared-memory": write_shared_memory,
    "make-segment": make_segment,
    "use-ring": use_ring,
    "list": list_what_it_has,
    "print-limits": print_limits,
}
