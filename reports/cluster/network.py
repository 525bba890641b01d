"""The cluster that is predicted: its links, and what flows over them.

Each host has a link in each direction. Files lie on servers in stripes that are small next to what the ranks have in
flight, so that every read takes from all servers alike, and their links and their storage count as one. What goes
between two hosts, or a host and the servers, also crosses the fabric, if its rate is stated. Ranks of one host exchange
in its memory, which costs nothing here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cluster import flows
from cluster.collectives import Pairs

READ, SEND = "read", "send"


@dataclass(frozen=True)
class Cluster:
    """Rates are those of payload; math.inf where there is no limit. Ranks fill one host after another."""

    ranks: int
    ranks_per_host: int
    host_rate_bytes_per_s: float
    servers: int = 1
    server_rate_bytes_per_s: float = math.inf
    storage_rate_bytes_per_s: float = math.inf
    fabric_rate_bytes_per_s: float = math.inf
    # What a single rank reads.
    rank_rate_bytes_per_s: float = math.inf
    # From the first bit of a message to its arrival, without its bytes.
    latency_s: float = 0.0
    # Whether two ranks that exchange long messages take turns; see collectives.
    takes_turns: bool = True

    def host_of(self, rank: int) -> int:
        return rank // self.ranks_per_host

    @property
    def hosts(self) -> int:
        return math.ceil(self.ranks / self.ranks_per_host)

    def reads(self, readers: Iterable[int]) -> list[flows.Flow]:
        """Returns the flows of ranks that read."""
        on = Counter(map(self.host_of, readers))
        shared = ("storage", "servers", "fabric")
        return [
            flows.Flow(READ, (*shared, f"in {host}", f"ranks {count} {host}"), count)
            for host, count in on.items()
        ]

    def sends(self, pairs: Pairs) -> list[flows.Flow]:
        """Returns the flows between hosts."""
        between = Counter((self.host_of(a), self.host_of(b)) for a, b in pairs.ranks)
        return [
            flows.Flow(SEND, (f"out {a}", "fabric", f"in {b}"), count)
            for (a, b), count in between.items()
            if a != b
        ]

    def classes(self, of: list[flows.Flow]) -> flows.Classes:
        links = {link for flow in of for link in flow.links}
        described = {link: self._described(link) for link in links}
        limited = [
            flows.Flow(
                flow.kind,
                tuple(each for each in flow.links if described[each][0] < math.inf),
                flow.count,
            )
            for flow in of
        ]
        return flows.classes(
            limited,
            {link: rate for link, (rate, _) in described.items()},
            {link: name for link, (_, name) in described.items()},
        )

    def _described(self, link: str) -> tuple[float, str]:
        """Returns the rate of a link, and what it is called as a bottleneck."""
        what, *more = link.split()
        if what == "ranks":
            return int(more[0]) * self.rank_rate_bytes_per_s, "one rank"
        return {
            "storage": (self.servers * self.storage_rate_bytes_per_s, "storage"),
            "servers": (self.servers * self.server_rate_bytes_per_s, "server link"),
            "fabric": (self.fabric_rate_bytes_per_s, "fabric"),
            "in": (self.host_rate_bytes_per_s, "host link, in"),
            "out": (self.host_rate_bytes_per_s, "host link, out"),
        }[what]
