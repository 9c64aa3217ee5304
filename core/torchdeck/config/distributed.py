"""The [distributed] table: number of processes, placement, and strategy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from torchdeck.options import Section, option, table

DDP_ONLY = {"distributed.strategy": ["ddp"]}
FSDP_ONLY = {"distributed.strategy": ["fsdp", "hsdp"]}
HSDP_ONLY = {"distributed.strategy": ["hsdp"]}
DEEPSPEED_ONLY = {"distributed.strategy": ["deepspeed"]}

Port = Annotated[int, Field(ge=1, le=65535)]
GpuIndex = Annotated[int, Field(ge=0)]
Names = Annotated[list[str], Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=4096)]
RangeText = Annotated[str, Field(min_length=1)]
"""`2:3`; `config.ranges` parses it, and placement rules report errors in one."""
Dtype = Literal["auto", "fp32", "bf16", "fp16"]


class Rendezvous(Section):
    """How the processes of a run find each other."""

    backend: Literal["static", "c10d"] = option(
        "torchrun's rendezvous. static: ranks are known in advance. c10d: nodes are numbered as "
        "they arrive, so rank order is not guaranteed.",
        default="static",
    )
    port: Literal["auto"] | Port = option(
        "Port of the rendezvous on the first node. auto: a free port, chosen at launch.",
        default="auto",
        right='"auto" or a port from 1 to 65535',
    )


class DdpOptions(Section):
    """Options of DistributedDataParallel."""

    bucket_size_mb: float = option(
        "Size of a bucket of gradients that is reduced at once.",
        label="Bucket size (MB)",
        default=25.0,
        unit="MiB",
        gt=0,
    )
    find_unused_parameters: bool = option(
        "Detect parameters that did not contribute to the loss. Slower; needed if there are some.",
        default=False,
    )
    static_graph: bool = option("Declare that every step uses the same parameters.", default=False)
    gradient_as_bucket_view: bool = option(
        "Store gradients in the buckets, which saves 4 bytes per parameter.", default=True
    )
    broadcast_parameters: bool = option(
        "Send the first rank's weights to every rank at the start. Without it each rank must create "
        "the same weights.",
        default=True,
    )
    comm_hook: Literal["none", "bf16", "powersgd"] = option(
        "Compression of gradients: none, bf16, or low-rank PowerSGD. From step 11 on PowerSGD omits "
        "a part of the gradients and adds it later; checkpoints contain that part, and it is reset "
        "at another world size.",
        label="Communication hook",
        default="none",
    )
    powersgd_rank: int = option(
        "Rank of PowerSGD's approximation. Smaller sends less.",
        label="PowerSGD rank",
        default=2,
        ge=1,
        le=1024,
        visible_if={"distributed.ddp.comm_hook": ["powersgd"]},
    )


class FsdpOptions(Section):
    """Options of fully sharded data parallel (FSDP2)."""

    reshard_after_forward: bool = option(
        "Free gathered parameters after the forward pass (full sharding). false keeps them until "
        "the backward pass (only gradients and optimizer state are sharded): more memory, one "
        "gather less.",
        default=True,
    )
    cpu_offload: bool = option(
        "Keep weights, gradients and optimizer state in main memory; the device computes.",
        label="CPU offload",
        default=False,
    )
    wrap: Literal["block", "size"] = option(
        "Unit of gathering: the model's blocks, or modules of at least min_params.",
        default="block",
    )
    min_params: int = option(
        'Smallest number of parameters of a unit with wrap = "size".',
        label="Minimum parameters",
        default=1_000_000,
        unit="parameters",
        ge=1,
        visible_if={"distributed.fsdp.wrap": ["size"]},
    )
    param_dtype: Dtype = option(
        "Number format of gathered parameters. auto: as training.precision.",
        label="Parameter dtype",
        default="auto",
    )
    reduce_dtype: Dtype = option("Number format in which gradients are reduced. auto: fp32.", default="auto")


class HsdpOptions(Section):
    """Options of hybrid sharding: weights sharded inside groups of ranks, groups replicate each other."""

    shard: int | None = option(
        "Number of ranks that share one copy of the weights. Default: the ranks of one node.",
        label="Shard group size",
        default=None,
        unit="ranks",
        ge=1,
        le=65_536,
    )


class DeepSpeedOptions(Section):
    """Options of DeepSpeed's ZeRO, which is an extra: pip install 'torchdeck[deepspeed]'."""

    zero_stage: int = option(
        "State that is sharded: optimizer state (1), gradients too (2), weights too (3).",
        label="ZeRO stage",
        default=2,
        ge=1,
        le=3,
        right="1, 2 or 3",
    )
    offload_optimizer: bool = option("Keep optimizer state in main memory and step there.", default=False)
    offload_parameters: bool = option("Keep weights in main memory, too; for zero_stage = 3.", default=False)
    bucket_size_mb: float = option(
        "Size of a bucket of gradients that is reduced at once.",
        label="Bucket size (MB)",
        default=50.0,
        unit="MiB",
        gt=0,
    )


