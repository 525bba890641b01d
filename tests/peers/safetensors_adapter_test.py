"""The safetensors library passes every case of reference/safetensors but the known failures, asked through its adapter.
Run with the Python of an environment that has the library.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = ROOT / "conformance" / "adapters" / "safetensors-python" / "adapter.py"
CASES = ROOT / "reference" / "safetensors" / "cases"
KNOWN = Path(__file__).with_name("safetensors_known.json")
# What the library cannot be asked to write: a name twice in its dict, names that are no text, and tensors without data.
NOT_ASKED = {
    f"encode-st-refused-{name}"
    for name in (
        *("meta", "meta-among-others", "name-twice", "name-twice-last"),
        *("path-two", "path-position", "path-position-last"),
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tzmark-conform", required=True)
    conform = parser.parse_args().tzmark_conform
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result.json"
        status = subprocess.run(
            [
                conform,
                "--adapter=" + shlex.join([sys.executable, "-B", str(ADAPTER)]),
                f"--corpus={CASES}",
                f"--known={KNOWN}",
                f"--json={result}",
            ]
        ).returncode
        cases = json.loads(result.read_text())["cases"]
    # A case that is skipped was not asked. The library has no part in models of several files.
    skipped = {
        case["id"]
        for case in cases
        if case["outcome"] == "skipped" and case["layout"] == "safetensors"
    }
    if skipped != NOT_ASKED:
        print(f"unexpectedly skipped, or not skipped: {skipped ^ NOT_ASKED}")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
