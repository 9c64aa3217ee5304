"""`torchdeck nodes end`: end a process that uses a GPU."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED
from torchdeck.cli.terminal_ui import TerminalUi

if TYPE_CHECKING:
    from torchdeck.use_cases.nodes.gpu_watch import GpusSeen
    from torchdeck.use_cases.nodes.gpus import EndRequest


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "end",
        help="end a process that uses a GPU of a node, after asking",
        description="Sends SIGTERM, and SIGKILL 5 s later, to that process alone. Refuses processes of runs "
        "(stop the run), of other users unless you are root there, and processes without a GPU.",
    )
    parser.add_argument("node", metavar="NODE", help="a node's name, or localhost for this machine")
    parser.add_argument("pid", metavar="PID", type=int, help="as `torchdeck nodes gpus --json` lists it")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Find the process, show it, ask and end it; 3 if it was not ended."""
    from torchdeck.contract.refusal import Refusal
    from torchdeck.nodes.gpus.gpu_words import LOSS, process_words
    from torchdeck.use_cases.nodes.gpu_watch import GpuWatch, choose_gpu_nodes
    from torchdeck.use_cases.nodes.gpus import EndRefusal, end_process, end_words, refuse_end

    nodes = choose_gpu_nodes([args.node], nodes_home(), TerminalUi())
    watch = GpuWatch(nodes)
    try:
        seen = watch.first()
    finally:
        watch.close()
    if seen.problems:
        raise Refusal(seen.problems[0][1])
    request = _request(seen, args.pid)
    if request is None:
        raise EndRefusal(f"no process {args.pid} uses a GPU of {args.node}")
    refuse_end(request.process)
    print(process_words(request.process, request.node), file=sys.stderr)
    if not args.yes and not _agreed(LOSS):
        return REFUSED
    result = end_process(request, nodes.chosen.connector)
    print(end_words(request, result))
    return REFUSED if result.outcome in ("refused", "left") else SUCCEEDED


def _request(seen: GpusSeen, pid: int) -> EndRequest | None:
    from torchdeck.use_cases.nodes.gpus import EndRequest

    found = ((gpu, each) for gpu in seen.gpus for each in gpu.processes or () if each.pid == pid)
    return next((EndRequest(gpu.node, each) for gpu, each in found), None)


def _agreed(what: str) -> bool:
    if not sys.stdin.isatty():
        print("torchdeck: no terminal to ask on; --yes ends it", file=sys.stderr)
        return False
    print(f"{what}\nEnd it? (yes/no) ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("yes", "y")
