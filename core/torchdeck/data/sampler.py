"""Which samples a rank sees in an epoch: torch's DistributedSampler without torch, or each exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any

import numpy as np

from torchdeck.data.checked import whole_number
from torchdeck.data.order import Ids, Position, PositionError, SampleOrder
from torchdeck.data.sampler_state import SamplerState
from torchdeck.data.torch_order import torch_permutation


class DistributedSampler:
    """The samples of one rank, epoch after epoch.

    By default its indices are those of torch.utils.data.DistributedSampler for the same arguments: the
    epoch's permutation is padded from its front until it can be divided evenly, or cut with `drop_last`; rank
    r takes positions r, r + W, … of it.

    With `exactly_once` nothing is padded or dropped: every sample is some rank's exactly once, and ranks may
    differ by one sample. The permutation is `SampleOrder`'s (no two (seed, epoch) share one, where torch's
    seed 1, epoch 0 is its seed 0, epoch 1), and a position saved at one world size goes on at any other.

    Args:
        dataset: the data set, of which only the length is asked, or how many samples it has.
        num_replicas: ranks.
        rank: this rank.
        shuffle: a new order every epoch; else in order of ids.
        seed: the same on every rank.
        drop_last: cut what cannot be divided evenly, instead of padding.
        exactly_once: see above.

    Raises:
        ValueError: an argument is out of range, or both drop_last and exactly_once are asked for.
    """

    def __init__(
        self,
        dataset: Sized | int,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,  # noqa: FBT001, FBT002 - torch's signature
        seed: int = 0,
        drop_last: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        *,
        exactly_once: bool = False,
    ) -> None:
        size = len(dataset) if isinstance(dataset, Sized) else dataset
        self.world_size = whole_number("num_replicas", num_replicas, 1)
        self.rank = whole_number("rank", rank, 0, self.world_size - 1, rule="num_replicas - 1")
        self.total_size = whole_number("the size of dataset", size, 1)
        if drop_last and exactly_once:
            raise ValueError("drop_last leaves samples out, exactly_once does not: ask for one of them")
        least = 0 if exactly_once else -(1 << 63)
        self.seed = whole_number("seed", seed, least, (1 << 64) - 1, rule="2**64 - 1")
        self.shuffle, self.drop_last, self.exactly_once = bool(shuffle), bool(drop_last), exactly_once
        self.epoch = 0
        # positions in the epoch's order, over all ranks: where the next iteration begins, where the one under
        # way began, and where that is now
        self._start = self._begun = self._consumed = 0

    @property
    def padded_size(self) -> int:
        """Samples that all ranks together see in an epoch; total_size where none is padded or dropped."""
        if self.exactly_once:
            return self.total_size
        if self.drop_last:
            return self.total_size // self.world_size * self.world_size
        return -(-self.total_size // self.world_size) * self.world_size

    @property
    def local_size(self) -> int:
        """Samples that this rank's next iteration yields: of the epoch, or of what a loaded state leaves."""
        return max(0, -(-(self.padded_size - self._start - self.rank) // self.world_size))

    @property
    def remaining(self) -> int:
        """Samples that all ranks' next iterations yield together."""
        return self.padded_size - self._start

    @property
    def position(self) -> Position:
        """Where the iteration under way is, when every rank has yielded as many samples as this one."""
        return Position(self.epoch, self._consumed)

    def __len__(self) -> int:
        return self.local_size

    def __iter__(self) -> Iterator[int]:
        """This rank's indices; what a loaded state has used already is left out once."""
        indices = self.get_indices().tolist()
        self._consumed = self._begun = self._start
        self._start = 0
        for index in indices:
            self._consumed = min(self._consumed + self.world_size, self.padded_size)
            yield index
        # a rank that has one sample less learns here that the others took their last
        self._consumed = self.padded_size

    def get_indices(self) -> Ids:
        """What the next iteration of this rank yields, shape (local_size,)."""
        return self._epoch_order()[self._start + self.rank :: self.world_size]

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch; a position loaded within that same epoch stays.

        Raises:
            ValueError: the epoch is negative.
        """
        epoch = whole_number("epoch", epoch, 0)
        if epoch != self.epoch:
            self.rewind(epoch)

    def rewind(self, epoch: int) -> None:
        """Go to the beginning of an epoch.

        Raises:
            ValueError: the epoch is negative.
        """
        self.epoch = whole_number("epoch", epoch, 0)
        self._start = self._begun = self._consumed = 0

    def state_dict(self, yielded: int | None = None) -> dict[str, Any]:
        """Where the iteration under way is, as JSON; the same on every rank that has yielded as much.

        Args:
            yielded: samples of the iteration under way that each rank has really used, where loaders have
                asked ahead for more (a rank that had none left counts as if it had); default: all that this
                rank was asked for.

        Raises:
            ValueError: `yielded` is more than there are.
        """
        return self._state(self.position if yielded is None else self.position_after(yielded)).to_json()

    def position_after(self, yielded: int) -> Position:
        """The position once every rank has used `yielded` samples of the iteration under way.

        Raises:
            ValueError: there are not that many.
        """
        most = -(-(self.padded_size - self._begun) // self.world_size)
        yielded = whole_number("yielded", yielded, 0, most, rule="what is left of the epoch")
        return Position(self.epoch, min(self._begun + yielded * self.world_size, self.padded_size))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was saved: the next iteration yields what is left of that epoch.

        Raises:
            PositionError: it is no state, of another data set, seed or kind of sampler, or, without
                exactly_once, of another world size.
        """
        saved = SamplerState.from_json(state)
        saved.check_against(self._state(self.position))
        if saved.position.consumed > self.padded_size:
            raise PositionError(
                f"the state says {saved.position.consumed} samples of the epoch are used, "
                f"of {self.padded_size}"
            )
        self.epoch = saved.position.epoch
        self._start = self._begun = self._consumed = saved.position.consumed

    def _state(self, position: Position) -> SamplerState:
        return SamplerState(
            position=position,
            total_samples=self.total_size,
            seed=self.seed,
            shuffle=self.shuffle,
            kind="exactly_once" if self.exactly_once else "drop_last" if self.drop_last else "padded",
            world_size=None if self.exactly_once else self.world_size,
        )

    def _epoch_order(self) -> Ids:
        """The epoch's samples in the order of all ranks, shape (padded_size,)."""
        if not self.shuffle:
            ids = np.arange(self.total_size, dtype=np.int64)
        elif self.exactly_once:
            ids = SampleOrder(self.total_size, self.seed).epoch(self.epoch)
        else:
            ids = torch_permutation(self.total_size, self.seed + self.epoch)
        # torch pads with the samples from the front, over and over again where these are not enough
        return np.resize(ids, self.padded_size)
