"""Training by a batch plan on real ranks, and what is refused at its start."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fakes import masked_recipe
from support.ranks.rank_here import RankHere
from support.ranks.recipe_ranks import recipe_settings, run_ranks
from support.training.training import final_state
from torchdeck.contract.layout import RunLayout
from torchdeck.data.augmentation_config import AugmentationConfig
from torchdeck.data.batch_plan import BatchPlan, build_batch_plan, load_batch_plan, save_batch_plan
from torchdeck.data.sample_log import SampleLog
from torchdeck.distributed.augmented_dataset import AugmentedDataset
from torchdeck.distributed.fit.datasets import split
from torchdeck.distributed.seeding import seed_all
from torchdeck.distributed.trainer.training_data import in_order_of, rows_by_name

RECIPE = str(Path(masked_recipe.__file__))
SAMPLES, SEED = 30, 5
DATA = masked_recipe.Masked(SAMPLES, 1)
LENGTHS = (DATA.targets >= 0).sum(1).numpy()
"""Tokens that count in each sample."""


def make_plan(folder: Path, lengths: Any = LENGTHS, **settings: Any) -> BatchPlan:
    plan = build_batch_plan(lengths, **{"token_budget": 12, "seed": 3, "epochs": 2, "buckets": 3} | settings)
    save_batch_plan(plan, folder)
    return plan


def by_plan(run_dir: Path, plan: Path, **training: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "optimizer": "sgd",
        "lr": 1.0,
        "weight_decay": 0.0,
        "seed": SEED,
        "steps": 1,
    } | training
    data = {"samples": given.pop("samples", SAMPLES), **given.pop("data", {})}
    recipe = given.pop("recipe", RECIPE)
    return recipe_settings(run_dir, recipe, data=data, batch_plan=str(plan), **given)


def gradients(parts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Of the mean over the samples of each part, those means averaged; one part is the true gradient."""
    seed_all(SEED)
    model = masked_recipe.build_model({})
    for ids in parts:
        logits = model(DATA.tokens[ids]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, DATA.targets[ids].flatten()) / len(parts)
        loss.backward()  # type: ignore[no-untyped-call]
    return {
        name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None
    }


def initial() -> dict[str, torch.Tensor]:
    seed_all(SEED)
    return dict(masked_recipe.build_model({}).state_dict())


@pytest.mark.processes
@pytest.mark.parametrize(
    ("world_size", "accumulation", "strategy", "balance"),
    [
        pytest.param(1, 4, "single", "none", marks=pytest.mark.soak),
        pytest.param(2, 2, "ddp", "none", marks=pytest.mark.soak),
        (2, 2, "ddp", "tokens"),
        (2, 2, "fsdp", "attention"),
    ],
)
def test_balancing_leaves_the_gradient_alone(
    world_size: int, accumulation: int, strategy: str, balance: str, tmp_path: Path
) -> None:
    """Whoever takes which microbatch, one SGD step is the gradient of the mean over the step's tokens."""
    plan = make_plan(tmp_path / "plan")
    settings = by_plan(
        tmp_path,
        tmp_path / "plan",
        accumulation=accumulation,
        strategy=strategy,
        balance=balance,
    )
    ranks = run_ranks(settings, tmp_path, world_size).succeeded()
    parts = [plan.microbatch(0, index).sample_ids.tolist() for index in range(4)]
    true = gradients([[id_ for part in parts for id_ in part]])
    biased = gradients(parts)
    state = final_state(ranks.layout, tmp_path)
    before = initial()
    for name, gradient in true.items():
        made = before[name] - state[f"/model.{name}"]
        torch.testing.assert_close(made, gradient, rtol=1e-4, atol=1e-6)
    off = max(float((true[name] - biased[name]).abs().max()) for name in true)
    assert off > 1e-3, "a mean of means is as good here, so nothing was shown"
    used = [sample_ids(ranks.layout, rank) for rank in range(world_size)]
    assert sorted(id_ for ids in used for id_ in ids) == sorted(id_ for part in parts for id_ in part)


