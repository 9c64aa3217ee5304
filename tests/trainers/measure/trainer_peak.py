"""Peak resident set of two ranks of the Hugging Face Trainer under DDP, printed as JSON."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RANKS, MICROBATCH, SEQUENCE = 2, 4, 256
SIZES: dict[str, Any] = {
    "vocab_size": 8000, "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
    "intermediate_size": 1536, "max_position_embeddings": 512, "num_key_value_heads": 4, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def train(folder: Path) -> None:
    """Train three steps as one rank, and write what the process took."""
    import torch
    from models import as_file
    from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return 3 * RANKS * MICROBATCH

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            ids = torch.randint(3, SIZES["vocab_size"], (SEQUENCE,))
            return {"input_ids": ids, "labels": ids}

    config = LlamaConfig(**SIZES)
    model = AutoModelForCausalLM.from_config(config)
    file = as_file(config, model)
    arguments = TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=MICROBATCH, max_steps=3, use_cpu=True,
        save_strategy="no", disable_tqdm=True, report_to="none",
    )  # fmt: skip
    Trainer(model=model, args=arguments, train_dataset=Rows()).train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    value = {"config": file, "peak": peak}
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(value), encoding="utf-8")
    torch.distributed.destroy_process_group()


def measured() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        subprocess.run([*command, __file__, folder], check=True, timeout=120, stdout=sys.stderr)
        ranks = [json.loads(Path(folder, f"{rank}.json").read_bytes()) for rank in range(RANKS)]
    return {
        "config": ranks[0]["config"], "lora": 0, "checkpointing": False, "microbatch": MICROBATCH,
        "sequence": SEQUENCE, "peaks": [rank["peak"] for rank in ranks],
    }  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        json.dump(measured(), sys.stdout)
