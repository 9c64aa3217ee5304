"""`torchdeck nodes gpus`: all GPUs, who holds them and until when."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchdeck.cli.console import bare_table, filled_columns, fitting, room
from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.quantities import size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from torchdeck.nodes.gpus.gpu_now import GpuNow
    from torchdeck.use_cases.nodes.gpu_watch import GpusSeen

HEADINGS = ("NODE", "GPU", "MODEL", "STATE", "USE", "MEMORY", "TEMP", "POWER", "HELD BY", "USER", "UNTIL")
BY_WEIGHT = ("NODE", "GPU", "STATE", "HELD BY", "USER", "UNTIL", "USE", "MEMORY", "MODEL", "POWER", "TEMP")
"""Which columns stay where a terminal is narrow."""
INTERVAL = 1.0
"""Seconds between two tables of `--watch`."""
HOLDER_LENGTH = 40
"""Maximum characters of a holder in the table."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gpus",
        help="show all GPUs: who holds them until when, use, memory, power, throttling",
        description="One row per GPU of all nodes and of this machine. A GPU is held by the run that has "
        "leased it or by processes on it; the expected end is known for runs of this home that report "
        "their progress. Exits with 3 if a node is not reachable.",
    )
    parser.add_argument(
        "nodes",
        nargs="*",
        metavar="NODE",
        help="only these nodes, localhost for this machine; default: all of the inventory and this machine",
    )
    parser.add_argument("--watch", action="store_true", help="update every second until Ctrl-C")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object; with --watch one per line and second"
    )
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print the GPUs once, or until Ctrl-C; 3 if a node is unreachable, 2 if there is no such node."""
    from torchdeck.use_cases.nodes.gpu_watch import GpuWatch, choose_gpu_nodes

    watch = GpuWatch(choose_gpu_nodes(args.nodes, nodes_home(), TerminalUi()), INTERVAL)
    try:
        seen = watch.first()
        if args.watch:
            _watch(watch.look, seen, as_json=args.json)
        elif args.json:
            print(json_text(document(seen), indent=1))
        else:
            _print(seen)
    except KeyboardInterrupt:
        return SUCCEEDED
    finally:
        watch.close()
    return REFUSED if seen.problems else SUCCEEDED


def _watch(look: Callable[[], GpusSeen], seen: GpusSeen, *, as_json: bool) -> None:
    """Print until Ctrl-C: a live table on a terminal, else one after the other."""
    from rich.live import Live

    from torchdeck.cli.console import make_console

    console = make_console()
    if as_json or not console.is_terminal:
        while True:
            if as_json:
                print(json_text(document(seen)), flush=True)
            else:
                _print(seen)
            time.sleep(INTERVAL)
            seen = look()
    with Live(view(seen, console.width, time.time()), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(INTERVAL)
            live.update(view(look(), console.width, time.time()), refresh=True)


def _print(seen: GpusSeen) -> None:
    from torchdeck.cli.console import ENDLESS, make_console

    console = make_console()
    width = room(console)
    if width is None:
        console.width = ENDLESS
    console.print(view(seen, width, time.time()))


def view(seen: GpusSeen, width: int | None, now: float) -> RenderableType:
    """Return the table, what there was no room for, and the problems.

    Args:
        seen: the GPUs.
        width: characters of a line; None: there is room for all columns.
        now: seconds since 1970.
    """
    from rich.console import Group
    from rich.text import Text

    rows = [row_of(gpu, now, limited=width is not None) for gpu in seen.gpus]
    kept = fitting(HEADINGS, rows, BY_WEIGHT, width)
    table = bare_table([HEADINGS[at] for at in kept])
    for row, gpu in zip(rows, seen.gpus, strict=True):
        table.add_row(*(Text(row[at], style=_style(HEADINGS[at], gpu)) for at in kept))
    parts: list[RenderableType] = [table] if rows else [Text("no NVIDIA GPU was found")]
    left = [HEADINGS[at] for at in filled_columns(HEADINGS, rows) if at not in kept]
    if left:
        parts.append(Text(f"no room for {', '.join(left)}: --json has all values", style="dim"))
    parts += [Text(why, style="red") for _, why in seen.problems]
    return Group(*parts)


def _style(heading: str, gpu: GpuNow) -> str:
    from torchdeck.nodes.gpus.gpu_now import GpuState, slowdowns_of

    if heading == "NODE":
        return "bold"
    if heading != "STATE":
        return "" if gpu.is_connected else "dim"
    if slowdowns_of(gpu.reasons) and gpu.is_connected:
        return "red"
    styles = {GpuState.FREE: "green", GpuState.UNKNOWN: "dim", GpuState.HELD: "cyan"}
    return styles.get(gpu.state, "blue")


def row_of(gpu: GpuNow, now: float, *, limited: bool) -> tuple[str, ...]:
    """Return the cells of a GPU; `limited`: long commands are cut."""
    from torchdeck.nodes.gpus.gpu_words import holder_words, state_words, until_of, until_words, user_words

    until = until_of(gpu)
    holder = holder_words(gpu)
    if limited and len(holder) > HOLDER_LENGTH:
        holder = f"{holder[: HOLDER_LENGTH - 1]}…"
    total = size(gpu.device.memory_bytes)
    limit = "" if gpu.power_limit is None else f" of {gpu.power_limit:.0f}"
    return (
        gpu.node,
        str(gpu.device.index),
        gpu.device.name.removeprefix("NVIDIA ") + (" (MIG)" if gpu.mig else ""),
        state_words(gpu),
        "-" if gpu.use is None else f"{gpu.use:.0f} %",
        total if gpu.memory_used is None else f"{size(gpu.memory_used)} of {total}",
        "-" if gpu.temperature is None else f"{gpu.temperature:.0f} °C",
        "-" if gpu.power is None else f"{gpu.power:.0f}{limit} W",
        holder or "-",
        user_words(gpu) or "-",
        "-" if until is None else until_words(until, now),
    )


def document(seen: GpusSeen) -> dict[str, Any]:
    """Return everything as JSON: values in bytes, °C, W, MHz and seconds since 1970; null if unknown."""
    return {
        "gpus": [_gpu_document(gpu) for gpu in seen.gpus],
        "problems": [{"node": node, "why": why} for node, why in seen.problems],
    }


def _gpu_document(gpu: GpuNow) -> dict[str, Any]:
    from torchdeck.nodes.gpus.gpu_now import reasons_of

    device = gpu.device
    processes = None if gpu.processes is None else [dataclasses.asdict(each) for each in gpu.processes]
    for each in processes or ():
        process = each.pop("process")
        each["start_ticks"] = None if process is None else process.start_ticks
    return {
        "node": gpu.node,
        "index": device.index,
        "uuid": device.uuid,
        "name": device.name,
        "mig": gpu.mig,
        "state": gpu.state,
        "time": gpu.time,
        "use_percent": gpu.use,
        "memory_used_bytes": gpu.memory_used,
        "memory_total_bytes": device.memory_bytes,
        "temperature_c": gpu.temperature,
        "power_w": gpu.power,
        "power_limit_w": gpu.power_limit,
        "clock_mhz": gpu.clock,
        "memory_clock_mhz": gpu.memory_clock,
        "throttle_reasons": None if gpu.reasons is None else list(reasons_of(gpu.reasons)),
        "holders": [dataclasses.asdict(holder) for holder in gpu.holders],
        "processes": processes,
    }