def sample_ids(run: RunLayout, rank: int, attempt: int = 1) -> list[int]:
    records = SampleLog(run.attempt(attempt).rank(rank).samples).records()
    return [int(id_) for record in records for id_ in record.ids]


@pytest.mark.processes
def test_epochs_workers_and_evaluation_by_a_plan(tmp_path: Path) -> None:
    """Two epochs with loader processes: every sample twice, evaluated as ever, tokens as recorded."""
    plan = make_plan(tmp_path / "plan")
    settings = by_plan(
        tmp_path,
        tmp_path / "plan",
        strategy="ddp",
        steps=None,
        epochs=2.0,
        balance="tokens",
        eval_every=2,
        lr=0.05,
        data={"workers": 1},
    )
    ranks = run_ranks(settings, tmp_path, 2).succeeded()
    steps = sum(math.ceil(plan.microbatches(epoch) / 2) for epoch in range(2))
    assert list(ranks.losses()) == list(range(1, steps + 1))
    assert set(ranks.heldout()) == {*range(0, steps + 1, 2), steps}
    used = [sample_ids(ranks.layout, rank) for rank in range(2)]
    assert sorted(id_ for ids in used for id_ in ids) == sorted([*range(SAMPLES), *range(SAMPLES)])
    tokens = [
        sum(record.tokens for record in SampleLog(ranks.rank(rank).samples).records()) for rank in range(2)
    ]
    assert tokens == [int(LENGTHS[ids].sum()) for ids in used]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RankHere:
    return RankHere(monkeypatch, capsys)


def refused(here: RankHere, settings: dict[str, Any], run_dir: Path, **more: Any) -> str:
    """The one sentence with which a start is refused."""
    code, error, message = here.run(settings, run_dir, **more)
    assert code == 1
    assert error.count("\n") == 1, error
    assert error.strip() == message
    return message


def single(run_dir: Path, plan: Path, **training: Any) -> dict[str, Any]:
    return by_plan(run_dir, plan, strategy="single", **training)


def test_a_plan_for_other_data_is_refused(tmp_path: Path, here: RankHere) -> None:
    """The data set has another size, or another content of which both know a fingerprint."""
    make_plan(tmp_path / "plan", dataset_fingerprint="a" * 64)
    message = refused(here, single(tmp_path, tmp_path / "plan", samples=31), tmp_path)
    assert "was built for 30 samples, and the training data has 31: build it again" in message
    recipe = tmp_path / "own.py"
    says = "\n\ndef fingerprint(options):\n    return options['says']\n"
    recipe.write_text(Path(RECIPE).read_text() + says)
    other = single(tmp_path, tmp_path / "plan", recipe=str(recipe), data={"says": "b" * 64})
    assert "is stale: it was built for data with fingerprint aaa" in refused(here, other, tmp_path)
    same = single(tmp_path / "run", tmp_path / "plan", recipe=str(recipe), data={"says": "a" * 64})
    assert here.run(same, tmp_path / "run")[0] == 0
    number = single(tmp_path, tmp_path / "plan", recipe=str(recipe), data={"says": 5})
    assert "returned int: return a text that differs where the data does" in refused(here, number, tmp_path)


PACKING_COLLATE = """


def collate(samples, layout=None):
    sizes = [1] * len(samples) if layout is None or layout.row_sizes is None else layout.row_sizes
    rows, taken = [], iter(samples)
    for size in sizes:
        row = [next(taken) for _ in range(size)]
        counted = {name: torch.cat([s[name][s["targets"] >= 0] for s in row]) for name in row[0]}
        length = LENGTH if layout is None else layout.max_len
        padding = length - len(counted["tokens"])
        assert padding >= 0
        rows.append({
            "tokens": nn.functional.pad(counted["tokens"], (0, padding)),
            "targets": nn.functional.pad(counted["targets"], (0, padding), value=-100),
        })
    return torch.utils.data.default_collate(rows)
"""


