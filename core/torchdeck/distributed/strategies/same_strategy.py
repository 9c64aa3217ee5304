"""Check that all ranks begin with the same strategy, before they exchange anything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torchdeck.distributed.group.agreement import require_same
from torchdeck.distributed.group.process_group import ProcessGroup
from torchdeck.distributed.precision import Precision
from torchdeck.distributed.rank_settings import DistributedSettings

_OWN = ("ddp", "fsdp", "hsdp")
"""Tables that are fields of the settings."""


def check_same_strategy(
    group: ProcessGroup, name: str, settings: DistributedSettings, precision: Precision
) -> None:
    """Check that all ranks have the same strategy, options of it and precision; every rank must call this.

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
