"""Looks at the files that a writer wrote wrongly: how they begin, and whether the reference library reads them.

usage: python3 -m readers.written RESULT.json --kept DIR --tzmark PROGRAM -o WRITTEN.json

RESULT.json is that of a run with "tzmark conform --keep DIR". WRITTEN.json has, by case, the beginning of the header
and whether "tzmark verify --safetensors-profile library" accepts the file.

Exit status: 0 success, 2 wrong usage, 3 a file cannot be read or has the wrong content, or tzmark fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from common import output_file, results
from common.outcomes import Json

FILE = "out.safetensors"
# More than a line of the page shows.
HEADER_BYTES_MAX = 200
# The exit statuses of tzmark verify for a file that it accepts and one that it refuses.
VERDICTS = {0: True, 1: False}


def looked_at(file: Path, tzmark: Path) -> Json:
    command = [tzmark, "verify", "--safetensors-profile", "library", file]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode not in VERDICTS:
        raise results.NotAResult(f"{file}: tzmark verify: {ran.stderr.strip()}")
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = opened.read(min(length, HEADER_BYTES_MAX))
    return {
        "header": header.decode(errors="replace").rstrip(),
        "library_accepts": VERDICTS[ran.returncode],
    }


def written_of(result: Json, kept: Path, tzmark: Path) -> Json:
    """Returns what is to say about each file of a failed case, if one was written."""
    return {
        case["id"]: looked_at(kept / case["id"] / FILE, tzmark)
        for case in result["cases"]
        if case.get("operation") == "encode"
        and case["outcome"] in ("wrong-data", "accepted-invalid")
        and (kept / case["id"] / FILE).exists()
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="readers.written", description=__doc__.splitlines()[0]
    )
    parser.add_argument("result", type=Path)
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--tzmark", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        result = results.read(options.result, (results.CONFORMANCE,))
        document = written_of(result, options.kept, options.tzmark)
        output_file.write(options.out, results.dump(document))
    except (OSError, results.NotAResult) as error:
        print(f"written: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
