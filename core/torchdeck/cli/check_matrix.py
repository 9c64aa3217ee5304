"""The checks of several nodes: a matrix of nodes and checks, and below it what is not well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from torchdeck.plan.check import Check

FEW = 10
"""Nodes that fit next to each other; more are shown below each other."""
MEASURED = "all-reduce"
"""The check that says how fast the nodes were (`launch.preflight.remote.further`)."""
_RANK = {"ok": 0, "warning": 1, "failed": 2}
_SIGN = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("failed", "red")}


def print_matrix(console: Console, checks: Sequence[Check]) -> None:
    """Print the matrix, then every warning and failure with its reason and what to do."""
    console.print(matrix(checks))
    for what in dict.fromkeys(check.what for check in checks if _is_measured(check)):
        console.print(what, markup=False)
    for status in ("warning", "failed"):
        for check in checks:
            if check.status == status:
                _print_one(console, check)


def matrix(checks: Sequence[Check]) -> Table:
    """Nodes and checks, the worst of several of one name; checks go down where nodes are few."""
    from rich.table import Table
    from rich.text import Text

    nodes = list(dict.fromkeys(check.node for check in checks))
    names = list(dict.fromkeys(check.name for check in checks))
    worst: dict[tuple[str, str], str] = {}
    for check in checks:
        place = (check.node, check.name)
        worst[place] = max(worst.get(place, "ok"), check.status, key=_RANK.__getitem__)
    down = len(nodes) <= FEW
    across, along = (nodes, names) if down else (names, nodes)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("CHECK" if down else "NODE", no_wrap=True)
    for heading in across:
        table.add_column(Text(heading), overflow="fold")
    for line in along:
        places = [(other, line) if down else (line, other) for other in across]
        table.add_row(Text(line), *(_cell(worst.get(place)) for place in places))
    return table


def _is_measured(check: Check) -> bool:
    """A check whose good end says more than that."""
    return check.status == "ok" and check.name == MEASURED


def _cell(status: str | None) -> Text:
    from rich.text import Text

    word, style = ("", "") if status is None else _SIGN[status]
    return Text(word, style=style)


def _print_one(console: Console, check: Check) -> None:
    from rich.text import Text

    word, style = _SIGN[check.status]
    console.print(Text.assemble((word, style), f"  {check.node}: {check.name}: {check.what}"), soft_wrap=True)
    if check.fix:
        console.print(Text(f"         {check.fix}"), soft_wrap=True)
