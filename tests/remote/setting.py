"""What the tests of remote files share: the command, a model, and servers that are not ours."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUILD = Path(os.environ["TZMARK_BUILD_DIR"])
TZMARK = BUILD / "bin" / "tzmark"
CORPUS = BUILD / "share" / "tzmark" / "corpus"
FINE, FILE, USAGE, ENVIRONMENT, UNAVAILABLE = 0, 1, 2, 3, 4
SKIPPED = 77
# Short pauses and limits, so that a test of faults takes seconds.
QUICK = {
    "TZMARK_HTTP_PAUSE_MS": "5",
    "TZMARK_HTTP_STALL_S": "1",
    "TZMARK_HTTP_DEADLINE_S": "20",
}
START_S = 20


def model(tensors: int = 6, tensor_bytes: int = 700_000, seed: int = 1) -> bytes:
    """A safetensors file."""
    chance = random.Random(seed)
    header = {
        f"t{i}": {
            "dtype": "U8",
            "shape": [tensor_bytes],
            "data_offsets": [i * tensor_bytes, (i + 1) * tensor_bytes],
        }
        for i in range(tensors)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # One by one, since random makes no 256 MiB at once.
    data = b"".join(chance.randbytes(tensor_bytes) for _ in range(tensors))
    return struct.pack("<Q", len(text)) + text + data


def clean_environment() -> dict[str, str]:
    """Without what would lead requests elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith("AWS_")
    } | {"HOME": "/nonexistent"}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(TZMARK), *arguments],
        env=clean_environment() | QUICK | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(
    command: list[str], port: int, log: Path, **environment: str
) -> Iterator[None]:
    """Runs a server until the end of the block, which begins when it accepts connections."""
    with open(log, "ab") as output:
        server = subprocess.Popen(
            command,
            env=clean_environment() | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        end = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(
                        f"{command[0]} does not start: {log.read_text(errors='replace')}"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def nginx() -> str | None:
    return shutil.which(
        "nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    )


def rclone() -> str | None:
    return os.environ.get("TZMARK_RCLONE") or shutil.which("rclone")


@contextmanager
def serving_with_nginx(
    root: Path, scratch: Path, tls: bool = False
) -> Iterator[tuple[str, Path]]:
    """Yields the URL of the directory, and the log: protocol, status and range of each request. With TLS, the
    certificate is scratch/certificate.pem, and HTTP/2 is spoken."""
    port = free_port()
    listen = f"listen 127.0.0.1:{port};"
    if tls:
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        files = [
            "-keyout",
            str(scratch / "key.pem"),
            "-out",
            str(scratch / "certificate.pem"),
        ]
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ed25519",
                "-nodes",
                "-days",
                "2",
                *subject,
                *files,
            ],
            check=True,
            capture_output=True,
        )
        listen = (
            f"listen 127.0.0.1:{port} ssl http2; ssl_certificate {scratch}/certificate.pem;"
            f" ssl_certificate_key {scratch}/key.pem;"
        )
    paths = "".join(
        f"{name}_temp_path {scratch}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (scratch / "nginx.conf").write_text(
        f"""{user} daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log {scratch}/error.log;
        events {{ worker_connections 256; }}
        http {{
          log_format short '$server_protocol $status $http_range';
          access_log {scratch}/access.log short; {paths}
          server {{ {listen} root {root};
            location = /down {{ return 302 http://127.0.0.1:9/model; }} }}
        }}"""
    )
    command = [
        str(nginx()),
        "-e",
        str(scratch / "error.log"),
        "-c",
        str(scratch / "nginx.conf"),
    ]
    with started(command, port, scratch / "output.log"):
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}", scratch / "access.log"


@contextmanager
def serving_s3(
    root: Path,
    scratch: Path,
    key_id: str,
    secret_key: str,
    sees_new_files: bool = False,
) -> Iterator[str]:
    """Yields the endpoint. Each directory of root is a bucket. A server that sees files which others make there at once
    is slow: it hangs for seconds in reads of a large one."""
    port = free_port()
    command = [
        str(rclone()),
        "serve",
        "s3",
        "--addr",
        f"127.0.0.1:{port}",
        "--config",
        str(scratch / "rclone.conf"),
        *(("--dir-cache-time", "0s") if sees_new_files else ()),
    ]
    with started(
        [*command, str(root)],
        port,
        scratch / "rclone.log",
        RCLONE_AUTH_KEY=f'"{key_id},{secret_key}"',
    ):
        yield f"http://127.0.0.1:{port}"
