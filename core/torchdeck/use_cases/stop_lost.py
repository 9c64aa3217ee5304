"""Stop a lost run: what may still live on nodes that did not answer."""

from __future__ import annotations

import time

from torchdeck.contract.refusal import Refusal
from torchdeck.launching.taking_over import RequestCarrier
from torchdeck.runs.follower import RunFollower
from torchdeck.runs.links import UP, Links, read_links
from torchdeck.runs.view import RunView
from torchdeck.use_cases.logins import given_logins
from torchdeck.use_cases.stop_request import Stopped, StopRequest
from torchdeck.use_cases.ui import Ui

REACH_LIMIT = 15.0
"""Seconds for a node to answer."""
END_LIMIT = 60.0
"""Seconds for processes on a node that answers: its agent ends them at once."""
POLL = 0.2


def stop_lost(request: StopRequest, view: RunView, ui: Ui) -> Stopped:
    """Start the run's controller, which ends what is left. Raises Refusal if something may still live."""
    lost, over = ", ".join(view.unfenced), f"run {view.id} is {view.state} already"
    ui.note(f"{over}; waiting for {lost}, on which it may live on")
    try:
        left = _wait(request, ui)
    except Refusal as error:
        raise Refusal(f"{over}; {error}") from error
    if left and request.wait:
        later = "what may run there is ended when it does, while this machine is on; else stop it again then"
        raise Refusal(f"{over}; {_unanswered(left, read_links(request.layout))}", fix=later)
    said = f"nothing of it lives on {lost}"
    if left:
        said = f"what may run on {', '.join(left)} is ended when it answers"
    return Stopped(None, said, f"{over}; {said}")


def _wait(request: StopRequest, ui: Ui) -> tuple[str, ...]:
    """Wait until the lost nodes have reported that nothing of the run lives there; return those that have
    not.
    """
    layout = request.layout
    given = given_logins(layout, ui) if request.ask else dict
    follower, carrier, begun = RunFollower(layout), RequestCarrier(layout, given), time.monotonic()
    while (view := follower.refresh()).unfenced:
        carrier.look(view)
        waited = time.monotonic() - begun
        away = [_away(node, follower.links, waited) for node in view.unfenced]
        if not request.wait or min(away) > REACH_LIMIT or waited > END_LIMIT:
            break
        ui.check()
        time.sleep(POLL)
    if carrier.started is not None:
        ui.adopt(carrier.started)
    return view.unfenced


def _unanswered(nodes: tuple[str, ...], links: Links | None) -> str:
    known = {} if links is None else links.nodes
    reasons = {node: f" ({state.why or state.state})" for node, state in known.items()}
    return ", ".join(f"{node} does not answer{reasons.get(node, '')}" for node in nodes)


def _away(node: str, links: Links | None, waited: float) -> float:
    """Return for how many seconds a node has not answered, as far as is known; 0 while it does."""
    now = time.time()
    state = None if links is None or not links.is_fresh(now) else links.nodes.get(node)
    if state is None:
        return waited
    return 0.0 if state.state == UP else max(waited, now - state.since)
