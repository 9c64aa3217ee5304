"""Programs whose files are read while they run: the packages from PyPI, on gloo, without callbacks inside."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from support.training.inside_scripts import ScriptRun
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import Origin, read_script_state

FILES_ALONE = "[telemetry]\ninside = false\nstdout = false\n"
HUGGING_FACE = """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments

    class Tokens(torch.utils.data.Dataset):
        def __init__(self, length):
            self.length = length
        def __len__(self):
            return self.length
        def __getitem__(self, index):
            tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": tokens, "labels": tokens}

    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    torch.set_num_threads(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(4096), eval_dataset=Tokens(8))
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
"""
LIGHTNING = """
    import lightning, torch
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
        def training_step(self, batch, _):
            loss = (self.layer(batch) ** 2).mean()
            self.log("train_loss", loss)
            return loss
        def validation_step(self, batch, _):
            self.log("val_loss", (self.layer(batch) ** 2).mean(), sync_dist=True)
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    lightning.seed_everything(0)
    data = torch.utils.data.DataLoader(torch.randn(48, 4), batch_size=4)
    loggers = [CSVLogger("logs", name="table"), TensorBoardLogger("logs", name="events")]
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, log_every_n_steps=1, logger=loggers,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Model(), data, data)
"""


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


def rows(layout: RunLayout, name: str, rank: int = 0) -> list[tuple[int, float]]:
    """(step, value) of a metric as it is plotted."""
    series = opened(layout.root).series(name, rank)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def history(folder: Path, name: str, after: int = 0) -> list[tuple[int, float]]:
    """The same of a state's log_history."""
    entries = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [(entry["step"], entry[name]) for entry in entries if name in entry and entry["step"] > after]


@pytest.mark.soak  # its files are read by values in test_written.py
@pytest.mark.processes
def test_hugging_face(script: ScriptRun, tmp_path: Path) -> None:
    """In an output folder elsewhere: log_history is what is plotted, bit for bit; a second run in the same
    folder, which continues, has its own rows alone.
    """
    output = tmp_path / "results"
    arguments = [
        "--output_dir", str(output), "--max_steps=12", "--logging_steps=1", "--eval_strategy=steps",
        "--eval_steps=5", "--save_steps=4", "--use_cpu=true", "--report_to=tensorboard",
        "--per_device_train_batch_size=2", "--disable_tqdm=true",
    ]  # fmt: skip
    layout = script.run(script.config(HUGGING_FACE, *arguments, ranks=1, more=FILES_ALONE))
    for name in ("loss", "grad_norm", "learning_rate", "eval_loss"):
        assert rows(layout, name) == history(output / "checkpoint-12", name)
    assert [step for step, _ in rows(layout, "train/loss")] == list(range(1, 13))
    state = read_script_state(layout.attempt(1).rank(0).script)
    assert state is not None
    assert (state.step, state.total) == (12, 12)
    assert state.origins["total"] == Origin("file", "trainer_state.json")
    # both files tell the last step and loss; which of them is read last is a matter of milliseconds
    either = {Origin("file", "trainer_state.json"), Origin("file", "TensorBoard event file")}
    assert {state.origins["step"], state.origins["loss"]} <= either

    shown = script.command.run("runs", "show", layout.root.name).stdout
    (progress,) = [line for line in shown.splitlines() if line.strip().startswith("progress: ")]
    assert "trainer_state.json" in progress

    resumed = [*arguments, "--resume_from_checkpoint", str(output / "checkpoint-8"), "--max_steps=16"]
    again = script.run(script.config(HUGGING_FACE, *resumed, ranks=1, more=FILES_ALONE))
    assert rows(again, "loss") == history(output / "checkpoint-16", "loss", after=8)
    assert [step for step, _ in rows(again, "train/loss")] == list(range(9, 17))


@pytest.mark.processes
@pytest.mark.soak  # its files are read by values in test_written.py
def test_lightning(script: ScriptRun) -> None:
    """metrics.csv is what is plotted; what TensorBoard has of the same is not plotted twice."""
    layout = script.run(script.config(LIGHTNING, ranks=1, more=FILES_ALONE))
    with (script.folder / "logs/table/version_0/metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    for name in ("train_loss", "val_loss"):
        assert rows(layout, name) == [(int(row["step"]), float(row[name])) for row in table if row[name]]
    state = read_script_state(layout.attempt(1).rank(0).script)
    assert state is not None
    assert state.step == 23
    assert state.origins["loss"].layer == "file"
