"""State of one rank's process, processor and GPU, for a comparison with other ranks. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.doctor.arrivals import RankArrivals


class PlaceShare(NamedTuple):
    """A line of the program, and how often the main thread was there."""

    place: str
    """`train.py:31 augment`."""
    share: float
    """From 0 to 1."""


class RankFacts(NamedTuple):
    """Facts of the last half minute; None or empty: not known. Shares are from 0 to 1."""

    rank: int
    step: int | None = None
    stolen: float | None = None
    """Share of the time that its busiest thread could run and other processes had the processor."""
    steal: float | None = None
    """Share of the node's processor time that the hypervisor gave to other machines."""
    throttled: float | None = None
    """Share of the time that the CPU limit of its control group stopped it."""
    frequency: float | None = None
    """MHz of the processors that its threads were on."""
    faults: float | None = None
    """Pages per second that it had to wait for from disk."""
    loading: float | None = None
    """Share of the time that its main thread was loading data."""
    places: tuple[PlaceShare, ...] = ()
    """Lines of its own where it most often was while it neither waited nor loaded data."""
    gpu_clock: float | None = None
    """MHz."""
    gpu_temperature: float | None = None
    """Degrees Celsius."""
    gpu_power_limit: float | None = None
    """Watts."""
    pcie_width: float | None = None
    """Lanes."""


class StragglerReport(NamedTuple):
    """Report of one rank: its arrivals, by the leader's clock, and what it is like."""

    facts: RankFacts
    arrivals: RankArrivals
