"""What is found out of model and data before a plan is made, and what refuses a start for it."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.values.machines import PYTHON, node
from support.values.previews import memory, profile
from torchdeck.config.loader import config_from_dict
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.data.batch_plan import (
    DataSource,
    build_batch_plan,
    content_fingerprint,
    listing_of,
    save_batch_plan,
)
from torchdeck.launching.facts.model_and_data import look_at, trace
from torchdeck.launching.preflight.model import check_memory
from torchdeck.launching.prepare import ClusterFacts, cluster_facts, plan_from
from torchdeck.plan.check import Check, PlanError
from torchdeck.plan.known import Known


def recipe(folder: Path, **tables: Any) -> RunConfig:
    """A byte-gpt run in `folder`."""
    return config_from_dict(
        {"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}, **tables},
        folder,
    )


def saved(folder: Path, samples: int = 100) -> Path:
    """A batch plan in `folder`."""
    path = folder / "bp"
    save_batch_plan(build_batch_plan(np.full(samples, 8), token_budget=64), path)
    return path


def test_a_script_has_nothing_to_look_at(tmp_path: Path) -> None:
    """No model, no data: nothing is started, nothing imported."""
    config = config_from_dict({"run": {"script": "train.py"}}, tmp_path)
    assert look_at(config) == (Known(), ())
    assert trace(config, Known(), tmp_path, PYTHON) == (Known(), ())


def test_a_batch_plan_is_opened_and_verified(tmp_path: Path) -> None:
    """Even where nothing is traced."""
    path = saved(tmp_path)
    known, problems = look_at(recipe(tmp_path, training={"epochs": 1, "batch_plan": str(path)}))
    assert problems == ()
    assert known.batch_plan is not None
    assert known.batch_plan.size == 100


def test_a_damaged_batch_plan_is_a_problem(tmp_path: Path) -> None:
    """One byte that was changed: no plan, at the key."""
    path = saved(tmp_path)
    for file in path.rglob("*.bin"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    config = recipe(tmp_path, training={"epochs": 1, "batch_plan": str(path)})
    with pytest.raises(PlanError) as caught:
        plan_from(config, cluster_facts(config))
    assert [problem.path for problem in caught.value.problems] == ["training.batch_plan"]


def test_a_plan_of_data_that_has_changed_is_refused(tmp_path: Path) -> None:
    """With as many samples as before: file and command are named; what was only touched is the same data."""
    data, path = tmp_path / "texts.txt", tmp_path / "bp"
    data.write_text("one\ntwo\n")
    source = DataSource(str(data), "dataset", listing_of(data), content_fingerprint(data))
    save_batch_plan(build_batch_plan([3, 3], token_budget=8), path, source=source)
    config = recipe(tmp_path, training={"epochs": 1, "batch_plan": str(path)})
    os.utime(data, ns=(1, 1))
    told: list[str] = []
    known, problems = look_at(config, told.append)
    assert (known.batch_plan is None, problems) == (False, ())
    assert told == ["reading the data again, because its files have changed: bytes read: 8 of 8"]
    data.write_text("one\nsix\n")
    with pytest.raises(PlanError) as caught:
        plan_from(config, cluster_facts(config))
    (problem,) = caught.value.problems
    assert problem.path == "training.batch_plan"
    assert problem.wrong == f"the data the plan was made from has changed since ({data})"
    assert problem.right == f"the plan built again with torchdeck batchplan build --dataset {data} …"


def checked(folder: Path, *groups: Any, limits: str = "refuse", known: Known | None = None) -> list[Check]:
    """What preflight says where `groups` are predicted."""
    config = recipe(folder, limits={"memory": limits}, distributed={"devices": "cpu", "nproc": 2})
    found = ClusterFacts(Inventory((node(),)), {"localhost": PYTHON}, {}, CodeTree(), (), known or Known())
    plan = plan_from(config, found)
    prediction = Prediction("traced", groups) if groups else None
    return list(check_memory(config, dataclasses.replace(plan, prediction=prediction), found))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    """With the largest term, what there is, and what would help."""
    (check,) = checked(tmp_path, memory(peak=90, verdict="does not fit"))
    assert check.status == "failed"
    for words in ("ranks 0–1 need 90.0 GiB", "activations (36.0 GiB)", "there are 80.0 GiB for each"):
        assert words in check.what, words
    assert "training.microbatch" in check.fix
    assert 'limits.memory = "warn"' in check.fix


@pytest.mark.parametrize(("limits", "status"), [("refuse", "failed"), ("warn", "warning")])
def test_a_smaller_size_that_does_not_fit_is_said_like_the_full_one(
    limits: str, status: str, tmp_path: Path
) -> None:
    """Where ranks are lost the shards of the others grow: the first size that is too small is named."""
    config = recipe(tmp_path, limits={"memory": limits}, distributed={"devices": "cpu", "nproc": "1:4"})
    found = ClusterFacts(Inventory((node(),)), {"localhost": PYTHON}, {}, CodeTree(), (), Known())
    plan = plan_from(config, found)
    needs = ((3, 70, "fits"), (2, 85, "does not fit"), (1, 120, "does not fit"))
    smaller = tuple(
        dataclasses.replace(
            size, prediction=Prediction("traced", (memory(0, ranks - 1, peak=peak, verdict=verdict),))
        )
        for size, (ranks, peak, verdict) in zip(plan.smaller, needs, strict=True)
    )
    full = Prediction("traced", (memory(0, 3, peak=60),))
    made = dataclasses.replace(plan, prediction=full, smaller=smaller)
    fits, short = check_memory(config, made, found)
    assert fits.status == "ok"
    assert short.status == status
    assert (
        short.what == "with 2 of 4 left, ranks 0–1 need 85.0 GiB at the peak, and there are 80.0 GiB for each"
    )


@pytest.mark.parametrize(("verdict", "limits"), [("does not fit", "warn"), ("tight", "refuse")])
def test_what_may_fit_warns(tmp_path: Path, verdict: str, limits: str) -> None:
    """Warning: the run still starts."""
    (check,) = checked(tmp_path, memory(peak=79, verdict=verdict), limits=limits)
    assert check.status == "warning"


def test_what_fits_is_said(tmp_path: Path) -> None:
    """The fullest group with its numbers."""
    (check,) = checked(tmp_path, memory(0, 0, peak=40), memory(1, 1, peak=20))
    assert check.status == "ok"
    assert check.what == "rank 0 needs 40.0 GiB at the peak, and there are 80.0 GiB"


def test_a_model_that_was_not_traced_warns(tmp_path: Path) -> None:
    """No one is kept from starting by a trace that failed."""
    (check,) = checked(tmp_path, known=Known(failure="memory is not predicted: it raised"))
    assert (check.status, check.what) == ("warning", "memory is not predicted: it raised")
    assert checked(tmp_path, limits="off") == []


def test_free_memory_counts_where_it_is_less(tmp_path: Path) -> None:
    """A device that others use: what is free is said."""
    group = dataclasses.replace(memory(peak=50, verdict="does not fit"), free_bytes=30 * 2**30)
    (check,) = checked(tmp_path, group)
    assert "30.0 GiB are free for each" in check.what


@pytest.mark.parametrize(("limits", "statuses"), [("refuse", ["failed"]), ("warn", ["failed"]), ("off", [])])
def test_a_recipe_that_fails_in_every_rank_is_refused(
    limits: str, statuses: list[str], tmp_path: Path
) -> None:
    """Whatever is asked of memory, but that nothing is looked at; with the sentence, and the way around."""
    known = Known(broken="the recipe fails: build_model raised ValueError: no")
    checks = checked(tmp_path, limits=limits, known=known)
    assert [check.status for check in checks] == statuses
    assert all(
        str(check).startswith(known.broken) and 'limits.memory = "off"' in check.fix for check in checks
    )


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"activations": 900 * 2**30}, "need shorter samples"),
        ({"parameters": 900 * 2**30}, "need more ranks"),
    ],
)
def test_what_nothing_helps_says_so(terms: dict[str, int], said: str, tmp_path: Path) -> None:
    """With what the largest term needs, not with a change that was tried without success."""
    group = dataclasses.replace(memory(peak=900, verdict="does not fit"), terms=terms, capacity_bytes=1)
    (check,) = checked(tmp_path, group, known=Known(profile()))
    assert check.fix.startswith("no change that was tried makes it fit")
    assert said in check.fix
    assert "training.microbatch" not in check.fix
