"""The [cluster] table: machines described, not contacted, so that a plan for them can be made anywhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from torchdeck.config.values.node_names import RIGHT_RANGE
from torchdeck.config.values.numbers import ByteRate, ByteSize
from torchdeck.options import Section, option

GpuIndex = Annotated[int, Field(ge=0, le=1023)]

LEAST_MEMORY = 2**20
"""Bytes; a smaller value must have been meant in another unit."""
RIGHT_RATE = 'bytes a second, or a speed such as "50GB/s" or "400Gbit/s"'


class ClusterNodes(Section):
    """Identical machines: one [[cluster.nodes]]."""

    name: str = option(
        "Name of a node, or of many by ranges of numbers in brackets.", default=..., right=RIGHT_RANGE
    )
    address: str | None = option(
        "Address at which other nodes reach it, with ranges as in name. Default: its name.",
        default=None,
        min_length=1,
        right='a host name or address, as many as name gives, such as "10.0.0.[1-128]"',
    )
    gpus: int = option(
        "GPUs of each node; 0 if ranks run on the CPU.", label="GPUs", default=0, ge=0, le=1024
    )
    gpu: str | None = option(
        "Model of the GPUs. The memory of known models is filled in.",
        label="GPU model",
        default=None,
        min_length=1,
        right='the name of a GPU, such as "H100"',
    )
    memory: ByteSize | None = option(
        "Memory of one GPU. Default: that of the known model.",
        label="GPU memory",
        default=None,
        unit="bytes",
        right='a size with its unit, such as "80GiB", or a number of bytes from 1 MiB',
        ge=LEAST_MEMORY,
    )
    devices: list[GpuIndex] | None = option(
        "Indices of GPUs that may be used. Default: all.",
        label="Usable GPUs",
        default=None,
        right="a list of indices below gpus, such as [0, 1, 2, 3]",
    )
    cores: int | None = option(
        "CPU cores that ranks may use on each node. Default: one per GPU.",
        label="CPU cores",
        default=None,
        unit="cores",
        ge=1,
        le=65_536,
    )
    host_memory: ByteSize | None = option(
        "Main memory of each node. Default: unknown.",
        label="Main memory",
        default=None,
        unit="bytes",
        right='a size with its unit, such as "2TB", or a number of bytes from 1 MiB',
        ge=LEAST_MEMORY,
    )


class Cluster(Section):
    """Machines of a run that are described here and need not be reachable to plan for them."""

    nodes: list[ClusterNodes] = option(
        "Descriptions of machines, one table for identical machines. A run uses all of them, "
        "or those in distributed.nodes.",
        label="Machines",
        default=[],
        right='tables [[cluster.nodes]], such as name = "gpu[000-127]", gpus = 8, gpu = "H100"',
    )
    intra_node: ByteRate | None = option(
        "Bandwidth of one GPU to others of its node. Default: that of NVLink if the GPU has it.",
        label="Bandwidth in a node",
        default=None,
        unit="bytes/s",
        gt=0,
        right=RIGHT_RATE,
    )
    inter_node: ByteRate | None = option(
        "Bandwidth of one node to others, over all its network cards. Default: unknown.",
        label="Bandwidth between nodes",
        default=None,
        unit="bytes/s",
        gt=0,
        right=RIGHT_RATE,
    )
