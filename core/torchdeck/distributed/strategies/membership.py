"""Group membership of one rank: joining and leaving."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from torchdeck.contract.arguments.checked_call import arguments
from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.distributed.recipe_loading import RecipeError
from torchdeck.environment import Place

if TYPE_CHECKING:
    from typing_extensions import Self

_OWN = ("ddp", "fsdp", "hsdp")
"""Tables that are fields of the settings."""


class Membership:
    """Base of every strategy: one rank of a group.

    Args:
        settings: strategy settings, including backend and timeout.
        precision: number formats of the run.
        place: this rank; a DistributedConfig also gives the rendezvous, which otherwise comes from the
            variables.

    Attributes:
        scaler: scales losses in fp16, and has no effect otherwise. Its state is part of a checkpoint.
    """

    name: str

    def __init__(self, settings: DistributedSettings, precision: Precision, place: Place) -> None:
        self.settings = settings
        self.precision = precision
        self.place = place
        self.scaler = precision.make_scaler()
        self._group: ProcessGroup | None = None

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def setup(self) -> None:
        """Join the other ranks, once; wait for them up to the timeout. An existing group is joined.

        Raises:
            RendezvousError: a rank did not arrive within the timeout, or has another WORLD_SIZE; the message
                names it.
            AgreementError: ranks have different strategies, options or precisions.
            MissingCallError: a rank of an existing group does not set up a strategy.
            RecipeError: there is no GPU for this rank, or the existing group is a different one.
        """
        if self._group is None:
            self._group = self._join()
            try:
                _check_same_strategy(self._group, self.name, self.settings, self.precision)
            except RecipeError:
                self.close()
                raise

    def _join(self) -> ProcessGroup:
        return ProcessGroup(self.place, backend=self.settings.backend, timeout=self.settings.timeout)

    @arguments()
    def barrier(self, timeout: float | None = None) -> None:
        """Return once every rank has called this. Ranks wait in the process group's store, not on a GPU.

        Args:
            timeout: seconds to wait for the others. Default: the strategy's timeout.

        Raises:
            MissingCallError: on every rank that called: a rank did not call in time, or made another
                collective call; the message names it.
        """
        self.group.call("barrier", timeout=timeout)

    @property
    def is_set_up(self) -> bool:
        """Return whether `setup` was called and `close` was not."""
        return self._group is not None

    @property
    def group(self) -> ProcessGroup:
        """Return the group of all ranks."""
        if self._group is None:
            raise RuntimeError("the strategy is not set up: call setup() first")
        return self._group

    @property
    def rank(self) -> int:
        return self.place.rank

    @property
    def world_size(self) -> int:
        return self.place.world_size

    @property
    def local_rank(self) -> int:
        return self.place.local_rank

    @property
    def is_main_process(self) -> bool:
        """Return whether this is rank 0, which reports for all ranks."""
        return self.place.rank == 0

    @property
    def device(self) -> torch.device:
        return self.group.device

    @property
    def timeout(self) -> float:
        """Return the seconds that a rank waits for the others."""
        return self.settings.timeout

    def seen_elsewhere(self) -> dict[int, str]:
        """Return what other ranks can be seen to do that keeps them from coming to where this rank is."""
        return {} if self._group is None else self._group.seen_elsewhere()

    def close(self) -> None:
        """Leave the other ranks, unless other code had joined them. Further calls do nothing."""
        if self._group is not None:
            self._group.close()
            self._group = None


def _check_same_strategy(
    group: ProcessGroup, name: str, settings: DistributedSettings, precision: Precision
) -> None:
    """Check that all ranks have the same strategy, options of it and precision, before they exchange
    anything else; every rank must call this.

    Raises:
        AgreementError: on every rank, naming the option, two ranks and their values.
    """
    if group.world_size == 1:
        return
    _check(group, {"strategy": name, "precision": precision.name})
    tables = {"fsdp", "hsdp"} if name == "hsdp" else {name}
    _check(group, {table: _options(settings, table) for table in sorted(tables)})


def _options(settings: DistributedSettings, table: str) -> Mapping[str, Any]:
    if table in _OWN:
        return dataclasses.asdict(getattr(settings, table))
    given: Mapping[str, Any] = settings.options.get(table, {})
    return given


def _check(group: ProcessGroup, values: Mapping[str, Any]) -> None:
    advice = "Start every rank with the same strategy, options and precision"
    require_same(group, values, what="strategies", advice=advice)
