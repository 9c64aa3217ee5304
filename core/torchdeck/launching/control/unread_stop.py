"""Stops a run whose journals cannot be read, using only its request folders and processes."""

from __future__ import annotations

from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.lock_file import is_held
from torchdeck.contract.processes import processes_of_run
from torchdeck.contract.waiting import wait_for
from torchdeck.launching.requests import Request, page_request, write_request

_POLL = 0.1


def ask_to_stop(layout: RunLayout, kind: str, origin: str) -> Request:
    """Write the request for the controller, and for this machine's agent, which may have no controller.

    An agent treats a duplicate request as one.

    Raises:
        OSError: it cannot be written.
    """
    request = write_request(layout, kind, origin)
    inbox = layout.node(LOCALHOST).inbox
    if inbox.is_dir():
        page_request(inbox, request)
    return request


def lives_here(layout: RunLayout) -> bool:
    """Return whether processes of the run, or its agent, are alive on this machine."""
    return is_held(layout.node(LOCALHOST).lock) or bool(processes_of_run(layout.root.name))


def wait_until_gone(layout: RunLayout, limit: float) -> bool:
    """Wait at most `limit` seconds until no process of the run is alive on this machine; return whether that
    is so.
    """
    return wait_for(lambda: not lives_here(layout), limit, _POLL)
