"""`torchdeck runs attach --node NODE`: a run that another machine has started."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from torchdeck.cli.nodes.chosen import chosen_nodes
from torchdeck.cli.nodes.lookup import NodesUsageError
from torchdeck.cli.nodes.lookup import says_what_is_wrong as says_what_is_wrong_with_nodes
from torchdeck.cli.progress_line import progress_line
from torchdeck.cli.refusals import print_pages, refuse
from torchdeck.cli.runs.start import watch_run
from torchdeck.cli.signals import FrontEndSignals
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout
    from torchdeck.nodes.connector import Connector

ATTACHING = "asking the run's nodes what they have of it"


@says_what_is_wrong_with_nodes
def attach_elsewhere(args: argparse.Namespace) -> int:
    """Make the run's directory here, begin to follow it, and watch; the exit code is the run's."""
    from torchdeck.launching.reattach import reattach

    chosen = chosen_nodes([args.node])
    if len(chosen.entries) != 1:
        raise NodesUsageError(f"{args.node} is more than one node; --node names one")
    reach = chosen.reach
    try:
        with progress_line(ATTACHING) as progress:
            layout, unreached = reattach(reach, next(iter(chosen.entries)), args.id, progress)
    except (Refusal, OSError) as error:
        if isinstance(error, Refusal) and not args.json:
            print_pages(error)
        return refuse([str(error)], as_json=args.json)
    for why in unreached.values():
        print(f"torchdeck: not here yet: {why}", file=sys.stderr)
    with FrontEndSignals(attached=True) as signals:
        try:
            controller = _controller(layout, reach)
        except Refusal as error:
            return refuse([str(error), *unreached.values()], as_json=args.json)
        return watch_run(layout, controller, signals, as_json=args.json)


def _controller(layout: RunLayout, reach: Connector) -> DetachedProcess | None:
    """One with the logins that were given; None where the run is over, or has one here."""
    from torchdeck.launching.launcher import start_controller
    from torchdeck.runs.follower import read_run

    found = read_run(layout)
    if found.is_over or found.controller_alive:
        return None
    return start_controller(layout, first=False, logins=reach.credentials.to_json())
