"""The signature of a request to S3, computed from what was received, by the description of AWS: version 4."""

from __future__ import annotations

import hashlib
import hmac
import re
import urllib.parse
from collections.abc import Mapping


def check(
    method: str,
    address: str,
    fields: Mapping[str, str],
    body: bytes,
    key_id: str,
    secret_key: str,
) -> str:
    """Returns the region. Fails with an AssertionError. address: path and query, as they were sent."""
    header = {name.lower(): " ".join(value.split()) for name, value in fields.items()}
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^,]*), ?SignedHeaders=([^,]*), ?Signature=([0-9a-f]{64})",
        header["authorization"],
    )
    assert match, header["authorization"]
    signed = match[2].split(";")
    assert signed == sorted(signed) and {
        "host",
        "x-amz-date",
        "x-amz-content-sha256",
    } <= set(signed), signed
    found_id, date, region, service, end = match[1].split("/")
    assert (found_id, service, end) == (key_id, "s3", "aws4_request"), match[1]
    path, _, query = address.partition("?")
    assert path == urllib.parse.quote(
        urllib.parse.unquote(path), safe="-._~/"
    ), "a path as S3 encodes it"
    parts = urllib.parse.parse_qsl(query, keep_blank_values=True)
    quoted = [
        f"{urllib.parse.quote(name, safe='-._~')}={urllib.parse.quote(value, safe='-._~')}"
        for name, value in parts
    ]
    canonical = "\n".join(
        [
            method,
            path,
            "&".join(sorted(quoted)),
            "".join(f"{name}:{header[name]}\n" for name in signed),
            ";".join(signed),
            header["x-amz-content-sha256"],
        ]
    )
    scope = f"{date}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{header['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + secret_key).encode()
    for part in (date, region, "s3", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert header["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
    assert hmac.compare_digest(key.hex(), match[3]), (canonical, header)
    return region
