"""Roles of metric names, as programs spell them."""

from __future__ import annotations

import pytest

from torchdeck.trainers.metric_roles import Roles

NAMES = {
    "loss": (
        "loss",
        "train_loss",
        "train/loss",
        "Loss",
        "loss_metrics/global_avg_loss",
        "lm loss",
        "avr_loss",
    ),
    "validation_loss": (
        "eval_loss",
        "eval/loss",
        "val_loss",
        "val/loss",
        "validation_metrics/loss",
        "validation_loss",
    ),
    "lr": ("lr", "learning_rate", "learning rate", "train/learning_rate", "lr-AdamW", "lr-AdamW/pg1"),
    "grad_norm": ("grad_norm", "grad norm", "train/grad_norm", "actor/grad_norm"),
    "tokens_per_s": ("tps", "tokens_per_second", "throughput(tps)", "tok/sec"),
    "samples_per_s": ("samples_per_second", "train_samples_per_second"),
    "step_time": ("step_time", "train_speed(s/it)", "time_metrics/end_to_end(s)"),
    "epoch": ("epoch", "train/epoch"),
}


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in NAMES.items() for name in names])
def test_a_name_has_its_role(role: str, name: str) -> None:
    """In any spelling."""
    assert Roles().role_of(name) == role


@pytest.mark.parametrize(
    "name", ["accuracy", "loss_scale", "loss_scaler", "box_loss", "eval_runtime", "", "/", "é"]
)
def test_other_names_have_none(name: str) -> None:
    """Part of a name is not the name."""
    assert Roles().role_of(name) is None


def test_of_several_names_the_best_known_is_chosen() -> None:
    """Not the first that appears."""
    roles = Roles()
    assert roles.choose("loss", ["actor/pg_loss", "train/loss", "eval_loss"]) == "train/loss"
    assert roles.choose("loss", ["eval_loss"]) is None


def test_the_run_file_names_win() -> None:
    """A role that it names is that name's alone."""
    roles = Roles({"loss": "actor/pg_loss", "validation_loss": ["critic/score/mean"]})
    assert roles.choose("loss", ["loss", "actor/pg_loss"]) == "actor/pg_loss"
    assert roles.choose("loss", ["loss"]) is None
    assert roles.role_of("critic/score/mean") == "validation_loss"
