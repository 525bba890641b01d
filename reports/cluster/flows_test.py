"""Max-min fairness, against examples worked by hand and its invariants on random networks."""

from __future__ import annotations

import random
import time
import unittest
from collections.abc import Mapping, Sequence

from cluster.flows import Classes, Flow, classes, max_min
from cluster.network import READ, SEND, Cluster

WEIGHTS = {"a": 1.0, "b": 3.0}


def named(rates: Mapping[str, float]) -> dict[str, str]:
    return {link: link for link in rates}


def rates_of(flows: Sequence[Flow], rates: Mapping[str, float]) -> dict[Flow, float]:
    """Returns the rate of each flow, found alone: names of its own keep every link in a class of its own."""
    of = classes(flows, rates, named(rates))
    shares = max_min(of, WEIGHTS)
    # Flows of a class cross links of the same names, which here are the links.
    found = {}
    for flow in flows:
        (number,) = {
            number
            for number, kind in enumerate(of.kinds)
            if kind == flow.kind
            and {link.name for link in of.links if number in link.flows}
            == set(flow.links)
        }
        found[flow] = shares[number].rate_bytes_per_s
    return found


class ByHand(unittest.TestCase):
    def test_a_line_of_three_links(self) -> None:
        """Bertsekas and Gallager: a long flow shares each link with short ones; the narrowest decides its rate."""
        long, first, second, third = (
            Flow("a", ("x", "y", "z")),
            Flow("a", ("x",)),
            Flow("a", ("y",), 2),
            Flow("a", ("z",)),
        )
        found = rates_of([long, first, second, third], {"x": 1.0, "y": 1.0, "z": 2.0})
        self.assertAlmostEqual(found[long], 1 / 3)
        self.assertAlmostEqual(found[first], 2 / 3)
        self.assertAlmostEqual(found[second], 1 / 3)
        self.assertAlmostEqual(found[third], 5 / 3)

    def test_weights(self) -> None:
        light, heavy = Flow("a", ("x",)), Flow("b", ("x",))
        found = rates_of([light, heavy], {"x": 8.0})
        self.assertAlmostEqual(found[light], 2)
        self.assertAlmostEqual(found[heavy], 6)

    def test_what_no_link_limits_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            max_min(classes([Flow("a", ())], {}, {}), WEIGHTS)

    def test_bottleneck(self) -> None:
        of = classes(
            [Flow("a", ("wide", "narrow"))],
            {"wide": 2, "narrow": 1},
            named({"wide": 2, "narrow": 1}),
        )
        (share,) = max_min(of, WEIGHTS)
        self.assertEqual((share.bottleneck, share.rate_bytes_per_s), ("narrow", 1))


class Invariants(unittest.TestCase):
    def random_network(
        self, chance: random.Random
    ) -> tuple[list[Flow], dict[str, float]]:
        rates = {f"l{n}": float(chance.randint(1, 9)) for n in range(6)}
        paths = {
            (
                chance.choice("ab"),
                tuple(chance.sample(sorted(rates), chance.randint(1, 4))),
            )
            for _ in range(8)
        }
        # By the set of links, so that a flow is found by it.
        distinct = {(kind, frozenset(path)): path for kind, path in paths}
        return [
            Flow(kind, path, chance.randint(1, 3))
            for (kind, _), path in sorted(distinct.items(), key=repr)
        ], rates

    def test_of_random_networks(self) -> None:
        chance = random.Random(46)
        for _ in range(300):
            flows, rates = self.random_network(chance)
            found = rates_of(flows, rates)
            used = dict.fromkeys(rates, 0.0)
            for flow, rate in found.items():
                self.assertGreater(rate, 0)
                for link in flow.links:
                    used[link] += flow.count * rate
            for link, rate in rates.items():
                self.assertLessEqual(used[link], rate * (1 + 1e-9), "over its rate")
            for flow, rate in found.items():
                # Max-min fair: on one of its links, which is full, no flow has more per weight.
                level = rate / WEIGHTS[flow.kind]
                self.assertTrue(
                    any(
                        used[link] >= rates[link] * (1 - 1e-9)
                        and all(
                            other / WEIGHTS[each.kind] <= level * (1 + 1e-9)
                            for each, other in found.items()
                            if link in each.links
                        )
                        for link in flow.links
                    ),
                    f"{flow} could be faster",
                )

    def test_all_links_faster_makes_all_flows_faster(self) -> None:
        chance = random.Random(47)
        for _ in range(50):
            flows, rates = self.random_network(chance)
            slow = rates_of(flows, rates)
            fast = rates_of(flows, {link: 2 * rate for link, rate in rates.items()})
            for flow in flows:
                self.assertAlmostEqual(fast[flow], 2 * slow[flow])


class Grouping(unittest.TestCase):
    def shares(self, of: Classes) -> list[tuple[int, float]]:
        shares = max_min(of, {READ: 4, SEND: 1})
        return sorted(
            (count, round(share.rate_bytes_per_s, 9))
            for count, share in zip(of.counts, shares, strict=True)
        )

    def test_equal_hosts_are_one_class(self) -> None:
        cluster = Cluster(10_000, 1, 10.0, server_rate_bytes_per_s=100.0)
        begin = time.process_time()
        of = cluster.classes(cluster.reads(range(10_000)))
        self.assertEqual(of.counts, (10_000,))
        self.assertLess(time.process_time() - begin, 5)
        self.assertEqual(self.shares(of), [(10_000, 0.01)])

    def test_grouping_changes_no_rate(self) -> None:
        """Rank 0 reads while all send in a ring: its predecessor is slowed down, and none of the others."""
        hosts = 6
        flows = [Flow(READ, ("in 0",))]
        flows += [
            Flow(SEND, (f"out {n}", f"in {(n + 1) % hosts}")) for n in range(hosts)
        ]
        rates = {f"{way} {n}": 10.0 for way in ("in", "out") for n in range(hosts)}
        grouped = classes(flows, rates, dict.fromkeys(rates, "link"))
        alone = classes(flows, rates, named(rates))
        self.assertLess(len(grouped.kinds), len(alone.kinds))
        self.assertEqual(self.shares(grouped), [(1, 2.0), (1, 8.0), (5, 10.0)])
        self.assertEqual(
            self.shares(alone), [(1, 2.0), (1, 8.0)] + [(1, 10.0)] * (hosts - 1)
        )


if __name__ == "__main__":
    unittest.main()
