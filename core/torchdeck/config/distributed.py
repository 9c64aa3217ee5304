"""The [distributed] table: how many processes, where, and how they work together."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from torchdeck.config.fields import Section, option, table

DDP_ONLY = {"distributed.strategy": ["ddp"]}
FSDP_ONLY = {"distributed.strategy": ["fsdp", "hsdp"]}
HSDP_ONLY = {"distributed.strategy": ["hsdp"]}
DEEPSPEED_ONLY = {"distributed.strategy": ["deepspeed"]}

Port = Annotated[int, Field(ge=1, le=65535)]
GpuIndex = Annotated[int, Field(ge=0)]
Names = Annotated[list[str], Field(min_length=1)]
Count = Annotated[int, Field(ge=1, le=4096)]
RangeText = Annotated[str, Field(min_length=1)]
"""`2:3`; `config.ranges` reads it, and placement rules say what is wrong with one."""
Dtype = Literal["auto", "fp32", "bf16", "fp16"]


class Rendezvous(Section):
    """How the processes of a run find each other."""

    backend: Literal["static", "c10d"] = option(
        "torchrun's rendezvous. static keeps ranks known beforehand; under c10d nodes are numbered as they "
        "meet, so rank order is not guaranteed.",
        default="static",
    )
    port: Literal["auto"] | Port = option(
        "Port on the first node where the ranks meet; auto takes a free one at launch.",
        default="auto",
        right='"auto" or a port from 1 to 65535',
    )


class DdpOptions(Section):
    """Options of DistributedDataParallel."""

    bucket_size_mb: float = option(
        "Size of a bucket of gradients that is reduced at once.", default=25.0, unit="MiB", gt=0
    )
    find_unused_parameters: bool = option(
        "Look for parameters that had no part in the loss: slower, needed when some have none.", default=False
    )
    static_graph: bool = option("Promise that the same parameters are used in every step.", default=False)
    gradient_as_bucket_view: bool = option(
        "Keep gradients inside the buckets, which saves 4 bytes a parameter.", default=True
    )
    broadcast_parameters: bool = option(
        "Give every rank the first rank's weights at the start; without it each must have made the same.",
        default=True,
    )
    comm_hook: Literal["none", "bf16", "powersgd"] = option(
        "How gradients are made smaller on their way: not, cut to bf16, or by low-rank PowerSGD, which from "
        "the 11th step on leaves out a part of them and makes it up later; what is left out is in "
        "checkpoints, and starts anew at another world size.",
        default="none",
    )
    powersgd_rank: int = option(
        "Rank of PowerSGD's approximation: smaller sends less.",
        default=2,
        ge=1,
        le=1024,
        visible_if={"distributed.ddp.comm_hook": ["powersgd"]},
    )


class FsdpOptions(Section):
    """Options of fully sharded data parallel (FSDP2)."""

    reshard_after_forward: bool = option(
        "Free the gathered parameters after the forward pass (full sharding); false keeps them until the "
        "backward pass (gradients and optimizer sharded alone): more memory, one gather less.",
        default=True,
    )
    cpu_offload: bool = option(
        "Keep weights, gradients and optimizer state in the machine's memory; the device computes.",
        default=False,
    )
    wrap: Literal["block", "size"] = option(
        "What is gathered as one unit: the model's blocks, or modules of min_params and more.",
        default="block",
    )
    min_params: int = option(
        'Smallest number of parameters of a unit under wrap = "size".',
        default=1_000_000,
        unit="parameters",
        ge=1,
        visible_if={"distributed.fsdp.wrap": ["size"]},
    )
    param_dtype: Dtype = option(
        "Number format of gathered parameters; auto follows training.precision.", default="auto"
    )
    reduce_dtype: Dtype = option(
        "Number format in which gradients are reduced; auto is fp32.", default="auto"
    )


class HsdpOptions(Section):
    """Options of hybrid sharding: weights sharded inside groups of ranks, groups replicate each other."""

    shard: int | None = option(
        "Ranks that shard the weights among them; absent: the ranks of one node.",
        default=None,
        unit="ranks",
        ge=1,
        le=65_536,
    )


class DeepSpeedOptions(Section):
    """Options of DeepSpeed's ZeRO, which is an extra: pip install 'torchdeck[deepspeed]'."""

    zero_stage: int = option(
        "What is divided among the ranks: optimizer state (1), gradients too (2), weights too (3).",
        default=2,
        ge=1,
        le=3,
        right="1, 2 or 3",
    )
    offload_optimizer: bool = option(
        "Keep optimizer state in the machine's memory and step there.", default=False
    )
    offload_parameters: bool = option(
        "Keep weights in the machine's memory too; for zero_stage = 3.", default=False
    )
    bucket_size_mb: float = option(
        "Size of a bucket of gradients that is reduced at once.", default=50.0, unit="MiB", gt=0
    )


class Distributed(Section):
    """How many ranks, on which devices, and the strategy that joins them."""

    strategy: Literal["single", "ddp", "fsdp", "hsdp", "deepspeed"] = option(
        "One process, a replica on every rank (ddp), weights sharded over all ranks (fsdp), or inside "
        "groups that replicate each other (hsdp), or DeepSpeed's ZeRO.",
        default="ddp",
    )
    nodes: Names | RangeText = option(
        "Machines of the run, the first one leads; absent: all that [cluster] describes, or this one. "
        "A range in place of a list takes so many of the machines that are described, and lets the run go on "
        "with fewer: those that do not answer are left out, and where one fails for good, the others start "
        "again without it.",
        default=["localhost"],
        group="placement",
        right='a list of node names without repetition, such as ["localhost"] or ["gpu[00-15]"], or a range '
        'such as "1:2"',
    )
    spare: int = option(
        "Nodes that run nothing until one fails for good: a spare takes its place, and the run continues "
        "from its newest checkpoint with as many ranks as before. They are the last of a list, or so many "
        "more than a range has. Nodes that do not answer at the start are left out, as many as there are "
        "spares. GPUs of a spare are not reserved.",
        default=0,
        unit="nodes",
        group="placement",
        ge=0,
        le=4096,
    )
    nproc: Count | RangeText | None = option(
        "Ranks on each node; absent: one for each device, or one on a machine without GPUs. "
        'With a range such as "2:3" the run starts with the most, and where a rank fails for good it goes on '
        "with one fewer from the newest checkpoint, its global batch kept. A failed attempt is first started "
        "again at the same size, launch.max_restarts times at each size; when these are used up, or the same "
        "rank fails twice with no new checkpoint in between, or its device is gone, that rank is given up.",
        default=None,
        unit="ranks",
        group="placement",
        right='a whole number of ranks from 1 to 4096, or a range such as "2:3"',
    )
    devices: Literal["auto", "cpu"] | list[GpuIndex | str] = option(
        "GPUs by index or UUID; auto takes all there are, or the CPU where there are none.",
        default="auto",
        group="placement",
        right='"auto", "cpu", or a list of GPU indices or UUIDs, such as [0, 1]',
    )
    backend: Literal["auto", "gloo", "nccl"] = option(
        "Library the ranks talk through; auto is nccl on GPUs and gloo on the CPU.",
        default="auto",
        group="communication",
    )
    timeout: float = option(
        "How long a collective may wait for the other ranks.",
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
