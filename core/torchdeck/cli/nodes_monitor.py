"""`torchdeck nodes monitor`: what all nodes do, every second."""

from __future__ import annotations

import argparse
import json
import queue
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.cli.exit_codes import SUCCEEDED
from torchdeck.cli.nodes_chosen import ChosenNodes, chosen_nodes
from torchdeck.cli.nodes_lookup import says_what_is_wrong
from torchdeck.quantities import size

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from torchdeck.nodes.probe.monitoring import NodeNow, Sample
    from torchdeck.nodes.ssh.connection import Connection

HEADINGS = ("NODE", "STATE", "CPU", "LOAD", "MEMORY", "DISK FREE", "NETWORK", "GPUS", "RUNS")


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "monitor",
        help="what nodes do now, until Ctrl-C; one that is lost is connected to again",
        description="A live table of processors, memory, disk, network, GPUs and runs.",
    )
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="these alone; all nodes of the book if none")
    parser.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="between two samples (1)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line, for every sample")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Show until Ctrl-C; 2 when there is no such node."""
    from torchdeck.nodes.probe.monitoring import Monitor

    news: queue.SimpleQueue[NodeNow] = queue.SimpleQueue()
    chosen = chosen_nodes(args.nodes)
    monitor = Monitor(chosen.entries, AskingOnce(chosen), news.put, args.interval)
    monitor.start()
    try:
        if args.json:
            while True:
                print(json.dumps(_document(_next(news)), ensure_ascii=False), flush=True)
        _show(monitor.now, news, args.interval)
    except KeyboardInterrupt:
        return SUCCEEDED
    finally:
        monitor.close()
    return SUCCEEDED


class AskingOnce:
    """Connects; the person at the terminal is asked for each node once, and not whenever it comes back."""

    def __init__(self, chosen: ChosenNodes) -> None:
        from torchdeck.launch.reach import Reach

        self._asking = chosen.reach
        self._silent = Reach(chosen.reach.home, credentials=chosen.reach.credentials)
        self._asked: set[str] = set()

    def __call__(self, name: str, limit: float) -> Connection:
        reach = self._silent if name in self._asked else self._asking
        self._asked.add(name)
        return reach.connect(name, limit)


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


def _show(now: Any, news: queue.SimpleQueue[NodeNow], interval: float) -> None:
    """A live table; off a terminal a table for every interval."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if not console.is_terminal:
        while True:
            time.sleep(interval)
            console.print(_table(now()))
    with Live(_table(now()), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(min(interval, 1.0))
            while not news.empty():
                news.get()
            live.update(_table(now()), refresh=True)


def _table(nodes: Mapping[str, NodeNow]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for name, node in nodes.items():
        cells = () if node.sample is None else _cells(node, node.sample)
        style = "" if node.state == "up" else "dim"
        table.add_row(Text(name, style="bold"), _state(node), *(Text(cell, style=style) for cell in cells))
    for node in nodes.values():
        if node.state == "lost":
            table.add_section()
            table.caption = Text("\n".join(each.why for each in nodes.values() if each.why), style="red")
            table.caption_justify = "left"
    return table


def _state(node: NodeNow) -> Text:
    from rich.text import Text

    if node.state == "up":
        return Text("up", style="green")
    if node.state == "lost":
        return Text(f"lost {max(0.0, time.time() - (node.heard or node.since)):.0f} s ago", style="red")
    return Text(node.state, style="dim")


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


def _document(node: NodeNow) -> dict[str, Any]:
    sample = node.sample if node.state == "up" else None
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
