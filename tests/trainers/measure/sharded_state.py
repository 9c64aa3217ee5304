"""Bytes of weights, gradients and optimizer state of two ranks under DDP and FSDP, printed as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from models import as_file, tiny
from peft import LoraConfig, get_peft_model
from torch import multiprocessing
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

RANKS = 2
CASES = (("ddp", 0), ("fsdp", 0), ("fsdp", 8))
"""Strategy, and rank of LoRA."""


def local_bytes(tensor: torch.Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.untyped_storage().nbytes() if local.numel() else 0


def stored(parameters: list[Any]) -> int:
    """Bytes of the tensors; of shards as FSDP stores them, padded to the first one's rows."""
    return sum(
        -(-p.shape[0] // (RANKS if isinstance(p, DTensor) else 1))
        * (p.numel() // p.shape[0])
        * p.element_size()
        for p in parameters
    )


def rank_states(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    found = [rank_state(kind, lora) for kind, lora in CASES]
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def rank_state(kind: str, lora: int) -> dict[str, Any]:
    torch.manual_seed(0)
    config = tiny("llama")
    model = AutoModelForCausalLM.from_config(config)
    file = as_file(config, model)
    whole = get_peft_model(model, LoraConfig(r=lora)) if lora else model
    if kind == "fsdp":
        for block in model.model.layers:
            fully_shard(block)
        fully_shard(whole)
    else:
        whole = DistributedDataParallel(whole)
    parameters = list(whole.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    ids = torch.randint(3, 500, (1, 16))
    whole(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    moments = [value for state in optimizer.state.values() for value in state.values()]
    return {
        "config": file,
        "parameters": stored(parameters),
        "gradients": stored([parameter.grad for parameter in trained]),
        "optimizer": sum(map(local_bytes, moments)),
    }


def measured() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(rank_states, (folder,), nprocs=RANKS, start_method="spawn")
        ranks = [json.loads(Path(folder, f"{rank}.json").read_bytes()) for rank in range(RANKS)]
    fixed = {"checkpointing": False, "microbatch": 1, "sequence": 16}
    return [
        {**fixed, "config": of[0]["config"], "kind": kind, "lora": lora, "ranks": of}
        for (kind, lora), *of in zip(CASES, *ranks, strict=True)
    ]


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    json.dump(measured(), sys.stdout)
