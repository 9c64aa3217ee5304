"""Hand-written training loop for any strategy: accumulation, clipping, checkpoints and resume.

python hand_written_loop.py single                                    one process
torchrun --nproc-per-node 2 hand_written_loop.py ddp                  two, by torchrun
torchrun --nproc-per-node 2 hand_written_loop.py fsdp
torchdeck --no-gui --script hand_written_loop.py --nproc 2 -- ddp     two, in a recorded run

Start it again and it resumes from the newest checkpoint in ./loop-checkpoints, under any strategy and with
any number of ranks.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import torchdeck
from torchdeck.data import DistributedBatchIterator, DistributedSampler
from torchdeck.distributed import DistributedStrategy, find_latest_checkpoint

STEPS, SAVE_EVERY, ACCUMULATION, MICROBATCH = 40, 20, 2, 8
FOLDER = Path("loop-checkpoints")


def rings() -> tuple[torch.Tensor, torch.Tensor]:
    """Return points in the plane, labelled 0 to 2 by their ring; the same on every rank."""
    points = torch.rand(512, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    return points, points.norm(dim=1).long()


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "ddp"
    with DistributedStrategy.from_config({"strategy": name, "fsdp": {"wrap": "size"}}) as strategy:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
        wrapped = strategy.wrap_model(model)
        optimizer = strategy.prepare_optimizer(wrapped, torch.optim.AdamW(model.parameters(), lr=1e-2))

        points, labels = rings()
        sampler = DistributedSampler(
            len(points), strategy.world_size, strategy.rank, seed=3, exactly_once=True
        )
        batches = DistributedBatchIterator(sampler, MICROBATCH)
        start = 0
        if find_latest_checkpoint(FOLDER) is not None:
            loaded = strategy.load(FOLDER, model, optimizer)
            start = loaded.step
            batches.load_state_dict(loaded.extra["batches"])

        for step in range(start + 1, start + STEPS + 1):
            mean = 0.0
            for index in range(ACCUMULATION):
                if not batches.has_next():
                    batches.reset(batches.epoch + 1)
                ids = torch.from_numpy(batches.next())
                inputs, targets = strategy.to_device((points[ids], labels[ids]))
                # gradients are reduced only in the last microbatch
                with strategy.accumulate(wrapped, last=index == ACCUMULATION - 1):
                    total = functional.cross_entropy(wrapped(inputs), targets, reduction="sum")
                    # a sum, so that a smaller last batch of an epoch is weighted by its samples
                    loss = total / (MICROBATCH * ACCUMULATION)
                    strategy.backward(loss)
                mean += loss.item()
            norm = strategy.clip_grad_norm(model, 1.0)
            strategy.optimizer_step(optimizer)
            optimizer.zero_grad()

            torchdeck.log({"loss": mean}, step=step)  # no effect outside of a Torchdeck run
            if strategy.is_main_process and step % 10 == 0:
                print(f"step {step} loss {mean:.3f} gradient norm {norm:.3f}")
            if step % SAVE_EVERY == 0:
                strategy.save(FOLDER, model, optimizer, step=step, extra={"batches": batches.state_dict()})


if __name__ == "__main__":
    main()
