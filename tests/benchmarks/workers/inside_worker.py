"""Trains by Hugging Face Trainer in turns with and without Torchdeck's callback.

Arguments: turns, steps per turn. Started as a rank, so that the callback is there. Prints CPU seconds of the
main thread per turn, as JSON: what else the machine does hardly changes them.
"""

import json
import sys
import time

import torch
from transformers import Trainer, TrainingArguments
from transformers import trainer as trainer_module

from benchmarks.workers.inside_hooks import Hooks, in_turn

TURNS, STEPS = int(sys.argv[1]), int(sys.argv[2])


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.layer(rows).square().mean()}


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"rows": torch.ones(4) * (index % 7)}


def turn(*, callback: bool) -> float:
    hooks.switch(on=callback)
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=STEPS,
        per_device_train_batch_size=1,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=Model(), args=arguments, train_dataset=Rows())
    trainer.remove_callback(trainer_module.PrinterCallback)
    if not callback:
        trainer.remove_callback(trainer_module.DEFAULT_CALLBACKS[-1])
    begun = time.thread_time()
    trainer.train()
    return time.thread_time() - begun


torch.set_num_threads(1)
assert trainer_module.DEFAULT_CALLBACKS[-1].__name__ == "TorchdeckCallback"
hooks = Hooks()
turn(callback=True)
print("SECONDS", json.dumps(in_turn(turn, TURNS)))
