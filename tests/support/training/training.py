"""Training runs of the paced recipe, and what they left: losses by step, weights at the end."""

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from support.cli.command import Command
from torchdeck.contract.layout import RunLayout
from torchdeck.metrics import RunMetrics

RECIPE = Path(__file__).parents[2] / "fakes" / "paced_recipe.py"

CONFIG = """\
name = "paced"

[run]
recipe = "paced_recipe.py"

[model]
pace = {pace}

[training]
steps = {steps}
{microbatches}
lr = 0.01
clip = 1.0
warmup_steps = 5
schedule = "cosine"
seed = 7
precision = "{precision}"
eval_every = 10

[distributed]
strategy = "{strategy}"
nproc = {nproc}
devices = "cpu"

[checkpoint]
every = {every}
keep_last = 3

[limits]
min_free_disk = "1MiB"
memory = "{memory}"
"""


@dataclass(frozen=True)
class Training:
    """A folder with a run.toml and the recipe beside it."""

    folder: Path
    strategy: str = "ddp"
    nproc: int = 2
    precision: str = "fp32"
    steps: int = 40
    every: int = 10
    batch_plan: Path | None = None
    memory: str = "off"
    """limits.memory; anything but "off" has the model traced first, which takes seconds."""

    def write(self, pace: float) -> Path:
        """The run.toml, with `pace` seconds for each forward pass."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(RECIPE, self.folder)
        file = self.folder / "run.toml"
        file.write_text(
            CONFIG.format(
                pace=pace,
                steps=self.steps,
                strategy=self.strategy,
                nproc=self.nproc,
                precision=self.precision,
                every=self.every,
                microbatches=self._microbatches,
                memory=self.memory,
            )
        )
        return file

    @property
    def _microbatches(self) -> str:
        if self.batch_plan is None:
            return "microbatch = 4"
        return f'batch_plan = "{self.batch_plan}"\nbalance = "tokens"'


def uninterrupted(command: Command, training: Training, *arguments: str) -> RunLayout:
    """A run of `training` from start to end, at full speed."""
    done = command.run("--no-gui", "--trust", *arguments, training.write(pace=0.0))
    assert done.returncode == 0, done.stdout + done.stderr
    return command.runs()[-1]


def losses(run: RunLayout, name: str = "loss") -> dict[int, float]:
    """Metric `name` of rank 0 by step, as the history that the final weights come from."""
    metrics = RunMetrics(run.root)
    metrics.refresh()
    series = metrics.series(name, 0, effective=True)
    values = {int(step): float(value) for step, value in zip(series.steps, series.values, strict=True)}
    assert not any(math.isnan(value) for value in values.values())
    return values


def final_state(run: RunLayout, scratch: Path) -> dict[str, Any]:
    """Every tensor of the final checkpoint, by its path in the saved state."""
    file = scratch / f"{run.root.name}.pt"
    source = next(path.parent for path in (run.checkpoints / "final").rglob(".metadata"))
    dcp_to_torch_save(source, file)
    found: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{prefix}/{key}", item)
        elif isinstance(value, torch.Tensor):
            found[prefix] = value

    walk("", torch.load(file, weights_only=True))
    return found


def assert_same_state(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Bit for bit, tensor for tensor."""
    assert ours.keys() == theirs.keys()
    assert ours
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert different == []
