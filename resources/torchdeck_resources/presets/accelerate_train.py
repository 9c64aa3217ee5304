"""A training loop with accelerate: checkpoints by save_state, a progress bar with the loss, no download."""

import argparse
import re
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def waves(count: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 4, generator=generator) * 6 - 3
    return TensorDataset(x, (x.sin().sum(1, keepdim=True) + x[:, :1] * x[:, 1:2]))


def newest(folder: Path) -> Path | None:
    named = ((re.search(r"-(\d+)$", path.name), path) for path in folder.glob("checkpoint-*"))
    steps = {int(number[1]): path for number, path in named if number}
    return steps[max(steps)] if steps else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch_size", type=int, default=32, help="samples a rank")
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--output_dir", type=Path, default=Path("outputs"))
    parser.add_argument("--checkpointing_steps", type=int, default=50)
    parser.add_argument("--resume_from_checkpoint", help="a checkpoint, or latest")
    args = parser.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=args.accumulate)
    model = nn.Sequential(nn.Linear(4, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = DataLoader(waves(8_192), args.batch_size, shuffle=True)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)

    step = 0
    given = args.resume_from_checkpoint
    place = newest(args.output_dir) if given == "latest" else given and Path(given)
    if place:
        accelerator.load_state(str(place))
        step = int(place.name.rpartition("-")[2])

    bar = tqdm(total=args.steps, initial=step, desc="Steps", disable=not accelerator.is_local_main_process)
    while step < args.steps:
        for x, y in data:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if not accelerator.sync_gradients:
                continue
            step += 1
            bar.update(1)
            bar.set_postfix(loss=f"{loss.item():.4f}", lr=args.lr)
            if step % args.checkpointing_steps == 0:
                accelerator.save_state(str(args.output_dir / f"checkpoint-{step}"))
            if step >= args.steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
