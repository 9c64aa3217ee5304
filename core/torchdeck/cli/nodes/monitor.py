"""`torchdeck nodes monitor`: what all nodes do, every second."""

from __future__ import annotations

import argparse
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torchdeck.cli.console import bare_table, filled_columns, fitting, width_of
from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from torchdeck.use_cases.nodes.monitor import NodeNow, Sample


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "monitor",
        help="show what nodes do now, until Ctrl-C; reconnects lost nodes",
        description="A live table of processors, memory, disk, network, GPUs and runs.",
    )
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="only these nodes; default: all nodes of the inventory"
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=1.0,
        metavar="SECONDS",
        help="time between two samples (default: 1)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line and sample")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Show until Ctrl-C; 2 when there is no such node."""
    from torchdeck.use_cases.nodes.chosen import choose_nodes
    from torchdeck.use_cases.nodes.monitor import monitor

    news: queue.SimpleQueue[NodeNow] = queue.SimpleQueue()
    watched = monitor(choose_nodes(args.nodes, nodes_home(), TerminalUi()), news.put, args.interval)
    try:
        if args.json:
            while True:
                now = _next(news)
                if not now.is_up or now.sample is not None:
                    print(json_text(_document(now)), flush=True)
        _show(watched.now, news, args.interval)
    except KeyboardInterrupt:
        return SUCCEEDED
    finally:
        watched.close()
    return SUCCEEDED


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600 seconds")
    return seconds


def _next(news: queue.SimpleQueue[NodeNow]) -> NodeNow:
    """With a limit, as a wait without one cannot be interrupted everywhere."""
    while True:
        try:
            return news.get(timeout=1.0)
        except queue.Empty:
            continue


def _show(
    now: Callable[[], Mapping[str, NodeNow]], news: queue.SimpleQueue[NodeNow], interval: float
) -> None:
    """A live table; off a terminal a table for every interval."""
    from rich.live import Live

    from torchdeck.cli.console import ENDLESS, make_console, room

    console = make_console()
    table = MonitorTable()
    if not console.is_terminal:
        console.width = room(console) or ENDLESS
        while True:
            time.sleep(interval)
            console.print(table.of(now(), room(console)))
    with Live(table.of(now(), console.width), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(min(interval, 1.0))
            while not news.empty():
                news.get()
            live.update(table.of(now(), console.width), refresh=True)


def _document(node: NodeNow) -> dict[str, Any]:
    sample = node.sample if node.is_up else None
    return {
        "node": node.node,
        "state": node.state,
        "since": node.since,
        "why": node.why,
        "heard": node.heard,
        "values": {} if sample is None else sample.values,
        "load": None if sample is None else list(sample.load),
        "owners": {} if sample is None else {key: owner.model_dump() for key, owner in sample.owners.items()},
        "runs": [run.model_dump(mode="json") for run in node.runs],
    }


# The table of `torchdeck nodes monitor`: as many columns as a terminal has room for, none of them folded.

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
            styles = ("bold", _STYLES.get(node.state.value, "dim"))
            rest = "" if node.is_up else "dim"
            table.add_row(
                *(Text(row[at], style=styles[at] if at < 2 else rest) for at in kept if at < len(row))
            )
        left = [HEADINGS[at] for at in filled_columns(HEADINGS, rows) if at not in kept]
        below = [Text(f"no room for {', '.join(left)}", style="dim")] if left else []
        below += [Text(node.why, style="red") for node in nodes.values() if node.is_lost and node.why]
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
    if not node.is_lost:
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
