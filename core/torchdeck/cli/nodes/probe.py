"""`torchdeck nodes probe`: hardware and load of each node, as reported."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torchdeck.cli.console import bare_table, filled_columns, fitting, room
from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.quantities import size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from torchdeck.nodes.probe.facts import Disk, Gpu, Interface, NodeFacts, Python
    from torchdeck.use_cases.nodes.probe import Probed, Question


HEADINGS = (
    *("NODE", "STATE", "OS", "CPUS", "MEMORY", "GPUS", "PYTHON", "TORCH"),
    *("CUDA", "NCCL", "CLOCK", "RUNS", "ORPHANS"),
)
BY_WEIGHT = (
    *("NODE", "STATE", "GPUS", "TORCH", "ORPHANS", "RUNS", "MEMORY", "CPUS"),
    *("CLOCK", "PYTHON", "CUDA", "NCCL", "OS"),
)
"""Which columns stay where a terminal is narrow."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "probe",
        help="show what nodes have and do now: machine, GPUs, versions, clock, runs, orphans",
        description="Probes all nodes at once and leaves nothing on them. With one NODE all facts are shown: "
        "disks, users of GPUs, interfaces, Pythons and environments; with localhost, the Pythons and "
        "environments of this machine. Exits with 3 if a node is not reachable.",
    )
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="only these nodes; default: all nodes of the inventory"
    )
    parser.add_argument(
        "--deep", action="store_true", help="also import torch on the nodes, and report what it finds"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Probe the nodes and print; 3 if a node is unreachable, 2 if there is no such node."""
    from torchdeck.use_cases.nodes.probe import Question

    if args.nodes == [LOCALHOST]:
        return _pythons_here(as_json=args.json)
    question = Question(deep=args.deep, others=args.json or len(args.nodes) == 1)
    found = _found(args, question) if args.json else _shown(args, question)
    if args.json:
        print(json_text([_document(found[name]) for name in found], indent=1))
    reached = all(probed is not None and probed.facts is not None for probed in found.values())
    return SUCCEEDED if reached else REFUSED


def _pythons_here(*, as_json: bool) -> int:
    """Print this machine's Pythons and environments with their packages."""
    from torchdeck.use_cases.nodes.probe import pythons_here

    pythons = pythons_here()
    if as_json:
        print(json_text([python.model_dump(mode="json") for python in pythons], indent=1))
    else:
        print("\n".join(map(_python, pythons)))
    return SUCCEEDED


def _found(args: argparse.Namespace, question: Question) -> dict[str, Probed | None]:
    from torchdeck.use_cases.nodes.chosen import choose_nodes
    from torchdeck.use_cases.nodes.probe import probe

    chosen = choose_nodes(args.nodes, nodes_home(), TerminalUi())
    found: dict[str, Probed | None] = dict.fromkeys(chosen.entries)
    for probed in probe(chosen, question):
        found[probed.node] = probed
    return found


def _shown(args: argparse.Namespace, question: Question) -> dict[str, Probed | None]:
    """Show a table that fills as nodes answer, or one node in full; off a terminal only the final result."""
    from torchdeck.cli.console import FillingTable, make_console
    from torchdeck.use_cases.nodes.chosen import choose_nodes
    from torchdeck.use_cases.nodes.probe import probe

    console = make_console()
    filling = FillingTable(console)
    chosen = choose_nodes(args.nodes, nodes_home(), TerminalUi(around=filling.out_of_the_way))
    found: dict[str, Probed | None] = dict.fromkeys(chosen.entries)
    alone = bool(args.nodes) and len(found) == 1
    with filling:
        filling.show(_table(found, room(console)))
        for probed in probe(chosen, question):
            found[probed.node] = probed
            filling.show(_table(found, room(console)))
        if alone:
            filling.drop()
    if alone:
        _print_sheets(console, found)
    elif (width := room(console)) is not None:
        _print_left_out(console, found, width)
    _print_below(console, found)
    return found


def _print_sheets(console: Console, found: Mapping[str, Probed | None]) -> None:
    from rich.text import Text

    for probed in found.values():
        if probed is not None and probed.facts is not None:
            console.print(Text(sheet(probed, probed.facts)), soft_wrap=True)


def _print_left_out(console: Console, found: Mapping[str, Probed | None], width: int) -> None:
    rows = list(_rows(found))
    kept = fitting(HEADINGS, rows, BY_WEIGHT, width)
    left = [HEADINGS[at] for at in filled_columns(HEADINGS, rows) if at not in kept]
    if left:
        hint = f"no room for {', '.join(left)}: `torchdeck nodes probe NODE` shows one node in full"
        console.print(hint, style="dim", soft_wrap=True)


def _rows(found: Mapping[str, Probed | None]) -> Iterator[tuple[str, ...]]:
    """Return the cells of each node; only its name and state if it has not answered."""
    for name, probed in found.items():
        if probed is None:
            yield name, "…"
        elif probed.facts is None:
            yield name, "no Python" if probed.fix else "not reached"
        else:
            yield name, "up", *_cells(probed, probed.facts)


_STYLES = {"up": "green", "…": "dim", "not reached": "red", "no Python": "red"}


def _table(found: Mapping[str, Probed | None], width: int | None) -> Table:
    """Return the columns that fit `width` characters; all if it is None."""
    from rich.text import Text

    rows = list(_rows(found))
    kept = fitting(HEADINGS, rows, BY_WEIGHT, width)
    table = bare_table([HEADINGS[at] for at in kept])
    for row in rows:
        styles = ("bold", _STYLES[row[1]], *[""] * (len(row) - 2))
        cells = [Text(row[at], style=styles[at]) for at in kept if at < len(row)]
        if len(row) == len(HEADINGS) and row[-1] != "-" and kept[-1] == len(HEADINGS) - 1:
            cells[-1].stylize("yellow")
        table.add_row(*cells)
    return table


def _cells(probed: Probed, facts: NodeFacts) -> tuple[str, ...]:
    python = facts.python
    clock = probed.clock
    return (
        facts.system.os,
        f"{facts.cpu.usable}"
        if facts.cpu.usable == facts.cpu.cores
        else f"{facts.cpu.usable} of {facts.cpu.cores}",
        f"{size(facts.memory.free)} of {size(facts.memory.total)} free",
        _gpus(facts.gpu.devices) or (f"error: {facts.gpu.error}" if facts.gpu.error else "-"),
        python.version,
        _torch(python),
        _or_deep(python, "cuda"),
        _or_deep(python, "nccl"),
        "-" if clock is None else f"{clock.seconds * 1e3:+.0f} ms",
        ", ".join(run.run_id for run in facts.runs if run.supervised) or "-",
        ", ".join(f"{run.run_id} ({len(run.processes)})" for run in facts.orphans) or "-",
    )


def _torch(python: Python) -> str:
    if python.deep is not None and python.deep.error:
        return f"{python.torch or 'none'} (does not import)"
    return _or_deep(python, "torch", nothing="none")


def _or_deep(python: Python, what: str, nothing: str = "-") -> str:
    """Prefer the value that torch reported if it was imported, else the one from its files."""
    said = getattr(python.deep, what) if python.deep is not None else None
    return str(said or getattr(python, what) or nothing)


def _gpus(devices: tuple[Gpu, ...]) -> str:
    """Group identical GPUs: `8 × NVIDIA H200, 2 in use`."""
    counts: dict[str, int] = {}
    for gpu in devices:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    used = sum(bool(gpu.users) for gpu in devices)
    names = " + ".join(f"{count} × {name}" for name, count in counts.items())
    return f"{names}, {used} in use" if used else names


def _print_below(console: Console, found: Mapping[str, Probed | None]) -> None:
    from rich.text import Text

    for name, probed in found.items():
        if probed is not None and probed.error:
            said = f"{probed.error}: {probed.fix}" if probed.fix else probed.error
            console.print(Text(said, style="red"), soft_wrap=True)
        deep = None if probed is None or probed.facts is None else probed.facts.python.deep
        if deep is not None and deep.error:
            console.print(Text(f"node {name}: torch: {deep.error}", style="red"), soft_wrap=True)
    orphans = [name for name, probed in found.items() if probed and probed.facts and probed.facts.orphans]
    if orphans:
        sys.stdout.flush()
        console.print(
            f"`torchdeck nodes clean {' '.join(orphans)}` ends what dead runs have left", soft_wrap=True
        )


def _document(probed: Probed | None) -> dict[str, Any]:
    if probed is None:
        return {}
    clock = probed.clock
    return {
        "node": probed.node,
        "reached": probed.facts is not None,
        "seconds": probed.seconds,
        "error": probed.error,
        "fix": probed.fix,
        "clock": None if clock is None else {"offset": clock.seconds, "error": clock.error},
        "facts": None if probed.facts is None else probed.facts.model_dump(mode="json"),
        "orphans": [] if probed.facts is None else [run.run_id for run in probed.facts.orphans],
    }


# Details of one node, as `torchdeck nodes probe NODE` prints them, one line per item.

LABELS = 14
"""Width of the label column, in characters."""


def sheet(probed: Probed, facts: NodeFacts) -> str:
    """Return everything that the node reported, as text."""
    lines, last = [f"{probed.node} is up, and answered in {probed.seconds:.2f} s"], ""
    for label, text in _lines(probed, facts):
        lines.append(f"{'' if label == last else label:<{LABELS}}{text}")
        last = label
    return "\n".join(lines)


def _lines(probed: Probed, facts: NodeFacts) -> Iterator[tuple[str, str]]:
    system, cpu, memory = facts.system, facts.cpu, facts.memory
    yield "system", f"{system.os}, kernel {system.kernel}, {system.machine}"
    own = facts.own_name
    how = "" if own.resolves else ", which takes long to look up" if own.slow else ", which does not resolve"
    yield "host", f"{own.name}{how}; user {system.user}"
    model = f", {cpu.model}" if cpu.model else ""
    yield "cpus", f"{cpu.usable} of {cpu.cores} cores usable{model}; load {cpu.load:.1f}"
    yield "memory", f"{size(memory.free)} of {size(memory.total)} free"
    yield "shared memory", f"{size(memory.shm_free)} of {size(memory.shm_total)} free"
    for disk in facts.disks:
        yield "disks", _disk(disk, facts.home)
    yield from (("gpus", text) for text in _gpu_lines(facts))
    for python in facts.pythons:
        yield "pythons", _python(python)
    for interface in facts.interfaces:
        yield "interfaces", _interface(interface)
    if probed.clock is not None:
        offset, error = probed.clock.seconds * 1e3, probed.clock.error * 1e3
        yield "clock", f"{offset:+.0f} ms against ours (± {error:.0f})"
    for run in facts.runs:
        state = "" if run.supervised else ", an orphan: no agent supervises it"
        pids = ", ".join(map(str, run.processes)) or "none"
        yield "runs", f"{run.run_id} of {run.user}, pids {pids}{state}"
    if facts.kills_after_logout:
        yield "login", "its login system kills processes when a session ends (KillUserProcesses=yes)"


def _disk(disk: Disk, home: str) -> str:
    notes = [f"{size(disk.free)} of {size(disk.total)} free"]
    notes += ["Torchdeck's home"] if disk.path == home else []
    notes += [] if disk.there else ["not made yet"]
    notes += [] if disk.writable else ["cannot be written"]
    return f"{disk.path}: {', '.join(notes)}"


def _gpu_lines(facts: NodeFacts) -> Iterator[str]:
    gpus = facts.gpu
    if gpus.driver:
        yield f"driver {gpus.driver}" + (f", for CUDA up to {gpus.cuda}" if gpus.cuda else "")
    if gpus.error:
        yield f"error: {gpus.error}"
    elif not gpus.devices:
        yield "none"
    for gpu in gpus.devices:
        yield f"{gpu.index}: {gpu.name}, {_gpu_memory(gpu)}{_users(gpu, facts)}"


def _gpu_memory(gpu: Gpu) -> str:
    return size(gpu.memory) if gpu.free is None else f"{size(gpu.free)} of {size(gpu.memory)} free"


def _users(gpu: Gpu, facts: NodeFacts) -> str:
    """Users of the GPU: processes, with their run and the memory they hold."""
    runs = {pid: run.run_id for run in facts.runs for pid in run.processes}
    users = []
    for user in gpu.users:
        notes = [f"run {runs[user.pid]}"] if user.pid in runs else []
        notes += [] if user.memory is None else [size(user.memory)]
        users.append(f"pid {user.pid}" + (f" ({', '.join(notes)})" if notes else ""))
    return f"; used by {', '.join(users)}" if users else ""


def _python(python: Python) -> str:
    said = [python.version] if python.version else []
    for name in ("torch", "numpy", "deepspeed", "cuda", "nccl"):
        known = getattr(python.deep, name, None) or getattr(python, name)
        said += (
            [f"{'CUDA' if name == 'cuda' else 'NCCL' if name == 'nccl' else name} {known}"] if known else []
        )
    said += [] if python.torch else ["no torch"]
    said += [f"error: {python.error}"] if python.error else []
    said += ["runs use this one"] if python.chosen else []
    return f"{python.executable}: {', '.join(said)}"


def _interface(interface: Interface) -> str:
    speed = f", {interface.speed:,} Mbit/s" if interface.speed else ""
    state = "" if interface.up else ", down"
    return f"{interface.name}: {', '.join(interface.addresses) or 'no address'}{speed}{state}"
