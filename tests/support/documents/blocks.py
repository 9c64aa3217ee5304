"""The documents whose names Torchdeck has, and what each of their examples does, in order."""

from __future__ import annotations

from dataclasses import dataclass

LIBRARY_DISTRIBUTED = "`torchdeck.distributed`"
CLI = "command line"
TORCHRUN = "torchrun, or by hand"


@dataclass(frozen=True)
class Document:
    """One document.

    Args:
        title: heading of its table.
        replaced: which of its package names becomes which of ours.
        blocks: (content, where it works) of each example, numbered from 1; `variables` at the end.
    """

    title: str
    replaced: str
    blocks: tuple[tuple[str, str], ...]


_PLANS = "`torchdeck.compat.batch_plans`"
_DDP = "`torchdeck.compat.ddp_fsdp`"
_STRATEGIES = "`torchdeck.compat.strategies`"
_AUGMENTATION = "`torchdeck.compat.augmentation`"
_OBJECTS = "`torchdeck.compat.object_api`"

DOCUMENTS: dict[str, Document] = {
    "batch_plans": Document(
        "Batch plans",
        "`chuk_lazarus.distributed` is `torchdeck.distributed` or `torchdeck.compat.batch_plans`, both with "
        "modules `sharding` and `checkpoint`; `chuk_lazarus.data` is `torchdeck.data`; the command `lazarus` "
        "is `torchdeck`",
        (
            ("shard a plan by rank and walk it", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("DistributedConfig: defaults, values, environment", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("rank, world size, main process", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("shards, interleaving, work per rank", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("save, load and continue from a position", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("show and shard a plan", CLI),
            ("a whole script that resumes", f"{LIBRARY_DISTRIBUTED}, {_PLANS}"),
            ("four processes by RANK and WORLD_SIZE", TORCHRUN),
            ("torchrun on one machine", TORCHRUN),
            ("shards made in advance, RANK alone", f"{CLI}, {_PLANS}"),
            ("variables: RANK or WORLD_RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE", LIBRARY_DISTRIBUTED),
        ),
    ),
    "ddp_fsdp": Document(
        "DDP and FSDP functions",
        "`distributed` is `torchdeck.compat.ddp_fsdp`; `FSDP` is imported from there, too",
        (
            ("the functions and the sampler", _DDP),
            ("a training loop with DDP", _DDP),
            ("gradient accumulation and clipping", _DDP),
            ("FSDP with mixed precision", _DDP),
            ("torchrun on one and two nodes", TORCHRUN),
            ("checkpoints under DDP and FSDP", _DDP),
            ("command line options", "[keys of a run file](#options-as-keys)"),
            ("torchrun with options", TORCHRUN),
            ("the same in words; variables of torchrun", _DDP),
        ),
    ),
    "strategies": Document(
        "Strategies",
        "`src.distributed` is `torchdeck.compat.strategies`",
        (
            ("the interface, to_device", _STRATEGIES),
            ("FSDP", _STRATEGIES),
            ("DeepSpeed and its options", _STRATEGIES),
            ("one GPU", _STRATEGIES),
            ("newest checkpoint, auto_resume, rotation", _STRATEGIES),
            ("launch_distributed", _STRATEGIES),
            ("torchrun on several nodes, MASTER_ADDR, MASTER_PORT, NUM_NODES, NODE_RANK", TORCHRUN),
            ("a strategy by configuration", _STRATEGIES),
            ("main process only; barrier", _STRATEGIES),
            ("configuration files", _STRATEGIES),
            ("effective batch size", _STRATEGIES),
        ),
    ),
    "augmentation": Document(
        "Augmentation",
        "`src.distributed` and `src.dpa` are `torchdeck.compat.augmentation`",
        (
            ("parameters of one sample", _AUGMENTATION),
            ("a rank's range and its stream", _AUGMENTATION),
            ("arguments of gen_distributed_augmentation_params", _AUGMENTATION),
            ("ranks compared", _AUGMENTATION),
            ("what that prints: the format, as its numbers are of no preset", _AUGMENTATION),
            ("the same again", _AUGMENTATION),
            ("methods of DistributedRangeSplitter", _AUGMENTATION),
            ("100 samples on 4 ranks", _AUGMENTATION),
            ("what that prints", _AUGMENTATION),
            ("23 samples on 4 ranks", _AUGMENTATION),
            ("what that prints", _AUGMENTATION),
            ("ranges checked and listed", _AUGMENTATION),
            ("arguments of stream_distributed_augmentation_chain", _AUGMENTATION),
            ("several processes and a queue", _AUGMENTATION),
            ("one configuration for all ranks", _AUGMENTATION),
            ("errors of arguments", _AUGMENTATION),
            ("a million samples as a stream", _AUGMENTATION),
            ("a check of the setup", _AUGMENTATION),
            ("a rank beyond the world size", _AUGMENTATION),
            ("another base seed", _AUGMENTATION),
            ("more ranks than samples", _AUGMENTATION),
            ("chunk sizes", _AUGMENTATION),
            ("memory while a stream is read", _AUGMENTATION),
            ("torch's DataLoader and DistributedSampler", _AUGMENTATION),
            (
                "ids and ranks from TensorFlow",
                f"{_AUGMENTATION}; a Keras layer: `torchdeck.integrations.AugmentationLayer`",
            ),
            ("seeds for a generator of one's own", _AUGMENTATION),
            ("another world size", _AUGMENTATION),
        ),
    ),
    "object_api": Document(
        "Object API",
        "`pycyxwiz` is `torchdeck.compat.object_api`",
        (
            ("a picture: gradients are averaged over the ranks", _OBJECTS),
            ("RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT", _OBJECTS),
            ("a training script", _OBJECTS),
            ("four processes by hand", "`torchdeck --no-gui --script train.py --nproc 4`, or by hand"),
            ("joining, querying, leaving", _OBJECTS),
            ("DistributedConfig", _OBJECTS),
            ("DistributedDataParallel", _OBJECTS),
            ("DistributedSampler", _OBJECTS),
            ("DistributedBatchIterator", _OBJECTS),
            ("DistributedTrainer", _OBJECTS),
            ("its history", _OBJECTS),
            ("choice of the backend", _OBJECTS),
            ("the launcher script", "`torchdeck --no-gui --script train.py --nproc 4`"),
            (
                "the launcher script on Windows",
                "Linux only: `torchdeck --no-gui --script train.py --nproc 4`",
            ),
            ("four terminals", "by hand"),
            ("two machines with two ranks each", "by hand"),
            ("set_epoch", _OBJECTS),
            ("save on the master", _OBJECTS),
            ("learning rate by batch size", _OBJECTS),
            ("gradient accumulation", _OBJECTS),
            ("drop_last", _OBJECTS),
            ("rank 0 cannot be reached", "the error names address and rank"),
            ("a rank is missing", "the error names the rank"),
            ("NCCL without a GPU", "the error says what to set"),
            ("ranks with different models", "the error names the tensor"),
            ("variables with their defaults", _OBJECTS),
        ),
    ),
}
