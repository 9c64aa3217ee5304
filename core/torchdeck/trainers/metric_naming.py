"""Metric that a name means: the same in filters, columns and formulas."""

from __future__ import annotations

from collections.abc import Collection

from torchdeck.trainers.metric_roles import ROLES, Roles


def named_metric(asked: str, names: Collection[str], roles: Roles) -> str | None:
    """Return the metric that a name means: itself, that of a role, or the only one that ends with it.

    Args:
        asked: the name.
        names: of the run's metrics.
        roles: of the run's metrics: `loss` is also what its program calls so.
    """
    if asked in names:
        return asked
    role = "validation_loss" if asked == "validation" else asked
    if role in ROLES and (chosen := roles.choose(role, names)) is not None:
        return chosen
    ends = [name for name in names if name.endswith((f".{asked}", f"/{asked}"))]
    return ends[0] if len(ends) == 1 else None
