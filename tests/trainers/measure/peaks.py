"""Peak of the bytes of all tensors in two steps of real training, printed as JSON."""

from __future__ import annotations

import json
import sys
import weakref
from typing import Any

import torch
from models import as_file
from peft import LoraConfig, get_peft_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

MICROBATCH, SEQUENCE, WORDS = 2, 96, 1000
SIZES: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 512, "max_position_embeddings": 256, "num_key_value_heads": 2, "head_dim": 32,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT2 = {
    "vocab_size": WORDS, "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 256, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


class Peak(TorchDispatchMode):
    """Counts the bytes of living storages after each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.living = self.peak = 0
        self.sizes: dict[int, int] = {}

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.sizes:
            self.sizes[key] = storage.nbytes()
            self.living += storage.nbytes()
            self.peak = max(self.peak, self.living)
            weakref.finalize(storage, self.drop, key)

    def drop(self, key: int) -> None:
        self.living -= self.sizes.pop(key, 0)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for each in tree_leaves(found):
            if isinstance(each, torch.Tensor):
                self.add(each)
        return found


def measured(family: str, *, lora: int = 0, checkpointing: bool = False) -> dict[str, Any]:
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](**(GPT2 if family == "gpt2" else SIZES))
    config.use_cache = False
    model = AutoModelForCausalLM.from_config(config)
    file = as_file(config, model)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if lora:
        model = get_peft_model(model, LoraConfig(r=lora))
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    ids = torch.randint(3, WORDS, (MICROBATCH, SEQUENCE))
    peak = Peak()
    for tensor in (*model.parameters(), *model.buffers()):
        peak.add(tensor)
    with peak:
        for _ in range(2):
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            del loss
            optimizer.step()
            optimizer.zero_grad()
    return {
        "config": file, "lora": lora, "checkpointing": checkpointing, "microbatch": MICROBATCH,
        "sequence": SEQUENCE, "peak": peak.peak,
    }  # fmt: skip


if __name__ == "__main__":
    found = [
        *(measured(family) for family in ("llama", "qwen3", "gpt2")),
        measured("llama", checkpointing=True),
        measured("llama", lora=8),
    ]
    json.dump(found, sys.stdout)
