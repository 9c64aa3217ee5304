"""Data movement caused by a change of world size."""

from __future__ import annotations

from dataclasses import dataclass

from torchdeck.data.ranges import DistributedRangeSplitter


@dataclass(frozen=True)
class Move:
    """Consecutive samples and their rank before and after; the same if they stay."""

    start: int
    stop: int
    """One past the last sample."""
    from_rank: int
    to_rank: int

    @property
    def samples(self) -> int:
        return self.stop - self.start

    @property
    def stays(self) -> bool:
        return self.from_rank == self.to_rank


@dataclass(frozen=True)
class Redistribution:
    """The rank of every sample before and after a change of world size."""

    total_samples: int
    old_world_size: int
    new_world_size: int
    parts: tuple[Move, ...]
    """Ranges in the order of samples, without gaps, including those that keep their rank."""

    @property
    def moves(self) -> tuple[Move, ...]:
        """The ranges that change their rank."""
        return tuple(part for part in self.parts if not part.stays)

    @property
    def moved_samples(self) -> int:
        return sum(move.samples for move in self.moves)

    def text(self) -> str:
        """The moves as text: a summary line, then one line per move."""
        summary = (
            f"{self.total_samples} samples from {self.old_world_size} to {self.new_world_size} ranks: "
            f"{self.moved_samples} move, {self.total_samples - self.moved_samples} stay"
        )
        lines = [
            f"samples {move.start} to {move.stop - 1}: rank {move.from_rank} to rank {move.to_rank}"
            for move in self.moves
        ]
        return "\n".join([summary, *lines])


def redistribution_report(total_samples: int, old_world_size: int, new_world_size: int) -> Redistribution:
    """Report which samples move if `total_samples` on `old_world_size` ranks are divided among
    `new_world_size`.

    Time and memory are proportional to old + new ranks, whatever the number of samples.

    Raises:
        ValueError: fewer than one sample or rank.
    """
    old = DistributedRangeSplitter(total_samples, old_world_size)
    new = DistributedRangeSplitter(total_samples, new_world_size)
    bounds = {part.start for splitter in (old, new) for part in splitter.get_all_ranges()}
    starts = sorted(bound for bound in bounds if bound < old.total_samples)
    stops = [*starts[1:], old.total_samples]
    parts = tuple(
        Move(start, stop, old.get_rank_for_sample(start), new.get_rank_for_sample(start))
        for start, stop in zip(starts, stops, strict=True)
    )
    return Redistribution(old.total_samples, old.world_size, new.world_size, parts)
