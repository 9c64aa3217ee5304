"""The [limits] and [launch] tables: when a run is stopped, restarted or given up."""

from __future__ import annotations

from typing import Literal

from torchdeck.config.values.numbers import ByteSize
from torchdeck.options import Section, option


class Limits(Section):
    """The [limits] table: when a run is stopped to protect the machine or because time is up."""

    min_free_disk: ByteSize = option(
        "Free disk space below which the run saves a checkpoint and stops.",
        label="Minimum free disk",
        default=512 * 2**20,
        unit="bytes",
        ge=0,
        right='a size with its unit, such as "512MiB" or "2GB", or a number of bytes',
    )
    memory: Literal["refuse", "warn", "off"] = option(
        "If predicted memory does not fit: refuse to start, warn, or do not predict.",
        label="If memory does not fit",
        default="refuse",
    )
    max_hours: float | None = option(
        "Time after which the run saves a checkpoint and stops. Default: no limit.",
        label="Time limit",
        default=None,
        unit="h",
        gt=0,
    )


class Launch(Section):
    """The [launch] table: how the run is supervised."""

    max_restarts: int = option(
        "How often all ranks are restarted after a failure; with a range of ranks or nodes, at each size.",
        label="Restarts after failures",
        default=0,
        ge=0,
        le=1000,
    )
    restart_delay: float = option("Pause before a restart.", default=1.0, unit="s", ge=0, le=86_400)
    on_hang: Literal["watch", "stop", "restart", "exclude"] = option(
        "If a rank hangs: report it and keep watching, stop the run, restart it, or restart it without the "
        "rank or node that hangs, which takes a range of ranks or nodes, or a spare node.",
        label="When ranks hang",
        default="watch",
        group="hangs",
    )
    hang_after: float = option(
        "Time without progress after which a rank is hung, or 5 × its 99th percentile step time if "
        "that is longer.",
        label="Hung after",
        default=30.0,
        unit="s",
        ge=1,
        le=604_800,
        group="hangs",
    )
    stop_grace: float = option(
        "Time that ranks have to finish the step, save and exit.",
        label="Time to stop",
        default=120.0,
        unit="s",
        ge=0,
        le=86_400,
        group="stopping",
    )
    kill_grace: float = option(
        "Time between SIGTERM and SIGKILL.",
        label="Time to kill",
        default=10.0,
        unit="s",
        ge=0,
        le=3600,
        group="stopping",
    )
    queue: bool = option(
        "Wait for devices that another run holds, instead of refusing to start.",
        label="Wait for devices",
        default=False,
    )
    node_grace: float = option(
        "How long a node may be silent before the run continues or ends without it.",
        label="Node timeout",
        default=120.0,
        unit="s",
        ge=1,
        le=86_400,
        group="several nodes",
    )
    unattended: Literal["stop", "continue"] = option(
        "What the ranks of a node do if it has not heard from the leader for node_grace.",
        label="Without leader",
        default="stop",
        group="several nodes",
    )
    lost_after: float | None = option(
        "Time without an answer from any node after which the run is given up as LOST. Default: never, "
        "because the fault may be this machine's network.",
        label="Give up as lost after",
        default=None,
        unit="s",
        ge=60,
        le=2_592_000,
        group="several nodes",
    )
    trusted_network: bool = option(
        "Everyone who reaches an address of the nodes may execute code as you. Required for "
        "torchrun's c10d rendezvous, which unpickles what anyone writes into its store.",
        default=False,
        group="several nodes",
    )
