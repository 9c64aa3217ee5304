"""Stopping a run whose journals cannot be read: by its requests' folders and its processes alone."""

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

    An agent takes a request that comes twice as one.

    Raises:
        OSError: it cannot be written.
    """
    request = write_request(layout, kind, origin)
    inbox = layout.node(LOCALHOST).inbox
    if inbox.is_dir():
        page_request(inbox, request)
    return request


def lives_here(layout: RunLayout) -> bool:
    """Whether processes of the run, or its agent, live on this machine."""
    return is_held(layout.node(LOCALHOST).lock) or bool(processes_of_run(layout.root.name))


def wait_until_gone(layout: RunLayout, limit: float) -> bool:
    """Wait at most `limit` seconds until nothing of the run lives on this machine; whether that is so."""
    return wait_for(lambda: not lives_here(layout), limit, _POLL)
