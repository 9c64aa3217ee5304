"""training.deterministic: the same bits again."""

from pathlib import Path
from typing import Any

import pytest

from fakes import masked_recipe
from support.ranks.recipe_ranks import recipe_settings
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.contract.checkpoints.manifest import read_manifest

pytestmark = pytest.mark.processes


def test_two_runs_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    """Losses and the files of weights and optimizer state, of two runs of two ranks."""
    recipe = str(Path(masked_recipe.__file__))
    options: dict[str, Any] = {"steps": 4, "microbatch": 3, "deterministic": True, "seed": 3}
    runs = [
        ForkedRun(
            tmp_path / name, recipe_settings(tmp_path / name, recipe, data={"samples": 22}, **options), 2
        )
        for name in ("one", "other")
    ]
    one, other = (ranks.succeeded() for ranks in run_forked(*runs))
    assert one.losses() == other.losses()
    weights = [
        {name: entry.sha256 for name, entry in manifest.files.items() if name.endswith(".distcp")}
        for manifest in (read_manifest(run.run_dir / "checkpoints" / "final") for run in runs)
    ]
    assert weights[0] == weights[1] != {}
