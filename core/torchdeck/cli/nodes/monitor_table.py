"""The table of `torchdeck nodes monitor`: as many columns as a terminal has room for, none of them folded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torchdeck.cli.fitting_columns import bare_table, fitting, told, width_of
from torchdeck.quantities import size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from torchdeck.nodes.probe.monitoring import NodeNow, Sample

HEADINGS = ("NODE", "STATE", "CPU", "LOAD", "MEMORY", "DISK FREE", "NETWORK", "GPUS", "RUNS")
BY_WEIGHT = ("NODE", "STATE", "CPU", "GPUS", "MEMORY", "RUNS", "LOAD", "DISK FREE", "NETWORK")
"""Which columns stay where a terminal is narrow."""
_STYLES = {"up": "green", "lost": "red"}


class MonitorTable:
    """Makes one table after the other; a column that was too wide once does not come and go."""

    def __init__(self) -> None:
        self._widest: Sequence[str] = ("-",) * len(HEADINGS)

    def of(self, nodes: Mapping[str, NodeNow], width: int | None) -> RenderableType:
        """The nodes as they are now, and why some are lost.

        Args:
            nodes: by name.
            width: characters of a line; None: there is room for all columns.
        """
        from rich.console import Group
        from rich.text import Text

        rows = [_row(name, node) for name, node in nodes.items()]
        kept = fitting(HEADINGS, [*rows, self._widen(rows)], BY_WEIGHT, width)
        table = bare_table([HEADINGS[at] for at in kept])
        for row, node in zip(rows, nodes.values(), strict=True):
            styles = ("bold", _STYLES.get(node.state, "dim"))
            rest = "" if node.state == "up" else "dim"
            table.add_row(
                *(Text(row[at], style=styles[at] if at < 2 else rest) for at in kept if at < len(row))
            )
        left = [HEADINGS[at] for at in told(HEADINGS, rows) if at not in kept]
        below = [Text(f"no room for {', '.join(left)}", style="dim")] if left else []
        below += [Text(node.why, style="red") for node in nodes.values() if node.state == "lost" and node.why]
        return Group(table, *below)

    def _widen(self, rows: Sequence[Sequence[str]]) -> Sequence[str]:
        """Return the widest cell of each column so far."""
        cells = [
            (widest, *(row[at] for row in rows if at < len(row))) for at, widest in enumerate(self._widest)
        ]
        self._widest = [max(column, key=width_of) for column in cells]
        return self._widest


def _row(name: str, node: NodeNow) -> tuple[str, ...]:
    return (name, _state(node), *(() if node.sample is None else _cells(node, node.sample)))


def _state(node: NodeNow) -> str:
    if node.state != "lost":
        return node.state
    return f"lost {max(0.0, time.time() - (node.heard or node.since)):.0f} s ago"


def _cells(node: NodeNow, sample: Sample) -> tuple[str, ...]:
    values = sample.values
    net = (values.get("net_rx_bytes_per_s", 0.0), values.get("net_tx_bytes_per_s", 0.0))
    used, total = values.get("memory_used_bytes", 0.0), values.get("memory_total_bytes", 0.0)
    return (
        f"{values['cpu_percent']:.0f} %" if "cpu_percent" in values else "-",
        f"{sample.load[0]:.1f}",
        f"{size(int(used))} of {size(int(total))}",
        size(int(values.get("disk_free_bytes", 0.0))),
        f"{size(int(net[0]))}/s in, {size(int(net[1]))}/s out",
        "\n".join(_gpus(node, sample)) or "-",
        "\n".join(
            f"{run.run_id}{'' if run.supervised else f' ({len(run.processes)} orphans)'}" for run in node.runs
        )
        or "-",
    )


def _gpus(node: NodeNow, sample: Sample) -> list[str]:
    lines = []
    for gpu in () if node.facts is None else node.facts.gpu.devices:
        own = {name: sample.values.get(f"gpu{gpu.index}_{name}") for name in ("util", "memory_used_bytes")}
        heat = sample.values.get(f"gpu{gpu.index}_temperature_c")
        owner = sample.owners.get(gpu.uuid or str(gpu.index))
        parts = [
            "" if own["util"] is None else f"{own['util']:.0f} %",
            ""
            if own["memory_used_bytes"] is None
            else f"{size(int(own['memory_used_bytes']))} of {size(gpu.memory)}",
            "" if heat is None else f"{heat:.0f} °C",
            "" if owner is None else owner.name,
        ]
        lines.append(f"{gpu.index}: {', '.join(filter(None, parts))}")
    return lines
