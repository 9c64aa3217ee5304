"""Training scripts for Hugging Face Trainer and Lightning, and their runs. Models are made from a config."""

import os
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.cli.command import Command
from support.system.trainers_python import ABSENT, trainers_python
from torchdeck.contract.layout import RunLayout

HUGGING_FACE = """
import json, os, sys, time
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

STEPS, PACE, WORKERS = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])


class Tokens(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 64, (16,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


class Pace(TrainerCallback):
    def on_step_end(self, *_, **__):
        time.sleep(PACE)


torch.manual_seed(0)
torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
arguments = TrainingArguments(
    output_dir="out", max_steps=STEPS, per_device_train_batch_size=2, logging_steps=1, eval_strategy="steps",
    eval_steps=5, save_strategy="no", report_to="none", use_cpu=True, seed=0, dataloader_num_workers=WORKERS,
)
tokens = Tokens()
trainer = Trainer(
    model=model, args=arguments, train_dataset=tokens, eval_dataset=torch.utils.data.Subset(tokens, range(8)),
    callbacks=[Pace()],
)
trainer.train()
if trainer.is_world_process_zero():
    with open("log_history.json", "w") as file:
        json.dump([trainer.state.global_step, trainer.state.log_history], file)
print("ended at step", trainer.state.global_step, flush=True)
"""


def ending(script: str) -> str:
    """Return the script with an end that leaves its process group, and then Python without finalizing it.

    A thread of gloo that releases its last tensors while Python finalizes aborts the process, also under
    torchrun alone. What is registered to run at exit runs, as in `distributed.process_end.leave`.
    """
    return f"""{textwrap.dedent(script)}
if __name__ == "__main__":
    import atexit, os, sys, threading
    import torch.distributed
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
"""


@dataclass(frozen=True)
class ScriptRun:
    """A script in a folder, to run with the interpreter that has the trainers."""

    folder: Path
    home: Path

    @property
    def command(self) -> Command:
        return Command(self.home)

    def config(self, script: str, *args: str, ranks: int = 2, more: str = "") -> Path:
        """Write script and run file; skips the test if the trainers are not installed."""
        python = trainers_python()
        if python is None:
            pytest.skip(ABSENT)
        self.folder.mkdir(exist_ok=True)
        (self.folder / "train.py").write_text(ending(script))
        path = self.folder / "run.toml"
        path.write_text(
            f'[run]\nscript = "train.py"\nargs = {list(args)}\ninterpreter = "{python}"\n'
            '[run.env]\nHF_HUB_OFFLINE = "1"\n'
            f"[distributed]\nnproc = {ranks}\n{more}"
        )
        return path

    def run(self, config: Path, *, timeout: float = 120) -> RunLayout:
        """Run to the end; it must succeed."""
        done = self.command.run("--no-gui", "--trust", config, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.command.runs()[-1]


def torchrun_environment() -> dict[str, str]:
    """Variables for a torchrun that Torchdeck does not start."""
    ours = ("TORCHDECK_", "PYTHONPATH")
    return {**{k: v for k, v in os.environ.items() if not k.startswith(ours)}, "HF_HUB_OFFLINE": "1"}


def by_hand(
    folder: Path, text: str, args: tuple[str, ...], python: str | None = None, **variables: str
) -> None:
    """The same program under torchrun alone, with two ranks; without a `python`, that of the trainers."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(ending(text))
    argv = [
        python or str(trainers_python()),
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "train.py",
        *args,
    ]
    environment = {**torchrun_environment(), **variables}
    done = subprocess.run(
        argv, cwd=folder, env=environment, check=False, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


LIGHTNING = """
import sys, time
import torch
import lightning.pytorch as pl
from lightning.pytorch.loggers import CSVLogger

STEPS, PACE = int(sys.argv[1]), float(sys.argv[2])


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        time.sleep(PACE)
        loss = (self.layer(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", (self.layer(batch) - 1).square().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


pl.seed_everything(0)
torch.set_num_threads(1)
rows = torch.randn(4096, 4)
trainer = pl.Trainer(
    max_steps=STEPS, accelerator="cpu", devices=2, strategy="ddp", logger=CSVLogger("logs", version=0),
    log_every_n_steps=3, val_check_interval=5, limit_val_batches=2, enable_progress_bar=False,
    enable_checkpointing=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(rows, 2), torch.utils.data.DataLoader(rows[:16], 2))
print("ended at step", trainer.global_step, flush=True)
"""
