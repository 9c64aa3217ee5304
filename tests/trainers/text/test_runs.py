"""Programs whose output alone is read: the packages from PyPI, on gloo, without callbacks inside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.training.inside_scripts import HUGGING_FACE, ScriptRun
from support.values.metrics import opened
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.metrics.script_state import Origin, ScriptState, read_script_state

TEXT_ALONE = "[telemetry]\ninside = false\n"
NOTHING_INSIDE = """
import transformers.trainer
assert transformers.trainer.DEFAULT_CALLBACKS == [transformers.trainer.DefaultFlowCallback]
assert not any("inside" in entry for entry in [*sys.path, os.environ["PYTHONPATH"]])
assert not any("torchdeck" in name for name in sys.modules)
"""
"""Put at the end of a script of the Hugging Face Trainer."""
LIGHTNING = """
    import json, torch, lightning
    from lightning.pytorch.callbacks import TQDMProgressBar

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.shown = {"train_loss": [], "val_loss": []}
        def training_step(self, batch, _):
            loss = (self.layer(batch) ** 2).mean()
            self.log("train_loss", loss, prog_bar=True)
            self.shown["train_loss"].append([self.global_step + 1, loss.item()])
            return loss
        def validation_step(self, batch, _):
            self.log("val_loss", (self.layer(batch) ** 2).mean(), prog_bar=True)
        def on_validation_epoch_end(self):
            if not self.trainer.sanity_checking:
                loss = self.trainer.callback_metrics["val_loss"].item()
                self.shown["val_loss"].append([self.global_step, loss])
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    lightning.seed_everything(0)
    torch.set_num_threads(1)
    data = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        callbacks=[TQDMProgressBar()], enable_model_summary=False,
    )
    model = Model()
    trainer.fit(model, data, data)
    print(json.dumps(model.shown), file=open("shown", "w"))
