"""Programs of known trainers in which one rank hangs in step 20."""

from __future__ import annotations

HUGGING_FACE = """
import os, time
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {"loss": (self.linear(x) ** 2).mean()}

class Data(torch.utils.data.Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, index): return {"x": torch.ones(4), "labels": torch.ones(1)}

class Fault(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        time.sleep(0.02)
        if state.global_step == 20 and os.environ["RANK"] == "1":
            time.sleep(10**6)  # HERE

arguments = TrainingArguments(output_dir="out", max_steps=10**6, logging_steps=5, save_strategy="no",
                              report_to="none", use_cpu=True, per_device_train_batch_size=2)
Trainer(model=Model(), args=arguments, train_dataset=Data(), callbacks=[Fault()]).train()
"""

LIGHTNING = """
import os, time
import torch
import lightning.pytorch as pl

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        time.sleep(0.02)
        if index == 20 and os.environ["RANK"] == "1":
            time.sleep(10**6)  # HERE
        return (self.linear(batch) ** 2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

if __name__ == "__main__":
    data = torch.utils.data.DataLoader(torch.ones(100_000, 4), batch_size=2)
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                         enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Model(), data)
"""

PROGRAMS = {"hugging-face": HUGGING_FACE, "lightning": LIGHTNING}

RECIPE = """

import os, time
_loss, _calls = loss, []

def loss(model, batch):
    _calls.append(None)
    if len(_calls) == 20 and os.environ["RANK"] == "1":
        time.sleep(10**6)  # HERE
    return _loss(model, batch)
"""
"""Appended to the recipe that trains at a given pace."""
