"""What of early stopping and tracing does not go together, said at its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, load, problems


@pytest.mark.parametrize(
    ("overrides", "path", "wrong"),
    [
        (["training.patience=3"], "training.patience", "patience counts evaluations, and there are none"),
        (["training.min_delta=0.1"], "training.min_delta", "no effect without training.patience"),
        (["telemetry.profile_steps=[3, 2]"], "telemetry.profile_steps", "steps 3 to 2 are outside"),
        (["telemetry.profile_steps=[0, 2]"], "telemetry.profile_steps", "steps 0 to 2 are outside"),
        (["training.steps=5", "telemetry.profile_steps=[6, 8]"],
         "telemetry.profile_steps", "training ends at step 5, before step 6"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(tmp_path: Path, overrides: list[str], path: str, wrong: str) -> None:
    """One problem, at the key that is to be changed."""
    (problem,) = problems(tmp_path, MINIMAL, *overrides)
    assert problem.path == path
    assert wrong in problem.wrong


def test_what_goes_together(tmp_path: Path) -> None:
    """Patience with evaluations, a window of one step."""
    wanted = ("training.patience=3", "training.min_delta=0.1", "training.eval_every=5")
    config = load(tmp_path, MINIMAL, *wanted, "telemetry.profile_steps=[1, 1]", "training.steps=9")
    assert config.telemetry.profile_steps == (1, 1)
