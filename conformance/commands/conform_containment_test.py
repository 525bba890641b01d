#!/usr/bin/env python3
"""Tests of what the suite keeps a hostile adapter from: docs/containment.md names the test of each line of its table.

Each attack is an outcome of its own case, the cases around it pass, and neither a process nor a file of it is left.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import unittest
from pathlib import Path

import jsonschema
from conform_fixture import (
    CONFORM,
    HAS_READ_ONLY,
    SCHEMA,
    SOURCE,
    CorpusTest,
    conform,
)

LIBC = ctypes.CDLL(None, use_errno=True)
# The newest version of Landlock that the kernel has; -1 if it has none.
LANDLOCK = LIBC.syscall(444, None, 0, 1)

SERVES = json.dumps(
    {
        "protocol": 1,
        "name": "n",
        "version": "1",
        "commands": ["decode", "verify", "serve"],
        "reads": {"layouts": ["v1"]},
    }
)
URLS = json.dumps(
    {
        "protocol": 1,
        "name": "n",
        "version": "1",
        "commands": ["decode"],
        "reads": {"layouts": ["v1"], "shapes": ["http"]},
    }
)


def needs_landlock(version: int) -> object:
    return unittest.skipUnless(LANDLOCK >= version, f"no Landlock {version} here")


# Runs a program on a kernel that seems to lack a system call of this number: a seccomp filter refuses it.
WITHOUT_CALL = """import ctypes, os, struct, sys
number = int(sys.argv[1])
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


