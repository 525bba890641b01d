"""Simulated training runs as the crash tests start them, and the checkpoints that they leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulated import check_content
from subject import FINE, Ended, require

SAME_NAME = "--same-name"
DURABLE = re.compile(r"/(?:step-\d+|last): durable", re.MULTILINE)
RESUMED = re.compile(r"^resumed from the checkpoint of step (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Simulations:
    """The runs in one directory. All of them have the same options but for the step that they end at."""

    program: Path
    directory: Path
    options: tuple[str, ...]
    launcher: tuple[str, ...] = ()

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step is, or comes."""
        same = SAME_NAME in self.options
        return self.directory / ("last" if same else f"step-{step:08}")

    def durable_step(self, begin: int, output: str) -> int:
        """The newest step that a run from step begin, at which there is a checkpoint, has called durable."""
        interval = int(self.options[self.options.index("--interval") + 1])
        return begin + interval * len(DURABLE.findall(output))

    def words(self, steps: int) -> list[str]:
        return [
            *self.launcher,
            *(str(self.program), "checkpoint", "simulate", str(self.directory)),
            *("--steps", str(steps), *self.options),
        ]

    def start(self, steps: int, output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as file:
            return subprocess.Popen(
                self.words(steps), stdout=file, stderr=subprocess.DEVNULL
            )

    def run(self, steps: int, **variables: str | int | Path) -> Ended:
        """One run to its end, with the variables in its environment."""
        added = {name: str(value) for name, value in variables.items()}
        done = subprocess.run(
            self.words(steps), capture_output=True, env={**os.environ, **added}
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def command(self, name: str, *arguments: str | Path) -> Ended:
        """Another command of tzmark checkpoint."""
        done = subprocess.run(
            [str(self.program), "checkpoint", name, *map(str, arguments)],
            capture_output=True,
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    def listed(self) -> list[dict[str, Any]]:
        ended = self.command("list", self.directory, "--json")
        require(ended.status == FINE, f"list exits {ended.status}: {ended.errors}")
        checkpoints: list[dict[str, Any]] = json.loads(ended.output)["checkpoints"]
        return checkpoints

    def temporary(self) -> list[str]:
        """What saves that died have left."""
        return [
            entry["directory"]
            for entry in self.listed()
            if entry["status"] == "temporary"
        ]

    def verify(self, directory: Path) -> None:
        ended = self.command("verify", directory)
        require(ended.status == FINE, f"verify exits {ended.status}: {ended.errors}")

    def check_committed(self) -> list[int]:
        """Every committed checkpoint is whole and has the content of its step; returns the steps."""
        steps = []
        for entry in self.listed():
            require(
                entry["status"] != "uncommitted",
                f"{entry['directory']}: {entry.get('problem')}",
            )
            if entry["status"] == "committed":
                checkpoint = Path(entry["directory"])
                require(
                    checkpoint == self.checkpoint(entry["step"]),
                    f"{checkpoint.name} is of step {entry['step']}",
                )
                self.verify(checkpoint)
                if entry["world_size"] == 0:
                    check_content(checkpoint, entry["step"])
                steps.append(entry["step"])
        if steps:
            self.verify(self.directory)
        return steps

    def check_restart(self, newest: int) -> None:
        """The next start goes on from the newest checkpoint, and nothing stale stays."""
        ended = self.run(newest)
        require(
            ended.status == FINE, f"the next run exits {ended.status}: {ended.errors}"
        )
        resumed = RESUMED.search(ended.errors)
        require(
            (int(resumed[1]) if resumed else 0) == newest,
            f"the next run goes on from {resumed and resumed[1]} and not from {newest}",
        )
        left = self.temporary()
        require(not left, f"the next run leaves {left}")
