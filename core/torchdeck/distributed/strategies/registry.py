"""Strategies by name."""

from __future__ import annotations

from torchdeck.distributed.checked import SettingsError
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.ddp import DdpStrategy
from torchdeck.distributed.strategies.fsdp import FsdpStrategy
from torchdeck.distributed.strategies.hsdp import HsdpStrategy
from torchdeck.distributed.strategies.single import SingleStrategy
from torchdeck.environment import Place

STRATEGIES: dict[str, type[DistributedStrategy]] = {
    strategy.name: strategy for strategy in (SingleStrategy, DdpStrategy, FsdpStrategy, HsdpStrategy)
}


def make_strategy(settings: DistributedSettings, precision: Precision, place: Place) -> DistributedStrategy:
    """The strategy `settings` names; not set up yet.

    Raises:
        SettingsError: there is none of that name.
    """
    kind = STRATEGIES.get(settings.strategy)
    if kind is None:
        raise SettingsError(
            f"there is no strategy {settings.strategy!r}; right is one of {', '.join(STRATEGIES)}"
        )
    return kind(settings, precision, place)
