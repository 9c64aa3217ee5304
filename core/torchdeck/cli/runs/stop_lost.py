"""`torchdeck runs stop` of a lost run: what may still live on nodes that did not answer."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from torchdeck.cli.exit_codes import SUCCEEDED
from torchdeck.cli.json_text import json_text
from torchdeck.cli.refusals import refuse
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.links import UP, Links, read_links

if TYPE_CHECKING:
    from torchdeck.runs.view import RunView

REACH_LIMIT = 15.0
"""Seconds for a node to answer."""
END_LIMIT = 60.0
"""Seconds for what lives on a node that answers: its agent ends it at once."""
POLL = 0.2


def stop_lost(layout: RunLayout, view: RunView, args: argparse.Namespace) -> int:
    """Start the run's controller, which ends what is left; 0 once nothing is, else 3."""

    lost, over = ", ".join(view.unfenced), f"run {view.id} is {view.state} already"
    print(f"torchdeck: {over}; waiting for {lost}, on which it may live on", file=sys.stderr)
    try:
        left = _wait(layout, once=args.no_wait)
    except Refusal as error:
        return refuse([f"{over}; {error}"], as_json=args.json)
    if left and not args.no_wait:
        later = "what may run there is ended when it does, while this machine is on; else stop it again then"
        return refuse([f"{over}; {_unanswered(left, read_links(layout))}: {later}"], as_json=args.json)
    said = f"nothing of it lives on {lost}"
    if left:
        said = f"what may run on {', '.join(left)} is ended when it answers"
    print(json_text({"id": view.id, "why": said}) if args.json else f"{over}; {said}")
    return SUCCEEDED


def _wait(layout: RunLayout, *, once: bool) -> tuple[str, ...]:
    """Wait until the lost nodes have said that nothing of the run lives there; those that have not."""
    from torchdeck.launching.taking_over import RequestCarrier

    follower, carrier, begun = RunFollower(layout), RequestCarrier(layout), time.monotonic()
    while (view := follower.refresh()).unfenced:
        carrier.look(view)
        waited = time.monotonic() - begun
        away = [_away(node, follower.links, waited) for node in view.unfenced]
        if once or min(away) > REACH_LIMIT or waited > END_LIMIT:
            break
        time.sleep(POLL)
    return view.unfenced


def _unanswered(nodes: tuple[str, ...], links: Links | None) -> str:
    known = {} if links is None else links.nodes
    reasons = {node: f" ({state.why or state.state})" for node, state in known.items()}
    return ", ".join(f"{node} does not answer{reasons.get(node, '')}" for node in nodes)


def _away(node: str, links: Links | None, waited: float) -> float:
    """Seconds that a node has not answered, as far as is known; 0 while it does."""
    now = time.time()
    state = None if links is None or not links.is_fresh(now) else links.nodes.get(node)
    if state is None:
        return waited
    return 0.0 if state.state == UP else max(waited, now - state.since)
