"""Samples of a rank in an epoch: torch's DistributedSampler without torch, or each sample exactly once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sized
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.data.checked import whole_number
from torchdeck.data.order import Ids, Position, PositionError, SampleOrder
from torchdeck.data.spellings import SAMPLER, SamplerSpelling
from torchdeck.environment import Place

if TYPE_CHECKING:
    from typing_extensions import Unpack


class DistributedSampler:
    """Samples of one rank, epoch by epoch.

    By default its indices are those of torch.utils.data.DistributedSampler for the same arguments: the
    permutation of the epoch is padded from its start until it divides evenly, or truncated with
    `drop_last`; rank r takes positions r, r + W, … of it.

    With `exactly_once` nothing is padded or dropped: every sample belongs to exactly one rank, and ranks
    may differ by one sample. The permutation is that of `SampleOrder` (no two (seed, epoch) share one, while
    torch's seed 1, epoch 0 equals its seed 0, epoch 1), and a position saved at one world size is valid at
    any other.

    Args:
        dataset: the data set, of which only the length is used, or its number of samples.
        num_replicas: number of ranks. Default: that of the process group, else of the launcher's variables;
            1 in a single process.
        rank: this rank. Default: as for `num_replicas`.
        shuffle: use a new order in every epoch; else the order of ids.
        seed: the same on every rank.
        drop_last: drop samples that do not divide evenly, instead of padding.
        exactly_once: see above.

    Raises:
        ArgumentError: an argument is out of range, or both drop_last and exactly_once are set.
        LauncherVariableError: the launcher's variables contradict each other.
    """

    @arguments(also=SAMPLER, own_checks=True)
    def __init__(
        self,
        dataset: Sized | int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,  # noqa: FBT001, FBT002 - torch's signature
        seed: int = 0,
        drop_last: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        *,
        exactly_once: bool = False,
        **_: Unpack[SamplerSpelling],
    ) -> None:
        place = None if num_replicas is not None and rank is not None else _this_place()
        self.dataset = dataset
        self.dataset_size = _size_of(dataset)
        world_size = place.world_size if place and num_replicas is None else num_replicas
        rank = place.rank if place and rank is None else rank
        self.num_replicas = whole_number("num_replicas", world_size, 1)
        self.rank = whole_number("rank", rank, 0, self.num_replicas - 1, rule="num_replicas - 1")
        if drop_last and exactly_once:
            raise ArgumentError(
                "drop_last leaves samples out, exactly_once does not", fix="ask for one of them"
            )
        least = 0 if exactly_once else -(1 << 63)
        self.seed = whole_number("seed", seed, least, (1 << 64) - 1, rule="2**64 - 1")
        self.shuffle, self.drop_last, self.exactly_once = bool(shuffle), bool(drop_last), exactly_once
        self.epoch = 0
        # positions in the epoch's order, over all ranks: the start of the next iteration, the start of the
        # current one, and its current position
        self._start = self._begun = self._consumed = 0

    @property
    def world_size(self) -> int:
        """Number of ranks, as `num_replicas`."""
        return self.num_replicas

    @property
    def total_size(self) -> int:
        """Samples per epoch of all ranks, padded or cut; `dataset_size` with `exactly_once`."""
        if self.exactly_once:
            return self.dataset_size
        if self.drop_last:
            return self.dataset_size // self.num_replicas * self.num_replicas
        return -(-self.dataset_size // self.num_replicas) * self.num_replicas

    @property
    def num_samples(self) -> int:
        """Samples per epoch of this rank."""
        return max(0, -(-(self.total_size - self.rank) // self.num_replicas))

    @property
    def local_size(self) -> int:
        """Number of samples that the next iteration of this rank yields."""
        return max(0, -(-(self.total_size - self._start - self.rank) // self.world_size))

    @property
    def remaining(self) -> int:
        """Number of samples that the next iterations of all ranks yield together."""
        return self.total_size - self._start

    @property
    def position(self) -> Position:
        """The position of the current iteration, once every rank has yielded as many samples as this one."""
        return Position(self.epoch, self._consumed)

    def __len__(self) -> int:
        return self.local_size

    def __iter__(self) -> Iterator[int]:
        """Yield this rank's indices; samples used before a loaded state are skipped once."""
        indices = self.get_indices().tolist()
        self._consumed = self._begun = self._start
        self._start = 0
        for index in indices:
            self._consumed = min(self._consumed + self.world_size, self.total_size)
            yield index
        # a rank with one sample less learns here that the others took their last
        self._consumed = self.total_size

    def get_indices(self) -> Ids:
        """The indices that the next iteration of this rank yields, shape (local_size,)."""
        return self._epoch_order()[self._start + self.rank :: self.world_size]

    @arguments(own_checks=True)
    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch. A position loaded within the same epoch stays valid.

        Raises:
            ValueError: the epoch is negative.
        """
        epoch = whole_number("epoch", epoch, 0)
        if epoch != self.epoch:
            self.rewind(epoch)

    @arguments(own_checks=True)
    def rewind(self, epoch: int) -> None:
        """Go to the start of an epoch.

        Raises:
            ValueError: the epoch is negative.
        """
        self.epoch = whole_number("epoch", epoch, 0)
        self._start = self._begun = self._consumed = 0

    @arguments(own_checks=True)
    def state_dict(self, yielded: int | None = None) -> dict[str, Any]:
        """The current position as JSON; the same on every rank that has yielded as many samples.

        Args:
            yielded: samples of the current iteration that each rank has really used, if loaders have
                prefetched more (a rank without samples left counts the same). Default: all samples that this
                rank was asked for.

        Raises:
            ValueError: `yielded` is more than there are.
        """
        return self._state(self.position if yielded is None else self.position_after(yielded)).to_json()

    @arguments(own_checks=True)
    def position_after(self, yielded: int) -> Position:
        """The position after every rank has used `yielded` samples of the current iteration.

        Raises:
            ValueError: there are fewer samples.
        """
        most = -(-(self.total_size - self._begun) // self.world_size)
        yielded = whole_number("yielded", yielded, 0, most, rule="what is left of the epoch")
        return Position(self.epoch, min(self._begun + yielded * self.world_size, self.total_size))

    @arguments(own_checks=True)
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state: the next iteration yields the rest of that epoch.

        Raises:
            PositionError: it is not a state, or is from another data set, seed or kind of sampler, or,
                without exactly_once, from another world size.
        """
        saved = SamplerState.from_json(state)
        saved.check_against(self._state(self.position))
        if saved.position.consumed > self.total_size:
            raise PositionError(
                f"the state says {saved.position.consumed} samples of the epoch are used, "
                f"of {self.total_size}"
            )
        self.epoch = saved.position.epoch
        self._start = self._begun = self._consumed = saved.position.consumed

    def _state(self, position: Position) -> SamplerState:
        return SamplerState(
            position=position,
            total_samples=self.dataset_size,
            seed=self.seed,
            shuffle=self.shuffle,
            kind="exactly_once" if self.exactly_once else "drop_last" if self.drop_last else "padded",
            world_size=None if self.exactly_once else self.world_size,
        )

    def _epoch_order(self) -> Ids:
        """Return the epoch's samples in the order of all ranks, shape (total_size,)."""
        if not self.shuffle:
            ids = np.arange(self.dataset_size, dtype=np.int64)
        elif self.exactly_once:
            ids = SampleOrder(self.dataset_size, self.seed).epoch(self.epoch)
        else:
            ids = torch_permutation(self.dataset_size, self.seed + self.epoch)
        # torch pads with the samples from the front, repeatedly if these are not enough
        return np.resize(ids, self.total_size)


def _size_of(dataset: object) -> int:
    if dataset is None or isinstance(dataset, (str, bytes)):
        raise ArgumentError(
            f"dataset is {shown(dataset)}", fix="expected a data set with a length, or its size"
        )
    size = len(dataset) if isinstance(dataset, Sized) else dataset
    return whole_number("the size of dataset", size, 1)


def _this_place() -> Place:
    """Return the rank in the process group, if torch is imported and there is one; else as launched."""
    dist: Any = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        rank, world_size = dist.get_rank(), dist.get_world_size()
        return Place(rank, world_size, rank, world_size)
    return Place.from_env()


_KINDS = ("exactly_once", "padded", "drop_last")


@dataclass(frozen=True)
class SamplerState:
    """A position in the order of one data set.

    Attributes:
        position: independent of world size with `exactly_once`; otherwise in the padded or cut order.
        total_samples: samples in the data set.
        seed: seed of the order.
        shuffle: whether the order is shuffled.
        kind: "exactly_once", "padded" or "drop_last".
        world_size: ranks, if the order depends on it; otherwise None.
    """

    position: Position
    total_samples: int
    seed: int
    shuffle: bool
    kind: str
    world_size: int | None

    def to_json(self) -> dict[str, Any]:
        return {"v": 1, **asdict(self), "position": self.position.to_json()}

    @classmethod
    def from_json(cls, value: Any) -> SamplerState:
        """Return the state in `value`.

        Raises:
            PositionError: it is not a state, or one of a newer Torchdeck.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or "position" not in value:
            raise PositionError(f"the state of a sampler is an object with a position, not {value!r}")
        if value.get("v") != 1:
            raise PositionError(
                f"sampler state has version {value.get('v')!r}; this Torchdeck reads version 1"
            )
        wrong = sorted(map(str, set(value) ^ {"v", *names}))
        if wrong:
            raise PositionError(f"sampler state has unknown or missing fields: {', '.join(wrong)}")
        world_size = value["world_size"]
        if type(value["shuffle"]) is not bool or value["kind"] not in _KINDS:
            raise PositionError(f"sampler state has shuffle {value['shuffle']!r} and kind {value['kind']!r}")
        for name in ("total_samples", "seed", *(() if world_size is None else ("world_size",))):
            if type(value[name]) is not int:
                raise PositionError(f"{name} of a sampler state must be a whole number, not {value[name]!r}")
        return cls(
            **{**{name: value[name] for name in names}, "position": Position.from_json(value["position"])}
        )

    def check_against(self, current: SamplerState) -> None:
        """Raise PositionError unless `current`, the state of the target sampler, is in the same order."""
        for name in ("kind", "total_samples", "shuffle", "seed", "world_size"):
            saved, ours = getattr(self, name), getattr(current, name)
            if name == "seed" and not self.shuffle:
                continue
            if saved != ours:
                advice = ": only an exactly_once sampler can change it" if name == "world_size" else ""
                raise PositionError(
                    f"the sampler's state was saved with {name} {saved!r}, this sampler has {ours!r}{advice}"
                )


# torch.randperm without torch: the permutation its CPU generator gives for a seed. The generator is MT19937
# (Matsumoto & Nishimura, ACM TOMACS 8(1), 1998), seeded by the low 32 bits of the seed as in the authors'
# `init_genrand` of 2002. torch's shuffle (`randperm_cpu` in ATen/native/TensorFactories.cpp) is a
# Fisher–Yates forward from position 0, and from 2³²/20 elements on the "inside-out" one with 64 bits per
# draw. Only raw bits of numpy's MT19937 are used, so no numpy version changes the result.

SWITCH = (2**32 - 1) // 20
"""Elements from which torch shuffles inside-out; torch 2.10 and newer."""

_CHUNK = 1 << 20
_SMALLEST_BLOCK = 32


def torch_permutation(size: int, seed: int) -> Ids:
    """Return `torch.randperm(size, generator=torch.Generator().manual_seed(seed))` as on a CPU, shape
    (size,).

    Raises:
        ValueError: size is negative, or seed is one that torch refuses.
    """
    if size < 0:
        raise ArgumentError(f"a permutation of {size} elements is none", fix="expected a size from 0")
    if not -(1 << 63) <= seed < 1 << 64:
        raise ArgumentError(f"seed {seed} is out of range", fix="it must be from -2**63 to 2**64 - 1")
    generator = _seeded(seed & 0xFFFFFFFF)
    partners = _forward_partners if size < SWITCH else _inside_out_partners
    values = np.arange(size, dtype=np.int64)
    position = 0
    for chunk in partners(generator, size):
        _swap_in_order(values, position, chunk)
        position += len(chunk)
    return values


def _seeded(seed: int) -> np.random.MT19937:
    key = [seed]
    for index in range(1, 624):
        key.append((1812433253 * (key[-1] ^ key[-1] >> 30) + index) & 0xFFFFFFFF)
    generator = np.random.MT19937(0)
    generator.state = {
        "bit_generator": "MT19937",
        "state": {"key": np.array(key, dtype=np.uint32), "pos": 624},
    }
    return generator


def _forward_partners(generator: np.random.MT19937, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the swap partner of position 0, 1, …: itself or a later one; 32 bits."""
    for start in range(0, size - 1, _CHUNK):
        positions = np.arange(start, min(start + _CHUNK, size - 1), dtype=np.int64)
        draws = generator.random_raw(len(positions)).astype(np.int64)
        yield positions + draws % (size - positions)


def _inside_out_partners(generator: np.random.MT19937, size: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the swap partner of position 0, 1, …: itself or an earlier one; 64 bits, high half first."""
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        halves = generator.random_raw(2 * (stop - start))
        draws = halves[0::2] << np.uint64(32) | halves[1::2]
        yield (draws % np.arange(start + 1, stop + 1, dtype=np.uint64)).astype(np.int64)


def _swap_in_order(values: Ids, first: int, partners: npt.NDArray[np.int64]) -> None:
    """Swap values[first + k] with values[partners[k]], for k = 0, 1, … in sequence.

    A block whose positions and partners are all different can be swapped at once. Blocks grow while that
    succeeds (to about the root of the range, by the birthday paradox) and shrink if it does not.
    """
    done, block = 0, 1024
    while done < len(partners):
        chosen = partners[done : done + block]
        start = first + done
        if _independent(chosen, start):
            own = values[start : start + len(chosen)].copy()
            values[start : start + len(chosen)] = values[chosen]
            values[chosen] = own
            done += len(chosen)
            block += block // 8
        elif block > _SMALLEST_BLOCK:
            block //= 2
        else:
            _swap_one_by_one(values, start, chosen)
            done += len(chosen)
            block += block // 8


def _independent(partners: npt.NDArray[np.int64], start: int) -> bool:
    ordered = np.sort(partners)
    inside = np.searchsorted(ordered, (start, start + len(partners)))
    return bool(inside[0] == inside[1]) and not bool((ordered[1:] == ordered[:-1]).any())


def _swap_one_by_one(values: Ids, start: int, partners: npt.NDArray[np.int64]) -> None:
    for own, partner in enumerate(partners.tolist(), start):
        values[own], values[partner] = values[partner], values[own]
