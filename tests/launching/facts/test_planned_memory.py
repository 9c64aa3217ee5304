"""From a batch plan to the predicted memory of a rank: the microbatches it will really see."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes import packed_recipe
from fakes.packed_recipe import SAMPLES, length
from support.values.run_files import load, write
from torchdeck.contract.plan.model_profile import Event
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.data.batch_plan import build_batch_plan, save_batch_plan
from torchdeck.launching.prepare import cluster_facts, plan_from, with_model
from torchdeck.plan.fitting import heavy_microbatches
from torchdeck.plan.known import Known
from torchdeck.trust.trust_list import TrustList

pytestmark = pytest.mark.processes

LENGTHS = np.array([length(sample) for sample in range(SAMPLES)])
ITEM = 8
"""Bytes of a token's number."""


def predicted(
    folder: Path, home: Path, *, takes_layout: bool = True, **settings: Any
) -> tuple[Known, Prediction]:
    """What is known, and predicted, of a run of the packing recipe by a plan with `settings`."""
    home.mkdir(mode=0o700, exist_ok=True)
    recipe = Path(packed_recipe.__file__).read_text(encoding="utf-8")
    write(
        folder, recipe if takes_layout else recipe.replace("layout: Layout | None = None", "**_"), "model.py"
    )
    TrustList(home).add(folder)
    save_batch_plan(build_batch_plan(LENGTHS, token_budget=160, **settings), folder / "bp")
    text = '[run]\nrecipe = "model.py"\n[model]\nkeeps_scores = true\n[training]\nepochs = 1\n'
    text += 'batch_plan = "bp"\n[distributed]\ndevices = "cpu"\nnproc = 2\n'
    config = load(folder, text)
    seen = with_model(config, cluster_facts(config), home)
    prediction = plan_from(config, seen).prediction
    assert prediction is not None
    return seen.known, prediction


@pytest.mark.parametrize("pack", [pytest.param(False, marks=pytest.mark.soak), True])
def test_activations_are_those_of_the_heaviest_microbatch(pack: bool, tmp_path: Path, home: Path) -> None:
    """The predicted terms equal what was traced to be alive at the peak; the batch has the plan's rows."""
    known, prediction = predicted(tmp_path / "run", home, pack=pack, buckets=4)
    assert known.profile is not None, known.failure
    assert known.batch_plan is not None
    (group,) = prediction.memory
    trace = known.profile.traces[0]
    alive = np.cumsum(trace.values[np.isin(trace.kinds, (Event.ACTIVATION, Event.LOGITS))])
    assert group.terms["activations"] + group.terms["logits"] == alive.max()
    heavy = heavy_microbatches(known.batch_plan)
    assert group.terms["inputs"] in [ITEM * one.padded_tokens for one in heavy]
    assert f"heaviest microbatch, {heavy[0].batch_size} samples" in prediction.notes[0]


def test_a_recipe_that_cannot_make_the_plans_batches(tmp_path: Path, home: Path) -> None:
    """It would fail in every rank, which is known before a start."""
    known, prediction = predicted(tmp_path / "run", home, takes_layout=False, pack=True)
    assert known.profile is None
    assert prediction.memory == ()
    assert "packs several samples into a row, which recipe" in known.broken
