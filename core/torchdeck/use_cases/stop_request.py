"""Asking a run to stop, and seeing to it that the request arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal
from torchdeck.launching.requests import STOP, STOP_NOW, write_request
from torchdeck.launching.taking_over import RequestCarrier, take_up
from torchdeck.runs.folders.node_parts import remote_nodes
from torchdeck.use_cases.logins import given_logins, logins_of
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.view import RunView


@dataclass(frozen=True)
class StopRequest:
    """Request to stop a run."""

    layout: RunLayout
    origin: str
    """Origin of the request: `terminal`, `window`, `api`."""
    now: bool = False
    """End every process; else the step is finished and saved."""
    wait: bool = True
    """Return when the run is over."""
    ask: bool = True
    """Ask for logins if a controller has to be started; else it does without."""


@dataclass(frozen=True)
class Stopped:
    """Result of a stop request."""

    view: RunView | None
    """The run afterwards; None if it could not be read, or was over before: then `said` says it all."""
    said: str = ""
    sentence: str = ""
    """`said` with the run it is about."""
    unstopped: str = ""
    """Why nothing was stopped; empty if the run was, or is going to be."""


class PendingStop:
    """A request that is written: whoever asked looks at it again and again until an agent has it.

    Args:
        layout: of the run.
        request_id: of the request.
        kind: `stop` or `stop_now`.
        carrier: starts a controller if there is none to forward the request.
    """

    def __init__(self, layout: RunLayout, request_id: str, kind: str, carrier: RequestCarrier) -> None:
        self.layout = layout
        self.request_id = request_id
        self.kind = kind
        self._carrier = carrier

    def look(self, view: RunView) -> None:
        """See to it that the request arrives. Raises Refusal."""
        self._carrier.look(view)


def request_stop(request: StopRequest, ui: Ui) -> PendingStop:
    """Ask a run to stop, and do not wait for it.

    Raises:
        Refusal: the request cannot be written, or no controller can be started.
    """
    layout, started = request.layout, None
    if request.ask and remote_nodes(layout):
        # first, as it may be refused or cancelled: a request that is there already would be forwarded by
        # whatever controller comes next
        started = take_up(layout, logins_of(layout, ui))
        if started is not None:
            ui.adopt(started)
    kind = STOP_NOW if request.now else STOP
    try:
        written = write_request(layout, kind, request.origin)
    except OSError as error:
        raise Refusal(f"the request cannot be handed over: {error}") from error
    given = given_logins(layout, ui) if request.ask else dict
    return PendingStop(layout, written.id, kind, RequestCarrier(layout, given, started))
