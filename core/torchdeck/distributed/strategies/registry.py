"""Strategies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.group.processes import this_rank
from torchdeck.distributed.precision import DTYPES, Precision
from torchdeck.distributed.settings import DistributedSettings
from torchdeck.distributed.strategies.base import DistributedStrategy
from torchdeck.distributed.strategies.ddp import DdpStrategy
from torchdeck.distributed.strategies.deepspeed.strategy import DeepSpeedStrategy
from torchdeck.distributed.strategies.fsdp import FsdpStrategy
from torchdeck.distributed.strategies.hsdp import HsdpStrategy
from torchdeck.distributed.strategies.single import SingleStrategy
from torchdeck.environment import DistributedConfig, Place

Kind = TypeVar("Kind", bound=type[DistributedStrategy])

STRATEGIES: dict[str, type[DistributedStrategy]] = {
    strategy.name: strategy
    for strategy in (SingleStrategy, DdpStrategy, FsdpStrategy, HsdpStrategy, DeepSpeedStrategy)
}


def register_strategy(kind: Kind) -> Kind:
    """Make a strategy known by its `name`, for settings and `DistributedStrategy.from_config`.

    Usable as a decorator of the class; a recipe's file may have one.

    Raises:
        ValueError: it has no name, or another strategy has that name.
    """
    name = getattr(kind, "name", "")
    if not isinstance(name, str) or not name:
        raise ValueError(f'{kind.__name__} has no name: give the class one, such as name = "mine"')
    if STRATEGIES.setdefault(name, kind) is not kind:
        raise ValueError(
            f"{kind.__name__} is named {name!r} like {STRATEGIES[name].__name__}: choose another name"
        )
    return kind


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


def strategy_from_config(
    config: DistributedSettings | Mapping[str, Any], precision: str, environment: DistributedConfig | None
) -> DistributedStrategy:
    """See `DistributedStrategy.from_config`."""
    if precision not in DTYPES:
        raise SettingsError(f"precision is {precision!r}; right is one of {', '.join(DTYPES)}")
    rank = environment or this_rank()
    settings = config if isinstance(config, DistributedSettings) else _settings(config, rank)
    return make_strategy(settings, Precision(precision), rank)


def _settings(config: Mapping[str, Any], rank: DistributedConfig) -> DistributedSettings:
    """`config` with what it leaves out: backend, timeout, and as the group of hsdp the ranks of one node."""
    usual = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() > rank.local_rank else "gloo"
    known: dict[str, Any] = {
        "backend": usual if rank.backend == "auto" else rank.backend,
        "timeout": rank.timeout,
        "hsdp": {"shard": rank.local_world_size},
    }
    return read_fields(DistributedSettings, known | dict(config), "distributed")
