"""Trains by Lightning in turns with and without Torchdeck's callback.

Arguments: turns, steps per turn. Started as a rank, so that the callback is there. Prints CPU seconds of the
main thread per turn, as JSON: what else the machine does hardly changes them.
"""

import json
import logging
import sys
import time
import warnings

import torch
from lightning import pytorch as lightning
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.workers.inside_hooks import Hooks, in_turn

TURNS, STEPS = int(sys.argv[1]), int(sys.argv[2])


class Module(lightning.LightningModule):  # type: ignore[misc]  # not installed where mypy runs
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch[0]).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def turn(*, callback: bool) -> float:
    hooks.switch(on=callback)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=STEPS,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    ours = [each for each in trainer.callbacks if type(each).__name__ == "TorchdeckCallback"]
    assert len(ours) == 1
    if not callback:
        trainer.callbacks.remove(ours[0])
    rows = DataLoader(TensorDataset(torch.ones(STEPS, 4)))
    begun = time.thread_time()
    trainer.fit(Module(), rows)
    return time.thread_time() - begun


torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")
hooks = Hooks()
turn(callback=True)
print("SECONDS", json.dumps(in_turn(turn, TURNS)))
