"""Checks arranged by check and node. Without Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torchdeck.plan.check import Status
from torchdeck_app.launch.check.rows import ORDER, CheckRow, by_node


@dataclass(frozen=True)
class Grid:
    """Checks of each node."""

    checks: tuple[str, ...]
    """Check names, the worst first, else in the order of execution."""
    nodes: tuple[str, ...]
    """Nodes, the worst first, else in the order of execution."""
    cells: Mapping[tuple[str, str], tuple[CheckRow, ...]]
    """Rows by check and node, the worst of a cell first; no entry if a node was not checked."""
    others: tuple[CheckRow, ...]
    """Rows without a node: this machine's own part, and the run file."""

    def status(self, check: str, node: str) -> Status | None:
        """Return the worst status of a cell; None if nothing was checked."""
        rows = self.cells.get((check, node), ())
        return rows[0].status if rows else None


def grid_of(rows: Iterable[CheckRow]) -> Grid | None:
    """Return `rows` as a grid; None for fewer than two nodes."""
    groups = by_node(rows)
    others = tuple(groups.pop("", ()))
    if len(groups) < 2:
        return None
    cells: dict[tuple[str, str], list[CheckRow]] = {}
    for node, found in groups.items():
        for row in found:
            cells.setdefault((row.name, node), []).append(row)
    worst: dict[str, int] = {}
    for (check, _), found in cells.items():
        found.sort(key=lambda row: ORDER[row.status])
        worst[check] = min(worst.get(check, len(ORDER)), ORDER[found[0].status])
    checks = sorted(worst, key=lambda check: worst[check])
    return Grid(tuple(checks), tuple(groups), {place: tuple(found) for place, found in cells.items()}, others)
