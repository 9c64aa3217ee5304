"""Can every node connect to every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchdeck.nodes.probe.connections import Connected
from torchdeck.plan.check import Check, failed, ok


def check_connections(connected: list[Connected], addresses: Mapping[str, str]) -> Iterator[Check]:
    """Yield one check for each node that others connect to."""
    for node, address in addresses.items():
        ways = [way for way in connected if way.target == node]
        bad = [way for way in ways if not way.ok]
        if not ways:
            continue
        if not bad:
            slowest = max(way.latency or 0.0 for way in ways)
            yield ok("connections", node, f"all others reach {address} (at most {slowest * 1e3:.1f} ms)")
            continue
        worst = bad[0]
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        what = f"{worst.source}{more} cannot connect to {address}, port {worst.port}: {worst.error}"
        fix = (
            "open all TCP ports between the nodes in the firewall: ranks listen where the kernel lets them; "
            f"or `torchdeck nodes edit {node}` names another training_address or interface"
        )
        yield failed("connections", node, what, fix)