class Distributed(Section):
    """Number of ranks, their devices, and the strategy that joins them."""

    strategy: Literal["single", "ddp", "fsdp", "hsdp", "deepspeed"] = option(
        "One process (single), a replica on every rank (ddp), weights sharded over all ranks (fsdp) "
        "or inside groups that replicate each other (hsdp), or DeepSpeed's ZeRO (deepspeed).",
        default="ddp",
    )
    nodes: Names | RangeText = option(
        "Nodes of the run; the first is the leader. Default: all nodes in [cluster], or this "
        'machine. A range such as "2:4" instead of a list uses that many of the described nodes and'
        " lets the run continue with fewer: nodes that do not answer are left out, and if one fails "
        "for good, the others restart without it.",
        default=["localhost"],
        group="placement",
        right='a list of node names without repetition, such as ["localhost"] or ["gpu[00-15]"], or a range '
        'such as "1:2"',
    )
    spare: int = option(
        "Spare nodes, which run nothing until another node fails for good. A spare node then takes "
        "its place, and the run continues from its newest checkpoint with as many ranks as before. "
        "Spare nodes are the last of a list, or that many more than a range has. As many nodes may "
        "fail to answer at the start. GPUs of a spare node are not reserved.",
        label="Spare nodes",
        default=0,
        unit="nodes",
        group="placement",
        ge=0,
        le=4096,
    )
    nproc: Count | RangeText | None = option(
        "Ranks per node. Default: one per device, or one on a machine without GPUs. With a range "
        'such as "2:3" the run starts with the most. If a rank fails for good, it continues with '
        "one fewer from the newest checkpoint and keeps its global batch. A failed attempt is first "
        "restarted at the same size, launch.max_restarts times at each size. The rank is removed "
        "when these are used up, when it fails twice with no new checkpoint in between, or when its "
        "device is gone.",
        label="Processes per node",
        default=None,
        unit="ranks",
        group="placement",
        right='a whole number of ranks from 1 to 4096, or a range such as "2:3"',
    )
    devices: Literal["auto", "cpu"] | list[GpuIndex | str] = option(
        "GPUs by index or UUID. auto: all GPUs, or the CPU if there are none.",
        label="GPUs",
        default="auto",
        group="placement",
        right='"auto", "cpu", or a list of GPU indices or UUIDs, such as [0, 1]',
    )
    backend: Literal["auto", "gloo", "nccl"] = option(
        "Communication library. auto: nccl on GPUs, gloo on the CPU.",
        label="Communication library",
        default="auto",
        group="communication",
    )
    timeout: float = option(
        "Timeout of a collective.",
        label="Collective timeout",
        default=600.0,
        unit="s",
        ge=1,
        le=86_400,
        group="communication",
    )
    rendezvous: Rendezvous = table(Rendezvous, "How the processes of a run find each other.")
    ddp: DdpOptions = table(DdpOptions, "Options of DistributedDataParallel.", visible_if=DDP_ONLY)
    fsdp: FsdpOptions = table(
        FsdpOptions, "Options of fully sharded data parallel (FSDP2).", visible_if=FSDP_ONLY
    )
    hsdp: HsdpOptions = table(HsdpOptions, "Options of hybrid sharding.", visible_if=HSDP_ONLY)
    deepspeed: DeepSpeedOptions = table(
        DeepSpeedOptions, "Options of DeepSpeed's ZeRO.", visible_if=DEEPSPEED_ONLY
    )
