"""Collective calls, exchanges and predictions, against examples worked by hand; and the command line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path

from cluster import collectives, exchange
from cluster.collectives import EAGER_BYTES
from cluster.measured import PATTERNS, Costs
from cluster.network import Cluster
from cluster.prediction import predict
from common.outcomes import Json

PREDICT = Path(__file__).resolve().parents[2] / "scripts/cluster/predict"
MIB = 1 << 20
RATE = float(MIB)  # one MiB takes one second
COSTS = Costs(
    unique_bytes=16 * MIB,
    open_s=0.5,
    rate_bytes_per_s=4 * RATE,
    transfer_bytes=8 * MIB,
    depth=16,
    connections=16,
    is_cached=False,
    replicated_share=0.0,
)


def cluster_of(ranks: int, per_host: int = 1, host_rate: float = RATE) -> Cluster:
    return Cluster(ranks, per_host, host_rate)


def last_s(pattern: str, cluster: Cluster, costs: Costs = COSTS) -> float:
    return predict(pattern, cluster, costs).last_s


class Collectives(unittest.TestCase):
    def received(self, steps: list[collectives.Step]) -> Counter[int]:
        counts = Counter[int]()
        for step in steps:
            for _, receiver in step.pairs.ranks:
                counts[receiver] += step.times * step.size_bytes
        return counts

    def test_allgather_brings_every_part_to_every_rank_once(self) -> None:
        for ranks in (2, 3, 4, 6, 8, 33, 64, 100, 2048, 10_000):
            for takes_turns in (True, False):
                for part in (MIB, 1000):
                    steps = list(collectives.allgather(ranks, part, takes_turns))
                    expected = dict.fromkeys(range(ranks), (ranks - 1) * part)
                    self.assertEqual(self.received(steps), expected, ranks)

    def test_long_parts_go_around_and_no_two_ranks_take_turns(self) -> None:
        for ranks in (3, 8, 100):
            (step,) = collectives.allgather(ranks, MIB, True)
            self.assertEqual(step.times, ranks - 1)
            pairs = set(step.pairs.ranks)
            self.assertFalse(pairs & {(b, a) for a, b in pairs})

    def test_a_tree_brings_the_message_to_every_rank_once(self) -> None:
        for ranks, size in ((2, 8 * MIB), (20, 1000), (129, 8 * MIB), (1000, 8 * MIB)):
            steps = list(collectives.broadcast(ranks, size, True))
            expected = dict.fromkeys(range(1, ranks), size)
            self.assertEqual(self.received(steps), expected, ranks)
            has = {0}
            for step in steps:
                self.assertLessEqual({a for a, _ in step.pairs.ranks}, has)
                has |= {b for _, b in step.pairs.ranks}

    def test_parts_are_scattered_and_gathered(self) -> None:
        for ranks in (3, 8, 100, 128, 1024, 4096):
            size = ranks * (MIB if ranks < 1000 else 8192)
            got = self.received(list(collectives.broadcast(ranks, size, True)))
            # What rank 0 scatters is received again by all in the gathering.
            for rank in range(ranks):
                self.assertGreaterEqual(got[rank], size - size // ranks)
                self.assertLessEqual(got[rank], 2 * size)

    def test_pairs_take_turns_over_tcp(self) -> None:
        both, first, second = collectives.allgather(2, MIB, True)
        self.assertEqual((len(both.pairs.ranks), both.size_bytes), (2, EAGER_BYTES))
        for turn in (first, second):
            self.assertEqual(len(turn.pairs.ranks), 1)
            self.assertEqual(turn.size_bytes, MIB - EAGER_BYTES)
        self.assertEqual(
            {first.pairs.ranks[0], second.pairs.ranks[0]}, {(0, 1), (1, 0)}
        )
        (alone,) = collectives.allgather(2, MIB, False)
        self.assertEqual((len(alone.pairs.ranks), alone.size_bytes), (2, MIB))


class Exchanges(unittest.TestCase):
    def run_broadcast(self, depth: int, **more: float) -> float:
        cluster = replace(cluster_of(2), **more)
        reading = exchange.Reading(depth, 8 * MIB, depth)
        rounds = exchange.broadcast_rounds(cluster, 16 * MIB)
        return exchange.Exchange(cluster, reading, [0], rounds).run().elapsed_s

    def test_a_last_round_with_a_chunk_of_each_rank_is_gathered(self) -> None:
        chunk = exchange.CHUNK_BYTES
        for ranks in (4, 8):
            cluster = cluster_of(ranks)
            whole = exchange.gather_rounds(cluster, 9 * ranks * chunk)
            self.assertEqual(
                exchange.gather_rounds(cluster, 9 * ranks * chunk - 4096), whole
            )
            less = exchange.gather_rounds(cluster, (9 * ranks - 1) * chunk)
            self.assertEqual(less[:-1], whole[:-1])
            self.assertGreater(len(less[-1].steps), len(whole[-1].steps))

    def test_chunks_that_are_read_together_arrive_together(self) -> None:
        report_s = exchange.REPORT_BYTES / MIB
        self.assertAlmostEqual(self.run_broadcast(16), 16 + 2 * (8 + report_s))

    def test_reading_goes_on_while_a_chunk_is_sent(self) -> None:
        report_s = exchange.REPORT_BYTES / MIB
        self.assertAlmostEqual(self.run_broadcast(1), 8 + 2 * (8 + report_s))

    def test_a_long_message_has_three_latencies(self) -> None:
        more_s = self.run_broadcast(1, latency_s=0.25) - self.run_broadcast(1)
        self.assertAlmostEqual(more_s, 2 * 3 * 0.25)

    def test_gather_reads_a_share_and_receives_the_rest(self) -> None:
        """Full duplex, so that each link carries the file once; the first chunks are awaited."""
        cluster = replace(cluster_of(2), takes_turns=False)
        pages_s = 8 * exchange.PAGE_BYTES / MIB
        expected = COSTS.open_s + 8 + 8 + pages_s
        self.assertAlmostEqual(last_s("gather", cluster), expected)

    def test_ranks_of_a_host_exchange_in_its_memory(self) -> None:
        self.assertAlmostEqual(last_s("gather", cluster_of(4, 4)), 0.5 + 16)

    def test_chunks_to_gather(self) -> None:
        for ranks, file_bytes, expected in (
            (2, 32 * MIB, 2 * MIB),
            (2, 1 << 40, 8 * MIB),
            (64, 1 << 40, 2 * MIB),
            (10_000, 1 << 40, 128 << 10),
        ):
            self.assertEqual(exchange.gather_chunk_bytes(file_bytes, ranks), expected)

    def test_memory_bounds_what_is_read_ahead(self) -> None:
        """31 chunks of 8 MiB fit; where storage is much faster, reading ends with sending, not long before it."""
        cluster = replace(cluster_of(2, host_rate=8 * RATE), rank_rate_bytes_per_s=1e12)
        reading = exchange.Reading(64, 8 * MIB, 64)
        rounds = exchange.broadcast_rounds(cluster, 64 * 8 * MIB)
        run = exchange.Exchange(cluster, reading, [0], rounds).run()
        # 31 chunks come together at first; of what comes later, each waits for one that is sent.
        self.assertAlmostEqual(run.elapsed_s, 31 + 64, delta=0.1)


class Predictions(unittest.TestCase):
    def test_one_rank_reads_as_measured(self) -> None:
        cluster = cluster_of(1, host_rate=100 * RATE)
        found = predict("same", cluster, COSTS)
        self.assertAlmostEqual(found.last_s, 0.5 + 4)
        self.assertEqual(found.bottleneck, "one rank")

    def test_servers_are_shared(self) -> None:
        cluster = replace(cluster_of(8), servers=2, server_rate_bytes_per_s=RATE)
        found = predict("same", cluster, COSTS)
        self.assertAlmostEqual(found.last_s, 0.5 + 16 * 8 / 2)
        self.assertEqual(found.bottleneck, "server link")
        self.assertAlmostEqual(found.rate_bytes_per_s, 8 * 16 * MIB / found.last_s)
        stored = replace(cluster, storage_rate_bytes_per_s=RATE / 2)
        self.assertEqual(predict("rotated", stored, COSTS).bottleneck, "storage")
        fabric = replace(cluster, fabric_rate_bytes_per_s=RATE)
        self.assertEqual(predict("rotated", fabric, COSTS).bottleneck, "fabric")

    def test_shards_and_slices(self) -> None:
        self.assertAlmostEqual(last_s("sharded", cluster_of(4)), 0.5 + 16 / 4)
        self.assertAlmostEqual(last_s("sliced", cluster_of(4)), 0.5 + 16 / 4)
        partly = replace(COSTS, replicated_share=0.5)
        self.assertAlmostEqual(last_s("sliced", cluster_of(4), partly), 0.5 + 8 + 2)

    def test_a_page_cache_is_filled_once(self) -> None:
        cluster = cluster_of(8, 4)
        self.assertAlmostEqual(last_s("same", cluster), 0.5 + 4 * 16)
        cached = replace(COSTS, is_cached=True)
        self.assertAlmostEqual(last_s("same", cluster, cached), 0.5 + 16)
        self.assertAlmostEqual(last_s("sharded", cluster, cached), 0.5 + 4 * 2)

    def test_faster_links_never_take_longer(self) -> None:
        for pattern in PATTERNS:
            for ranks in (2, 6, 16):
                cluster = replace(cluster_of(ranks, 2), server_rate_bytes_per_s=RATE)
                before_s = last_s(pattern, cluster)
                for faster in (
                    replace(cluster, host_rate_bytes_per_s=2 * RATE),
                    replace(cluster, server_rate_bytes_per_s=2 * RATE),
                    replace(cluster, servers=4),
                    replace(cluster, takes_turns=False),
                ):
                    self.assertLessEqual(last_s(pattern, faster), before_s + 1e-6)

    def test_ten_thousand_ranks(self) -> None:
        cluster = Cluster(10_000, 8, 12e9, 32, 25e9, latency_s=10e-6)
        costs = replace(COSTS, unique_bytes=16 << 30, rate_bytes_per_s=5e9)
        for pattern in PATTERNS:
            begin = time.process_time()
            found = predict(pattern, cluster, costs)
            self.assertLess(time.process_time() - begin, 20, pattern)
            self.assertTrue(0 < found.last_s < math.inf)


def result(pattern: str, ranks: int, elapsed_s: float) -> Json:
    """Has the members that are read of a result of tzmark bench cluster."""
    return {
        "cluster": {
            "pattern": pattern,
            "ranks": ranks,
            "hosts": ranks,
            "unique_bytes": 16 * MIB,
            "last_s": {"median": elapsed_s},
            "open_s": {"median": 0.5},
        },
        "bytes": 16 * MIB * ranks,
        "block_bytes": 8 * MIB,
        "queue_depth": 16,
        "cache": "server",
        "samples": [{"ranks": [{"elapsed_ns": elapsed_s * 1e9}]}],
    }


class CommandLine(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)

    def written(self, name: str, content: object) -> str:
        path = self.directory / name
        path.write_text(json.dumps(content))
        return str(path)

    def run_predict(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", str(PREDICT), *words], capture_output=True, text=True
        )

    def test_table_and_json(self) -> None:
        one = self.written("1.json", {"results": [result("same", 1, 4.5)]})
        two = self.written("2.json", {"results": [result("same", 2, 20.0)]})
        made = self.directory / "made.json"
        done = self.run_predict(
            *(one, two, "--ranks", "2,4", "--host-link", "8MB/s"),
            *("--pattern", "same,gather", "--json", str(made)),
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), 1 + 2 * 2)
        document = json.loads(made.read_text())
        rows = document["predictions"]
        self.assertEqual(
            [(row["pattern"], row["ranks"]) for row in rows],
            [("same", 2), ("same", 4), ("gather", 2), ("gather", 4)],
        )
        # 4 MiB/s of the rank, below 8 MB/s of the link.
        self.assertAlmostEqual(rows[0]["last_s"], 4.5)
        self.assertAlmostEqual(rows[0]["error"], 4.5 / 20 - 1)
        self.assertNotIn("measured", rows[1])
        self.assertIn("-77.5%", done.stdout)

    def test_wrong_usage_is_one_line(self) -> None:
        one = self.written("1.json", {"results": [result("same", 1, 4.5)]})
        more = self.written("2.json", {"results": [result("same", 2, 4.5)]})
        known = ("--ranks", "2", "--host-link", "1gbit")
        for words, text in (
            ((one,), "--ranks"),
            ((one, "--ranks", "", "--host-link", "1gbit"), "--ranks"),
            ((one, "--ranks", "0", "--host-link", "1gbit"), "--ranks"),
            ((one, "--ranks", "2", "--host-link", "fast"), "--host-link"),
            ((one, *known, "--server-link", ""), "--server-link"),
            ((one, *known, "--ranks", "9", "--ranks-per-host", "2"), "multiple"),
            ((one, *known, "--mtu", "40"), "--mtu"),
            ((one, *known, "--json", ""), "--json"),
            (("", *known), "RESULT"),
            ((one, *known, "--latency-us", "nan"), "--latency-us"),
            ((one, *known, "--pattern", "other"), "other"),
            ((one, *known, "--size", "0GB"), "--size"),
            ((more, *known), "one rank"),
            ((self.written("list.json", []), *known), "list.json"),
            ((self.written("empty.json", {"results": []}), *known), "empty.json"),
        ):
            done = self.run_predict(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(done.stdout, "", words)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(text, done.stderr)

    def test_a_file_that_is_not_there(self) -> None:
        done = self.run_predict("none.json", "--ranks", "2", "--host-link", "1gbit")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
