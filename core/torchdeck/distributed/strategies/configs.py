"""Settings of a strategy, given as a name, a mapping, or an object with the same attributes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import torch

from torchdeck.contract.arguments.errors import ArgumentError, shown
from torchdeck.distributed.checked import SettingsError, read_fields
from torchdeck.distributed.rank_settings import DistributedSettings
from torchdeck.environment import DistributedConfig


class HasStrategy(Protocol):
    """An object whose attributes are settings of a strategy."""

    @property
    def strategy(self) -> str: ...


def strategy_table(config: str | Mapping[str, Any] | HasStrategy, known: Iterable[str]) -> Mapping[str, Any]:
    """Return a config as a mapping like the [distributed] table of a run.toml.

    Args:
        config: see `DistributedStrategy.from_config`.
        known: names of strategies, whose options an object may have as attributes.

    Raises:
        ArgumentError: it is an object without a strategy.
    """
    if isinstance(config, str):
        return {"strategy": config}
    if isinstance(config, Mapping):
        return config
    if isinstance(config, type) or not hasattr(config, "strategy"):
        raise ArgumentError(
            f"config is {shown(config)}",
            fix='give a name such as "ddp", a mapping, or an object with strategy',
        )
    names = [*(field.name for field in dataclasses.fields(DistributedSettings)), *known]
    found = {name: getattr(config, name) for name in names if getattr(config, name, None) is not None}
    options = found.pop("options", {})
    return {name: _plain(value) for name, value in found.items()} | dict(options)


def _plain(value: Any) -> Any:
    is_object = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_object else value


def settings_of(config: Mapping[str, Any], rank: DistributedConfig) -> DistributedSettings:
    """Return `config` with defaults filled in: backend, timeout, and the ranks of one node as the hsdp
    group.

    Raises:
        SettingsError: a field is unknown, of the wrong type or out of range.
    """
    usual = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() > rank.local_rank else "gloo"
    known: dict[str, Any] = {
        "backend": usual if rank.backend == "auto" else rank.backend,
        "timeout": rank.timeout,
        "hsdp": {"shard": rank.local_world_size},
    }
    settings = read_fields(DistributedSettings, known | dict(config), "config")
    if not (math.isfinite(settings.timeout) and settings.timeout > 0):
        raise SettingsError(
            f"config.timeout is {settings.timeout:g}", fix="expected a number of seconds above 0"
        )
    return settings
