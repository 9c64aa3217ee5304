"""A small GPT on characters, in the manner of nanoGPT: DDP by hand, out/ckpt.pt, --init_from=resume."""

import argparse
import math
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = "".join(f"{n} squared is {n * n}, and cubed {n**3}.\n" for n in range(2_000))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self, letters: int, length: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.blocks(self.letter(x) + self.place(torch.arange(x.shape[1], device=x.device)))
        return nn.functional.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_iters", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=16, help="samples a rank")
    parser.add_argument("--block_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--eval_interval", type=int, default=50, help="also between checkpoints")
    parser.add_argument("--log_interval", type=int, default=10)
    parser.add_argument("--out_dir", type=Path, default=Path("out"))
    parser.add_argument("--init_from", choices=("scratch", "resume"), default="scratch")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(letter) for letter in TEXT])
    train, val = data[: int(0.9 * len(data))], data[int(0.9 * len(data)) :]

    torch.manual_seed(1337)
    model = GPT(len(letters), args.block_size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    begin, file = 0, args.out_dir / "ckpt.pt"
    if args.init_from == "resume":
        kept = torch.load(file, map_location=device)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        begin = kept["iter_num"]
    parallel = DistributedDataParallel(model)

    def batch(source: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(number * dist.get_world_size() + rank)
        starts = torch.randint(len(source) - args.block_size - 1, (args.batch_size,), generator=generator)
        rows = torch.stack([source[start : start + args.block_size + 1] for start in starts]).to(device)
        return rows[:, :-1], rows[:, 1:]

    @torch.no_grad()
    def mean_loss(source: torch.Tensor) -> float:
        losses = torch.stack([model(*batch(source, -1 - n)) for n in range(5)]).mean()
        dist.all_reduce(losses)
        return losses.item() / dist.get_world_size()

    before = time.time()
    for number in range(begin, args.max_iters + 1):
        if number % args.eval_interval == 0:
            losses = mean_loss(train), mean_loss(val)
            if rank == 0:
                print(f"step {number}: train loss {losses[0]:.4f}, val loss {losses[1]:.4f}", flush=True)
                if number > begin:
                    args.out_dir.mkdir(parents=True, exist_ok=True)
                    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save({**parts, "iter_num": number}, file.with_suffix(".new"))
                    file.with_suffix(".new").replace(file)
        loss = parallel(*batch(train, number))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0 and number % args.log_interval == 0:
            passed, before = time.time() - before, time.time()
            value = loss.item()
            rest = f"time {1000 * passed:.2f}ms, ppl {math.exp(value):.2f}"
            print(f"iter {number}: loss {value:.4f}, {rest}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
