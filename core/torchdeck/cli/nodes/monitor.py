"""`torchdeck nodes monitor`: what all nodes do, every second."""

from __future__ import annotations

import argparse
import queue
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.cli.exit_codes import SUCCEEDED
from torchdeck.cli.json_text import json_text
from torchdeck.cli.nodes.chosen import ChosenNodes, chosen_nodes
from torchdeck.cli.nodes.lookup import says_what_is_wrong

if TYPE_CHECKING:
    from torchdeck.nodes.probe.monitoring import NodeNow
    from torchdeck.nodes.ssh.connection import Connection


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
                print(json_text(_document(_next(news))), flush=True)
        _show(monitor.now, news, args.interval)
    except KeyboardInterrupt:
        return SUCCEEDED
    finally:
        monitor.close()
    return SUCCEEDED


class AskingOnce:
    """Connects; the person at the terminal is asked for each node once, and not whenever it comes back."""

    def __init__(self, chosen: ChosenNodes) -> None:
        from torchdeck.nodes.connector import Connector

        self._asking = chosen.reach
        self._silent = Connector(chosen.reach.home, credentials=chosen.reach.credentials)
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


def _show(
    now: Callable[[], Mapping[str, NodeNow]], news: queue.SimpleQueue[NodeNow], interval: float
) -> None:
    """A live table; off a terminal a table for every interval."""
    from rich.live import Live

    from torchdeck.cli.console import make_console
    from torchdeck.cli.fitting_columns import ENDLESS, room
    from torchdeck.cli.nodes.monitor_table import MonitorTable

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
