"""Check that the run's machines can be reached from here."""

from __future__ import annotations

from torchdeck.contract.inventory import LOCALHOST, Inventory
from torchdeck.plan.check import Check, failed, ok

_SHOWN = 3


def check_reach(names: list[str], inventory: Inventory) -> Check:
    """Check that all the nodes `names` exist, not only in a run file."""
    described = [node.name for node in map(inventory.find, names) if node is not None and node.described]
    if not described:
        here = names == [LOCALHOST]
        what = "every node is this machine" if here else f"{len(names)} nodes are known"
        return ok("nodes", names[0], what)
    more = f" and {len(described) - _SHOWN} more" if len(described) > _SHOWN else ""
    one = len(described) == 1
    what = (
        f"{', '.join(described[:_SHOWN])}{more} {'is' if one else 'are'} only described in [cluster], "
        "and cannot be reached from here"
    )
    fix = (
        "`torchdeck plan` shows what would run there and, with --export, writes a script for each node; "
        'distributed.nodes = ["localhost"] runs on this machine'
    )
    return failed("nodes", LOCALHOST, what, fix)  # this machine cannot reach them
