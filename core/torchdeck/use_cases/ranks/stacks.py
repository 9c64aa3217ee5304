"""Ask what all ranks of a run are doing: their stacks and collectives, written into the run directory."""

from __future__ import annotations

import time

from torchdeck.contract.layout import RunLayout
from torchdeck.launching.requests import STACKS
from torchdeck.runs.examination import Examination, answered
from torchdeck.use_cases.ranks.asked_ranks import POLL, AskedRanks
from torchdeck.use_cases.ui import Ui

LIMIT = 60.0
"""Seconds until the leader has answered; it takes some five."""
COPY_LIMIT = 20.0
"""Seconds for the evidence of other nodes to be copied here."""


def ask_for_stacks(layout: RunLayout, origin: str, ui: Ui) -> Examination:
    """Have all ranks examined, and wait for it.

    Args:
        layout: the run.
        origin: `terminal`, `window` or `api`.
        ui: for logins, and to cancel.

    Raises:
        Refusal: the run is over or only watched, the request cannot be delivered, or no answer comes.
    """
    asked = AskedRanks(layout, STACKS, origin, ui, "its stacks cannot be shown")
    begun = time.monotonic()
    while (found := answered(layout, asked.request.id)) is None:
        asked.wait("the ranks were examined", begun + LIMIT)
    until = time.monotonic() + COPY_LIMIT
    while found.missing and time.monotonic() < until:
        ui.check()
        time.sleep(POLL)
    return found._replace(run_id=asked.view.id, code_folder=asked.view.code_folder)
