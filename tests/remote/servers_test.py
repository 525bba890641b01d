#!/usr/bin/env python3
"""Reads cases of the corpus from servers that are not ours: nginx, by HTTP/1.1 and HTTP/2, and rclone, by S3.

Every valid case gives what the local file gives, and every hostile one gets the same verdict. usage: servers_test.py
nginx|nginx-tls|rclone. Skipped (77) where the server is not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import setting

KEY_ID, SECRET_KEY = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG=SECRET"
# Of all cases, each so many-th.
STRIDE = 7
UrlOf = Callable[[str], str]


def cases() -> list[Path]:
    valid = sorted((setting.CORPUS / "valid").glob("*.tensors"))
    hostile = sorted((setting.CORPUS / "invalid").glob("*.tensors"))
    assert valid and hostile, "the corpus is not built"
    return valid[::STRIDE] + hostile[::STRIDE]


def key_of(case: Path) -> list[str]:
    """Encrypted cases name their key in the manifest of the corpus."""
    entry = MANIFEST.get(case.stem, {})
    if "key_hex" in entry:
        return ["--key-hex", entry["key_hex"]]
    return ["--passphrase", entry["passphrase"]] if "passphrase" in entry else []


def load_manifest() -> dict[str, dict[str, str]]:
    document = json.loads((setting.CORPUS / "manifest.json").read_text())
    return {case["id"]: case for case in document["cases"]}


MANIFEST = load_manifest()


def compare(case: Path, url: str, environment: dict[str, str]) -> tuple[int, str]:
    """Returns the exit status, and what differs; empty if nothing does."""
    local = setting.run("dump", *key_of(case), str(case))
    remote = setting.run("dump", *key_of(case), url, **environment)
    said = remote.stderr.decode(errors="replace").replace(url, str(case))
    same = (local.returncode, local.stdout, local.stderr.decode(errors="replace")) == (
        remote.returncode,
        remote.stdout,
        said,
    )
    return (
        local.returncode,
        ""
        if same
        else f"{case.name}: {said or 'other output'}, instead of {local.stderr!r}",
    )


def compare_all(directory: Path, url_of: UrlOf, environment: dict[str, str]) -> None:
    chosen = cases()
    with ThreadPoolExecutor(4) as pool:
        results = list(
            pool.map(
                lambda case: compare(
                    case, url_of(f"{case.parent.name}/{case.name}"), environment
                ),
                chosen,
            )
        )
    different = [text for _, text in results if text]
    assert not different, "\n".join(different)
    read = sum(status == setting.FINE for status, _ in results)
    print(
        f"{read} valid and {len(results) - read} hostile cases are read as the local ones"
    )
    assert 20 < read < len(results) - 20

    # Of odd names, and larger than one request.
    content = setting.model(tensor_bytes=3_000_000)
    for name in (
        "model.safetensors",
        "a b+c%20d&e=f;g,h@i$j!k'l(m)*n~o",
        "d\u00e9\u4e2d\U0001f600/model",
        "x?y#z",
    ):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
        result = setting.run("extract", url_of(name), "t5", **environment)
        assert result.stdout == content[-3_000_000:], (name, result.stderr)

    # A sharded model, whose index names files next to it.
    made = setting.run(
        "convert",
        str(directory / "model.safetensors"),
        str(directory / "shards.safetensors"),
        "--shard-bytes",
        "4MiB",
    )
    assert made.returncode == setting.FINE, made.stderr
    index = "shards.safetensors.index.json"
    local = setting.run("dump", str(directory / index))
    remote = setting.run("dump", url_of(index), **environment)
    assert (remote.returncode, remote.stdout) == (0, local.stdout), remote.stderr


def with_corpus(scratch: Path) -> Path:
    root = scratch / "root" / "bucket"
    root.mkdir(parents=True)
    for part in ("valid", "invalid"):
        os.symlink(setting.CORPUS / part, root / part)
    return root


def quoted(origin: str) -> UrlOf:
    return lambda name: f"{origin}/bucket/{urllib.parse.quote(name)}"


def test_nginx(scratch: Path) -> None:
    root = with_corpus(scratch)
    with setting.serving_with_nginx(root.parent, scratch) as (origin, log):
        compare_all(root, quoted(origin), {})
        lines = log.read_text().splitlines()
        assert all(
            line.startswith("HTTP/1.1 206 bytes=") or " 206 " not in line
            for line in lines
        )


def test_nginx_tls(scratch: Path) -> None:
    root = with_corpus(scratch)
    with setting.serving_with_nginx(root.parent, scratch, tls=True) as (origin, log):
        trust = {"SSL_CERT_FILE": str(scratch / "certificate.pem")}
        compare_all(root, quoted(origin), trust)
        assert all(
            line.startswith("HTTP/2.0 206 bytes=")
            for line in log.read_text().splitlines()
        )
        down = setting.run("dump", f"{origin}/down", **trust)
        assert b"http from https, which is refused" in down.stderr, down.stderr
        untrusted = setting.run("dump", f"{origin}/bucket/model.safetensors")
        assert untrusted.returncode == setting.ENVIRONMENT, untrusted.stderr
        assert b"certificate" in untrusted.stderr, untrusted.stderr


def check_writing(root: Path, scratch: Path, access: dict[str, str]) -> None:
    """At once and in parts, in place of an older object too."""
    for tensor_bytes in (50_000, 9 << 20, 10 << 20):
        source, local = scratch / "written.safetensors", scratch / "written.tensors"
        source.write_bytes(setting.model(5, tensor_bytes))
        for output in (str(local), "s3://bucket/new/a b.tensors"):
            done = setting.run("convert", str(source), output, **access)
            assert (done.returncode, done.stderr) == (setting.FINE, b""), done.stderr
        assert (root / "new/a b.tensors").read_bytes() == local.read_bytes()
        read = setting.run("verify", "s3://bucket/new/a b.tensors", **access)
        assert read.returncode == setting.FINE, read.stderr
    refused = setting.run(
        "convert",
        str(source),
        "s3://bucket/new/a b.tensors",
        **(access | {"AWS_SECRET_ACCESS_KEY": "another-secret"}),
    )
    assert refused.returncode == setting.ENVIRONMENT, refused.stderr
    assert b"HTTP 403" in refused.stderr, refused.stderr


def test_rclone(scratch: Path) -> None:
    root = scratch / "root" / "bucket"
    root.mkdir(parents=True)
    for part in ("valid", "invalid"):
        (root / part).mkdir()
    for case in cases():
        (root / case.parent.name / case.name).write_bytes(case.read_bytes())
    key = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with setting.serving_s3(root.parent, scratch, KEY_ID, SECRET_KEY) as endpoint:
        check_writing(root, scratch, key | {"AWS_ENDPOINT_URL_S3": endpoint})
    with setting.serving_s3(
        root.parent, scratch, KEY_ID, SECRET_KEY, sees_new_files=True
    ) as endpoint:
        access = key | {"AWS_ENDPOINT_URL_S3": endpoint}
        compare_all(root, lambda name: f"s3://bucket/{name}", access)
        for change in (
            {"AWS_SECRET_ACCESS_KEY": "another-secret"},
            {"AWS_NO_SIGN_REQUEST": "1"},
        ):
            refused = setting.run(
                "dump", "s3://bucket/model.safetensors", **(access | change)
            )
            assert refused.returncode == setting.ENVIRONMENT, refused.stderr
            assert (
                b"HTTP 40" in refused.stderr and b"secret" not in refused.stderr.lower()
            ), refused.stderr
        absent = setting.run("dump", "s3://bucket/absent", **access)
        assert (
            absent.returncode == setting.ENVIRONMENT and b"HTTP 404" in absent.stderr
        ), absent.stderr


def main() -> int:
    which = sys.argv[1]
    tests = {
        "nginx": (setting.nginx, test_nginx),
        "nginx-tls": (setting.nginx, test_nginx_tls),
        "rclone": (setting.rclone, test_rclone),
    }
    find, test = tests[which]
    if find() is None:
        print(f"skipped: {which} is not installed")
        return setting.SKIPPED
    with tempfile.TemporaryDirectory() as scratch:
        test(Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
