"""Roles of metrics: which of a program's names is its loss, its learning rate, its throughput.

One mapping for all that show progress. Names are compared without case, with `_` for every other separator:
`train/loss`, `Train Loss` and `train_loss` are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from torchdeck.contract.metrics.former_names import current_name

LOSS = "loss"
VALIDATION_LOSS = "validation_loss"
LEARNING_RATE = "lr"
GRADIENT_NORM = "grad_norm"
TOKENS = "tokens_per_s"
SAMPLES = "samples_per_s"
STEP_TIME = "step_time"
EPOCH = "epoch"
MEMORY = "memory_bytes"
ROLES = (LOSS, VALIDATION_LOSS, LEARNING_RATE, GRADIENT_NORM, TOKENS, SAMPLES, STEP_TIME, EPOCH, MEMORY)
"""Each role is called as the recipes call the metric."""

_KNOWN: Mapping[str, tuple[str, ...]] = {
    LOSS: (
        "loss",
        "train_loss",
        "training_loss",
        "loss_metrics_global_avg_loss",
        "lm_loss",
        "train_lm_loss",
        "reduced_train_loss",
        "train_loss_step",
        "loss_step",
        "avr_loss",
        "avg_loss",
        "mean_loss",
        "train_mean_loss",
        "total_loss",
        "train_total_loss",
        "step_loss",
        "loss_average",
        "loss_current",
        "train_loss_epoch",
        "loss_epoch",
        "actor_pg_loss",
        "policy_loss",
    ),
    VALIDATION_LOSS: (
        "validation_loss",
        "heldout_loss",
        "eval_loss",
        "val_loss",
        "valid_loss",
        "validation_metrics_loss",
        "dev_loss",
        "val_loss_epoch",
        "validation_loss_epoch",
        "lm_loss_validation",
        "test_loss",
    ),
    LEARNING_RATE: (
        "lr",
        "learning_rate",
        "train_learning_rate",
        "train_lr",
        "actor_lr",
        "optim_lr",
        "optimizer_lr",
    ),
    GRADIENT_NORM: (
        "grad_norm",
        "train_grad_norm",
        "gradient_norm",
        "total_grad_norm",
        "grad_norm_total",
        "actor_grad_norm",
        "gnorm",
    ),
    TOKENS: (
        "tokens_per_s",
        "tokens_per_second",
        "tokens_per_sec",
        "train_tokens_per_second",
        "tps",
        "throughput_tps",
        "tok_sec",
        "tok_per_sec",
        "tok_s",
        "tokens_s",
        "perf_throughput",
    ),
    SAMPLES: (
        "samples_per_s",
        "samples_per_second",
        "samples_per_sec",
        "train_samples_per_second",
        "samples_s",
        "samples_sec",
        "images_per_sec",
    ),
    STEP_TIME: ("step_time", "step_time_s", "time_per_step", "train_speed_s_it", "time_metrics_end_to_end_s"),
    EPOCH: ("epoch", "train_epoch"),
    MEMORY: ("memory_bytes",),
}
_PREFIXED = re.compile(r"lr_[a-z0-9_]+|learning_rate_[a-z0-9_]+")
"""Lightning's LearningRateMonitor: `lr-AdamW`, `lr-AdamW/pg1`."""
_SEPARATOR = re.compile(r"[^a-z0-9]+")


class _Rank(NamedTuple):
    role: str
    order: int
    """The lower is shown if a program has several names for one role."""


_ORDER = {name: _Rank(role, order) for role, names in _KNOWN.items() for order, name in enumerate(names)}


class Roles:
    """Roles of the names of one run's metrics."""

    def __init__(self, names: Mapping[str, str | Sequence[str]] | None = None) -> None:
        """Create the mapping.

        Args:
            names: role → the program's name or names for it, from run.toml; they go before the known ones.
        """
        self._own = {
            plain_name(name): _Rank(current_name(role), order - 1000)
            for role, given in (names or {}).items()
            for order, name in enumerate([given] if isinstance(given, str) else given)
        }
        self._given = frozenset(rank.role for rank in self._own.values())

    def role_of(self, name: str) -> str | None:
        """Return the role of a metric; None if it has none."""
        rank = self._rank(name)
        return None if rank is None else rank.role

    def choose(self, role: str, names: Iterable[str]) -> str | None:
        """Return the one of `names` that has the role; None if none has."""
        ranked = [(rank.order, name) for name in names if (rank := self._rank(name)) and rank.role == role]
        return min(ranked, default=(0, None))[1]

    def _rank(self, name: str) -> _Rank | None:
        plain = plain_name(name)
        own = self._own.get(plain)
        if own is not None:
            return own
        known = _ORDER.get(plain)
        if known is None and _PREFIXED.fullmatch(plain):
            known = _Rank(LEARNING_RATE, len(_ORDER))
        # a role that the run file names is that name's alone
        return None if known is None or known.role in self._given else known


def plain_name(name: str) -> str:
    """Return `train/Loss (avg)` as `train_loss_avg`."""
    return _SEPARATOR.sub("_", name.lower()).strip("_")
