#!/usr/bin/env python3
"""Runs tzmark tune with short budgets and checks its documents, files and errors, never its rates."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path
from typing import Any

import jsonschema

SOURCE = Path(os.environ["TZMARK_SOURCE_DIR"])
TZMARK = Path(os.environ["TZMARK_BUILD_DIR"]) / "bin" / "tzmark"
SCHEMA = json.loads((SOURCE / "reports/schema/tune.schema.json").read_text())
LITTLE = ("--workload", "mixed", "--scale", "2MiB")


def is_tmpfs(directory: Path) -> bool:
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", directory], capture_output=True, text=True
    )
    return done.stdout.strip() == "tmpfs"


class TuneTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="tzmark-test-")
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.directory = self.scratch / "storage"
        self.directory.mkdir()
        self.result = self.scratch / "result.json"

    def run_tune(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TZMARK, "tune", *arguments], capture_output=True, text=True, timeout=600
        )

    def tune(
        self, *arguments: str | Path, status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = self.run_tune(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def tune_to_an_answer(self, *arguments: str | Path, status: int = 0) -> str:
        """What is printed by all tries, the last with the time that a busy machine needs to find an answer."""
        printed = ""
        for budget_s in (3, 12, 48, 192):
            done = self.run_tune(*arguments, "--budget", f"{budget_s}s")
            printed += done.stdout
            if "the budget is too short" not in done.stdout + done.stderr:
                break
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return printed

    def read_document(self) -> dict[str, Any]:
        document = json.loads(self.result.read_text())
        jsonschema.validate(document, SCHEMA)
        self.assertEqual(os.listdir(self.directory), [])
        return document

    def start(
        self, *arguments: str | Path, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [TZMARK, "tune", self.directory, "--progress", "--json", self.result]
            + list(arguments),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.kill)
        return process

    def wait_for(self, process: subprocess.Popen[str], word: str) -> None:
        assert process.stderr is not None
        seen = ""
        while word not in seen:
            character = process.stderr.read(1)
            self.assertTrue(character, seen)
            seen += character

    def document(self, *arguments: str | Path) -> dict[str, Any]:
        self.tune(self.directory, "--json", self.result, *arguments)
        return self.read_document()

    def refused(self, status: int, *arguments: str | Path) -> str:
        """Runs a command that fails at once, and returns its one line."""
        done = self.tune(*arguments, status=status)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr


class Answers(TuneTest):
    def test_tunes_loads_and_saves(self) -> None:
        document = self.document("--budget", "8s", *LITTLE, "--io", "pwrite,mmap")
        tasks = {task["task"]: task for task in document["tasks"]}
        cold = [] if is_tmpfs(self.directory) else ["load-cold"]
        self.assertEqual(list(tasks), ["load-warm", *cold, "save"])
        self.assertEqual(document["workload"]["name"], "mixed")
        for name, task in tasks.items():
            settings = task["settings"]
            self.assertIsNotNone(task["default"], name)
            self.assertEqual(
                {setting["io"] for setting in settings} - {"pwrite", "mmap"},
                {settings[task["default"]]["io"]} - {"pwrite", "mmap"},
            )
            for setting in settings:
                self.assertEqual(
                    setting["bytes_in_flight_bytes"],
                    setting["block_bytes"] * setting["queue_depth"],
                )
                self.assertTrue(all(rate > 0 for rate in setting["samples"]))
            if task["recommended"] is not None:
                exported = {
                    one["name"] for one in document["exports"] if one["task"] == name
                }
                self.assertIn("fio", exported)

    def test_the_time_stays_within_the_budget(self) -> None:
        begin = time.monotonic()
        document = self.document("--budget", "4s", *LITTLE, "--goal", "load")
        # A machine that does other things may take twice as long as it should, but not without an end.
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(document["budget_s"], 4)

    def test_goal_and_cache_choose_the_tasks(self) -> None:
        for arguments, tasks in (
            (("--goal", "save"), ["save"]),
            (("--goal", "load", "--cache", "warm"), ["load-warm"]),
        ):
            document = self.document("--budget", "2s", *LITTLE, *arguments)
            self.assertEqual([task["task"] for task in document["tasks"]], tasks)

    def test_limits_the_bytes_in_flight(self) -> None:
        document = self.document(
            *("--budget", "3s", *LITTLE, "--goal", "load", "--cache", "warm"),
            *("--memory-limit", "1MiB"),
        )
        task = document["tasks"][0]
        for index, setting in enumerate(task["settings"]):
            if index != task["default"]:
                self.assertLessEqual(setting["bytes_in_flight_bytes"], 1 << 20)

    def fake_gpu(self) -> dict[str, str]:
        """Returns the environment that makes this machine appear to have a GPU, without GPUDirect."""
        fakes = Path(os.environ["TZMARK_BUILD_DIR"]) / "tests/fake"
        library = fakes / "libtzmark_fake_cuda.so"
        return {"TZMARK_CUDA_LIBRARY": str(library)}

    def test_tunes_loads_into_gpu_memory(self) -> None:
        with unittest.mock.patch.dict(os.environ, self.fake_gpu()):
            printed = self.tune_to_an_answer(
                *(self.directory, *LITTLE, "--goal", "load", "--cache", "warm"),
                *("--memory", "device", "--io", "pwrite", "--json", self.result),
            )
        document = self.read_document()
        self.assertEqual(document["memory"], "device")
        (task,) = document["tasks"]
        self.assertEqual({s["pages"] for s in task["settings"]}, {"huge"})
        rates = {one["name"] for one in task["ceiling"]["measured"]}
        self.assertIn("pinned copy to the GPU", rates)
        # Copies of 8 MiB, less the room for their alignment.
        default = task["settings"][task["default"]]
        self.assertEqual(default["block_bytes"], (8 << 20) - (8 << 10))
        self.assertIn("load-warm", printed)

    def test_gpu_memory_needs_a_gpu_and_loads(self) -> None:
        nowhere = {"TZMARK_CUDA_LIBRARY": "/nowhere/libcuda.so"}
        device = (self.directory, *LITTLE, "--memory", "device")
        with unittest.mock.patch.dict(os.environ, nowhere):
            refused = self.tune(*device, "--goal", "load", status=4).stderr
            self.assertRegex(refused, "TZE-AVL-001.*there is no CUDA driver")
            for goal in ("save", "both"):
                refused = self.tune(*device, "--goal", goal, status=2).stderr
                self.assertIn("--memory device needs --goal load", refused)

    def test_verifies_hashes(self) -> None:
        for hashes in ("crc32", "both"):
            self.document(
                *("--budget", "2s", *LITTLE, "--cache", "warm", "--verify", hashes)
            )

    def test_predicts_workloads(self) -> None:
        document = self.document(
            *("--budget", "12s", *LITTLE, "--goal", "load", "--cache", "warm"),
            *("--predict", "llama-3.1-8b,many-tiny/64MiB"),
        )
        model = document["model"]
        self.assertIsNotNone(model, document["warnings"])
        self.assertEqual(
            [(one["workload"], one["task"]) for one in model["predictions"]],
            [("llama-3.1-8b", "load-warm"), ("many-tiny/64MiB", "load-warm")],
        )
        self.assertGreater(model["predictions"][0]["bytes"], 10**10)
        for one in model["predictions"]:
            self.assertLessEqual(one["low"], one["seconds"])
            self.assertLessEqual(one["seconds"], one["high"])

    def test_says_which_predictions_mean_nothing(self) -> None:
        document = self.document(
            *("--budget", "6s", *LITTLE, "--goal", "load", "--cache", "warm"),
            *("--predict", "one-huge/1000TiB"),
        )
        warnings = " ".join(document["warnings"])
        self.assertRegex(warnings, "one-huge/1000TiB has .* more than the .* of memory")
        predictions = (document["model"] or {"predictions": []})["predictions"]
        for one in predictions:
            if one["high"] > 2 * one["seconds"]:
                self.assertIn(
                    "the prediction of one-huge/1000TiB tells nothing", warnings
                )

    def test_sustains(self) -> None:
        document = self.document(
            *("--budget", "2s", *LITTLE, "--goal", "load", "--cache", "warm"),
            *("--sustain", "3s"),
        )
        task = document["tasks"][0]
        if task["recommended"] is None:
            self.skipTest("the budget was too short on this machine")
        self.assertEqual(task["sustained"]["verdict"], "too short")
        self.assertGreaterEqual(task["sustained"]["duration_s"], 2.5)

    def test_shows_progress_only_if_asked(self) -> None:
        arguments = (self.directory, "--budget", "2s", *LITTLE, "--goal", "save")
        self.assertEqual(self.tune(*arguments).stderr, "")
        self.assertIn("s left", self.tune(*arguments, "--progress").stderr)


class Exports(TuneTest):
    def test_writes_files_and_keeps_those_of_others(self) -> None:
        to = self.scratch / "exports"
        arguments = (
            *(self.directory, *LITTLE, "--goal", "load"),
            *("--cache", "warm", "--export-dir", to),
        )
        first = self.tune_to_an_answer(*arguments)
        names = sorted(p for p in to.rglob("*") if p.is_file())
        self.assertTrue(names, first)
        for name in names:
            self.assertIn(f"wrote {name}", first)
        names[0].write_text("mine")
        second = self.tune_to_an_answer(*arguments)
        self.assertIn(f"kept {names[0]}", second)
        self.assertEqual(names[0].read_text(), "mine")
        self.tune_to_an_answer(*arguments, "--force")
        self.assertNotEqual(names[0].read_text(), "mine")

    def test_one_that_cannot_be_written_does_not_lose_the_result(self) -> None:
        to = self.scratch / "exports"
        to.mkdir()
        (to / "load-warm").write_text("not a directory")
        self.tune_to_an_answer(
            *(self.directory, "--json", self.result, "--export-dir", to),
            *(*LITTLE, "--goal", "load", "--cache", "warm"),
            status=3,
        )
        self.assertTrue(self.read_document()["exports"])

    def test_profile_is_one_that_commands_take(self) -> None:
        self.tune_to_an_answer(
            *(self.directory, "--json", self.result),
            *(*LITTLE, "--goal", "load", "--cache", "warm"),
        )
        document = self.read_document()
        profile = self.scratch / "profile.json"
        [text] = [x["text"] for x in document["exports"] if x["name"] == "tzmark"]
        profile.write_text(text)
        model = SOURCE / "corpus/valid/dtype-bool.tensors"
        subprocess.run(
            [TZMARK, "verify", "--profile", profile, model],
            check=True,
            capture_output=True,
        )


class Signals(TuneTest):
    def test_the_first_keeps_what_was_measured(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--budget", "120s", *LITTLE, "--cache", "warm")
            self.wait_for(process, "search")
            process.send_signal(number)
            out, _ = process.communicate(timeout=120)
            self.assertEqual(process.returncode, -number)
            self.assertIn("interrupted", out)
            document = self.read_document()
            self.assertFalse(document["is_complete"])
            self.assertIn("interrupted", " ".join(document["warnings"]))
            self.result.unlink()

    def test_timeout_signals_twice_and_ends_it_once(self) -> None:
        command = [
            TZMARK,
            "tune",
            self.directory,
            "--budget",
            "120s",
            "--json",
            self.result,
            *LITTLE,
        ]
        ended = subprocess.run(
            ["timeout", "10", *command], stdout=subprocess.PIPE, text=True, check=False
        )
        self.assertEqual(ended.returncode, 124)
        self.assertIn("interrupted", ended.stdout)
        self.assertFalse(self.read_document()["is_complete"])

    def test_the_second_ends_at_once(self) -> None:
        # No process reads its summary, so that the first signal does not end it.
        unread, full = os.pipe()
        self.addCleanup(os.close, unread)
        os.set_blocking(full, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, bytes(1 << 16))
        os.set_blocking(full, True)
        process = self.start("--budget", "120s", *LITTLE, stdout=full)
        os.close(full)
        self.wait_for(process, "search")
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        if process.stderr is not None:
            process.stderr.close()
        self.assertEqual(os.listdir(self.directory), [])
        self.assertEqual(os.listdir(self.scratch), ["storage"])


class Refusals(TuneTest):
    def test_usage(self) -> None:
        for arguments in (
            ("",),
            (self.directory, "--io", "nothing"),
            (self.directory, "--workload", "nothing"),
            (self.directory, "--predict", "nothing"),
            (self.directory, "--predict", "gpt2/many"),
            (self.directory, "--goal", "nothing"),
            (self.directory, "--budget", "0s"),
            (self.directory, "--budget", ""),
            (self.directory, "--io", ""),
            (self.directory, "--predict", ""),
            (self.directory, "--json", ""),
            (self.directory, "--export-dir", ""),
            (self.directory, "--workload", ""),
            (),
        ):
            with self.subTest(arguments=arguments):
                self.refused(2, *arguments)

    def test_makes_a_missing_directory(self) -> None:
        made = self.scratch / "not" / "there"
        self.tune(made, "--budget", "1s", *LITTLE, "--goal", "save")
        self.assertEqual(os.listdir(made), [])

    def test_no_directory(self) -> None:
        file = self.scratch / "file"
        file.touch()
        self.assertIn("not a directory", self.refused(3, file))
        refused = self.refused(3, file / "below")
        self.assertRegex(refused, "cannot make the directory .*Not a directory")

    def test_a_path_that_is_not_there(self) -> None:
        message = self.refused(4, self.directory, *LITTLE, "--io", "gpudirect")
        self.assertIn("gpudirect", message)

    def test_an_unwritable_result_fails_before_the_measurement(self) -> None:
        self.refused(3, self.directory, "--json", self.scratch / "none" / "x.json")
        file = self.scratch / "file"
        file.touch()
        self.refused(3, self.directory, "--export-dir", file)

    def test_a_name_that_no_export_can_hold(self) -> None:
        odd = self.scratch / "a\nb"
        odd.mkdir()
        begin = time.monotonic()
        done = self.tune(odd, "--budget", "60s", *LITTLE, status=2)
        self.assertLess(time.monotonic() - begin, 20, "nothing was measured before")
        self.assertIn("control characters", done.stderr)

    def test_more_than_fits(self) -> None:
        message = self.refused(3, self.directory, "--scale", "512GiB")
        self.assertIn("free", message)


class Mounts(TuneTest):
    def mount(self, *options: str) -> None:
        if os.geteuid() != 0:
            self.skipTest("mounting needs root")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", *options, "tmpfs", self.directory],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            self.skipTest(f"this machine mounts no tmpfs: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.directory], check=True)

    def test_tmpfs_has_no_cold_loads(self) -> None:
        self.mount("-o", "size=256m")
        document = self.document("--budget", "3s", *LITTLE)
        self.assertEqual(
            [task["task"] for task in document["tasks"]], ["load-warm", "save"]
        )
        self.assertRegex(" ".join(document["warnings"]), "tmpfs.*memory")
        message = self.refused(4, self.directory, *LITTLE, "--cache", "cold")
        self.assertIn("tmpfs", message)

    def test_a_full_disk(self) -> None:
        self.mount("-o", "size=8m")
        message = self.refused(3, self.directory, "--budget", "3s")
        self.assertRegex(message, "free|space")
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_search_of_saves_fits_into_the_room_that_is_asked_for(self) -> None:
        self.mount("-o", "size=32m")
        document = self.document("--budget", "10s", *LITTLE, "--goal", "save")
        settings = document["tasks"][0]["settings"]
        self.assertGreater(len(settings), 16, "as many files would not have fitted")

    def test_a_read_only_directory(self) -> None:
        self.mount("-o", "size=8m,ro")
        self.assertIn("ead-only", self.refused(3, self.directory, "--budget", "3s"))

    def test_one_that_becomes_read_only_does_not_lose_the_result(self) -> None:
        self.mount("-o", "size=256m")
        process = self.start("--budget", "8s", *LITTLE, stdout=subprocess.DEVNULL)
        self.wait_for(process, "save: search")
        # Refused while a file is open for writing.
        while (
            process.poll() is None
            and subprocess.run(
                ["mount", "-o", "remount,ro", self.directory], capture_output=True
            ).returncode
        ):
            pass
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("ead-only", errors)
        document = json.loads(self.result.read_text())
        self.assertEqual(document["tasks"][0]["task"], "load-warm")
        self.assertIsNotNone(document["tasks"][0]["recommended"])
        self.assertRegex(" ".join(document["warnings"]), "ead-only")

    def test_a_disk_that_becomes_full(self) -> None:
        self.mount("-o", "size=96m")
        process = self.start(
            *("--budget", "60s", *LITTLE, "--goal", "save"), stdout=subprocess.DEVNULL
        )
        self.wait_for(process, "search")
        filler = self.directory / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn("No space left on device", errors)
        self.assertEqual(os.listdir(self.directory), ["filler"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