@pytest.mark.processes
def test_packed_rows_reach_a_collate_that_wants_them(tmp_path: Path, here: RankHere) -> None:
    """A recipe without a parameter for the layout is refused; one with it trains every token once."""
    plan = make_plan(tmp_path / "plan", token_budget=24, max_length=12, pack=True)
    assert any(microbatch.rows < microbatch.batch_size for microbatch in plan.iter_epoch(0))
    message = refused(here, single(tmp_path, tmp_path / "plan"), tmp_path)
    assert "the batch plan packs several samples into a row" in message
    assert "define collate(samples, layout=None)" in message
    recipe = tmp_path / "packing.py"
    recipe.write_text(Path(RECIPE).read_text() + PACKING_COLLATE)
    for workers in (0, 1):
        run = tmp_path / str(workers)
        epoch: dict[str, Any] = {"steps": None, "epochs": 1.0, "lr": 0.05, "eval_every": 2}
        settings = single(run, tmp_path / "plan", recipe=str(recipe), data={"workers": workers}, **epoch)
        code, error, _ = here.run(settings, run)
        assert (code, error) == (0, "")
        records = list(SampleLog(RunLayout(run).attempt(1).rank(0).samples).records())
        assert sum(record.tokens for record in records) == LENGTHS.sum()


def test_a_plan_that_was_edited_or_is_too_short_is_refused(tmp_path: Path, here: RankHere) -> None:
    """One changed byte in its columns is found by its hash; more epochs than it has are not made up."""
    make_plan(tmp_path / "plan")
    longer = single(tmp_path, tmp_path / "plan", steps=None, epochs=3.0)
    assert "epochs is 3, and the batch plan has 2" in refused(here, longer, tmp_path)
    largest = max((path for path in (tmp_path / "plan").iterdir()), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-3] ^= 1
    largest.write_bytes(content)
    assert str(tmp_path / "plan") in refused(here, single(tmp_path, tmp_path / "plan"), tmp_path)
    assert "there is no batch plan in" in refused(here, single(tmp_path, tmp_path / "none"), tmp_path)


def test_another_plan_or_other_data_is_not_gone_on_with(tmp_path: Path, here: RankHere) -> None:
    """A checkpoint by one plan is refused by another, by none, and with other data of the same size."""
    make_plan(tmp_path / "plan")
    make_plan(tmp_path / "other", seed=4)
    assert load_batch_plan(tmp_path / "other").fingerprint != load_batch_plan(tmp_path / "plan").fingerprint
    recipe = tmp_path / "own.py"
    recipe.write_text(Path(RECIPE).read_text() + "\n\nMasked.fingerprint = 'mine'\n")
    common: dict[str, Any] = {"recipe": str(recipe), "steps": 2}
    assert here.run(single(tmp_path, tmp_path / "plan", **common), tmp_path)[0] == 0
    final = str(tmp_path / "checkpoints" / "final")
    common["steps"] = 4

    def resumed(settings: dict[str, Any]) -> str:
        return refused(here, settings, tmp_path, attempt=2, resume=final)

    assert "give the plan it was made with" in resumed(single(tmp_path, tmp_path / "other", **common))
    without = single(tmp_path, tmp_path / "plan", **common)
    without["training"]["batch_plan"] = None
    assert "and this run has none: give batch_plan" in resumed(without)
    recipe.write_text(Path(RECIPE).read_text() + "\n\nMasked.fingerprint = 'yours'\n")
    message = resumed(single(tmp_path, tmp_path / "plan", **common))
    assert "was trained on data with fingerprint mine, and the training data has yours" in message
    without["data"]["samples"] = 31
    assert "was trained on 30 samples, and the training data has 31" in resumed(without)


