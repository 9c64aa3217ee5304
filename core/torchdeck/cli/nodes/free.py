"""`torchdeck nodes free`: GPUs that nothing uses, and the options with which a run takes them."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi

if TYPE_CHECKING:
    from torchdeck.nodes.free_gpus import Offer
    from torchdeck.use_cases.nodes.free_gpus import FoundGpus


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "free",
        help="show GPUs that nothing uses, here and on all nodes, or options with which a run takes some",
        description="A GPU is free if no process, no run and hardly any memory uses it. With COUNT the "
        "options are printed that take so many GPUs of one model, on as few nodes as possible. Exits with 3 "
        "if there are not that many.",
    )
    parser.add_argument("count", metavar="COUNT", nargs="?", type=int, help="how many GPUs to take")
    parser.add_argument("--gpu", metavar="MODEL", help='only GPUs of this model, such as "H100"')
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Print what is free; 3 if that is not enough."""
    from torchdeck.nodes.free_gpus import offer_of
    from torchdeck.use_cases.nodes.free_gpus import find_free_gpus

    home = nodes_home()
    found = find_free_gpus(TerminalUi().connector(home))
    offer = None if args.count is None else offer_of(found.nodes, args.count, args.gpu)
    if args.json:
        print(json_text(_document(found, offer), indent=1))
    elif args.count is None:
        _print_free(found, args.gpu)
    elif offer is None:
        of = f" {args.gpu}" if args.gpu else ""
        print(f"there are not {args.count} free{of} GPUs of one model at the same indices of some nodes")
    else:
        print(options_of(offer))
    return SUCCEEDED if args.count is None or offer is not None else REFUSED


def options_of(offer: Offer) -> str:
    """Return the options with which a run takes `offer`."""
    from torchdeck.config.problems import shown
    from torchdeck.nodes.free_gpus import changes

    given = ((key, value) for key, value in changes(offer) if value is not None)
    return " ".join(f"--set {shlex.quote(f'{key}={shown(value, 10_000)}')}" for key, value in given)


def _print_free(found: FoundGpus, model: str | None) -> None:
    lines = [
        f"{node.name}  {name}  {', '.join(map(str, sorted(node.indices(name))))}"
        for node in found.nodes
        for name in dict.fromkeys(gpu.model for gpu in node.gpus)
        if model in (None, name)
    ]
    for text in lines or ["no GPU is free"]:
        print(text)
    for problem in found.problems:
        print(f"not asked: {problem}")


def _document(found: FoundGpus, offer: Offer | None) -> dict[str, Any]:
    nodes = [
        {"node": node.name, "gpus": [{"index": gpu.index, "model": gpu.model} for gpu in node.gpus]}
        for node in found.nodes
    ]
    taken = None if offer is None else {"nodes": list(offer.nodes), "devices": list(offer.devices)}
    return {"nodes": nodes, "problems": list(found.problems), "take": taken}
