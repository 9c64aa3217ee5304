"""The paced recipe, held: a rank waits at a step, so that a test steps in there and not a second later."""

from __future__ import annotations

from pathlib import Path

from support.training.training import RECIPE

HELD = """

import os
import time
from pathlib import Path

_not_held, _batches = loss, [0]


def loss(model, batch):
    \"\"\"As it was; but rank {rank} of the first attempt waits in step {step} until there is the gate.\"\"\"
    _batches[0] += model.training
    is_held = os.environ.get("TORCHDECK_ATTEMPT") == "1" and os.environ["RANK"] == "{rank}"
    limit = time.monotonic() + 200
    while is_held and _batches[0] == {step} and not Path({gate!r}).exists() and time.monotonic() < limit:
        time.sleep(0.02)
    return _not_held(model, batch)
"""


def hold(run_file: Path, *, step: int, gate: Path | None = None, rank: int = 1) -> Path:
    """Have `rank` wait in `step`, which the others cannot end without it; the run file.

    Args:
        run_file: what `Training.write` has written, with one microbatch a step.
        step: whose forward pass waits; the ones before it are done and, where it is time, saved.
        gate: a file that lets it continue; without one it waits until it is killed.
        rank: which.
    """
    recipe = run_file.parent / RECIPE.name
    file = run_file.parent / "no gate" if gate is None else gate
    recipe.write_text(recipe.read_text() + HELD.format(rank=rank, step=step, gate=str(file)))
    return run_file
