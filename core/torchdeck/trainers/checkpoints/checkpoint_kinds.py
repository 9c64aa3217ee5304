"""The kinds of checkpoints, and one that was found."""

from __future__ import annotations

from typing import NamedTuple

from torchdeck.contract.run_states import TextEnum


class CheckpointKind(TextEnum):
    """Trainer that writes checkpoints of this layout; the value is journaled."""

    HUGGING_FACE = "hf"
    """`checkpoint-N/trainer_state.json`: transformers.Trainer and what inherits from it."""
    ACCELERATE = "accelerate"
    """A folder with `random_states_R.pkl`: Accelerator.save_state."""
    LIGHTNING = "lightning"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"
    MEGATRON = "megatron"
    VERL = "verl"
    DISTRIBUTED = "dcp"
    """A folder of torch.distributed.checkpoint."""
    NANOGPT = "nanogpt"
    """`ckpt.pt`, rewritten in place."""
    SNAPSHOT = "snapshot"
    """`snapshot.pt`, rewritten in place: the torchrun tutorials."""
    WEIGHTS = "weights"
    """A weight file of any other program, with a number in its name."""

    @property
    def trainer(self) -> str:
        """Name of the trainer, for people."""
        return _TRAINERS[self]


_TRAINERS = {
    CheckpointKind.HUGGING_FACE: "Hugging Face Trainer",
    CheckpointKind.ACCELERATE: "Accelerate",
    CheckpointKind.LIGHTNING: "Lightning",
    CheckpointKind.TORCHTITAN: "torchtitan",
    CheckpointKind.DEEPSPEED: "DeepSpeed",
    CheckpointKind.MEGATRON: "Megatron-LM",
    CheckpointKind.VERL: "verl",
    CheckpointKind.DISTRIBUTED: "torch.distributed.checkpoint",
    CheckpointKind.NANOGPT: "ckpt.pt",
    CheckpointKind.SNAPSHOT: "snapshot.pt",
    CheckpointKind.WEIGHTS: "weight file",
}


FILE_KINDS = frozenset(
    (CheckpointKind.LIGHTNING, CheckpointKind.NANOGPT, CheckpointKind.SNAPSHOT, CheckpointKind.WEIGHTS)
)
"""Kinds whose checkpoints are single files; the others are folders."""


class TrainerCheckpoint(NamedTuple):
    """A file or folder that has the name of a checkpoint."""

    path: str
    kind: CheckpointKind
    step: int | None
    """Optimizer steps in it, if its name or its own state says so."""
    changed: float
    """Unix time at which its sign of completeness was written; of an incomplete one, its last change."""
    incomplete: str = ""
    """Why it cannot be used yet, as a clause; empty if it is complete."""
