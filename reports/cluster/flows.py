"""Max-min fairness of flows over links, by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2).

The rates of all flows grow together until a link is full; the flows over it keep their rate, and the others grow on.
With 10,000 ranks, most flows differ in name only: `classes` groups the flows whose rates are equal for that reason, and
`max_min` then works on a handful of classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

# Links whose fair shares differ by less are full at the same time.
TIE = 1e-9


@dataclass(frozen=True)
class Flow:
    """Some equal flows of a kind over the same links. Its kind decides the weight: the connections of one flow."""

    kind: str
    links: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True)
class LinkClass:
    """Links of one rate that carry equal flows, and how many flows of each class every one of them carries."""

    name: str
    rate_bytes_per_s: float
    flows: Mapping[int, int]


@dataclass(frozen=True)
class Classes:
    """The kind of each class of flows, how many flows it has, and the links."""

    kinds: tuple[str, ...]
    counts: tuple[int, ...]
    links: tuple[LinkClass, ...]


@dataclass(frozen=True)
class Share:
    """What each flow of a class gets, and the link that limits it."""

    rate_bytes_per_s: float
    bottleneck: str


def classes(
    flows: Sequence[Flow], rates: Mapping[str, float], names: Mapping[str, str]
) -> Classes:
    """Groups flows and links by what tells them apart: at first the rates of links, then what crosses what, until no
    group splits any more. Flows of a group have the same rate in every allocation that depends on nothing else.

    names: what a link is called as a bottleneck, such as "link of a host".
    """
    crossing: dict[str, list[int]] = {}
    for number, flow in enumerate(flows):
        for link in flow.links:
            crossing.setdefault(link, []).append(number)
    of_link = _numbered({link: (rates[link], names[link]) for link in crossing})
    groups = 0
    while True:
        of_flow = _numbered(
            {
                number: (flow.kind, tuple(of_link[link] for link in flow.links))
                for number, flow in enumerate(flows)
            }
        )
        carried: dict[str, Counter[int]] = {}
        for link, numbers in crossing.items():
            carried[link] = Counter()
            for number in numbers:
                carried[link][of_flow[number]] += flows[number].count
        of_link = _numbered(
            {
                link: (of_link[link], tuple(sorted(counts.items())))
                for link, counts in carried.items()
            }
        )
        found = len(set(of_link.values())) + len(set(of_flow.values()))
        if found == groups:
            break
        groups = found
    one_of = {group: link for link, group in of_link.items()}
    kinds = {of_flow[number]: flow.kind for number, flow in enumerate(flows)}
    counts = Counter[int]()
    for number, flow in enumerate(flows):
        counts[of_flow[number]] += flow.count
    return Classes(
        tuple(kinds[group] for group in range(len(kinds))),
        tuple(counts[group] for group in range(len(kinds))),
        tuple(
            LinkClass(names[link], rates[link], carried[link])
            for link in one_of.values()
        ),
    )


def _numbered(keys: Mapping[Name, Hashable]) -> dict[Name, int]:
    """Numbers the different keys from 0, in the order of their appearance."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(key, len(numbers)) for name, key in keys.items()}


def max_min(of: Classes, weights: Mapping[str, float]) -> list[Share]:
    """Returns the share of a flow of each class. weights: of a flow of each kind; its rate grows in proportion."""
    weight = [weights[kind] for kind in of.kinds]
    shares = [Share(0.0, "")] * len(weight)
    left = [link.rate_bytes_per_s for link in of.links]
    growing = {number for number, each in enumerate(weight) if each > 0}
    while growing:
        loads = [
            sum(n * weight[flow] for flow, n in link.flows.items() if flow in growing)
            for link in of.links
        ]
        levels = [
            max(rate, 0.0) / load
            for rate, load in zip(left, loads, strict=True)
            if load > 0
        ]
        if not levels:
            raise ValueError("a flow crosses no link")
        level = min(levels)
        full = [
            load > 0 and max(rate, 0.0) / load <= level * (1 + TIE)
            for rate, load in zip(left, loads, strict=True)
        ]
        ended = set()
        for link, is_full in zip(of.links, full, strict=True):
            for flow in growing & link.flows.keys() if is_full else ():
                if flow not in ended:
                    shares[flow] = Share(level * weight[flow], link.name)
                    ended.add(flow)
        for number, link in enumerate(of.links):
            left[number] -= sum(
                n * shares[flow].rate_bytes_per_s
                for flow, n in link.flows.items()
                if flow in ended
            )
        growing -= ended
    return shares
