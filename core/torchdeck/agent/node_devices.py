"""The devices of a run on one node: leased as its gang orders."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchdeck.agent.gang import events
from torchdeck.agent.leases import Leases
from torchdeck.contract.journal import JournalWriter
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.plan.elastic import Place
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.contract.processes import ProcessIdentity


class NodeDevices:
    """Leases as the gang orders and hears of them.

    Attributes:
        leases: of the devices in `names`.
        names: what the current attempt uses, at first what the plan of full size does.
    """

    def __init__(self, layout: RunLayout, plan: LaunchPlan, node: str, journal: JournalWriter) -> None:
        self.names = list(plan.node(node).devices)
        self.leases = Leases(layout.home.leases, self.names, layout.root.name, plan.name)
        self._node = node
        self._planned = plan.node(node).devices
        self._journal = journal
        self._lost: list[str] = []

    def acquire(self) -> events.Event:
        """Lease all or none, and journal it."""
        held_by = self.leases.acquire()
        if held_by:
            return events.LeasesHeld(self._node, tuple(held_by))
        if self.names:
            self._journal.append("leased", devices=self.names)
        return events.LeasesGranted(self._node)

    def retake(self) -> None:
        """Take the shim's leases in this process; a lease that another process took first is only noted."""
        held_by = self.leases.acquire()
        self._lost = [held["device"] for held in held_by]
        if held_by:
            print(f"leases lost to another run: {held_by}", file=sys.stderr, flush=True)

    def retake_if_free(self, holder: ProcessIdentity | None) -> None:
        """After a take-over: the old shim keeps the leases while it lives, then this process takes them."""
        if not self.leases.held and (holder is None or not holder.is_alive()):
            self.retake()

    def narrow(self, names: Sequence[str]) -> None:
        """Use no more than `names` from now on; the others are free for others."""
        self.names = list(names)
        self.leases.narrow(self.names)

    def problem(self, gone: Sequence[str]) -> tuple[str, Place | None] | None:
        """Return why no attempt can start on them, and whose the device is; None if one can.

        Args:
            gone: devices that the driver lists no more.
        """
        if gone:
            return f"GPU {gone[0]} is gone: nvidia-smi no longer lists it", self._place(gone[0])
        if not self.leases.held:
            why = f"another run has taken device {', '.join(self._lost)} in the meantime"
            return why, self._place(self._lost[0])
        return None

    def _place(self, device: str) -> Place | None:
        """Return the place of the device, by the plan of full size."""
        return Place(self._node, self._planned.index(device)) if device in self._planned else None