"""
ACCELERATE = """
    import json, torch
    from accelerate import Accelerator
    from tqdm.auto import tqdm

    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    data = torch.utils.data.DataLoader(torch.randn(80, 4), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    bar = tqdm(range(20), desc="Steps", disable=not accelerator.is_local_main_process)
    shown = []
    for _ in range(2):
        for batch in data:
            loss = (model(batch) ** 2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            bar.update(1)
            bar.set_postfix(step_loss=loss.detach().item(), lr=0.01)
            shown.append([bar.n, loss.item()])
    if accelerator.is_main_process:
        print(json.dumps(shown), file=open("shown", "w"))
"""

TORCHTITAN = """
    # torchtitan's trainer needs a GPU; what prints its lines does not
    from types import SimpleNamespace
    from torchtitan.components import metrics
    from torchtitan.tools.logging import init_logger
    from torchtitan.tools.utils import Color

    init_logger()
    stats = SimpleNamespace(
        max_active_gib=1.0, max_active_pct=1.0, max_reserved_gib=1.5, max_reserved_pct=1.9,
        num_alloc_retries=0, num_ooms=0,
    )
    processor = object.__new__(metrics.MetricsProcessor)
    vars(processor).update(
        logger=metrics.BaseLogger(), config=SimpleNamespace(log_freq=5), color=Color(), gpu_peak_flops=1e12,
        parallel_dims=SimpleNamespace(non_data_parallel_size=1), ntokens_since_last_log=0,
        data_loading_times=[], time_last_log=0.0, num_flops_per_token=1000, has_quantization=False,
        device_memory_monitor=SimpleNamespace(get_peak_stats=lambda: stats, reset_peak_stats=lambda: None),
    )
    for step in range(5, 21, 5):
        processor.ntokens_since_last_log, processor.data_loading_times = 4096, [0.1]
        processor.log(step, 8 - step / 7, 9.0, 1.25)
        if step % 10 == 0:
            processor.log_validation(8.5 - step / 7, step)
"""


@pytest.fixture
def script(tmp_path: Path) -> ScriptRun:
    return ScriptRun(tmp_path / "project", tmp_path / "home")


def digits(rows: list[tuple[int, float]], count: int) -> list[tuple[int, str]]:
    """Rows with as many significant digits as the program printed."""
    return [(step, f"{float(value):.{count}g}") for step, value in rows]


def plotted(layout: RunLayout, name: str, count: int) -> list[tuple[int, str]]:
    """Rank 0's series, as it is drawn."""
    series = opened(layout.root).series(name, 0)
    return digits(list(zip(series.steps.tolist(), series.values.tolist(), strict=True)), count)


def state_of(layout: RunLayout) -> ScriptState:
    state = read_script_state(layout.attempt(1).rank(0).script)
    assert state is not None
    return state


@pytest.mark.processes
def test_hugging_face_prints_its_log_history(script: ScriptRun) -> None:
    """Loss and steps of a Trainer, with evaluations between: equal to 4 digits; total by the bar.

    Nothing of Torchdeck's callbacks is in it.
    """
    program = HUGGING_FACE + NOTHING_INSIDE
    layout = script.run(script.config(program, "12", "0.02", "0", ranks=1, more=TEXT_ALONE))
    files = layout.attempt(1).rank(0)
    assert not files.inside.exists()
    assert not files.progress.exists()
    _, history = json.loads((script.folder / "log_history.json").read_text())
    for name in ("loss", "grad_norm", "learning_rate", "eval_loss", "train_loss"):
        expected = [(row["step"], row[name]) for row in history if name in row]
        assert expected
        assert plotted(layout, name, 4) == digits(expected, 4), name
    state = state_of(layout)
    assert (state.step, state.total) == (12, 12)
    assert state.origins["loss"].layer == "stdout"
    assert state.origins["step"] == Origin("stderr", "progress bar")


@pytest.mark.processes
@pytest.mark.soak  # its lines are in the table of test_output.py
def test_lightnings_bar_is_its_series(script: ScriptRun) -> None:
    """Steps rise across epochs; the held-out loss is a series with a row for each validation."""
    layout = script.run(script.config(LIGHTNING, ranks=1, more=TEXT_ALONE))
    shown = json.loads((script.folder / "shown").read_text())
    assert plotted(layout, "train_loss", 3) == digits(shown["train_loss"], 3)
    assert plotted(layout, "val_loss", 3) == digits(shown["val_loss"], 3)
    state = state_of(layout)
    assert (state.step, state.epoch) == (30, 2.0)
    assert state.origins["step"] == Origin("stdout", "progress bar")


@pytest.mark.soak  # its lines are in the table of test_output.py
@pytest.mark.processes
def test_a_loop_with_accelerate_has_its_steps_and_total_by_the_bar_on_stderr(script: ScriptRun) -> None:
    """The values that the bar shows after each step, and nothing from the rank whose bar is off."""
    layout = script.run(script.config(ACCELERATE, more=TEXT_ALONE))
    shown = json.loads((script.folder / "shown").read_text())
    assert plotted(layout, "step_loss", 3) == digits(shown, 3)
    assert opened(layout.root).ranks("step_loss") == [0]
    state = state_of(layout)
    assert (state.step, state.total) == (20, 20)
    assert state.origins["step"] == Origin("stderr", "progress bar")


@pytest.mark.processes
@pytest.mark.shows("torchtitan", "metrics", "steps")
def test_torchtitan_prints_two_series(script: ScriptRun) -> None:
    """Its own code prints the lines, in colours; validation does not mix into the loss."""
    layout = script.run(script.config(TORCHTITAN, ranks=1, more=TEXT_ALONE))
    steps = range(5, 21, 5)
    assert plotted(layout, "loss", 5) == digits([(step, 8 - step / 7) for step in steps], 5)
    held_out = [(step, 8.5 - step / 7) for step in steps if step % 10 == 0]
    assert plotted(layout, "validation_loss", 4) == digits(held_out, 4)
    assert state_of(layout).step == 20
