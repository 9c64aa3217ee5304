"""The [cluster] table: machines described, not looked at, so that a plan for them can be made anywhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from torchdeck.config.fields import Section, option
from torchdeck.config.values.node_names import RIGHT_RANGE
from torchdeck.config.values.sizes import ByteRate, ByteSize

GpuIndex = Annotated[int, Field(ge=0, le=1023)]

LEAST_MEMORY = 2**20
"""Bytes; who writes fewer means another unit."""
RIGHT_RATE = 'bytes a second, or a speed such as "50GB/s" or "400Gbit/s"'


class ClusterNodes(Section):
    """Machines that are alike: one [[cluster.nodes]]."""

    name: str = option(
        "Name of a node, or of many by ranges of numbers in brackets.", default=..., right=RIGHT_RANGE
    )
    address: str | None = option(
        "What the other nodes reach it by, with ranges as in name; absent: its name.",
        default=None,
        min_length=1,
        right='a host name or address, as many as name gives, such as "10.0.0.[1-128]"',
    )
    gpus: int = option("GPUs of each node; 0 where ranks run on the CPU.", default=0, ge=0, le=1024)
    gpu: str | None = option(
        "Which GPU it is; of known ones the memory is known.",
        default=None,
        min_length=1,
        right='the name of a GPU, such as "H100"',
    )
    memory: ByteSize | None = option(
        "Memory of one GPU; absent: what is known of the GPU of that name.",
        default=None,
        unit="bytes",
        right='a size with its unit, such as "80GiB", or a number of bytes from 1 MiB',
        ge=LEAST_MEMORY,
    )
    devices: list[GpuIndex] | None = option(
        "GPUs that may be used, by index; absent: all.",
        default=None,
        right="a list of indices below gpus, such as [0, 1, 2, 3]",
    )
    cores: int | None = option(
        "Cores that ranks may use on each node; absent: one for each GPU.",
        default=None,
        unit="cores",
        ge=1,
        le=65_536,
    )
    host_memory: ByteSize | None = option(
        "Main memory of each node; absent: unknown.",
        default=None,
        unit="bytes",
        right='a size with its unit, such as "2TB", or a number of bytes from 1 MiB',
        ge=LEAST_MEMORY,
    )


class Cluster(Section):
    """Machines of a run that are described here and need not be reached to plan for them."""

    nodes: list[ClusterNodes] = option(
        "Machines, a table for those that are alike; a run uses all, or those distributed.nodes names.",
        default=[],
        right='tables [[cluster.nodes]], such as name = "gpu[000-127]", gpus = 8, gpu = "H100"',
    )
    intra_node: ByteRate | None = option(
        "Speed at which one GPU sends to others of its node; absent: NVLink's, where the GPU has it.",
        default=None,
        unit="bytes/s",
        gt=0,
        right=RIGHT_RATE,
    )
    inter_node: ByteRate | None = option(
        "Speed at which one node sends to others, its network cards together; absent: unknown.",
        default=None,
        unit="bytes/s",
        gt=0,
        right=RIGHT_RATE,
    )
