"""Lost runs keep a controller until all that may still live of them has ended, whoever views them."""

from __future__ import annotations

import sys

from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.view import RunView


def keep_fencing(layout: RunLayout, view: RunView) -> None:
    """Start a controller for a lost run with nodes that have not answered, if it has none.

    Nodes that were removed from the node inventory are gone for good.
    """
    if not view.unfenced or not view.is_over or view.controller_alive:
        return
    from torchdeck.nodes.inventory.file import inventory_path, read_inventory
    from torchdeck.use_cases.attach import ensure_controller

    try:
        if read_inventory(inventory_path(layout.home.root)).nodes.keys() >= set(view.unfenced):
            ensure_controller(layout)
    except Refusal as error:
        print(f"torchdeck: run {view.id} has no controller: {error}", file=sys.stderr)
