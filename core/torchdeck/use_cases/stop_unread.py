"""Stop a run whose journals cannot be read: by its processes, here and on its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal, SeveralRefusals
from torchdeck.launching.control.unread_stop import ask_to_stop, lives_here, wait_until_gone
from torchdeck.launching.node_stop import NodeStop, stop_on_nodes
from torchdeck.launching.requests import STOP, STOP_NOW
from torchdeck.use_cases.stop_request import Stopped, StopRequest
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.launching.requests import Request

LIMIT = 600.0
"""Seconds for ranks to save and end."""
HERE = "this machine"


def stop_unread(request: StopRequest, error: object, ui: Ui) -> Stopped:
    """Stop the run. Raises Refusal if nothing lived, or something may still live."""
    layout, run_id = request.layout, request.layout.root.name
    ui.note(f"the state of run {run_id} cannot be read: {error}")
    lived = lives_here(layout)
    try:
        written = ask_to_stop(layout, STOP_NOW if request.now else STOP, request.origin)
    except OSError as unwritten:
        raise Refusal(f"the request cannot be handed over: {unwritten}") from unwritten
    limit = LIMIT if request.wait else 0.0
    stops = (*_on_nodes(layout, written, limit, ui), *_here(layout, limit, ui, lived=lived))
    asked = ", ".join(stop.node for stop in stops if stop.lived)
    left = [stop for stop in stops if stop.why and not (stop.lived and not request.wait)]
    if left:
        raise SeveralRefusals(
            [Refusal(f"something of run {run_id} may live on {stop.node}: {stop.why}") for stop in left]
        )
    if not asked:
        raise Refusal(f"nothing of run {run_id} lives on {', '.join(stop.node for stop in stops)}")
    said = f"was stopped: nothing of it lives on {asked}" if request.wait else f"was asked to stop on {asked}"
    return Stopped(None, said, f"run {run_id} {said}")


def _here(layout: RunLayout, limit: float, ui: Ui, *, lived: bool) -> tuple[NodeStop, ...]:
    if lived and limit:
        ui.note(f"{HERE}: waiting for the run to end there")
    gone = not lived or wait_until_gone(layout, limit)
    return (NodeStop(HERE, lived, "" if gone else f"its processes live {limit:.0f} s after the request"),)


def _on_nodes(layout: RunLayout, request: Request, limit: float, ui: Ui) -> tuple[NodeStop, ...]:
    from torchdeck.runs.folders.node_parts import remote_nodes

    # without a readable plan, use nodes that have sent something
    sent = (path.name for path in layout.nodes.glob("*") if path.name != LOCALHOST)
    names = remote_nodes(layout) or tuple(sorted(sent))
    if not names:
        return ()
    connector = ui.connector(layout.home.root)
    return stop_on_nodes(layout.root.name, names, request, connector, limit, ui.note)
