"""The same training at world sizes 1 and 2 and under every strategy, against plain torch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fakes import masked_recipe
from support.ranks.recipe_ranks import recipe_settings, run_ranks
from support.training.forked_training import ForkedRun, run_forked
from torchdeck.data.order import SampleOrder, global_batches, steps_per_epoch
from torchdeck.distributed.batches import evaluation_batches
from torchdeck.distributed.seeding import seed_all
from torchdeck.metrics import RunMetrics

pytestmark = pytest.mark.processes

RECIPE = str(Path(masked_recipe.__file__))
SAMPLES, MICROBATCH, GLOBAL_BATCH, SEED, CLIP, LR = 22, 3, 12, 5, 0.7, 0.02
EPOCHS = 3.5
STEPS = 3 * steps_per_epoch(SAMPLES, GLOBAL_BATCH) + 1
"""The last step of each epoch has 10 samples; the half epoch at the end is one step."""


def training_of(run_dir: Path, world_size: int, strategy: str, **more: Any) -> ForkedRun:
    settings = recipe_settings(
        run_dir,
        RECIPE,
        data={"samples": SAMPLES, **more.pop("data", {})},
        strategy=strategy,
        microbatch=MICROBATCH,
        accumulation=GLOBAL_BATCH // MICROBATCH // world_size,
        **{"steps": None, "epochs": EPOCHS, "seed": SEED, "clip": CLIP, "lr": LR, "final": False}
        | {"eval_every": 2, "eval_batches": 2}
        | more,
    )
    return ForkedRun(run_dir, settings, world_size)


def mean_loss(model: nn.Module, data: masked_recipe.Masked, ids: list[int]) -> Tensor:
    logits = model(data.tokens[ids]).flatten(0, 1)
    return nn.functional.cross_entropy(logits, data.targets[ids].flatten())


@pytest.fixture(scope="module")
def expected() -> tuple[list[float], list[float]]:
    """Losses and validation losses of a loop over whole global batches in plain torch."""
    seed_all(SEED)
    model = masked_recipe.build_model({})
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0}], lr=LR
    )
    data, heldout = masked_recipe.Masked(SAMPLES, 1), masked_recipe.Masked(7, 2)
    losses, validation_losses = [], []
    held = evaluation_batches(7, MICROBATCH, 2, rank=0, world_size=1)

    def evaluate() -> None:
        with torch.no_grad():
            validation_losses.append(float(mean_loss(model, heldout, [i for batch in held for i in batch])))

    evaluate()
    for batch in global_batches(SampleOrder(SAMPLES, SEED), GLOBAL_BATCH):
        loss = mean_loss(model, data, batch.ids.tolist())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(float(loss.detach()))
        if batch.after.step % 2 == 0 or batch.after.step == STEPS:
            evaluate()
        if batch.after.step == STEPS:
            return losses, validation_losses
    raise AssertionError("unreachable: batches never end")


def test_curves_are_plain_torchs(expected: tuple[list[float], list[float]], tmp_path: Path) -> None:
    """One curve at any world size and strategy, with ragged batches, unequal tokens and clipping."""
    ddp = {"static_graph": True, "bucket_size_mb": 0.001, "gradient_as_bucket_view": False}
    fsdp = {"wrap": "size", "min_params": 100, "reshard_after_forward": False}
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (1, "single", {}),
        (2, "ddp", {}),
        (2, "fsdp", {}),
        (2, "ddp", {"ddp": ddp}),
        (2, "fsdp", {"fsdp": fsdp}),
    ]
    runs = (
        training_of(tmp_path / str(number), world_size, strategy, **more)
        for number, (world_size, strategy, more) in enumerate(cases)
    )
    losses, heldout = expected
    for case, ranks in zip(cases, run_forked(*runs), strict=True):
        assert list(ranks.succeeded().losses().values()) == pytest.approx(losses, rel=2e-5), case
        assert list(ranks.heldout().values()) == pytest.approx(heldout, rel=2e-5), case
        assert list(ranks.losses()) == list(range(1, STEPS + 1)), case
    assert losses[-1] < 0.7 * losses[0], "nothing was learned, so nothing was compared"


def test_lower_precision_follows_the_curve(expected: tuple[list[float], list[float]], tmp_path: Path) -> None:
    """bf16 and fp16 start at fp32's loss and learn, fp16 with a loss scaler over shards."""
    cases = (("ddp", "bf16"), ("fsdp", "fp16"))
    runs = (
        training_of(tmp_path / strategy, 2, strategy, precision=precision, epochs=12.0)
        for strategy, precision in cases
    )
    for case, ranks in zip(cases, run_forked(*runs), strict=True):
        losses = list(ranks.succeeded().losses().values())
        assert losses[0] == pytest.approx(expected[0][0], rel=1e-2), case
        assert losses[-1] < 0.7 * losses[0], case


def test_workers_and_metrics_of_every_rank(expected: tuple[list[float], list[float]], tmp_path: Path) -> None:
    """Loading in worker processes changes nothing; rank 0 writes global metrics, each rank its own."""
    (ranks,) = run_forked(training_of(tmp_path, 2, "ddp", data={"workers": 1}))
    assert list(ranks.succeeded().losses().values()) == pytest.approx(expected[0], rel=2e-5)
    metrics = RunMetrics(tmp_path)
    metrics.refresh()
    own = {"step_time", "memory_bytes", "memory_peak_bytes", "memory_growth_peak_bytes"}
    shared = {
        "loss",
        "lr",
        "grad_norm",
        "tokens_per_s",
        "samples_per_s",
        "tokens",
        "samples",
        "validation_loss",
    }
    assert set(metrics.names()) == own | shared
    assert all(list(metrics.ranks(name)) == [0, 1] for name in own)
    assert all(list(metrics.ranks(name)) == [0] for name in shared)
    loss = metrics.series("loss", 0)
    assert dict(zip(loss.steps.tolist(), loss.values.tolist(), strict=True)) == ranks.losses()
    assert metrics.series("samples", 0).values[-1] == 3 * SAMPLES + GLOBAL_BATCH
    assert min(metrics.series("memory_bytes", 1).values) > 1e7


@pytest.mark.parametrize(
    ("world_size", "strategy"),
    [
        # that compiling changes nothing on two ranks is in test_equivalence.py
        pytest.param(1, "ddp", marks=pytest.mark.soak),
        pytest.param(2, "ddp", marks=pytest.mark.soak),
        pytest.param(2, "fsdp", marks=pytest.mark.soak),
    ],
)
def test_compiled_models_train_alike(
    world_size: int,
    strategy: str,
    expected: tuple[list[float], list[float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch.compile around a strategy keeps plain torch's losses and the model's names in checkpoints."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    options: dict[str, Any] = {"steps": 2, "epochs": None, "eval_every": None, "final": True}
    run = training_of(tmp_path, world_size, strategy, compile=True, **options)
    ranks = run_ranks(run.settings, tmp_path, world_size).succeeded()
    assert list(ranks.losses().values()) == pytest.approx(expected[0][:2], rel=1e-4)
    settings = recipe_settings(tmp_path, RECIPE, data={"samples": SAMPLES}, strategy="single", steps=3)
    resumed = run_ranks(settings, tmp_path, 1, attempt=2, resume=str(tmp_path / "checkpoints" / "final"))
    assert list(resumed.succeeded().losses()) == [3]
