"""Options and history of `DistributedTrainer`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from torchdeck.contract.arguments.checked_call import checked_class
from torchdeck.distributed.fit.training_history import History


@checked_class
@dataclass
class DistributedTrainingConfig:
    """Options of one call of `fit`."""

    epochs: int = 10
    batch_size: int = 32
    """Samples per step on each rank."""
    shuffle: bool = True
    """Always True: the library's data order is a permutation per epoch."""
    seed: int = 0
    """Seed of the data order and of validation_split."""
    verbose: bool = True
    """Rank 0 prints a line every `log_every_n_batches` steps."""
    log_every_n_batches: int = 10
    checkpoint_every_n_epochs: int = 0
    """0: none while training."""
    checkpoint_dir: str | Path = ""
    """Empty: nothing is saved."""
    save_on_master_only: bool = True
    """A checkpoint is one folder, to which every rank writes its part, whatever this says."""
    validation_split: float = 0.0
    """Fraction of the training data to hold out; 0: none."""


@dataclass
class DistributedTrainingHistory:
    """Means per epoch, the same on every rank; accuracies are shares of 1."""

    train_losses: list[float] = field(default_factory=list)
    train_accuracies: list[float] = field(default_factory=list)
    val_losses: list[float] = field(default_factory=list)
    val_accuracies: list[float] = field(default_factory=list)
    total_time_seconds: float = 0.0
    samples_per_second: float = 0.0
    """All ranks together."""
    effective_batch_size: int = 0
    """Batch size times world size."""
    world_size: int = 1

    @classmethod
    def of(cls, history: History) -> DistributedTrainingHistory:
        """Return the library's history under these names."""
        return cls(
            history.series("loss"),
            history.series("accuracy"),
            history.series("validation_loss"),
            history.series("validation_accuracy"),
            history.seconds,
            history.samples_per_s,
            history.effective_batch_size,
            history.world_size,
        )
