"""Which checkpoints stay."""

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.checkpoint_files import manifest_of
from torchdeck.contract.checkpoints.listing import CheckpointInfo
from torchdeck.contract.checkpoints.manifest import checkpoint_name
from torchdeck.distributed.checkpoints.retention import Retention
from torchdeck.distributed.rank_settings import CheckpointSettings

LOSS = "validation_loss"

retentions = st.builds(
    Retention,
    keep_last=st.integers(1, 5),
    keep_every=st.none() | st.integers(1, 10),
    keep_best=st.integers(0, 4),
    best_is=st.sampled_from(["lowest", "highest"]),
)
metrics = st.fixed_dictionaries({}, optional={LOSS: st.sampled_from([0.5, 1.0, 2.0]), "other": st.just(0.0)})
histories = st.dictionaries(st.integers(0, 60), metrics, max_size=12)


def _info(step: int, *, complete: bool = True, name: str = "") -> CheckpointInfo:
    path = Path("/checkpoints") / (name or checkpoint_name(step))
    return CheckpointInfo(path, step, complete, 1, manifest_of(step, {}), "" if complete else "damaged")


@given(retentions, histories)
def test_what_stays_is_what_the_rule_names(retention: Retention, steps: dict[int, dict[str, float]]) -> None:
    """The newest, the multiples, and the best stay, and nothing else does."""
    kept = retention.kept(steps)
    assert set(sorted(steps)[-retention.keep_last :]) <= set(kept)
    every = {step for step in steps if retention.keep_every and step % retention.keep_every == 0}
    assert every <= set(kept)
    measured = [step for step in steps if LOSS in steps[step]]
    best = [step for step, why in kept.items() if f"{retention.best_is} {LOSS}" in why]
    assert len(best) == min(retention.keep_best, len(measured))
    sign = 1.0 if retention.best_is == "lowest" else -1.0
    for step in best:
        for other in set(measured) - set(best):
            assert (sign * steps[step][LOSS], -step) < (sign * steps[other][LOSS], -other)
    assert len(kept) <= retention.keep_last + len(every) + retention.keep_best


@given(retentions, histories, st.integers(0, 60), st.sets(st.integers(0, 60)))
def test_nothing_goes_that_is_needed(
    retention: Retention, steps: dict[int, dict[str, float]], newest: int, damaged: set[int]
) -> None:
    """The newest, `final`, later steps, what is moved aside and keep_last sound ones stay."""
    steps = {**steps, newest: {}}
    found = [_info(step, complete=step == newest or step not in damaged) for step in sorted(steps)]
    aside = [_info(0, name="final"), _info(0, name=".replaced-step_00000000")]
    gone = retention.surplus([*found, *aside], newest)
    assert all(info.path.name == checkpoint_name(info.step) and info.step < newest for info in gone)
    sound = [info for info in found if info.complete and info.step <= newest]
    stay = [info for info in sound if info not in gone]
    assert stay[-retention.keep_last :] == sound[-retention.keep_last :]
    assert retention.surplus([info for info in found if info not in gone], newest) == []


@pytest.mark.parametrize(("best_is", "expected"), [("lowest", [1, 4, 2]), ("highest", [4, 2, 1])])
def test_the_best_come_first_and_of_two_alike_the_newer(
    best_is: Literal["lowest", "highest"], expected: list[int]
) -> None:
    """What has no such metric is never best."""
    steps = {1: {"loss": 1.0}, 2: {"loss": 2.0}, 3: {"accuracy": 9.0}, 4: {"loss": 2.0}}
    assert Retention(best_metric="loss", best_is=best_is).best(steps) == expected


def test_a_run_says_its_retention(tmp_path: Path) -> None:
    """Every key of [checkpoint] about it counts."""
    settings = CheckpointSettings(
        str(tmp_path), keep_last=4, keep_every=100, keep_best=2, best_metric="accuracy", best_is="highest"
    )
    assert Retention.from_settings(settings) == Retention(4, 100, 2, "accuracy", "highest")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"keep_last": 0}, "keep_last is 0"),
        ({"keep_every": 0}, "keep_every is 0"),
        ({"keep_best": -1}, "keep_best is -1"),
        ({"best_is": "smallest"}, "expected 'lowest' or 'highest'"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, object], said: str) -> None:
    """A rule that would keep nothing, or that means nothing, is no rule."""
    with pytest.raises(ValueError, match=said):
        Retention(**wrong)  # type: ignore[arg-type]
