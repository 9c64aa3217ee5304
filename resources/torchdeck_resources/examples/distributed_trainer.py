"""Training with a class: data and model are your own, everything else is an argument.

python distributed_trainer.py                                    one process
torchrun --nproc-per-node 2 distributed_trainer.py               two, by torchrun
torchdeck --no-gui --script distributed_trainer.py --nproc 2     two, in a recorded run
"""

import torch
from torch import nn

from torchdeck.distributed import DistributedTrainer


def rings() -> tuple[torch.Tensor, torch.Tensor]:
    """Return points in the plane, labelled 0 to 2 by their ring; the same on every rank."""
    points = torch.rand(2048, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    return points, points.norm(dim=1).long()


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    points, labels = rings()
    with DistributedTrainer(
        model,
        loss=nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        lr=1e-2,
        schedule="cosine",
        clip=1.0,
        patience=3,
        checkpoint_dir="ring-checkpoints",
        checkpoint_every="epoch",
    ) as trainer:
        history = trainer.fit(points, labels, epochs=4, microbatch=32, validation_split=0.125)
        held_out = trainer.evaluate(points[:100], labels[:100])
        if trainer.strategy.is_main_process:
            for epoch in history.epochs:
                print(
                    f"epoch {epoch.epoch} loss {epoch.loss:.3f} accuracy {epoch.metrics['accuracy']:.3f} "
                    f"held out {epoch.validation['accuracy']:.3f}"
                )
            print(f"{history.world_size} ranks, {history.effective_batch_size} samples a step, {held_out}")


if __name__ == "__main__":
    main()
