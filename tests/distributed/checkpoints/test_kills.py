"""kill -9 of a rank in a save: there is always a sound checkpoint, and the next start continues from it.

The moments are every change that the saving process makes to the file system (see FaultPoint in
support/ranks/checkpoint_scenarios), in saves that rotate an old checkpoint out but keep a milestone and the
best, replace one of the same step, and replace `final`. A fixed seed samples them; `--soak` takes them all.
"""

from pathlib import Path
from typing import Any

import pytest

from support.ranks.ranked_scenario import scenario

pytestmark = pytest.mark.processes


def _killed(folder: Path, world_size: int, count: str, how: str, limit: float) -> Any:
    arguments = ["kills.killed_in_saves", str(world_size), "20261121", count, how]
    return scenario(folder, *arguments, limit=limit)


@pytest.mark.parametrize(
    ("world_size", "count", "how"),
    [
        (1, 2, "at once"),
        pytest.param(1, 3, "background", marks=pytest.mark.soak),
        pytest.param(2, 2, "at once", marks=pytest.mark.soak),
        (2, 2, "background"),
    ],
)
def test_a_kill_in_a_save_loses_nothing(tmp_path: Path, world_size: int, count: int, how: str) -> None:
    """After a kill the newest checkpoint verifies and resumes, and no remains outlive the next start."""
    outcome = _killed(tmp_path, world_size, str(count), how, 200)
    assert outcome["points"] == count
    assert min(outcome["totals"]) > 10, "there are moments to be killed at"
    assert outcome["failures"] == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["at once", "background"])
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_kill_at_any_moment_of_a_save_loses_nothing(tmp_path: Path, world_size: int, how: str) -> None:
    """The same at every single moment, of every rank."""
    outcome = _killed(tmp_path, world_size, "all", how, 3500)
    assert outcome["points"] == sum(outcome["totals"])
    assert outcome["failures"] == []