class ContainmentTest(CorpusTest):
    def setUp(self) -> None:
        super().setUp()
        self.temporary = self.directory / "temporary"
        self.temporary.mkdir()
        self.result = self.directory / "result.json"

    def processes(self) -> list[str]:
        """The processes that have this corpus in their command line."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes()
            except OSError:
                continue
            if str(self.corpus).encode() in words:
                found.append(words.decode())
        return found

    def attack(
        self,
        behaviour: str,
        *options: str | Path,
        case: str = "invalid",
        mode: str = "file",
        adapter: tuple[str, ...] = (),
        settings: dict[str, str] = {},
    ) -> tuple[str, str]:
        """Runs all cases, of which one attacks. Returns the outcome and what is said of this one."""
        run = conform(
            *("--corpus", self.corpus, "--json", self.result, "--jobs", "1"),
            # A busy machine takes long to reach a limit.
            *("--timeout", "60", "--shape", mode, "--adapter"),
            self.adapter("--case", f"{case}={behaviour}", *adapter),
            *options,
            env={"TMPDIR": str(self.temporary), **settings},
        )
        self.assertIn(run.returncode, (0, 1), run.stderr)
        self.text = run.stdout
        self.assertEqual(self.processes(), [], "a process is left")
        self.assertEqual(list(self.temporary.iterdir()), [], "a file is left")
        result = json.loads(self.result.read_text())
        jsonschema.validate(result, SCHEMA)
        cases = {each["id"]: each for each in result["cases"]}
        others = {id: each["outcome"] for id, each in cases.items() if id != case}
        good = {"pass", "implementation-defined", "skipped"}
        self.assertEqual(set(others.values()) - good, set(), others)
        step = cases[case]["steps"][0]
        said = f"{cases[case]['reason']}\n{step['stderr_tail']}"
        return cases[case]["outcome"], said


class Attacks(ContainmentTest):
    def test_a_grandchild_that_keeps_writing(self) -> None:
        outcome, said = self.attack("grandchild-writes-on")
        self.assertEqual(outcome, "output", said)

    def test_a_disk_that_fills_with_and_without_names(self) -> None:
        for behaviour in ("grandchild-fills-disk", "grandchild-fills-disk-unnamed"):
            outcome, said = self.attack(behaviour)
            self.assertEqual(outcome, "disk", behaviour + said)

    def test_memory_of_a_grandchild(self) -> None:
        outcome, said = self.attack("grandchild-allocates")
        self.assertEqual(outcome, "memory", said)

    def test_memory_of_many_processes(self) -> None:
        outcome, said = self.attack("processes-allocate")
        self.assertEqual(outcome, "memory", said)

    def test_memory_that_no_process_has_mapped(self) -> None:
        outcome, said = self.attack("files-in-memory")
        self.assertEqual(outcome, "memory", said)

    def test_open_files(self) -> None:
        outcome, said = self.attack("open-files")
        self.assertEqual(outcome, "crash", said)
        self.assertIn("Too many open files", said)

    def test_open_files_of_many_processes(self) -> None:
        outcome, said = self.attack("processes-open-files")
        self.assertEqual(outcome, "processes", said)
        self.assertRegex(said, r"\d+ open files .* limits 4096 and 8192")

    def test_threads(self) -> None:
        outcome, said = self.attack("start-threads", "--memory", "4GiB")
        self.assertEqual(outcome, "processes", said)

    def test_an_adapter_that_kills_its_keeper(self) -> None:
        """Where the kernel does not refuse the signals, its end is lost; the suite itself is not in its group."""
        if LANDLOCK < 6:
            self.skipTest("no scopes of Landlock: it would end the suite, too")
        outcome, said = self.attack("kill-keeper")
        self.assertEqual(outcome, "crash", said)
        self.assertIn("PermissionError", said)

    def test_limits_of_its_keeper(self) -> None:
        outcome, said = self.attack("limit-keeper")
        self.assertEqual(outcome, "crash", said)
        self.assertIn("PermissionError", said)

    def test_a_file_of_the_suite_that_it_replaces(self) -> None:
        target = self.directory / "target"
        for how in ("link", "fifo", "remove", "truncate"):
            target.write_bytes(b"x" * 100)
            outcome, said = self.attack(
                "replace-count",
                mode="short-reads",
                settings={
                    "TZMARK_ATTACK_HOW": how,
                    "TZMARK_ATTACK_TARGET": str(target),
                },
            )
            self.assertIn(outcome, ("pass", "crash", "skipped"), how + said)
            self.assertEqual(target.read_bytes(), b"x" * 100, how)

    def test_a_service_with_a_socket(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
            name = self.directory / "service"
            service.bind(str(name))
            service.settimeout(0)
            place = {"TZMARK_ATTACK_TARGET": str(name)}
            outcome, said = self.attack("send-to-service", settings=place)
            self.assertEqual(outcome, "crash", said)
            with self.assertRaises(BlockingIOError):
                service.recv(1)

    def test_loopback(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            port = {"TZMARK_ATTACK_PORT": str(server.getsockname()[1])}
            for behaviour in ("connect", "send-datagram"):
                outcome, said = self.attack(behaviour, settings=port)
                self.assertEqual(outcome, "crash", said)
                self.assertIn("PermissionError", said)
            with self.assertRaises(BlockingIOError):
                server.accept()
            outcome, said = self.attack("connect", "--allow-network", settings=port)
            self.assertEqual(outcome, "pass", said)
            self.assertIn("not contained: --allow-network: ", self.text)
            server.accept()[0].close()

    @needs_landlock(4)
    def test_a_case_of_http_leads_to_its_server_alone(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0)
            outcome, said = self.attack(
                "connect",
                mode="http",
                adapter=("--profile", URLS),
                settings={"TZMARK_ATTACK_PORT": str(server.getsockname()[1])},
            )
            self.assertEqual(outcome, "crash", said)
            self.assertIn("PermissionError", said)
            outcome, said = self.attack(
                "connect-otherwise",
                mode="http",
                adapter=("--profile", URLS),
                settings={"TZMARK_ATTACK_PORT": str(server.getsockname()[1])},
            )
            self.assertIn("4 were refused", said)
            with self.assertRaises(BlockingIOError):
                server.accept()

    def test_escape_sequences(self) -> None:
        junit, page = self.directory / "junit.xml", self.directory / "page.html"
        outcome, _ = self.attack("print-escapes", "--junit", junit, "--html", page)
        self.assertEqual(outcome, "crash")
        self.assertIn("owned", self.text)
        for report in (
            self.text,
            *(each.read_text() for each in (junit, page, self.result)),
        ):
            self.assertIsNone(re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", report))
        # Where it rejects with them, its message is shown.
        run = conform(
            *("--corpus", self.corpus, "--adapter"),
            self.adapter("--case", "invalid=print-escapes", "--profile", "{\x1b"),
        )
        self.assertEqual(run.returncode, 3)
        self.assertNotIn("\x1b", run.stdout + run.stderr)


class Restrictions(ContainmentTest):
    @needs_landlock(1)
    def test_files_elsewhere(self) -> None:
        target = self.directory / "allowed" / "target"
        target.parent.mkdir()
        place = {"TZMARK_ATTACK_TARGET": str(target)}
        profiles = (), ("--profile", SERVES)
        modes = ("file", "read-only") if HAS_READ_ONLY else ("file",)
        for adapter in profiles:
            for mode in modes:
                outcome, said = self.attack(
                    "write-elsewhere",
                    mode=mode,
                    adapter=adapter,
                    settings=place,
                )
                self.assertEqual(outcome, "crash", said)
                self.assertIn("PermissionError", said)
                self.assertFalse(target.exists())
        outcome, said = self.attack(
            *("write-elsewhere", "--allow-writes", target.parent), settings=place
        )
        self.assertEqual(outcome, "pass", said)
        self.assertIn("not contained: --allow-writes: ", self.text)
        self.assertTrue(target.exists())

    @needs_landlock(1)
    def test_files_next_to_its_own(self) -> None:
        for behaviour in ("write-next-to-temporary", "write-shared-memory"):
            outcome, said = self.attack(behaviour)
            self.assertEqual(outcome, "crash", said)
            self.assertIn("PermissionError", said)

    def test_what_would_stay_in_the_kernel(self) -> None:
        segment = LIBC.shmget(0, 4096, 0o1600)
        self.addCleanup(LIBC.shmctl, segment, 0, None)
        settings = {"TZMARK_ATTACK_SEGMENT": str(segment)}
        for behaviour in ("make-segment", "remove-segment", "use-ring"):
            outcome, said = self.attack(behaviour, settings=settings)
            self.assertEqual(outcome, "crash", said)
            self.assertIn("PermissionError", said)

    def test_what_it_has(self) -> None:
        settings = {"SOME_TOKEN": "secret", "LC_TIME": "C", "SSH_AUTH_SOCK": "/agent"}
        inherited, other = os.pipe()
        self.addCleanup(os.close, inherited)
        self.addCleanup(os.close, other)
        os.set_inheritable(inherited, True)
        command = [CONFORM, "--corpus", self.corpus, "--json", self.result]
        command += ["--adapter", self.adapter("--case", "invalid=list")]
        subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **settings},
            pass_fds=[inherited],
        )
        cases = json.loads(self.result.read_text())["cases"]
        step = next(case for case in cases if case["id"] == "invalid")["steps"][0]
        said = step["stderr_tail"].splitlines()
        names = {line.split()[1] for line in said if line.startswith("variable")}
        self.assertLessEqual({"PATH", "LC_TIME", "TMPDIR", "no_proxy"}, names)
        self.assertFalse({"SOME_TOKEN", "SSH_AUTH_SOCK"} & names)
        descriptors = [
            line.split()[1] for line in said if line.startswith("descriptor")
        ]
        self.assertEqual(descriptors, ["0", "1", "2"])
        self.assertNotIn("terminal", said)
        self.assertIn("session of the keeper: True", said)
        self.assertIn("group of its own: True", said)
        self.assertIn("NoNewPrivs:\t1", said)
        self.assertIn("Seccomp:\t2", said)
        effective = next(line for line in said if line.startswith("CapEff"))
        # Over files, and over memory that stays resident.
        self.assertEqual(int(effective.split()[1], 16) & ~0x401F, 0, effective)

    def test_a_kernel_that_lacks_something(self) -> None:
        """The report says so, and the run goes on."""
        target = self.directory / "target"
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_CALL, "444", CONFORM]
            + ["--corpus", self.corpus, "--json", self.result, "--shape", "file"]
            + ["--adapter", self.adapter("--case", "invalid=write-elsewhere")],
            capture_output=True,
            text=True,
            env={**os.environ, "TZMARK_ATTACK_TARGET": str(target)},
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("not contained: this kernel has no Landlock: ", run.stdout)
        self.assertTrue(target.exists())
        gaps = json.loads(self.result.read_text())["adapter"]["containment_gaps"]
        self.assertEqual(len(gaps), 2)
        if LANDLOCK >= 6:
            outcome, _ = self.attack("reject")
            self.assertEqual(outcome, "pass")
            self.assertNotIn("not contained", self.text)

    def test_the_command_that_repeats_a_finding_permits_the_same(self) -> None:
        findings = self.directory / "findings"
        run = conform(
            *("against", "--corpus", self.corpus, "--findings", findings),
            *("--allow-writes", self.corpus, "--allow-network", "--only", "valid"),
            *("--adapter", self.adapter()),
            *("--with", self.adapter("--case", "valid=reject")),
            *("--minimize-time", "1"),
        )
        self.assertEqual(run.returncode, 1, run.stderr)
        text = next(findings.glob("*.finding.json")).read_text()
        permits = shlex.join(["--allow-writes", str(self.corpus), "--allow-network"])
        self.assertIn(permits, text)

    def test_no_core_is_dumped(self) -> None:
        """Neither to a file nor, with this limit, to a program of the system."""
        outcome, said = self.attack("print-limits")
        self.assertEqual(outcome, "crash", said)
        self.assertRegex(said, r"core \([01], [01]\)")
        self.assertRegex(said, r"files \(\d+, (\d{1,3}|[1-3]\d{3}|40\d\d)\)")

    def test_each_line_of_the_table_has_its_test(self) -> None:
        page = (SOURCE / "docs/containment.md").read_text()
        rows = re.findall(r"^\|.*\|.*\| (`.*`) \|$", page, re.MULTILINE)
        self.assertGreater(len(rows), 20)
        cpp = (SOURCE / "conformance/runner/process_test.cc").read_text()
        for name in re.findall(r"`(\w+)`", " ".join(rows)):
            here = any(hasattr(each, name) for each in (Attacks, Restrictions))
            self.assertTrue(here or f"TEST_F(ProcessTest, {name})" in cpp, name)

    def test_a_place_that_does_not_exist(self) -> None:
        run = self.run_on_corpus("--allow-writes", "/nonexistent/place")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--allow-writes /nonexistent/place: No such file", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