def named_plan(folder: Path, *microbatches: list[str]) -> Path:
    """A plan as other programs write it, whose samples have names."""
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps({"num_epochs": 1, "base_seed": 0}))
    lines = [{"samples": names, "bucket_id": 0, "max_len": masked_recipe.LENGTH} for names in microbatches]
    (folder / "epoch_0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def recipe_with(folder: Path, code: str) -> str:
    recipe = folder / "named.py"
    recipe.write_text(f"{Path(RECIPE).read_text()}\n\n{code}\n")
    return str(recipe)


NAMES = "Masked.sample_names = property(lambda self: [f's{row}' for row in range(len(self))])"


@pytest.mark.parametrize("rest", [[f"s{row}" for row in range(4, SAMPLES)], []])
def test_a_plan_of_named_samples_trains_on_the_rows_of_these_names(
    rest: list[str], tmp_path: Path, here: RankHere
) -> None:
    """In whichever order names sort, and though the plan may name only some of the rows."""
    names = [["s0", "s1", "s2", "s3"], *([rest] if rest else [])]
    plan = named_plan(tmp_path / "plan", *names)
    settings = single(tmp_path, plan, recipe=recipe_with(tmp_path, NAMES))
    code, error, _ = here.run(settings, tmp_path)
    assert (code, error) == (0, "")
    state, before = final_state(RunLayout(tmp_path), tmp_path), initial()
    for name, gradient in gradients([[0, 1, 2, 3]]).items():
        torch.testing.assert_close(before[name] - state[f"/model.{name}"], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("", r"does not say which row each is: give the data set an attribute sample_names"),
        ("Masked.sample_names = ['s0']", r"has 1 names for 30 samples"),
        ("Masked.sample_names = [f't{i}' for i in range(30)]", r"no samples named 's0', 's1', 's10', …"),
        ("Masked.sample_names = ['s0', *(f's{i}' for i in range(29))]", r"no samples named 's29'"),
        ("Masked.sample_names = [f's{max(1, i)}' for i in range(30)]", r"no samples named 's0'"),
    ],
)
def test_a_plan_of_named_samples_is_refused_if_rows_are_unknown(
    code: str, why: str, tmp_path: Path, here: RankHere
) -> None:
    """Its names' order says nothing of rows."""
    plan = named_plan(tmp_path / "plan", [f"s{row}" for row in range(SAMPLES)])
    settings = single(tmp_path, plan, recipe=recipe_with(tmp_path, code))
    assert re.search(why, refused(here, settings, tmp_path))


def test_a_name_that_two_rows_have_is_refused(tmp_path: Path, here: RankHere) -> None:
    """Either could be meant."""
    plan = named_plan(tmp_path / "plan", ["s0", "s1"])
    twice = "Masked.sample_names = ['s0', 's1', *['s2'] * 28]"
    settings = single(tmp_path, plan, recipe=recipe_with(tmp_path, twice))
    assert "has 's2' twice" in refused(here, settings, tmp_path)


def test_parts_and_augmented_data_keep_the_names_of_samples() -> None:
    """Of which a plan may name some."""
    data = masked_recipe.Masked(4, 1)
    data.sample_names = ["a", "b", "c", "d"]  # type: ignore[attr-defined]  # what a plan looks for
    kept, other = split(data, 0.5, seed=0)
    names = [name for part in (kept, other) for name in part.sample_names]  # type: ignore[attr-defined]  # as above
    assert sorted(names) == ["a", "b", "c", "d"]
    augmented = AugmentedDataset(data, AugmentationConfig())
    assert rows_by_name(["c", "a"], augmented).tolist() == [2, 0]
    rows = in_order_of(["c", "a"], data)
    assert torch.equal(rows[0]["tokens"], data[2]["tokens"])
    assert len(rows) == 2


@pytest.mark.processes
def test_a_plan_goes_on_at_another_world_size(tmp_path: Path) -> None:
    """One step of two ranks, the rest of the epoch by one rank: each sample once."""
    make_plan(tmp_path / "plan")
    first = by_plan(tmp_path, tmp_path / "plan", strategy="ddp", lr=0.05)
    run_ranks(first, tmp_path, 2).succeeded()
    rest = by_plan(tmp_path, tmp_path / "plan", strategy="single", lr=0.05, steps=None, epochs=1.0)
    resume = str(tmp_path / "checkpoints" / "final")
    ranks = run_ranks(rest, tmp_path, 1, attempt=2, resume=resume).succeeded()
    used = [*sample_ids(ranks.layout, 0), *sample_ids(ranks.layout, 1), *sample_ids(ranks.layout, 0, 2)]
    assert sorted(used) == list(range(SAMPLES))
    assert np.array(used).max() == SAMPLES - 1
