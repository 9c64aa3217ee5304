"""`torchdeck runs stop` of a run whose journals cannot be read: by its processes, here and on its nodes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from torchdeck.cli.exit_codes import SUCCEEDED
from torchdeck.cli.json_text import json_text
from torchdeck.cli.refusals import refuse
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout

if TYPE_CHECKING:
    from torchdeck.launching.node_stop import NodeStop
    from torchdeck.launching.requests import Request

LIMIT = 600.0
"""Seconds for ranks to save and end."""
HERE = "this machine"


def stop_unread(layout: RunLayout, args: argparse.Namespace, error: object) -> int:
    """Stop the run; 0 once nothing of it lives, 3 if nothing lived or something may still live."""
    from torchdeck.launching.control.unread_stop import ask_to_stop, lives_here
    from torchdeck.launching.requests import STOP, STOP_NOW

    run_id = layout.root.name
    _note(f"the state of run {run_id} cannot be read: {error}")
    lived = lives_here(layout)
    try:
        request = ask_to_stop(layout, STOP_NOW if args.now else STOP, "terminal")
    except OSError as unwritten:
        return refuse([f"the request cannot be handed over: {unwritten}"], as_json=args.json)
    limit = 0.0 if args.no_wait else LIMIT
    stops = (*_on_nodes(layout, request, limit), *_here(layout, limit, lived=lived))
    asked = ", ".join(stop.node for stop in stops if stop.lived)
    left = [stop for stop in stops if stop.why and not (args.no_wait and stop.lived)]
    if left or not asked:
        problems = [f"something of run {run_id} may live on {stop.node}: {stop.why}" for stop in left]
        places = ", ".join(stop.node for stop in stops)
        return refuse(problems or [f"nothing of run {run_id} lives on {places}"], as_json=args.json)
    said = f"was asked to stop on {asked}" if args.no_wait else f"was stopped: nothing of it lives on {asked}"
    print(json_text({"id": run_id, "why": said}) if args.json else f"run {run_id} {said}")
    return SUCCEEDED


def _here(layout: RunLayout, limit: float, *, lived: bool) -> tuple[NodeStop, ...]:
    from torchdeck.launching.control.unread_stop import wait_until_gone
    from torchdeck.launching.node_stop import NodeStop

    if lived and limit:
        _note(f"{HERE}: waiting for the run to end there")
    gone = not lived or wait_until_gone(layout, limit)
    return (NodeStop(HERE, lived, "" if gone else f"its processes live {limit:.0f} s after the request"),)


def _on_nodes(layout: RunLayout, request: Request, limit: float) -> tuple[NodeStop, ...]:
    """Nothing is imported for a run of this machine alone; a person may be asked for logins."""
    from torchdeck.runs.folders.node_parts import remote_nodes

    # without a readable plan, nodes that have sent something
    sent = (path.name for path in layout.nodes.glob("*") if path.name != LOCALHOST)
    names = remote_nodes(layout) or tuple(sorted(sent))
    if not names:
        return ()
    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.cli.nodes.chosen import InTurn
    from torchdeck.launching.node_stop import stop_on_nodes
    from torchdeck.nodes.connector import Connector

    home = layout.home.root
    reach = Connector(home, InTurn(terminal_asker(home)))
    return stop_on_nodes(layout.root.name, names, request, reach, limit, _note)


def _note(text: str) -> None:
    print(f"torchdeck: {text}", file=sys.stderr)
