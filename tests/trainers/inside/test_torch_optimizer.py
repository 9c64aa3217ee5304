"""Optimizer steps are counted in loops that no known trainer runs; what a program says itself comes first."""

import json
from pathlib import Path

import pytest

from support.training.inside_scripts import ScriptRun
from torchdeck.contract.metrics.progress import read_progress

pytestmark = pytest.mark.processes

SILENT = """
import torch

model, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
rarer = torch.optim.SGD(other.parameters(), lr=0.1)
for batch in range(12):
    (model(torch.randn(2, 4)).square().mean() + other(torch.randn(2, 4)).square().mean()).backward()
    if batch % 2:
        optimizer.step()
        optimizer.zero_grad()
    if batch % 6 == 5:
        rarer.step()


def step():
    optimizer.step()


torch.compile(step, backend="eager")()
"""


def test_a_loop_that_prints_nothing_has_its_steps(tmp_path: Path) -> None:
    """Of the optimizer that stepped most; accumulated microbatches and compiled steps are not counted."""
    script = ScriptRun(tmp_path / "project", tmp_path / "home")
    layout = script.run(script.config(SILENT))
    shown = script.command.json("runs", "show", layout.root.name)
    assert shown["origins"] == {"step": "counted optimizer steps"}
    assert shown["callback_failures"] == []
    for rank in (0, 1):
        counted = read_progress(layout.attempt(1).rank(rank).counted)
        assert counted is not None
        assert counted.step == 6
        assert json.loads(layout.attempt(1).rank(rank).script.read_text())["step"] == 6
